/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <string.h>

#include "checksum.h"
#include "core/av.h"
#include "grh.h"

void simhca_grh_build(const struct simhca_av *av, const union simhca_gid *sgid, uint64_t length,
		      bool infiniband, uint8_t grh[SIMHCA_GRH_BYTES])
{
	/* BTH, DETH, data, ICRC; and on RoCE v2 the UDP header before them. */
	uint16_t payload = (uint16_t)(12 + 8 + length + 4 + (infiniband ? 0 : 8));
	uint32_t word;

	memset(grh, 0, SIMHCA_GRH_BYTES);
	if (!infiniband && simhca_gid_is_ipv4(&av->dgid)) {
		uint8_t *ip = grh + 20;
		uint16_t half;

		ip[0] = 0x45;
		ip[1] = av->traffic_class;
		half = htons((uint16_t)(20 + payload));
		memcpy(ip + 2, &half, 2);
		ip[6] = 0x40; /* do not fragment */
		ip[8] = av->hop_limit;
		ip[9] = 17; /* UDP */
		memcpy(ip + 12, sgid->raw + 12, 4);
		memcpy(ip + 16, av->dgid.raw + 12, 4);
		half = htons(simhca_checksum_end(simhca_checksum_add(0, ip, 20)));
		memcpy(ip + 10, &half, 2);
		return;
	}
	word = htonl(6u << 28 | (uint32_t)av->traffic_class << 20 | (av->flow_label & 0xfffff));
	memcpy(grh, &word, 4);
	grh[4] = (uint8_t)(payload >> 8);
	grh[5] = (uint8_t)payload;
	grh[6] = infiniband ? 0x1b /* IBA transport */ : 17 /* UDP */;
	grh[7] = av->hop_limit;
	memcpy(grh + 8, sgid->raw, 16);
	memcpy(grh + 24, av->dgid.raw, 16);
}

uint8_t simhca_grh_of_roce(const struct simhca_av *av)
{
	return 1 << 3 | (simhca_gid_is_ipv4(&av->dgid) ? 2 : 1);
}
