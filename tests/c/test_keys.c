/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Keys: every way in which one can be wrong, as rkey and as lkey, with its own reason. */
#include "harness.h"

enum { GUARD = 4096, REGION = 8192 };

/* An arena whose middle is registered, so that one byte outside is still ours to look at. */
struct setting {
	struct pair *pair;
	uint8_t *arena;
	struct mr *mr;
};

static struct setting make(struct world *world, struct side *(*owner)(struct pair *pair))
{
	struct options options = default_options(IBV_QPT_RC);
	struct setting s = { .pair = pair_new(world, &options) };
	struct client *client = owner(s.pair)->client;

	s.arena = world_alloc(world, GUARD + REGION + GUARD);
	s.mr = mr_over(client, client->pd, s.arena + GUARD, REGION, (uintptr_t)s.arena + GUARD,
		       ALL_ACCESS);
	return s;
}

static struct side *side_a(struct pair *pair)
{
	return &pair->a;
}

static struct side *side_b(struct pair *pair)
{
	return &pair->b;
}

/* Both QPs are in error, and the arena is as it was. */
static void check_refused(struct setting *s)
{
	assert_int_equal(qp_state(s->pair->a.qp), IBV_QPS_ERR);
	assert_true(all_bytes(s->arena, GUARD + REGION + GUARD, 0));
}

/* A write, a read and an atomic to addr with rkey are refused by the responder for this reason. */
static void remote_refused(struct setting *s, uint64_t addr, uint32_t rkey, uint32_t length,
			   enum simhca_reason reason)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_RDMA_WRITE, SIMHCA_WR_RDMA_READ,
					   SIMHCA_WR_RDMA_WRITE_WITH_IMM,
					   SIMHCA_WR_ATOMIC_FETCH_AND_ADD };
	struct pair *pair = s->pair;

	fill(pair->a.mr->addr, 4096, 3);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		bool atomic = opcodes[i] == SIMHCA_WR_ATOMIC_FETCH_AND_ADD;
		struct simhca_cqe cqe;

		if (atomic && (addr % 8 || length != 8))
			continue;
		if (opcodes[i] == SIMHCA_WR_RDMA_WRITE_WITH_IMM)
			recv_into(&pair->b, 77, 0, 64);
		forget_events(pair->b.client);
		post(&pair->a, .id = i, .opcode = opcodes[i], .compare_add = 1,
		     SGES(sge(pair->a.mr, 0, length)), .remote_addr = addr, .rkey = rkey);
		expect_(pair->a.send_cq, i, IBV_WC_REM_ACCESS_ERR, reason, __FILE__, __LINE__);
		check_refused(s);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
		run_until_idle(pair->a.world);
		while (cq_poll(pair->b.recv_cq, &cqe))
			assert_int_not_equal(cqe.status, IBV_WC_SUCCESS);
		if (opcodes[i] != SIMHCA_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(
				events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR), 1);
		pair_reconnect(pair);
	}
	assert_true(filled(pair->a.mr->addr, 4096, 3));
}

static void rkeys_of_no_region(void **state)
{
	struct setting s = make(*state, side_b);

	remote_refused(&s, s.mr->iova, 0, 8, SIMHCA_REASON_KEY_UNKNOWN);
	remote_refused(&s, s.mr->iova, s.mr->rkey + (1000u << 8), 8, SIMHCA_REASON_KEY_UNKNOWN);
	remote_refused(&s, s.mr->iova, 0xffffffff, 8, SIMHCA_REASON_KEY_UNKNOWN);
	remote_refused(&s, s.mr->iova, (uint32_t)SIMHCA_MPT_ENTRIES << 8, 8,
		       SIMHCA_REASON_KEY_UNKNOWN);
}

static void rkeys_with_another_variant(void **state)
{
	struct setting s = make(*state, side_b);

	for (uint32_t bit = 1; bit < 256; bit <<= 1)
		remote_refused(&s, s.mr->iova, s.mr->rkey ^ bit, 8, SIMHCA_REASON_KEY_STALE);
}

static void rkeys_of_a_region_that_is_gone(void **state)
{
	struct setting s = make(*state, side_b);

	assert_int_equal(0, simhca_dereg_mr(s.pair->b.client->context, s.mr->handle, NULL));
	remote_refused(&s, s.mr->iova, s.mr->rkey, 8, SIMHCA_REASON_KEY_UNKNOWN);
}

/* When an index is used again, the old key does not open the new region. */
static void a_key_is_not_given_twice_in_a_row(void **state)
{
	struct client *client = client_new(*state, 0);
	uint8_t *memory = world_alloc(*state, 4096);
	struct simhca_reg_mr_reply reply;
	uint32_t *last = world_alloc(*state, SIMHCA_MPT_ENTRIES * sizeof(*last));

	for (int i = 0; i < 2 * SIMHCA_MPT_ENTRIES; i++) {
		assert_int_equal(0, mr_try(client, client->pd, memory, 0, 0, 0, &reply));
		assert_true(SIMHCA_KEY_INDEX(reply.rkey) > 0);
		assert_true(SIMHCA_KEY_INDEX(reply.rkey) < SIMHCA_MPT_ENTRIES);
		assert_int_not_equal(reply.rkey, last[SIMHCA_KEY_INDEX(reply.rkey)]);
		last[SIMHCA_KEY_INDEX(reply.rkey)] = reply.rkey;
		assert_int_equal(0, simhca_dereg_mr(client->context, reply.handle, NULL));
	}
}

static void rkeys_of_another_pd(void **state)
{
	struct setting s = make(*state, side_b);
	struct client *client = s.pair->b.client, *stranger = client_new(*state, 1);
	struct mr *other =
		mr_over(client, pd_new(client), s.arena + GUARD, REGION, s.mr->iova, ALL_ACCESS);
	struct mr *foreign =
		mr_over(stranger, stranger->pd, s.arena + GUARD, REGION, s.mr->iova, ALL_ACCESS);

	remote_refused(&s, other->iova, other->rkey, 8, SIMHCA_REASON_KEY_WRONG_PD);
	remote_refused(&s, foreign->iova, foreign->rkey, 8, SIMHCA_REASON_KEY_WRONG_PD);
}

static void remote_ranges_one_byte_outside(void **state)
{
	struct setting s = make(*state, side_b);

	remote_refused(&s, s.mr->iova - 1, s.mr->rkey, 1, SIMHCA_REASON_KEY_BELOW_START);
	remote_refused(&s, s.mr->iova - 1, s.mr->rkey, REGION / 2, SIMHCA_REASON_KEY_BELOW_START);
	remote_refused(&s, s.mr->iova - 8, s.mr->rkey, 8, SIMHCA_REASON_KEY_BELOW_START);
	remote_refused(&s, s.mr->iova + REGION, s.mr->rkey, 1, SIMHCA_REASON_KEY_PAST_END);
	remote_refused(&s, s.mr->iova + REGION, s.mr->rkey, 8, SIMHCA_REASON_KEY_PAST_END);
	remote_refused(&s, s.mr->iova + REGION - 7, s.mr->rkey, 8, SIMHCA_REASON_KEY_PAST_END);
	remote_refused(&s, s.mr->iova, s.mr->rkey, REGION + 1, SIMHCA_REASON_KEY_PAST_END);
	remote_refused(&s, s.mr->iova + 1, s.mr->rkey, REGION, SIMHCA_REASON_KEY_PAST_END);
	remote_refused(&s, 0, s.mr->rkey, 8, SIMHCA_REASON_KEY_BELOW_START);
}

static void remote_ranges_that_wrap(void **state)
{
	struct setting s = make(*state, side_b);

	remote_refused(&s, UINT64_MAX, s.mr->rkey, 2, SIMHCA_REASON_KEY_WRAPS);
	remote_refused(&s, UINT64_MAX - 100, s.mr->rkey, 4096, SIMHCA_REASON_KEY_WRAPS);
	/* The last bytes there are do not wrap; they are merely not in the region. */
	remote_refused(&s, UINT64_MAX - 7, s.mr->rkey, 8, SIMHCA_REASON_KEY_PAST_END);
}

/* The whole region and its first and last bytes are open. */
static void remote_ranges_inside(void **state)
{
	struct setting s = make(*state, side_b);
	static const struct {
		uint32_t offset, length;
	} range[] = {
		{ 0, REGION }, { 0, 1 }, { REGION - 1, 1 }, { 1, REGION - 1 }, { REGION - 8, 8 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(range); i++) {
		fill(s.pair->a.mr->addr, range[i].length, (uint32_t)i);
		post(&s.pair->a, .id = i, .opcode = SIMHCA_WR_RDMA_WRITE,
		     SGES(sge(s.pair->a.mr, 0, range[i].length)),
		     .remote_addr = s.mr->iova + range[i].offset, .rkey = s.mr->rkey);
		expect(s.pair->a.send_cq, i, SUCCESS);
		assert_true(
			filled(s.arena + GUARD + range[i].offset, range[i].length, (uint32_t)i));
		assert_true(all_bytes(s.arena, GUARD, 0));
		assert_true(all_bytes(s.arena + GUARD + REGION, GUARD, 0));
	}
}

/* An access of no bytes names no memory: key and address are not looked at (IBTA 9.7.4.1.5). */
static void zero_length_needs_no_key(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_RDMA_WRITE, SIMHCA_WR_RDMA_READ };
	struct setting s = make(*state, side_b);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		post(&s.pair->a, .id = 1, .opcode = opcodes[i], .remote_addr = 0xdeadbeef,
		     .rkey = 0x12345678);
		expect(s.pair->a.send_cq, 1, SUCCESS);
		post(&s.pair->a, .id = 2, .opcode = opcodes[i], .remote_addr = s.mr->iova,
		     .rkey = s.mr->rkey,
		     SGES({ .addr = 0xdeadbeef, .length = 0, .lkey = 0x12345678 }));
		expect(s.pair->a.send_cq, 2, SUCCESS);
	}
	assert_int_equal(qp_state(s.pair->b.qp), IBV_QPS_RTS);
}

/* Gather: a bad lkey fails at the sender, and nothing reaches the peer. */
static void gather_refused(struct setting *s, struct simhca_sge bad, enum simhca_reason reason)
{
	struct pair *pair = s->pair;

	/* As the only, the first and the last of the list. */
	for (int place = 0; place < 3; place++) {
		struct simhca_sge list[2] = { sge(pair->a.mr, 0, 16), sge(pair->a.mr, 16, 16) };

		list[place == 2] = bad;
		recv_into(&pair->b, 9, 0, 4096 * 4);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND, .sges = list,
		     .num_sge = place ? 2 : 1);
		expect_(pair->a.send_cq, 1, IBV_WC_LOC_PROT_ERR, reason, __FILE__, __LINE__);
		check_refused(s);
		expect_none(pair->b.recv_cq);
		pair_reconnect(pair);
	}
}

static struct simhca_sge at(uint64_t addr, uint32_t length, uint32_t lkey)
{
	return (struct simhca_sge){ .addr = addr, .length = length, .lkey = lkey };
}

static void lkeys_that_are_wrong(void **state)
{
	struct setting s = make(*state, side_a);
	struct client *client = s.pair->a.client;
	struct mr *other =
		mr_over(client, pd_new(client), s.arena + GUARD, REGION, s.mr->iova, ALL_ACCESS);
	struct mr *gone = mr_new(client, 64, ALL_ACCESS);

	simhca_dereg_mr(client->context, gone->handle, NULL);
	gather_refused(&s, at(s.mr->iova, 8, 0), SIMHCA_REASON_KEY_UNKNOWN);
	gather_refused(&s, at(s.mr->iova, 8, 0xffffffff), SIMHCA_REASON_KEY_UNKNOWN);
	gather_refused(&s, sge(gone, 0, 8), SIMHCA_REASON_KEY_UNKNOWN);
	gather_refused(&s, at(s.mr->iova, 8, s.mr->lkey ^ 0x80), SIMHCA_REASON_KEY_STALE);
	gather_refused(&s, sge(other, 0, 8), SIMHCA_REASON_KEY_WRONG_PD);
	gather_refused(&s, at(s.mr->iova - 1, 8, s.mr->lkey), SIMHCA_REASON_KEY_BELOW_START);
	gather_refused(&s, at(s.mr->iova + REGION - 7, 8, s.mr->lkey), SIMHCA_REASON_KEY_PAST_END);
	gather_refused(&s, at(s.mr->iova, REGION + 1, s.mr->lkey), SIMHCA_REASON_KEY_PAST_END);
	gather_refused(&s, at(UINT64_MAX - 3, 8, s.mr->lkey), SIMHCA_REASON_KEY_WRAPS);
}

/* The same in the list that takes the response of a read. */
static void lkeys_of_reads_and_atomics_need_local_write(void **state)
{
	struct setting s = make(*state, side_a);
	struct client *client = s.pair->a.client;
	struct mr *readonly = mr_over(client, client->pd, s.arena + GUARD, REGION, s.mr->iova, 0);
	struct simhca_sge bad[] = { at(s.mr->iova, 8, 0), at(s.mr->iova - 8, 8, s.mr->lkey),
				    sge(readonly, 0, 8) };
	enum simhca_reason reason[] = { SIMHCA_REASON_KEY_UNKNOWN, SIMHCA_REASON_KEY_BELOW_START,
					SIMHCA_REASON_MR_NO_LOCAL_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		for (int atomic = 0; atomic < 2; atomic++) {
			fill(s.pair->b.mr->addr, 64, 5);
			post(&s.pair->a, .id = i,
			     .opcode = atomic ? SIMHCA_WR_ATOMIC_CMP_AND_SWP : SIMHCA_WR_RDMA_READ,
			     .sges = &bad[i], .num_sge = 1, .remote_addr = s.pair->b.mr->iova,
			     .rkey = s.pair->b.mr->rkey, .swap = 1);
			expect_(s.pair->a.send_cq, i, IBV_WC_LOC_PROT_ERR, reason[i], __FILE__,
				__LINE__);
			check_refused(&s);
			assert_true(filled(s.pair->b.mr->addr, 64, 5)); /* no atomic happened */
			pair_reconnect(s.pair);
		}
	}
	/* To send from it no right is needed. */
	recv_into(&s.pair->b, 3, 0, 64);
	post(&s.pair->a, .id = 3, .opcode = SIMHCA_WR_SEND, SGES(sge(readonly, 0, 8)));
	expect(s.pair->a.send_cq, 3, SUCCESS);
	expect(s.pair->b.recv_cq, 3, SUCCESS);
}

/* Scatter: a receive buffer that cannot be used fails on both sides. */
static void receive_buffers_that_are_wrong(void **state)
{
	struct setting s = make(*state, side_b);
	struct client *client = s.pair->b.client;
	struct mr *readonly = mr_over(client, client->pd, s.arena + GUARD, REGION, s.mr->iova, 0);
	struct mr *other =
		mr_over(client, pd_new(client), s.arena + GUARD, REGION, s.mr->iova, ALL_ACCESS);
	struct {
		struct simhca_sge sge;
		enum simhca_reason reason;
	} bad[] = {
		{ at(s.mr->iova, 64, 0), SIMHCA_REASON_KEY_UNKNOWN },
		{ at(s.mr->iova, 64, s.mr->lkey ^ 1), SIMHCA_REASON_KEY_STALE },
		{ sge(other, 0, 64), SIMHCA_REASON_KEY_WRONG_PD },
		{ sge(readonly, 0, 64), SIMHCA_REASON_MR_NO_LOCAL_WRITE },
		{ at(s.mr->iova - 1, 64, s.mr->lkey), SIMHCA_REASON_KEY_BELOW_START },
		{ at(s.mr->iova + REGION - 63, 64, s.mr->lkey), SIMHCA_REASON_KEY_PAST_END },
		{ at(UINT64_MAX - 3, 64, s.mr->lkey), SIMHCA_REASON_KEY_WRAPS },
	};

	memset(s.pair->a.mr->addr, 0x55, 64);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		forget_events(client);
		qp_recv(s.pair->b.qp, i, &bad[i].sge, 1);
		recv_into(&s.pair->b, 100, 0, 64);
		send_from(&s.pair->a, i, 0, 64);
		expect(s.pair->a.send_cq, i, REM_OP_ERR);
		expect_(s.pair->b.recv_cq, i, IBV_WC_LOC_PROT_ERR, bad[i].reason, __FILE__,
			__LINE__);
		expect_why(s.pair->b.recv_cq, 100, WR_FLUSH_ERR, FLUSHED);
		check_refused(&s);
		assert_int_equal(qp_state(s.pair->b.qp), IBV_QPS_ERR);
		/* The completion says it; an event beside it would say it twice. */
		assert_int_equal(events_of(client, s.pair->b.qp, IBV_EVENT_QP_ACCESS_ERR), 0);
		assert_int_equal(events_of(client, s.pair->b.qp, IBV_EVENT_QP_REQ_ERR), 0);
		pair_reconnect(s.pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(rkeys_of_no_region),
		ON_ETHERNET(rkeys_with_another_variant),
		ON_ETHERNET(rkeys_of_a_region_that_is_gone),
		ON_ETHERNET(a_key_is_not_given_twice_in_a_row),
		ON_ETHERNET(rkeys_of_another_pd),
		ON_ETHERNET(remote_ranges_one_byte_outside),
		ON_ETHERNET(remote_ranges_that_wrap),
		ON_ETHERNET(remote_ranges_inside),
		ON_ETHERNET(zero_length_needs_no_key),
		ON_ETHERNET(lkeys_that_are_wrong),
		ON_ETHERNET(lkeys_of_reads_and_atomics_need_local_write),
		ON_ETHERNET(receive_buffers_that_are_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
