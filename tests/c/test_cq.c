/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues: full, overrun, resized with entries in place, and one for several QPs. */
#include "harness.h"

static void writes(struct side *side, uint64_t from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		rdma_write(side, from + i, 0, 8, 0);
}

static void a_full_cq_loses_nothing(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	uint32_t cqe;

	options.cqe = 5;
	pair = pair_new(*state, &options);
	cqe = pair->a.send_cq->cqe;
	for (int lap = 0; lap < 10; lap++) {
		writes(&pair->a, 0, cqe);
		run_until_idle(*state);
		assert_int_equal(atomic_load(&pair->a.send_cq->state->overrun), 0);
		for (uint32_t i = 0; i < cqe; i++)
			expect(pair->a.send_cq, i, SUCCESS);
	}
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	assert_int_equal(events_of(pair->a.client, pair->a.send_cq, IBV_EVENT_CQ_ERR), 0);
}

/* One completion too many: the CQ says so once, every QP on it is in error, the others are not. */
static void an_overrun_cq_kills_its_qps(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair, *other;
	struct client *client;
	struct qp *sharing;
	struct cq *cq;

	options.cqe = 3; /* its ring has room for one more */
	pair = pair_new(*state, &options);
	client = pair->a.client;
	cq = pair->a.send_cq;
	sharing = qp_new(client, &options, cq_new(client, 4), cq, NULL);
	qp_connect(sharing, 1, 0x777777 & SIMHCA_QPN_MASK, &options);
	options.cqe = 64;
	other = pair_new(*state, &options);

	writes(&pair->a, 0, cq->cqe + 1);
	run_until_idle(*state);
	assert_int_equal(atomic_load(&cq->state->overrun), 1);
	assert_int_equal(events_of(client, cq, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(sharing), IBV_QPS_ERR);
	/* What was there before the overrun can still be read. */
	for (uint64_t id = 0; id < cq->cqe; id++)
		expect(cq, id, SUCCESS);
	check_works(other);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	assert_int_equal(events_of(client, cq, IBV_EVENT_CQ_ERR), 1);
}

/* The receive side of an overrun: the message's sender learns that its peer has failed. */
static void overrun_by(void **state, bool with_imm)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	uint32_t room;

	options.cqe = 1;
	pair = pair_unconnected(*state, &options);
	pair->a.options.retry_cnt = 0;
	pair_connect(pair);
	room = pair->b.recv_cq->entries;
	for (uint32_t i = 0; i <= room + 1; i++)
		recv_into(&pair->b, i, 0, 8);
	for (uint32_t i = 0; i < room; i++) {
		send_from(&pair->a, i, 0, 8);
		expect(pair->a.send_cq, i, SUCCESS);
	}
	/* Its completion is lost, so it has not arrived. */
	if (with_imm)
		post(&pair->a, .id = room, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
		     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
		     .rkey = pair->b.mr->rkey);
	else
		send_from(&pair->a, room, 0, 8);
	expect_why(pair->a.send_cq, room, REM_OP_ERR, RECV_CQ_ERROR);
	assert_int_equal(events_of(pair->b.client, pair->b.recv_cq, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	assert_int_equal(events_of(pair->a.client, pair->a.recv_cq, IBV_EVENT_CQ_ERR), 0);
}

static void an_overrun_receive_cq_fails_the_responder(void **state)
{
	overrun_by(state, false);
}

static void an_overrun_by_immediate_data_too(void **state)
{
	overrun_by(state, true);
}

/* A CQ that ignores overrun wraps over what was not read, and nobody is harmed. */
static void ignoring_overrun_is_possible(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct cq *cq = cq_new_flags(pair->a.client, 2, SIMHCA_CQ_IGNORE_OVERRUN);

	pair->a.qp = qp_new(pair->a.client, &options, cq, cq, NULL);
	pair_connect(pair);
	writes(&pair->a, 0, 20);
	run_until_idle(*state);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	assert_int_equal(events_of(pair->a.client, cq, IBV_EVENT_CQ_ERR), 0);
	assert_int_equal(atomic_load(&cq->state->pi), 20);
}

/* What was written over cannot be moved; who has polled what is left can resize it again. */
static void a_cq_that_was_written_over_is_not_resized(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct cq *cq = cq_new_flags(pair->a.client, 2, SIMHCA_CQ_IGNORE_OVERRUN);

	pair->a.qp = qp_new(pair->a.client, &options, cq, cq, NULL);
	pair_connect(pair);
	writes(&pair->a, 0, 20);
	run_until_idle(*state);
	assert_int_equal(cq_resize(cq, 64), -EINVAL);
	cq->ci = 20;
	atomic_store(&cq->state->ci, 20);
	assert_int_equal(cq_resize(cq, 64), 0);
	writes(&pair->a, 20, 1);
	expect(cq, 20, SUCCESS);
}

static void resize_keeps(struct world *world, uint32_t from, uint32_t to, uint32_t before,
			 uint32_t waiting)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct cq *cq;

	options.cqe = from;
	pair = pair_new(world, &options);
	cq = pair->a.send_cq;
	for (uint32_t i = 0; i < before; i++) {
		writes(&pair->a, i, 1);
		expect(cq, i, SUCCESS);
	}
	writes(&pair->a, before, waiting);
	run_until_idle(world);
	assert_int_equal(0, cq_resize(cq, to));
	assert_true(cq->cqe >= to && cq->entries >= cq->cqe);
	/* Some arrive in the new ring before the old ones are read. */
	if (cq->cqe > waiting)
		writes(&pair->a, before + waiting, cq->cqe - waiting < 30 ? cq->cqe - waiting : 30);
	run_until_idle(world);
	for (uint32_t i = 0; i < waiting; i++)
		expect(cq, before + i, SUCCESS);
	for (uint32_t i = 0;
	     cq->cqe > waiting && i < (cq->cqe - waiting < 30 ? cq->cqe - waiting : 30); i++)
		expect(cq, before + waiting + i, SUCCESS);
	for (uint32_t i = 0; i < 3 * cq->entries && i < 200; i++) {
		writes(&pair->a, i, 1);
		expect(cq, i, SUCCESS);
	}
	expect_none(cq);
	assert_int_equal(events_of(pair->a.client, cq, IBV_EVENT_CQ_ERR), 0);
}

static void growing_keeps_the_entries(void **state)
{
	resize_keeps(*state, 4, 64, 0, 0);
	resize_keeps(*state, 4, 64, 0, 4);
	resize_keeps(*state, 4, 64, 3, 4);
	resize_keeps(*state, 7, 9, 13, 6);
	resize_keeps(*state, 1, 2, 5, 1);
	resize_keeps(*state, 8, 4096, 1000, 8);
}

static void shrinking_keeps_the_entries(void **state)
{
	resize_keeps(*state, 64, 4, 0, 0);
	resize_keeps(*state, 64, 4, 62, 4);
	resize_keeps(*state, 64, 1, 63, 1);
	resize_keeps(*state, 100, 10, 77, 10);
}

/*
 * The counter of CQEs wraps, and the CQE before that has the sequence number of a slot that was
 * never written: a ring that is new by then has none there that a client could take for it.
 */
static void a_resized_ring_is_empty_where_the_counter_wraps(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	cq->ci = UINT32_MAX - 2;
	atomic_store(&cq->state->pi, cq->ci);
	atomic_store(&cq->state->ci, cq->ci);
	assert_int_equal(cq_resize(cq, 8), 0);
	for (uint32_t i = 0; i < 20; i++) {
		expect_none(cq);
		writes(&pair->a, i, 1);
		expect(cq, i, SUCCESS);
	}
	assert_int_equal(cq->ci, 17);
}

/* CQEs as the device would have written them. */
static void fill_by_hand(struct cq *cq, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		cq->ring[i].wr_id = i;
		atomic_store(&cq->ring[i].seq, i + 1);
	}
	atomic_store(&cq->state->pi, count);
}

static int try_to_resize(struct cq *cq, uint32_t cqe)
{
	struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = cqe };
	struct simhca_create_cq_reply reply;

	return simhca_resize_cq(cq->client->context, &req, &reply, NULL);
}

/* It takes several tries, and what comes, or is taken, between them is neither lost nor doubled. */
static void a_large_one_moves_bit_by_bit(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct cq *cq;

	options.cqe = 32768;
	pair = pair_new(*state, &options);
	cq = pair->a.send_cq;
	fill_by_hand(cq, 30000);
	assert_int_equal(try_to_resize(cq, 65536), -ERESTART);
	for (uint32_t i = 0; i < 10000; i++)
		expect(cq, i, SUCCESS);
	assert_int_equal(try_to_resize(cq, 65536), -ERESTART);
	/* The first one of these is where the first CQE was. */
	for (uint32_t i = 30000; i < 33000; i += 10) {
		writes(&pair->a, i, 10);
		run_until_idle(*state);
	}
	/* Another size: it begins again. */
	assert_int_equal(try_to_resize(cq, 24000), -ERESTART);
	assert_int_equal(try_to_resize(cq, 24000), -ERESTART);
	assert_int_equal(cq_resize(cq, 24000), 0);
	assert_int_equal(cq->cqe, 24000);
	for (uint32_t i = 10000; i < 33000; i++)
		expect(cq, i, SUCCESS);
	expect_none(cq);
	writes(&pair->a, 33000, 10);
	for (uint32_t i = 33000; i < 33010; i++)
		expect(cq, i, SUCCESS);
}

static void shrinking_below_what_waits_is_refused(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	writes(&pair->a, 0, 20);
	run_until_idle(*state);
	assert_int_equal(cq_resize(cq, 4), -EINVAL);
	assert_int_equal(cq_resize(cq, 0), -EINVAL);
	assert_int_equal(cq_resize(cq, SIMHCA_MAX_CQE + 1u), -EINVAL);
	for (uint32_t i = 0; i < 20; i++)
		expect(cq, i, SUCCESS);
	assert_int_equal(0, cq_resize(cq, 4));
}

static void one_cq_serves_both_queues_of_many_qps(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 64);
	struct mr *mr = mr_new(client, 4096, ALL_ACCESS);
	struct qp *qp[6];
	unsigned int sends = 0, recvs = 0;
	struct simhca_cqe cqe;

	for (size_t i = 0; i < ARRAY_SIZE(qp); i++)
		qp[i] = qp_new(client, &options, cq, cq, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(qp); i++)
		qp_connect(qp[i], 0, qp[i ^ 1]->qpn, &options);
	for (size_t i = 0; i < ARRAY_SIZE(qp); i++) {
		struct simhca_sge one = sge(mr, 64 * i, 64);

		qp_recv(qp[i], 100 + i, &one, 1);
		qp_post(qp[i ^ 1], &(struct wr){ .id = 200 + i,
						 .opcode = SIMHCA_WR_SEND,
						 .flags = SIMHCA_WQE_SIGNALED,
						 SGES(sge(mr, 1024, 64)) });
	}
	while (cq_wait(cq, &cqe)) {
		unsigned int i = cqe.wr_id % 100;

		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		if (cqe.flags & SIMHCA_CQE_RECV) {
			recvs++;
			assert_int_equal(cqe.wr_id, 100 + i);
			assert_int_equal(cqe.opcode, IBV_WC_RECV);
			assert_int_equal(cqe.qpn, qp[i]->qpn);
		} else {
			sends++;
			assert_int_equal(cqe.wr_id, 200 + i);
			assert_int_equal(cqe.opcode, IBV_WC_SEND);
			assert_int_equal(cqe.qpn, qp[i ^ 1]->qpn);
		}
	}
	assert_int_equal(sends, ARRAY_SIZE(qp));
	assert_int_equal(recvs, ARRAY_SIZE(qp));
}

static void sizes_out_of_range_are_refused(void **state)
{
	static const uint32_t sizes[] = { 0, SIMHCA_MAX_CQE + 1u, 0x80000000u, 0xffffffffu };
	struct client *client = client_new(*state, 0);
	struct simhca_create_cq_reply reply;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		assert_int_equal(simhca_create_cq(client->context,
						  &(struct simhca_create_cq_req){ .cqe = sizes[i] },
						  &reply, NULL),
				 -EINVAL);
	assert_int_equal(simhca_create_cq(client->context,
					  &(struct simhca_create_cq_req){
						  .cqe = 1, .comp_vector = SIMHCA_COMP_VECTORS },
					  &reply, NULL),
			 -EINVAL);
}

static void unknown_flags_are_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_create_cq_reply reply;

	assert_int_equal(simhca_create_cq(client->context,
					  &(struct simhca_create_cq_req){ .cqe = 1, .flags = 4 },
					  &reply, NULL),
			 -EINVAL);
}

/* The provider knows what may still come: a CQ that is too small for it is refused. */
static void shrinking_below_what_may_come_is_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 64);
	struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = 8, .outstanding = 9 };
	struct simhca_create_cq_reply reply;

	assert_int_equal(simhca_resize_cq(client->context, &req, &reply, NULL), -EINVAL);
	req.outstanding = 8;
	assert_int_equal(simhca_resize_cq(client->context, &req, &reply, NULL), 0);
}

/* With SIMHCA_CQ_TIMESTAMP both stamps are there, and neither runs backwards. */
static void completions_are_stamped(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct cq *cq = cq_new_flags(pair->a.client, 16, SIMHCA_CQ_TIMESTAMP);
	struct simhca_cqe last = { 0 };

	pair->a.qp = qp_new(pair->a.client, &options, cq, cq, NULL);
	pair_connect(pair);
	for (uint32_t i = 0; i < 10; i++) {
		struct simhca_cqe cqe;

		writes(&pair->a, i, 1);
		cqe = expect(cq, i, SUCCESS);
		assert_true(cqe.timestamp > 0 && cqe.wallclock > 0);
		assert_true(cqe.timestamp >= last.timestamp && cqe.wallclock >= last.wallclock);
		last = cqe;
	}
}

static void a_cq_in_use_is_not_destroyed(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(*state, 0);
	struct cq *send_cq = cq_new(client, 4), *recv_cq = cq_new(client, 4);
	struct qp *qp = qp_new(client, &options, send_cq, recv_cq, NULL);

	assert_int_equal(simhca_destroy_cq(client->context, send_cq->handle, NULL), -EBUSY);
	assert_int_equal(simhca_destroy_cq(client->context, recv_cq->handle, NULL), -EBUSY);
	assert_int_equal(simhca_destroy_qp(client->context, qp->handle, NULL), 0);
	assert_int_equal(simhca_destroy_cq(client->context, send_cq->handle, NULL), 0);
	assert_int_equal(simhca_destroy_cq(client->context, recv_cq->handle, NULL), 0);
	assert_true(simhca_destroy_cq(client->context, recv_cq->handle, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_full_cq_loses_nothing),
		ON_ETHERNET(an_overrun_cq_kills_its_qps),
		ON_ETHERNET(an_overrun_receive_cq_fails_the_responder),
		ON_INFINIBAND(an_overrun_receive_cq_fails_the_responder),
		ON_ETHERNET(an_overrun_by_immediate_data_too),
		ON_ETHERNET(ignoring_overrun_is_possible),
		ON_ETHERNET(a_cq_that_was_written_over_is_not_resized),
		ON_ETHERNET(growing_keeps_the_entries),
		ON_ETHERNET(shrinking_keeps_the_entries),
		ON_ETHERNET(a_resized_ring_is_empty_where_the_counter_wraps),
		ON_ETHERNET(a_large_one_moves_bit_by_bit),
		ON_ETHERNET(shrinking_below_what_waits_is_refused),
		ON_ETHERNET(one_cq_serves_both_queues_of_many_qps),
		ON_ETHERNET(sizes_out_of_range_are_refused),
		ON_ETHERNET(unknown_flags_are_refused),
		ON_ETHERNET(shrinking_below_what_may_come_is_refused),
		ON_ETHERNET(completions_are_stamped),
		ON_ETHERNET(a_cq_in_use_is_not_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
