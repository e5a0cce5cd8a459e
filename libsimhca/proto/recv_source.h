/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where a QP's receives come from: its own queue (wqe.c), an SRQ (srq.c), an SRQ's tag list, or the
 * SRQ that each packet names (XRC). The responder knows them by this alone. Under resp_lock.
 */
#ifndef LIBSIMHCA_RECV_SOURCE_H
#define LIBSIMHCA_RECV_SOURCE_H

#include "packet/packet.h"
#include "simhca-device.h"
#include "wqe.h"

struct simhca_context;
struct simhca_create_srq_req;
struct simhca_qp;
struct simhca_send;
struct simhca_srq;
struct simhca_why;
struct simhca_worker;

/* Which bytes of a packet's payload a receive's buffers get: those after `skip`, at `offset`. */
struct simhca_recv_part {
	uint64_t skip, offset, length;
	bool none; /* not even an empty one */
};

/*
 * A source may want data that a message has only announced (a rendezvous): then the QP's requester
 * fetches them, between the work requests of the program. qp->requester.fetch_waits: there is something to be
 * fetched; qp->requester.fetching: the message under way is the source's.
 */
struct simhca_fetch {
	/* Whether the oldest has a step to make; what cannot be done ends here. Under req_lock. */
	bool (*start)(struct simhca_qp *qp);
	/* That step, as a send WQE would ask for it. */
	void (*load)(struct simhca_qp *qp, struct simhca_send *send);
	void (*complete)(struct simhca_qp *qp, enum simhca_wc_status status,
			 enum simhca_reason reason);
	/* Forgets all of them. Under both locks. */
	void (*drop_all)(struct simhca_qp *qp, bool flush);
};

struct simhca_recv_source {
	/* Consumes a receive for the packet's message: the one at hand, until it is complete. */
	enum simhca_consume (*consume)(struct simhca_worker *worker, struct simhca_qp *qp,
				       const struct simhca_packet *packet);
	/* What of a packet is for the buffers. NULL: all, in order. */
	void (*part)(const struct simhca_qp *qp, const struct simhca_packet *packet,
		     struct simhca_recv_part *part);
	/* Publishes the CQE of the receive at hand, with what only the source knows. False: no
	 * room. */
	bool (*complete)(struct simhca_qp *qp, struct simhca_cqe *cqe, bool solicited);
	/*
	 * If it is named by each packet: finds it for this one, or (NULL) for the response that is
	 * owed, before the guard is narrowed; its context, or NULL: there is none such.
	 */
	const struct simhca_context *(*find)(struct simhca_qp *qp,
					     const struct simhca_packet *packet);
	/* Likewise: whether the packet may be delivered to what was found; *nak, if not. */
	enum simhca_reason (*admit)(struct simhca_qp *qp, const struct simhca_packet *packet,
				    bool repeated, enum simhca_syndrome *nak);
	/* The QP has failed, and no engine runs it: what it has is flushed at once. NULL: one does.
	 */
	void (*flush)(struct simhca_qp *qp);
	/* NAK's reason when a CQ has no room. */
	enum simhca_reason no_room;
	const struct simhca_fetch *fetch; /* or NULL */
};

extern const struct simhca_recv_source simhca_own_receives, simhca_srq_receives;

/* What an SRQ of a type has besides; what is not needed is NULL. */
struct simhca_srq_kind {
	const struct simhca_recv_source *source;
	int (*init)(struct simhca_srq *srq, const struct simhca_create_srq_req *req,
		    struct simhca_why *why);
	/* From now on requests find it; none does any more, and on success none uses it. */
	void (*publish)(struct simhca_srq *srq);
	int (*withdraw)(struct simhca_srq *srq);
};
extern const struct simhca_srq_kind simhca_basic_srqs;

#endif
