/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "psn.h"
#include "qp.h"
#include "requester.h"
#include "srq.h"
#include "store.h"
#include "turn.h"
#include "words.h"

/* Changes of a word by its client, while it is to be acquired; more are not waited for. */
#define TRIES 16

/* ------------------------------------------------------------------------------ lock */

#define HELD 1u
#define ASKED 2u

bool simhca_turn_try_lock(struct simhca_turn_lock *lock, bool ask)
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

bool simhca_turn_unlock(struct simhca_turn_lock *lock)
{
	return atomic_exchange_explicit(&lock->word, 0, memory_order_acq_rel) & ASKED;
}

/* ------------------------------------------------------------------ words and copies */

/* Acquires the turn: whose it is now. */
static enum owner { OURS, ANOTHERS, CLIENTS } acquire(struct simhca_turn *turn, uint32_t caller)
{
	uint32_t old = atomic_load_explicit(&turn->holder, memory_order_relaxed), next;

	for (int i = 0; i < TRIES; i++) {
		next = SIMHCA_TURN_DEVICE;
		if (old & ~SIMHCA_TURN_WANTED) {
			if (!caller || (old & ~SIMHCA_TURN_WANTED) != caller)
				return CLIENTS;
			next = old | SIMHCA_TURN_WANTED;
		}
		simhca_store();
		/*
		 * acquire: pairs with the end of the turn before, which wrote the copy. What is
		 * wanted so far is what happens now. release, if a caller has it: what is asked
		 * for is there when he rings for the device.
		 */
		if (atomic_compare_exchange_weak_explicit(
			    &turn->holder, &old, next, memory_order_acq_rel, memory_order_relaxed))
			return next == SIMHCA_TURN_DEVICE ? OURS : ANOTHERS;
	}
	return CLIENTS;
}

/* KNOWN: what the side works on is what counts. Else that is to be read, and judged. */
enum begun { KNOWN, READ, NONSENSE, BUSY };

static enum begun begin(struct simhca_turn *turn, struct simhca_turn_lock *lock, uint32_t caller)
{
	enum owner owner = acquire(turn, caller);
	uint32_t generation;
	bool known;

	if (owner == ANOTHERS)
		return BUSY;
	/* acquire: of a holder who has not ended his turn, for he is gone, this is all there is. */
	generation = atomic_load_explicit(&turn->generation, memory_order_acquire);
	known = lock->known && lock->generation == generation;
	lock->generation = generation;
	lock->known = true;
	if (owner == CLIENTS)
		return NONSENSE;
	return known ? KNOWN : READ;
}

/* True: somebody wants another turn. */
static bool end(struct simhca_turn *turn)
{
	simhca_store();
	/* release: the copies are written. acquire: what is wanted by those who say so. */
	return atomic_exchange_explicit(&turn->holder, 0, memory_order_acq_rel) &
	       SIMHCA_TURN_WANTED;
}

/* The progress is written to the copy that does not count, which counts from then on. */
static inline void commit(struct simhca_turn *turn, struct simhca_turn_lock *lock, void *copies,
			  const void *progress, size_t bytes)
{
	lock->generation++;
	simhca_words_put((char *)copies + (lock->generation & 1) * bytes, progress, bytes);
	simhca_store();
	/* release: the copy is there before it counts. */
	atomic_store_explicit(&turn->generation, lock->generation, memory_order_release);
}

/* ------------------------------------------------------------------------- requester */

/* Each message under way is of PSNs that follow those of the one before, up to psn_next. */
static bool flights_make_sense(const struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;
	uint32_t reads = 0, next = 0;

	for (uint32_t i = 0; i < req->count; i++) {
		const struct simhca_flight *flight = simhca_flight_of(qp, i);
		uint32_t psns = simhca_psn_add(flight->last - flight->first, 1);

		if (i && flight->first != next)
			return false;
		/* Those that send nothing take no PSNs, and stand alone. */
		if (simhca_is_local_op(flight->opcode) ? psns || req->count > 1
						       : !psns || psns > SIMHCA_PSN_DUPLICATES)
			return false;
		next = simhca_psn_add(flight->last, 1);
		reads += simhca_is_read_like(flight->opcode);
	}
	return next == req->psn_next && reads == req->reads;
}

static bool requester_makes_sense(const struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;

	if (req->psn_next > SIMHCA_PSN_MASK || req->wait > SIMHCA_WAIT_PEER || req->fault > 1 ||
	    req->told > 1)
		return false;
	if (!req->count)
		return true;
	return req->psn_una <= SIMHCA_PSN_MASK && req->psn_send <= SIMHCA_PSN_MASK &&
	       req->psn_sent <= SIMHCA_PSN_MASK &&
	       simhca_psn_cmp(simhca_flight_of(qp, 0)->first, req->psn_una) <= 0 &&
	       simhca_psn_cmp(req->psn_una, req->psn_send) <= 0 &&
	       simhca_psn_cmp(req->psn_send, req->psn_sent) <= 0 &&
	       simhca_psn_cmp(req->psn_sent, req->psn_next) <= 0 && req->alone <= 1 &&
	       req->answered <= 1 && req->revoked <= 1 && req->went_back <= 1 &&
	       (!req->answered ||
		simhca_flight_of(qp, 0)->opcode == SIMHCA_WR_RDMA_READ_WITH_INV) &&
	       flights_make_sense(qp);
}

static void load_flights(struct simhca_qp *qp)
{
	for (uint32_t i = 0; i < qp->req.count; i++) {
		uint64_t word = atomic_load_explicit(
			&qp->mem->flight[(qp->req.oldest + i) % SIMHCA_MAX_FLIGHTS],
			memory_order_relaxed);

		*simhca_flight(qp, i) = (struct simhca_flight){
			.first = word & SIMHCA_PSN_MASK,
			.last = word >> SIMHCA_FLIGHT_LAST_SHIFT & SIMHCA_PSN_MASK,
			.opcode = (uint32_t)(word >> SIMHCA_FLIGHT_OPCODE_SHIFT),
		};
	}
}

bool simhca_requester_begin(struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;
	enum begun begun = begin(&qp->mem->req_turn, &qp->req_lock,
				 qp->caller.attached ? SIMHCA_TURN_CALLER | qp->qpn : 0);

	if (__builtin_expect(begun == KNOWN, 1))
		return true;
	if (begun == BUSY)
		return false;
	simhca_words_get(req, &qp->mem->req[qp->req_lock.generation & 1], sizeof(*req));
	if (begun == READ && req->count <= SIMHCA_MAX_FLIGHTS) {
		load_flights(qp);
		if (requester_makes_sense(qp))
			return true;
	}
	/* Nothing that could be named is under way, or waits. */
	memset(req, 0, sizeof(*req));
	req->oldest = atomic_load_explicit(&qp->mem->sq_pi, memory_order_relaxed);
	simhca_qp_corrupt(qp);
	return true;
}

static void requester_commit(struct simhca_qp *qp)
{
	commit(&qp->mem->req_turn, &qp->req_lock, qp->mem->req, &qp->req, sizeof(qp->req));
}

void simhca_requester_completes(struct simhca_qp *qp, uint32_t ticket)
{
	qp->req.ticket = ticket + 1;
	requester_commit(qp);
}

bool simhca_requester_end(struct simhca_qp *qp)
{
	if (memcmp(&qp->mem->req[qp->req_lock.generation & 1], &qp->req, sizeof(qp->req)))
		requester_commit(qp);
	return end(&qp->mem->req_turn);
}

/* ------------------------------------------------------------------------- responder */

static bool responder_makes_sense(const struct simhca_responder *resp)
{
	return resp->epsn <= SIMHCA_PSN_MASK && resp->msn <= SIMHCA_PSN_MASK &&
	       resp->psns_done <= SIMHCA_PSN_DUPLICATES &&
	       resp->offset <= 2 * SIMHCA_MAX_MSG_SIZE && resp->left <= SIMHCA_MAX_MSG_SIZE &&
	       resp->read.left <= SIMHCA_MAX_MSG_SIZE && resp->read.psn <= SIMHCA_PSN_MASK &&
	       resp->owed <= SIMHCA_OWES_REPEATED && resp->in_message <= 1 && resp->write <= 1 &&
	       resp->have_recv <= 1 && resp->nak_sent <= 1 && resp->told_psn <= 1 &&
	       resp->revoked <= 1 && resp->comm_est <= 1 && resp->tm.kind <= SIMHCA_TM_RNDV;
}

/* Whatever was claimed for it. */
static uint32_t claimed(const struct simhca_qp *qp)
{
	return qp->claimant ? simhca_srq_claimed(simhca_claimed_from(qp), qp->claimant) : 0;
}

bool simhca_responder_begin(struct simhca_qp *qp)
{
	struct simhca_responder *resp = &qp->resp;
	enum begun begun = begin(&qp->mem->resp_turn, &qp->resp_lock,
				 qp->caller.whose ? SIMHCA_TURN_CALLER | qp->caller.whose : 0);

	if (__builtin_expect(begun == KNOWN, 1))
		return true;
	if (begun == BUSY)
		return false;
	simhca_words_get(resp, &qp->mem->resp[qp->resp_lock.generation & 1], sizeof(*resp));
	if (begun == READ && responder_makes_sense(resp))
		return true;
	memset(resp, 0, sizeof(*resp));
	resp->rq_ci = atomic_load_explicit(&qp->mem->rq_pi, memory_order_relaxed);
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
	commit(&qp->mem->resp_turn, &qp->resp_lock, qp->mem->resp, &qp->resp, sizeof(qp->resp));
}

void simhca_responder_completes(struct simhca_qp *qp, uint32_t ticket)
{
	qp->resp.ticket = ticket + 1;
	simhca_responder_commit(qp);
}

uint32_t simhca_responder_ticket(const struct simhca_qp *qp)
{
	struct simhca_responder resp;
	uint32_t generation =
		atomic_load_explicit(&qp->mem->resp_turn.generation, memory_order_acquire);

	simhca_words_get(&resp, &qp->mem->resp[generation & 1], sizeof(resp));
	return resp.ticket;
}

bool simhca_responder_end(struct simhca_qp *qp)
{
	if (memcmp(&qp->mem->resp[qp->resp_lock.generation & 1], &qp->resp, sizeof(qp->resp)))
		simhca_responder_commit(qp);
	return end(&qp->mem->resp_turn);
}
