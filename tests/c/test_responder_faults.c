/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a request that cannot be carried out means for the responder, by the classes of IBTA vol. 1,
 * 9.9.3: whose QP fails, what becomes of the receive, who hears of it.
 */
#include "harness.h"

static uint64_t too_short_of(struct world *world)
{
	uint64_t count[SIMHCA_STATS];

	simhca_device_stats(world->device[1], count);
	return count[SIMHCA_STAT_RESP_LOCAL_LENGTH];
}

/* Class D: dropped, the receive is there for the next message, and the QP goes on. */
static void what_is_too_long_and_unreliable_is_dropped(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UD, IBV_QPT_UC };
	/* The last two are more than one slice, and too long only in the second. */
	static const uint32_t sizes[] = { 101, 4096, 300000 };

	for (size_t i = 0; i < ARRAY_SIZE(types) * ARRAY_SIZE(sizes); i++) {
		struct options options = default_options(types[i % 2]);
		uint32_t size = sizes[i / 2];
		uint32_t grh = options.type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
		uint64_t counted;
		struct pair *pair;

		if (options.type == IBV_QPT_UD && size > 4096)
			continue;
		options.buffer = 1 << 20;
		pair = pair_new(*state, &options);
		counted = too_short_of(*state);
		memset(pair->b.mr->addr, 0xee, 1 << 20);
		recv_into(&pair->b, 1, 0, size - 1 + grh);
		forget_log(*state);
		send_from(&pair->a, 2, 0, size);
		expect(pair->a.send_cq, 2, SUCCESS);
		run_until_idle(*state);
		expect_none(pair->b.recv_cq);
		assert_int_equal(logged(*state, "drops a request"), 1);
		assert_int_equal(too_short_of(*state), counted + 1);
		/* Of a datagram not a byte is placed. */
		if (grh)
			assert_true(all_bytes(pair->b.mr->addr, 8192, 0xee));
		assert_int_equal(pair->b.client->num_events, 0);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
		/* One that fits takes the same receive. */
		fill(pair->a.mr->addr, 64, 4);
		send_from(&pair->a, 3, 0, 64);
		expect(pair->a.send_cq, 3, SUCCESS);
		assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len, 64 + grh);
		assert_true(filled(pair->b.mr->addr + grh, 64, 4));
		check_works(pair);
	}
}

/* Class E: what was taken from an SRQ cannot go back. It fails, and the QP goes on. */
static void what_is_too_long_takes_a_receive_of_an_srq(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UD, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct options options = default_options(types[i]);
		struct client *server = client_new(*state, 1);
		struct srq *srq = srq_new(server, 8, 1, 0);
		struct mr *mr = mr_new(server, 4096, ALL_ACCESS);
		uint32_t grh = options.type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
		struct simhca_sge receive = sge(mr, 0, 100 + grh);
		struct side *b = world_alloc(*state, sizeof(*b));
		struct side *a = side_new(client_new(*state, 0), &options);

		side_make(b, server, &options, srq);
		a->peer = b;
		b->peer = a;
		qp_connect(a->qp, 1, b->qp->qpn, &options);
		qp_connect(b->qp, 0, a->qp->qpn, &options);
		srq_recv(srq, 1, &receive, 1);
		srq_recv(srq, 2, &receive, 1);
		send_from(a, 5, 0, 101);
		expect(a->send_cq, 5, SUCCESS);
		expect_why(b->recv_cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
		assert_int_equal(qp_state(b->qp), IBV_QPS_RTS);
		fill(a->mr->addr, 100, 4);
		send_from(a, 6, 0, 100);
		expect(a->send_cq, 6, SUCCESS);
		expect(b->recv_cq, 2, SUCCESS);
		assert_true(filled(mr->addr + grh, 100, 4));
		assert_int_equal(server->num_events, 0);
	}
}

/* Class A: a receive whose own memory is at fault fails its QP, whatever the transport. */
static void a_receive_with_a_bad_key_fails_its_qp(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct options options = default_options(types[i]);
		struct pair *pair = pair_new(*state, &options);
		struct simhca_sge bad = sge(pair->b.mr, 0, 200);

		bad.lkey ^= 1;
		qp_recv(pair->b.qp, 1, &bad, 1);
		send_from(&pair->a, 2, 0, 64);
		if (options.type == IBV_QPT_RC)
			expect_why(pair->a.send_cq, 2, REM_OP_ERR, KEY_STALE);
		else
			expect(pair->a.send_cq, 2, SUCCESS);
		expect_why(pair->b.recv_cq, 1, LOC_PROT_ERR, KEY_STALE);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	}
}

static void write_with_imm(struct pair *pair, uint64_t offset, uint32_t rkey)
{
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = 77,
	     SGES(sge(pair->a.mr, 0, 64)), .remote_addr = pair->b.mr->iova + offset, .rkey = rkey);
}

/* Class C, with a receive that hears of it (11.6.2); without one it is an event. */
static void a_write_with_immediate_data_and_a_bad_key(void **state)
{
	for (int awaited = 0; awaited < 2; awaited++) {
		for (int out_of_range = 0; out_of_range < 2; out_of_range++) {
			struct options options = default_options(IBV_QPT_RC);
			struct pair *pair = pair_new(*state, &options);
			enum simhca_reason reason =
				out_of_range ? SIMHCA_REASON_KEY_PAST_END : SIMHCA_REASON_KEY_STALE;

			if (awaited) {
				recv_into(&pair->b, 8, 0, 64);
				recv_into(&pair->b, 9, 0, 64);
			}
			write_with_imm(pair, out_of_range ? options.buffer - 63 : 0,
				       pair->b.mr->rkey ^ !out_of_range);
			expect_(pair->a.send_cq, 1, IBV_WC_REM_ACCESS_ERR, reason, __FILE__,
				__LINE__);
			if (awaited) {
				expect_(pair->b.recv_cq, 8, IBV_WC_LOC_ACCESS_ERR, reason, __FILE__,
					__LINE__);
				expect_why(pair->b.recv_cq, 9, WR_FLUSH_ERR, FLUSHED);
			}
			assert_int_equal(events_of(pair->b.client, pair->b.qp,
						   IBV_EVENT_QP_ACCESS_ERR),
					 !awaited);
			assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
			assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
		}
	}
}

/*
 * The immediate data, and so the receive, come with the last packet of the path MTU, and what is wrong with
 * the range is seen in the first one. So it is in parts of any size by which the link carries the message.
 */
static void a_long_write_with_immediate_data_fails_without_a_receive(void **state)
{
	static const uint32_t sizes[] = {
		1, 1024, 1025, 65536, 256 << 10, (256 << 10) + 1, 600000
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct options options = default_options(IBV_QPT_RC);
		bool by_receive = sizes[i] <= 1024;
		struct pair *pair;

		options.buffer = 1 << 20;
		options.path_mtu = IBV_MTU_1024;
		pair = pair_new(*state, &options);
		recv_into(&pair->b, 8, 0, 64);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = 77,
		     SGES(sge(pair->a.mr, 0, sizes[i])),
		     .remote_addr = pair->b.mr->iova + options.buffer - sizes[i] + 1,
		     .rkey = pair->b.mr->rkey);
		expect_why(pair->a.send_cq, 1, REM_ACCESS_ERR, KEY_PAST_END);
		if (by_receive)
			expect_why(pair->b.recv_cq, 8, LOC_ACCESS_ERR, KEY_PAST_END);
		else
			expect_why(pair->b.recv_cq, 8, WR_FLUSH_ERR, FLUSHED);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR),
				 !by_receive);
	}
}

/* Class D on UC: its receive is there for the next one. */
static void a_write_with_immediate_data_that_is_dropped(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_new(*state, &options);

	recv_into(&pair->b, 8, 0, 64);
	write_with_imm(pair, 0, pair->b.mr->rkey ^ 1);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_none(pair->b.recv_cq);
	write_with_imm(pair, 0, pair->b.mr->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(expect(pair->b.recv_cq, 8, SUCCESS).imm_or_rkey, 77);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
}

#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)

/* The line about it names what it asked for, whatever came before, and however early it fails. */
static void what_is_refused_is_named(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	char words[64];

	for (int reads = 0; reads < 2; reads++) {
		struct pair *pair;

		options.access = 0;
		pair = pair_new(*state, &options);
		forget_log(*state);
		if (reads)
			rdma_read(&pair->a, 1, 0, 64, 128);
		else
			rdma_write(&pair->a, 1, 0, 64, 128);
		expect(pair->a.send_cq, 1, REM_INV_REQ_ERR);
		snprintf(words, sizeof(words), "va 0x%llx, rkey 0x%08x, ",
			 (unsigned long long)pair->b.mr->iova + 128, pair->b.mr->rkey);
		assert_int_equal(logged(*state, words), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(what_is_too_long_and_unreliable_is_dropped),
		ON_BOTH(what_is_too_long_takes_a_receive_of_an_srq),
		ON_BOTH(a_receive_with_a_bad_key_fails_its_qp),
		ON_BOTH(a_write_with_immediate_data_and_a_bad_key),
		ON_BOTH(a_long_write_with_immediate_data_fails_without_a_receive),
		ON_BOTH(a_write_with_immediate_data_that_is_dropped),
		ON_ETHERNET(what_is_refused_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
