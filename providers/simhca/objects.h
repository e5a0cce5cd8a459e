/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The provider's objects: the part of libibverbs comes first in each. */
#ifndef SHCA_OBJECTS_H
#define SHCA_OBJECTS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "ibverbs-provider-abi.h"
#include "simhca-abi.h"
#include "simhca-calls.h"

#include "chain.h"
#include "cqe_gate.h"
#include "lock.h"
#include "result.h"
#include "watcher.h"

/* The public calls are the only symbols of the library that others see. */
#pragma GCC visibility push(default)
#include "simhcadv.h"
#pragma GCC visibility pop

/* The operations that ibv_*() knows; those above it are for simhcadv_*(). */
#define SHCA_IBV_OPS ((1u << SIMHCA_WR_FAST_REG) - 1)

#define SHCA_QPS_PER_LEAF 256
#define SHCA_QP_LEAVES (SIMHCA_QPN_SLOTS / SHCA_QPS_PER_LEAF)

struct shca_attached;
struct shca_cq;
struct shca_page_list;
struct shca_qp;

struct shca_segment {
	_Atomic(void *) addr;  /* NULL: not mapped yet */
	_Atomic uint64_t size; /* bytes; valid once addr is set */
};

/* Segments that are mapped for queues to come (segments.c). */
#define SHCA_READY_SEGMENTS 16
struct shca_ready {
	struct shca_lock lock;
	uint32_t fetched; /* of single queues so far */
	uint32_t next;	  /* place of the next one */
	struct {
		_Atomic uint32_t number; /* 0: none is here */
		void *addr;
		uint64_t size;
	} segment[SHCA_READY_SEGMENTS];
};

/*
 * A QP by its number. A CQE may name any, as a peer can write it. So the poller looks at the QP only
 * if it completes in the CQ whose lock it has: before a QP goes, its CQs are taken out here under
 * their locks.
 */
struct shca_qp_entry {
	_Atomic(struct shca_qp *) qp;
	_Atomic(const struct shca_cq *) send_cq, recv_cq; /* acquire: then qp and qpn are theirs */
	_Atomic uint32_t qpn;
};

struct shca_context {
	struct verbs_context vctx;
	const struct simhca_devmem *dev;
	uint64_t dev_size;	    /* bytes */
	struct simhca_ctx_mem *mem; /* segment 0 */
	int doorbell_fd[SIMHCA_MAX_ENGINE_CPUS];
	uint32_t doorbell_cpu[SIMHCA_MAX_ENGINE_CPUS];
	struct shca_lock spare_lock;
	int spare_fd;	     /* of cmd_fd, or -1 (spare.c) */
	uint64_t connection; /* simhca_connection() of cmd_fd, which the program can close */
	int async_device_fd; /* the device's end: the watcher reports through it that it has gone */
	atomic_uint refusals_said;				       /* of posts, to the device */
	atomic_uint lint_said[SIMHCA_SAY_KINDS - SIMHCA_SAY_NO_FENCE]; /* notes, likewise */
	_Atomic uint64_t async_pipe; /* inode of async_fd's; 0: not looked at yet */
	atomic_bool fatal;	     /* the connection is broken */
	bool refused_memory;	     /* of a peer; the device knows */
	bool no_fastpath;	     /* SIMHCA_FAST_PATH=off: the device carries all messages */
	bool poison_wc;		     /* SIMHCA_POISON_WC=on: what a completion need not say */
	bool lint;		     /* SIMHCA_LINT=on: lint.h */
	bool no_slot_data; /* SIMHCA_SCATTER_TO_CQE=off: what a SEND brings is in its buffer */
	struct shca_segment segments[SIMHCA_MAX_SEGMENTS];
	struct shca_ready ready;
	struct shca_watcher watcher;
	_Atomic uint32_t offered_events; /* shca_process() that gave the device its userfaultfd */
	struct shca_lock channel_lock;
	struct shca_chain with_channel; /* CQs that have one */
	uint32_t channels_of;		/* shca_process() of who changed that list last */
	struct shca_chain link;		/* in the process's list (fork.c) */
	_Atomic uint32_t process;	/* shca_process() of who made libibverbs' mutex */
	struct shca_lock inheriting;
	uint32_t slots_of; /* shca_process() of who may have answers in slots; 0: nobody */
	_Atomic uint32_t slots_taken; /* a bit for each */

	/* QPs by QPN slot, in two levels. Readers hold the lock of a CQ that the QP uses. */
	struct shca_lock qp_lock;
	struct shca_qp_entry *_Atomic qps[SHCA_QP_LEAVES];
};

struct shca_mr {
	struct verbs_mr vmr;
	uint32_t max_page_list_len;    /* of a fast-register region; 0: it is another one */
	struct shca_dmah *dmah;	       /* NULL: registered without one */
	struct shca_lint_region *lint; /* NULL: lint does not know it */
	struct shca_moved *moved;      /* NULL: its memory is where it was */
};

#if SIMHCA_PABI >= 59
struct shca_dmah {
	struct ibv_dmah ibv_dmah;
	_Atomic uint32_t users; /* regions */
};
#else
struct shca_dmah;
#endif

struct shca_xrcd {
	struct ibv_xrcd ibv_xrcd;
	uint32_t handle;
};

struct shca_mw {
	struct ibv_mw ibv_mw;
	struct shca_lock lock; /* of type 1: rkey goes on with each bind */
};

struct shca_ah {
	struct ibv_ah ibv_ah;
	struct simhca_av av;
	atomic_bool is_destroyed; /* and kept for a while, so that who uses it learns it (ah.c) */
};

/* A thread domain: the program promises that one thread at a time uses what is made in it. */
struct shca_td {
	struct ibv_td ibv_td;
	_Atomic uint32_t users; /* parent domains */
};

/* A protection domain, or a parent domain over one. */
struct shca_pd {
	struct ibv_pd ibv_pd;
	_Atomic uint32_t refs;	    /* its own; of a PD parent domains', of those their objects' */
	struct shca_pd *protection; /* of a parent domain; NULL: it is none */
	struct shca_td *td;	    /* or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/* Where the provider's part of an object lies: in a parent domain, or nowhere in particular. */
struct shca_home {
	struct shca_pd *domain; /* NULL: none */
	uint64_t type;		/* enum simhcadv_res_type */
	bool external;		/* from the domain's allocator */
};

struct shca_cq {
	struct verbs_cq vcq;
	struct shca_context *ctx;
	struct shca_lock lock;
	struct shca_home home;
	bool single_threaded; /* the application promised: no lock */
	bool ignore_overrun;  /* the device does not look whether a CQE was read */
	bool failed;	      /* an overrun, and what was there before it has been taken */
	bool empty_reported;  /* that it is polled for no completions */
	atomic_bool polling;  /* between a successful start_poll and end_poll */
	uint32_t empty_polls; /* in a row */
	uint32_t stay_ns; /* without yielding; more each time that others took long, for nothing */
	uint64_t stay_until_ns;
	uint64_t counted_in; /* the period in which it was last found empty (poll.c) */
	uint64_t none_since; /* when polls for no completion began; 0: there were none */
	uint32_t none_ci;    /* ci then */
	uint32_t ci;	     /* CQEs consumed, of which mem->ci tells the device later */
	uint32_t mask;	     /* entries - 1 */
	struct simhca_cqe *ring;
	const uint8_t *data; /* SIMHCA_CQ_DATA bytes for each of data_mask + 1 CQEs; or NULL */
	uint32_t data_mask;
	struct simhca_cq_mem *mem;
	struct shca_segment own; /* that mem and the first ring lie in, if it is theirs alone */
	const struct simhca_cqe *cur; /* the CQE that ibv_wc_read_*() read */
	struct simhca_cqe taken;      /* what is reported: a copy, as a peer can write the ring */
	struct shca_chain senders;    /* QPs whose send_cq this is */
	struct shca_chain receivers;
	struct shca_chain srqs; /* XRC and tag matching: whose receives complete here */
	uint32_t lists_of;	/* shca_process() of who changed one of these last */
	int channel_fd;
	uint64_t channel;   /* inode of that; 0: it has no channel */
	atomic_uint events; /* that the program has got from it */
	struct shca_chain channel_link;
	_Atomic(const char *) user; /* lint_threads.c: who polls it, if it has no lock */
};

/* What the first error of a batch of ibv_wr_*() was; number: of SGEs, bytes, or the opcode. */
struct shca_wr_wrong {
	enum shca_wr_wrong_kind {
		SHCA_WR_OTHERWISE, /* as the error says */
		SHCA_WR_FULL,
		SHCA_WR_SGES,
		SHCA_WR_INLINE,
		SHCA_WR_NOT_INLINE, /* the operation has no inline data */
		SHCA_WR_NOT_BEGUN,  /* something was set, and no operation begun */
		SHCA_WR_NO_AH,
		SHCA_WR_OLD_AH,
		SHCA_WR_NOT_ASKED_FOR, /* send_ops_flags lack the operation */
	} kind;
	uint64_t number;
};

/*
 * A queue as the one who posts sees it. head and tail are free-running like the ring's own
 * indices: head counts WQEs written, tail those whose completion was polled. In between lie the
 * slots in use, at most max_wr. (A ring may have more entries than that.)
 */
struct shca_sq {
	struct shca_lock lock;
	uint32_t head;
	_Atomic uint32_t posted; /* head, as the device was told; peers can write what it is told */
	_Atomic uint32_t tail; /* moved by the poller; release, so that the slot is free to reuse */
	uint32_t mask;	       /* entries - 1 */
	uint32_t stride;       /* bytes */
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline; /* bytes */
	uint8_t *ring;
	/* by slot: the page list that belongs to the WQE there, or NULL; no array before the first
	 */
	_Atomic(struct shca_page_list **) page_lists;
	/* ibv_wr_start() .. ibv_wr_complete() */
	struct simhca_send_wqe *cur; /* the WQE under construction; NULL after an error */
	uint32_t start;		     /* head at wr_start: where an abort returns to */
	int err;
	struct shca_wr_wrong wrong;
	struct { /* the windows that are bound, and their new keys */
		struct ibv_mw *mw;
		uint32_t rkey;
	} * binds;
	uint32_t num_binds, room_for_binds;
	_Atomic(const char *) user; /* lint_threads.c: who posts to it, if it has no lock */
};

/*
 * A WQE's first buffer, to which the poller copies what a small SEND has left elsewhere. A peer that is
 * attached can write over it in the ring.
 */
struct shca_first_buffer {
	uint64_t addr;
	uint32_t length, lkey;
	/* Of a queue that several consume from: whether a receive that has not completed has the record. */
	_Atomic uint32_t used;
};

/* A receive queue, of a QP or shared. */
struct shca_rq {
	struct shca_lock lock;
	uint32_t head;
	_Atomic uint32_t posted; /* head, as the device was told */
	_Atomic uint32_t tail;
	uint32_t mask;
	uint32_t stride;
	uint32_t max_wr;
	uint32_t max_sge;
	uint8_t *ring;
	_Atomic uint32_t *pi; /* the device's view of head */
	uint32_t slot_data;   /* bytes from the start of a slot to its data; 0: it has none */
	/*
	 * NULL: all data are placed. By slot; where several consume from the queue, the slot may be
	 * posted to again before the receive in it has completed, so these are records that WQE and
	 * CQE name by their number plus 1. What finds its record used has none. Of an SRQ that is
	 * resized there are as many as before.
	 */
	struct shca_first_buffer *first;
	uint32_t first_mask;
	bool several;		    /* consume from it */
	struct shca_context *lint;  /* that looks at what is posted, or NULL */
	_Atomic(const char *) user; /* lint_threads.c: who posts to it, if it has no lock */
};

struct shca_srq {
	struct verbs_srq vsrq;
	struct shca_rq rq;
	struct simhca_srq_mem *mem;
	struct shca_segment own;   /* if it has one to itself */
	struct shca_chain cq_link; /* in its CQ's srqs */
	struct shca_home home;
};

struct shca_qp {
	struct verbs_qp vqp;
	struct shca_context *ctx;
	const struct simhca_qpc *qpc; /* the device's, read-only: the true state */
	struct simhca_qp_mem *mem;    /* NULL of XRC_RECV, which has no queues */
	uint32_t doorbell;	      /* slot in the doorbell bitmap */
	uint32_t send_ops;	      /* bit n: enum simhca_wr_opcode n is allowed */
	uint32_t pd;		      /* its handle */
	uint8_t sig_all;	      /* SIMHCA_WQE_SIGNALED if every WR is signaled */
	bool data_may_stay;	      /* of its receives, elsewhere than in their buffers */
	struct shca_sq sq;
	struct shca_rq rq;	       /* unused with an SRQ */
	struct shca_srq *srq;	       /* or NULL */
	struct simhca_srq_mem *claims; /* of its own RQ, if others consume from it; or NULL */
	struct shca_home home;
	struct simhcadv_qp_ex dv;
	struct shca_segment own;	  /* that mem and rings lie in, if it is theirs alone */
	uint32_t own_is_new;		  /* its number; 0: what is mapped is what the device has */
	struct simhca_fastpath *fastpath; /* NULL: the device carries all of its messages */
	struct shca_lint *lint;		  /* NULL: it is off */
	struct shca_attached *attached;	  /* fastpath.c; under the SQ's lock, with what follows */
	struct shca_destinations *destinations; /* likewise, of UD */
	uint32_t tries, next_try;    /* posts between attempts to attach it, and to the next */
	struct shca_chain send_link; /* in the send CQ's senders */
	struct shca_chain recv_link;
};

static inline struct shca_context *to_sctx(struct ibv_context *context)
{
	return SHCA_CONTAINER(struct shca_context, vctx.context, context);
}

static inline struct shca_cq *to_scq(struct ibv_cq *cq)
{
	return SHCA_CONTAINER(struct shca_cq, vcq.cq, cq);
}

static inline struct shca_cq *to_scq_ex(struct ibv_cq_ex *cq)
{
	return SHCA_CONTAINER(struct shca_cq, vcq.cq_ex, cq);
}

static inline struct shca_srq *to_ssrq(struct ibv_srq *srq)
{
	return SHCA_CONTAINER(struct shca_srq, vsrq.srq, srq);
}

static inline struct shca_qp *to_sqp(struct ibv_qp *qp)
{
	return SHCA_CONTAINER(struct shca_qp, vqp.qp, qp);
}

static inline struct shca_qp *to_sqp_ex(struct ibv_qp_ex *qp)
{
	return SHCA_CONTAINER(struct shca_qp, vqp.qp_ex, qp);
}

static inline struct shca_mr *to_smr(struct verbs_mr *vmr)
{
	return SHCA_CONTAINER(struct shca_mr, vmr, vmr);
}

static inline struct shca_mw *to_smw(struct ibv_mw *mw)
{
	return SHCA_CONTAINER(struct shca_mw, ibv_mw, mw);
}

static inline struct shca_qp *to_sqp_dv(struct simhcadv_qp_ex *qp)
{
	return SHCA_CONTAINER(struct shca_qp, dv, qp);
}

static inline struct shca_xrcd *to_sxrcd(struct ibv_xrcd *xrcd)
{
	return SHCA_CONTAINER(struct shca_xrcd, ibv_xrcd, xrcd);
}

static inline struct shca_pd *to_spd(struct ibv_pd *pd)
{
	return SHCA_CONTAINER(struct shca_pd, ibv_pd, pd);
}

static inline struct shca_ah *to_sah(struct ibv_ah *ah)
{
	return SHCA_CONTAINER(struct shca_ah, ibv_ah, ah);
}

/* relaxed: who destroys it while others post has lost already. */
static inline bool shca_ah_is_destroyed(struct ibv_ah *ah)
{
	return atomic_load_explicit(&to_sah(ah)->is_destroyed, memory_order_relaxed);
}

/* Messages for the person debugging; libibverbs writes them to the file VERBS_LOG_FILE. */
#define shca_warn(ctx, ...)                                                                        \
	do {                                                                                       \
		SIMHCA_NOT_CANCELLED;                                                              \
		__verbs_log(&(ctx)->vctx, VERBS_LOG_WARN, "simhca: " __VA_ARGS__);                 \
	} while (0)

#endif
