/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lint.h"
#include "queue/opcode.h"
#include "say.h"

#define MOST_HASHED 4096u  /* bytes of a message */
#define AT_ONCE 8u	   /* bytes that a NIC reads at once: programs write counters so */
#define MOST_REQUESTS 256u /* earlier ones of the queue that are looked at */
#define MOST_CQES 64u	   /* likewise, later ones */

struct shca_lint {
	LIST_ENTRY(shca_lint) link;
	struct shca_qp *qp;
	uint32_t process;     /* shca_process() */
	uint32_t first, next; /* the sends that may have a hash, by ring index */
	uint64_t hash[];      /* by slot, of what was to be sent when it was posted; 0: none */
};

static LIST_HEAD(, shca_lint) queues; /* under lint's mutex */

/* ------------------------------------------------------------------------------------ WQEs */

/* As stories have it: those of many programs are addresses. */
struct wr_id_text {
	char text[24];
};

static struct wr_id_text named(uint64_t wr_id)
{
	struct wr_id_text named;

	snprintf(named.text, sizeof(named.text), wr_id < 1000000 ? "%" PRIu64 : "0x%" PRIx64,
		 wr_id);
	return named;
}

static const struct simhca_sge *sges(const struct simhca_send_wqe *wqe)
{
	return (const struct simhca_sge *)(wqe + 1);
}

/* Whether its data are read from memory after the post. */
static bool gathers(const struct simhca_send_wqe *wqe)
{
	return simhca_op_has(wqe->opcode, SIMHCA_OP_MESSAGE) && !(wqe->flags & SIMHCA_WQE_INLINE);
}

static uint64_t length_of(const struct simhca_sge *sge, uint32_t num_sge)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < num_sge; i++)
		length += sge[i].length;
	return length;
}

static const char *name_of(const struct simhca_send_wqe *wqe)
{
	switch (simhca_opcode(wqe->opcode)->wc) {
	case SIMHCA_WC_SEND:
		return "SEND";
	case SIMHCA_WC_RDMA_WRITE:
		return "RDMA WRITE";
	case SIMHCA_WC_RDMA_READ:
		return "RDMA READ";
	default:
		return "atomic";
	}
}

/* Whether the first bytes of each, so many at most, lie in the same place. */
static bool overlap(struct shca_context *ctx, const struct simhca_sge *one, uint64_t one_length,
		    const struct simhca_sge *other, uint64_t other_length)
{
	uint64_t a = shca_lint_address(ctx, one), b = shca_lint_address(ctx, other);

	if (one_length > one->length)
		one_length = one->length;
	if (other_length > other->length)
		other_length = other->length;
	return a && b && a < b + other_length && b < a + one_length;
}

/* ----------------------------------------------------------------------------------- fence */

static bool uses_result(struct shca_context *ctx, const struct simhca_send_wqe *wqe,
			const struct simhca_send_wqe *read)
{
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		for (uint32_t j = 0; j < read->num_sge; j++)
			if (overlap(ctx, &sges(wqe)[i], UINT64_MAX, &sges(read)[j], UINT64_MAX))
				return true;
	return false;
}

/* A request waits for earlier reads if it, or one between them, has a fence (IBTA 10.8.3.3). */
static void look_for_fence(struct shca_qp *qp, uint32_t tail, uint32_t index)
{
	const struct simhca_send_wqe *wqe = shca_sq_wqe(&qp->sq, index), *read = wqe;
	char text[160];

	for (uint32_t n = 0; index != tail && n < MOST_REQUESTS; n++) {
		if (read->flags & SIMHCA_WQE_FENCE)
			return;
		read = shca_sq_wqe(&qp->sq, --index);
		if (!simhca_op_has(read->opcode, SIMHCA_OP_FETCHES) ||
		    !uses_result(qp->ctx, wqe, read))
			continue;
		snprintf(text, sizeof(text),
			 "QP 0x%06x: %s of wr_id %s takes what %s of wr_id %s brings, and has no "
			 "fence",
			 qp->vqp.qp.qp_num, name_of(wqe), named(wqe->wr_id).text, name_of(read),
			 named(read->wr_id).text);
		shca_say_lint(qp->ctx, SIMHCA_SAY_NO_FENCE, text);
		return;
	}
}

/* It is posted at the head of the queue, and a copy: no fence makes it wait for its data. */
void shca_lint_inline(struct shca_qp *qp, uint64_t wr_id, const void *addr, size_t length)
{
	const uint64_t begin = (uint64_t)(uintptr_t)addr;
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_acquire);
	const struct simhca_send_wqe *read = NULL;
	char text[200];
	bool found = false;

	shca_lint_lock();
	for (uint32_t index = qp->sq.head, n = 0; !found && index != tail && n < MOST_REQUESTS;
	     n++) {
		read = shca_sq_wqe(&qp->sq, --index);
		for (uint32_t i = 0;
		     simhca_op_has(read->opcode, SIMHCA_OP_FETCHES) && i < read->num_sge; i++) {
			const struct simhca_sge *sge = &sges(read)[i];
			uint64_t at = shca_lint_address(qp->ctx, sge);

			found |= at && begin < at + sge->length && at < begin + length;
		}
	}
	shca_lint_unlock();
	if (!found)
		return;
	snprintf(text, sizeof(text),
		 "QP 0x%06x: the inline data of wr_id %s were copied before %s of wr_id %s, which "
		 "brings "
		 "them, had completed",
		 qp->vqp.qp.qp_num, named(wr_id).text, name_of(read), named(read->wr_id).text);
	shca_say_lint(qp->ctx, SIMHCA_SAY_EARLY_INLINE, text);
}

/* --------------------------------------------------------------------------- changed buffers */

/* FNV-1a; never 0. */
static uint64_t hash_bytes(const uint8_t *bytes, size_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

/* Of the bytes that it sends, as they are now; 0: they cannot be read, or are not looked at. */
static uint64_t hash_of(struct shca_qp *qp, const struct simhca_send_wqe *wqe)
{
	static uint8_t bytes[MOST_HASHED];
	uint64_t length = length_of(sges(wqe), wqe->num_sge);
	struct iovec from[SIMHCA_MAX_SGE], to = { .iov_base = bytes, .iov_len = length };
	unsigned int count = 0;

	if (length > MOST_HASHED || wqe->num_sge > SIMHCA_MAX_SGE)
		return 0;
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		if (!sges(wqe)[i].length)
			continue;
		from[count] = (struct iovec){
			.iov_base = (void *)shca_lint_address(qp->ctx, &sges(wqe)[i]),
			.iov_len = sges(wqe)[i].length,
		};
		if (!from[count++].iov_base)
			return 0;
	}
	/* The kernel reads them, as they may be unmapped. */
	if (!count || process_vm_readv(getpid(), &to, 1, from, count, 0) != (ssize_t)length)
		return 0;
	return hash_bytes(bytes, length);
}

/* Whether who changes its data before the completion has no excuse. */
static bool is_hashed(const struct shca_qp *qp, const struct simhca_send_wqe *wqe)
{
	/* What was answered by a datagram has been sent. */
	if (!gathers(wqe) || qp->vqp.qp.qp_type == IBV_QPT_UD ||
	    qp->vqp.qp.qp_type == IBV_QPT_RAW_PACKET)
		return false;
	return !simhca_op_has(wqe->opcode, SIMHCA_OP_REMOTE) ||
	       length_of(sges(wqe), wqe->num_sge) > AT_ONCE;
}

static bool may_be_the_device(struct shca_qp *qp, const struct simhca_send_wqe *wqe)
{
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		if (shca_lint_may_have_written(shca_lint_address(qp->ctx, &sges(wqe)[i]),
					       sges(wqe)[i].length))
			return true;
	return false;
}

/* A send is hashed once more, and never again. */
static void look_whether_changed(struct shca_lint *lint, uint32_t index)
{
	struct shca_qp *qp = lint->qp;
	const struct simhca_send_wqe *wqe = shca_sq_wqe(&qp->sq, index);
	uint64_t *hash = &lint->hash[index & qp->sq.mask], before = *hash, now;
	char text[160];

	*hash = 0;
	now = before ? hash_of(qp, wqe) : 0;
	if (!now || now == before || may_be_the_device(qp, wqe))
		return;
	snprintf(text, sizeof(text),
		 "QP 0x%06x: the buffer of wr_id %s, %s of %" PRIu64 " bytes at 0x%" PRIx64
		 ", was changed before its completion was polled",
		 qp->vqp.qp.qp_num, named(wqe->wr_id).text, name_of(wqe),
		 length_of(sges(wqe), wqe->num_sge), sges(wqe)->addr);
	shca_say_lint(qp->ctx, SIMHCA_SAY_CHANGED, text);
}

static void look_at_all(void)
{
	struct shca_lint *lint;

	LIST_FOREACH(lint, &queues, link)
	{
		if (lint->process != shca_process())
			continue;
		for (; lint->first != lint->next; lint->first++)
			look_whether_changed(lint, lint->first);
	}
}

/* ------------------------------------------------------------------------------------ others */

void shca_lint_address_handle(struct shca_qp *qp, const struct ibv_ah *ah)
{
	char text[160];

	if (ah->pd == qp->vqp.qp.pd)
		return;
	snprintf(text, sizeof(text),
		 "QP 0x%06x: its datagrams go by an address handle of another protection domain",
		 qp->vqp.qp.qp_num);
	shca_say_lint(qp->ctx, SIMHCA_SAY_OTHER_PD, text);
}

void shca_lint_no_sge(struct shca_qp *qp, const struct ibv_send_wr *wr)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "QP 0x%06x: the request of wr_id %s has an sg_list, and its num_sge is 0: it "
		 "carries nothing",
		 qp->vqp.qp.qp_num, named(wr->wr_id).text);
	shca_say_lint(qp->ctx, SIMHCA_SAY_NO_SGE, text);
}

void shca_lint_modified(struct shca_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	char text[160];

	if (!(mask & IBV_QP_PATH_MTU) || attr->path_mtu <= IBV_MTU_1024 ||
	    qp->ctx->dev->port.link_layer != IBV_LINK_LAYER_ETHERNET ||
	    atomic_load_explicit(&shca_lint_asked_port, memory_order_relaxed))
		return;
	snprintf(text, sizeof(text),
		 "QP 0x%06x: its path_mtu is %u bytes, and ibv_query_port() was not asked what the "
		 "port has",
		 qp->vqp.qp.qp_num, 128u << attr->path_mtu);
	shca_say_lint(qp->ctx, SIMHCA_SAY_PATH_MTU, text);
}

/* Whether the QP is of a parent, which is said once in a process. */
static bool is_inherited(const struct shca_qp *qp, const char *what)
{
	static atomic_uint said;
	const uint32_t process = shca_process();
	char text[160];

	if (qp->lint->process == process)
		return false;
	if (atomic_exchange_explicit(&said, process, memory_order_relaxed) == process)
		return true;
	snprintf(text, sizeof(text), "QP 0x%06x: process %d %s it, a child of the one that made it",
		 qp->vqp.qp.qp_num, (int)getpid(), what);
	shca_say_lint(qp->ctx, SIMHCA_SAY_FORKED, text);
	return true;
}

/* ------------------------------------------------------------------------------------- sends */

void shca_lint_sends(struct shca_qp *qp)
{
	struct shca_lint *lint = qp->lint;
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_acquire), index;

	if (is_inherited(qp, "posts to"))
		return;
	shca_lint_lock();
	if (lint->first == lint->next)
		lint->first = atomic_load_explicit(&qp->sq.posted, memory_order_relaxed);
	lint->next = qp->sq.head;
	for (index = atomic_load_explicit(&qp->sq.posted, memory_order_relaxed);
	     index != qp->sq.head; index++) {
		const struct simhca_send_wqe *wqe = shca_sq_wqe(&qp->sq, index);

		if (simhca_op_has(wqe->opcode, SIMHCA_OP_FETCHES))
			shca_lint_will_write(qp->ctx, sges(wqe), wqe->num_sge);
		if (gathers(wqe))
			look_for_fence(qp, tail, index);
		lint->hash[index & qp->sq.mask] = is_hashed(qp, wqe) ? hash_of(qp, wqe) : 0;
	}
	shca_lint_unlock();
}

/* A send that has failed may have been given up before. */
static void sends_end(struct shca_lint *lint, const struct simhca_cqe *cqe)
{
	const struct shca_sq *sq = &lint->qp->sq;
	uint32_t index = atomic_load_explicit(&sq->tail, memory_order_relaxed), next;

	if (lint->process != shca_process() ||
	    !shca_gate_completed(cqe->wqe_index, index,
				 atomic_load_explicit(&sq->posted, memory_order_relaxed),
				 sq->max_wr, &next))
		return;
	for (; index != next; index++) {
		if (cqe->status)
			lint->hash[index & sq->mask] = 0;
		look_whether_changed(lint, index);
	}
	if ((int32_t)(next - lint->first) > 0)
		lint->first = (int32_t)(next - lint->next) > 0 ? lint->next : next;
}

/* ---------------------------------------------------------------------------------- receives */

void shca_lint_receives(struct shca_context *ctx, const struct shca_rq *rq)
{
	uint32_t index = atomic_load_explicit(&rq->posted, memory_order_relaxed);

	shca_lint_lock();
	for (; index != rq->head; index++) {
		const struct simhca_recv_wqe *wqe = shca_rq_wqe(rq, index);

		shca_lint_will_write(ctx, (const struct simhca_sge *)(wqe + 1), wqe->num_sge);
	}
	shca_lint_unlock();
}

/* Whether a message has gone to the buffer, as far as that matters. */
static bool brought_data(const struct simhca_cqe *cqe)
{
	return !cqe->status && cqe->opcode == SIMHCA_WC_RECV && !cqe->in_slot;
}

/* Whether the messages of two receives, so many bytes each, went to the same place. */
static bool went_to_same(struct shca_qp *qp, const struct simhca_recv_wqe *one, uint64_t one_length,
			 const struct simhca_recv_wqe *other, uint64_t other_length)
{
	const struct simhca_sge *a = (const struct simhca_sge *)(one + 1), *b;

	for (uint32_t i = 0; i < one->num_sge && one_length; i++, a++) {
		uint64_t left = other_length;

		b = (const struct simhca_sge *)(other + 1);
		for (uint32_t j = 0; j < other->num_sge && left; j++, b++) {
			if (overlap(qp->ctx, a, one_length, b, left))
				return true;
			left -= left < b->length ? left : b->length;
		}
		one_length -= one_length < a->length ? one_length : a->length;
	}
	return false;
}

/*
 * Whether a later message has overwritten that of the receive at the tail, which the program learns
 * of only now. Of UD many programs have one place for all GRHs, which they do not look at.
 */
static void look_for_overwritten(struct shca_cq *cq, struct shca_qp *qp,
				 const struct simhca_cqe *first)
{
	const struct shca_rq *rq = &qp->rq;
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed), n, later = 0;
	const struct simhca_cqe *cqe;
	char text[160];

	if (qp->srq || qp->claims || qp->vqp.qp.qp_type == IBV_QPT_UD || !brought_data(first))
		return;
	SHCA_CQ_FOREACH(cq, cqe, n)
	{
		const struct simhca_recv_wqe *one = shca_rq_wqe(rq, tail), *other;

		if (n == MOST_CQES)
			return;
		if (cqe->qpn != first->qpn || !(cqe->flags & SIMHCA_CQE_RECV))
			continue;
		if (++later >= atomic_load_explicit(&rq->posted, memory_order_relaxed) - tail)
			return;
		other = shca_rq_wqe(rq, tail + later);
		if (!brought_data(cqe) ||
		    !went_to_same(qp, one, first->byte_len, other, cqe->byte_len))
			continue;
		snprintf(text, sizeof(text),
			 "QP 0x%06x: the message of receive %s was overwritten by that of "
			 "receive %s before its completion was polled",
			 first->qpn, named(one->wr_id).text, named(other->wr_id).text);
		shca_say_lint(qp->ctx, SIMHCA_SAY_OVERWRITTEN, text);
		return;
	}
}

void shca_lint_completion(struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	const struct shca_qp_entry *entry = shca_qp_entry(cq->ctx, cqe->qpn);
	bool is_recv = cqe->flags & SIMHCA_CQE_RECV;
	struct shca_qp *qp = NULL;

	/* As in poll.c: it stays for as long as the lock of its CQ is held. */
	if (entry && atomic_load_explicit(is_recv ? &entry->recv_cq : &entry->send_cq,
					  memory_order_acquire) == cq)
		qp = atomic_load_explicit(&entry->qp, memory_order_acquire);
	if (qp && (qp->vqp.qp.qp_num != cqe->qpn || !qp->lint))
		qp = NULL;
	if (qp && is_inherited(qp, "polls for"))
		return;
	shca_lint_lock();
	if (qp && is_recv)
		look_for_overwritten(cq, qp, cqe);
	else if (qp)
		sends_end(qp->lint, cqe);
	/* By a message the peer may tell what it has got: from here on the program knows. */
	if (is_recv)
		look_at_all();
	shca_lint_unlock();
}

/* --------------------------------------------------------------------------------------- QPs */

void shca_lint_qp_add(struct shca_qp *qp)
{
	struct shca_lint *lint;

	if (!qp->ctx->lint || !qp->sq.ring)
		return;
	lint = calloc(1, sizeof(*lint) + ((size_t)qp->sq.mask + 1) * sizeof(lint->hash[0]));
	if (!lint)
		return;
	lint->qp = qp;
	lint->process = shca_process();
	shca_lint_lock();
	LIST_INSERT_HEAD(&queues, lint, link);
	shca_lint_unlock();
	qp->lint = lint;
}

void shca_lint_qp_remove(struct shca_qp *qp)
{
	if (!qp->lint)
		return;
	shca_lint_lock();
	LIST_REMOVE(qp->lint, link);
	shca_lint_unlock();
	free(qp->lint);
	qp->lint = NULL;
}

void shca_lint_qp_reset(struct shca_qp *qp)
{
	if (!qp->lint)
		return;
	shca_lint_lock();
	qp->lint->first = qp->lint->next = 0;
	memset(qp->lint->hash, 0, ((size_t)qp->sq.mask + 1) * sizeof(qp->lint->hash[0]));
	shca_lint_unlock();
}
