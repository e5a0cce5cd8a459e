/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the device acquires, commits and releases a QP's requester or responder
 * (simhca-abi-progress.h). Between acquire and release a thread works on qp->req and qp->flight, or
 * on qp->resp. At other times these are what was committed last, and they are still true if the
 * generation has not changed.
 *
 * The device's threads exclude each other by req_lock and resp_lock, since no word that a client
 * can write may do that. The owner word in the QP's memory is acquired after the lock. Whoever
 * holds it then is a program on the fast path (attach.h), or a client has written a number there.
 */
#ifndef LIBSIMHCA_OWNER_H
#define LIBSIMHCA_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct simhca_qp;

/* All zero: free, and nothing known. */
struct simhca_side_lock {
	atomic_uint word;
	bool known;	     /* the copy in struct simhca_qp is that of this generation */
	uint32_t generation; /* of the copy that counts */
};

/*
 * Takes the lock without waiting. False: another thread has it; with `ask`, that thread will have
 * the QP looked at again when it unlocks, and sees then what this thread did before.
 */
bool simhca_side_try_lock(struct simhca_side_lock *lock, bool ask);
/* True: a thread has asked for the QP to be looked at again. */
bool simhca_side_unlock(struct simhca_side_lock *lock);

/*
 * Acquires the owner word, under the side's lock. If what programs wrote there makes no sense the
 * QP fails. False: a program has it; it has been asked to ring the doorbell when it releases it.
 */
bool simhca_responder_acquire(struct simhca_qp *qp);
/* What was done so far counts from now on, whatever happens until the release. */
void simhca_responder_commit(struct simhca_qp *qp);
/* Likewise, and then the CQE that was reserved at that index of the CQ may be published. */
void simhca_requester_commit_cqe(struct simhca_qp *qp, uint32_t cqe_index);
void simhca_responder_commit_cqe(struct simhca_qp *qp, uint32_t cqe_index);
/*
 * A new connection, while it is acquired: the first PSN to come. What was consumed before is
 * accounted for.
 */
void simhca_responder_start(struct simhca_qp *qp, uint32_t psn);
/*
 * While it is acquired: whether a program took a WQE of the SRQ for this QP and ended before it
 * committed.
 */
bool simhca_responder_has_claim(const struct simhca_qp *qp);
/* The CQE of the last receive that was committed, by whomever; under the side's lock. */
uint32_t simhca_responder_last_cqe(const struct simhca_qp *qp);
/* Commits and releases the owner word; true: somebody wants the QP to be looked at again. */
bool simhca_responder_release(struct simhca_qp *qp);

/*
 * Takes the requester's side of a QP without waiting. When it is taken, its holder will schedule
 * the QP again, so that nothing is forgotten. Control functions try for a moment.
 */
bool simhca_qp_begin(struct simhca_qp *qp);
void simhca_qp_end(struct simhca_qp *qp);
/* The same for a moment, and without a word to its holder: for who looks, and changes nothing. */
bool simhca_qp_begin_to_look(struct simhca_qp *qp);
/* Likewise its responder's side; nobody is told. */
bool simhca_qp_begin_responder(struct simhca_qp *qp);
void simhca_qp_end_responder(struct simhca_qp *qp);
/* Both sides, for control functions and flushing: 0 or -EAGAIN. */
int simhca_qp_begin_both(struct simhca_qp *qp, bool patient);
void simhca_qp_end_both(struct simhca_qp *qp);

#endif
