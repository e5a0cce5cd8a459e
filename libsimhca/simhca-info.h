/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show: why a work request failed, and what there is of a context's objects. */
#ifndef LIBSIMHCA_SIMHCA_INFO_H
#define LIBSIMHCA_SIMHCA_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "simhca-abi.h"

struct simhca_context;
struct simhca_device;

/* What went wrong, for the person who debugs a program. Numbers are the ABI's. */
enum simhca_failure_kind {
	SIMHCA_SEND_FAILED,	/* a send work request completed with an error that is no flush */
	SIMHCA_RECV_FAILED,	/* a receive work request likewise */
	SIMHCA_REQUEST_REFUSED, /* by a responder; or dropped, on an unreliable service */
	SIMHCA_NO_ANSWER,	/* a requester gets none, and text says why */
	SIMHCA_LOST,		/* a message of UD or UC, which nobody takes; likewise */
	SIMHCA_FLUSHED,		/* so many work requests of a QP that had failed */
	SIMHCA_INJECTED,	/* a rule of faults has fired; the daemon's own */
};

/* The entry of the protection table that a key names; SIMHCA_MPT_FREE: there is none. */
struct simhca_key_facts {
	uint32_t type, pd;
	uint32_t key;	/* the one that is valid now */
	uint32_t qpn;	/* windows of type 2: whose they are */
	bool has_range; /* it is the user's own, and what follows is known */
	uint32_t access;
	uint64_t iova, length;
};

/* What a key was that is gone, or means something else now, of the same PD. */
struct simhca_gone_facts {
	bool was;
	uint64_t ago_ns; /* since it went, or was changed */
	uint64_t iova, length;
	bool window;	  /* and no region */
	bool changed;	  /* by ibv_rereg_mr(): the key is alive */
	uint32_t now_key; /* of the same memory; 0: it has none */
};

/* The queue that a message found empty. */
struct simhca_empty_facts {
	uint32_t context; /* whose; 0: not known */
	uint32_t srqn;	  /* 0: the QP's own */
	uint32_t posted;  /* receives so far, since it was created or reset */
	uint32_t dropped; /* receives that the last reset has dropped */
	bool limit_spent; /* the SRQ's limit event came, and no limit was set since */
};

struct simhca_failure {
	enum simhca_failure_kind kind;
	uint32_t context; /* id; 0: of an XRC target, where the request names no SRQ */
	uint32_t qpn, peer_qpn, qp_type, pd;
	uint32_t peer_context; /* REQUEST_REFUSED: of the sender; 0: of no program here */
	bool by_wire; /* its peer is on another host, whose QPs have numbers of their own */
	uint32_t psn, last_psn; /* of the message; of a request that was refused, its own */
	uint32_t opcode;	/* enum simhca_wr_opcode; not of RECV_FAILED, FLUSHED */
	uint32_t status;	/* enum simhca_wc_status; of work requests */
	enum simhca_reason reason;
	uint64_t wr_id;	 /* of work requests */
	uint64_t length; /* bytes of the message, or of the packet that was refused */
	/* The access that the reason is about; or, if it is about none, what a send would have had
	   of the peer's memory. */
	bool has_access;
	uint32_t key;
	uint64_t va, bytes;
	struct simhca_key_facts entry;	 /* with has_access */
	struct simhca_gone_facts gone;	 /* likewise */
	struct simhca_empty_facts empty; /* with RNR_RETRY_EXC_ERR */
	/* The sender's attributes: how often, and for how long, it tried. */
	uint32_t retry_cnt, rnr_retry, timeout;
	uint32_t count; /* FLUSHED; of REQUEST_REFUSED and LOST 1 */
	/* what the program sees, if that is not the reason: EFA's status; or 0 */
	uint32_t vendor_err;
	uint32_t event;	      /* INJECTED: enum ibv_event_type + 1 that the rule raises; 0: none */
	const char *obstacle; /* NO_ANSWER, LOST: which, as a constant; or NULL */
	/* NO_ANSWER, LOST; of REQUEST_REFUSED the reason with its numbers, or NULL. During the call. */
	const char *text;
};

/* Objects alive, as `simhca status` shows them. */
struct simhca_counts {
	uint32_t pds, mrs, mws, cqs, qps, srqs, ahs, xrcds, dms, wqs, flows;
	uint32_t dm_bytes;
	uint32_t carried; /* of the QPs: whose messages their program carries */
};
/* But for carried, which is 0. */
void simhca_context_counts(const struct simhca_context *context, struct simhca_counts *counts);
/*
 * Adds to *carried how many it is among the next QPs, some hundred, whose handles begin at *handle.
 * False: there are no further ones.
 */
bool simhca_context_carried(const struct simhca_context *context, uint32_t *handle,
			    uint32_t *carried);

/*
 * What tools show of a context's objects: the first one whose handle is *handle or more. False:
 * there is none. For control functions' thread. Numbers are unique among their kind in the device.
 */
enum simhca_own_access {
	SIMHCA_REQUESTER_READ,	/* a message that it sends */
	SIMHCA_REQUESTER_WRITE, /* a response that it places */
	SIMHCA_RESPONDER_READ,	/* memory that the peer reads */
	SIMHCA_RESPONDER_WRITE, /* a message that it receives, memory that the peer writes */
	SIMHCA_OWN_ACCESSES,
};
/* What QPs have done (core/usage.h). Bytes are those of payload. */
struct simhca_usage_sum {
	uint64_t messages, bytes, reads, read_bytes; /* that it began; atomics are reads */
	uint64_t received, received_bytes;	     /* that took a receive */
	uint64_t retries, rnr_naks, rnr_delay_ns, no_receive, errors;
	uint64_t latency[SIMHCA_LATENCIES]; /* of a sample of its messages: how many by time */
};
/* Of QPs that were destroyed. */
uint64_t simhca_context_registered(const struct simhca_context *context); /* regions so far */
void simhca_context_past(const struct simhca_context *context, struct simhca_usage_sum *sum);
struct simhca_qp_info {
	uint32_t qpn, type, state, pd, dest_qpn, rq_psn, sq_psn;
	uint32_t port;		 /* 0: none yet */
	uint32_t srqn;		 /* of its SRQ; 0: it has none */
	uint32_t unknown_access; /* of qp_access_flags: what no access flag is */
	bool further;		 /* XRC_RECV: a further handle of a QP that another one shows */
	struct simhca_usage_sum usage; /* errors: by the device alone */
	uint32_t handled;	       /* messages that its responder has completed, modulo 2^24 */
	uint32_t max_send_wr, most_unsignaled; /* the latter in a row */
	uint64_t too_early;		       /* messages, before any receive was posted */
	/* Work requests posted that have not completed; receives of its own queue. */
	uint32_t sends, recvs;
	uint32_t wait; /* enum simhca_wait, of its requester */
	/* Of one that waits: the device that has dest_qpn; NULL: another host's, or there is no such QP */
	const struct simhca_device *peer_device;
	/* of RC QPs, if programs may carry messages: those that it did; times that it did not */
	bool fast_path;
	uint64_t by_fast_path, events_raised, handed[SIMHCA_SLOW_REASONS];
	uint64_t faults[SIMHCA_OWN_ACCESSES];	 /* so far */
	bool fault_pending[SIMHCA_OWN_ACCESSES]; /* queued or being resolved */
};
bool simhca_next_qp(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_qp_info *info);
/*
 * How many receives were posted to the queue that the context's QP of this number takes from, since it
 * was created or reset; by an XRC target, to the context's XRC SRQ. False: it has no such QP or SRQ.
 */
bool simhca_context_posted(const struct simhca_context *context, uint32_t qpn, uint32_t srqn,
			   uint32_t *posted);
/* The argument of the context that has this QP. NULL: there is none, or many may have it (XRC). */
void *simhca_qp_arg(const struct simhca_device *device, uint32_t qpn);
struct simhca_mr_info {
	uint32_t number; /* the index of its keys */
	uint32_t key, pd;
	uint32_t used;	/* rights that were needed so far */
	uint64_t stale; /* where it was used after its memory had been unmapped or dropped; or 0 */
	uint32_t pid;	/* in whose memory it lies; 0: in nobody's, or it cannot be told */
	bool mappable;	/* by programs on the fast path */
	struct simhca_query_mr_reply attr;
};
bool simhca_next_mr(struct simhca_context *context, uint32_t *handle, struct simhca_mr_info *info);
/* Send requests that were posted, have not completed, and name a region of the context's. */
struct simhca_mr_sends {
	uint32_t requests, qpn; /* the QP of the first one */
	uint64_t wr_id;
};
/*
 * Looks for them, in a part of the context's QPs and requests if there are very many. A QP in
 * whose queue an engine works for longer counts as having none.
 */
void simhca_find_mr_sends(struct simhca_context *context, uint32_t handle,
			  struct simhca_mr_sends *sends);
/* How many reads and atomics the ends of a connection within the daemon agree to. */
struct simhca_rd_atomic {
	uint32_t requester, responder; /* QP numbers */
	uint32_t max_rd_atomic;	       /* of the requester */
	uint32_t max_dest_rd_atomic;   /* of the responder */
};
/*
 * Of a QP that has come to RTR, as the responder; or to RTS, as the requester. False: its peer is
 * not so far yet, or is not in this daemon.
 */
bool simhca_qp_rd_atomic(struct simhca_context *context, uint32_t handle,
			 struct simhca_rd_atomic *numbers);
/* Why a completion need not come at a CQ that is empty, as far as can be seen. */
enum simhca_in_vain_why {
	/* Of a receive: */
	SIMHCA_PLAIN_WRITE, /* the last request was a WRITE, READ or atomic: it takes none (9.4.3) */
	SIMHCA_PEER_ORPHANED, /* the peer's process has ended, and a child of it keeps the QP */
	/* Of these two no other QP that completes there has a peer that could send, either. */
	SIMHCA_NO_PEER,	      /* no QP has the number that it is connected to */
	SIMHCA_PEER_IN_ERROR, /* that QP is in ERR */
	/* of a send: */
	SIMHCA_NO_RECEIVE,     /* the peer has no receive for it, and rnr_retry has no end */
	SIMHCA_NOT_SIGNALED,   /* all of the QP's are done, and the last one was not signaled */
	SIMHCA_IN_SQD,	       /* it has not begun, and the QP is in SQD (10.3.1.5) */
	SIMHCA_NOTHING_POSTED, /* nor is there a receive; of QPs that could send or receive */
	SIMHCA_SENDS_DROPPED,  /* the QP went to RESET, and nothing was posted since (10.3.1.1) */
	SIMHCA_QP_DESTROYED,   /* with what its sends had completed, and nothing else is posted */
};
struct simhca_in_vain {
	enum simhca_in_vain_why why;
	uint32_t qpn, cq;  /* numbers */
	uint32_t receives; /* of a receive: that wait in the queue that it takes them from */
	uint32_t handled;  /* requests that are complete, of the peer or its own, modulo 2^24 */
	uint32_t peer_qpn;
	uint32_t peer_srqn; /* NO_RECEIVE, of XRC: where the message is to go */
	pid_t peer_pid;	    /* of who opened the peer's device, and its name; 0, "": unknown */
	char peer_name[16];
	uint64_t wr_id, length; /* of the write, or of the send */
	uint32_t opcode;	/* enum simhca_wr_opcode, likewise */
	/* SENDS_DROPPED, QP_DESTROYED: how many. NO_RECEIVE: struct simhca_empty_facts, and so is limit_spent. */
	uint32_t dropped;
	bool limit_spent;
};
/*
 * Of the context's QPs those of which that is so, and of its CQs those that a QP has left so, at most room of
 * them; in a part of its QPs if there are very many. What is said of the peer is of one in the daemon. A QP that waits for a
 * receive has no requests under way, nor has the peer if it has written; and where a send was not
 * signaled, none of the context's QPs has anything posted that completes at that CQ.
 */
uint32_t simhca_find_in_vain(struct simhca_context *context, struct simhca_in_vain *found,
			     uint32_t room);
struct simhca_pd_info {
	uint32_t number, users;
};
bool simhca_next_pd(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_pd_info *info);
struct simhca_cq_info {
	uint32_t number, cqe, users;
	uint32_t waiting;     /* completions that were not polled; in a damaged CQ at most cqe */
	uint32_t polled;      /* completions that were, modulo 2^32 */
	uint32_t empty_polls; /* polls that found nothing, in hundreds; clients can write it */
	uint32_t arm;	      /* enum simhca_arm: for what it is armed now */
	uint32_t most_waiting, most_feeds; /* the latter: what its QPs may post at a time */
	bool was_armed;			   /* since it was created */
	/* Of a receive: among the oldest that wait; clients can write them. */
	bool holds_receive;
	bool overrun;
	uint64_t channel; /* as it was named at its creation; 0: it has none */
};
bool simhca_next_cq(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_cq_info *info);
struct simhca_srq_info {
	uint32_t number, type, pd;
	uint32_t cq; /* where its receives complete, if it has one of its own; else 0 */
	uint32_t max_wr, posted, limit, users; /* posted: receives that wait for a message */
	uint32_t
		unused_limit; /* which it was created with, and that means nothing; 0: none, or set since */
};
bool simhca_next_srq(const struct simhca_context *context, uint32_t *handle,
		     struct simhca_srq_info *info);
/* The numbers of QPs that receive from an SRQ, at most room of them. How many were found. */
uint32_t simhca_srq_qps(const struct simhca_context *context, uint32_t handle, uint32_t *qpn,
			uint32_t room);

#endif
