/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion channels: acknowledging, many of them, full ones, and how programs wait on them. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "loop.h"

/* A completion that raises an event; it is polled, so that the CQ stays small. */
static void make_event(const struct loop *loop)
{
	CHECK(!ibv_req_notify_cq(loop->recv_cq, 0));
	message(loop, 0);
	poll_success(loop->recv_cq);
}

static struct loop new_loop_on(const struct loop *first, struct ibv_comp_channel *channel)
{
	struct loop loop = *first;

	loop.channel = channel;
	loop.recv_cq = ibv_create_cq(loop.end.context, 100, NULL, channel, 0);
	CHECK(loop.recv_cq);
	loop.end.qp = new_loop_qp(&loop);
	return loop;
}

static struct ibv_cq *next_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(!ibv_get_cq_event(channel, &cq, &context));
	return cq;
}

/* ------------------------------------------------------------------------ acknowledgement */

static atomic_bool destroyed;

static void *destroys(void *cq)
{
	CHECK(!ibv_destroy_cq(cq));
	atomic_store(&destroyed, true);
	return NULL;
}

/* ibv_destroy_cq() waits until each event that was read has been acknowledged; not for others. */
TEST(destroy_waits_for_acknowledgement)
{
	struct loop loop = new_loop();
	pthread_t thread;

	for (int i = 0; i < 5; i++)
		make_event(&loop);
	for (int i = 0; i < 3; i++)
		CHECK(next_event(loop.channel) == loop.recv_cq);
	CHECK(!ibv_destroy_qp(loop.end.qp));
	CHECK(!pthread_create(&thread, NULL, destroys, loop.recv_cq));
	usleep(50000);
	CHECK(!atomic_load(&destroyed));
	ibv_ack_cq_events(loop.recv_cq, 2);
	usleep(50000);
	CHECK(!atomic_load(&destroyed));
	ibv_ack_cq_events(loop.recv_cq, 1);
	CHECK(!pthread_join(thread, NULL));
	CHECK(atomic_load(&destroyed) && !has_event(&loop));
	CHECK(!ibv_destroy_comp_channel(loop.channel));
}

static bool is_stream(int fd)
{
	int domain, type;
	socklen_t size = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_UNIX &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM;
}

/* A peer that raises events by itself, and lies about their number. */
TEST(destroy_waits_for_what_is_not_counted)
{
	struct loop first = new_loop(), loop;
	bool before[256];
	pthread_t thread;
	uint64_t record;
	int end = 0;

	for (int fd = 0; fd < 256; fd++)
		before[fd] = is_stream(fd);
	loop = new_loop_on(&first, first.channel);
	while (end < 256 && (before[end] || !is_stream(end)))
		end++;
	if (end == 256) /* the device raises them all */
		return;
	make_event(&loop);
	CHECK(next_event(loop.channel) == loop.recv_cq);
	atomic_store(&destroyed, false);
	record = (uintptr_t)loop.recv_cq;
	CHECK(send(end, &record, sizeof(record), 0) == sizeof(record));
	CHECK(next_event(loop.channel) == loop.recv_cq);
	ibv_ack_cq_events(loop.recv_cq, 1);
	CHECK(!ibv_destroy_qp(loop.end.qp));
	CHECK(!pthread_create(&thread, NULL, destroys, loop.recv_cq));
	usleep(1500000);
	CHECK(!atomic_load(&destroyed));
	ibv_ack_cq_events(loop.recv_cq, 1);
	CHECK(!pthread_join(thread, NULL));
}

/* Acknowledged in any portions, before or after. */
TEST(acknowledge_all_at_once)
{
	struct loop loop = new_loop();

	for (int i = 0; i < 100; i++)
		make_event(&loop);
	for (int i = 0; i < 100; i++)
		next_event(loop.channel);
	ibv_ack_cq_events(loop.recv_cq, 100);
	CHECK(!ibv_destroy_qp(loop.end.qp));
	CHECK(!ibv_destroy_cq(loop.recv_cq));
	CHECK(!ibv_destroy_comp_channel(loop.channel));
}

TEST(a_channel_in_use_stays)
{
	struct loop loop = new_loop();

	CHECK(ibv_destroy_comp_channel(loop.channel) == EBUSY);
	make_event(&loop);
	take_event(&loop);
}

/* ----------------------------------------------------------------------------- many, full */

#define CHANNELS 100

TEST(many_channels)
{
	struct loop first = new_loop(), loops[CHANNELS];

	for (int i = 0; i < CHANNELS; i++) {
		loops[i] = new_loop_on(&first, ibv_create_comp_channel(first.end.context));
		CHECK(!ibv_req_notify_cq(loops[i].recv_cq, 0));
	}
	for (int i = 0; i < CHANNELS; i += 3)
		message(&loops[i], 0);
	for (int i = 0; i < CHANNELS; i += 3)
		take_event(&loops[i]);
	for (int i = 0; i < CHANNELS; i++)
		CHECK(!has_event(&loops[i]));
	CHECK(!has_event(&first));
	for (int i = 0; i < CHANNELS; i++) {
		CHECK(!ibv_destroy_qp(loops[i].end.qp));
		CHECK(!ibv_destroy_cq(loops[i].recv_cq));
		CHECK(!ibv_destroy_comp_channel(loops[i].channel));
	}
}

/* More than a pipe holds (64 KiB, 8 bytes each). None is lost, and the QP does not wait. */
TEST(unread_events)
{
	const int events = getenv("SIMHCA_SOAK") ? 70000 : 20000;
	struct loop one = new_loop(), other = new_loop_on(&one, one.channel);
	int of_one = 0;

	for (int i = 0; i < events / 2; i++) {
		make_event(&one);
		make_event(&other);
	}
	for (int i = 0; i < events; i++) {
		struct pollfd readable = { .fd = one.channel->fd, .events = POLLIN };

		CHECK(poll(&readable, 1, 10000) == 1);
		of_one += next_event(one.channel) == one.recv_cq;
	}
	CHECK(of_one == events / 2 && !has_event(&one));
	ibv_ack_cq_events(one.recv_cq, events / 2);
	ibv_ack_cq_events(other.recv_cq, events / 2);
	CHECK(!ibv_destroy_qp(one.end.qp) && !ibv_destroy_cq(one.recv_cq));
	make_event(&other);
	take_event(&other);
}

/* A CQ goes with events that wait outside of the full pipe, too; those of others stay. */
TEST(destroyed_with_a_full_channel)
{
	const int events = 12000;
	struct loop gone = new_loop(), stays = new_loop_on(&gone, gone.channel);

	for (int i = 0; i < events; i++) {
		make_event(&gone);
		make_event(&stays);
	}
	CHECK(!ibv_destroy_qp(gone.end.qp));
	CHECK(!ibv_destroy_cq(gone.recv_cq));
	for (int i = 0; i < events; i++)
		take_event(&stays);
	CHECK(!has_event(&stays));
}

/* ------------------------------------------------------------------------ how to wait */

TEST(nonblocking)
{
	struct loop loop = new_loop();
	struct ibv_cq *cq;
	void *context;

	CHECK(!fcntl(loop.channel->fd, F_SETFL, fcntl(loop.channel->fd, F_GETFL) | O_NONBLOCK));
	for (int i = 0; i < 3; i++) {
		CHECK(ibv_get_cq_event(loop.channel, &cq, &context) && errno == EAGAIN);
		make_event(&loop);
		take_event(&loop);
	}
	/* The device's end is one of its own: it does not wait for room, either way. */
	CHECK(!fcntl(loop.channel->fd, F_SETFL, fcntl(loop.channel->fd, F_GETFL) & ~O_NONBLOCK));
	make_event(&loop);
	take_event(&loop);
}

/* Edge-triggered epoll: an edge for each event that comes to a channel that was read empty. */
TEST(edge_triggered)
{
	struct loop loop = new_loop(), other = new_loop_on(&loop, loop.channel);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u32 = 77 };
	int epoll = epoll_create1(0);

	CHECK(epoll >= 0);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, loop.channel->fd, &event));
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	for (int i = 0; i < 100; i++) {
		make_event(i % 2 ? &loop : &other);
		CHECK(epoll_wait(epoll, &event, 1, 10000) == 1);
		CHECK(event.data.u32 == 77 && event.events == EPOLLIN);
		take_event(i % 2 ? &loop : &other);
		CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	}
}
