/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fabric: what devices and engines hang on.
 *
 * The order in which locks are taken is in lock.h.
 *
 * What a step finds in the device's tables stays alive until the step ends (guard.h).
 */
#ifndef LIBSIMHCA_FABRIC_H
#define LIBSIMHCA_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "simhca-device.h"

struct simhca_atomicity;
struct simhca_device;
struct simhca_engine;
struct simhca_guard;
struct simhca_faults;
struct simhca_inject;
struct simhca_link;
struct simhca_pager;
struct simhca_srq_kind;
struct simhca_steps;
struct simhca_uplink;
struct simhca_wire;

struct simhca_fabric {
	struct simhca_ops ops;
	/*
	 * Changes under lock. Who goes from one to the next does so under lock, or inside a guard,
	 * narrow or not, or within the uplink, for whose ends whoever takes a device out waits.
	 */
	struct simhca_device *_Atomic devices;
	struct simhca_engine *engines;
	struct simhca_engine *_Atomic first_engine; /* of these, that was made; NULL: none */
	struct simhca_guard *guards;		    /* of all threads that run engines */
	pthread_rwlock_t lock;			    /* of these lists; no packet takes it */
	/* Goes up when a QP, port or address comes or goes: then a peer is looked up anew. */
	_Atomic uint64_t generation;
	const struct simhca_link *link;		   /* of all QPs but */
	const struct simhca_link *frame_link;	   /* those for raw frames */
	const struct simhca_srq_kind *srq_kind[3]; /* by enum simhca_srq_type */
	const struct simhca_uplink *uplink;	   /* to peers that are not here; NULL: none */
	atomic_bool tap;			   /* packets are told to ops.frame (link/tap.h) */
	atomic_bool brief_waits;		   /* backoff.h */
	atomic_bool injects;			   /* there are rules of faults: */
	struct simhca_inject *inject;		   /* inject/inject.h */
	struct simhca_wire *wire;		   /* what it has */
	uint32_t next_context_id, next_mm, next_mm_slot, next_file;
	struct simhca_steps *steps;		     /* that programs run (steps.h); under lock */
	_Atomic uint32_t by_device[SIMHCA_MM_SLOTS]; /* as all devices have it; under lock */
	struct simhca_atomicity *atomicities;	     /* control functions only */
	uint32_t stats_blocks;			     /* bit n: a thread counts in block n */
	struct simhca_faults *faults;		     /* paging/line.h */
	pthread_mutex_t pager_lock;
	struct simhca_pager *pagers;
	uint64_t next_pager;
	int pager_epoll; /* of the pagers' userfaultfds, and of pager_stop */
	int pager_stop;	 /* eventfd */
};

/* A QP, port or address has come or gone, or a QP was connected; raised after that can be seen. */
static inline void simhca_fabric_changed(struct simhca_fabric *fabric)
{
	atomic_fetch_add_explicit(&fabric->generation, 1, memory_order_seq_cst);
}

/* Lets go of what a client handed over, or of memory that is large: simhca_ops' release. */
void simhca_release(const struct simhca_fabric *fabric, void *base, uint64_t size, int fd);
void simhca_log(const struct simhca_fabric *fabric, enum simhca_log_level level, const char *format,
		...) __attribute__((format(printf, 3, 4)));

/*
 * Waits a moment until no engine uses what was unlinked of this context, or of any, which is
 * SIMHCA_GUARD_ANY; false if one still does.
 */
bool simhca_fabric_synchronize(struct simhca_fabric *fabric, uint32_t context_id);

#endif
