/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fast path: how a program gets the queues and the memory of its peer. The rules of control
 * functions are those of simhca.h.
 */
#ifndef LIBSIMHCA_SIMHCA_ATTACH_H
#define LIBSIMHCA_SIMHCA_ATTACH_H

#include <stdbool.h>
#include <sys/types.h>

#include "simhca-abi.h"

struct simhca_context;
struct simhca_fabric;
struct simhca_mm;
struct simhca_why;

/* The fast path. mm: the sender's memory. The descriptors are the peer's context's. */
int simhca_offer_memory(struct simhca_context *context, struct simhca_mm *mm,
			const struct simhca_offer_memory_req *req, struct simhca_why *why);
/* If so, peers may carry messages to it of which nothing is known here. */
bool simhca_has_offered_memory(const struct simhca_context *context);
int simhca_find_peer(struct simhca_context *context, const struct simhca_find_peer_req *req,
		     struct simhca_find_peer_reply *reply, struct simhca_why *why);
/* What else the sender is given, or the caller has to know of the peer. */
struct simhca_attached {
	int fds[3]; /* of the segments; the model's, as are the next two */
	/* Where writes to its own memory, and to the peer's, keep off atomics; -1: there are none. */
	int writers, peer_writers;
	void *peer; /* the argument of its context */
	pid_t own_pid, peer_pid;
};
/*
 * The channels and records of the reply are those of the CQs. It is the caller's to decide which
 * channels are handed out, and to say of the others that there are none.
 */
int simhca_attach_peer(struct simhca_context *context, const struct simhca_mm *mm,
		       const struct simhca_attach_peer_req *req,
		       struct simhca_attach_peer_reply *reply, struct simhca_attached *attached,
		       struct simhca_why *why);
/*
 * A region that the sender, whose memory is mm, may map. *fd: to pass on, and the model's.
 */
int simhca_map_region(struct simhca_context *context, const struct simhca_mm *mm,
		      const struct simhca_map_region_req *req,
		      struct simhca_map_region_reply *reply, int *fd, struct simhca_why *why);
/*
 * The devices are about to end, and their programs go on: no step begins any more. False: one is under
 * way, and this is to be called again. Contexts are destroyed after that, as their programs' steps
 * are taken for those of programs that have ended.
 */
bool simhca_fastpath_stop(struct simhca_fabric *fabric);

#endif
