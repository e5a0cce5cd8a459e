/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A client that writes nonsense into its own context memory: the model survives, that client's
 * queues fail, everybody else's go on. Also a fuzz test that scribbles all over it.
 */
#include "harness.h"

/* One who behaves (a pair of QPs on two other contexts), and one who does not. */
struct scene {
	struct world *world;
	struct pair *good;
	struct pair *bad;
};

static struct scene make(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);
	struct scene scene = { .world = world };

	scene.bad = pair_new(world, &options);
	options = default_options(IBV_QPT_RC);
	scene.good = pair_new(world, &options);
	check_works(scene.good);
	return scene;
}

static void check_good(struct scene *scene)
{
	rounds(scene->world, 200);
	check_works(scene->good);
	assert_int_equal(qp_state(scene->good->a.qp), IBV_QPS_RTS);
	assert_int_equal(qp_state(scene->good->b.qp), IBV_QPS_RTS);
}

static const uint32_t garbage[] = { 65,		100,	    0x7fffffff, 0x80000000,
				    0xdeadbeef, 0xffffff00, 0xffffffff };

static void a_send_producer_index_that_makes_no_sense(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct side *a = &scene.bad->a;

		atomic_store(&a->qp->state->sq_pi, garbage[i]);
		qp_ring(a->qp);
		run_until_idle(scene.world);
		assert_int_equal(qp_state(a->qp), IBV_QPS_ERR);
		assert_int_equal(events_of(a->client, a->qp, IBV_EVENT_QP_FATAL), 1);
		check_good(&scene);
		/* It is not lost for good: after a reset it works again. */
		pair_reconnect(scene.bad);
		check_works(scene.bad);
	}
}

static void a_receive_producer_index_that_makes_no_sense(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct side *b = &scene.bad->b;

		atomic_store(&b->qp->state->rq_pi, garbage[i]);
		send_from(&scene.bad->a, 1, 0, 64);
		run_until_idle(scene.world);
		assert_int_equal(qp_state(b->qp), IBV_QPS_ERR);
		assert_int_equal(events_of(b->client, b->qp, IBV_EVENT_QP_FATAL), 1);
		advance(scene.world, 100 * SEC);
		for (int n = 0; n < 8; n++)
			advance(scene.world, 4096ull << 14);
		expect(scene.bad->a.send_cq, 1, RETRY_EXC_ERR);
		check_good(&scene);
	}
}

static void a_producer_index_that_runs_backwards(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct side *a = &scene.bad->a;

	check_works(scene.bad);
	atomic_fetch_sub(&a->qp->state->sq_pi, 1);
	qp_ring(a->qp);
	run_until_idle(scene.world);
	assert_int_equal(qp_state(a->qp), IBV_QPS_ERR);
	assert_int_equal(events_of(a->client, a->qp, IBV_EVENT_QP_FATAL), 1);
	check_good(&scene);
}

/* The device's own lines are the client's to spoil, too. */
static void the_devices_indices_overwritten(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct simhca_qp_mem *mem[] = { scene.bad->a.qp->state, scene.bad->b.qp->state };

		send_from(&scene.bad->a, 1, 0, 64);
		run_until_idle(scene.world);
		for (int n = 0; n < 2; n++) {
			uint32_t *words = (uint32_t *)mem[n];

			for (size_t w = 64 / 4; w < sizeof(*mem[n]) / 4; w++)
				words[w] = garbage[i];
			ring_doorbell(scene.bad->a.client, scene.bad->a.qp->doorbell);
			ring_doorbell(scene.bad->b.client, scene.bad->b.qp->doorbell);
		}
		for (int n = 0; n < 10; n++)
			advance(scene.world, SEC);
		check_good(&scene);
		pair_reconnect(scene.bad);
		check_works(scene.bad);
	}
}

/* What a requester with two messages under way, and a responder, may say of how far they are. */
struct lie {
	size_t offset; /* in struct simhca_requester or _responder */
	uint32_t bytes;
	uint64_t value;
};
#define LIE(type, field, value)                                                                    \
	{                                                                                          \
		offsetof(struct type, field), sizeof(((struct type *)0)->field), value             \
	}

static void tell_lie(void *copies, size_t size, const struct lie *lie)
{
	/* Whichever counts. */
	memcpy((char *)copies + lie->offset, &lie->value, lie->bytes);
	memcpy((char *)copies + size + lie->offset, &lie->value, lie->bytes);
}

/* A send that found no receive is under way when the lie is told, and is tried again then. */
static struct scene one_under_way(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);

	send_from(&scene.bad->a, 1, 0, 64);
	rounds(scene.world, 3);
	assert_int_equal(requester_of(scene.bad->a.qp)->count, 1);
	assert_int_equal(requester_of(scene.bad->a.qp)->wait, SIMHCA_WAIT_RNR);
	recv_into(&scene.bad->b, 1, 0, 64);
	return scene;
}

static void expect_fatal(struct scene *scene, struct side *side)
{
	struct pair *bad = scene->bad;
	struct simhca_cqe cqe;

	others_had_turns(side->qp);
	advance(scene->world, SEC);
	assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
	assert_int_equal(events_of(side->client, side->qp, IBV_EVENT_QP_FATAL), 1);
	check_good(scene);
	pair_reconnect(bad);
	while (cq_poll(bad->a.send_cq, &cqe) || cq_poll(bad->b.recv_cq, &cqe))
		;
	check_works(bad);
}

static void requesters_that_lie_about_their_progress(void **state)
{
#define R(field, value) LIE(simhca_requester, field, value)
	static const struct lie lies[] = {
		R(psn_una, 0x1000000),
		R(psn_una, 0xfffff0),
		R(psn_send, 0x1000000),
		R(psn_send, 0x7ffffe),
		R(psn_sent, 0x1000000),
		R(psn_sent, 0xfffff0),
		R(psn_next, 0x1000000),
		R(psn_next, 0),
		R(count, 65),
		R(count, 0x80000000),
		R(count, 2),
		R(reads, 1),
		R(wait, 6),
		R(fault, 2),
		R(alone, 2),
		R(answered, 2),
		R(answered, 1),
		R(revoked, 2),
		R(went_back, 2),
		R(silence_logged, 2),
	};
#undef R
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct scene scene = one_under_way(state);

		tell_lie(scene.bad->a.qp->state->req, sizeof(struct simhca_requester), &lies[i]);
		expect_fatal(&scene, &scene.bad->a);
	}
}

static uint64_t flight(uint64_t opcode, uint64_t first, uint64_t last)
{
	return opcode << SIMHCA_FLIGHT_OPCODE_SHIFT | last << SIMHCA_FLIGHT_LAST_SHIFT | first;
}

/* The message in the ring is a SEND of 64 bytes, at this PSN, and takes one. */
static void requesters_that_lie_about_a_message(void **state)
{
	const uint64_t psn = default_options(IBV_QPT_RC).psn;
	const uint64_t lies[] = {
		flight(SIMHCA_WR_SEND, psn + 1, psn),
		flight(SIMHCA_WR_SEND, psn + 1, psn + 1),
		flight(SIMHCA_WR_SEND, psn - 1, psn),
		flight(SIMHCA_WR_SEND, (psn + 0x7fffff) & SIMHCA_PSN_MASK, psn),
		flight(SIMHCA_WR_RDMA_WRITE, psn, psn),
		flight(SIMHCA_WR_RDMA_READ, psn, psn),
		flight(SIMHCA_WR_LOCAL_INV, psn, psn),
		flight(0xffff, psn, psn),
		0,
		UINT64_MAX,
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct scene scene = one_under_way(state);

		for (int n = 0; n < SIMHCA_MAX_FLIGHTS; n++)
			atomic_store(&scene.bad->a.qp->state->flight[n], lies[i]);
		expect_fatal(&scene, &scene.bad->a);
	}
}

static void responders_that_lie_about_their_progress(void **state)
{
#define R(field, value) LIE(simhca_responder, field, value)
	static const struct lie lies[] = {
		R(epsn, 0x1000000),
		R(msn, 0x1000000),
		R(psns_done, 0x800001),
		R(offset, UINT64_MAX),
		R(left, UINT64_MAX),
		R(owed, 3),
		R(read.psn, 0x1000000),
		R(read.left, 0x40000001),
		R(in_message, 2),
		R(write, 2),
		R(have_recv, 2),
		R(nak_sent, 2),
		R(reported_psn, 2),
		R(revoked, 2),
		R(comm_est, 2),
		R(tm.kind, 4),
		R(rq_ci, 5),
	};
#undef R
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct scene scene = one_under_way(state);

		tell_lie(scene.bad->b.qp->state->resp, sizeof(struct simhca_responder), &lies[i]);
		expect_fatal(&scene, &scene.bad->b);
	}
}

/* A part of a read is owed by a key that is none; the receive that its QP holds fails with it. */
static void a_read_that_is_owed_while_a_receive_is_held(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct side *a = &scene.bad->a, *b = &scene.bad->b;
	const uint32_t psn = a->options.psn;

	assert_int_equal(0, qp_move(b->qp, IBV_QPS_RESET)); /* nobody answers */
	rdma_read(a, 1, 0, 4096, 0);
	rounds(scene.world, 3);
	qp_connect(b->qp, a->client->device_index, a->qp->qpn, &b->options);
	recv_into(b, 2, 0, 64);
	for (int n = 0; n < 2; n++) {
		struct simhca_requester *req = &a->qp->state->req[n];
		struct simhca_responder *resp = &b->qp->state->resp[n];

		req->psn_una = psn + 1;
		req->psn_send = req->psn_sent = req->psn_next;
		req->wait = SIMHCA_WAIT_NOTHING;
		resp->epsn = req->psn_next;
		resp->owed = SIMHCA_OWES_RESPONSE;
		resp->read = (struct simhca_read_owed){
			.psn = psn + 1, .rkey = 0xdead00, .va = b->mr->iova, .left = 3072
		};
		resp->have_recv = 1;
	}
	others_had_turns(a->qp);
	others_had_turns(b->qp);
	qp_ring(a->qp);
	qp_ring(b->qp);
	run_until_idle(scene.world);
	expect_why(b->recv_cq, 2, LOC_ACCESS_ERR, KEY_UNKNOWN);
	assert_int_equal(qp_state(b->qp), IBV_QPS_ERR);
	check_good(&scene);
}

/* Nobody but the device takes turns, so what a word says of another holder makes no sense. */
static void turns_of_nobody(void **state)
{
	struct scene scene = one_under_way(state);

	atomic_store(&scene.bad->a.qp->state->req_owner.holder, 0xdead);
	expect_fatal(&scene, &scene.bad->a);
	scene = one_under_way(state);
	atomic_store(&scene.bad->b.qp->state->resp_owner.holder, UINT32_MAX);
	expect_fatal(&scene, &scene.bad->b);
}

/* From within the requester's turn: whoever found it taken asks for another look. */
static void ask_for_another_look(struct cq *cq, void *arg)
{
	struct side *side = arg;

	(void)cq;
	assert_int_equal(atomic_load(&side->qp->state->req_owner.holder), SIMHCA_OWNER_DEVICE);
	atomic_fetch_or(&side->qp->state->req_owner.holder, SIMHCA_OWNER_WANTED);
	atomic_store(&side->qp->state->sq_pi, side->qp->sq_pi + 1);
}

static void a_turn_that_is_wanted(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct side *a = &scene.bad->a;
	struct simhca_cqe cqe;

	qp_put(a->qp, &(struct wr){ .id = 1,
				    .opcode = SIMHCA_WR_RDMA_WRITE,
				    .flags = SIMHCA_WQE_SIGNALED,
				    .remote_addr = scene.bad->b.mr->iova,
				    .rkey = scene.bad->b.mr->rkey });
	qp_put(a->qp, &(struct wr){ .id = 2,
				    .opcode = SIMHCA_WR_RDMA_WRITE,
				    .flags = SIMHCA_WQE_SIGNALED,
				    .remote_addr = scene.bad->b.mr->iova,
				    .rkey = scene.bad->b.mr->rkey });
	atomic_store(&a->qp->state->sq_pi, --a->qp->sq_pi);
	a->send_cq->on_event = ask_for_another_look;
	a->send_cq->on_event_arg = a;
	cq_arm(a->send_cq, SIMHCA_ARM_NEXT);
	qp_ring(a->qp);
	run_until_idle(scene.world);
	for (uint64_t id = 1; id <= 2; id++) {
		assert_true(cq_poll(a->send_cq, &cqe));
		assert_int_equal(cqe.wr_id, id);
	}
	assert_int_equal(atomic_load(&a->qp->state->req_owner.holder), 0);
}

static void cq_indices_overwritten(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct simhca_cq_mem *mem = scene.bad->a.send_cq->state;

		atomic_store(&mem->ci, garbage[i] * 3);
		atomic_store(&mem->pi, garbage[i]);
		atomic_store(&mem->arm, garbage[i]);
		atomic_store(&mem->overrun, garbage[i]);
		for (uint64_t id = 0; id < 60; id++)
			rdma_write(&scene.bad->a, id, 0, 8, 0);
		run_until_idle(scene.world);
		cq_resize(scene.bad->a.send_cq, 8);
		cq_resize(scene.bad->a.send_cq, 1000);
		check_good(&scene);
	}
}

static void srq_indices_overwritten(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct options options = default_options(IBV_QPT_RC);
		struct client *client = client_new(scene.world, 1);
		struct srq *srq = srq_new(client, 16, 2, 5);
		struct side *sender = side_new(client_new(scene.world, 0), &options);
		struct side receiver;
		bool possible;

		side_make(&receiver, client, &options, srq);
		sender->peer = &receiver;
		qp_connect(sender->qp, 1, receiver.qp->qpn, &options);
		qp_connect(receiver.qp, 0, sender->qp->qpn, &options);
		if (i % 2)
			atomic_store(&srq->state->pi, garbage[i]);
		else
			atomic_store(&srq->state->head, garbage[i]);
		/* One WQE more than none may be a lie, but it is a possible number. */
		possible = srq->state->pi - srq_ci_of(srq) <= srq->entries;
		send_from(sender, 1, 0, 8);
		run_until_idle(scene.world);
		assert_int_equal(qp_state(receiver.qp), IBV_QPS_ERR);
		assert_int_equal(events_of(client, receiver.qp, IBV_EVENT_QP_FATAL), !possible);
		srq_modify(srq, SIMHCA_SRQ_MAX_WR, 8, 0);
		srq_modify(srq, SIMHCA_SRQ_MAX_WR, 64, 0);
		check_good(&scene);
	}
}

/* A WQE whose own counts go past its slot: refused by its copy, with the reason. */
static void work_requests_that_lie_about_their_size(void **state)
{
	static const struct {
		uint8_t flags, num_sge;
		uint32_t inline_len;
		enum simhca_reason reason;
	} lie[] = {
		{ SIMHCA_WQE_SIGNALED, 255, 0, SIMHCA_REASON_WQE_TOO_MANY_SGE },
		{ SIMHCA_WQE_SIGNALED, 5, 0, SIMHCA_REASON_WQE_TOO_MANY_SGE },
		{ SIMHCA_WQE_SIGNALED, 33, 0, SIMHCA_REASON_WQE_TOO_MANY_SGE },
		{ SIMHCA_WQE_SIGNALED | SIMHCA_WQE_INLINE, 0, 257,
		  SIMHCA_REASON_WQE_INLINE_TOO_LONG },
		{ SIMHCA_WQE_SIGNALED | SIMHCA_WQE_INLINE, 0, 1u << 20,
		  SIMHCA_REASON_WQE_INLINE_TOO_LONG },
		{ SIMHCA_WQE_SIGNALED | SIMHCA_WQE_INLINE, 255, 0xffffffff,
		  SIMHCA_REASON_WQE_INLINE_TOO_LONG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lie); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct side *a = &scene.bad->a;
		struct simhca_send_wqe *wqe;

		wqe = qp_put(a->qp, &(struct wr){ .id = 1,
						  .opcode = SIMHCA_WR_RDMA_WRITE,
						  .remote_addr = scene.bad->b.mr->iova,
						  .rkey = scene.bad->b.mr->rkey });
		wqe->flags = lie[i].flags;
		wqe->num_sge = lie[i].num_sge;
		wqe->inline_len = lie[i].inline_len;
		qp_ring(a->qp);
		expect_(a->send_cq, 1, IBV_WC_LOC_QP_OP_ERR, lie[i].reason, __FILE__, __LINE__);
		check_good(&scene);
	}
}

/* A receive WQE with too many SGEs has no completion that could be trusted: the QP is corrupt. */
static void receive_requests_that_lie_about_their_size(void **state)
{
	static const uint32_t counts[] = { 5, 33, 255, 0x10000000, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct scene scene = make(*state, IBV_QPT_RC);
		struct side *b = &scene.bad->b;

		recv_into(b, 1, 0, 64);
		((struct simhca_recv_wqe *)b->qp->rq)->num_sge = counts[i];
		send_from(&scene.bad->a, 1, 0, 8);
		run_until_idle(scene.world);
		assert_int_equal(qp_state(b->qp), IBV_QPS_ERR);
		check_good(&scene);
	}
}

/* Every opcode there is, with every flag, on every transport. */
static void every_opcode_and_flag(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct scene scene = make(*state, kinds[k]);
		struct pair *bad = scene.bad;

		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			for (unsigned int flags = 0; flags < 256; flags += 15) {
				struct simhca_send_wqe *wqe;
				struct simhca_cqe cqe;

				wqe = qp_put(bad->a.qp,
					     &(struct wr){ .id = opcode,
							   .opcode = (uint8_t)opcode,
							   SGES(sge(bad->a.mr, 0, 8)),
							   .remote_addr = bad->b.mr->iova,
							   .rkey = bad->b.mr->rkey,
							   .av = av_to(scene.world, 1, 0),
							   .dest_qpn = bad->b.qp->qpn,
							   .qkey = 0x11111111 });
				wqe->flags = (uint8_t)flags;
				recv_into(&bad->b, 1, 0, 512);
				qp_ring(bad->a.qp);
				run_until_idle(scene.world);
				while (cq_poll(bad->a.send_cq, &cqe) ||
				       cq_poll(bad->b.recv_cq, &cqe))
					;
				if (opcode > 8 || flags % 4 == 3)
					pair_reconnect(bad);
				else if (qp_state(bad->a.qp) != IBV_QPS_RTS ||
					 qp_state(bad->b.qp) != IBV_QPS_RTS)
					pair_reconnect(bad);
				else if (bad->b.qp->rq_pi - rq_ci_of(bad->b.qp) > 32)
					pair_reconnect(bad);
			}
		}
		check_good(&scene);
		check_works(bad);
	}
}

static void every_doorbell_rung(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct simhca_ctx_mem *mem = scene.bad->a.client->mem;

	for (int lap = 0; lap < 20; lap++) {
		for (size_t i = 0; i < SIMHCA_DB_LEAVES; i++)
			atomic_store(&mem->leaf[i], UINT64_MAX);
		for (size_t i = 0; i < SIMHCA_DB_MIDS; i++)
			atomic_store(&mem->mid[i], UINT64_MAX);
		atomic_store(&mem->top, UINT64_MAX);
		run_until_idle(scene.world);
		check_good(&scene);
		/* Nobody looks at those of QPs that the client never had. */
		assert_true(atomic_load(&mem->leaf[SIMHCA_DB_LEAVES - 1]) == UINT64_MAX);
	}
	check_works(scene.bad);
	/* Bits above without any below, and the other way round. */
	atomic_store(&mem->top, UINT64_MAX);
	run_until_idle(scene.world);
	for (size_t i = 0; i < SIMHCA_DB_LEAVES; i++)
		atomic_store(&mem->leaf[i], UINT64_MAX);
	run_until_idle(scene.world);
	atomic_store(&mem->armed, 0xffffffff);
	check_works(scene.bad);
	check_good(&scene);
}

/* A doorbell that rings without pause keeps the engine busy, and the others are still served. */
static void a_doorbell_that_never_stops(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct pair *good = scene.good;
	struct simhca_cqe cqe;

	recv_into(&good->b, 1, 0, 64);
	send_from(&good->a, 2, 0, 64);
	for (int i = 0; i < 100; i++) {
		ring_doorbell(scene.bad->a.client, scene.bad->a.qp->doorbell);
		ring_doorbell(scene.bad->b.client, scene.bad->b.qp->doorbell + 77);
		rounds(scene.world, 1);
	}
	assert_true(cq_poll(good->a.send_cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	assert_true(cq_poll(good->b.recv_cq, &cqe));
}

/* Turn words of turns that never were. */
static void turn_words_overwritten(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct pair *bad = scene.bad;

	atomic_store(&bad->a.qp->state->req_owner.generation, 0xdead);
	atomic_store(&bad->b.qp->state->resp_owner.generation, 1);
	recv_into(&bad->b, 1, 0, 64);
	send_from(&bad->a, 1, 0, 64);
	rounds(scene.world, 1000);
	check_works(scene.good);
	for (int i = 0; i < 100; i++) {
		atomic_fetch_add(&scene.world->now, SEC);
		rounds(scene.world, 100);
	}
	check_works(scene.good);
	/* The client can be taken down whatever it holds. */
	client_gone(bad->a.client);
	client_gone(bad->b.client);
	check_works(scene.good);
}

/* One QP with endless work is given turns, not the engine. */
static void a_client_with_endless_work(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct scene scene = make(*state, IBV_QPT_RC);
	struct simhca_cqe cqe;
	struct pair *busy;

	options.buffer = 1 << 20;
	busy = pair_new(scene.world, &options);
	for (uint64_t id = 0; id < 60; id++)
		rdma_write(&busy->a, id, 0, 1 << 20, 0);
	rounds(scene.world, 1);
	recv_into(&scene.good->b, 1, 0, 64);
	send_from(&scene.good->a, 2, 0, 64);
	rounds(scene.world, 3);
	assert_true(cq_poll(scene.good->a.send_cq, &cqe));
	run_until_idle(scene.world);
	for (uint64_t id = 0; id < 60; id++)
		expect(busy->a.send_cq, id, SUCCESS);
}

/* For each receive that is flushed the client posts another: a flush must come to an end. */
static void refill(struct cq *cq, void *arg)
{
	struct qp *qp = arg;

	if (atomic_load(&cq->events) < 100000)
		atomic_fetch_add(&qp->state->rq_pi, 1);
	cq_arm(cq, SIMHCA_ARM_NEXT);
}

static void a_queue_refilled_while_it_is_flushed(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(scene.world, 0);
	struct cq *cq = cq_new_flags(client, 16, SIMHCA_CQ_IGNORE_OVERRUN);
	struct qp *qp = qp_new(client, &options, cq, cq, NULL);

	qp_connect(qp, 1, 0xfff0, &options);
	qp_recv(qp, 1, NULL, 0);
	cq->on_event = refill;
	cq->on_event_arg = qp;
	cq_arm(cq, SIMHCA_ARM_NEXT);
	assert_int_equal(0, qp_move(qp, IBV_QPS_ERR));
	rounds(scene.world, 1);
	assert_true(atomic_load(&cq->events) > 0);
	assert_true(atomic_load(&cq->events) < 100000);
	check_works(scene.good);
}

/* A QP on a full CQ of its own, posting on and on. */
static void a_client_that_never_polls(void **state)
{
	struct scene scene = make(*state, IBV_QPT_RC);

	for (uint64_t id = 0; id < 2000; id++) {
		struct qp *qp = scene.bad->a.qp;

		if (qp->sq_pi - sq_ci_of(qp) < 64)
			rdma_write(&scene.bad->a, id, 0, 8, 0);
		rounds(scene.world, 3);
	}
	assert_int_equal(events_of(scene.bad->a.client, scene.bad->a.send_cq, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(qp_state(scene.bad->a.qp), IBV_QPS_ERR);
	check_good(&scene);
}

/* ------------------------------------------------------------------------------ fuzz */

/* Some of each: single bits, words of a few kinds, long runs; mostly where it hurts. */
static void scribble(struct client *client, struct pair *pair, uint64_t *seed)
{
	static const uint64_t nasty[] = { 0, 1, 2, 63, 64, 65, 0x7fffffff, 0xffffffff, UINT64_MAX };
	struct qp *qps[] = { pair->a.qp, pair->b.qp };
	struct cq *cqs[] = { pair->a.send_cq, pair->a.recv_cq, pair->b.send_cq, pair->b.recv_cq };
	struct qp *qp = qps[test_random(seed) % 2];
	struct cq *cq = cqs[test_random(seed) % 4];
	uint64_t value = test_random(seed) % 2
				 ? nasty[test_random(seed) % ARRAY_SIZE(nasty)]
				 : (uint64_t)test_random(seed) << 32 | test_random(seed);
	uint8_t *base, *at;
	uint64_t size;

	switch (test_random(seed) % 8) {
	case 0:
		base = (uint8_t *)qp->state;
		size = sizeof(*qp->state);
		break;
	case 1:
		base = (uint8_t *)cq->state;
		size = sizeof(*cq->state);
		break;
	case 2:
		base = qp->sq;
		size = (uint64_t)qp->granted.sq_entries * qp->granted.sq_stride;
		break;
	case 3:
		base = qp->rq;
		size = (uint64_t)qp->granted.rq_entries * qp->granted.rq_stride;
		break;
	case 4:
		base = (uint8_t *)cq->ring;
		size = cq->entries * sizeof(*cq->ring);
		break;
	case 5:
		base = (uint8_t *)client->mem;
		size = sizeof(*client->mem);
		break;
	default:
		base = client->segment[0].addr;
		size = client->segment[0].size;
		break;
	}
	at = base + (test_random(seed) % (size / 8)) * 8;
	switch (test_random(seed) % 4) {
	case 0:
		*at ^= (uint8_t)(1u << test_random(seed) % 8);
		break;
	case 1:
		memset(at, (int)value,
		       size - (uint64_t)(at - base) < 64 ? size - (uint64_t)(at - base) : 64);
		break;
	default:
		memcpy(at, &value, 8);
	}
}

/* A plausible request now and then, or the fuzz would only ever see dead QPs. */
static void post_something(struct pair *pair, uint64_t *seed)
{
	struct side *side = test_random(seed) % 2 ? &pair->a : &pair->b;
	struct qp *qp = side->qp;
	uint32_t pi = atomic_load(&qp->state->sq_pi);
	struct simhca_send_wqe wqe = {
		.wr_id = test_random(seed),
		.opcode = (uint8_t)(test_random(seed) % 7),
		.flags = (uint8_t)(test_random(seed) % 16),
		.num_sge = 1,
	};
	struct simhca_sge one = sge(side->mr, test_random(seed) % 1000, test_random(seed) % 3000);
	uint8_t *slot =
		qp->sq + (size_t)(pi & (qp->granted.sq_entries - 1)) * qp->granted.sq_stride;

	wqe.rdma.remote_addr = side->peer->mr->iova + test_random(seed) % 1000;
	wqe.rdma.rkey = side->peer->mr->rkey;
	memcpy(slot, &wqe, sizeof(wqe));
	memcpy(slot + sizeof(wqe), &one, sizeof(one));
	atomic_store(&qp->state->sq_pi, pi + 1);
	pi = atomic_load(&qp->state->rq_pi);
	slot = qp->rq + (size_t)(pi & (qp->granted.rq_entries - 1)) * qp->granted.rq_stride;
	memcpy(slot, &(struct simhca_recv_wqe){ .wr_id = 1, .num_sge = 1 }, 16);
	memcpy(slot + 16, &one, sizeof(one));
	atomic_store(&qp->state->rq_pi, pi + 1);
	qp_ring(qp);
}

static void scribbling_over_context_memory(void **state)
{
	struct world *world = *state;
	const char *given = getenv("SIMHCA_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 20261121;
	struct options options = default_options(IBV_QPT_RC);
	struct pair *good = pair_new(world, &options);
	unsigned int turns = 6000;

	print_message("SIMHCA_TEST_SEED=%llu\n", (unsigned long long)seed);
	for (unsigned int victim = 0; victim < 8; victim++) {
		struct pair *bad;
		struct client *client;

		options = default_options(
			victim % 3 == 0 ? IBV_QPT_UD : (victim % 3 == 1 ? IBV_QPT_RC : IBV_QPT_UC));
		options.same_context = true;
		bad = pair_new(world, &options);
		client = bad->a.client;
		for (unsigned int turn = 0; turn < turns / 8; turn++) {
			uint32_t length = 1 + test_random(&seed) % 5000;

			for (unsigned int n = test_random(&seed) % 8; n; n--)
				scribble(client, bad, &seed);
			post_something(bad, &seed);

			fill(good->a.mr->addr, length, turn);
			recv_into(&good->b, turn, 8192, length);
			send_from(&good->a, turn, 0, length);
			atomic_fetch_add(&world->now, test_random(&seed) % (10 * MSEC));
			rounds(world, 20);
			expect(good->a.send_cq, turn, SUCCESS);
			expect(good->b.recv_cq, turn, SUCCESS);
			assert_true(filled(good->b.mr->addr + 8192, length, turn));

			if (turn % 50 == 49) { /* back to life */
				qp_move(bad->a.qp, IBV_QPS_RESET);
				qp_move(bad->b.qp, IBV_QPS_RESET);
				pair_connect(bad);
			}
		}
		client_gone(client);
	}
	check_works(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_send_producer_index_that_makes_no_sense),
		ON_ETHERNET(a_receive_producer_index_that_makes_no_sense),
		ON_ETHERNET(a_producer_index_that_runs_backwards),
		ON_ETHERNET(the_devices_indices_overwritten),
		ON_ETHERNET(requesters_that_lie_about_their_progress),
		ON_ETHERNET(requesters_that_lie_about_a_message),
		ON_ETHERNET(responders_that_lie_about_their_progress),
		ON_ETHERNET(a_read_that_is_owed_while_a_receive_is_held),
		ON_ETHERNET(turns_of_nobody),
		ON_ETHERNET(a_turn_that_is_wanted),
		ON_ETHERNET(cq_indices_overwritten),
		ON_ETHERNET(srq_indices_overwritten),
		ON_ETHERNET(work_requests_that_lie_about_their_size),
		ON_ETHERNET(receive_requests_that_lie_about_their_size),
		ON_ETHERNET(every_opcode_and_flag),
		ON_ETHERNET(every_doorbell_rung),
		ON_ETHERNET(a_doorbell_that_never_stops),
		ON_ETHERNET(turn_words_overwritten),
		ON_ETHERNET(a_client_with_endless_work),
		ON_ETHERNET(a_queue_refilled_while_it_is_flushed),
		ON_ETHERNET(a_client_that_never_polls),
		ON_ETHERNET(scribbling_over_context_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
