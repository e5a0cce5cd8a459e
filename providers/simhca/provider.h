/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The libibverbs provider of simhca: its objects, and who offers what.
 *
 * A context is one connection to the daemon (control path, command.h) and a few memory
 * segments shared with it (data path): doorbells, the rings and the run state of each queue.
 * Posting writes a WQE into a ring and rings the doorbell; polling reads CQEs from a ring.
 * Neither makes a system call unless the device sleeps.
 *
 * Locks: each send queue, receive queue and CQ has one (lock.h). A thread takes at most one
 * CQ's lock and, inside of it, at most the context's qp_lock. Posting never takes a CQ's lock:
 * the poller frees slots by moving the tail, which is atomic.
 *
 * When the daemon dies the context becomes fatal and stays so: posting and commands fail with
 * EIO, polling completes in software what is outstanding (flushed.c), destroying succeeds.
 */
#ifndef SHCA_PROVIDER_H
#define SHCA_PROVIDER_H

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

/*
 * True once nothing will ever complete: the daemon is gone, or the device says that it failed.
 * Acquire: whatever the device completed before is then visible in the rings.
 */
static inline bool shca_is_fatal(const struct shca_context *ctx)
{
	return atomic_load_explicit(&ctx->fatal, memory_order_acquire) ||
	       atomic_load_explicit(&ctx->dev->fatal, memory_order_acquire);
}

static inline uint32_t shca_qp_state(const struct shca_qp *qp)
{
	return atomic_load_explicit(&qp->qpc->state, memory_order_acquire);
}

static inline struct simhca_send_wqe *shca_sq_wqe(const struct shca_sq *sq, uint32_t index)
{
	return (struct simhca_send_wqe *)(sq->ring + (size_t)(index & sq->mask) * sq->stride);
}

static inline struct simhca_recv_wqe *shca_rq_wqe(const struct shca_rq *rq, uint32_t index)
{
	return (struct simhca_recv_wqe *)(rq->ring + (size_t)(index & rq->mask) * rq->stride);
}

/*
 * Posted and not yet polled. Another thread may be destroying the QP, its indices mean nothing
 * then; so more than there can be counts as none. Acquire: pairs with the release in posting.
 */
static inline uint32_t shca_sq_pending(const struct shca_qp *qp)
{
	uint32_t pending = atomic_load_explicit(&qp->sq.posted, memory_order_acquire) -
			   atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);

	return pending <= qp->sq.max_wr ? pending : 0;
}

static inline uint32_t shca_rq_pending(const struct shca_qp *qp)
{
	uint32_t pending = atomic_load_explicit(&qp->rq.posted, memory_order_acquire) -
			   atomic_load_explicit(&qp->rq.tail, memory_order_relaxed);

	return pending <= qp->rq.max_wr ? pending : 0;
}

/* Of an SRQ its QPs' CQs may be polled at the same time. */
static inline uint32_t shca_srq_pending(const struct shca_srq *srq)
{
	return atomic_load_explicit(&srq->rq.posted, memory_order_acquire) -
	       atomic_load_explicit(&srq->rq.tail, memory_order_relaxed);
}

/* Messages for the person debugging; libibverbs writes them to the file VERBS_LOG_FILE. */
#define shca_warn(ctx, ...)                                                                        \
	do {                                                                                       \
		SIMHCA_NOT_CANCELLED;                                                              \
		__verbs_log(&(ctx)->vctx, VERBS_LOG_WARN, "simhca: " __VA_ARGS__);                 \
	} while (0)

/* fork.c: from here on a forked child finds the context's mutex free; until it is removed. */
void shca_fork_add(struct shca_context *ctx);
void shca_fork_remove(struct shca_context *ctx);
/* The same, before a child's handlers have all been called. */
void shca_fork_inherit(struct shca_context *ctx);

/*
 * segments.c: what a reference into context memory points to; NULL and errno on failure. own: the
 * segment that the queue may have to itself, or NULL; with it goes that mapping.
 */
void *shca_map(struct shca_context *ctx, struct shca_segment *own, const struct simhca_mem_ref *ref,
	       uint64_t bytes);
/* Another file, which is closed, in the place of the one that is mapped there: 0 or errno. */
int shca_map_over(struct shca_segment *own, int fd, uint64_t size);
/* The device has put another file in the place of that segment: 0 or errno. */
int shca_map_again(struct shca_context *ctx, struct shca_segment *own, uint32_t number);
void shca_unmap(struct shca_segment *own);
int shca_map_whole(int fd, uint64_t size, int prot, void **addr);
/*
 * What is shared with the device, at addresses where the program has nothing and will have nothing: in a
 * hole that a buffer has left, which was unmapped while it was registered, messages would be read from
 * the queue and written to it. MAP_FAILED and errno on failure.
 */
void *shca_map_file(int fd, uint64_t offset, uint64_t size, int prot);
void shca_unmap_all(struct shca_context *ctx);

/* simhca.c */
extern const char shca_driver_name[];
bool shca_is_ours(const struct ibv_device *device);
/* By which the device tells this context of an object's events. */
struct simhca_user_handle shca_user_handle(struct shca_context *ctx, const void *element);

/* query.c */
int shca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int shca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
int shca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int shca_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed);

/* pd.c */
struct ibv_pd *shca_alloc_pd(struct ibv_context *context);
int shca_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *shca_import_pd(struct ibv_context *context, uint32_t handle);
void shca_unimport_pd(struct ibv_pd *pd);

/* domain.c: thread domains, parent domains, and what is made in them */
struct ibv_td *shca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int shca_dealloc_td(struct ibv_td *td);
struct ibv_pd *shca_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);
int shca_dealloc_parent_domain(struct shca_pd *domain);
void shca_pd_put(struct shca_pd *pd); /* a reference less */
/*
 * Zeroed memory for the provider's part of an object on pd, which may be NULL; NULL and errno.
 * What it says in home is for shca_home_free(), which the memory itself may hold.
 */
void *shca_home_alloc(struct ibv_pd *pd, enum simhcadv_res_type type, size_t size,
		      struct shca_home *home);
void shca_home_free(struct shca_home home, void *ptr);

/* Whether one thread at a time uses the object. */
static inline bool shca_home_is_single_threaded(const struct shca_home *home)
{
	return home->domain && home->domain->td;
}

/* dm.c */
struct ibv_dm *shca_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int shca_free_dm(struct ibv_dm *dm);
struct ibv_dm *shca_import_dm(struct ibv_context *context, uint32_t handle);
void shca_unimport_dm(struct ibv_dm *dm);
int shca_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* comp_cntr.c: completion counters */
#if SIMHCA_PABI >= 65
int shca_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);
struct ibv_comp_cntr *shca_create_comp_cntr(struct ibv_context *context,
					    struct ibv_comp_cntr_init_attr *attr);
int shca_destroy_comp_cntr(struct ibv_comp_cntr *counter);
int shca_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			     struct ibv_qp_attach_comp_cntr_attr *attr);
int shca_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int shca_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int shca_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int shca_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int shca_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int shca_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
#endif

/* dmah.c: DMA handles, and registration with them */
#if SIMHCA_PABI >= 59
struct ibv_dmah *shca_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int shca_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *shca_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
#endif
void shca_dmah_put(struct shca_mr *mr); /* the region is gone */

/* mr.c; shca_alloc_mr() makes a fast-register region */
struct ibv_mr *shca_alloc_mr(struct ibv_pd *pd, uint32_t max_page_list_len);
struct ibv_mr *shca_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *shca_alloc_null_mr(struct ibv_pd *pd);
int shca_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int shca_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *shca_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access);
struct ibv_mr *shca_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access);
struct ibv_mr *shca_import_mr(struct ibv_pd *pd, uint32_t handle);
void shca_unimport_mr(struct ibv_mr *mr);

/* odp.c: on-demand paging */
void shca_odp_offer_events(struct shca_context *ctx);
/* Of an ordinary region: the device is to note what leaves it, if it can be told. */
void shca_odp_watch(struct shca_context *ctx, uint32_t handle, uint64_t addr, uint64_t length);
int shca_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg_list, uint32_t num_sge);

/* mw.c */
struct ibv_mw *shca_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shca_dealloc_mw(struct ibv_mw *mw);
int shca_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* page_list.c: the page lists of the WQEs from .. to - 1 belong to the application again */
void shca_page_lists_return(struct shca_sq *sq, uint32_t from, uint32_t to);
void shca_page_lists_free(struct shca_sq *sq);

/* ah.c */
struct ibv_ah *shca_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int shca_destroy_ah(struct ibv_ah *ah);
void shca_av_from_attr(struct simhca_av *av, const struct ibv_ah_attr *attr);
void shca_av_to_attr(const struct simhca_av *av, struct ibv_ah_attr *attr);

/* cq.c: creating, resizing, destroying, arming */
struct ibv_cq *shca_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int shca_resize_cq(struct ibv_cq *cq, int cqe);
int shca_destroy_cq(struct ibv_cq *cq);
void shca_cq_event(struct ibv_cq *cq);
/* The device has gone: who sleeps on completion channels is told. */
void shca_channels_end(struct shca_context *ctx);
int shca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int shca_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* renew.c: those of a QP's queues that the device says (enum simhca_renew); and, locked, one */
void shca_renew_queues(const struct shca_qp *qp, uint32_t which);
void shca_cq_renew(struct shca_cq *cq);
void shca_srq_renew(struct shca_context *ctx, struct shca_srq *srq);
void shca_cq_attach_qp(struct shca_qp *qp);
void shca_cq_detach_qp(struct shca_qp *qp);
void shca_cq_reset_qp(struct shca_qp *qp);
void shca_cq_attach_srq(struct shca_cq *cq, struct shca_srq *srq);
void shca_cq_detach_srq(struct shca_cq *cq, struct shca_srq *srq);

static inline void shca_cq_lock(struct shca_cq *cq)
{
	if (!cq->single_threaded)
		shca_lock(&cq->lock);
}

/* say.c: for verb, which may be told to wait for what another thread, or this one, has begun. */
void shca_sq_lock_wait(struct shca_qp *qp, const char *verb);
void shca_cq_lock_wait(struct shca_cq *cq, const char *verb);

static inline void shca_sq_lock(struct shca_qp *qp, const char *verb)
{
	if (__builtin_expect(!shca_trylock(&qp->sq.lock), 0))
		shca_sq_lock_wait(qp, verb);
}

static inline void shca_cq_lock_for(struct shca_cq *cq, const char *verb)
{
	if (__builtin_expect(!cq->single_threaded && !shca_trylock(&cq->lock), 0))
		shca_cq_lock_wait(cq, verb);
}

static inline bool shca_cq_trylock(struct shca_cq *cq)
{
	return cq->single_threaded || shca_trylock(&cq->lock);
}

static inline void shca_cq_unlock(struct shca_cq *cq)
{
	if (!cq->single_threaded)
		shca_unlock(&cq->lock);
}

/* poll.c: taking CQEs */
int shca_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int shca_start_poll(struct ibv_cq_ex *cq_ex, struct ibv_poll_cq_attr *attr);
void shca_end_poll(struct ibv_cq_ex *cq_ex);
void shca_cq_set_readers(struct shca_cq *cq, uint64_t wc_flags);

/* The CQE with this index, or NULL when the device has not written it yet. */
static inline struct simhca_cqe *shca_cq_peek(const struct shca_cq *cq, uint32_t index)
{
	struct simhca_cqe *cqe = &cq->ring[index & cq->mask];

	/* Acquire: the rest of the CQE is read after the seq that publishes it. */
	return atomic_load_explicit(&cqe->seq, memory_order_acquire) == index + 1 ? cqe : NULL;
}

/* The CQEs that wait, oldest first; no more than the ring has, whatever a peer writes there. */
#define SHCA_CQ_FOREACH(cq, cqe, n)                                                                \
	for ((n) = 0; (n) <= (cq)->mask && ((cqe) = shca_cq_peek(cq, (cq)->ci + (n))); (n)++)

/* Release: the device may overwrite a CQE only after it was read. */
static inline void shca_cq_publish_ci(struct shca_cq *cq)
{
	atomic_store_explicit(&cq->mem->ci, cq->ci, memory_order_release);
}

/*
 * What the poster has noted of a receive that has completed, by the number that its CQE has. It is the
 * caller's until shca_rq_drop_record(). NULL: there is no such record, or nobody uses it.
 */
static inline struct shca_first_buffer *shca_rq_take_record(const struct shca_rq *rq,
							    uint32_t record)
{
	uint32_t used = 1;

	if (!rq->several || !rq->first || record - 1 > rq->first_mask)
		return NULL;
	/* acquire: the record was written before. Two pollers may be told of the same one. */
	if (!atomic_compare_exchange_strong_explicit(&rq->first[record - 1].used, &used, 2,
						     memory_order_acquire, memory_order_relaxed))
		return NULL;
	return &rq->first[record - 1];
}

/* release: the poller is done with it. */
static inline void shca_rq_drop_record(struct shca_first_buffer *record)
{
	atomic_store_explicit(&record->used, 0, memory_order_release);
}

/* A receive has completed, and what came for it is of no use. */
static inline void shca_rq_forget_record(const struct shca_rq *rq, uint32_t number)
{
	struct shca_first_buffer *record = shca_rq_take_record(rq, number);

	if (record)
		shca_rq_drop_record(record);
}

/* The receives that have records are gone. */
static inline void shca_rq_drop_records(const struct shca_rq *rq)
{
	for (uint32_t i = 0; rq->several && rq->first && i <= rq->first_mask; i++)
		shca_rq_drop_record(&rq->first[i]);
}

/*
 * A receive WQE has completed. Of an SRQ they complete on any number of CQs at once. False: none was
 * posted that has not completed.
 */
static inline bool shca_srq_release(struct shca_srq *srq)
{
	uint32_t tail = atomic_load_explicit(&srq->rq.tail, memory_order_relaxed), next;

	do
		if (!shca_gate_completed(
			    tail, tail, atomic_load_explicit(&srq->rq.posted, memory_order_relaxed),
			    UINT32_MAX / 2, &next))
			return false;
	while (!atomic_compare_exchange_weak_explicit(&srq->rq.tail, &tail, next,
						      memory_order_release, memory_order_relaxed));
	return true;
}

/* What uses a CQ, each by its link there. */
static inline struct shca_qp *shca_sender(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_qp, send_link, link);
}

static inline struct shca_qp *shca_receiver(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_qp, recv_link, link);
}

static inline struct shca_srq *shca_completing_srq(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_srq, cq_link, link);
}

#define SHCA_CHAIN_FOREACH(link, list)                                                             \
	for ((link) = shca_chain_next(list); (link); (link) = shca_chain_next(link))

/* The SRQ that a CQE with SRQ_CQ is of, or NULL. The caller holds the CQ's lock. */
static inline struct shca_srq *shca_cq_srq(const struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	struct shca_chain *link;

	SHCA_CHAIN_FOREACH(link, &cq->srqs)
	if (shca_completing_srq(link)->vsrq.srq_num == cqe->wqe_index)
		return shca_completing_srq(link);
	return NULL;
}

/* flushed.c: completions made in software */
bool shca_flush_one(struct shca_cq *cq, struct simhca_cqe *cqe);

/* xrc.c */
struct ibv_xrcd *shca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int shca_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *shca_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* srq.c */
struct ibv_srq *shca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *shca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int shca_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int shca_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int shca_destroy_srq(struct ibv_srq *srq);
int shca_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
int shca_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);

/* qp.c */
uint32_t shca_send_ops(enum ibv_qp_type type);
/* The device's and the public part of a QP that was created or opened. */
void shca_qp_init(struct shca_qp *qp, struct ibv_context *context, uint32_t handle, uint32_t qpn,
		  void *qp_context, enum ibv_qp_type type);
struct ibv_qp *shca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *shca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* Likewise; flags: enum simhcadv_qp_create_flags. */
struct ibv_qp *shca_create_qp_with(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   uint32_t flags);
int shca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int shca_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int shca_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int shca_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init_attr);
int shca_destroy_qp(struct ibv_qp *qp);
int shca_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int shca_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* For WQs, which are QPs to posting and polling. */
int shca_qp_map_queues(struct shca_qp *qp, const struct simhca_create_qp_reply *reply);
void shca_qp_start_over(struct shca_qp *qp);

/* wq.c */
struct ibv_wq *shca_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int shca_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int shca_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *shca_create_rwq_ind_table(struct ibv_context *context,
						    struct ibv_rwq_ind_table_init_attr *attr);
int shca_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* flow.c */
struct ibv_flow *shca_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int shca_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *shca_create_counters(struct ibv_context *context,
					  struct ibv_counters_init_attr *attr);
int shca_destroy_counters(struct ibv_counters *counters);
int shca_attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow);
int shca_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t num_values,
		       uint32_t flags);

/* qp_table.c */
int shca_qp_table_add(struct shca_qp *qp);
/* Where it completes from now on; NULL: nowhere. Under the CQ's lock, if it has completed there. */
void shca_qp_table_set_send_cq(struct shca_qp *qp, const struct shca_cq *cq);
void shca_qp_table_set_recv_cq(struct shca_qp *qp, const struct shca_cq *cq);
void shca_qp_table_remove(struct shca_qp *qp);
void shca_qp_table_free(struct shca_context *ctx);

/* NULL: no QP had a number near this one. */
static inline struct shca_qp_entry *shca_qp_entry(struct shca_context *ctx, uint32_t qpn)
{
	uint32_t slot = SIMHCA_QPN_SLOT(qpn);
	struct shca_qp_entry *leaf =
		atomic_load_explicit(&ctx->qps[slot / SHCA_QPS_PER_LEAF], memory_order_acquire);

	return leaf ? &leaf[slot % SHCA_QPS_PER_LEAF] : NULL;
}

/* wr.c, wr_ex.c, wr_dv.c */
int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int shca_post_rq(struct shca_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void shca_wr_start(struct ibv_qp_ex *ex);
int shca_wr_complete(struct ibv_qp_ex *ex);
void shca_wr_abort(struct ibv_qp_ex *ex);
int shca_qp_set_builders(struct shca_qp *qp, uint64_t send_ops_flags);
void shca_qp_set_dv_builders(struct shca_qp *qp, uint64_t send_ops_flags);

#endif
