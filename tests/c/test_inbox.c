/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP has sent by a wire, and what of it went out before. */
#include "harness.h"
#include "link/wire/inbox.h"
#include "queue/psn.h"

#define MTU_4096 5 /* as enum ibv_mtu has it */

static struct simhca_inbox *inbox;

static int open_inbox(void **state)
{
	const struct simhca_wire_path path = { .source_port = SIMHCA_WIRE_PORT };

	inbox = simhca_inbox_create();
	assert_non_null(inbox);
	simhca_inbox_open(inbox, &path, 7, MTU_4096);
	return 0;
}

static int close_inbox(void **state)
{
	simhca_inbox_destroy(inbox);
	return 0;
}

static struct simhca_packet packet_of(enum simhca_packet_op op, uint32_t psn)
{
	return (struct simhca_packet){ .op = op, .psn = psn & SIMHCA_PSN_MASK };
}

static void go_out(enum simhca_packet_op op, uint32_t psn, uint32_t count)
{
	const struct simhca_packet packet = packet_of(op, psn);

	simhca_inbox_sent(inbox, &packet, count);
}

static bool is_new(uint32_t psn)
{
	const struct simhca_packet packet = packet_of(SIMHCA_PKT_WRITE, psn);

	return simhca_inbox_is_new(inbox, &packet);
}

static void expect_sent(uint64_t sent, uint64_t repeated)
{
	struct simhca_wire_traffic traffic;

	assert_true(simhca_inbox_traffic(inbox, &traffic));
	assert_int_equal(traffic.sent, sent);
	assert_int_equal(traffic.repeated, repeated);
}

/* Also where PSNs begin anew. */
static void what_goes_again_is_repeated(void **state)
{
	uint32_t first = SIMHCA_PSN_MASK - 7;

	assert_true(is_new(first));
	go_out(SIMHCA_PKT_WRITE, first, 16);
	expect_sent(16, 0);
	assert_false(is_new(first + 15));
	assert_true(is_new(first + 16));
	go_out(SIMHCA_PKT_WRITE, first, 16);
	expect_sent(32, 16);
	go_out(SIMHCA_PKT_WRITE, first + 4, 4);
	expect_sent(36, 20);
	assert_true(is_new(first + 16));
}

/* A slice that begins at a loss can end behind what has gone out. */
static void a_part_of_a_slice_is_new(void **state)
{
	go_out(SIMHCA_PKT_WRITE, 100, 10);
	go_out(SIMHCA_PKT_WRITE, 104, 16);
	expect_sent(26, 6);
	assert_false(is_new(119));
	assert_true(is_new(120));
}

static void responses_have_the_psns_of_their_requests(void **state)
{
	go_out(SIMHCA_PKT_WRITE, 100, 10);
	go_out(SIMHCA_PKT_READ_RESPONSE, 100, 16);
	expect_sent(26, 0);
	assert_true(is_new(110));
}

/* A request that asks again for a part of what one has asked for is repeated, wherever in it it begins. */
static void a_read_has_the_psns_of_its_responses(void **state)
{
	struct simhca_packet read = packet_of(SIMHCA_PKT_READ, 100);

	read.mtu = IBV_MTU_1024;
	read.dma_length = 7 * 1024 + 1;
	simhca_inbox_sent(inbox, &read, 1);
	expect_sent(1, 0);
	assert_false(is_new(107));
	assert_true(is_new(108));
	read.psn = 106;
	read.dma_length = 1025;
	simhca_inbox_sent(inbox, &read, 1);
	expect_sent(2, 1);
	assert_true(is_new(108));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_inbox, close_inbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_goes_again_is_repeated),
		TEST(a_part_of_a_slice_is_new),
		TEST(responses_have_the_psns_of_their_requests),
		TEST(a_read_has_the_psns_of_its_responses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
