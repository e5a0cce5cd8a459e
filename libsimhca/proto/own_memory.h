/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How requester, completer and responder reach the memory of the QP's own program, and all that they
 * know of paging: what was translated is present, or its pages are being brought in, or it cannot be
 * had. Called under the lock of that side of the QP.
 */
#ifndef LIBSIMHCA_OWN_MEMORY_H
#define LIBSIMHCA_OWN_MEMORY_H

#include "memory/key.h"
#include "packet/packet.h"
#include "paging/fault.h"
#include "paging/odp.h"
#include "qp.h"
#include "requester.h"

/* How the QP uses a key, with rights of its own memory; pd: its own, or that of the SRQ of its buffers. */
static inline struct simhca_key_use simhca_key_use_of(struct simhca_worker *worker,
						      const struct simhca_qp *qp, uint32_t pd,
						      uint32_t access)
{
	return (struct simhca_key_use){
		.worker = worker, .device = qp->device, .pd = pd, .qpn = qp->qpn, .access = access
	};
}

/* Begins an access: what is translated from now on belongs to it. */
static inline void simhca_own_begin(struct simhca_worker *worker)
{
	worker->num_absent = 0;
}

/* Whether the access's memory is present, as far as is known. FAILED: *reason says why. */
static inline enum simhca_reach simhca_own_known(struct simhca_worker *worker, struct simhca_qp *qp,
						 enum simhca_own_access access,
						 enum simhca_reason *reason)
{
	return simhca_fault_check(worker, &qp->faults, access, reason);
}

/* Whether the access has waited for its pages; then it goes on without a second check of them. */
static inline bool simhca_own_resumed(const struct simhca_qp *qp, enum simhca_own_access access)
{
	return simhca_fault_resumed(&qp->faults, access);
}

/* Like simhca_own_known(), and checks the pages; may wait for the program's memory, as a copy may. */
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

/* Whether a packet's payload is present, for the link that reads it. False: it is UNREADABLE. */
static inline bool simhca_payload_reached(struct simhca_worker *worker,
					  const struct simhca_packet *packet)
{
	return packet->resumed || simhca_odp_verify(packet->payload, &worker->mover);
}

/* What follows when a copy has failed for *reason (NONE: pages were dropped): LATER or FAILED. */
enum simhca_reach simhca_own_failed(struct simhca_worker *worker, struct simhca_qp *qp,
				    enum simhca_own_access access, const struct simhca_sgl *sgl,
				    enum simhca_reason *reason);

/* The access has succeeded. */
static inline void simhca_own_done(struct simhca_qp *qp, enum simhca_own_access access)
{
	if (__builtin_expect(qp->faults.fault[access] != NULL, 0))
		simhca_fault_over(&qp->faults, access);
}

/* Checks the target, copies to it, and notes what came of that. */
enum simhca_reach simhca_own_copy(struct simhca_worker *worker, struct simhca_qp *qp,
				  enum simhca_own_access access, const struct simhca_sgl *target,
				  const struct simhca_sgl *source, uint64_t length,
				  enum simhca_reason *reason);

/* LATER: the delay before another try, coded as an RNR NAK's. */
static inline uint8_t simhca_own_timer(struct simhca_qp *qp, enum simhca_own_access access)
{
	return simhca_fault_rnr_timer(&qp->faults, access);
}

/* ---------------------------------------------------------------------- the requester's */

/* The requester waits (LATER), or its message fails (FAILED). */
enum simhca_next simhca_own_wait(struct simhca_worker *worker, struct simhca_qp *qp,
				 enum simhca_own_access access, enum simhca_reach reach,
				 enum simhca_reason reason);
/*
 * The requester waits for pages, to read from or to write to. A NIC would have other messages under way
 * by then, so this asks for the pages of the next message of the other direction, and both faults are
 * resolved side by side. It is called again for messages that are posted meanwhile.
 */
void simhca_own_look_ahead(struct simhca_worker *worker, struct simhca_qp *qp);

#endif
