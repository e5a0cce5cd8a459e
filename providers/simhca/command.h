/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands to the device, as simhca-abi-cmd.h describes them. Safe in any number of threads and
 * forked children at once: each command has a slot, or brings a socket, for its own answer.
 *
 * All return 0 or a positive errno, which errno is set to as well. EIO: the daemon is gone; the
 * context is fatal from then on.
 */
#ifndef SHCA_PROVIDER_COMMAND_H
#define SHCA_PROVIDER_COMMAND_H

#include <time.h>

#include "provider.h"

struct shca_command {
	enum simhca_cmd command;
	const void *req; /* zeroed before it is filled in, for it goes out whole */
	size_t req_size;
	const int *req_fds;
	unsigned int num_req_fds;
	void *reply;
	size_t reply_size;
	int *reply_fds; /* all num_reply_fds of them arrive, or the command fails */
	unsigned int num_reply_fds;
	unsigned int more_reply_fds; /* behind those, or as many of them as arrive; else -1 */
};

int shca_execute(struct shca_context *ctx, const struct shca_command *cmd);

/*
 * spare.c: a descriptor for a command that has failed with EMFILE. True: one is free, and the command
 * is to be repeated and its descriptor closed before spare_take_back().
 */
void shca_spare_keep(struct shca_context *ctx);
bool shca_spare_lend(struct shca_context *ctx);
void shca_spare_take_back(struct shca_context *ctx);
void shca_spare_free(struct shca_context *ctx);

/* The usual case: a request, an answer, no descriptors. */
#define shca_call(ctx, cmd, req_ptr, reply_ptr)                                                    \
	shca_execute((ctx), &(struct shca_command){ .command = (cmd),                              \
						    .req = (req_ptr),                              \
						    .req_size = sizeof(*(req_ptr)),                \
						    .reply = (reply_ptr),                          \
						    .reply_size = sizeof(*(reply_ptr)) })

/* A request that is answered by its status alone. */
#define shca_command(ctx, cmd, req_ptr)                                                            \
	shca_execute((ctx), &(struct shca_command){ .command = (cmd),                              \
						    .req = (req_ptr),                              \
						    .req_size = sizeof(*(req_ptr)) })

/*
 * Destroy an object. Succeeds when the daemon is gone, as there is nothing left to destroy. With
 * reply (it may be NULL), events of it that the program has not read are taken back, those of
 * completions out of the channel.
 */
int shca_destroy(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
		 struct simhca_destroy_reply *reply);
int shca_destroy_with_channel(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
			      const struct ibv_comp_channel *channel,
			      struct simhca_destroy_reply *reply);

/*
 * Waits until the program has acknowledged that many of a destroyed object's asynchronous events,
 * which libibverbs counts under the mutex; or until nothing will be acknowledged any more. When it
 * has waited until the deadline it tells the device, once, by the verb and the object's number.
 */
#define SHCA_ACK_SECONDS 1
static inline void shca_ack_deadline(struct timespec *until) /* from now, by CLOCK_MONOTONIC */
{
	clock_gettime(CLOCK_MONOTONIC, until);
	until->tv_sec += SHCA_ACK_SECONDS;
}
void shca_await_acks(struct shca_context *ctx, const char *verb, uint32_t number,
		     pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged,
		     uint32_t events);

/* The connection is broken: nothing will be answered or completed any more. */
void shca_set_fatal(struct shca_context *ctx);

#endif
