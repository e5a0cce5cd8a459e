/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Workers: the threads of an engine, and what a step of one has at hand. */
#ifndef LIBSIMHCA_WORKER_H
#define LIBSIMHCA_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/guard.h"
#include "simhca-abi.h"
#include "simhca-spin.h"

/*
 * Translations that one packet needs: both ends' SGEs, and what the rkey names; or on UD one SGE
 * more, in which the GRH ends and the payload begins.
 */
#define SIMHCA_MAX_USED_KEYS (2 * SIMHCA_MAX_SGE + 1)

struct simhca_engine;
struct simhca_key;
struct simhca_odp;
struct simhca_outbox;
struct simhca_qp;
struct simhca_send;
struct simhca_sgl;

#define SIMHCA_DMA_SCRATCH (128u * 1024u) /* bytes: stays in the second-level cache */
#define SIMHCA_SEND_ROOM 2048u		  /* bytes: a struct simhca_send (proto/wqe.h) */

/* What a thread moves bytes with, and where it is meanwhile. */
struct simhca_mover {
	void *scratch;		  /* SIMHCA_DMA_SCRATCH bytes */
	_Atomic uint32_t context; /* in memory of this one's client; 0: in nobody's */
};

/* Who looks for threads that are stuck reads it; nothing else goes by it. */
static inline void simhca_mover_is_in(struct simhca_mover *mover, uint32_t context)
{
	atomic_store_explicit(&mover->context, context, memory_order_relaxed);
}

/* What the tap (link/tap.h) has of the packets that are being handed over. */
struct simhca_tap_list {
	uint8_t *bytes;
	size_t used, room;
	uint8_t *payload;   /* SIMHCA_LINK_SLICE bytes; NULL: it was never needed */
	unsigned int depth; /* packets that are handed over, one within another */
};

/* A thread that runs an engine; or a test that polls it. */
struct simhca_worker {
	struct simhca_guard guard;
	struct simhca_engine *engine;
	struct simhca_worker *next; /* in the engine's list, under the fabric's lock */
	/* When simhca_engine_stuck() last looked and the guard had moved: */
	uint64_t watched; /* its count */
	uint64_t watched_cpu_ns;
	bool stuck;
	uint32_t rounds;
	uint32_t stats_block;
	pid_t tid;
	pthread_t thread;
	uint32_t cpu_index; /* where it sleeps */
	bool slept;	    /* since it was the poller */
	atomic_bool asleep;
	/* Since it is the poller (poller.c). */
	uint64_t awake_ns;
	uint32_t finds; /* rounds with work */
	bool took_over; /* it became the poller as the successor of another CPU's thread */
	bool unpinned;	/* it may run on any CPU, not just its own */
	/* Since it has found nothing (simhca_engine_run()); 0: it works. */
	uint64_t idle_ns;
	bool yields; /* it lets others go first, and looks again */
	struct simhca_spin worth;
	struct simhca_mover mover;
	struct simhca_tap_list tap;
	struct {
		struct simhca_outbox *outbox; /* of the wire; NULL: it was never needed */
		void (*send)(struct simhca_outbox *outbox); /* NULL: it is empty */
	} outgoing;
	/* Of rules of faults (link/faulty.h): what became of the answer to the request at hand. */
	struct {
		uint8_t *payload; /* SIMHCA_LINK_SLICE bytes; NULL: it was never needed */
		uint64_t delay_ns;
		bool lost;
	} faulty;
	/* The QP whose requester runs: on the local link answers are for it. */
	struct simhca_qp *requester;
	/* A message of its, as it was read last: that of ring index send_index, if send_of is it.
	 */
	struct simhca_send *send;
	struct simhca_qp *send_of;
	uint32_t send_index;
	/* Bytes [offset, offset + length) of it, where a response that comes at once is to go. */
	struct {
		const struct simhca_sgl *sgl; /* NULL: to be looked up */
		uint64_t offset, length;
	} landing;
	/* Keys that this step's accesses use, for simhca_key_release(). */
	struct simhca_key *used_keys[SIMHCA_MAX_USED_KEYS];
	uint32_t num_used_keys;
	/* On-demand memory that was translated last, and is not present. */
	struct {
		struct simhca_odp *odp;
		uint64_t addr, length;
	} absent[SIMHCA_MAX_SGE];
	uint32_t num_absent;
};

/* What it has sent by the wire leaves. */
static inline void simhca_worker_send(struct simhca_worker *worker)
{
	if (worker->outgoing.send)
		worker->outgoing.send(worker->outgoing.outbox);
	worker->outgoing.send = NULL;
}

#endif
