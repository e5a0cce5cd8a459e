/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which datagrams leave by one call: a kernel cuts up only what is of one length. */
#include "harness.h"
#include "link/wire/outbox.h"

static struct simhca_outbox outbox;

static struct simhca_wire_path to(uint8_t host)
{
	return (struct simhca_wire_path){ .destination.raw[15] = host,
					  .source_port = SIMHCA_WIRE_PORT };
}

static uint16_t add(uint8_t host, size_t length)
{
	struct simhca_wire_path path = to(host);

	assert_non_null(simhca_outbox_room(&outbox, length, 1));
	return simhca_outbox_add(&outbox, &path, 0, length, false);
}

static void equal_ones_are_a_run(void **state)
{
	simhca_outbox_empty(&outbox);
	for (uint16_t i = 0; i < 10; i++)
		assert_int_equal(add(1, 100), i);
	assert_int_equal(outbox.runs, 1);
	assert_int_equal(outbox.run[0].segment, 100);
	assert_int_equal(outbox.run[0].length, 1000);
	assert_ptr_equal(outbox.run[0].bytes, outbox.bytes);
}

static void a_shorter_one_ends_it(void **state)
{
	simhca_outbox_empty(&outbox);
	add(1, 100);
	assert_int_equal(add(1, 60), 1);
	assert_int_equal(add(1, 60), 0);
	assert_int_equal(outbox.runs, 2);
	assert_int_equal(outbox.run[0].length, 160);
	assert_ptr_equal(outbox.run[1].bytes, outbox.bytes + 160);
	assert_int_equal(outbox.run[1].segment, 60);
}

static void a_longer_one_is_another(void **state)
{
	simhca_outbox_empty(&outbox);
	add(1, 60);
	assert_int_equal(add(1, 100), 0);
	assert_int_equal(outbox.runs, 2);
}

static void so_is_one_that_goes_elsewhere(void **state)
{
	struct simhca_wire_path path = to(2);

	simhca_outbox_empty(&outbox);
	add(1, 100);
	assert_int_equal(add(2, 100), 0);
	path.source.raw[15] = 9;
	assert_int_equal(simhca_outbox_add(&outbox, &path, 0, 100, false), 0);
	path.source_port++;
	assert_int_equal(simhca_outbox_add(&outbox, &path, 0, 100, false), 0);
	assert_int_equal(simhca_outbox_add(&outbox, &path, 1, 100, false), 0);
	assert_int_equal(outbox.runs, 5);
	assert_int_equal(outbox.run[1].path.destination.raw[15], 2);
	assert_int_equal(outbox.run[4].traffic_class, 1);
}

/* Of slices of 16 datagrams, while there is room for one as carry.c has it. */
static void slices_share_runs(void **state)
{
	unsigned int slices = 0;

	simhca_outbox_empty(&outbox);
	while (simhca_outbox_room(&outbox, (64 << 10) + 64 * 64, 66)) {
		for (int i = 0; i < 16; i++)
			add(1, 4116);
		slices++;
	}
	assert_int_equal(slices, 4);
	assert_int_equal(outbox.runs, 5);
}

/* What the kernel takes at most: 64 of them, and less than 64 KiB. */
static void runs_end(void **state)
{
	simhca_outbox_empty(&outbox);
	for (uint16_t i = 0; i < 100; i++)
		assert_int_equal(add(1, 20), i % 64);
	assert_int_equal(outbox.runs, 2);
	simhca_outbox_empty(&outbox);
	for (uint16_t i = 0; i < 20; i++)
		add(1, 4120);
	assert_int_equal(outbox.runs, 2);
	assert_in_range(outbox.run[0].length, 60000, 65507);
}

static void alone(void **state)
{
	struct simhca_wire_path path = to(1);

	simhca_outbox_empty(&outbox);
	for (int i = 0; i < 3; i++)
		assert_int_equal(simhca_outbox_add(&outbox, &path, 0, 100, true), 0);
	assert_int_equal(add(1, 100), 0);
	assert_int_equal(outbox.runs, 4);
}

static void it_fills_up(void **state)
{
	simhca_outbox_empty(&outbox);
	while (simhca_outbox_room(&outbox, 4120, 1))
		add(1, 4120);
	assert_in_range(outbox.used, SIMHCA_OUTBOX_BYTES - 4120, SIMHCA_OUTBOX_BYTES);
	simhca_outbox_empty(&outbox);
	for (uint8_t i = 0; simhca_outbox_room(&outbox, 20, 1); i++)
		add(i, 20);
	assert_int_equal(outbox.runs, SIMHCA_OUTBOX_RUNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_ones_are_a_run),
		cmocka_unit_test(a_shorter_one_ends_it),
		cmocka_unit_test(a_longer_one_is_another),
		cmocka_unit_test(so_is_one_that_goes_elsewhere),
		cmocka_unit_test(slices_share_runs),
		cmocka_unit_test(runs_end),
		cmocka_unit_test(alone),
		cmocka_unit_test(it_fills_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
