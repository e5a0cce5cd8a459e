/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How fast a static rate is: pace.h by itself. */
#include "harness.h"
#include "link/wire/pace.h"

#define START 1000000000ull

/* Bytes in ten milliseconds, by packets that go as soon as they may. */
static uint64_t bytes_of(uint8_t rate, uint64_t packet)
{
	struct simhca_pace pace = { 0 };
	uint64_t now = START, bytes = 0, wait;

	while (now < START + 10000000) {
		wait = simhca_pace(&pace, rate, packet, now);
		now += wait;
		if (!wait)
			bytes += packet;
		if (bytes > 1000000000) /* without a limit */
			break;
	}
	return bytes;
}

/* Beside the credit that it begins with, of a tenth of that time, and a packet. */
static void rates(void **state)
{
	static const struct {
		uint8_t rate;
		uint64_t mbps;
	} rates[] = {
		{ IBV_RATE_2_5_GBPS, 2500 }, { IBV_RATE_5_GBPS, 5000 },
		{ IBV_RATE_10_GBPS, 10000 }, { IBV_RATE_14_GBPS, 14062 },
		{ IBV_RATE_20_GBPS, 20000 }, { IBV_RATE_25_GBPS, 25781 },
		{ IBV_RATE_40_GBPS, 40000 }, { IBV_RATE_60_GBPS, 60000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		uint64_t bytes = rates[i].mbps * 1250, got = bytes_of(rates[i].rate, 1000);

		assert_in_range(got, bytes * 109 / 100, bytes * 111 / 100);
	}
}

static void none(void **state)
{
	static const uint8_t rates[] = { IBV_RATE_MAX, 1, IBV_RATE_100_GBPS, IBV_RATE_600_GBPS,
					 255 };

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
		assert_true(bytes_of(rates[i], 1000) > 1000000000);
}

/* What was not sent long ago is not made up for. */
static void no_hoard(void **state)
{
	struct simhca_pace pace = { 0 };
	uint64_t bytes = 0;

	for (int i = 0; i < 2; i++) {
		bytes = 0;
		while (!simhca_pace(&pace, IBV_RATE_10_GBPS, 1000, START + (uint64_t)i * START))
			bytes += 1000;
	}
	assert_in_range(bytes, 1250000, 1252000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates),
		cmocka_unit_test(none),
		cmocka_unit_test(no_hoard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
