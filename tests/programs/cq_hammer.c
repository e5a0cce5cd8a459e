/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Arming races completions, many times: producers send as soon as their last message was consumed;
 * consumers arm after a delay that moves through the race, look once more, and sleep on the
 * channel. Every second CQ is armed for solicited completions. Must never be seen:
 *
 * - a lost wake-up: nothing on the channel for 20 seconds while messages are missing
 * - an event without an arm, or two for one
 * - more events than completions. (An event that finds its completion taken is no mistake: the
 *   device adds a completion first, and looks afterwards whether the CQ is armed.)
 * - a hint that is wrong: "poll again", and there is nothing
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <infiniband/simhcadv.h>

#include "helper.h"

#define MAX 16
#define DEPTH 8

static long rounds = 10000;
static int producers = 4, cqs = 2, consumers = 1;
static bool processes, hint, moderated;

/* Between the consumer and its producers, which may be other processes. */
static struct shared {
	atomic_long consumed[MAX];
	_Atomic uint32_t consumer_qpn[MAX], producer_qpn[MAX];
} * shared;

static bool is_solicited(int cq)
{
	return cq % 2;
}

static long share_of(int producer)
{
	return rounds / producers + (producer < rounds % producers);
}

/* ----------------------------------------------------------------------------- producers */

static void *produce(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED |
						(is_solicited(me % cqs) ? IBV_SEND_SOLICITED : 0) };
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);

	atomic_store(&shared->producer_qpn[me], qp->qp_num);
	while (!atomic_load(&shared->consumer_qpn[me]))
		sched_yield();
	start_qp(qp, atomic_load(&shared->consumer_qpn[me]));
	for (long i = 0; i < share_of(me); i++) {
		struct ibv_wc wc;
		int polled;

		/* One message on its way; or several, of which one arm tells at most once. */
		while (atomic_load(&shared->consumed[me]) + me % 2 * (DEPTH - 2) < i)
			sched_yield();
		CHECK(!post_send(qp, &wr));
		while (!(polled = ibv_poll_cq(cq, 1, &wc)))
			;
		CHECK(polled == 1 && wc.status == IBV_WC_SUCCESS);
	}
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return NULL;
}

/* ------------------------------------------------------------------------------ consumers */

static struct queue {
	struct ibv_cq *cq;
	pthread_mutex_t lock;
	long arms, events, completions, slept;
	long idle; /* events whose completion had been taken */
	bool due;  /* an event was read */
} queues[MAX];

static struct ibv_comp_channel *channel;
static struct ibv_qp *receivers[MAX];
static atomic_long total;

/* All that is there. Under the lock. */
static int take(struct queue *queue)
{
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc[4];
	int polled, all = 0;

	while ((polled = ibv_poll_cq(queue->cq, 4, wc)) > 0) {
		all += polled;
		queue->completions += polled;
		for (int i = 0; i < polled; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			wr.wr_id = wc[i].wr_id;
			CHECK(!ibv_post_recv(receivers[wr.wr_id], &wr, &bad));
			atomic_fetch_add(&total, 1);
			atomic_fetch_add(&shared->consumed[wr.wr_id], 1);
		}
	}
	CHECK(polled == 0);
	return all;
}

/* Takes what there is until an event is sure to tell of the next completion. */
static void drain(struct queue *queue)
{
	bool solicited = is_solicited((int)(queue - queues));
	int said;

	/* Until about when the next completion comes. */
	for (volatile long spin = queue->slept * 37 % 9000; spin > 0; spin--)
		;
	for (;;) {
		queue->arms++;
		if (hint) {
			said = simhcadv_req_notify_cq(queue->cq,
						      (solicited ? SIMHCADV_CQ_SOLICITED
								 : SIMHCADV_CQ_NEXT_COMP) |
							      SIMHCADV_CQ_REPORT_MISSED_EVENTS);
			CHECK(said >= 0);
			if (!said)
				break;
			CHECK(take(queue) > 0);
		} else {
			CHECK(!ibv_req_notify_cq(queue->cq, solicited));
			if (!take(queue))
				break;
		}
	}
	queue->slept++;
}

/* All events that can be read by now, before anything is armed: an arm has one at most. */
static bool read_events(void)
{
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	while (!ibv_get_cq_event(channel, &cq, &context)) {
		struct queue *queue = context;

		CHECK(queue->cq == cq);
		ibv_ack_cq_events(cq, 1);
		pthread_mutex_lock(&queue->lock);
		queue->events++;
		CHECK(queue->events <= queue->arms);
		queue->due = true;
		pthread_mutex_unlock(&queue->lock);
		any = true;
	}
	CHECK(errno == EAGAIN); /* no more, or another thread has it */
	return any;
}

static void work(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	if (queue->due) {
		queue->due = false;
		queue->idle += !take(queue);
		CHECK(queue->events <= queue->completions);
		drain(queue);
	}
	pthread_mutex_unlock(&queue->lock);
}

static void *consume(void *arg)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	double last = now();

	while (atomic_load(&total) < rounds) {
		if (poll(&readable, 1, 100) == 0) {
			if (now() - last > 20 && consumers == 1)
				fprintf(stderr, "lost: %ld of %ld\n", atomic_load(&total), rounds);
			CHECK(now() - last < 20 || consumers > 1);
			CHECK(now() - last < 60);
			continue;
		}
		if (read_events())
			last = now();
		for (int i = 0; i < cqs; i++)
			work(&queues[i]);
	}
	return arg;
}

static void make_queues(struct ibv_context *context)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { 4, 50 } };

	for (int i = 0; i < cqs; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		queues[i].cq = ibv_create_cq(context, DEPTH * MAX, &queues[i], channel, 0);
		CHECK(queues[i].cq);
		CHECK(!moderated || !ibv_modify_cq(queues[i].cq, &attr));
	}
}

static void make_receivers(struct ibv_pd *pd, struct ibv_cq *send_cq)
{
	for (int i = 0; i < producers; i++) {
		struct ibv_qp_init_attr attr = { .send_cq = send_cq,
						 .recv_cq = queues[i % cqs].cq,
						 .qp_type = IBV_QPT_RC,
						 .cap = { 1, DEPTH, 1, 1, 0 } };
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)i }, *bad;

		receivers[i] = ibv_create_qp(pd, &attr);
		CHECK(receivers[i]);
		while (!atomic_load(&shared->producer_qpn[i]))
			sched_yield();
		start_qp(receivers[i], atomic_load(&shared->producer_qpn[i]));
		for (int n = 0; n < DEPTH; n++)
			CHECK(!ibv_post_recv(receivers[i], &wr, &bad));
	}
}

static void options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:p:q:c:fhm")) != -1) {
		switch (option) {
		case 'n':
			rounds = atol(optarg);
			break;
		case 'p':
			producers = atoi(optarg);
			break;
		case 'q':
			cqs = atoi(optarg);
			break;
		case 'c':
			consumers = atoi(optarg);
			break;
		case 'f':
			processes = true;
			break;
		case 'h':
			hint = true;
			break;
		case 'm':
			moderated = true;
			break;
		default:
			CHECK(!"an option of ours");
		}
	}
	CHECK(producers <= MAX && cqs <= producers && consumers <= MAX);
}

int main(int argc, char **argv)
{
	pthread_t producing[MAX], consuming[MAX];
	struct ibv_context *context;
	struct ibv_cq *send_cq;
	struct ibv_pd *pd;
	long slept = 0, events = 0, idle = 0;
	pid_t child[MAX];
	int status;

	options(argc, argv);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < producers; i++) {
		if (!processes) {
			CHECK(!pthread_create(&producing[i], NULL, produce, (void *)(intptr_t)i));
			continue;
		}
		child[i] = fork();
		CHECK(child[i] >= 0);
		if (!child[i]) {
			produce((void *)(intptr_t)i);
			return 0;
		}
	}

	context = open_device();
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	CHECK(pd && channel);
	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(send_cq);
	make_queues(context);
	make_receivers(pd, send_cq);
	for (int i = 0; i < cqs; i++)
		drain(&queues[i]);
	for (int i = 0; i < producers; i++)
		atomic_store(&shared->consumer_qpn[i], receivers[i]->qp_num);
	for (int i = 0; i < consumers; i++)
		CHECK(!pthread_create(&consuming[i], NULL, consume, NULL));

	for (int i = 0; i < consumers; i++)
		CHECK(!pthread_join(consuming[i], NULL));
	for (int i = 0; i < producers; i++) {
		if (processes)
			CHECK(waitpid(child[i], &status, 0) == child[i] && status == 0);
		else
			CHECK(!pthread_join(producing[i], NULL));
		CHECK(!ibv_destroy_qp(receivers[i]));
	}
	for (int i = 0; i < cqs; i++) {
		slept += queues[i].slept;
		events += queues[i].events;
		idle += queues[i].idle;
		CHECK(!ibv_destroy_cq(queues[i].cq));
	}
	CHECK(!ibv_destroy_cq(send_cq));
	CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	printf("%ld messages, %ld sleeps, %ld events, %ld of them found nothing\n", rounds, slept,
	       events, idle);
	return 0;
}
