/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that lies about its rings: the indices of CQs and SRQs, claims, reservations, what the
 * receive at hand is. Each value is one that could be, but not together with the others. What it has
 * of queues works, fails or is refused, in time; and its neighbour's connection works.
 */
#include "tag_scene.h"
#include "queue/cqe_reservation.h"

#define ENTRIES 16u

static const uint32_t values[] = { 0,		1,	    ENTRIES - 1, ENTRIES,
				   ENTRIES + 1, 0x7fffffff, 0x80000000,	 UINT32_MAX };

static struct pair *neighbours(struct world *world)
{
	struct options options = default_options(IBV_QPT_RC);

	return pair_new(world, &options);
}

/* Whether the QP works or has failed; a failure is told once. */
static void check_ended(struct side *side)
{
	uint32_t state = qp_state(side->qp);

	assert_true(state == IBV_QPS_RTS || state == IBV_QPS_ERR);
	assert_true(events_of(side->client, side->qp, IBV_EVENT_QP_FATAL) <= 1);
}

/* ------------------------------------------------------------------------------------ CQs */

/* ci ahead of pi, both going back, more between them than there are slots. */
static void the_indices_of_a_cq(void **state)
{
	struct pair *good = neighbours(*state);

	for (size_t i = 0; i < ARRAY_SIZE(values) * ARRAY_SIZE(values); i++) {
		const struct options options = default_options(IBV_QPT_RC);
		struct pair *bad = pair_new(*state, &options);
		struct cq *cq = bad->b.recv_cq;
		uint32_t pi = values[i % ARRAY_SIZE(values)], ci = values[i / ARRAY_SIZE(values)];
		bool fits = pi - ci < cq->cqe;

		atomic_store(&cq->state->pi, pi);
		atomic_store(&cq->state->ci, ci);
		recv_into(&bad->b, 1, 0, 64);
		send_from(&bad->a, 1, 0, 64);
		run_until_idle(*state);
		check_ended(&bad->b);
		assert_int_equal(qp_state(bad->b.qp), fits ? IBV_QPS_RTS : IBV_QPS_ERR);
		assert_int_equal(atomic_load(&cq->state->overrun), !fits);
	}
	check_works(good);
}

/* Each slot has been claimed already, by somebody, for an index before, at or behind its own. */
static void the_claims_of_a_cq(void **state)
{
	static const uint32_t names[] = { 0, SIMHCA_OWNER_DEVICE, SIMHCA_OWNER_PROGRAM | 5,
					  UINT32_MAX };
	struct pair *good = neighbours(*state);

	for (size_t i = 0; i < ARRAY_SIZE(values) * ARRAY_SIZE(names); i++) {
		const struct options options = default_options(IBV_QPT_RC);
		struct pair *bad = pair_new(*state, &options);
		struct cq *cq = bad->b.recv_cq;
		uint64_t name = names[i / ARRAY_SIZE(values)];

		for (uint32_t slot = 0; slot < cq->entries; slot++)
			cq->ring[slot].wallclock =
				name << 32 | (slot + 1 + values[i % ARRAY_SIZE(values)]);
		recv_into(&bad->b, 1, 0, 64);
		send_from(&bad->a, 1, 0, 64);
		run_until_idle(*state);
		check_ended(&bad->b);
	}
	check_works(good);
}

/* A CQ that moves to another ring, by parts, while its indices go where they like. */
static void the_indices_of_a_cq_that_moves(void **state)
{
	enum { CQES = 20000 };
	struct pair *good = neighbours(*state);
	struct client *client = client_new(*state, 0);

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		struct cq *cq = cq_new(client, CQES);
		struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = 2 * CQES };
		struct simhca_create_cq_reply reply;
		uint32_t parts = 0;
		int ret;

		atomic_store(&cq->state->pi, CQES);
		while ((ret = simhca_resize_cq(client->context, &req, &reply, NULL)) == -ERESTART ||
		       ret == -EAGAIN) {
			atomic_fetch_add(&cq->state->pi, values[i]);
			if (i & 1)
				atomic_fetch_add(&cq->state->ci, values[i]);
			assert_true(++parts < 4096);
		}
		assert_true(!ret || ret == -EINVAL || ret == -EBUSY);
	}
	check_works(good);
}

/* What somebody left who has ended: it is looked for in the ring, and nowhere else, once round. */
static void what_is_left_in_a_cq(void **state)
{
	struct {
		uint64_t before[8];
		struct simhca_cqe ring[ENTRIES];
		uint64_t behind[8];
	} memory;
	struct simhca_cq_mem mem;
	const struct simhca_cq_view cq = {
		.mem = &mem, .ring = memory.ring, .entries = ENTRIES, .cqe = ENTRIES - 1
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values) * ARRAY_SIZE(values); i++) {
		uint32_t ci = values[i / ARRAY_SIZE(values)], left = 0;

		memset(&memory, 0xa5, sizeof(memory));
		memset(&mem, 0, sizeof(mem));
		mem.pi = values[i % ARRAY_SIZE(values)];
		mem.ci = ci;
		for (uint32_t index = mem.pi - ENTRIES; index != mem.pi; index++)
			memory.ring[index % ENTRIES].wallclock = 3ull << 32 | (index + 1);
		simhca_cqes_recover(&cq, 3, 1000);
		for (uint32_t slot = 0; slot < ENTRIES; slot++)
			left += memory.ring[slot].qpn == SIMHCA_VOID_QPN;
		assert_int_equal(left,
				 simhca_gate_waiting(values[i % ARRAY_SIZE(values)], ci, ENTRIES));
		for (int n = 0; n < 8; n++)
			assert_true(memory.before[n] == 0xa5a5a5a5a5a5a5a5 &&
				    memory.behind[n] == 0xa5a5a5a5a5a5a5a5);
	}
}

/* ----------------------------------------------------------------------------------- SRQs */

static struct simhca_sge room(struct side *side)
{
	return sge(side->mr, 0, 64);
}

/* A client whose QP has an SRQ, and whoever sends to it. */
static void with_srq(struct world *world, struct side *a, struct side *b, struct srq **srq,
		     uint32_t max_wr, uint32_t max_sge)
{
	const struct options options = default_options(IBV_QPT_RC);
	struct client *server = client_new(world, 1);

	*srq = srq_new(server, max_wr, max_sge, 0);
	side_make(a, client_new(world, 0), &options, NULL);
	side_make(b, server, &options, *srq);
	a->peer = b;
	b->peer = a;
	qp_connect(a->qp, 1, b->qp->qpn, &options);
	qp_connect(b->qp, 0, a->qp->qpn, &options);
}

/* pi, ci and who has the last claim, each with each; and what is noted of claims is anything. */
static void the_indices_of_an_srq(void **state)
{
	static const uint32_t claimants[] = {
		0, 1, 2, SIMHCA_SRQ_CLAIMANTS, SIMHCA_SRQ_CLAIMANTS + 1, UINT32_MAX
	};
	struct pair *good = neighbours(*state);

	for (size_t i = 0; i < ARRAY_SIZE(values) * ARRAY_SIZE(claimants); i++) {
		uint32_t ci = values[i % ARRAY_SIZE(values)], pi = ci + values[i % 5];
		uint64_t claimant = claimants[i / ARRAY_SIZE(values)];
		struct side a, b;
		struct srq *srq;
		struct simhca_sge one;
		uint32_t state_now;

		with_srq(*state, &a, &b, &srq, ENTRIES, 2);
		one = room(&b);
		for (uint32_t n = 0; n < ENTRIES; n++)
			srq_recv(srq, n, &one, 1);
		for (uint32_t n = 0; n < SIMHCA_SRQ_CLAIMANTS; n++)
			atomic_store(&srq->state->claimed[n], values[n % ARRAY_SIZE(values)]);
		atomic_store(&srq->state->head, claimant << 32 | ci);
		atomic_store(&srq->state->pi, pi);
		send_from(&a, 1, 0, 64);
		run_until_idle(*state);
		state_now = qp_state(b.qp);
		assert_int_equal(state_now, pi - ci > srq->entries ? IBV_QPS_ERR : IBV_QPS_RTS);
		if (pi != ci && state_now == IBV_QPS_RTS)
			assert_int_equal(srq_ci_of(srq), ci + 1);
		if (pi - ci > srq->entries)
			assert_int_equal(srq_modify(srq, SIMHCA_SRQ_MAX_WR, 4 * ENTRIES, 0),
					 -EINVAL);
	}
	check_works(good);
}

/*
 * An SRQ that moves to another ring, by parts. Of an honest one, receives that are consumed meanwhile
 * are those that were posted first, and so it goes on afterwards; of others the index goes anywhere.
 */
static void an_srq_that_moves(void **state)
{
	enum { WQES = 8192 };
	struct pair *good = neighbours(*state);

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		struct simhca_modify_srq_req req = { .mask = SIMHCA_SRQ_MAX_WR,
						     .max_wr = 2 * WQES };
		struct simhca_create_srq_reply reply;
		uint32_t parts = 0, sent = 0;
		struct side a, b;
		struct srq *srq;
		struct simhca_sge one;
		int ret;

		with_srq(*state, &a, &b, &srq, WQES, SIMHCA_MAX_SGE);
		one = room(&b);
		for (uint32_t n = 0; n < WQES; n++)
			srq_recv(srq, n, &one, 1);
		req.handle = srq->handle;
		while ((ret = simhca_modify_srq(srq->client->context, &req, &reply, NULL)) ==
			       -ERESTART ||
		       ret == -EAGAIN) {
			atomic_fetch_add(&srq->state->pi, values[i]);
			for (; !values[i] && sent <= parts; sent++) {
				send_from(&a, sent, 0, 64);
				expect(b.recv_cq, sent, SUCCESS);
			}
			assert_true(++parts < 4096);
		}
		if (values[i]) {
			assert_true(!ret || ret == -EINVAL || ret == -EBUSY);
			continue;
		}
		assert_int_equal(ret, 0);
		assert_true(parts > 2);
		assert_int_equal(reply.max_wr, 2 * WQES);
		for (uint32_t n = 0; n < 100; n++, sent++) {
			send_from(&a, sent, 0, 64);
			expect(b.recv_cq, sent, SUCCESS);
		}
	}
	check_works(good);
}

/* ------------------------------------------------------------------------------ tag lists */

/*
 * The program says that its message has taken an entry of the tag list, and is a rendezvous. No entry
 * has been taken: nothing is fetched for it, however often it says so, and the list is as it was.
 */
static void a_rendezvous_that_matched_nothing(void **state)
{
	struct pair *good = neighbours(*state);
	struct scene *s = make(*state);
	struct simhca_responder *resp;

	for (uint64_t i = 0; i < TAGS; i++)
		add(s, i, i, UINT64_MAX, 0, 200);
	for (int n = 0; n < 2; n++) {
		resp = &s->b.qp->state->resp[n];
		resp->have_recv = 1;
		resp->tm = (struct simhca_tm_message){ .kind = SIMHCA_TM_RNDV,
						       .va = (uintptr_t)s->a.mr->addr,
						       .rkey = s->a.mr->rkey,
						       .length = 100 };
	}
	others_had_turns(s->b.qp);
	send_tagged(s, 1, IBV_TMH_EAGER, 100, 8);
	run_until_idle(*state);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_ERR);
	assert_int_equal(events_of(s->b.client, s->b.qp, IBV_EVENT_QP_FATAL), 1);
	expect_none(s->b.send_cq);
	assert_int_equal(op(s, (struct simhca_srq_op_req){ .opcode = SIMHCA_SRQ_TAG_ADD }, NULL),
			 -ENOMEM);
	check_works(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(the_indices_of_a_cq),
		ON_ETHERNET(the_claims_of_a_cq),
		ON_ETHERNET(the_indices_of_a_cq_that_moves),
		ON_ETHERNET(what_is_left_in_a_cq),
		ON_ETHERNET(the_indices_of_an_srq),
		ON_ETHERNET(an_srq_that_moves),
		ON_ETHERNET(a_rendezvous_that_matched_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
