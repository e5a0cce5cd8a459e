/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Page faults of QPs. */
#ifndef LIBSIMHCA_FAULT_H
#define LIBSIMHCA_FAULT_H

#include "engine/worker.h"
#include "simhca-info.h"
#include "line.h"

enum simhca_fault_state {
	SIMHCA_FAULT_IDLE,
	SIMHCA_FAULT_QUEUED,
	SIMHCA_FAULT_RESOLVING,
	SIMHCA_FAULT_RESUMED,
	SIMHCA_FAULT_FAILED,
};

struct simhca_fault {
	struct simhca_page_work work;
	struct simhca_qp_faults *of;
	_Atomic uint32_t state; /* enum simhca_fault_state; changes under faults.lock */
	enum simhca_own_access access;
	enum simhca_reason reason; /* FAILED */
	uint32_t naks;		   /* given since it was raised */
	uint32_t fruitless;	   /* times in a row that a copy failed after it was resolved */
	struct simhca_page_range range[SIMHCA_MAX_SGE];
};

/* What a QP has of them. */
struct simhca_qp_faults {
	struct simhca_device *device;
	struct simhca_context *context; /* NULL: an XRC_RECV QP */
	struct simhca_task *task;	/* the QP's: scheduled when one has ended */
	uint32_t qpn;
	/* Made when first needed, each under the lock of its side of the QP. */
	struct simhca_fault *_Atomic fault[SIMHCA_OWN_ACCESSES];
	_Atomic uint64_t off_until; /* ns: no fault is raised before */
	_Atomic uint32_t count[SIMHCA_OWN_ACCESSES];
	atomic_bool tell_peer; /* one of the responder's has ended: the peer may try again */
};

/* What comes of an access to a QP's own memory. */
enum simhca_reach {
	SIMHCA_REACHED,	     /* all that it needs is there */
	SIMHCA_REACH_LATER,  /* not now: a fault is under way */
	SIMHCA_REACH_FAILED, /* there is no such memory, or it may not be used so */
	SIMHCA_REACH_OTHER,  /* of a copy: it is the other end that cannot be read */
};
/*
 * After a packet's memory was translated: the pages that were absent (worker->absent) become the
 * QP's fault in that access. Under the lock of that side of the QP. FAILED: *reason says why.
 */
enum simhca_reach simhca_fault_check_absent(struct simhca_worker *worker,
					    struct simhca_qp_faults *faults,
					    enum simhca_own_access access,
					    enum simhca_reason *reason);
static inline enum simhca_reach simhca_fault_check(struct simhca_worker *worker,
						   struct simhca_qp_faults *faults,
						   enum simhca_own_access access,
						   enum simhca_reason *reason)
{
	return worker->num_absent ? simhca_fault_check_absent(worker, faults, access, reason)
				  : SIMHCA_REACHED;
}
/*
 * A copy to or from the list failed for *reason, or verification did (NONE). If on-demand memory
 * may be why, that is a fault.
 */
enum simhca_reach simhca_fault_check_copy(struct simhca_worker *worker,
					  struct simhca_qp_faults *faults,
					  enum simhca_own_access access,
					  const struct simhca_sgl *sgl, enum simhca_reason *reason);

/* The access that was resumed has got through. */
void simhca_fault_over(struct simhca_qp_faults *faults, enum simhca_own_access access);
/* Whether the access was stopped, and now may go on whatever the map says. */
static inline bool simhca_fault_resumed(const struct simhca_qp_faults *faults,
					enum simhca_own_access access)
{
	const struct simhca_fault *fault = faults->fault[access];

	return fault &&
	       atomic_load_explicit(&fault->state, memory_order_acquire) == SIMHCA_FAULT_RESUMED;
}
/* Whether a fault of the access is queued or being resolved; or that, or has ended unnoticed. */
bool simhca_fault_under_way(const struct simhca_qp_faults *faults, enum simhca_own_access access);
bool simhca_fault_raised(const struct simhca_qp_faults *faults, enum simhca_own_access access);
/* The RNR NAK timer code for a request that has to wait for a fault. */
uint8_t simhca_fault_rnr_timer(struct simhca_qp_faults *faults, enum simhca_own_access access);
/*
 * No fault is scheduled for a moment, what is queued is taken back, and what has ended is
 * forgotten: what comes next is to change the QP. True: none is under way. With both locks of the
 * QP, or when no step finds it any more.
 */
bool simhca_faults_disable(struct simhca_qp_faults *faults);
void simhca_faults_free(struct simhca_qp_faults *faults);

#endif
