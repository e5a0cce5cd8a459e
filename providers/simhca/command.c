/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "simhca-request.h"
#include "simhca-slot.h"

void shca_set_fatal(struct shca_context *ctx)
{
	/* Release: pairs with shca_is_fatal(). */
	atomic_store_explicit(&ctx->fatal, true, memory_order_release);
}

/*
 * Takes one of the slots in which answers come (simhca-slot.h), which the threads of the process share. NULL: none is
 * free, or this is a forked child, whose slots are its parent's: the answer comes on a socket.
 */
static struct simhca_answer_slot *take_slot(struct shca_context *ctx, uint32_t *number)
{
	uint32_t taken = atomic_load_explicit(&ctx->slots_taken, memory_order_relaxed), idle;

	if (!ctx->slots_of || ctx->slots_of != shca_process())
		return NULL;
	do {
		idle = ~taken & ((1u << SIMHCA_ANSWER_SLOTS) - 1);
		if (!idle)
			return NULL;
		*number = (uint32_t)__builtin_ctz(idle);
	} while (!atomic_compare_exchange_weak_explicit(&ctx->slots_taken, &taken,
							taken | 1u << *number, memory_order_acquire,
							memory_order_relaxed));
	return &ctx->mem->answer[*number];
}

static void put_slot(struct shca_context *ctx, uint32_t number)
{
	/* Release, with the acquire of take_slot(): the answer was read before the next one comes there. */
	atomic_fetch_and_explicit(&ctx->slots_taken, ~(1u << number), memory_order_release);
}

int shca_execute(struct shca_context *ctx, const struct shca_command *cmd)
{
	uint8_t reply[SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_reply_hdr)] = {};
	const struct iovec part = { .iov_base = (void *)cmd->req, .iov_len = cmd->req_size };
	int fds[SIMHCA_CMD_MAX_FDS];
	struct simhca_request request = {
		.device_fd = ctx->vctx.context.cmd_fd,
		.connection = ctx->connection,
		.command = cmd->command,
		.parts = &part,
		.num_parts = cmd->req_size ? 1 : 0,
		.fds = cmd->req_fds,
		.num_fds = cmd->num_req_fds,
		.body = reply,
		.size = sizeof(reply),
		.reply_fds = fds,
		.max_reply_fds = SIMHCA_CMD_MAX_FDS,
		.keep = true,
	};
	const unsigned int wanted = cmd->num_reply_fds + cmd->more_reply_fds;
	struct simhca_answer answer;
	int err;

	shca_fork_inherit(ctx);
	if (atomic_load_explicit(&ctx->fatal, memory_order_relaxed))
		return shca_result(EIO);
	if (!wanted)
		request.slot = take_slot(ctx, &request.slot_number);
	err = simhca_request(&request, &answer);
	if (request.slot && !simhca_slot_is_pending(request.slot))
		put_slot(ctx, request.slot_number);
	if (err == ENOTCONN) {
		shca_set_fatal(ctx);
		err = EIO;
	}
	if (err)
		return shca_result(err);

	if (answer.hdr.status) {
		shca_warn(ctx, "command %d: %s (%s)\n", cmd->command, answer.hdr.message,
			  strerror((int)answer.hdr.status));
		err = (int)answer.hdr.status;
	} else if (answer.size < cmd->reply_size || answer.num_fds < cmd->num_reply_fds) {
		err = answer.fds_lost ? EMFILE : EPROTO;
	}
	for (unsigned int i = err ? 0 : wanted; i < answer.num_fds; i++)
		simhca_call_close(fds[i]);
	if (err)
		return shca_result(err);

	if (cmd->reply_size)
		memcpy(cmd->reply, reply, cmd->reply_size);
	for (unsigned int i = 0; i < wanted; i++)
		cmd->reply_fds[i] = i < answer.num_fds ? fds[i] : -1;
	return shca_result(0);
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
