/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP's own memory, as requester and responder come to it: what was translated is there, or its
 * pages are being brought in, or it cannot be had. By this alone requester, completer and responder
 * know of paging. Under the lock of that side of the QP.
 */
#ifndef LIBSIMHCA_OWN_MEMORY_H
#define LIBSIMHCA_OWN_MEMORY_H

#include "packet/packet.h"
#include "paging/fault.h"
#include "paging/odp.h"
#include "qp.h"
#include "requester.h"

/* What is translated from now on is one access. */
static inline void simhca_own_begin(struct simhca_worker *worker)
{
	worker->num_absent = 0;
}

/* Whether what was translated is there, as far as is known. FAILED: *reason says why. */
static inline enum simhca_reach simhca_own_known(struct simhca_worker *worker, struct simhca_qp *qp,
						 enum simhca_own_access access,
						 enum simhca_reason *reason)
{
	return simhca_fault_check(worker, &qp->faults, access, reason);
}

/* The access was stopped before, and now goes on whatever has become of the pages since. */
static inline bool simhca_own_resumed(const struct simhca_qp *qp, enum simhca_own_access access)
{
	return simhca_fault_resumed(&qp->faults, access);
}

/* Likewise, and looks. May wait for the program's memory, as a copy may. */
static inline enum simhca_reach simhca_own_reach(struct simhca_worker *worker, struct simhca_qp *qp,
						 enum simhca_own_access access,
						 const struct simhca_sgl *sgl,
						 enum simhca_reason *reason)
{
	enum simhca_reach reach = simhca_own_known(worker, qp, access, reason);

	if (reach == SIMHCA_REACHED && !simhca_own_resumed(qp, access) &&
	    !simhca_odp_verify(sgl, &worker->mover))
		reach = simhca_fault_check_copy(worker, &qp->faults, access, sgl, reason);
	return reach;
}

/* The same of a packet's payload, for the link that reads it. False: it is UNREADABLE. */
static inline bool simhca_payload_reached(struct simhca_worker *worker,
					  const struct simhca_packet *packet)
{
	return packet->resumed || simhca_odp_verify(packet->payload, &worker->mover);
}

/* Reading or writing it has failed for *reason (NONE: pages were dropped). LATER or FAILED. */
enum simhca_reach simhca_own_failed(struct simhca_worker *worker, struct simhca_qp *qp,
				    enum simhca_own_access access, const struct simhca_sgl *sgl,
				    enum simhca_reason *reason);

/* It has got through. */
static inline void simhca_own_done(struct simhca_qp *qp, enum simhca_own_access access)
{
	if (__builtin_expect(qp->faults.fault[access] != NULL, 0))
		simhca_fault_over(&qp->faults, access);
}

/* All of that, for a copy to it. */
enum simhca_reach simhca_own_copy(struct simhca_worker *worker, struct simhca_qp *qp,
				  enum simhca_own_access access, const struct simhca_sgl *target,
				  const struct simhca_sgl *source, uint64_t length,
				  enum simhca_reason *reason);

/* LATER: after how long it can be tried again, coded as an RNR NAK's delay. */
static inline uint8_t simhca_own_timer(struct simhca_qp *qp, enum simhca_own_access access)
{
	return simhca_fault_rnr_timer(&qp->faults, access);
}

/* ---------------------------------------------------------------------- the requester's */

/* LATER or FAILED: it waits, or fails by that. */
enum simhca_next simhca_own_wait(struct simhca_worker *worker, struct simhca_qp *qp,
				 enum simhca_own_access access, enum simhca_reach reach,
				 enum simhca_reason reason);
/*
 * It waits at one direction. A device has other messages under way at that moment: the next one of
 * the other direction begins to wait now, so that the two are resolved side by side, be it posted
 * already or while the requester stands.
 */
void simhca_own_look_ahead(struct simhca_worker *worker, struct simhca_qp *qp);

#endif
