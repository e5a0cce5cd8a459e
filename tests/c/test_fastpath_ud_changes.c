/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The device beside steps that send datagrams: events, resets, resizes, addresses, Q_Keys. */
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "fastpath_ud.h"
#include "core/context.h"
#include "simhca-attach.h"

static void the_limit_is_told_of_once(void **state)
{
	struct pair *pair = ud_pair_by(*state, 0, SHARED);
	struct simhca_step step = fastpath_attach(&pair->a);

	for (uint64_t id = 0; id < 5; id++)
		ud_receive(pair, id);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 3), 0);
	for (uint32_t left = 4; left; left--) {
		ud_send(&pair->a, LENGTH);
		/* It is the device that tells. */
		assert_int_equal(fastpath_run(&step), left != 2);
		assert_int_equal(fastpath_limits(pair), left < 2);
		ud_ring(&pair->a);
		assert_int_equal(fastpath_limits(pair), left <= 2);
	}
	assert_int_equal(step.fastpath->messages, 4);
	fastpath_detach(&step);
}

static void who_sleeps_is_woken(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	uint64_t record;
	int ends[2];

	/* By the device, */
	ud_receive(pair, 0);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	ud_send(&pair->a, LENGTH);
	assert_false(fastpath_run(&step));
	assert_int_equal(step.fastpath->recv_events, 1);
	assert_int_equal(step.fastpath->event_peer, pair->b.qp->qpn);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 0);
	ud_ring(&pair->a);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 1);
	/* which believes no more than that the QP is attached to it, */
	step.fastpath->event_peer = pair->a.qp->qpn;
	step.fastpath->recv_events = 1;
	ud_ring(&pair->a);
	assert_int_equal(atomic_load(&pair->a.recv_cq->events), 0);
	assert_int_equal(step.fastpath->recv_events, 0);
	/* or by the program. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	step.peer.recv_notify = (struct simhca_notify){ .fd = ends[0], .record = 77 };
	ud_receive(pair, 1);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	ud_send(&pair->a, LENGTH);
	assert_true(fastpath_run(&step));
	assert_int_equal(recv(ends[1], &record, sizeof(record), MSG_DONTWAIT), sizeof(record));
	assert_int_equal(record, 77);
	assert_int_equal(atomic_load(&pair->b.recv_cq->events), 1);
	close(ends[0]);
	close(ends[1]);
	fastpath_detach(&step);
}

static void a_reset_waits_for_a_step(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
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
	fastpath_detach(&step);
}

static struct pair *midway;
static unsigned int under_way;

static void stop_when_claimed(void)
{
	if (rq_ci_of(midway->b.qp) == 1 && !simhca_fastpath_stop(midway->a.world->fabric))
		under_way++;
}

/* A device that ends waits for the step of a program that lives; no other one begins. */
static void the_end_waits_for_a_step(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_fabric *fabric = pair->a.world->fabric;

	midway = pair;
	under_way = 0;
	for (uint64_t id = 0; id < 2; id++)
		ud_receive(pair, id);
	ud_send(&pair->a, LENGTH);
	fastpath_at_store = stop_when_claimed;
	assert_true(fastpath_run(&step));
	fastpath_at_store = NULL;
	assert_true(under_way > 1);
	expect(pair->b.recv_cq, 0, SUCCESS);
	assert_true(simhca_fastpath_stop(fabric));
	ud_send(&pair->a, LENGTH);
	assert_false(fastpath_run(&step));
	expect_none(pair->b.recv_cq);
	/* Who has ended in one stays there for ever. */
	atomic_fetch_add(&step.fastpath->guard, 1);
	atomic_store(&pair->a.client->context->dead, true);
	assert_true(simhca_fastpath_stop(fabric));
	atomic_store(&pair->a.client->context->dead, false);
	assert_false(simhca_fastpath_stop(fabric));
	atomic_fetch_add(&step.fastpath->guard, 1);
	fastpath_detach(&step);
}

static void end_when_claimed(void)
{
	if (rq_ci_of(midway->b.qp) == 2)
		fastpath_end();
}

/* What was claimed in another life of the queue is nobody's. */
static void a_reset_forgets_claims(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct side *before = ud_another(pair), *other = ud_another(pair);
	struct simhca_step step = fastpath_attach(before);

	midway = pair;
	for (uint64_t id = 0; id < 3; id++)
		ud_receive(pair, id);
	/* Its successor has the number by which it claimed. */
	ud_send(before, LENGTH);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	fastpath_detach(&step);
	client_gone(before->client);
	step = fastpath_attach(other);
	ud_send(other, LENGTH);
	fastpath_at_store = end_when_claimed;
	assert_true(fastpath_killed_at(&step, 0));
	fastpath_at_store = NULL;
	assert_int_equal(rq_ci_of(pair->b.qp), 2);
	assert_int_equal(step.fastpath->dest, pair->b.qp->qpn);
	atomic_fetch_add(&step.fastpath->guard, 1); /* as if it were known that it has ended */
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	pair->b.qp->rq_pi = 0;
	qp_up_to(pair->b.qp, IBV_QPS_RTS, qp_attr_to(pair->b.qp, 0, 0, &pair->b.options));
	ud_receive(pair, 3);
	client_gone(other->client);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	run_until_idle(*state);
	expect(pair->b.recv_cq, 3, WR_FLUSH_ERR);
	expect_none(pair->b.recv_cq);
	fastpath_detach(&step);
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
	struct simhca_step step = fastpath_attach(&pair->a);
	struct resizer resizer = { .pair = pair };
	pthread_t thread;

	ud_receive(pair, 0);
	ud_send(&pair->a, LENGTH);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	expect(pair->a.send_cq, 0, SUCCESS);
	atomic_store(&pair->a.client->context->dead, true);
	assert_int_equal(pthread_create(&thread, NULL, resize_until_stopped, &resizer), 0);
	for (uint32_t i = 0; i < 2000; i++) {
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 1000 + i;
		step.fastpath->dest = pair->b.qp->qpn;
		ud_ring(&pair->a);
		assert_int_equal(step.fastpath->dest, 0);
	}
	atomic_store(&resizer.stop, true);
	pthread_join(thread, NULL);
	atomic_store(&pair->a.client->context->dead, false);
	fastpath_detach(&step);
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
			ud_receive(pair, 0);
			ud_send(&pair->a, LENGTH);
		}
		fastpath_run(&runner->step);
		posted = !fastpath_next_cqe(pair->a.send_cq, &cqe);
		if (posted)
			continue;
		assert_true(fastpath_next_cqe(pair->b.recv_cq, &cqe));
		atomic_fetch_add(&runner->carried, 1);
		/* Its source, of the header: both halves are of one GID. */
		runner->torn += memcmp(pair->b.mr->addr + 8, pair->b.mr->addr + 16, 8) != 0;
	}
	return NULL;
}

static uint64_t epochs_of(const struct simhca_step *step)
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
	runner.step = fastpath_attach(&pair->a);
	runner.fastpath_epoch = epochs_of(&runner.step);
	assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, &runner), 0);
	for (uint64_t i = 0; i < 2000; i++) {
		struct simhca_step again;

		gids[1].gid.global.subnet_prefix = gids[1].gid.global.interface_id = i + 1;
		simhca_device_set_gids(world->device[0], gids);
		again = fastpath_attach(&pair->a);
		atomic_store(&runner.fastpath_epoch, epochs_of(&again));
		fastpath_detach(&again);
		/* Some go well, and others meet a change. */
		for (unsigned int before = runner.carried; i % 8 == 0 && runner.carried == before;)
			sched_yield();
	}
	atomic_store(&runner.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(runner.torn, 0);
	fastpath_detach(&runner.step);
}

/* A datagram has the receiver's Q_Key, or is left to the device. */
static void a_qkey_changes_beside_steps(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct runner runner = { .pair = pair, .step = fastpath_attach(&pair->a) };
	const uint32_t qkey = pair->b.options.qkey;
	pthread_t thread;

	runner.fastpath_epoch = epochs_of(&runner.step);
	assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, &runner), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		const struct simhca_qp_attr attr = { .qkey = i % 2 ? qkey : qkey + 1 };

		assert_int_equal(qp_modify(pair->b.qp, SIMHCA_QP_QKEY, attr), 0);
		for (unsigned int before = runner.carried; i % 8 == 7 && runner.carried == before;)
			sched_yield();
	}
	atomic_store(&runner.stop, true);
	pthread_join(thread, NULL);
	fastpath_detach(&runner.step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(who_sleeps_is_woken),	HERE(the_limit_is_told_of_once),
		HERE(a_reset_waits_for_a_step), HERE(the_end_waits_for_a_step),
		HERE(a_reset_forgets_claims),	HERE(a_sender_is_recovered_during_a_resize),
		HERE(gids_change_beside_steps), HERE(a_qkey_changes_beside_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
