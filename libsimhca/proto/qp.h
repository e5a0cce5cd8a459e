/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Queue pairs. */
#ifndef LIBSIMHCA_QP_H
#define LIBSIMHCA_QP_H

#include "attach.h"
#include "cq.h"
#include "core/mtu.h"
#include "core/pd.h"
#include "core/steps.h"
#include "engine/engine.h"
#include "inject/inject.h"
#include "link.h"
#include "paging/fault.h"
#include "queue/progress.h"
#include "srq.h"
#include "recv_source.h"
#include "recover.h"
#include "owner.h"
#include "core/usage.h"

struct simhca_frame_copies;
struct simhca_comp_cntr;
struct simhca_inbox;
struct simhca_rss;
struct simhca_tag;
struct simhca_xrcd;
struct simhca_xrcd_open;

/* A handle of an XRC_RECV QP. */
struct simhca_qp_open {
	struct simhca_qp_open *next;
	struct simhca_context *context;
	struct simhca_xrcd_open *domain;
	uint32_t handle;
	struct simhca_user_handle user_handle;
};

/*
 * What a QP is made of, beside its queues. Each part belongs to the files that it names; who else
 * may look at it is a rule of scripts/check-rooms.
 */

/* requester.c: beside simhca_requester, which programs can write; under req_lock. */
struct simhca_qp_requester {
	uint32_t asked;		/* the PSN behind the READ request that was sent last */
	atomic_bool peer_ready; /* the peer has said so, to whom waits for that */
	/* Of the local link: the read or atomic that its responder refuses, as there are too many. */
	struct {
		bool found;
		uint32_t index; /* of its WQE */
	} exceeding;
	struct {
		struct simhca_qp *qp; /* whom its address names; NULL: nobody */
		uint64_t generation;  /* the fabric's when it was looked up; 0: never */
	} peer;
	/* WAIT_ANSWER: when a long time-out is over, after its peer was reported; 0: it is none */
	uint64_t long_end;
	bool adaptive;		 /* WAIT_ANSWER: for the link's adaptive retransmission */
	bool fetching;		 /* the message under way is the receive source's, and no WQE */
	atomic_bool fetch_waits; /* the source has something to fetch, or to say */
};

/* responder.c: beside simhca_responder, which programs can write; under resp_lock. */
struct simhca_qp_responder {
	bool in_slot; /* the data of the packet at hand lie in the slot of the receive */
	/*
	 * Where receives come from, NULL: its own queue; and the PD that rkeys are checked against.
	 * Of an XRC_RECV QP that is the SRQ of resp.srqn, in a step only, and the SRQ's PD (A14).
	 */
	struct simhca_srq *srq;
	uint32_t key_pd;
};

/* recv/tag_match.c: what its SRQ's tag list has for it. */
struct simhca_qp_tags {
	struct simhca_tag *matched; /* by the message at hand; under resp_lock */
	struct simhca_tag *rndv;    /* to be fetched, oldest first; under the lock of the SRQ */
	uint8_t fin[16]; /* the data are there: the header that says so; under req_lock */
	bool fin_due;	 /* it is to be sent yet */
};

/* recv/xrc_target.c: XRC_RECV. */
struct simhca_qp_xrc {
	struct simhca_xrcd *domain;
	struct simhca_qp_open *opens; /* who has it open, under the lock */
	pthread_mutex_t lock;
	uint32_t reporting; /* who goes through opens without the lock */
};

/* ethernet/: RAW_PACKET, RSS QPs and WQs. */
struct simhca_qp_ethernet {
	bool strip_cvlan;		    /* C-VLAN tags go into the CQE; under resp_lock */
	struct simhca_rss *rss;		    /* an RSS QP: how it chooses a WQ (ethernet.h) */
	struct simhca_frame_copies *copies; /* its link's: of a frame, who has it; under req_lock */
};

/* link/wire/: of a device with a wire. */
struct simhca_qp_wire {
	const struct simhca_uplink *uplink; /* NULL: it has none */
	struct simhca_inbox *inbox;	    /* what has come by it */
	uint64_t busy_since; /* ns: a response is owed, and the responder is held; 0: it is not */
};

/* attach.c: the fast path. */
struct simhca_qp_fastpath {
	struct simhca_steps steps;
	struct simhca_mem_ref mem_ref;
	bool none;		/* the QP is not to have any */
	bool handed_out;	/* another process has been given the segment's file */
	uint32_t segment;	/* that mem and rings lie in, and nothing else; 0: none */
	atomic_bool attached;	/* its program has been given a peer */
	_Atomic uint32_t whose; /* 0, or the QP whose program has been given this one */
	struct simhca_fastpath_yielding yielding;
};

/*
 * An XRC_RECV QP (xrc_target.c) outlives the context that made it, if others have it open. So it
 * belongs to none: it has no rings, doorbell, timer or PD, its run state is the device's own
 * memory, and no engine ever runs it; only its responder works, on the engine of who sends.
 */
struct simhca_qp {
	struct simhca_context *context; /* NULL of an XRC_RECV QP, and so are PD and CQs */
	struct simhca_device *device;
	struct simhca_qp_xrc xrc;
	struct simhca_pd *pd;
	struct simhca_cq *send_cq, *recv_cq;
	struct simhca_srq *srq;
	struct simhca_qpc *qpc;
	uint32_t qpn, type;
	uint32_t doorbell; /* slot in the context's bitmap */
	struct simhca_user_handle user_handle;
	bool drained_event_due;	   /* SQD: raise SQ_DRAINED; under req_lock */
	bool last_wqe_event_due;   /* with an SRQ, on the way to ERR; under req_lock */
	uint32_t dropped_receives; /* that waited when it went to RESET; for who sends to it */
	uint32_t dropped_sends;	   /* likewise, of which no completion was polled; for who polls */
	uint32_t users;		   /* flows to this QP; places of this WQ in tables */
	uint32_t groups;	   /* multicast groups that it is in; under their lock */
	uint32_t *also_used;	   /* beside PD, CQs and SRQ: a count of its users; or NULL */
	struct simhca_qp_ethernet ethernet;
	struct simhca_comp_cntr *comp_cntr[SIMHCA_COUNTS_OPS]; /* under both locks; NULL: none */
	const struct simhca_recv_source *source;
	struct simhca_qp_tags tags;

	const struct simhca_link *_Atomic link; /* changes under both locks */
	struct simhca_qp_wire wire;
	struct simhca_qp_mem *mem;
	char *sq, *rq;
	char *recv_copy; /* behind mem: a receive that was claimed; NULL: none ever is */
	uint32_t sq_entries, sq_stride, rq_entries, rq_stride;
	uint32_t slot_data; /* bytes from the start of an RQ slot to its data; 0: it has none */
	bool data_may_stay; /* of its receives, or of its SRQ's, until it polls */
	struct simhca_mem_ref mem_ref, sq_ref, rq_ref;
	/* The RQ of a UD QP, if programs that send to it may consume as well; mem NULL: it is not.
	 */
	struct simhca_srq_view rq_view;
	struct simhca_mem_ref claims_ref;
	struct simhca_abandoned left; /* of what was claimed from it */

	struct simhca_task task; /* its work */

	/* requester and completer; under req_lock, while the requester is held (owner.h) */
	struct simhca_side_lock req_lock;
	struct simhca_requester req;
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS]; /* by ring index */
	struct simhca_qp_requester requester;

	/* responder; under resp_lock, while it is held */
	struct simhca_side_lock resp_lock;
	struct simhca_responder resp;
	struct simhca_qp_responder responder;
	/*
	 * Its number in its SRQ, by which programs consume for it, 0: none do; or in its own queue,
	 * by which the device consumes.
	 */
	uint32_t claimant;

	struct simhca_qp_faults faults;
	struct simhca_usage *usage;

	struct simhca_inject_past inject_past; /* wqe, request, answer: under req_lock */

	struct simhca_qp_fastpath fastpath;
};

static inline struct simhca_qp *simhca_qp_of(struct simhca_task *task)
{
	return (struct simhca_qp *)((char *)task - offsetof(struct simhca_qp, task));
}

/* A line about it, for the log. */
#define simhca_qp_log(qp, ...) simhca_log_of_qp((qp)->device, (qp)->context, (qp)->qpn, __VA_ARGS__)

/* The message under way that is so many younger than the oldest. */
static inline struct simhca_flight *simhca_flight(struct simhca_qp *qp, uint32_t younger)
{
	return &qp->flight[(qp->req.oldest + younger) % SIMHCA_MAX_FLIGHTS];
}

static inline uint32_t simhca_qp_state(const struct simhca_qp *qp)
{
	return atomic_load_explicit(&qp->qpc->state, memory_order_seq_cst);
}

/* Whether the QP is in that state, and has a queue of sends. */
static inline bool simhca_qp_sends_in(const struct simhca_qp *qp, uint32_t state)
{
	return qp->mem && qp->sq_entries && qp->send_cq && simhca_qp_state(qp) == state;
}

/* Whether a QP in that state accepts what comes for it. */
static inline bool simhca_state_receives(uint32_t state)
{
	return state >= SIMHCA_QPS_RTR && state != SIMHCA_QPS_ERR;
}

/* The device's QP of that number, or NULL. Inside a guard, or by the thread that destroys QPs. */
static inline struct simhca_qp *simhca_qp_numbered(const struct simhca_device *device, uint32_t qpn)
{
	struct simhca_qp *qp = atomic_load(&device->qps[SIMHCA_QPN_SLOT(qpn)]);

	return qp && qp->qpn == qpn ? qp : NULL;
}

/* Where a receive that came from this SRQ, or from no SRQ, completes. */
static inline struct simhca_cq *simhca_recv_cq(const struct simhca_qp *qp,
					       const struct simhca_srq *srq)
{
	return srq && srq->cq ? srq->cq : qp->recv_cq;
}

/* The queue that those who send to a UD QP consume from, or an SRQ's QPs; mem NULL: they do not. */
static inline const struct simhca_srq_view *simhca_claimed_from(const struct simhca_qp *qp)
{
	return qp->srq ? &qp->srq->view : &qp->rq_view;
}

/* Sends that are posted, and of which no completion was polled. While both sides are held. */
uint32_t simhca_unpolled_sends(struct simhca_qp *qp);
/* How many receives were posted to where its own come from, by the client's count. */
static inline uint32_t simhca_posted_receives(const struct simhca_qp *qp)
{
	const struct simhca_srq_view *queue = simhca_claimed_from(qp);

	/* relaxed: it is for who looks later. */
	return queue->mem ? simhca_srq_posted(queue) : simhca_progress_rq_pi(qp->mem);
}

/* Nothing is to be fetched any more. Under both locks. */
static inline void simhca_drop_fetches(struct simhca_qp *qp, bool flush)
{
	if (qp->source->fetch)
		qp->source->fetch->drop_all(qp, flush);
}

/* A QP is made, and freed: 0 or -ENOMEM. */
static inline int simhca_qp_attach(struct simhca_qp *qp)
{
	const struct simhca_uplink *uplink = qp->device->fabric->uplink;

	return uplink ? uplink->attach(qp) : 0;
}

static inline void simhca_qp_detach(struct simhca_qp *qp)
{
	if (qp->wire.uplink)
		qp->wire.uplink->detach(qp);
}

/* The message that a PSN is of: by how many it is younger than the oldest. */
static inline uint32_t simhca_flight_at(const struct simhca_qp *qp, uint32_t psn)
{
	return simhca_gate_find(&qp->req, qp->flight, psn);
}

/* No program begins a step with the QP any more. */
static inline void simhca_fastpath_end(struct simhca_qp *qp)
{
	/* seq_cst: before the guards are looked at, by who waits for steps under way. */
	if (atomic_load(&qp->qpc->fastpath_epoch))
		atomic_store(&qp->qpc->fastpath_epoch, 0);
}

/* An asynchronous event of a QP, to everybody who has it open. */
void simhca_qp_event(struct simhca_qp *qp, uint32_t type);
/* All but its state, number and type; others' engines may look at what is atomic meanwhile. */
void simhca_qpc_set(struct simhca_qpc *qpc, const struct simhca_qpc *to);
/* Makes its entry in device memory that of a QP in RESET; qpn 0: of no QP. */
void simhca_qpc_init(struct simhca_qpc *qpc, uint32_t qpn, uint32_t type);

/*
 * How QPs come to be, and what else looks like one (wq.c): alloc, fill in what is special, add. If
 * that fails the QP is freed. CQs are counted as its users if it has them.
 */
struct simhca_qp *simhca_qp_alloc(struct simhca_context *context, uint32_t type,
				  struct simhca_pd *pd, struct simhca_user_handle user_handle);
void simhca_qp_free(struct simhca_qp *qp);
int simhca_qp_add(struct simhca_qp *qp, enum simhca_object_type as,
		  const struct simhca_create_qp_req *caps, struct simhca_create_qp_reply *reply,
		  struct simhca_why *why);
int simhca_qp_remove(struct simhca_qp *qp, enum simhca_object_type as, uint32_t handle);

/*
 * Moves a QP to ERR (or, for an unreliable sender, SQE) and lets an engine flush it. May be
 * called under any of the QP's locks, its own or a peer's.
 */
void simhca_qp_fail(struct simhca_qp *qp, uint32_t state);
/* As simhca_qp_fail() for one whose shared memory makes no sense; raises QP_FATAL. */
void simhca_qp_corrupt(struct simhca_qp *qp);
/* Runs a QP once: sends, retries or flushes; true when there is more to do at once. */
bool simhca_qp_step(struct simhca_worker *worker, struct simhca_task *task);
/* All but XRC_RECV QPs, whose commands are recv/xrc.h's. */
int simhca_qp_create(struct simhca_context *context, const struct simhca_create_qp_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_qp_destroy(struct simhca_qp *qp, uint32_t handle, struct simhca_why *why);
/* Forgets what the requester and responder were doing. Under both locks. */
void simhca_qp_clear(struct simhca_qp *qp);

/* Path MTU, in bytes. */
static inline uint32_t simhca_qp_mtu(const struct simhca_qp *qp)
{
	return simhca_mtu_bytes(qp->qpc->path_mtu);
}

/* Bytes of payload that a packet brings at most. */
static inline uint64_t simhca_qp_slice(const struct simhca_qp *qp)
{
	uint64_t mtu = simhca_qp_mtu(qp), packets = qp->link->packets;

	if (!qp->link->slice)
		return mtu;
	return packets && qp->link->slice > packets * mtu ? packets * mtu : qp->link->slice;
}

#endif
