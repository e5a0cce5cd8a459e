/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of the responder share. */
#ifndef LIBSIMHCA_RESPONDER_IMPL_H
#define LIBSIMHCA_RESPONDER_IMPL_H

#include "engine/stats.h"
#include "link.h"
#include "message/done.h"
#include "owner.h"
#include "qp.h"

/*
 * A request packet that a QP's responder is at work on, and what comes of it: what the requester is
 * to hear, or what the link is to know. A function here that returns false has noted that.
 */
struct simhca_request {
	struct simhca_worker *worker;
	struct simhca_qp *qp;
	const struct simhca_packet *packet;
	enum {
		SIMHCA_SILENCE,	     /* nobody there; or the response has been sent */
		SIMHCA_RESPONSE,     /* an acknowledgement, or the result of an atomic */
		SIMHCA_NAK,	     /* of that syndrome */
		SIMHCA_NOT_ACCEPTED, /* as if it had never come: handover */
	} kind;
	uint8_t syndrome;
	bool repeated;		   /* to a duplicate */
	enum simhca_reason reason; /* of a NAK: the precise cause */
	uint64_t atomic_old;
	bool advanced; /* the QP's progress says that the request is done */
	uint32_t psns; /* of the request, as its sender counts them */
	struct simhca_handover handover;
};

static inline void simhca_reply_ack(struct simhca_request *request)
{
	request->kind = SIMHCA_RESPONSE;
}

/* reason: why, if that is known. */
static inline void simhca_reply_nothing(struct simhca_request *request, enum simhca_reason reason)
{
	request->kind = SIMHCA_SILENCE;
	request->handover =
		(struct simhca_handover){ .outcome = SIMHCA_ACCEPTED, .reason = reason };
}

static inline void simhca_reply_nak(struct simhca_request *request, uint8_t syndrome,
				    enum simhca_reason reason)
{
	request->kind = SIMHCA_NAK;
	request->syndrome = syndrome;
	request->reason = reason;
}

static inline void simhca_reply_not_accepted(struct simhca_request *request,
					     enum simhca_outcome outcome, enum simhca_reason reason)
{
	request->kind = SIMHCA_NOT_ACCEPTED;
	request->handover.outcome = outcome;
	request->handover.reason = reason;
}

/* Of a responder's progress, what a packet that is done changes. */
struct simhca_place {
	uint32_t epsn, msn, psns_done, answers;
	uint8_t in_message, write;
};

static inline struct simhca_place simhca_place_of(const struct simhca_qp *qp)
{
	return (struct simhca_place){
		.epsn = qp->resp.epsn,
		.msn = qp->resp.msn,
		.psns_done = qp->resp.psns_done,
		.answers = qp->resp.answers,
		.in_message = qp->resp.in_message,
		.write = qp->resp.write,
	};
}

/* The packet is done, or as good as done. */
static inline void simhca_responder_advance(struct simhca_request *request)
{
	request->advanced = true;
	simhca_responder_did(&request->qp->resp, request->qp->mem, request->packet, request->psns,
			     request->atomic_old);
}

/* It is not done after all. */
static inline void simhca_responder_retreat(struct simhca_request *request,
					    const struct simhca_place *before)
{
	struct simhca_qp *qp = request->qp;

	request->advanced = false;
	qp->resp.epsn = before->epsn;
	qp->resp.msn = before->msn;
	qp->resp.psns_done = before->psns_done;
	qp->resp.answers = before->answers;
	qp->resp.in_message = before->in_message;
	qp->resp.write = before->write;
}

/* Sends a response by the QP's link; its destination is the source of what it answers. */
static inline struct simhca_handover simhca_respond(const struct simhca_request *request,
						    struct simhca_packet *response)
{
	struct simhca_qp *qp = request->qp;

	response->transport = qp->type;
	response->dest_qpn = request->packet->src_qpn;
	response->src_qpn = qp->qpn;
	response->msn = qp->resp.msn;
	response->mtu = qp->qpc->path_mtu;
	/* Who hears of it counts on it. */
	simhca_responder_commit(qp);
	return qp->link->respond(request->worker, qp, response);
}

/* As the port's statistics have it, where what comes again counts again. */
static inline void simhca_request_count(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	struct simhca_worker *worker = request->worker;

	if (!request->packet->first)
		return;
	switch (request->packet->op) {
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_WRITE, 1);
		break;
	case SIMHCA_PKT_READ:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_READ, 1);
		break;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_ATOMIC, 1);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------ responder_refuse.c */

/*
 * The request is refused for good: a NAK, and this side's QP fails as well. The consumer hears
 * of it once: by the receive that failed (status), by the one that the message had consumed, or, if
 * there is none, by an asynchronous event (IBTA vol. 1, 9.9.3, class C).
 */
void simhca_refuse(struct simhca_request *request, enum simhca_syndrome nak,
		   enum simhca_wc_status status, enum simhca_reason reason);
/* It is not a request that this QP takes, and no receive has failed of itself. */
static inline void simhca_refuse_invalid(struct simhca_request *request, enum simhca_reason reason)
{
	simhca_refuse(request, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS, reason);
}
/* Whether the packet may be delivered to where its receives come from. */
bool simhca_recv_admits(struct simhca_request *request);
/* Consumes a receive WQE for the current message unless it has one. */
bool simhca_recv_need(struct simhca_request *request);

/* ------------------------------------------------------------------ responder_memory.c */

/* The memory at our end that a request is about. */
enum simhca_memory { SIMHCA_RECEIVE_BUFFER, SIMHCA_REMOTE_MEMORY };
/* Memory behind an agent may only be waited for by an engine made for that. */
bool simhca_memory_is_elsewhere(struct simhca_request *request, const struct simhca_sgl *sgl);
/* What is wrong with it is told to the receive that it belongs to; or that it would complete. */
void simhca_memory_refuse(struct simhca_request *request, enum simhca_memory memory,
			  enum simhca_reason reason);
/*
 * Whether the memory that an rkey names is there; if not, the answer is to come back, or that it is
 * refused.
 */
bool simhca_memory_is_there(struct simhca_request *request, enum simhca_own_access access,
			    const struct simhca_sgl *sgl);
/* It could not be read or written after all. */
void simhca_memory_failed(struct simhca_request *request, enum simhca_own_access access,
			  const struct simhca_sgl *sgl, enum simhca_reason reason);
/* Copies to it, if it is there. */
bool simhca_memory_write(struct simhca_request *request, enum simhca_memory memory,
			 const struct simhca_sgl *target, const struct simhca_sgl *source,
			 uint64_t length);
/* An rkey's memory, for a one-sided operation; sgl NULL: only checked. */
bool simhca_memory_remote(struct simhca_request *request, uint64_t length, struct simhca_sgl *sgl);

/* ---------------------------------------------------------------- responder_complete.c */

/* The CQE of the receive at hand, which is done with by that; and that it is published. False:
 * there was no room. */
struct simhca_cqe simhca_recv_cqe(struct simhca_request *request, enum simhca_wc_status status,
				  enum simhca_reason reason, uint64_t bytes);
/* Both. False: the CQ had no room for it. */
bool simhca_recv_complete(struct simhca_request *request, enum simhca_wc_status status,
			  enum simhca_reason reason, uint64_t bytes);

/* -------------------------------------------------------------------- responder_recv.c */

/* The receive WQE of the message; false: it is none any more. */
bool simhca_recv_wqe(struct simhca_request *request, struct simhca_recv *recv);
/* Puts the packet's payload at offset of the receive buffers. */
bool simhca_recv_place(struct simhca_request *request, const struct simhca_sgl *payload,
		       uint64_t offset, uint64_t length);
/*
 * A message whose completion is lost has not arrived, as nobody will hear of it. That the CQ was
 * full has failed its QPs; a target is not one of those.
 */
bool simhca_recv_completes(struct simhca_request *request, uint64_t bytes);
bool simhca_execute_send(struct simhca_request *request);

/* -------------------------------------------------------------------- responder_rdma.c */

bool simhca_execute_write(struct simhca_request *request);
/* Sends the next piece of a read's response: of all that the request asks for, or is left of it. */
bool simhca_read_respond(struct simhca_request *request);
bool simhca_execute_read(struct simhca_request *request);
bool simhca_execute_atomic_write(struct simhca_request *request);
bool simhca_execute_atomic(struct simhca_request *request);
bool simhca_execute_flush(struct simhca_request *request);

/* -------------------------------------------------------------- responder_duplicates.c */

/*
 * A packet `back` PSNs before the expected one. Acknowledging means that it was done; so it is a
 * duplicate only if all its PSNs were done before, in this connection (IBTA vol. 1, 9.7.1).
 */
void simhca_request_old(struct simhca_request *request, uint32_t back);

/* -------------------------------------------------------------------------- datagram.c */

void simhca_run_datagram(struct simhca_request *request);

#endif
