/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "core/lock.h"
#include "failures/failures.h"
#include "simhca-device.h"
#include "trace.h"
#include "trace_frame.h"

#define TRACERS_MOST 8
#define SOCKET_BYTES (16 << 20) /* that may wait in it; the kernel may allow less */

struct tracer {
	int fd; /* -1: free */
	uint32_t most;
	uint64_t lost;
	bool ending; /* the last message is due */
	ev_io io;    /* it says that the other end is closed */
	struct tracers *tracers;
};

struct tracers {
	struct ev_loop *loop;
	struct simhca_fabric *fabric;
	pthread_mutex_t lock; /* of fd, lost and ending; sending to a socket does not wait */
	struct tracer tracer[TRACERS_MOST];
};

struct tracers *tracers_open(struct ev_loop *loop)
{
	struct tracers *tracers = calloc(1, sizeof(*tracers));

	if (!tracers)
		return NULL;
	tracers->loop = loop;
	simhca_mutex_init(&tracers->lock, SIMHCA_LOCK_TRACERS);
	for (int i = 0; i < TRACERS_MOST; i++) {
		tracers->tracer[i].fd = -1;
		tracers->tracer[i].tracers = tracers;
	}
	return tracers;
}

static bool any(const struct tracers *tracers)
{
	for (int i = 0; i < TRACERS_MOST; i++)
		if (tracers->tracer[i].fd >= 0)
			return true;
	return false;
}

static void end(struct tracer *tracer)
{
	struct tracers *tracers = tracer->tracers;
	int fd = tracer->fd;

	ev_io_stop(tracers->loop, &tracer->io);
	pthread_mutex_lock(&tracers->lock);
	tracer->fd = -1;
	pthread_mutex_unlock(&tracers->lock);
	close(fd); /* our own end of a pair, which nothing lingers in */
	if (!any(tracers))
		simhca_fabric_tap(tracers->fabric, false);
	log_debug("a tracer has gone; %llu frames were lost", (unsigned long long)tracer->lost);
}

void tracers_close(struct tracers *tracers)
{
	if (!tracers)
		return;
	for (int i = 0; i < TRACERS_MOST; i++)
		if (tracers->tracer[i].fd >= 0)
			end(&tracers->tracer[i]);
	pthread_mutex_destroy(&tracers->lock);
	free(tracers);
}

/* Whether the last message is on its way, or nobody waits for it. */
static bool say_last(const struct tracer *tracer)
{
	const struct trace_frame last = { .lost = tracer->lost };

	return send(tracer->fd, &last, sizeof(last), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	       (errno != EAGAIN && errno != EINTR);
}

/* Nothing is expected from it, but its end; then that there is room for the last message. */
static void on_event(struct ev_loop *loop, ev_io *io, int events)
{
	struct tracer *tracer = io->data;
	char byte;

	if (!tracer->ending) {
		if (recv(io->fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		pthread_mutex_lock(&tracer->tracers->lock);
		tracer->ending = true;
		pthread_mutex_unlock(&tracer->tracers->lock);
		ev_io_stop(loop, io);
		ev_io_set(io, io->fd, EV_WRITE);
		ev_io_start(loop, io);
	}
	if (say_last(tracer))
		end(tracer);
}

int tracers_add(struct tracers *tracers, struct simhca_fabric *fabric, uint32_t most)
{
	struct tracer *tracer = NULL;
	int ends[2], size = SOCKET_BYTES;

	for (int i = 0; i < TRACERS_MOST && !tracer; i++)
		if (tracers->tracer[i].fd < 0)
			tracer = &tracers->tracer[i];
	if (!tracer)
		return -EUSERS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -errno;
	/* As much as we may have. */
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	tracer->most = most ? most : UINT32_MAX;
	tracer->lost = 0;
	tracer->ending = false;
	ev_io_init(&tracer->io, on_event, ends[0], EV_READ);
	tracer->io.data = tracer;
	ev_io_start(tracers->loop, &tracer->io);
	pthread_mutex_lock(&tracers->lock);
	tracer->fd = ends[0];
	pthread_mutex_unlock(&tracers->lock);
	tracers->fabric = fabric;
	simhca_fabric_tap(fabric, true);
	return ends[1];
}

void tracers_tell(struct tracers *tracers, const struct simhca_frame_facts *facts,
		  const struct failing_program *sender, const uint8_t *bytes, uint32_t length)
{
	struct trace_frame frame = {
		.time_ns = facts->time_ns,
		.qpn = facts->qpn,
		.peer_qpn = facts->peer_qpn,
		.pid = (uint32_t)sender->pid,
		.length = length,
	};

	memcpy(frame.comm, sender->comm, sizeof(frame.comm));
	memcpy(frame.device, sender->device, sizeof(frame.device));
	pthread_mutex_lock(&tracers->lock);
	for (int i = 0; i < TRACERS_MOST; i++) {
		struct tracer *tracer = &tracers->tracer[i];
		struct iovec parts[2] = {
			{ .iov_base = &frame, .iov_len = sizeof(frame) },
			{ .iov_base = (void *)bytes,
			  .iov_len = length < tracer->most ? length : tracer->most },
		};
		struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

		if (tracer->fd < 0 || tracer->ending)
			continue;
		frame.lost = tracer->lost;
		if (sendmsg(tracer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			tracer->lost++;
	}
	pthread_mutex_unlock(&tracers->lock);
}
