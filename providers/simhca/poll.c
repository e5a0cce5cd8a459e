/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Taking completions: ibv_poll_cq() and the ibv_start_poll() family. */
#include <endian.h>
#include <sched.h>
#include <string.h>

#include "checkers.h"
#include "doorbell.h"
#include "lint.h"
#include "say.h"
#include "simhca-clock.h"

/* About 2 us of finding nothing. */
#define EMPTY_POLLS 100
/* Longer than the device and the peer take: some thread has used up its time slice. */
#define LONG_YIELD_NS 500000u
#define LEAST_STAY_NS 250000u
#define MOST_STAY_NS 8000000u
/* Of CQs that are polled in vain; they are counted anew every 34 ms. */
#define MANY 8u
#define WAITING_SHIFT 25

#define EMPTY_REPORTED_NS 2000000000u

/* What no operation is. That of a send looks like one of a receive, and the other way round. */
#define POISON_OF_RECV 0x7e
#define POISON_OF_SEND (POISON_OF_RECV | IBV_WC_RECV)

/* Whatever can complete; every enum simhca_wc_opcode is here. */
static const uint8_t wc_opcode[256] = {
	[SIMHCA_WC_SEND] = IBV_WC_SEND,
	[SIMHCA_WC_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[SIMHCA_WC_RDMA_READ] = IBV_WC_RDMA_READ,
	[SIMHCA_WC_COMP_SWAP] = IBV_WC_COMP_SWAP,
	[SIMHCA_WC_FETCH_ADD] = IBV_WC_FETCH_ADD,
	[SIMHCA_WC_BIND_MW] = IBV_WC_BIND_MW,
	[SIMHCA_WC_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[SIMHCA_WC_FLUSH] = SIMHCA_WC_FLUSH, /* as IBV_WC_FLUSH, which older headers lack */
	[SIMHCA_WC_ATOMIC_WRITE] = SIMHCA_WC_ATOMIC_WRITE, /* as IBV_WC_ATOMIC_WRITE */
	[SIMHCA_WC_RECV] = IBV_WC_RECV,
	[SIMHCA_WC_RECV_RDMA_WITH_IMM] = IBV_WC_RECV_RDMA_WITH_IMM,
	[SIMHCA_WC_TM_ADD] = IBV_WC_TM_ADD,
	[SIMHCA_WC_TM_DEL] = IBV_WC_TM_DEL,
	[SIMHCA_WC_TM_SYNC] = IBV_WC_TM_SYNC,
	[SIMHCA_WC_TM_RECV] = IBV_WC_TM_RECV,
	[SIMHCA_WC_TM_NO_TAG] = IBV_WC_TM_NO_TAG,
	[SIMHCA_WC_FAST_REG] = SIMHCADV_WC_FAST_REG,
	[POISON_OF_RECV] = POISON_OF_RECV,
	[POISON_OF_SEND] = POISON_OF_SEND,
};

char shca_tsan_cookie;

static inline unsigned int wc_flags(const struct simhca_cqe *cqe)
{
	const uint8_t shown = SIMHCA_CQE_GRH | SIMHCA_CQE_IMM | SIMHCA_CQE_INV | SIMHCA_CQE_CSUM_OK;

	if (!((cqe->flags & shown) | cqe->tm_flags))
		return 0;
	return (cqe->flags & SIMHCA_CQE_GRH ? IBV_WC_GRH : 0) |
	       (cqe->flags & SIMHCA_CQE_IMM ? IBV_WC_WITH_IMM : 0) |
	       (cqe->flags & SIMHCA_CQE_INV ? IBV_WC_WITH_INV : 0) |
	       (cqe->flags & SIMHCA_CQE_CSUM_OK ? IBV_WC_IP_CSUM_OK : 0) |
	       (unsigned int)cqe->tm_flags << SIMHCA_CQE_TM_SHIFT;
}

static inline bool release_sends(struct shca_sq *sq, uint32_t wqe_index)
{
	uint32_t tail = atomic_load_explicit(&sq->tail, memory_order_relaxed), next;

	if (!shca_gate_completed(wqe_index, tail,
				 atomic_load_explicit(&sq->posted, memory_order_relaxed),
				 sq->max_wr, &next))
		return false;
	if (__builtin_expect(atomic_load_explicit(&sq->page_lists, memory_order_relaxed) != NULL,
			     0))
		shca_page_lists_return(sq, tail, next);
	atomic_store_explicit(&sq->tail, next, memory_order_release);
	return true;
}

/*
 * Whether the buffer's region is there; one by FAST_REG is none whose data stay anywhere.
 * A program that has deregistered it may have freed the memory, to which a NIC has written before that;
 * so the data are lost. An index is given out in turn, so it is hardly another region's by now. A device that goes
 * takes its regions with it, and what came before that counts.
 */
static inline bool is_registered(const struct shca_cq *cq, const struct shca_first_buffer *first)
{
	const struct simhca_mpt *mpt = simhca_mpt_of(cq->ctx->dev, first->lkey);

	/* acquire: a region is gone after the device has said that the context is. */
	return mpt && (atomic_load_explicit(&mpt->state, memory_order_acquire) == SIMHCA_MPT_MR ||
		       atomic_load_explicit(&cq->ctx->mem->ends, memory_order_relaxed));
}

/* The receive's data, if they stayed in its slot. The slot is ours until the tail passes it. */
static inline void copy_from_slot(const struct shca_cq *cq, const struct shca_rq *rq, uint32_t tail,
				  uint32_t byte_len)
{
	const struct shca_first_buffer *first = &rq->first[tail & rq->mask];

	if (is_registered(cq, first))
		memcpy((void *)(uintptr_t)first->addr,
		       (const uint8_t *)shca_rq_wqe(rq, tail) + rq->slot_data,
		       shca_gate_slot_data(byte_len, SIMHCA_SLOT_DATA, first->length));
}

/*
 * Likewise, if they stayed in the CQ, at the index that was polled last. A datagram's begin with room for a
 * header, which has come with it or not.
 */
static inline void copy_from_cq(const struct shca_cq *cq, const struct simhca_cqe *cqe,
				const struct shca_first_buffer *first, bool is_datagram)
{
	const uint8_t *data = cq->data + (size_t)((cq->ci - 1) & cq->data_mask) * SIMHCA_CQ_DATA;
	uint32_t from = is_datagram && !(cqe->flags & SIMHCA_CQE_GRH) ? SIMHCA_GRH_BYTES : 0;
	uint32_t end = shca_gate_slot_data(cqe->byte_len, SIMHCA_CQ_DATA, first->length);

	if (end > from && is_registered(cq, first))
		memcpy((char *)(uintptr_t)first->addr + from, data + from, end - from);
}

/* False: the data are said to be where there is no room for any, or of a receive that has no record. */
static inline bool finish_record(struct shca_cq *cq, const struct shca_rq *rq,
				 const struct simhca_cqe *cqe, bool is_datagram)
{
	struct shca_first_buffer *record = shca_rq_take_record(rq, cqe->wqe_index);

	if (cqe->in_slot && (!record || !cq->data))
		return false;
	if (cqe->in_slot)
		copy_from_cq(cq, cqe, record, is_datagram);
	if (record)
		shca_rq_drop_record(record);
	return true;
}

static inline bool release_recv(const struct shca_cq *cq, struct shca_rq *rq,
				const struct simhca_cqe *cqe)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed), next;

	if (!shca_gate_completed(tail, tail,
				 atomic_load_explicit(&rq->posted, memory_order_relaxed),
				 rq->max_wr, &next))
		return false;
	if (cqe->in_slot && rq->first && !rq->several) {
		if (cqe->in_slot == SIMHCA_CQE_IN_CQ && cq->data)
			copy_from_cq(cq, cqe, &rq->first[tail & rq->mask], false);
		else if (cqe->in_slot == SIMHCA_CQE_IN_WQE)
			copy_from_slot(cq, rq, tail, cqe->byte_len);
	}
	atomic_store_explicit(&rq->tail, next, memory_order_release);
	return true;
}

/*
 * Of an SRQ that completes here, whose QPs need not have to do with this CQ. An operation on its tag
 * list, and a message that found an entry of that, gave no WQE back; the latter has its tag where
 * the SRQ's number is otherwise.
 */
static bool retire_of_srq(struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	struct shca_srq *srq = shca_cq_srq(cq, cqe);

	if (cqe->flags & SIMHCA_CQE_SRQ)
		return srq && shca_srq_release(srq);
	return srq || ((cqe->tm_flags & SIMHCA_CQE_TM_MATCH) && shca_chain_next(&cq->srqs));
}

/*
 * Gives back the slots of the WQEs that this CQE completes. True: it is a completion. So it is of an
 * SRQ that completes here, or of a QP that completes here and is not destroyed, and but for those of a
 * tag list that queue has posted a work request that it is of, which no CQE before has completed.
 */
static inline bool retire(struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	const struct shca_qp_entry *entry;
	const struct shca_cq *completes_in;
	bool is_recv = cqe->flags & SIMHCA_CQE_RECV;
	struct shca_qp *qp;

	if (__builtin_expect(cqe->flags & SIMHCA_CQE_SRQ_CQ, 0))
		return retire_of_srq(cq, cqe);
	entry = shca_qp_entry(cq->ctx, cqe->qpn);
	if (__builtin_expect(!entry, 0))
		return false;
	completes_in = atomic_load_explicit(is_recv ? &entry->recv_cq : &entry->send_cq,
					    memory_order_acquire);
	if (__builtin_expect(completes_in != cq, 0) ||
	    __builtin_expect(atomic_load_explicit(&entry->qpn, memory_order_relaxed) != cqe->qpn,
			     0))
		return false;
	/* It stays for as long as this CQ's lock is held. */
	qp = atomic_load_explicit(&entry->qp, memory_order_acquire);
	/* It also covers the unsignaled WQEs before it. */
	if (!is_recv)
		return release_sends(&qp->sq, cqe->wqe_index);
	if (__builtin_expect(!qp->srq && !qp->rq.several, 1))
		return release_recv(cq, &qp->rq, cqe);
	if (qp->srq && !(cqe->flags & SIMHCA_CQE_SRQ))
		return false;
	return finish_record(cq, qp->srq ? &qp->srq->rq : &qp->rq, cqe,
			     qp->vqp.qp.qp_type == IBV_QPT_UD) &&
	       (qp->srq ? shca_srq_release(qp->srq) : release_recv(cq, &qp->rq, cqe));
}

/*
 * A failed completion says which work request it is of, of which QP, the status and vendor_err, and
 * nothing else (ibv_poll_cq(3)). mlx5 leaves the rest of struct ibv_wc as it was, but for wc_flags,
 * which are 0. A program that looks at it is to go wrong here already.
 */
static __attribute__((cold, noinline)) const struct simhca_cqe *
poisoned(struct shca_cq *cq, const struct simhca_cqe *failed)
{
	struct simhca_cqe *cqe = &cq->taken;
	uint8_t poison = failed->opcode & IBV_WC_RECV ? POISON_OF_RECV : POISON_OF_SEND;
	const struct simhca_cqe what_is_said = {
		.wr_id = failed->wr_id,
		.status = failed->status,
		.vendor_err = failed->vendor_err,
		.qpn = failed->qpn,
	};

	memset(cqe, poison, offsetof(struct simhca_cqe, seq));
	cqe->wr_id = what_is_said.wr_id;
	cqe->status = what_is_said.status;
	cqe->vendor_err = what_is_said.vendor_err;
	cqe->qpn = what_is_said.qpn;
	cqe->flags = cqe->tm_flags = 0;
	return cqe;
}

/* Of a frame there is a flow tag instead of immediate data; what is not known may be one. */
static bool may_be_frame(struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	const struct shca_qp_entry *entry = shca_qp_entry(cq->ctx, cqe->qpn);
	const struct shca_qp *qp = NULL;

	if (entry && atomic_load_explicit(&entry->recv_cq, memory_order_acquire) == cq)
		qp = atomic_load_explicit(&entry->qp, memory_order_acquire);
	return !qp || qp->vqp.qp.qp_type == IBV_QPT_RAW_PACKET;
}

/*
 * Of what has succeeded, mlx5 tells immediate data only if there are some, and of a send or write
 * neither byte_len nor who has sent it: a program that looks at them is to go wrong here as well.
 */
static __attribute__((cold, noinline)) const struct simhca_cqe *partly_poisoned(struct shca_cq *cq)
{
	struct simhca_cqe *cqe = &cq->taken;

	if (cqe->opcode == SIMHCA_WC_SEND || cqe->opcode == SIMHCA_WC_RDMA_WRITE) {
		memset(&cqe->byte_len, POISON_OF_SEND, sizeof(cqe->byte_len));
		memset(&cqe->src_qpn, POISON_OF_SEND, sizeof(cqe->src_qpn));
		memset(&cqe->imm_or_rkey, POISON_OF_SEND, sizeof(cqe->imm_or_rkey));
	} else if (cqe->opcode == SIMHCA_WC_RECV &&
		   !(cqe->flags & (SIMHCA_CQE_IMM | SIMHCA_CQE_INV)) && !may_be_frame(cq, cqe)) {
		memset(&cqe->imm_or_rkey, POISON_OF_RECV, sizeof(cqe->imm_or_rkey));
	}
	return cqe;
}

static inline const struct simhca_cqe *as_it_is_shown(struct shca_cq *cq)
{
	if (__builtin_expect(cq->ctx->poison_wc, 0))
		return cq->taken.status ? poisoned(cq, &cq->taken) : partly_poisoned(cq);
	return &cq->taken;
}

/* Nothing is in the ring: only a device that is gone leaves something to report. */
static __attribute__((cold, noinline)) const struct simhca_cqe *next_flushed(struct shca_cq *cq)
{
	if (!shca_flush_one(cq, &cq->taken))
		return NULL;
	retire(cq, &cq->taken);
	return as_it_is_shown(cq);
}

/* CQs of this process that were found empty, in this and in the last of such periods. */
static struct {
	_Atomic uint64_t period;
	_Atomic uint32_t now, before;
} waiting;

/*
 * Whether many CQs of this process are polled in vain: then a thread that stays on the CPU keeps the
 * other threads that poll from it, and the device, for which they all wait. It is a guess, so nothing
 * is ordered, and a thread that begins a period together with another one may not be counted.
 */
static bool is_one_of_many(struct shca_cq *cq, uint64_t now_ns)
{
	const uint64_t period = now_ns >> WAITING_SHIFT;
	uint64_t last = atomic_load_explicit(&waiting.period, memory_order_relaxed);
	uint32_t count;

	if (last != period) {
		count = atomic_exchange_explicit(&waiting.now, 0, memory_order_relaxed);
		atomic_store_explicit(&waiting.before, last + 1 == period ? count : 0,
				      memory_order_relaxed);
		atomic_store_explicit(&waiting.period, period, memory_order_relaxed);
	}
	if (cq->counted_in != period) {
		cq->counted_in = period;
		atomic_fetch_add_explicit(&waiting.now, 1, memory_order_relaxed);
	}
	return atomic_load_explicit(&waiting.now, memory_order_relaxed) > MANY ||
	       atomic_load_explicit(&waiting.before, memory_order_relaxed) > MANY;
}

/*
 * Nothing is in the ring yet. The device is a thread like us, and where cores are scarce it, or the
 * peer, may be waiting for the one that we poll on; so after a while let others go first. Where
 * a core is free this returns at once. True if others have gone.
 *
 * Others may be programs that compute. A thread that yields to them gives up a whole time slice (Linux
 * 6.18) for the few us that it used of it, and would get next to nothing beside several of them. So it stays
 * for a while where a yield took long, and longer the more often it was in vain; unless the others are
 * threads of this process that poll as well.
 */
static __attribute__((noinline)) bool found_empty(struct shca_cq *cq)
{
	uint64_t before, after;

	if (++cq->empty_polls < EMPTY_POLLS)
		return false;
	cq->empty_polls = 0;
	/* relaxed: a number by itself, which nobody else writes. */
	atomic_store_explicit(&cq->mem->empty_polls,
			      atomic_load_explicit(&cq->mem->empty_polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	shca_acts(cq->ctx);
	before = simhca_now_ns();
	if (!is_one_of_many(cq, before) && before < cq->stay_until_ns)
		return false;
	sched_yield();
	after = simhca_now_ns();
	if (after - before > LONG_YIELD_NS) {
		cq->stay_ns = !cq->stay_ns		       ? LEAST_STAY_NS
			      : cq->stay_ns < MOST_STAY_NS / 2 ? cq->stay_ns * 2
							       : MOST_STAY_NS;
		cq->stay_until_ns = after + cq->stay_ns;
	}
	return true;
}

/*
 * The device has written over the CQE that is next, as the CQ ignores overruns: go on with the
 * oldest that is left.
 */
static bool overtaken(struct shca_cq *cq)
{
	uint32_t seq = atomic_load_explicit(&cq->ring[cq->ci & cq->mask].seq, memory_order_acquire);
	uint32_t pi;

	if ((int32_t)(seq - (cq->ci + 1)) <= 0)
		return false;
	pi = atomic_load_explicit(&cq->mem->pi, memory_order_acquire);
	cq->ci = pi - (cq->mask + 1);
	return true;
}

/* What became of the CQ that a poll has found empty. */
enum empty { EMPTY, EMPTY_LOOK_AGAIN, EMPTY_FOR_EVER, EMPTY_FATAL };

static inline enum empty why_empty(struct shca_cq *cq)
{
	if (__builtin_expect(shca_is_fatal(cq->ctx), 0))
		return EMPTY_FATAL;
	/* Acquire: what came before the overrun is seen then. */
	if (__builtin_expect(atomic_load_explicit(&cq->mem->overrun, memory_order_acquire), 0))
		return EMPTY_FOR_EVER;
	if (__builtin_expect(cq->ignore_overrun, 0) && overtaken(cq))
		return EMPTY_LOOK_AGAIN;
	return EMPTY;
}

/*
 * Consumes the next completion: a copy, which stays until the next call. What is not to be expected is in
 * functions of its own, so that little is saved and restored for it.
 */
static inline __attribute__((always_inline)) const struct simhca_cqe *next_cqe(struct shca_cq *cq)
{
	const struct simhca_cqe *cqe;
	uint32_t passed_over = 0; /* without returning any */
	enum empty why;

	while (passed_over <= cq->mask) {
		cqe = shca_cq_peek(cq, cq->ci);
		if (!cqe) {
			why = why_empty(cq);
			if (__builtin_expect(why == EMPTY, 1)) {
				/*
				 * Much may have happened meanwhile. Whoever looks next for the end
				 * of the connection has to have what came before it.
				 */
				if (found_empty(cq))
					continue;
				return NULL;
			}
			/* It may have been written between the first look and the end. */
			cqe = shca_cq_peek(cq, cq->ci);
			if (!cqe && why == EMPTY_FATAL)
				return next_flushed(cq);
			if (!cqe && why == EMPTY_FOR_EVER) {
				cq->failed = true;
				return NULL;
			}
			if (!cqe)
				continue;
		}
		cq->ci++;
		cq->empty_polls = 0;
		cq->stay_ns = 0;
		memcpy(&cq->taken, cqe, offsetof(struct simhca_cqe, seq));
		cqe = &cq->taken;
		if (__builtin_expect(cq->ctx->lint, 0))
			shca_lint_completion(cq, cqe);
		if (__builtin_expect(cqe->qpn != SIMHCA_VOID_QPN && retire(cq, cqe), 1)) {
			shca_has_polled();
			return as_it_is_shown(cq);
		}
		passed_over++;
	}
	return NULL; /* whoever fills it with nothing gets no more of this call */
}

static inline void fill_wc(struct ibv_wc *wc, const struct simhca_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = (enum ibv_wc_status)cqe->status;
	wc->opcode = (enum ibv_wc_opcode)wc_opcode[cqe->opcode];
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm_or_rkey;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qpn;
	wc->wc_flags = wc_flags(cqe);
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
}

/*
 * A poll without room for a completion takes none, however many there are. True: it is to be told,
 * once, when nothing else was done with the CQ for a while.
 */
static __attribute__((cold, noinline)) bool polled_for_none(struct shca_cq *cq)
{
	const uint64_t now_ns = simhca_now_ns();
	bool tell;

	if (!cq->none_since || cq->none_ci != cq->ci || !shca_cq_peek(cq, cq->ci)) {
		cq->none_since = now_ns;
		cq->none_ci = cq->ci;
	}
	tell = now_ns - cq->none_since > EMPTY_REPORTED_NS && !cq->empty_reported;
	cq->empty_reported |= tell;
	return tell;
}

int shca_poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	struct shca_cq *cq = to_scq(ibv_cq);
	const struct simhca_cqe *cqe;
	uint32_t ci;
	int polled = 0;

	shca_cq_lock_for(cq, "ibv_poll_cq()");
	ci = cq->ci;
	while (polled < num_entries && (cqe = next_cqe(cq)))
		fill_wc(&wc[polled++], cqe);
	if (cq->ci != ci) {
		shca_cq_publish_ci(cq);
		shca_acts(cq->ctx);
	} else if (__builtin_expect(num_entries <= 0, 0) && polled_for_none(cq)) {
		shca_cq_unlock(cq);
		shca_say_polls_none(cq, num_entries);
		return 0;
	}
	if (__builtin_expect(cq->failed && !polled, 0))
		polled = -1;
	shca_cq_unlock(cq);
	if (__builtin_expect(polled < 0, 0))
		errno = EIO;
	return polled;
}

static int next_poll(struct ibv_cq_ex *cq_ex)
{
	struct shca_cq *cq = to_scq_ex(cq_ex);

	cq->cur = next_cqe(cq);
	if (!cq->cur)
		return cq->failed ? shca_result(EIO) : ENOENT; /* empty is no failure */
	cq_ex->wr_id = cq->cur->wr_id;
	cq_ex->status = (enum ibv_wc_status)cq->cur->status;
	return 0;
}

/* Takes the CQ's lock when it succeeds; shca_end_poll() lets it go. */
int shca_start_poll(struct ibv_cq_ex *cq_ex, struct ibv_poll_cq_attr *attr)
{
	struct shca_cq *cq = to_scq_ex(cq_ex);
	int err;

	if (attr->comp_mask)
		return shca_result(EINVAL);
	shca_cq_lock_for(cq, "ibv_start_poll()");
	err = next_poll(cq_ex);
	if (err) {
		shca_cq_publish_ci(cq); /* of void entries */
		shca_cq_unlock(cq);
		return err;
	}
	atomic_store_explicit(&cq->polling, true, memory_order_relaxed);
	return 0;
}

/* Harmless after one that failed, as callers do it. */
void shca_end_poll(struct ibv_cq_ex *cq_ex)
{
	struct shca_cq *cq = to_scq_ex(cq_ex);

	if (!atomic_load_explicit(&cq->polling, memory_order_relaxed))
		return;
	atomic_store_explicit(&cq->polling, false, memory_order_relaxed);
	cq->cur = NULL;
	shca_cq_publish_ci(cq);
	shca_acts(cq->ctx);
	shca_cq_unlock(cq);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return (enum ibv_wc_opcode)wc_opcode[to_scq_ex(cq)->cur->opcode];
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->imm_or_rkey;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->src_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return wc_flags(to_scq_ex(cq)->cur);
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->dlid_path_bits;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	const struct simhca_cqe *cqe = to_scq_ex(cq)->cur;
	const bool match = cqe->tm_flags & SIMHCA_CQE_TM_MATCH;

	info->tag = match ? (uint64_t)cqe->src_qpn << 32 | cqe->wqe_index : 0;
	info->priv = match ? be32toh(cqe->app_ctx) : 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->timestamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->wallclock;
}

static uint16_t read_cvlan(struct ibv_cq_ex *cq)
{
	return to_scq_ex(cq)->cur->cvlan;
}

/* Only frames have one; in other completions immediate data or a key are in its place. */
static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	const struct simhca_cqe *cqe = to_scq_ex(cq)->cur;

	return cqe->flags & (SIMHCA_CQE_IMM | SIMHCA_CQE_INV) ? 0 : cqe->flow_tag;
}

void shca_cq_set_readers(struct shca_cq *cq, uint64_t flags)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;

	ex->start_poll = shca_start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = shca_end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (flags & IBV_WC_EX_WITH_TM_INFO)
		ex->read_tm_info = read_tm_info;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
	if (flags & IBV_WC_EX_WITH_CVLAN)
		ex->read_cvlan = read_cvlan;
	if (flags & IBV_WC_EX_WITH_FLOW_TAG)
		ex->read_flow_tag = read_flow_tag;
}
