/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Turns at a QP's requester or responder (simhca-abi-progress.h). Who has one works on qp->req and
 * qp->flight, or on qp->resp. Outside of a turn they are what the last one left, and still true if
 * the generation is.
 *
 * The device's threads keep each other off by req_lock and resp_lock, as no word that a client can
 * write may do that. The holder in the QP's memory comes after the lock. Who is there then is the
 * program that runs the requester's steps (attach.h), or a client has written it.
 */
#ifndef LIBSIMHCA_OWNER_H
#define LIBSIMHCA_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simhca_qp;

/* All zero: free, and nothing known. */
struct simhca_side_lock {
	atomic_uint word;
	bool known;	     /* what the turn works on is that of this generation */
	uint32_t generation; /* of the copy that counts */
};

/*
 * Without waiting. False: somebody has it; with `ask` he has been asked to have the QP looked at
 * again, and what the caller did before is seen then.
 */
bool simhca_side_try_lock(struct simhca_side_lock *lock, bool ask);
/* True: somebody has asked. */
bool simhca_side_unlock(struct simhca_side_lock *lock);

/*
 * Begins a turn, under the side's lock. If what is there makes no sense the QP fails. False: a
 * caller has it, who has been asked to ring when he has done with the requester's.
 */
bool simhca_requester_acquire(struct simhca_qp *qp);
bool simhca_responder_acquire(struct simhca_qp *qp);
/* What was done so far counts, whatever happens to the rest of the turn. */
void simhca_responder_commit(struct simhca_qp *qp);
/* Likewise, as the completion of that ticket (its CQ's index) may be seen now. */
void simhca_requester_commit(struct simhca_qp *qp, uint32_t cqe_index);
void simhca_responder_complete(struct simhca_qp *qp, uint32_t cqe_index);
/* A new connection, in a turn: the first PSN to come. What was consumed before is accounted for. */
void simhca_responder_start(struct simhca_qp *qp, uint32_t psn);
/* In a turn: whether a caller has consumed a WQE of the SRQ for this QP, and was gone then. */
bool simhca_responder_has_claim(const struct simhca_qp *qp);
/* Of the last receive that is committed, whoever did it; under the side's lock. */
uint32_t simhca_responder_last_cqe(const struct simhca_qp *qp);
/* Commits and ends the turn; true: somebody wants the QP to be looked at again. */
bool simhca_requester_release(struct simhca_qp *qp);
bool simhca_responder_release(struct simhca_qp *qp);

#endif
