/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* ibv_modify_cq(): one event for several completions, or for a period. */
#include <pthread.h>
#include <stdatomic.h>

#include "loop.h"

#define LONG 60000 /* us: no test takes so long from one message to the next */

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { count, period } };

	return ibv_modify_cq(cq, &attr);
}

TEST(capabilities)
{
	struct ibv_device_attr_ex attr;
	struct loop loop = new_loop();

	CHECK(!ibv_query_device_ex(loop.end.context, NULL, &attr));
	CHECK(attr.cq_mod_caps.max_cq_count > 1 && attr.cq_mod_caps.max_cq_period > 1);
	CHECK(!moderate(loop.recv_cq, attr.cq_mod_caps.max_cq_count,
			attr.cq_mod_caps.max_cq_period));
	CHECK(!moderate(loop.recv_cq, 0, 0));
}

TEST(attributes)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = 0 };
	struct loop loop = new_loop();

	CHECK(ibv_modify_cq(loop.recv_cq, &attr) == EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | 2;
	CHECK(ibv_modify_cq(loop.recv_cq, &attr) == EOPNOTSUPP);
}

/* However large the count: the period ends, and a client that sleeps is woken. */
TEST(period)
{
	struct loop loop = new_loop();

	CHECK(!moderate(loop.recv_cq, 65535, 3000));
	for (int i = 0; i < 50; i++) {
		CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
		message(&loop, 0);
		take_event(&loop);
		poll_success(loop.recv_cq);
		CHECK(!has_event(&loop));
	}
}

/*
 * The count ends the wait, however long the period: ten batches of three are over before one period
 * is, or else this is a very slow machine, and the events are there all the same.
 */
TEST(count)
{
	struct loop loop = new_loop();
	double start = now();
	int early = 0;

	CHECK(!moderate(loop.recv_cq, 3, LONG));
	for (int i = 0; i < 10; i++) {
		CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
		message(&loop, 0);
		message(&loop, 0);
		early += has_event(&loop);
		message(&loop, 0);
		take_event(&loop);
		for (int n = 0; n < 3; n++)
			poll_success(loop.recv_cq);
	}
	CHECK(!early || now() - start > LONG / 1e6);
	CHECK(!has_event(&loop));
}

TEST(off_again)
{
	struct loop loop = new_loop();

	CHECK(!moderate(loop.recv_cq, 1000, LONG));
	CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
	message(&loop, 0);
	/* What waits is told of. */
	CHECK(!moderate(loop.recv_cq, 0, 0));
	take_event(&loop);
	CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
	message(&loop, 0);
	take_event(&loop);
}

/* Destroyed while an event is held back: none is left in the channel, and none comes later. */
TEST(destroyed_in_the_period)
{
	struct loop loop = new_loop();
	struct ibv_comp_channel *channel = loop.channel;
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };

	CHECK(!moderate(loop.recv_cq, 1000, 20000));
	CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
	message(&loop, 0);
	CHECK(!ibv_destroy_qp(loop.end.qp));
	CHECK(!ibv_destroy_cq(loop.recv_cq));
	CHECK(poll(&readable, 1, 60) == 0);
	CHECK(!ibv_destroy_comp_channel(channel));
}

static atomic_bool finished;

static void *change_moderation(void *arg)
{
	const struct loop *loop = arg;

	for (uint16_t i = 0; !finished; i++) {
		CHECK(!moderate(loop->recv_cq, i % 5, (uint16_t)(i * 37 % 300)));
		usleep(100);
	}
	return NULL;
}

static void *change_size(void *arg)
{
	const struct loop *loop = arg;

	for (int i = 0; !finished; i++) {
		CHECK(!ibv_resize_cq(loop->recv_cq, 4 + i * 37 % 500));
		usleep(100);
	}
	return NULL;
}

/* Whatever changes meanwhile, each arm has its event; and then the CQ goes in a period. */
TEST(changed_under_traffic)
{
	for (int round = 0; round < 10; round++) {
		struct loop loop = new_loop();
		pthread_t threads[2];

		finished = false;
		CHECK(!pthread_create(&threads[0], NULL, change_moderation, &loop));
		CHECK(!pthread_create(&threads[1], NULL, change_size, &loop));
		for (int i = 0; i < 100; i++) {
			CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
			message(&loop, 0);
			take_event(&loop);
			poll_success(loop.recv_cq);
			CHECK(!has_event(&loop));
		}
		finished = true;
		for (int i = 0; i < 2; i++)
			CHECK(!pthread_join(threads[i], NULL));
		CHECK(!moderate(loop.recv_cq, 5, (uint16_t)(50 + 20 * round)));
		CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
		message(&loop, 0);
		CHECK(!ibv_destroy_qp(loop.end.qp));
		CHECK(!ibv_destroy_cq(loop.recv_cq));
		CHECK(!has_event(&loop));
		CHECK(!ibv_destroy_comp_channel(loop.channel));
	}
}
