/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <rdma/ib_user_verbs.h>

#include "command.h"
#include "mapped.h"
#include "simhca-sockets.h"

#define STACK_BYTES (128 * 1024)

/* Waits for room if the pipe is full, so that the event is not lost. */
static void report_fatal(struct shca_context *ctx)
{
	struct ib_uverbs_async_event_desc event = { .event_type = IBV_EVENT_DEVICE_FATAL };
	struct pollfd pfd[2] = {
		{ .fd = ctx->async_device_fd, .events = POLLOUT },
		{ .fd = ctx->watcher.stop_fd, .events = POLLIN },
	};

	for (;;) {
		if (simhca_call_poll(pfd, 2, -1) < 0)
			continue;
		if (pfd[1].revents)
			return;
		if (simhca_call_send(ctx->async_device_fd, &event, sizeof(event),
				     MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
		    (errno != EAGAIN && errno != EINTR))
			return;
	}
}

/*
 * The device says that there are regions which are gone. False: the program has closed cmd_fd, and what has its number
 * is not to be read.
 */
static bool take_recall(const struct shca_context *ctx)
{
	char byte;

	if (simhca_connection(ctx->vctx.context.cmd_fd) != ctx->connection)
		return false;
	simhca_call_recv(ctx->vctx.context.cmd_fd, &byte, sizeof(byte), MSG_DONTWAIT);
	shca_mapped_give_back();
	return true;
}

static void *watch(void *arg)
{
	struct shca_context *ctx = arg;
	struct shca_watcher *watcher = &ctx->watcher;
	/* POLLHUP needs no asking for. */
	struct pollfd pfd[3] = {
		{ .fd = watcher->stop_fd, .events = POLLIN },
		{ .fd = ctx->vctx.context.cmd_fd, .events = POLLIN },
		{ .fd = watcher->agent.fd, .events = POLLIN },
	};

	for (;;) {
		if (simhca_call_poll(pfd, 3, -1) < 0)
			continue;
		if (pfd[0].revents)
			return NULL;
		if (pfd[1].revents == POLLIN) {
			if (!take_recall(ctx))
				pfd[1].events = 0;
		} else if (pfd[1].revents) {
			if (atomic_load(&watcher->is_stopped))
				return NULL;
			shca_set_fatal(ctx);
			shca_channels_end(ctx);
			report_fatal(ctx);
			return NULL;
		}
		if (pfd[2].revents && !shca_agent_serve(&watcher->agent))
			pfd[2].fd = -1;
	}
}

void shca_watcher_init(struct shca_watcher *watcher)
{
	watcher->stop_fd = -1;
	watcher->agent.fd = -1;
	watcher->agent.bounce_fd = -1;
}

/* The application's signals are not for this thread. */
static int create_thread(struct shca_context *ctx)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return err;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&ctx->watcher.thread, &attr, watch, ctx);
	/* EINVAL: the program's thread-local variables, which live on it, fill this stack. */
	if (err == EINVAL)
		err = pthread_create(&ctx->watcher.thread, NULL, watch, ctx);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

static int start_thread(struct shca_context *ctx)
{
	struct shca_watcher *watcher = &ctx->watcher;
	int err;

	watcher->stop_fd = simhca_call_move_fd(eventfd(0, EFD_CLOEXEC));
	if (watcher->stop_fd < 0)
		return errno;
	err = create_thread(ctx);
	if (!err)
		watcher->process = shca_process();
	return err;
}

int shca_watcher_start(struct shca_context *ctx, bool with_agent)
{
	int err, device_fd = -1;

	if (with_agent) {
		err = shca_agent_init(&ctx->watcher.agent, &device_fd);
		if (err)
			return err;
	}
	err = start_thread(ctx);
	if (!err && with_agent)
		err = shca_agent_offer(ctx, device_fd);
	if (device_fd >= 0)
		simhca_call_close(device_fd);
	return err;
}

int shca_watcher_adopt(struct shca_context *ctx)
{
	struct shca_watcher *watcher = &ctx->watcher;
	int err = 0;

	shca_lock(&watcher->adopting);
	if (watcher->process != shca_process()) {
		shca_watcher_stop(ctx); /* closes our copies of the parent's descriptors */
		shca_watcher_init(watcher);
		err = shca_watcher_start(ctx, true);
	}
	shca_unlock(&watcher->adopting);
	return err;
}

void shca_watcher_stop(struct shca_context *ctx)
{
	SIMHCA_NOT_CANCELLED;
	struct shca_watcher *watcher = &ctx->watcher;
	const uint64_t one = 1;
	ssize_t ret;

	/* In a forked child the thread does not exist, and the eventfd is still its parent's. */
	if (watcher->process == shca_process()) {
		atomic_store(&watcher->is_stopped, true);
		while ((ret = simhca_call_write(watcher->stop_fd, &one, sizeof(one))) < 0 &&
		       errno == EINTR)
			;
		/* The program has closed it, which it did not know: the thread sees the connection's end. */
		if (ret < 0)
			shutdown(ctx->vctx.context.cmd_fd, SHUT_RDWR);
		pthread_join(watcher->thread, NULL);
	}
	if (watcher->stop_fd >= 0)
		simhca_call_close(watcher->stop_fd);
	shca_agent_close(&watcher->agent);
}
