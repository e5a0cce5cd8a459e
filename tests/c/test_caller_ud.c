/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams by the programs that post them (libsimhca/message/step_ud.c). */
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "caller_scene.h"
#include "core/context.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)
#define MOST_STORES 300
#define SIGNALED SIMHCA_WQE_SIGNALED

/* Where b's receives are. */
enum queue { OWN, SHARED };

static struct pair *ud_pair_by(struct world *world, uint8_t gid_index, enum queue queue)
{
	struct options options = caller_options();
	struct pair *pair;

	options.type = IBV_QPT_UD;
	options.gid_index = gid_index;
	options.srq_wr = queue == SHARED ? 128 : 0;
	options.max_recv_wr = 128;
	options.buffer = 1 << 20;
	pair = caller_pair(world, &options);
	settle(world); /* the device looks at a QP that has just come to RTS */
	return pair;
}

static struct pair *ud_pair(struct world *world)
{
	return ud_pair_by(world, 0, OWN);
}

/* Another program that sends to b. */
static struct side *another(struct pair *pair)
{
	struct side *other = side_new(client_new(pair->a.world, 0), &pair->a.options);

	other->peer = &pair->b;
	qp_up_to(other->qp, IBV_QPS_RTS,
		 qp_attr_to(other->qp, 0, pair->b.qp->qpn, &pair->a.options));
	caller_offer(other->client);
	settle(pair->a.world);
	return other;
}

static struct wr wr_to(const struct side *side, const struct side *peer)
{
	return (struct wr){ .opcode = SIMHCA_WR_SEND,
			    .flags = SIGNALED,
			    .av = av_to(side->world, 0, side->options.gid_index),
			    .dest_qpn = peer->qp->qpn,
			    .qkey = peer->options.qkey };
}

static void put_send(struct side *side, uint32_t length)
{
	struct simhca_sge from = sge(side->mr, 0, length);
	struct wr wr = wr_to(side, side->peer);

	wr.sges = &from;
	wr.num_sge = 1;
	qp_put(side->qp, &wr);
}

/* How many receives have been claimed. */
static uint32_t claimed_of(const struct side *side)
{
	return side->srq ? srq_ci_of(side->srq) : rq_ci_of(side->qp);
}

static void put_receive(struct pair *pair, uint64_t id)
{
	recv_into(&pair->b, id, id * BUFFER, BUFFER);
}

static void ring(struct side *side)
{
	qp_ring(side->qp);
	settle(side->world);
}

/* The next completion that is not void. */
static bool next_cqe(struct cq *cq, struct simhca_cqe *cqe)
{
	while (cq_poll(cq, cqe))
		if (cqe->qpn != SIMHCA_VOID_QPN)
			return true;
	return false;
}

/* -------------------------------------------------------------------- as by the device */

static const struct work {
	const char *name;
	uint8_t opcode, flags;
	uint32_t count, length, sges;
	bool inlined;
} works[] = {
	{ "a send", SIMHCA_WR_SEND, SIGNALED, 1, 100, 1, false },
	{ "an empty one", SIMHCA_WR_SEND, SIGNALED, 1, 0, 1, false },
	{ "with imm", SIMHCA_WR_SEND_WITH_IMM, SIGNALED, 2, 101, 1, false },
	{ "inline", SIMHCA_WR_SEND, SIGNALED, 2, 64, 1, true },
	{ "of two parts, solicited", SIMHCA_WR_SEND, SIGNALED | SIMHCA_WQE_SOLICITED, 3, 1001, 2,
	  false },
	{ "as long as the MTU", SIMHCA_WR_SEND, SIGNALED, 1, 4096, 1, false },
	{ "short, of two parts", SIMHCA_WR_SEND, SIGNALED, 2, 64, 2, false },
	{ "unsignaled", SIMHCA_WR_SEND, 0, 3, 8, 1, false },
	{ "more than a turn takes", SIMHCA_WR_SEND, 0, 100, 8, 1, false },
};

static void put_work(struct pair *pair, const struct work *work)
{
	const uint32_t room = SIMHCA_GRH_BYTES + work->length;

	for (uint32_t i = 0; i < work->count; i++) {
		uint32_t at = i * work->length, first = work->length / work->sges;
		struct simhca_sge parts[2] = { sge(pair->a.mr, at, first),
					       sge(pair->a.mr, at + first, work->length - first) };
		/* Where the header ends is in the middle of a buffer. */
		struct simhca_sge into[2] = { sge(pair->b.mr, i * room, 30),
					      sge(pair->b.mr, i * room + 30, room - 30) };
		struct wr wr = wr_to(&pair->a, &pair->b);

		wr.id = 1000 + i;
		wr.opcode = work->opcode;
		wr.flags = work->flags;
		wr.imm = 7 + i;
		if (work->inlined) {
			wr.inline_data = pair->a.mr->addr + at;
			wr.inline_len = work->length;
		} else {
			wr.sges = parts;
			wr.num_sge = work->sges;
		}
		side_recv(&pair->b, 2000 + i, into, 2);
		qp_put(pair->a.qp, &wr);
	}
}

static void same_cqes(struct cq *one, struct cq *other)
{
	struct simhca_cqe x, y;

	while (cq_poll(one, &x)) {
		assert_true(cq_poll(other, &y));
		assert_int_equal(x.wr_id, y.wr_id);
		assert_int_equal(x.byte_len, y.byte_len);
		assert_int_equal(x.imm_or_rkey, y.imm_or_rkey);
		assert_int_equal(x.vendor_err, y.vendor_err);
		assert_int_equal(x.wqe_index, y.wqe_index);
		assert_memory_equal(&x.opcode, &y.opcode,
				    offsetof(struct simhca_cqe, seq) -
					    offsetof(struct simhca_cqe, opcode));
	}
	assert_false(cq_poll(other, &y));
}

static struct simhca_usage_sum usage_of(const struct side *side)
{
	struct simhca_qp_info info;
	uint32_t handle = side->qp->handle;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	memset(info.usage.latency, 0, sizeof(info.usage.latency)); /* they differ each time */
	return info.usage;
}

static void as_the_device_does(struct world *world, uint8_t gid_index, enum queue queue)
{
	uint64_t before[SIMHCA_STATS], by_fast_path[SIMHCA_STATS], by_device[SIMHCA_STATS];

	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		const struct work *work = &works[w];
		struct pair *pair = ud_pair_by(world, gid_index, queue);
		struct pair *other = ud_pair_by(world, gid_index, queue);
		struct simhca_step step = caller_attach(&pair->a);
		uint32_t bytes = work->count * (SIMHCA_GRH_BYTES + work->length);

		print_message("%s\n", work->name);
		for (uint32_t round = 0; round < 3; round++) {
			for (int i = 0; i < 2; i++) {
				struct pair *one = i ? other : pair;

				memset(one->b.mr->addr, 0xee, bytes);
				fill(one->a.mr->addr, bytes, round + 1);
				put_work(one, work);
			}
			simhca_device_stats(world->device[0], before);
			assert_true(caller_run(&step));
			settle(world); /* nothing that it could do */
			simhca_device_stats(world->device[0], by_fast_path);
			ring(&other->a);
			simhca_device_stats(world->device[0], by_device);
			for (int i = 0; i < SIMHCA_STATS; i++)
				assert_int_equal(by_fast_path[i] - before[i],
						 by_device[i] - by_fast_path[i]);
			assert_memory_equal(pair->b.mr->addr, other->b.mr->addr, bytes);
			assert_int_equal(requester_of(pair->a.qp)->psn_next,
					 requester_of(other->a.qp)->psn_next);
			assert_int_equal(requester_of(pair->a.qp)->oldest,
					 requester_of(other->a.qp)->oldest);
			assert_int_equal(claimed_of(&pair->b), claimed_of(&other->b));
			same_cqes(pair->a.send_cq, other->a.send_cq);
			same_cqes(pair->b.recv_cq, other->b.recv_cq);
		}
		assert_int_equal(step.fastpath->messages, 3 * work->count);
		for (int i = 0; i < 2; i++) {
			struct simhca_usage_sum one = usage_of(i ? &pair->b : &pair->a);
			struct simhca_usage_sum same = usage_of(i ? &other->b : &other->a);

			assert_memory_equal(&one, &same, sizeof(one));
		}
		check_works(pair); /* the device finds what the caller has left */
		caller_detach(&step);
	}
}

static void what_the_device_does_by_ipv4(void **state)
{
	as_the_device_does(*state, 0, OWN);
}

static void what_the_device_does_by_ipv6(void **state)
{
	as_the_device_does(*state, 1, OWN);
}

static void what_the_device_does_with_an_srq(void **state)
{
	as_the_device_does(*state, 0, SHARED);
}

static int setup_ib(void **state)
{
	*state = world_new(
		&(struct world_config){ .infiniband = true, .device = { .fast_path = true } });
	return 0;
}

/* --------------------------------------------------------------------- left to the device */

static void no_receive(struct pair *pair)
{
	put_send(&pair->a, LENGTH);
}

static void short_receive(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, BUFFER - 1);
	put_send(&pair->a, LENGTH);
}

static void nonsense(struct pair *pair)
{
	put_send(&pair->a, LENGTH);
	atomic_store(&pair->b.qp->claims->pi, pair->b.qp->granted.rq_entries + 1);
}

static void many_receive_sges(struct pair *pair)
{
	put_receive(pair, 0);
	((struct simhca_recv_wqe *)pair->b.qp->rq)->num_sge = 1000;
	put_send(&pair->a, LENGTH);
}

static void wrong_qkey(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.qkey ^= 1;
}

static void too_long(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 5000);
	put_send(&pair->a, 4097);
}

static void empty_source(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	memset((void *)&simhca_device_memory(pair->a.world->device[0])->gids[0].gid, 0, 16);
}

static void another_operation(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->opcode = SIMHCA_WR_SEND_WITH_INV;
}

static void another_qp(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.dest_qpn++;
}

static void another_address(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_send_wqe *)pair->a.qp->sq)->ud.av.hop_limit++;
}

static void others_key(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_sge *)(pair->a.qp->sq + sizeof(struct simhca_send_wqe)))->lkey =
		pair->b.mr->lkey;
}

static void full_recv_cq(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	atomic_store(&pair->b.recv_cq->state->pi, pair->b.recv_cq->cqe);
}

static void full_send_cq(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	atomic_store(&pair->a.send_cq->state->pi, pair->a.send_cq->cqe);
}

static void in_sqd(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	assert_int_equal(qp_move(pair->a.qp, IBV_QPS_SQD), 0);
}

static void peer_in_error(struct pair *pair)
{
	put_send(&pair->a, LENGTH);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
}

/* Not by its program. */
static void peer_failed(struct pair *pair)
{
	const struct simhca_devmem *device = simhca_device_memory(pair->a.world->device[0]);
	struct simhca_qpc *qpc = (void *)((char *)device + device->qpc_offset);

	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	atomic_store(&qpc[SIMHCA_QPN_SLOT(pair->b.qp->qpn)].state, SIMHCA_QPS_ERR);
}

static void unsettled(struct pair *pair)
{
	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	((struct simhca_fastpath *)client_at(pair->a.client, &pair->a.qp->granted.fastpath))->dest =
		pair->b.qp->qpn;
}

static void anothers_event(struct pair *pair)
{
	struct simhca_fastpath *mem = client_at(pair->a.client, &pair->a.qp->granted.fastpath);

	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	mem->recv_events = 1;
	mem->told_to = pair->b.qp->qpn + 1;
}

static void anothers_limit(struct pair *pair)
{
	struct simhca_fastpath *mem = client_at(pair->a.client, &pair->a.qp->granted.fastpath);

	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
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
	{ unsettled, SIMHCA_SLOW_WAITS },      { anothers_event, SIMHCA_SLOW_WAITS },
	{ anothers_limit, SIMHCA_SLOW_WAITS },
};

static void nothing_is_consumed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		uint32_t pi, dest;
		struct simhca_srq_mem before;
		struct simhca_step step;
		struct pair *pair;

		caller_setup(state);
		pair = ud_pair(*state);
		step = caller_attach(&pair->a);
		refusals[i].arrange(pair);
		memcpy(&before, pair->b.qp->claims, sizeof(before));
		pi = pair->b.recv_cq->state->pi;
		dest = step.fastpath->dest;
		assert_false(caller_run(&step));
		for (int why = 0; why < SIMHCA_SLOW_REASONS; why++)
			assert_int_equal(step.fastpath->handed[why], why == (int)refusals[i].why);
		assert_memory_equal(&before, pair->b.qp->claims, sizeof(before));
		assert_int_equal(pair->b.recv_cq->state->pi, pi);
		assert_int_equal(step.fastpath->dest, dest);
		assert_int_equal(step.fastpath->guard % 2, 0);
		assert_int_equal(pair->a.qp->state->req_owner.holder, 0);
		assert_int_equal(requester_of(pair->a.qp)->oldest, 0);
		caller_detach(&step);
		teardown(state);
	}
}

/* What the kernel does not copy the device does, with the receive that was claimed for it. */
static void a_copy_that_fails(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = caller_attach(&pair->a);
	struct mr *mr = mr_new(pair->b.client, 4096, caller_options().mr_access);
	struct simhca_sge into = sge(mr, 0, BUFFER);

	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = 4096; /* mapped by nobody */
	side_recv(&pair->b, 0, &into, 1);
	put_receive(pair, 1);
	put_send(&pair->a, LENGTH);
	assert_false(caller_run(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(rq_ci_of(pair->b.qp), 1);
	assert_int_equal(step.fastpath->dest, pair->b.qp->qpn);
	/* None is carried before that is settled. */
	assert_false(caller_run(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_WAITS], 1);
	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = (uintptr_t)mr->addr;
	ring(&pair->a);
	assert_int_equal(step.fastpath->dest, 0);
	expect(pair->a.send_cq, 0, SUCCESS);
	expect(pair->b.recv_cq, 0, SUCCESS);
	put_send(&pair->a, LENGTH);
	assert_true(caller_run(&step));
	expect(pair->b.recv_cq, 1, SUCCESS);
	caller_detach(&step);
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
	struct simhca_step step = caller_attach(&pair->a);
	struct simhca_cqe cqe;

	put_receive(pair, 0);
	put_receive(pair, 1);
	put_send(&pair->a, LENGTH);
	caller_at_store = fill_send_cq;
	assert_false(caller_run(&step));
	caller_at_store = NULL;
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_CQ], 1);
	assert_true(cq_poll(pair->b.recv_cq, &cqe));
	assert_int_equal(cqe.qpn, SIMHCA_VOID_QPN);
	expect_none(pair->b.recv_cq);
	caller_detach(&step);
	client_gone(pair->a.client);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	settle(world);
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

/* -------------------------------------------------------------------------- several senders */

static struct simhca_step *others_step;
static struct side *others_side;

/* In the middle of another's step. */
static void the_other_sends(void)
{
	void (*const hook)(void) = caller_at_store;

	caller_at_store = NULL;
	put_receive(midway, 0);
	put_send(others_side, LENGTH);
	assert_true(caller_run(others_step));
	others_side->send_cq->state->ci = others_side->send_cq->ci =
		others_side->send_cq->state->pi;
	caller_at_store = hook;
}

static unsigned int times, stop_after;

static void stop_once(void)
{
	if (++times == stop_after)
		the_other_sends();
}

/* Between any two stores of the one the other is done at once: no turn is held against it. */
static void who_is_stopped_is_in_nobodys_way(void **state)
{
	bool stopped = true;

	for (stop_after = 1; stopped; stop_after++) {
		struct simhca_step step, other;
		unsigned int received = 0;
		struct simhca_cqe cqe;

		caller_setup(state);
		midway = ud_pair(*state);
		others_side = another(midway);
		step = caller_attach(&midway->a);
		other = caller_attach(others_side);
		others_step = &other;
		put_receive(midway, 1);
		put_send(&midway->a, LENGTH);
		times = 0;
		caller_at_store = stop_once;
		assert_true(caller_run(&step));
		caller_at_store = NULL;
		stopped = times >= stop_after;
		while (next_cqe(midway->b.recv_cq, &cqe)) {
			assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
			received++;
		}
		assert_int_equal(received, 1 + stopped);
		caller_detach(&step);
		caller_detach(&other);
		teardown(state);
	}
	assert_true(stop_after > 20);
}

#define SENDERS 3u
#define EACH 3000u

static atomic_uint senders_left;

struct sender {
	struct side *side;
	struct simhca_step step;
};

static void *send_many(void *arg)
{
	struct sender *sender = arg;
	struct side *side = sender->side;
	struct simhca_cqe cqe;

	for (uint32_t sent = 0; sent < EACH; sent++) {
		*(uint64_t *)side->mr->addr = (uint64_t)side->qp->qpn << 32 | sent;
		put_send(side, 8);
		while (!caller_run(&sender->step))
			sched_yield();
		while (!cq_poll(side->send_cq, &cqe))
			sched_yield();
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	}
	atomic_fetch_sub(&senders_left, 1);
	return NULL;
}

/* Of each the datagrams come in their order, and each is whole. */
static void several_at_once(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct sender sender[SENDERS] = { { .side = &pair->a },
					  { .side = another(pair) },
					  { .side = another(pair) } };
	uint32_t from[SENDERS] = { 0 }, posted = 0, received = 0;
	pthread_t thread[SENDERS];
	struct simhca_cqe cqe;

	/*
	 * What is claimed is read before: if another has it by then it may be posted to meanwhile,
	 * and what was read is thrown away, which ThreadSanitizer cannot know.
	 */
	if (UNDER_TSAN)
		skip();
	while (posted < 64)
		put_receive(pair, posted++);
	atomic_store(&senders_left, SENDERS);
	for (uint32_t i = 0; i < SENDERS; i++)
		sender[i].step = caller_attach(sender[i].side);
	for (uint32_t i = 0; i < SENDERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, send_many, &sender[i]), 0);
	while (received < SENDERS * EACH) {
		uint64_t data;
		uint32_t i = 0;

		if (!next_cqe(pair->b.recv_cq, &cqe)) {
			sched_yield();
			continue;
		}
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		memcpy(&data, pair->b.mr->addr + cqe.wr_id * BUFFER + SIMHCA_GRH_BYTES, 8);
		while (i < SENDERS && sender[i].side->qp->qpn != cqe.src_qpn)
			i++;
		assert_true(i < SENDERS);
		assert_int_equal(data, (uint64_t)cqe.src_qpn << 32 | from[i]++);
		put_receive(pair, cqe.wr_id);
		received++;
	}
	for (uint32_t i = 0; i < SENDERS; i++) {
		pthread_join(thread[i], NULL);
		caller_detach(&sender[i].step);
	}
	assert_int_equal(atomic_load(&senders_left), 0);
	expect_none(pair->b.recv_cq);
}

/* ----------------------------------------------------------------------------- to whom */

static void who_may_be_attached(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_find_peer_req find = { .qp = pair->a.qp->handle,
					     .av = av_to(*state, 0, 0),
					     .dest_qpn = pair->b.qp->qpn };
	struct simhca_context *context = pair->a.client->context;
	struct simhca_find_peer_req wrong = find;
	struct simhca_find_peer_reply found;
	struct simhca_attach_peer_reply reply;
	struct simhca_secret guess = caller_secret;
	struct options options = pair->b.options;
	struct pair *other;

	assert_int_equal(simhca_find_peer(context, &find, &found, NULL), 0);
	guess.word[1]++;
	assert_int_equal(caller_attach_with(&pair->a, &guess, &reply), -EPERM);
	wrong.dest_qpn++;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong.dest_qpn = SIMHCA_MCAST_QPN;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong = find;
	wrong.av = av_to(*state, 1, 0); /* another port's */
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong = find;
	wrong.av.sgid_index = 6;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	options.srq_wr = 16;
	other = caller_pair(*state, &options);
	wrong = find;
	wrong.dest_qpn = other->b.qp->qpn;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), 0);
	/* The ring is another then, and the device's alone. */
	assert_int_equal(srq_modify(other->b.srq, SIMHCA_SRQ_MAX_WR, 500, 0), 0);
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	options = caller_options();
	wrong.dest_qpn = caller_pair(*state, &options)->b.qp->qpn; /* RC */
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(simhca_find_peer(context, &find, &found, NULL), -ENOTCONN);
}

/* One that only receives need not be in RTS. */
static void who_only_receives(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step;

	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	qp_up_to(pair->b.qp, IBV_QPS_RTR, qp_attr_to(pair->b.qp, 0, 0, &pair->b.options));
	step = caller_attach(&pair->a);
	put_receive(pair, 0);
	put_receive(pair, 1);
	for (uint64_t id = 0; id < 2; id++) {
		put_send(&pair->a, LENGTH);
		assert_true(caller_run(&step));
		expect(pair->b.recv_cq, id, SUCCESS);
		if (!id) /* nor does it end anything to go there */
			assert_int_equal(
				qp_modify(pair->b.qp, rts_mask(IBV_QPT_UD),
					  (struct simhca_qp_attr){ .qp_state = IBV_QPS_RTS }),
				0);
	}
	caller_detach(&step);
}

static void to_many(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step *to[SIMHCA_MAX_DESTINATIONS], steps[SIMHCA_MAX_DESTINATIONS];
	struct simhca_attach_peer_reply reply;
	struct side *side[SIMHCA_MAX_DESTINATIONS + 1];
	const struct simhca_send_wqe *unknown;
	struct simhca_sge from = sge(pair->a.mr, 0, LENGTH);

	for (uint32_t i = 0; i < ARRAY_SIZE(side); i++)
		side[i] = another(pair);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++) {
		steps[i] = caller_attach_to(&pair->a, side[i]);
		to[i] = &steps[i];
	}
	pair->a.peer = side[SIMHCA_MAX_DESTINATIONS];
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOSPC);
	for (uint32_t i = 0; i < ARRAY_SIZE(side); i++) {
		struct wr wr = wr_to(&pair->a, side[i]);

		wr.sges = &from;
		wr.num_sge = 1;
		recv_into(side[i], i, 0, BUFFER);
		qp_put(pair->a.qp, &wr);
	}
	assert_false(simhca_step_datagrams(to, ARRAY_SIZE(to), &unknown));
	assert_non_null(unknown);
	assert_int_equal(unknown->ud.dest_qpn, pair->a.peer->qp->qpn);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++)
		expect(side[i]->recv_cq, i, SUCCESS);
	expect_none(pair->a.peer->recv_cq);
	ring(&pair->a);
	expect(pair->a.peer->recv_cq, SIMHCA_MAX_DESTINATIONS, SUCCESS);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++)
		caller_detach(to[i]);
	/* Whoever goes gives its place. */
	assert_int_equal(
		patiently(simhca_destroy_qp(side[3]->client->context, side[3]->qp->handle, NULL)),
		0);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), 0);
}

/* So many senders, of which each gives its number back. */
static void from_many(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_attach_peer_reply reply;
	struct client *client = client_new(*state, 0);
	struct options options = pair->a.options;
	struct side *side = NULL, *first = NULL;
	int err = 0;
	uint32_t count;

	options.buffer = 4096;
	options.max_send_wr = options.max_recv_wr = options.cqe = 4;
	caller_offer(client);
	for (count = 0; !err; count++) {
		side = side_new(client, &options);
		first = first ? first : side;
		side->peer = &pair->b;
		qp_up_to(side->qp, IBV_QPS_RTS, qp_attr_to(side->qp, 0, pair->b.qp->qpn, &options));
		err = caller_attach_with(side, &caller_secret, &reply);
		assert_true(err || reply.claimant == SIMHCA_CLAIMANT_DEVICE + 1 + count);
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(count, SIMHCA_SRQ_CLAIMANTS);
	assert_int_equal(patiently(simhca_destroy_qp(client->context, first->qp->handle, NULL)), 0);
	assert_int_equal(caller_attach_with(side, &caller_secret, &reply), 0);
	assert_int_equal(reply.claimant, SIMHCA_CLAIMANT_DEVICE + 1);
}

/* A QP more of b's client and of its SRQ. */
static struct side *another_of_the_srq(struct pair *pair)
{
	struct side *other = world_alloc(pair->a.world, sizeof(*other));
	struct options options = pair->b.options;

	options.srq_wr = 0;
	side_make(other, pair->b.client, &options, pair->b.srq);
	qp_up_to(other->qp, IBV_QPS_RTS, qp_attr_to(other->qp, 0, pair->a.qp->qpn, &options));
	settle(pair->a.world);
	return other;
}

/* Those that send to QPs of an SRQ have numbers there, which they give back, and the QPs as well.
 */
static void numbers_in_an_srq(void **state)
{
	struct pair *pair = ud_pair_by(*state, 0, SHARED);
	struct side *sibling = another_of_the_srq(pair), *other = another(pair);
	struct simhca_attach_peer_reply reply;
	struct simhca_step steps[3], *to[2] = { &steps[0], &steps[1] };
	const struct simhca_send_wqe *unknown;
	struct simhca_cqe cqe;

	steps[0] = caller_attach(&pair->a);
	steps[1] = caller_attach_to(&pair->a, sibling);
	steps[2] = caller_attach(other);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(steps[i].peer.claimant, i + 1);
	/* Each has its own of what is in the SRQ. */
	for (uint64_t id = 0; id < 6; id++)
		put_receive(pair, id);
	for (uint32_t i = 0; i < 4; i++) {
		pair->a.peer = i % 2 ? sibling : &pair->b;
		put_send(&pair->a, LENGTH);
		if (i % 2)
			put_send(other, LENGTH);
	}
	assert_true(simhca_step_datagrams(to, 2, &unknown));
	assert_true(caller_run(&steps[2]));
	for (uint64_t i = 0; i < 6; i++) {
		const bool is_siblings = i == 1 || i == 3;

		assert_true(cq_poll(is_siblings ? sibling->recv_cq : pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.wr_id, i);
		assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_GRH);
	}
	/* One goes to whom it sent; and one who sent. */
	assert_int_equal(
		patiently(simhca_destroy_qp(sibling->client->context, sibling->qp->handle, NULL)),
		0);
	pair->a.peer = another_of_the_srq(pair);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), 0);
	assert_int_equal(reply.claimant, 2);
	client_gone(pair->a.client);
	other->peer = pair->a.peer;
	assert_int_equal(caller_attach_with(other, &caller_secret, &reply), 0);
	assert_int_equal(reply.claimant, 1);
	for (uint32_t i = 0; i < 3; i++)
		caller_detach(&steps[i]);
}

/* ------------------------------------------------------------------------------ events */

static int limits(const struct pair *pair)
{
	return events_of(pair->b.client, pair->b.srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

static void the_limit_is_told_of_once(void **state)
{
	struct pair *pair = ud_pair_by(*state, 0, SHARED);
	struct simhca_step step = caller_attach(&pair->a);

	for (uint64_t id = 0; id < 5; id++)
		put_receive(pair, id);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 3), 0);
	for (uint32_t left = 4; left; left--) {
		put_send(&pair->a, LENGTH);
		/* It is the device that tells. */
		assert_int_equal(caller_run(&step), left != 2);
		assert_int_equal(limits(pair), left < 2);
		ring(&pair->a);
		assert_int_equal(limits(pair), left <= 2);
	}
	assert_int_equal(step.fastpath->messages, 4);
	caller_detach(&step);
}

static void who_sleeps_is_woken(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = caller_attach(&pair->a);
	uint64_t record;
	int ends[2];

	/* By the device, */
	put_receive(pair, 0);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	put_send(&pair->a, LENGTH);
	assert_false(caller_run(&step));
	assert_int_equal(step.fastpath->recv_events, 1);
	assert_int_equal(step.fastpath->told_to, pair->b.qp->qpn);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 0);
	ring(&pair->a);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 1);
	/* which believes no more than that the QP is attached to it, */
	step.fastpath->told_to = pair->a.qp->qpn;
	step.fastpath->recv_events = 1;
	ring(&pair->a);
	assert_int_equal(atomic_load(&pair->a.recv_cq->events), 0);
	assert_int_equal(step.fastpath->recv_events, 0);
	/* or by the program. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	step.peer.recv_notify = (struct simhca_notify){ .fd = ends[0], .record = 77 };
	put_receive(pair, 1);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	put_send(&pair->a, LENGTH);
	assert_true(caller_run(&step));
	assert_int_equal(recv(ends[1], &record, sizeof(record), MSG_DONTWAIT), sizeof(record));
	assert_int_equal(record, 77);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 1);
	close(ends[0]);
	close(ends[1]);
	caller_detach(&step);
}

/* ----------------------------------------------------------------------------- the end */

static void a_reset_waits_for_a_step(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = caller_attach(&pair->a);
	struct simhca_modify_qp_req req = { .handle = pair->b.qp->handle,
					    .mask = SIMHCA_QP_STATE,
					    .attr = { .qp_state = SIMHCA_QPS_RESET } };
	struct simhca_modify_qp_reply reply;

	atomic_fetch_add(&step.fastpath->guard, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(simhca_modify_qp(pair->b.client->context, &req, &reply, NULL),
				 -EAGAIN);
	assert_int_equal(simhca_destroy_qp(pair->b.client->context, pair->b.qp->handle, NULL),
			 -EAGAIN);
	atomic_fetch_add(&step.fastpath->guard, 1);
	caller_detach(&step);
}

static void end_when_claimed(void)
{
	if (rq_ci_of(midway->b.qp) == 2)
		caller_end();
}

/* What was claimed in another life of the queue is nobody's. */
static void a_reset_forgets_claims(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct side *before = another(pair), *other = another(pair);
	struct simhca_step step = caller_attach(before);

	midway = pair;
	for (uint64_t id = 0; id < 3; id++)
		put_receive(pair, id);
	/* Its successor has the number by which it claimed. */
	put_send(before, LENGTH);
	assert_true(caller_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	caller_detach(&step);
	client_gone(before->client);
	step = caller_attach(other);
	put_send(other, LENGTH);
	caller_at_store = end_when_claimed;
	assert_true(caller_killed_at(&step, 0));
	caller_at_store = NULL;
	assert_int_equal(rq_ci_of(pair->b.qp), 2);
	assert_int_equal(step.fastpath->dest, pair->b.qp->qpn);
	atomic_fetch_add(&step.fastpath->guard, 1); /* as if it were known that it has ended */
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	pair->b.qp->rq_pi = 0;
	qp_up_to(pair->b.qp, IBV_QPS_RTS, qp_attr_to(pair->b.qp, 0, 0, &pair->b.options));
	put_receive(pair, 3);
	client_gone(other->client);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	settle(*state);
	expect(pair->b.recv_cq, 3, WR_FLUSH_ERR);
	expect_none(pair->b.recv_cq);
	caller_detach(&step);
}

/* Another thread resizes the queues of b, as control functions do, until it is to stop. */
struct resizer {
	struct pair *pair;
	atomic_bool stop;
};

static void *resize_until_stopped(void *arg)
{
	struct resizer *resizer = arg;
	const struct side *b = &resizer->pair->b;
	struct simhca_create_cq_reply cq;
	struct simhca_create_srq_reply srq;

	for (uint32_t i = 0; !atomic_load(&resizer->stop); i++) {
		const struct simhca_resize_cq_req to_cq = { .handle = b->recv_cq->handle,
							    .cqe = i & 1 ? 4000 : 1000 };
		const struct simhca_modify_srq_req to_srq = { .handle = b->srq->handle,
							      .mask = SIMHCA_SRQ_MAX_WR,
							      .max_wr = i & 1 ? 4000 : 1000 };

		while (simhca_resize_cq(b->client->context, &to_cq, &cq, NULL) == -ERESTART)
			;
		simhca_modify_srq(b->client->context, &to_srq, &srq, NULL);
	}
	return NULL;
}

/*
 * An engine recovers what a sender that has ended left at b, while the ring of b's CQ, and that of
 * its SRQ, are others from one moment to the next. (For ThreadSanitizer, and AddressSanitizer.)
 */
static void a_sender_is_recovered_during_a_resize(void **state)
{
	struct pair *pair = ud_pair_by(*state, 0, SHARED);
	struct simhca_step step = caller_attach(&pair->a);
	struct resizer resizer = { .pair = pair };
	pthread_t thread;

	put_receive(pair, 0);
	put_send(&pair->a, LENGTH);
	assert_true(caller_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	expect(pair->a.send_cq, 0, SUCCESS);
	atomic_store(&pair->a.client->context->dead, true);
	assert_int_equal(pthread_create(&thread, NULL, resize_until_stopped, &resizer), 0);
	for (uint32_t i = 0; i < 2000; i++) {
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 1000 + i;
		step.fastpath->dest = pair->b.qp->qpn;
		ring(&pair->a);
		assert_int_equal(step.fastpath->dest, 0);
	}
	atomic_store(&resizer.stop, true);
	pthread_join(thread, NULL);
	atomic_store(&pair->a.client->context->dead, false);
	caller_detach(&step);
}

/* A program that runs its steps as fast as it can; whoever attaches it says so by these. */
struct runner {
	struct pair *pair;
	struct simhca_step step;
	_Atomic uint64_t fastpath_epoch; /* its peer's, and its own */
	atomic_bool stop;
	_Atomic unsigned int carried;
	unsigned int torn;
};

static void *run_until_stopped(void *arg)
{
	struct runner *runner = arg;
	struct pair *pair = runner->pair;
	struct simhca_cqe cqe;
	uint64_t fastpath_epoch;
	bool posted = false;

	while (!atomic_load(&runner->stop)) {
		fastpath_epoch = atomic_load(&runner->fastpath_epoch);
		runner->step.fastpath_epoch = (uint32_t)fastpath_epoch;
		runner->step.peer.fastpath_epoch = fastpath_epoch >> 32;
		if (!posted) {
			put_receive(pair, 0);
			put_send(&pair->a, LENGTH);
		}
		caller_run(&runner->step);
		posted = !next_cqe(pair->a.send_cq, &cqe);
		if (posted)
			continue;
		assert_true(next_cqe(pair->b.recv_cq, &cqe));
		atomic_fetch_add(&runner->carried, 1);
		/* Its source, of the header: both halves are of one GID. */
		runner->torn += memcmp(pair->b.mr->addr + 8, pair->b.mr->addr + 16, 8) != 0;
	}
	return NULL;
}

static uint64_t callers_of(const struct simhca_step *step)
{
	return (uint64_t)step->peer.fastpath_epoch << 32 | step->fastpath_epoch;
}

/* A step that finds its GID in the table that the device is changing leaves it to the device. */
static void gids_change_beside_steps(void **state)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES];
	struct world *world = *state;
	struct pair *pair = ud_pair_by(world, 1, OWN);
	struct runner runner = { .pair = pair };
	pthread_t thread;

	memcpy(gids, simhca_device_memory(world->device[0])->gids, sizeof(gids));
	gids[5] = gids[1]; /* whom it sends to is to be found still */
	gids[1].gid.global.subnet_prefix = gids[1].gid.global.interface_id = 0xffff;
	simhca_device_set_gids(world->device[0], gids);
	runner.step = caller_attach(&pair->a);
	runner.fastpath_epoch = callers_of(&runner.step);
	assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, &runner), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		struct simhca_step again;

		gids[1].gid.global.subnet_prefix = gids[1].gid.global.interface_id = i + 1;
		simhca_device_set_gids(world->device[0], gids);
		again = caller_attach(&pair->a);
		atomic_store(&runner.fastpath_epoch, callers_of(&again));
		caller_detach(&again);
		/* Some go well, and others meet a change. */
		for (unsigned int before = runner.carried; i % 8 == 0 && runner.carried == before;)
			sched_yield();
	}
	atomic_store(&runner.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(runner.torn, 0);
	caller_detach(&runner.step);
}

/* A datagram has the receiver's Q_Key, or is left to the device. */
static void a_qkey_changes_beside_steps(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct runner runner = { .pair = pair, .step = caller_attach(&pair->a) };
	const uint32_t qkey = pair->b.options.qkey;
	pthread_t thread;

	runner.fastpath_epoch = callers_of(&runner.step);
	assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, &runner), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		const struct simhca_qp_attr attr = { .qkey = i % 2 ? qkey : qkey + 1 };

		assert_int_equal(qp_modify(pair->b.qp, SIMHCA_QP_QKEY, attr), 0);
		for (unsigned int before = runner.carried; i % 8 == 7 && runner.carried == before;)
			sched_yield();
	}
	atomic_store(&runner.stop, true);
	pthread_join(thread, NULL);
	caller_detach(&runner.step);
}

/* For each claim there is one receive at most, and for what is said of others none. */
static void a_sender_that_lies(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct pair *strangers = ud_pair(*state);
	struct simhca_step step = caller_attach(&pair->a);
	struct simhca_cqe cqe;
	uint32_t flushed = 0;

	put_receive(pair, 0);
	put_receive(pair, 1);
	put_send(&pair->a, LENGTH);
	assert_true(caller_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	expect(pair->a.send_cq, 0, SUCCESS);
	for (uint32_t i = 0; i < 10; i++) {
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 1000 + i;
		step.fastpath->dest = i % 2 ? pair->b.qp->qpn : strangers->b.qp->qpn;
		ring(&pair->a);
		assert_int_equal(step.fastpath->dest, 0);
	}
	step.fastpath->dest = 0xffffffff;
	ring(&pair->a);
	assert_int_equal(step.fastpath->dest, 0);
	check_works(strangers);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	settle(*state);
	while (next_cqe(pair->b.recv_cq, &cqe)) {
		assert_int_equal(cqe.status, SIMHCA_WC_WR_FLUSH_ERR);
		flushed++;
	}
	assert_int_equal(flushed, 2);
	caller_detach(&step);
}

/* What it leaves claimed is the QP's, up to what the queue holds: more cannot have been posted. */
static void a_sender_that_claims_for_ever(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = caller_attach(&pair->a);

	for (uint32_t i = 0; i <= pair->b.qp->granted.rq_entries; i++) {
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
		atomic_store(&pair->b.qp->claims->head,
			     (uint64_t)step.peer.claimant << 32 | (1000 + i));
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 0;
		step.fastpath->dest = pair->b.qp->qpn;
		ring(&pair->a);
	}
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	caller_detach(&step);
}

/*
 * Ends at each store, while another sends. Each receive completes once: for one of the datagrams,
 * or flushed; or it is in the SRQ still.
 */
static void ends_at_each_store(void **state, enum queue queue)
{
	const uint32_t sends = 3, posted = 6;
	bool killed = true, taken = false, lost = false;
	unsigned int store;

	for (store = 1; killed; store += STORE_STEP) {
		uint32_t arrived = 0, others = 0, flushed = 0, seen = 0, claimed, all = posted;
		struct simhca_step step, others_own;
		struct simhca_cqe cqe;
		struct side *other;
		struct pair *pair;

		assert_true(store < MOST_STORES);
		caller_setup(state);
		pair = ud_pair_by(*state, 0, queue);
		other = another(pair);
		step = caller_attach(&pair->a);
		others_own = caller_attach(other);
		for (uint64_t id = 0; id < posted; id++)
			put_receive(pair, id);
		if (queue == SHARED)
			srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, posted);
		fill(pair->a.mr->addr, LENGTH, 5);
		fill(other->mr->addr, LENGTH, 6);
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		for (uint32_t i = 0; i < sends; i++)
			put_send(&pair->a, LENGTH);
		killed = caller_killed_at(&step, store);
		claimed = claimed_of(&pair->b);
		others_own.peer.is_srq = false; /* it tells of no limit */
		put_send(other, LENGTH);
		caller_run(&others_own);
		assert_int_equal(claimed_of(&pair->b), claimed + 1);
		client_gone(pair->a.client);
		if (queue == SHARED)
			assert_int_equal(limits(pair), 1);
		/* By the device, which takes what was left first. */
		put_send(other, LENGTH);
		ring(other);
		assert_true(atomic_load(&pair->b.recv_cq->events));
		taken |= claimed_of(&pair->b) == claimed + 1;
		lost |= claimed_of(&pair->b) == claimed + 2;
		if (queue == SHARED)
			all = claimed_of(&pair->b);
		assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
		settle(*state);
		while (next_cqe(pair->b.recv_cq, &cqe)) {
			assert_true(cqe.wr_id < posted && !(seen & 1u << cqe.wr_id));
			seen |= 1u << cqe.wr_id;
			if (cqe.status) {
				flushed++;
				continue;
			}
			arrived += cqe.src_qpn == pair->a.qp->qpn;
			others += cqe.src_qpn == other->qp->qpn;
			assert_int_equal(cqe.byte_len, BUFFER);
			assert_true(filled(pair->b.mr->addr + cqe.wr_id * BUFFER + SIMHCA_GRH_BYTES,
					   LENGTH, cqe.src_qpn == pair->a.qp->qpn ? 5 : 6));
		}
		assert_int_equal(others, 2);
		assert_int_equal(arrived + others + flushed, all);
		assert_int_equal(seen, (1u << all) - 1);
		if (!killed)
			assert_int_equal(arrived, sends);
		caller_detach(&step);
		caller_detach(&others_own);
		teardown(state);
	}
	print_message("about %u stores\n", store);
	assert_true(taken && lost && store > 40);
}

static void killed_at_each_store(void **state)
{
	ends_at_each_store(state, OWN);
}

static void killed_at_each_store_with_an_srq(void **state)
{
	ends_at_each_store(state, SHARED);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, caller_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_the_device_does_by_ipv4),
		HERE(what_the_device_does_by_ipv6),
		HERE(what_the_device_does_with_an_srq),
		cmocka_unit_test_setup_teardown(what_the_device_does_by_ipv4, setup_ib, teardown),
		cmocka_unit_test(nothing_is_consumed),
		HERE(a_copy_that_fails),
		HERE(no_room_for_the_send),
		HERE(no_room_for_the_send_with_an_srq),
		cmocka_unit_test(who_is_stopped_is_in_nobodys_way),
		HERE(several_at_once),
		HERE(who_may_be_attached),
		HERE(who_only_receives),
		HERE(to_many),
		HERE(from_many),
		HERE(numbers_in_an_srq),
		HERE(who_sleeps_is_woken),
		HERE(the_limit_is_told_of_once),
		HERE(a_reset_waits_for_a_step),
		HERE(a_reset_forgets_claims),
		HERE(a_sender_is_recovered_during_a_resize),
		HERE(gids_change_beside_steps),
		HERE(a_qkey_changes_beside_steps),
		HERE(a_sender_that_lies),
		HERE(a_sender_that_claims_for_ever),
		cmocka_unit_test(killed_at_each_store),
		cmocka_unit_test(killed_at_each_store_with_an_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
