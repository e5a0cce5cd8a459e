/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "command.h"

/* Room for the descriptors of one datagram, aligned for struct cmsghdr. */
union fd_buffer {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
};

void shca_set_fatal(struct shca_context *ctx)
{
	/* Release: pairs with shca_is_fatal(). */
	atomic_store_explicit(&ctx->fatal, true, memory_order_release);
}

static bool connection_is_lost(int err)
{
	return err == EPIPE || err == ECONNRESET || err == ENOTCONN || err == ECONNREFUSED;
}

/* Send the datagram with answer_fd, the socket for the answer, in front of the descriptors. */
static int send_request(struct shca_context *ctx, const struct shca_command *cmd, int answer_fd)
{
	struct simhca_cmd_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.version = SIMHCA_ABI_VERSION,
		.command = (uint16_t)cmd->command,
		.length = (uint32_t)(sizeof(hdr) + cmd->req_size),
	};
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = (void *)cmd->req, .iov_len = cmd->req_size },
	};
	size_t fd_bytes = (1 + cmd->num_req_fds) * sizeof(int);
	union fd_buffer control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = cmd->req_size ? 2 : 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(fd_bytes),
	};
	struct cmsghdr *cmsg;
	struct pollfd pfd = { .fd = ctx->vctx.context.cmd_fd, .events = POLLOUT };

	memset(&control, 0, sizeof(control));
	cmsg = CMSG_FIRSTHDR(&msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(fd_bytes);
	memcpy(CMSG_DATA(cmsg), &answer_fd, sizeof(int));
	if (cmd->num_req_fds)
		memcpy(CMSG_DATA(cmsg) + sizeof(int), cmd->req_fds, cmd->num_req_fds * sizeof(int));

	while (sendmsg(ctx->vctx.context.cmd_fd, &msg, MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN)
			poll(&pfd, 1, -1); /* the application made the descriptor non-blocking */
		else if (errno != EINTR)
			return errno;
	}
	return 0;
}

/*
 * Wait for the answer or for the end of the connection. The end of fd alone would not do: a child
 * forked in this very moment by another thread holds a copy of the socket's other end.
 */
static int wait_for_answer(struct shca_context *ctx, int fd)
{
	struct pollfd pfd[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = ctx->vctx.context.cmd_fd, .events = 0 },
	};

	while (poll(pfd, 2, -1) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/* The descriptors that came with msg; returns how many. Those beyond max are closed. */
static unsigned int take_fds(struct msghdr *msg, int *fds, unsigned int max)
{
	struct cmsghdr *cmsg;
	unsigned int taken = 0;
	size_t i, count;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (taken < max)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

static int receive_answer(struct shca_context *ctx, const struct shca_command *cmd, int fd)
{
	uint8_t reply[SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_reply_hdr)] = {};
	struct simhca_reply_hdr hdr = {};
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = reply, .iov_len = sizeof(reply) },
	};
	union fd_buffer control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	int fds[SIMHCA_CMD_MAX_FDS];
	unsigned int num_fds, i;
	ssize_t bytes;
	int err;

	memset(&control, 0, sizeof(control));
	err = wait_for_answer(ctx, fd);
	if (err)
		return err;
	do
		bytes = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (bytes < 0 && errno == EINTR);
	if (bytes <= 0) {
		/* The connection has ended, and with it the hope for an answer. */
		shca_set_fatal(ctx);
		return EIO;
	}
	num_fds = take_fds(&msg, fds, SIMHCA_CMD_MAX_FDS);

	if ((size_t)bytes < sizeof(hdr) || hdr.magic != SIMHCA_CMD_MAGIC) {
		err = EPROTO;
	} else if (hdr.status) {
		hdr.message[sizeof(hdr.message) - 1] = '\0';
		shca_warn(ctx, "command %d: %s (%s)\n", cmd->command, hdr.message,
			  strerror((int)hdr.status));
		err = (int)hdr.status;
	} else if ((size_t)bytes < sizeof(hdr) + cmd->reply_size || num_fds < cmd->num_reply_fds) {
		err = EPROTO;
	}
	for (i = err ? 0 : cmd->num_reply_fds; i < num_fds; i++)
		close(fds[i]);
	if (err)
		return err;

	if (cmd->reply_size)
		memcpy(cmd->reply, reply, cmd->reply_size);
	if (cmd->num_reply_fds)
		memcpy(cmd->reply_fds, fds, cmd->num_reply_fds * sizeof(int));
	return 0;
}

int shca_execute(struct shca_context *ctx, const struct shca_command *cmd)
{
	int answer[2];
	int err;

	if (atomic_load_explicit(&ctx->fatal, memory_order_relaxed))
		return shca_result(EIO);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answer))
		return errno;

	err = send_request(ctx, cmd, answer[1]);
	/* From here on only the daemon holds the other end: when it closes it, we see the end. */
	close(answer[1]);
	if (!err)
		err = receive_answer(ctx, cmd, answer[0]);
	else if (connection_is_lost(err)) {
		shca_set_fatal(ctx);
		err = EIO;
	}
	close(answer[0]);
	return shca_result(err);
}

int shca_destroy_with_channel(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
			      const struct ibv_comp_channel *channel,
			      struct simhca_destroy_reply *reply)
{
	struct simhca_handle req = { .handle = handle };
	struct shca_command cmd = {
		.command = command,
		.req = &req,
		.req_size = sizeof(req),
		.reply = reply,
		.reply_size = reply ? sizeof(*reply) : 0,
	};
	int ends[2];
	int err;

	cmd.req_fds = ends;
	if (reply && channel)
		ends[cmd.num_req_fds++] = channel->fd;
	if (reply && ctx->vctx.context.async_fd >= 0)
		ends[cmd.num_req_fds++] = ctx->vctx.context.async_fd;
	err = shca_execute(ctx, &cmd);
	if (err == EBADF) { /* the program has closed one */
		cmd.num_req_fds = 0;
		err = shca_execute(ctx, &cmd);
	}
	if (err && atomic_load_explicit(&ctx->fatal, memory_order_relaxed))
		return 0;
	return err;
}

int shca_destroy(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
		 struct simhca_destroy_reply *reply)
{
	return shca_destroy_with_channel(ctx, command, handle, NULL, reply);
}
