/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* PSNs are 24-bit serial numbers: their arithmetic, and QPs whose PSNs wrap while they work. */
#include "harness.h"
#include "queue/psn.h"

static void adding_stays_within_24_bits(void **state)
{
	assert_int_equal(simhca_psn_add(0, 1), 1);
	assert_int_equal(simhca_psn_add(0xfffffe, 1), 0xffffff);
	assert_int_equal(simhca_psn_add(0xffffff, 1), 0);
	assert_int_equal(simhca_psn_add(0xffffff, 0xffffff), 0xfffffe);
	assert_int_equal(simhca_psn_add(0x800000, 0x800000), 0);
}

static void order_is_that_of_serial_numbers(void **state)
{
	static const uint32_t starts[] = { 0, 1, 0x7fffff, 0x800000, 0xfffffe, 0xffffff };
	static const uint32_t steps[] = { 1, 2, 1000, 0x400000, 0x7fffff };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		assert_int_equal(simhca_psn_cmp(starts[i], starts[i]), 0);
		for (size_t j = 0; j < ARRAY_SIZE(steps); j++) {
			uint32_t later = simhca_psn_add(starts[i], steps[j]);

			assert_true(simhca_psn_cmp(starts[i], later) < 0);
			assert_true(simhca_psn_cmp(later, starts[i]) > 0);
		}
	}
}

static void a_message_takes_one_psn_a_packet(void **state)
{
	static const struct {
		uint32_t bytes, psns;
	} message[] = {
		{ 0, 1 },    { 1, 1 },	  { 1023, 1 },	 { 1024, 1 },	    { 1025, 2 },
		{ 2048, 2 }, { 2049, 3 }, { 65536, 64 }, { 1 << 20, 1024 }, { 300000, 293 }
	};
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	uint32_t psn = options.psn;

	options.buffer = 1 << 20;
	pair = pair_new(*state, &options);
	for (size_t i = 0; i < ARRAY_SIZE(message); i++) {
		rdma_write(&pair->a, i, 0, message[i].bytes, 0);
		expect(pair->a.send_cq, i, SUCCESS);
		psn = simhca_psn_add(psn, message[i].psns);
		assert_int_equal(requester_of(pair->a.qp)->psn_next, psn);
		assert_int_equal(responder_of(pair->b.qp)->epsn, psn);
		assert_int_equal(responder_of(pair->b.qp)->msn, i + 1);
	}
	/* The other direction counts for itself. */
	assert_int_equal(requester_of(pair->b.qp)->psn_next, options.psn);
	assert_int_equal(responder_of(pair->a.qp)->epsn, options.psn);
}

static void psns_wrap_on(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);
	struct pair *pair;

	options.psn = 0xfffffd;
	options.path_mtu = IBV_MTU_256;
	pair = pair_new(world, &options);
	for (int i = 0; i < 10; i++)
		check_works(pair);
	if (type != IBV_QPT_UD)
		assert_true(requester_of(pair->a.qp)->psn_next < 0x1000);
}

static void rc_goes_on_where_psns_wrap(void **state)
{
	psns_wrap_on(*state, IBV_QPT_RC);
}

static void uc_goes_on_where_psns_wrap(void **state)
{
	psns_wrap_on(*state, IBV_QPT_UC);
}

static void ud_goes_on_where_psns_wrap(void **state)
{
	psns_wrap_on(*state, IBV_QPT_UD);
}

/* A read takes as many PSNs as its response has packets. */
static void reads_and_atomics_wrap_too(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.psn = 0xfffffe;
	pair = pair_new(*state, &options);
	fill(pair->b.mr->addr, 4096, 7);
	rdma_read(&pair->a, 1, 8192, 4096, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->a.mr->addr + 8192, 4096, 7));
	assert_int_equal(requester_of(pair->a.qp)->psn_next, 2);
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
	     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(requester_of(pair->a.qp)->psn_next, 3);
}

/* Sends on with other PSNs: after a reset of the requester alone. */
static void rewind_requester(struct pair *pair, uint32_t psn)
{
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &pair->a.options);

	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	attr.sq_psn = psn;
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
}

static void wait_for_all_retries(struct world *world)
{
	for (int i = 0; i < 100; i++)
		advance(world, 100 * MSEC);
}

/*
 * An RC requester whose PSNs the responder does not expect gets no answer it could use. The
 * responder says so once and is silent then; the reason is its NAK's all the same.
 */
/* No header tells why there is silence, nor what a refusal is about. */
static int reason(struct world *world, int here, int in_packets)
{
	return world->tick ? in_packets : here;
}
#define expect_silence(world, cq, id, why)                                                         \
	expect_(cq, id, IBV_WC_RETRY_EXC_ERR,                                                      \
		reason(world, SIMHCA_REASON_##why, SIMHCA_REASON_NO_RESPONSE), __FILE__, __LINE__)

static void rc_with_a_gap_in_psns_fails(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	rewind_requester(pair, simhca_psn_add(options.psn, 100));
	fill(pair->a.mr->addr, 64, 1);
	rdma_write(&pair->a, 1, 0, 64, 0);
	wait_for_all_retries(*state);
	expect_why(pair->a.send_cq, 1, RETRY_EXC_ERR, PSN_SEQUENCE);
	assert_true(all_bytes(pair->b.mr->addr, 64, 0));
}

/* Also if the peer goes away after its NAK; but not once something was answered. */
static void the_reason_of_a_nak_is_kept(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct world *world = *state;

	rewind_requester(pair, simhca_psn_add(options.psn, 1));
	rdma_write(&pair->a, 1, 0, 64, 0);
	run_until_idle(world);
	simhca_device_set_port(world->device[1], false);
	wait_for_all_retries(world);
	expect_why(pair->a.send_cq, 1, RETRY_EXC_ERR, PSN_SEQUENCE);
	simhca_device_set_port(world->device[1], true);

	pair_reconnect(pair);
	rewind_requester(pair, simhca_psn_add(options.psn, 1));
	rdma_write(&pair->a, 2, 0, 64, 0);
	run_until_idle(world);
	expect_none(pair->a.send_cq);
	responder_of(pair->b.qp)->epsn =
		simhca_psn_add(options.psn, 1); /* what was missing has come */
	others_had_turns(pair->b.qp);
	advance(world, 100 * MSEC);
	expect(pair->a.send_cq, 2, SUCCESS);
	simhca_device_set_port(world->device[1], false);
	rdma_write(&pair->a, 3, 0, 64, 0);
	wait_for_all_retries(world);
	expect_why(pair->a.send_cq, 3, RETRY_EXC_ERR, NO_RESPONSE);
	simhca_device_set_port(world->device[1], true);
}

/*
 * What lies before rq_psn was never expected, however near, so it is no duplicate: nothing that was
 * not done is acknowledged. One line says why, however often it is repeated.
 */
static void what_lies_before_rq_psn_is_not_acknowledged(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_SEND, SIMHCA_WR_RDMA_WRITE,
					   SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIMHCA_WR_RDMA_READ,
					   SIMHCA_WR_ATOMIC_FETCH_AND_ADD };
	static const uint32_t back[] = { 1, 82, 0x7ffff0 };
	struct options options = default_options(IBV_QPT_RC);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes) * ARRAY_SIZE(back); i++) {
		struct pair *pair = pair_new(*state, &options);

		/* The like of what was received does not change it. */
		check_works(pair);
		memset(pair->b.mr->addr, 0x5a, 64);
		memset(pair->a.mr->addr, 0x77, 64);
		rewind_requester(pair,
				 simhca_psn_add(options.psn, 0u - back[i / ARRAY_SIZE(opcodes)]));
		recv_into(&pair->b, 7, 128, 64);
		forget_log(*state);
		post(&pair->a, .id = 1, .opcode = opcodes[i % ARRAY_SIZE(opcodes)],
		     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
		     .rkey = pair->b.mr->rkey, .compare_add = 1);
		wait_for_all_retries(*state);
		expect_silence(*state, pair->a.send_cq, 1, PSN_BEFORE_START);
		assert_true(all_bytes(pair->a.mr->addr, 64, 0x77));
		assert_true(all_bytes(pair->b.mr->addr, 64, 0x5a));
		expect_none(pair->b.recv_cq);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
		assert_int_equal(logged(*state, "ignores PSN"), 1);
	}
}

/* What begins with the PSN of an older request and ends behind it has been done in part at most. */
static void what_goes_beyond_a_duplicate_is_not_acknowledged(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_SEND, SIMHCA_WR_RDMA_WRITE,
					   SIMHCA_WR_RDMA_READ };
	struct options options = default_options(IBV_QPT_RC);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct pair *pair = pair_new(*state, &options);
		bool reads = opcodes[i] == SIMHCA_WR_RDMA_READ;

		rdma_write(&pair->a, 1, 0, 8, 0);
		expect(pair->a.send_cq, 1, SUCCESS);
		rewind_requester(pair, options.psn);
		recv_into(&pair->b, 7, 0, 8192);
		post(&pair->a, .id = 2, .opcode = opcodes[i], SGES(sge(pair->a.mr, 0, 8192)),
		     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
		wait_for_all_retries(*state);
		/* On the wire a probe for a hole in the path finds that PSNs differ (path_hole.h). */
		if (reads && world_has_wire(*state))
			expect_why(pair->a.send_cq, 2, RETRY_EXC_ERR, PSN_SEQUENCE);
		else if (reads)
			expect_silence(*state, pair->a.send_cq, 2, PSN_REUSED);
		else
			expect_(pair->a.send_cq, 2, IBV_WC_REM_INV_REQ_ERR,
				reason(*state, SIMHCA_REASON_PSN_REUSED,
				       SIMHCA_REASON_OPCODE_SEQUENCE),
				__FILE__, __LINE__);
		assert_int_equal(qp_state(pair->b.qp), reads ? IBV_QPS_RTS : IBV_QPS_ERR);
	}
}

/*
 * With different path MTUs the two ends would count PSNs differently, and soon one would take a new
 * request for a duplicate. What is one packet for both is none the worse for it.
 */
static void path_mtus_that_differ(void **state)
{
	static const enum ibv_mtu mtu[][2] = { { IBV_MTU_4096, IBV_MTU_1024 },
					       { IBV_MTU_1024, IBV_MTU_4096 } };
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(mtu) * ARRAY_SIZE(types); i++) {
		struct options options = default_options(types[i / 2]);
		struct pair *pair = pair_unconnected(*state, &options);
		bool reliable = options.type == IBV_QPT_RC;

		pair->a.options.path_mtu = mtu[i % 2][0];
		pair->b.options.path_mtu = mtu[i % 2][1];
		pair_connect(pair);
		fill(pair->a.mr->addr, 4096, 5);
		rdma_write(&pair->a, 1, 0, 1024, 0);
		expect(pair->a.send_cq, 1, SUCCESS);
		run_until_idle(*state);
		assert_true(filled(pair->b.mr->addr, 1024, 5));
		memset(pair->b.mr->addr, 0x5a, 4096);
		rdma_write(&pair->a, 2, 0, 1025, 0);
		if (reliable)
			expect_why(pair->a.send_cq, 2, REM_INV_REQ_ERR, PATH_MTU_DIFFERS);
		else
			expect(pair->a.send_cq, 2, SUCCESS);
		assert_true(all_bytes(pair->b.mr->addr, 4096, 0x5a));
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_REQ_ERR),
				 reliable);
	}
}

static void duplicates_are_answered_but_not_done_again(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *counter = (uint64_t *)pair->b.mr->addr;

	*counter = 100;
	for (int lap = 0; lap < 3; lap++) {
		rewind_requester(pair, options.psn);
		if (!lap)
			recv_into(&pair->b, 7, 2048, 64);
		fill(pair->a.mr->addr + 1024, 64, (uint32_t)lap);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
		     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
		     .rkey = pair->b.mr->rkey);
		send_from(&pair->a, 2, 1024, 64);
		rdma_write(&pair->a, 3, 1024, 64, 4096);
		rdma_read(&pair->a, 4, 8192, 64, 4096);
		for (uint64_t id = 1; id <= 4; id++)
			expect(pair->a.send_cq, id, SUCCESS);
		/* The first lap did it; the others get the first one's results. */
		assert_int_equal(*counter, 101);
		assert_int_equal(*(uint64_t *)pair->a.mr->addr, 100);
		assert_true(filled(pair->b.mr->addr + 2048, 64, 0));
		assert_true(filled(pair->b.mr->addr + 4096, 64, 0));
		assert_true(filled(pair->a.mr->addr + 8192, 64, 0));
		if (!lap)
			expect(pair->b.recv_cq, 7, SUCCESS);
		expect_none(pair->b.recv_cq);
	}
	assert_int_equal(responder_of(pair->b.qp)->msn, 4);
}

/* An atomic whose result is no longer remembered is not answered: it must not be done twice. */
static void forgotten_atomics_are_not_done_again(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.retry_cnt = 0;
	pair = pair_new(*state, &options);
	for (uint64_t i = 0; i < 2 * SIMHCA_MAX_RD_ATOMIC + 1; i++) {
		post(&pair->a, .id = i, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
		     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
		     .rkey = pair->b.mr->rkey);
		expect(pair->a.send_cq, i, SUCCESS);
	}
	rewind_requester(pair, options.psn);
	post(&pair->a, .id = 5, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
	     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	advance(*state, SEC);
	expect_silence(*state, pair->a.send_cq, 5, ATOMIC_FORGOTTEN);
	assert_int_equal(*(uint64_t *)pair->b.mr->addr, 2 * SIMHCA_MAX_RD_ATOMIC + 1);
}

/* What is read again must lie within what was read: else it is another request. */
static void a_repeated_read_is_a_part_of_the_first(void **state)
{
	static const struct {
		uint32_t psn, offset, length; /* after those of a read of 3000 bytes */
		bool other_key, answered;
	} cases[] = {
		{ 0, 0, 3000, false, true },	{ 0, 0, 1000, false, true },
		{ 1, 1024, 1976, false, true }, { 2, 2048, 952, false, true },
		{ 0, 8, 2992, false, false },	{ 0, 0, 3001, false, false },
		{ 1, 0, 1024, false, false },	{ 1, 1024, 1977, false, false },
		{ 0, 0, 3000, true, false },	{ 3, 0, 8, false, false /* of a write */ },
	};
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct mr *again;

	options.retry_cnt = 0;
	pair = pair_new(*state, &options);
	again = mr_over(pair->b.client, pair->b.client->pd, pair->b.mr->addr, pair->b.mr->length,
			pair->b.mr->iova, ALL_ACCESS);
	fill(pair->b.mr->addr, 4096, 1);
	rdma_read(&pair->a, 1, 0, 3000, 0);
	rdma_write(&pair->a, 2, 4096, 3000, 8192);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(pair->a.mr->addr, 0, 4096);
		rewind_requester(pair, simhca_psn_add(options.psn, cases[i].psn));
		post(&pair->a, .id = 3, .opcode = SIMHCA_WR_RDMA_READ,
		     SGES(sge(pair->a.mr, 0, cases[i].length)),
		     .remote_addr = pair->b.mr->iova + cases[i].offset,
		     .rkey = cases[i].other_key ? again->rkey : pair->b.mr->rkey);
		advance(*state, SEC);
		if (!cases[i].answered) {
			expect_silence(*state, pair->a.send_cq, 3, PSN_REUSED);
			assert_true(all_bytes(pair->a.mr->addr, 4096, 0));
			continue;
		}
		expect(pair->a.send_cq, 3, SUCCESS);
		assert_memory_equal(pair->a.mr->addr, pair->b.mr->addr + cases[i].offset,
				    cases[i].length);
	}
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
}

/* It may be a stray of one that was answered long ago: the responder goes on. */
static void a_repeated_read_by_a_key_that_has_gone(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct mr *mr = mr_new(pair->b.client, 4096, ALL_ACCESS);

	for (int lap = 0; lap < 2; lap++) {
		rewind_requester(pair, options.psn);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_READ, SGES(sge(pair->a.mr, 0, 64)),
		     .remote_addr = mr->iova, .rkey = mr->rkey);
		if (!lap) {
			expect(pair->a.send_cq, 1, SUCCESS);
			assert_int_equal(0, mr_gone(mr));
		}
	}
	expect_why(pair->a.send_cq, 1, REM_ACCESS_ERR, KEY_UNKNOWN);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR), 0);
	rewind_requester(pair, simhca_psn_add(options.psn, 1));
	check_works(pair);
}

/* UC accepts whatever PSN begins a message: what came between is simply lost. */
static void uc_with_a_gap_in_psns_goes_on(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_qp_attr attr;

	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &options);
	attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options);
	attr.sq_psn = simhca_psn_add(options.psn, 100);
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
	check_works(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adding_stays_within_24_bits),
		cmocka_unit_test(order_is_that_of_serial_numbers),
		ON_ETHERNET(a_message_takes_one_psn_a_packet),
		ON_ETHERNET(rc_goes_on_where_psns_wrap),
		ON_ETHERNET(uc_goes_on_where_psns_wrap),
		ON_ETHERNET(ud_goes_on_where_psns_wrap),
		ON_ETHERNET(reads_and_atomics_wrap_too),
		ON_ETHERNET(rc_with_a_gap_in_psns_fails),
		ON_INFINIBAND(rc_with_a_gap_in_psns_fails),
		ON_ETHERNET(the_reason_of_a_nak_is_kept),
		ON_INFINIBAND(the_reason_of_a_nak_is_kept),
		ON_ETHERNET(what_lies_before_rq_psn_is_not_acknowledged),
		ON_INFINIBAND(what_lies_before_rq_psn_is_not_acknowledged),
		ON_ETHERNET(what_goes_beyond_a_duplicate_is_not_acknowledged),
		ON_INFINIBAND(what_goes_beyond_a_duplicate_is_not_acknowledged),
		ON_ETHERNET(path_mtus_that_differ),
		ON_INFINIBAND(path_mtus_that_differ),
		ON_ETHERNET(duplicates_are_answered_but_not_done_again),
		ON_ETHERNET(forgotten_atomics_are_not_done_again),
		ON_ETHERNET(a_repeated_read_is_a_part_of_the_first),
		ON_ETHERNET(a_repeated_read_by_a_key_that_has_gone),
		ON_ETHERNET(uc_with_a_gap_in_psns_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
