/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs that end in a step of a UD QP, at each of its stores. */

#include "fastpath_ud.h"

/*
 * Ends at each store, while another sends. Each receive completes once: for one of the datagrams,
 * or flushed; or it is in the SRQ still.
 */
static void ends_at_each_store(void **state, enum queue queue, uint32_t length)
{
	const uint32_t sends = 3, posted = 6;
	bool killed = true, taken = false, lost = false, in_cq = false;
	unsigned int store;

	for (store = 1; killed; store += STORE_STEP) {
		uint32_t arrived = 0, others = 0, flushed = 0, seen = 0, claimed, all = posted;
		struct simhca_step step, others_own;
		struct simhca_cqe cqe;
		struct side *other;
		struct pair *pair;

		assert_true(store < MOST_STORES);
		fastpath_setup(state);
		pair = ud_pair_by(*state, 0, queue);
		other = ud_another(pair);
		step = fastpath_attach(&pair->a);
		others_own = fastpath_attach(other);
		for (uint64_t id = 0; id < posted; id++)
			ud_receive(pair, id);
		if (queue == SHARED)
			srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, posted);
		fill(pair->a.mr->addr, length, 5);
		fill(other->mr->addr, length, 6);
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		for (uint32_t i = 0; i < sends; i++)
			ud_send(&pair->a, length);
		killed = fastpath_killed_at(&step, store);
		claimed = ud_claimed(&pair->b);
		others_own.peer.is_srq = false; /* it tells of no limit */
		ud_send(other, length);
		fastpath_run(&others_own);
		assert_int_equal(ud_claimed(&pair->b), claimed + 1);
		client_gone(pair->a.client);
		if (queue == SHARED)
			assert_int_equal(fastpath_limits(pair), 1);
		/* By the device, which takes what was left first. */
		ud_send(other, length);
		ud_ring(other);
		assert_true(atomic_load(&pair->b.recv_cq->events));
		taken |= ud_claimed(&pair->b) == claimed + 1;
		lost |= ud_claimed(&pair->b) == claimed + 2;
		if (queue == SHARED)
			all = ud_claimed(&pair->b);
		assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
		run_until_idle(*state);
		while (fastpath_next_cqe(pair->b.recv_cq, &cqe)) {
			assert_true(cqe.wr_id < posted && !(seen & 1u << cqe.wr_id));
			seen |= 1u << cqe.wr_id;
			if (cqe.status) {
				flushed++;
				continue;
			}
			arrived += cqe.src_qpn == pair->a.qp->qpn;
			others += cqe.src_qpn == other->qp->qpn;
			assert_int_equal(cqe.byte_len, SIMHCA_GRH_BYTES + length);
			in_cq |= cqe.in_slot == SIMHCA_CQE_IN_CQ;
			assert_true(filled(pair->b.mr->addr + cqe.wr_id * BUFFER + SIMHCA_GRH_BYTES,
					   length, cqe.src_qpn == pair->a.qp->qpn ? 5 : 6));
		}
		assert_int_equal(others, 2);
		assert_int_equal(arrived + others + flushed, all);
		assert_int_equal(seen, (1u << all) - 1);
		if (!killed)
			assert_int_equal(arrived, sends);
		fastpath_detach(&step);
		fastpath_detach(&others_own);
		teardown(state);
	}
	print_message("about %u stores\n", store);
	assert_true(taken && lost && store > 40);
	assert_int_equal(in_cq, length <= SIMHCA_SLOT_DATA);
}

static void killed_at_each_store(void **state)
{
	ends_at_each_store(state, OWN, LENGTH);
}

static void killed_with_data_in_the_cq(void **state)
{
	ends_at_each_store(state, OWN, SIMHCA_SLOT_DATA);
}

static void killed_at_each_store_with_an_srq(void **state)
{
	ends_at_each_store(state, SHARED, LENGTH);
}

static void killed_with_an_srq_and_data_in_the_cq(void **state)
{
	ends_at_each_store(state, SHARED, SIMHCA_SLOT_DATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_each_store),
		cmocka_unit_test(killed_with_data_in_the_cq),
		cmocka_unit_test(killed_at_each_store_with_an_srq),
		cmocka_unit_test(killed_with_an_srq_and_data_in_the_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
