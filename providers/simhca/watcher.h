/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The service thread of a context. It waits for the end of the connection, which is how a
 * process learns that the daemon has died while it is not asking it anything, and reports it as
 * IBV_EVENT_DEVICE_FATAL. Where the kernel keeps the device from reaching this process's memory,
 * it also serves as the memory agent (agent.c).
 *
 * The thread lives in the process that opened the context. A forked child has none, unless it
 * registers memory that needs an agent: it learns of a dead daemon from its next command.
 */
#ifndef SIMHCA_PROVIDER_WATCHER_H
#define SIMHCA_PROVIDER_WATCHER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

struct shca_context;

struct shca_agent {
	int fd;		      /* requests of the device arrive here; -1: no agent is needed */
	int bounce_fd;	      /* memfd shared with the device */
	uint64_t bounce_size; /* bytes */
};

struct shca_watcher {
	pthread_t thread;
	uint32_t process; /* shca_process() where the thread lives; 0: it does not run */
	int stop_fd;	  /* eventfd */
	atomic_bool is_stopped;
	struct shca_lock adopting;
	struct shca_agent agent;
};

/* All return 0 or errno. */
void shca_watcher_init(struct shca_watcher *watcher);
int shca_watcher_start(struct shca_context *ctx, bool with_agent);
/* In a forked child: a thread and an agent of its own, once. */
int shca_watcher_adopt(struct shca_context *ctx);
void shca_watcher_stop(struct shca_context *ctx); /* also after a failed start */

/* Make the bounce memory and the socket; device_fd is the end that belongs to the device. */
int shca_agent_init(struct shca_agent *agent, int *device_fd);
/* Offer it to the device, once the watcher runs. */
int shca_agent_offer(struct shca_context *ctx, int device_fd);
/* Answer one request; false when no further one can come. */
bool shca_agent_serve(struct shca_agent *agent);
void shca_agent_close(struct shca_agent *agent);

#endif
