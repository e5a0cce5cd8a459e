/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "profile.h"
#include "simhca-device.h"

#define MELLANOX_OUI 0x02c9 /* the verbs' vendor; that of PCI is another number */
#define MELLANOX_PCI 0x15b3
#define INTEL 0x8086

enum profile_number {
	PROFILE_SIMHCA,
	PROFILE_CONNECTX_5,
	PROFILE_CONNECTX_6,
	PROFILE_CONNECTX_6_DX,
	PROFILE_CONNECTX_7,
	PROFILE_CONNECTX_8,
	PROFILE_E810,
};

/* In the order of enum profile_number. */
const struct choice profile_choices[] = {
	{ "simhca", PROFILE_SIMHCA },
	{ "connectx-5", PROFILE_CONNECTX_5 },
	{ "connectx-6", PROFILE_CONNECTX_6 },
	{ "connectx-6-dx", PROFILE_CONNECTX_6_DX },
	{ "connectx-7", PROFILE_CONNECTX_7 },
	{ "connectx-8", PROFILE_CONNECTX_8 },
	{ "e810", PROFILE_E810 },
	{ NULL, 0 },
};

/* Device IDs of mlx5 are the same to verbs and PCI, in decimal what comes after MT. */
#define MLX5(id, firmware, rate, type, board, subsystem, pcie)                                     \
	{                                                                                          \
		.device_name = "mlx5_0", .hca_type = type, .board_id = board,                      \
		.product = { .vendor_id = MELLANOX_OUI,                                            \
			     .vendor_part_id = id,                                                 \
			     .fw_ver = firmware,                                                   \
			     .lane_speed = rate },                                                 \
		.pci = { MELLANOX_PCI, id, MELLANOX_PCI, subsystem, 0, pcie },                     \
	}

static const struct profile profiles[] = {
	[PROFILE_SIMHCA] = { .device_name = "simhca0", .hca_type = "simhca", .board_id = "simhca" },
	[PROFILE_CONNECTX_5] = MLX5(4119, "16.35.3006", SIMHCA_EDR, "MT4119", "MT_0000000008",
				    0x0007, "8.0 GT/s PCIe"),
	[PROFILE_CONNECTX_6] = MLX5(4123, "20.39.1002", SIMHCA_HDR, "MT4123", "MT_0000000223",
				    0x0006, "16.0 GT/s PCIe"),
	/* two lanes of 50 Gb/s, which the port counts as four of 25 */
	[PROFILE_CONNECTX_6_DX] = MLX5(4125, "22.39.1002", SIMHCA_EDR, "MT4125", "MT_0000000359",
				       0x0016, "16.0 GT/s PCIe"),
	[PROFILE_CONNECTX_7] = MLX5(4129, "28.39.1002", SIMHCA_NDR, "MT4129", "MT_0000000838",
				    0x0041, "32.0 GT/s PCIe"),
	[PROFILE_CONNECTX_8] = MLX5(4131, "40.45.1020", SIMHCA_XDR, "MT4131", "MT_0000001222",
				    0x0091, "64.0 GT/s PCIe"),
	[PROFILE_E810] = { .device_name = "irdma0",
			   .product = { .vendor_id = INTEL,
					.vendor_part_id = 0x1592,
					.hw_ver = 2,
					.fw_ver = "1.71",
					.lane_speed = SIMHCA_EDR },
			   .pci = { INTEL, 0x1592, INTEL, 0x0002, 2, "16.0 GT/s PCIe" } },
};

const struct profile *profile_of(const struct settings *settings)
{
	return &profiles[settings->profile];
}

const char *profile_name(const struct settings *settings)
{
	return profile_choices[settings->profile].name;
}
