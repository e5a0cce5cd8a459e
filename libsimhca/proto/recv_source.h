/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where a QP's receives come from: its own queue (wqe.c), an SRQ (srq.c), an SRQ's tag list, or the
 * SRQ that each packet names (XRC). The responder knows no more of them. Under resp_lock.
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
 * A message may only announce data, which the source then wants (a rendezvous): the QP's requester
 * fetches them between the program's own work requests (fetch_waits and fetching of struct
 * simhca_qp_requester).
 */
struct simhca_fetch {
	/* Whether the oldest one has something to fetch; one that cannot be done ends. Under req_lock. */
	bool (*start)(struct simhca_qp *qp);
	/* What it fetches, as a send WQE would ask for it. */
	void (*build_fetch)(struct simhca_qp *qp, struct simhca_send *send);
	void (*complete)(struct simhca_qp *qp, enum simhca_wc_status status,
			 enum simhca_reason reason);
	/* Forgets all of them. Under both locks. */
	void (*drop_all)(struct simhca_qp *qp, bool flush);
};

struct simhca_recv_source {
	/* Consumes a receive for the packet's message, which has it until it completes. */
	enum simhca_consume (*consume)(struct simhca_worker *worker, struct simhca_qp *qp,
				       const struct simhca_packet *packet);
	/* Which part of a packet the buffers get. NULL: all of it, in order. */
	void (*part)(const struct simhca_qp *qp, const struct simhca_packet *packet,
		     struct simhca_recv_part *part);
	/* Publishes the CQE of the receive at hand, with what only the source knows. False: no
	 * room. */
	bool (*complete)(struct simhca_qp *qp, struct simhca_cqe *cqe);
	/*
	 * If each packet names its source: finds it for this packet, or (NULL) for the response that
	 * is owed, before the guard is narrowed. Returns its context; NULL: there is no such source.
	 */
	const struct simhca_context *(*find)(struct simhca_qp *qp,
					     const struct simhca_packet *packet);
	/* Likewise: whether the packet may be delivered to what was found; *nak, if not. */
	enum simhca_reason (*admit)(struct simhca_qp *qp, const struct simhca_packet *packet,
				    bool repeated, enum simhca_syndrome *nak);
	/* Flushes a QP that has failed and that no engine runs. NULL: an engine does it. */
	void (*flush)(struct simhca_qp *qp);
	/* The reason in the NAK when a CQ has no room. */
	enum simhca_reason no_room;
	const struct simhca_fetch *fetch; /* or NULL */
};

extern const struct simhca_recv_source simhca_own_receives, simhca_srq_receives;

/* What SRQs of a type have besides; NULL: nothing. */
struct simhca_srq_kind {
	const struct simhca_recv_source *source;
	int (*init)(struct simhca_srq *srq, const struct simhca_create_srq_req *req,
		    struct simhca_why *why);
	/* From publish() on requests find it; after a successful withdraw() none uses it. */
	void (*publish)(struct simhca_srq *srq);
	int (*withdraw)(struct simhca_srq *srq);
};
extern const struct simhca_srq_kind simhca_basic_srqs;

#endif
