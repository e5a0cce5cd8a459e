/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "core/backoff.h"
#include "engine/engine.h"
#include "queue/progress.h"
#include "qp.h"
#include "queue/store.h"
#include "owner.h"

/* Changes of a word by its client, while it is to be acquired; more are not waited for. */
#define TRIES 16

/* ------------------------------------------------------------------------------ lock */

#define HELD 1u
#define ASKED 2u

bool simhca_side_try_lock(struct simhca_side_lock *lock, bool ask)
{
	uint32_t old = 0;

	/*
	 * acquire: what the holder before left. release, if it only asks: what is asked for is
	 * there when the holder sees that.
	 */
	while (!atomic_compare_exchange_weak_explicit(&lock->word, &old, old ? HELD | ASKED : HELD,
						      memory_order_acq_rel, memory_order_relaxed))
		if (old && !ask)
			return false;
	return !old;
}

bool simhca_side_unlock(struct simhca_side_lock *lock)
{
	return atomic_exchange_explicit(&lock->word, 0, memory_order_acq_rel) & ASKED;
}

/* ------------------------------------------------------------------ words and copies */

/* Acquires an owner word: whose it is now. */
static enum owner { OURS, ANOTHERS, CLIENTS } acquire(struct simhca_owner *word, uint32_t program)
{
	uint32_t old = atomic_load_explicit(&word->holder, memory_order_relaxed), next;

	for (int i = 0; i < TRIES; i++) {
		next = SIMHCA_OWNER_DEVICE;
		if (old & ~SIMHCA_OWNER_WANTED) {
			if (!program || (old & ~SIMHCA_OWNER_WANTED) != program)
				return CLIENTS;
			next = old | SIMHCA_OWNER_WANTED;
		}
		simhca_store();
		/*
		 * acquire: pairs with the release by the holder before, which wrote the copy. What
		 * is wanted so far is what happens now. release, if a program has it: what is
		 * asked for is there when it rings for the device.
		 */
		if (atomic_compare_exchange_weak_explicit(
			    &word->holder, &old, next, memory_order_acq_rel, memory_order_relaxed))
			return next == SIMHCA_OWNER_DEVICE ? OURS : ANOTHERS;
	}
	return CLIENTS;
}

/* KNOWN: what the side works on is what counts. Else that is to be read, and judged. */
enum begun { KNOWN, READ, NONSENSE, BUSY };

static enum begun begin(struct simhca_owner *word, struct simhca_side_lock *lock, uint32_t program)
{
	enum owner owner = acquire(word, program);
	uint32_t generation;
	bool known;

	if (owner == ANOTHERS)
		return BUSY;
	/* acquire: of a holder that is gone and has not released it, this is all there is. */
	generation = atomic_load_explicit(&word->generation, memory_order_acquire);
	known = lock->known && lock->generation == generation;
	lock->generation = generation;
	lock->known = true;
	if (owner == CLIENTS)
		return NONSENSE;
	return known ? KNOWN : READ;
}

/* True: somebody wants it as well. */
static bool end(struct simhca_owner *word)
{
	simhca_store();
	/* release: the copies are written. acquire: what is wanted by those who say so. */
	return atomic_exchange_explicit(&word->holder, 0, memory_order_acq_rel) &
	       SIMHCA_OWNER_WANTED;
}

/* ------------------------------------------------------------------------- requester */

/*
 * What the device keeps beside the progress was true of the generation that it left. Of another one,
 * which a program has written, it is void:
 *
 *	fetching   the message under way is no rendezvous's, but the WQE at its index; rendezvous
 *		   that wait, or whose data are to be fetched, are in a list of their own
 *	asked	   what a read asks for again ends where anything was sent, at most
 *	adaptive   no answer is waited for by the link's time
 *
 * The rest holds whatever the progress says:
 *
 *	inject_past, copies    they name by its number the packet or WQE that they are about, and are
 *			       compared with that only
 *	faults		       each has the ranges of memory that it waits for
 *	rndv, left	       lists of copies, which no index leads to
 *	peer		       what it is depends on the fabric's generation
 *	peer_ready,	       no more than that the QP is to be looked at
 *	fastpath.yielding
 *	drained_event_due,     a change of state is to be told, once
 *	last_wqe_event_due
 *	in_slot		       found anew for each packet but one that waits for its key; who polls
 *			       copies from a slot of its own, whatever this says
 *	recv_srq, key_pd       found anew for each packet of an XRC_RECV QP; of others they do not
 *			       change
 *
 * A worker's send_of, requester and landing are valid while the owner word is held, and a timer that fires is compared with
 * the deadline.
 */
static void forget_what_was_kept(struct simhca_qp *qp)
{
	qp->requester.fetching = false;
	qp->requester.asked = qp->req.psn_sent;
	qp->requester.adaptive = false;
}

static bool acquire_requester(struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;
	enum begun begun = begin(&qp->mem->req_owner, &qp->req_lock,
				 qp->fastpath.attached ? SIMHCA_OWNER_PROGRAM | qp->qpn : 0);
	bool makes_sense;

	if (__builtin_expect(begun == KNOWN, 1))
		return true;
	if (begun == BUSY)
		return false;
	makes_sense = simhca_progress_requester(qp->mem, qp->req_lock.generation, qp->sq_entries,
						req, qp->flight) &&
		      begun == READ;
	if (!makes_sense) {
		/* Nothing that could be named is under way, or waits. */
		memset(req, 0, sizeof(*req));
		req->oldest = simhca_progress_sq_pi(qp->mem);
	}
	forget_what_was_kept(qp);
	if (!makes_sense)
		simhca_qp_corrupt(qp);
	return true;
}

static void requester_commit(struct simhca_qp *qp)
{
	simhca_progress_commit_requester(qp->mem, &qp->req_lock.generation, &qp->req);
}

void simhca_requester_commit_cqe(struct simhca_qp *qp, uint32_t cqe_index)
{
	qp->req.cqe_index = cqe_index + 1;
	requester_commit(qp);
}

static bool release_requester(struct simhca_qp *qp)
{
	if (simhca_progress_differs_requester(qp->mem, qp->req_lock.generation, &qp->req))
		requester_commit(qp);
	return end(&qp->mem->req_owner);
}

/* ------------------------------------------------------------------------- responder */

/* Whatever was claimed for it. */
static uint32_t claimed(const struct simhca_qp *qp)
{
	return qp->claimant ? simhca_srq_claimed(simhca_claimed_from(qp), qp->claimant) : 0;
}

bool simhca_responder_acquire(struct simhca_qp *qp)
{
	struct simhca_responder *resp = &qp->resp;
	enum begun begun =
		begin(&qp->mem->resp_owner, &qp->resp_lock,
		      qp->fastpath.whose ? SIMHCA_OWNER_PROGRAM | qp->fastpath.whose : 0);

	if (__builtin_expect(begun == KNOWN, 1))
		return true;
	if (begun == BUSY)
		return false;
	if (simhca_progress_responder(qp->mem, qp->resp_lock.generation, qp->rq_entries,
				      qp->recv_copy, resp) &&
	    begun == READ)
		return true;
	memset(resp, 0, sizeof(*resp));
	resp->rq_ci = simhca_progress_rq_pi(qp->mem);
	resp->claim = claimed(qp);
	simhca_qp_corrupt(qp);
	return true;
}

void simhca_responder_start(struct simhca_qp *qp, uint32_t psn)
{
	qp->resp.epsn = psn;
	qp->resp.claim = claimed(qp);
}

bool simhca_responder_has_claim(const struct simhca_qp *qp)
{
	return qp->resp.claim != claimed(qp);
}

void simhca_responder_commit(struct simhca_qp *qp)
{
	simhca_progress_commit_responder(qp->mem, &qp->resp_lock.generation, &qp->resp);
}

void simhca_responder_commit_cqe(struct simhca_qp *qp, uint32_t cqe_index)
{
	qp->resp.cqe_index = cqe_index + 1;
	simhca_responder_commit(qp);
}

uint32_t simhca_responder_last_cqe(const struct simhca_qp *qp)
{
	struct simhca_responder resp;

	simhca_progress_show_responder(qp->mem, &resp);
	return resp.cqe_index;
}

bool simhca_responder_release(struct simhca_qp *qp)
{
	if (simhca_progress_differs_responder(qp->mem, qp->resp_lock.generation, &qp->resp))
		simhca_responder_commit(qp);
	return end(&qp->mem->resp_owner);
}

/* -------------------------------------------------------------------- lock and owner word */

bool simhca_qp_begin(struct simhca_qp *qp)
{
	if (!simhca_side_try_lock(&qp->req_lock, true))
		return false;
	if (acquire_requester(qp))
		return true;
	simhca_side_unlock(&qp->req_lock); /* who holds the requester rings */
	return false;
}

void simhca_qp_end(struct simhca_qp *qp)
{
	bool wanted = release_requester(qp);

	if (simhca_side_unlock(&qp->req_lock) || wanted)
		simhca_engine_schedule(qp->context->engine, &qp->task);
}

bool simhca_qp_begin_responder(struct simhca_qp *qp)
{
	if (!simhca_side_try_lock(&qp->resp_lock, false))
		return false;
	if (simhca_responder_acquire(qp))
		return true;
	simhca_side_unlock(&qp->resp_lock);
	return false;
}

void simhca_qp_end_responder(struct simhca_qp *qp)
{
	bool wanted = simhca_responder_release(qp);

	simhca_side_unlock(&qp->resp_lock);
	if (wanted && qp->context)
		simhca_engine_schedule(qp->context->engine, &qp->task);
}

/* Without a word to who has it, who may be a client. */
static bool begin_requester(struct simhca_qp *qp)
{
	if (!simhca_side_try_lock(&qp->req_lock, false))
		return false;
	if (acquire_requester(qp))
		return true;
	simhca_side_unlock(&qp->req_lock);
	return false;
}

static bool begin_for_a_moment(struct simhca_qp *qp, bool (*begin)(struct simhca_qp *qp))
{
	struct simhca_backoff backoff = { 0 };

	while (!begin(qp))
		if (!simhca_backoff(&backoff, qp->device->fabric))
			return false;
	return true;
}

bool simhca_qp_begin_to_look(struct simhca_qp *qp)
{
	return begin_for_a_moment(qp, begin_requester);
}

int simhca_qp_begin_both(struct simhca_qp *qp, bool patient)
{
	if (patient ? !begin_for_a_moment(qp, begin_requester) : !simhca_qp_begin(qp))
		return -EAGAIN;
	if (patient ? !begin_for_a_moment(qp, simhca_qp_begin_responder)
		    : !simhca_qp_begin_responder(qp)) {
		simhca_qp_end(qp);
		return -EAGAIN;
	}
	return 0;
}

void simhca_qp_end_both(struct simhca_qp *qp)
{
	simhca_qp_end_responder(qp);
	simhca_qp_end(qp);
}
