/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams that the fast path leaves to the device: no receive is consumed for them. */

#include "fastpath_ud.h"
#include "core/context.h"

static void no_receive(struct pair *pair)
{
	ud_send(&pair->a, LENGTH);
}

static void short_receive(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, BUFFER - 1);
	ud_send(&pair->a, LENGTH);
}

static void nonsense(struct pair *pair)
{
	ud_send(&pair->a, LENGTH);
	atomic_store(&pair->b.qp->claims->pi, pair->b.qp->granted.rq_entries + 1);
}

static void many_receive_sges(struct pair *pair)
{
	ud_receive(pair, 0);
	((struct simhca_recv_wqe *)pair->b.qp->rq)->num_sge = 1000;
	ud_send(&pair->a, LENGTH);
}

static void wrong_qkey(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.qkey ^= 1;
}

static void too_long(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 5000);
	ud_send(&pair->a, 4097);
}

static void empty_source(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	memset((void *)&simhca_device_memory(pair->a.world->device[0])->gids[0].gid, 0, 16);
}

static void another_operation(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->opcode = SIMHCA_WR_SEND_WITH_INV;
}

static void another_qp(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.dest_qpn++;
}

static void another_address(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.av.hop_limit++;
}

static void others_key(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_sge *)(pair->a.qp->sq + sizeof(struct simhca_send_wqe)))->lkey =
		pair->b.mr->lkey;
}

static void full_recv_cq(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	atomic_store(&pair->b.recv_cq->state->pi, pair->b.recv_cq->cqe);
}

static void full_send_cq(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	atomic_store(&pair->a.send_cq->state->pi, pair->a.send_cq->cqe);
}

static void in_sqd(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	assert_int_equal(qp_move(pair->a.qp, IBV_QPS_SQD), 0);
}

static void peer_in_error(struct pair *pair)
{
	ud_send(&pair->a, LENGTH);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
}

/* Not by its program. */
static void peer_failed(struct pair *pair)
{
	const struct simhca_devmem *device = simhca_device_memory(pair->a.world->device[0]);
	struct simhca_qpc *qpc = (void *)((char *)device + device->qpc_offset);

	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	atomic_store(&qpc[SIMHCA_QPN_SLOT(pair->b.qp->qpn)].state, SIMHCA_QPS_ERR);
}

static void half_done(struct pair *pair)
{
	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	((struct simhca_fastpath *)client_at(pair->a.client, &pair->a.qp->granted.fastpath))->dest =
		pair->b.qp->qpn;
}

static void anothers_event(struct pair *pair)
{
	struct simhca_fastpath *mem = client_at(pair->a.client, &pair->a.qp->granted.fastpath);

	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	mem->recv_events = 1;
	mem->event_peer = pair->b.qp->qpn + 1;
}

static void anothers_limit(struct pair *pair)
{
	struct simhca_fastpath *mem = client_at(pair->a.client, &pair->a.qp->granted.fastpath);

	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	mem->srq_limit = pair->b.qp->qpn + 1;
}

static const struct {
	void (*arrange)(struct pair *pair);
	enum simhca_slow_reason why;
} refusals[] = {
	{ no_receive, SIMHCA_SLOW_RECEIVE },   { short_receive, SIMHCA_SLOW_RECEIVE },
	{ nonsense, SIMHCA_SLOW_RECEIVE },     { many_receive_sges, SIMHCA_SLOW_RECEIVE },
	{ wrong_qkey, SIMHCA_SLOW_REQUEST },   { too_long, SIMHCA_SLOW_REQUEST },
	{ empty_source, SIMHCA_SLOW_REQUEST }, { another_operation, SIMHCA_SLOW_REQUEST },
	{ another_qp, SIMHCA_SLOW_ADDRESS },   { another_address, SIMHCA_SLOW_ADDRESS },
	{ others_key, SIMHCA_SLOW_MEMORY },    { full_recv_cq, SIMHCA_SLOW_CQ },
	{ full_send_cq, SIMHCA_SLOW_CQ },      { in_sqd, SIMHCA_SLOW_STATE },
	{ peer_in_error, SIMHCA_SLOW_STATE },  { peer_failed, SIMHCA_SLOW_STATE },
	{ half_done, SIMHCA_SLOW_WAITS },      { anothers_event, SIMHCA_SLOW_WAITS },
	{ anothers_limit, SIMHCA_SLOW_WAITS },
};

static void nothing_is_consumed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		uint32_t pi, dest;
		struct simhca_srq_mem before;
		struct simhca_step step;
		struct pair *pair;

		fastpath_setup(state);
		pair = ud_pair(*state);
		step = fastpath_attach(&pair->a);
		refusals[i].arrange(pair);
		memcpy(&before, pair->b.qp->claims, sizeof(before));
		pi = pair->b.recv_cq->state->pi;
		dest = step.fastpath->dest;
		assert_false(fastpath_run(&step));
		for (int why = 0; why < SIMHCA_SLOW_REASONS; why++)
			assert_int_equal(step.fastpath->handed[why], why == (int)refusals[i].why);
		assert_memory_equal(&before, pair->b.qp->claims, sizeof(before));
		assert_int_equal(pair->b.recv_cq->state->pi, pi);
		assert_int_equal(step.fastpath->dest, dest);
		assert_int_equal(step.fastpath->guard % 2, 0);
		assert_int_equal(pair->a.qp->state->req_owner.holder, 0);
		assert_int_equal(requester_of(pair->a.qp)->oldest, 0);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* What the kernel does not copy the device does, with the receive that was claimed for it. */
static void a_copy_that_fails(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct mr *mr = mr_new(pair->b.client, 4096, fastpath_options().mr_access);
	struct simhca_sge into = sge(mr, 0, BUFFER);

	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = 4096; /* mapped by nobody */
	side_recv(&pair->b, 0, &into, 1);
	ud_receive(pair, 1);
	ud_send(&pair->a, LENGTH);
	assert_false(fastpath_run(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(rq_ci_of(pair->b.qp), 1);
	assert_int_equal(step.fastpath->dest, pair->b.qp->qpn);
	/* None is carried before that is known. */
	assert_false(fastpath_run(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_WAITS], 1);
	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = (uintptr_t)mr->addr;
	ud_ring(&pair->a);
	assert_int_equal(step.fastpath->dest, 0);
	expect(pair->a.send_cq, 0, SUCCESS);
	expect(pair->b.recv_cq, 0, SUCCESS);
	ud_send(&pair->a, LENGTH);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 1, SUCCESS);
	fastpath_detach(&step);
}

static struct pair *midway;

static void fill_send_cq(void)
{
	if (atomic_load(&midway->b.recv_cq->state->pi))
		atomic_store(&midway->a.send_cq->state->pi, midway->a.send_cq->cqe);
}

/* The CQE of the receive is void then, and the receive another datagram's, or flushed. */
static void no_room_for_the_send_by(struct world *world, enum queue queue)
{
	struct pair *pair = midway = ud_pair_by(world, 0, queue);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_cqe cqe;

	ud_receive(pair, 0);
	ud_receive(pair, 1);
	ud_send(&pair->a, LENGTH);
	fastpath_at_store = fill_send_cq;
	assert_false(fastpath_run(&step));
	fastpath_at_store = NULL;
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_CQ], 1);
	assert_true(cq_poll(pair->b.recv_cq, &cqe));
	assert_int_equal(cqe.qpn, SIMHCA_VOID_QPN);
	expect_none(pair->b.recv_cq);
	fastpath_detach(&step);
	client_gone(pair->a.client);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	run_until_idle(world);
	cqe = expect(pair->b.recv_cq, 0, WR_FLUSH_ERR);
	assert_int_equal(cqe.flags & SIMHCA_CQE_SRQ, queue == SHARED ? SIMHCA_CQE_SRQ : 0);
	if (queue == OWN)
		expect(pair->b.recv_cq, 1, WR_FLUSH_ERR);
	expect_none(pair->b.recv_cq);
}

static void no_room_for_the_send(void **state)
{
	no_room_for_the_send_by(*state, OWN);
}

static void no_room_for_the_send_with_an_srq(void **state)
{
	no_room_for_the_send_by(*state, SHARED);
}

/* What is too long for the next receive is dropped; no datagram goes by that receive. */
static void a_receive_that_is_too_short_stays_the_next(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);

	recv_into(&pair->b, 1, 0, BUFFER - 1);
	recv_into(&pair->b, 2, BUFFER, BUFFER);
	for (int i = 0; i < 2; i++) {
		ud_send(&pair->a, LENGTH);
		assert_false(fastpath_run(&step));
		assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_RECEIVE], i + 1);
		ud_ring(&pair->a);
		expect(pair->a.send_cq, 0, SUCCESS);
		expect_none(pair->b.recv_cq);
		assert_int_equal(ud_claimed(&pair->b), 0);
	}
	ud_send(&pair->a, LENGTH - 1);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 1, SUCCESS);
	ud_send(&pair->a, LENGTH);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 2, SUCCESS);
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_consumed),
		HERE(a_copy_that_fails),
		HERE(a_receive_that_is_too_short_stays_the_next),
		HERE(no_room_for_the_send),
		HERE(no_room_for_the_send_with_an_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
