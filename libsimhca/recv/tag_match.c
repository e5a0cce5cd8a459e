/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tag matching: an SRQ with a list of tagged buffers. A message begins with a header (struct
 * ibv_tmh); one whose tag is in the list goes where the list says, any other consumes a receive WQE
 * as ever, header and all, and is called unexpected.
 *
 *   eager       the data follow the header, and are placed without it
 *   rendezvous  a second header says where the data are: once the tag has matched, the QP that
 *               the message came by reads them, by itself, and tells the sender that it has (FIN)
 *
 * Who posts a tag has looked at the unexpected messages first, but one may have come meanwhile that
 * it has not seen: that one is older, and has to be matched by the client. So both sides count
 * unexpected messages, and an entry that is added while the counts differ matches nothing until
 * they have been equal once.
 */
#include <errno.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/context.h"
#include "dma/dma.h"
#include "engine/engine.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "tag_match.h"
#include "proto/cq.h"
#include "packet/packet.h"
#include "proto/qp.h"
#include "proto/srq.h"
#include "proto/owner.h"
#include "proto/wqe.h"

#define TMH_BYTES 16u
static_assert(sizeof(struct ibv_tmh) == TMH_BYTES, "the header before every message");

struct simhca_tag {
	struct simhca_tag *prev, *next; /* in the list, in the order of posting; or elsewhere */
	bool listed;
	uint16_t generation;  /* in the handle: an entry that is used again is another one */
	uint64_t active_from; /* it matches when the list has been in sync so often */
	uint64_t tag, mask, wr_id;
	uint32_t num_sge;
	struct simhca_sge sge[SIMHCA_MAX_TM_SGE];
	uint64_t room; /* bytes of the buffer */
	/* The rendezvous that it waits for. */
	uint64_t va;
	uint32_t rkey, length;
	struct ibv_tmh fin;
};

/*
 * The list, under the SRQ's lock. There are max_tags entries in all, and each is in one place:
 * free; in the list; that of the message at hand of a QP (qp->tags.matched), from when it matched until
 * that is complete; or among the rendezvous of a QP (qp->tags.rndv), until the data have been fetched.
 * So what waits to be fetched is bounded as it is on a ConnectX: a program that has more tags under
 * way than the list holds cannot post another one.
 */
struct simhca_tags {
	struct simhca_tag *list, *free;
	uint32_t unexpected; /* messages that found no entry */
	uint32_t counted;    /* of these, the client says, it knows */
	uint64_t syncs;	     /* times that the two were found equal */
	struct simhca_tag entry[];
};

/* --------------------------------------------------------------------------------- the list */

static struct simhca_tags *create_tags(uint32_t max_tags)
{
	struct simhca_tags *tags = calloc(1, sizeof(*tags) + max_tags * sizeof(struct simhca_tag));

	for (uint32_t i = max_tags; tags && i--;)
		LL_PREPEND(tags->free, &tags->entry[i]);
	return tags;
}

static uint32_t handle_of(const struct simhca_tags *tags, const struct simhca_tag *entry)
{
	return (uint32_t)(entry - tags->entry) | (uint32_t)entry->generation << 16;
}

/* It matches nothing any more, and its handle is void. */
static void unlist(struct simhca_tags *tags, struct simhca_tag *entry)
{
	DL_DELETE(tags->list, entry);
	entry->listed = false;
	entry->generation++;
}

static void release(struct simhca_tags *tags, struct simhca_tag *entry)
{
	LL_PREPEND(tags->free, entry);
}

static bool in_sync(const struct simhca_tags *tags)
{
	return tags->unexpected == tags->counted;
}

/* The client has told how many unexpected messages it knows. */
static void count(struct simhca_tags *tags, uint32_t unexpected)
{
	tags->counted = unexpected;
	tags->syncs += in_sync(tags);
}

static int add(struct simhca_tags *tags, const struct simhca_srq_op_req *req, uint32_t *handle,
	       struct simhca_why *why)
{
	struct simhca_tag *entry = tags->free;

	if (!entry)
		return simhca_why(
			why, ENOMEM,
			"the tag list is full: entries that messages have taken count until "
			"their data are there");
	LL_DELETE(tags->free, entry);
	entry->tag = req->tag;
	entry->mask = req->mask;
	entry->wr_id = req->recv_wr_id;
	entry->num_sge = req->num_sge;
	memcpy(entry->sge, req->sge, sizeof(entry->sge));
	entry->listed = true;
	entry->active_from = tags->syncs + !in_sync(tags);
	DL_APPEND(tags->list, entry);
	*handle = handle_of(tags, entry);
	return 0;
}

/* False: a message has had it, or it was deleted before. */
static bool remove_entry(struct simhca_tags *tags, uint32_t max_tags, uint32_t handle)
{
	struct simhca_tag *entry = &tags->entry[handle & 0xffff];

	if ((handle & 0xffff) >= max_tags || !entry->listed || handle_of(tags, entry) != handle)
		return false;
	unlist(tags, entry);
	release(tags, entry);
	return true;
}

/* The completion of an operation. */
static void complete_op(struct simhca_srq *srq, const struct simhca_srq_op_req *req, bool done,
			bool synced)
{
	struct simhca_cqe cqe = {
		.wr_id = req->wr_id,
		.qpn = SIMHCA_QPN_MASK,
		.vendor_err = done ? SIMHCA_REASON_NONE : SIMHCA_REASON_TM_NO_ENTRY,
		.wqe_index = srq->srqn,
		.opcode = (uint8_t)(SIMHCA_WC_TM_ADD + req->opcode),
		.status = done ? SIMHCA_WC_SUCCESS : SIMHCA_WC_TM_ERR,
		.flags = SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ_CQ,
		.tm_flags = synced ? 0 : SIMHCA_CQE_TM_SYNC_REQ,
	};

	if (!done || (req->flags & SIMHCA_SRQ_OP_SIGNALED))
		simhca_cq_push(srq->cq, &cqe);
}

int simhca_srq_op(struct simhca_context *context, const struct simhca_srq_op_req *req,
		  struct simhca_handle *reply, struct simhca_why *why)
{
	const uint32_t known = SIMHCA_SRQ_OP_SIGNALED | SIMHCA_SRQ_OP_SYNC;
	struct simhca_srq *srq = simhca_object(context, SIMHCA_OBJ_SRQ, req->srq, why);
	bool done = true, synced;
	int ret = 0;

	if (!srq)
		return -ENOENT;
	if (srq->type != SIMHCA_SRQT_TM)
		return simhca_why(why, EINVAL, "this SRQ has no tag list");
	if (req->opcode > SIMHCA_SRQ_TAG_SYNC || (req->flags & ~known))
		return simhca_why(why, EINVAL, "list operation %u with flags 0x%x is not known",
				  req->opcode, req->flags);
	if (req->opcode == SIMHCA_SRQ_TAG_ADD && req->num_sge > SIMHCA_MAX_TM_SGE)
		return simhca_why(why, EINVAL, "num_sge = %u: at most %u", req->num_sge,
				  SIMHCA_MAX_TM_SGE);
	pthread_mutex_lock(&srq->lock);
	if ((req->flags & SIMHCA_SRQ_OP_SYNC) || req->opcode == SIMHCA_SRQ_TAG_SYNC)
		count(srq->tags, req->unexpected);
	if (req->opcode == SIMHCA_SRQ_TAG_ADD)
		ret = add(srq->tags, req, &reply->handle, why);
	else if (req->opcode == SIMHCA_SRQ_TAG_DEL)
		done = remove_entry(srq->tags, srq->max_tags, req->entry);
	synced = in_sync(srq->tags);
	if (!ret) /* under the lock, so that no message that matches completes before its entry */
		complete_op(srq, req, done, synced);
	pthread_mutex_unlock(&srq->lock);
	return ret;
}

/* -------------------------------------------------------------------------------- a message */

static bool is_matched(const struct simhca_tm_message *message)
{
	return message->kind == SIMHCA_TM_EAGER || message->kind == SIMHCA_TM_RNDV;
}

/* The first bytes of a packet, which are in the sender's memory; false: it has not so many. */
static bool peek(struct simhca_worker *worker, const struct simhca_packet *packet, void *to,
		 uint64_t length)
{
	struct simhca_sgl target;
	enum simhca_reason reason;

	target.count = 1;
	target.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)to, .length = length };
	return packet->length >= length &&
	       simhca_dma_copy(&target, packet->payload, length, &worker->mover, &reason) ==
		       SIMHCA_DMA_OK;
}

/* What a message is by its headers; not yet whether there is an entry for it. */
static void classify(struct simhca_worker *worker, const struct simhca_packet *packet,
		     struct simhca_tm_message *message)
{
	struct {
		struct ibv_tmh tmh;
		struct ibv_rvh rvh;
	} header;

	*message = (struct simhca_tm_message){ .kind = SIMHCA_TM_NO_TAG };
	if (!peek(worker, packet, &header.tmh, sizeof(header.tmh)))
		return;
	message->tag = be64toh(header.tmh.tag);
	message->app_ctx = header.tmh.app_ctx;
	if (header.tmh.opcode == IBV_TMH_EAGER) {
		message->kind = SIMHCA_TM_EAGER;
	} else if (header.tmh.opcode == IBV_TMH_RNDV &&
		   peek(worker, packet, &header, sizeof(header))) {
		message->kind = SIMHCA_TM_RNDV;
		message->va = be64toh(header.rvh.va);
		message->rkey = be32toh(header.rvh.rkey);
		message->length = be32toh(header.rvh.len);
	}
}

/* The oldest entry that the tag matches, which is no more in the list then; or NULL. */
static struct simhca_tag *match(struct simhca_tags *tags, uint64_t tag)
{
	struct simhca_tag *entry;

	DL_FOREACH (tags->list, entry)
		if (entry->active_from <= tags->syncs && (tag & entry->mask) == entry->tag)
			break;
	if (entry)
		unlist(tags, entry);
	return entry;
}

/* The receive of the message at hand is that buffer. */
static void receive_into(struct simhca_qp *qp, struct simhca_tag *entry)
{
	struct simhca_recv recv = { .wr_id = entry->wr_id, .num_sge = entry->num_sge };

	entry->room = 0;
	for (uint32_t i = 0; i < entry->num_sge; i++) {
		recv.sge[i] = entry->sge[i];
		entry->room += entry->sge[i].length;
	}
	simhca_recv_save(qp->recv_copy, &recv);
	qp->tags.matched = entry;
}

/* The message at hand has no entry any more. Under the SRQ's lock. */
static void release_matched(struct simhca_qp *qp)
{
	if (qp->tags.matched)
		release(qp->srq->tags, qp->tags.matched);
	qp->tags.matched = NULL;
}

static enum simhca_consume consume(struct simhca_worker *worker, struct simhca_qp *qp,
				   const struct simhca_packet *packet)
{
	struct simhca_tm_message *message = &qp->resp.tm;
	struct simhca_srq *srq = qp->srq;
	enum simhca_consume result = SIMHCA_CONSUME_OK;
	bool limit_reached = false;
	struct simhca_tag *entry = NULL;

	/* Only a SEND has a header. */
	if (packet->op != SIMHCA_PKT_SEND)
		return simhca_srq_consume(srq, qp);
	classify(worker, packet, message); /* without the lock: it reads a client's memory */
	pthread_mutex_lock(&srq->lock);
	release_matched(qp); /* of a message that a client says there is not */
	if (message->kind != SIMHCA_TM_NO_TAG)
		entry = match(srq->tags, message->tag);
	if (entry) {
		receive_into(qp, entry);
	} else {
		result = simhca_srq_consume_locked(srq, qp, &limit_reached);
		/* Whether it matched, and that it did not, is one step for who adds a tag. */
		if (message->kind != SIMHCA_TM_NO_TAG) {
			message->kind = SIMHCA_TM_UNEXPECTED;
			srq->tags->unexpected += result == SIMHCA_CONSUME_OK;
		}
	}
	pthread_mutex_unlock(&srq->lock);
	if (limit_reached)
		simhca_srq_raise_limit(srq);
	return result;
}

static void fill_cqe(const struct simhca_qp *qp, struct simhca_cqe *cqe)
{
	const struct simhca_tm_message *message = &qp->resp.tm;

	cqe->flags |= SIMHCA_CQE_SRQ_CQ;
	cqe->wqe_index = qp->srq->srqn;
	if (cqe->opcode != SIMHCA_WC_RECV) /* a write with immediate data has no header */
		return;
	cqe->opcode = message->kind == SIMHCA_TM_NO_TAG ? SIMHCA_WC_TM_NO_TAG : SIMHCA_WC_TM_RECV;
	if (!is_matched(message))
		return;
	cqe->flags &= (uint8_t)~SIMHCA_CQE_SRQ; /* it used an entry of the list, and no WQE */
	if (cqe->status != SIMHCA_WC_SUCCESS)
		return;
	cqe->tm_flags = SIMHCA_CQE_TM_MATCH;
	if (message->kind == SIMHCA_TM_EAGER)
		cqe->tm_flags |= SIMHCA_CQE_TM_DATA_VALID;
	cqe->src_qpn = (uint32_t)(message->tag >> 32);
	cqe->wqe_index = (uint32_t)message->tag;
	cqe->app_ctx = message->app_ctx;
}

/* ------------------------------------------------------------------------------- rendezvous */

/* The message at hand is complete, and only its data are missing. */
static void add_rndv(struct simhca_qp *qp)
{
	const struct simhca_tm_message *message = &qp->resp.tm;
	struct simhca_tag *rndv = qp->tags.matched;

	rndv->va = message->va;
	rndv->rkey = message->rkey;
	rndv->length = message->length;
	rndv->fin = (struct ibv_tmh){ .opcode = IBV_TMH_FIN,
				      .app_ctx = message->app_ctx,
				      .tag = htobe64(message->tag) };
	pthread_mutex_lock(&qp->srq->lock);
	qp->tags.matched = NULL;
	DL_APPEND(qp->tags.rndv, rndv); /* a step, however many there are */
	atomic_store_explicit(&qp->requester.fetch_waits, true, memory_order_release);
	pthread_mutex_unlock(&qp->srq->lock);
	simhca_engine_schedule(qp->context->engine, &qp->task);
}

/* Only who has req_lock takes from the queue; others add. */
static struct simhca_tag *oldest(struct simhca_qp *qp)
{
	struct simhca_tag *rndv;

	pthread_mutex_lock(&qp->srq->lock);
	rndv = qp->tags.rndv;
	pthread_mutex_unlock(&qp->srq->lock);
	return rndv;
}

/*
 * The oldest rendezvous has its data, or will not have them: its second completion. If it has, the
 * sender is to hear of it. Whoever sees the completion can use the entry again.
 */
static void end_fetch(struct simhca_qp *qp, enum simhca_wc_status status, enum simhca_reason reason)
{
	struct simhca_tag *rndv;
	struct simhca_cqe cqe;

	pthread_mutex_lock(&qp->srq->lock);
	rndv = qp->tags.rndv;
	DL_DELETE(qp->tags.rndv, rndv);
	cqe = (struct simhca_cqe){
		.wr_id = rndv->wr_id,
		.qpn = qp->qpn,
		.byte_len = status == SIMHCA_WC_SUCCESS ? rndv->length : 0,
		.vendor_err = reason,
		.wqe_index = qp->srq->srqn,
		.opcode = SIMHCA_WC_TM_RECV,
		.status = (uint8_t)status,
		.flags = SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ_CQ,
		.tm_flags = status == SIMHCA_WC_SUCCESS ? SIMHCA_CQE_TM_DATA_VALID : 0,
	};
	qp->tags.fin_due = status == SIMHCA_WC_SUCCESS;
	if (qp->tags.fin_due)
		memcpy(qp->tags.fin, &rndv->fin, sizeof(qp->tags.fin));
	release(qp->srq->tags, rndv);
	if (!qp->tags.rndv && !qp->tags.fin_due)
		atomic_store_explicit(&qp->requester.fetch_waits, false, memory_order_relaxed);
	pthread_mutex_unlock(&qp->srq->lock);
	simhca_cq_push(qp->srq->cq, &cqe);
}

/* The sender has heard of it, or cannot. */
static void end_fin(struct simhca_qp *qp)
{
	pthread_mutex_lock(&qp->srq->lock);
	qp->tags.fin_due = false;
	if (!qp->tags.rndv)
		atomic_store_explicit(&qp->requester.fetch_waits, false, memory_order_relaxed);
	pthread_mutex_unlock(&qp->srq->lock);
}

/* What cannot be read is not asked for: the sender's QP shall not fail for it. */
static enum simhca_reason check_rndv(const struct simhca_qp *qp, const struct simhca_tag *rndv)
{
	if (rndv->length > rndv->room)
		return SIMHCA_REASON_RECV_TOO_SHORT;
	if (rndv->length > SIMHCA_MAX_MSG_SIZE)
		return SIMHCA_REASON_MSG_TOO_LONG;
	if (!qp->qpc->max_rd_atomic)
		return SIMHCA_REASON_READ_NOT_ENABLED;
	return SIMHCA_REASON_NONE;
}

static bool start(struct simhca_qp *qp)
{
	const struct simhca_tag *rndv;
	enum simhca_reason reason;

	if (qp->tags.fin_due)
		return true;
	while ((rndv = oldest(qp))) {
		reason = check_rndv(qp, rndv);
		if (reason == SIMHCA_REASON_NONE)
			return true;
		end_fetch(qp, SIMHCA_WC_TM_RNDV_INCOMPLETE, reason);
	}
	return false;
}

static void build_fetch(struct simhca_qp *qp, struct simhca_send *send)
{
	const struct simhca_tag *rndv = oldest(qp);

	memset(&send->wqe, 0, sizeof(send->wqe));
	if (qp->tags.fin_due) {
		send->wqe.opcode = SIMHCA_WR_SEND;
		send->wqe.flags = SIMHCA_WQE_INLINE;
		send->length = sizeof(qp->tags.fin);
		memcpy(send->data, qp->tags.fin, sizeof(qp->tags.fin));
		return;
	}
	send->wqe.opcode = SIMHCA_WR_RDMA_READ;
	send->wqe.num_sge = (uint8_t)rndv->num_sge;
	send->wqe.rdma.remote_addr = rndv->va;
	send->wqe.rdma.rkey = rndv->rkey;
	send->length = rndv->length;
	memcpy(send->sge, rndv->sge, sizeof(rndv->sge));
}

static void complete_step(struct simhca_qp *qp, enum simhca_wc_status status,
			  enum simhca_reason reason)
{
	const bool was_fin = qp->tags.fin_due;

	qp->requester.fetching = false;
	if (was_fin)
		end_fin(qp);
	if (status != SIMHCA_WC_SUCCESS)
		simhca_qp_log(qp, ": the %s of a rendezvous fails with status %u: %s",
			      was_fin ? "end" : "read", status, simhca_reason_text(reason));
	if (!was_fin)
		end_fetch(qp, status == SIMHCA_WC_SUCCESS ? status : SIMHCA_WC_TM_RNDV_INCOMPLETE,
			  reason);
	else if (status != SIMHCA_WC_SUCCESS) /* no completion is left to tell of it */
		simhca_qp_event(qp, IBV_EVENT_QP_FATAL);
	if (status != SIMHCA_WC_SUCCESS)
		simhca_qp_fail(qp, SIMHCA_QPS_ERR);
}

/* Without a completion the entries are free all the same. */
static void drop_all(struct simhca_qp *qp, bool flush)
{
	struct simhca_tag *rndv;

	qp->requester.fetching = false;
	end_fin(qp);
	while (flush && qp->tags.rndv)
		end_fetch(qp, SIMHCA_WC_WR_FLUSH_ERR, SIMHCA_REASON_FLUSHED);
	pthread_mutex_lock(&qp->srq->lock);
	while ((rndv = qp->tags.rndv)) {
		DL_DELETE(qp->tags.rndv, rndv);
		release(qp->srq->tags, rndv);
	}
	release_matched(qp);
	atomic_store_explicit(&qp->requester.fetch_waits, false, memory_order_relaxed);
	pthread_mutex_unlock(&qp->srq->lock);
}

/* --------------------------------------------------------------------------- as a source */

/* Of a tagged message: eager data without their header, of a rendezvous nothing yet. */
static void part(const struct simhca_qp *qp, const struct simhca_packet *packet,
		 struct simhca_recv_part *part)
{
	if (!is_matched(&qp->resp.tm))
		return;
	part->skip = packet->first ? TMH_BYTES : 0;
	part->offset += part->skip - TMH_BYTES;
	part->length -= part->skip;
	if (qp->resp.tm.kind == SIMHCA_TM_RNDV)
		*part = (struct simhca_recv_part){ .none = true };
}

static bool complete(struct simhca_qp *qp, struct simhca_cqe *cqe)
{
	bool is_rndv;

	cqe->flags |= SIMHCA_CQE_SRQ;
	fill_cqe(qp, cqe);
	is_rndv = cqe->opcode == SIMHCA_WC_TM_RECV && cqe->status == SIMHCA_WC_SUCCESS &&
		  qp->resp.tm.kind == SIMHCA_TM_RNDV;
	if (is_rndv && !qp->tags.matched) { /* only a client says that it has matched */
		simhca_qp_corrupt(qp);
		return false;
	}
	if (!is_rndv && qp->tags.matched) {
		pthread_mutex_lock(&qp->srq->lock);
		release_matched(qp);
		pthread_mutex_unlock(&qp->srq->lock);
	}
	if (!simhca_cq_push_commit(qp->srq->cq, cqe, qp, simhca_responder_commit_cqe))
		return false;
	if (is_rndv)
		add_rndv(qp);
	return true;
}

static const struct simhca_fetch fetch = {
	.start = start,
	.build_fetch = build_fetch,
	.complete = complete_step,
	.drop_all = drop_all,
};
static const struct simhca_recv_source receives = {
	.consume = consume,
	.part = part,
	.complete = complete,
	.no_room = SIMHCA_REASON_RECV_CQ_ERROR,
	.fetch = &fetch,
};

static int init(struct simhca_srq *srq, const struct simhca_create_srq_req *req,
		struct simhca_why *why)
{
	if (!req->max_tags || req->max_tags > SIMHCA_MAX_TAGS)
		return simhca_why(why, EINVAL, "max_num_tags = %u: 1 to %u", req->max_tags,
				  SIMHCA_MAX_TAGS);
	srq->max_tags = req->max_tags;
	srq->tags = create_tags(req->max_tags);
	if (!srq->tags)
		return simhca_why(why, ENOMEM, "out of memory");
	srq->cq = simhca_object(srq->context, SIMHCA_OBJ_CQ, req->cq, why);
	return srq->cq ? 0 : -ENOENT;
}

const struct simhca_srq_kind simhca_tag_srqs = { .source = &receives, .init = init };
