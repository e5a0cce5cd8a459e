/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The model's objects as its own files see them. simhca.h is what the outside sees.
 *
 * Locks, in the order in which they may be taken:
 *	qp->req_lock    requester and completer state of one QP (simhca_qp_begin)
 *	qp->resp_lock   responder state; of the peer's QP, while the requester's is held
 *	srq->lock, cq->lock, device->mcast_lock, device->flow_lock
 *	key->lock       of a window, then of a region; never two of one kind
 *	engine->lock    the run queue and the timers of an engine
 * The first two may be held while data move through a client's memory, which can take as long as
 * that client likes. So nobody waits for them: engines come back later, and control functions
 * try for a moment and return -EAGAIN. The others are held for moments only.
 *
 * What a step finds in the device's tables stays alive until the step ends (guard.h).
 */
#ifndef LIBSIMHCA_MODEL_H
#define LIBSIMHCA_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <uthash.h>

#include "dma/dma.h"
#include "engine/guard.h"
#include "transport/link.h"
#include "transport/qp_log.h"
#include "transport/requester.h"
#include "simhca.h"
#include "engine/stats.h"
#include "engine/timer.h"
#include "transport/turn.h"

/* ------------------------------------------------------------------- fabric */

struct simhca_fabric {
	struct simhca_ops ops;
	struct simhca_device *devices; /* grows only while no engine runs a step on them */
	struct simhca_engine *engines;
	pthread_rwlock_t lock; /* of both lists */
	/* Goes up when a QP, port or address comes or goes: then a peer is looked up anew. */
	_Atomic uint64_t generation;
	const struct simhca_link *link; /* of all QPs but those for raw frames */
	uint32_t next_context_id;
	struct simhca_atomicity *atomicities; /* control functions only */
	uint32_t stats_blocks;		      /* bit n: a thread counts in block n */
	struct simhca_faults *faults;	      /* odp.h */
	pthread_mutex_t pager_lock;
	struct simhca_pager *pagers;
	uint64_t next_pager;
	int pager_epoll; /* of the pagers' userfaultfds, and of pager_stop */
	int pager_stop;	 /* eventfd */
};

/* A QP, port or address has come or gone; raised after that can be seen. */
static inline void simhca_fabric_changed(struct simhca_fabric *fabric)
{
	atomic_fetch_add_explicit(&fabric->generation, 1, memory_order_seq_cst);
}

/* CLOCK_MONOTONIC, whatever clock an engine has. */
uint64_t simhca_now_ns(void);
/* Lets go of what a client handed over, or of memory that is large: simhca_ops' release. */
void simhca_release(const struct simhca_fabric *fabric, void *base, uint64_t size, int fd);
void simhca_log(const struct simhca_fabric *fabric, enum simhca_log_level level, const char *format,
		...) __attribute__((format(printf, 3, 4)));

/* Waits a moment until no engine uses what was unlinked of this context; false if one still does.
 */
bool simhca_fabric_synchronize(struct simhca_fabric *fabric, uint32_t context_id);

/* ------------------------------------------------------------------- engine */

/*
 * Translations that one packet needs: both ends' SGEs, and what the rkey names; or on UD one SGE
 * more, in which the GRH ends and the payload begins.
 */
#define SIMHCA_MAX_HELD (2 * SIMHCA_MAX_SGE + 1)

struct simhca_key;
struct simhca_odp;
struct simhca_pager;
struct simhca_fault;
struct simhca_advice;

/* A thread that runs an engine; or a test that polls it. */
struct simhca_worker {
	struct simhca_guard guard;
	struct simhca_engine *engine;
	struct simhca_worker *next; /* in the engine's list, under the fabric's lock */
	/* When simhca_engine_stuck() last looked and the guard had moved: */
	uint64_t watched; /* its count */
	uint64_t watched_cpu_ns;
	uint32_t rounds;
	uint32_t stats_block;
	pid_t tid;
	pthread_t thread;
	uint32_t lane; /* it sleeps in this one */
	bool slept;    /* since it had the baton */
	/* Since it has the baton (baton.c). */
	uint64_t awake_ns;
	uint32_t finds; /* rounds with work */
	bool guest;	/* it was invited */
	bool roams;	/* it may run on any CPU, not just its lane's */
	void *scratch;	/* SIMHCA_DMA_SCRATCH bytes */
	/* The QP whose requester has its turn: on the local link answers are for it. */
	struct simhca_qp *requester;
	/* A message of its, as it was read last: that of ring index send_index, if send_of is it.
	 */
	struct simhca_send *send;
	struct simhca_qp *send_of;
	uint32_t send_index;
	/* Bytes [offset, offset + length) of it, where a response that comes at once is to go. */
	struct {
		const struct simhca_sgl *sgl; /* NULL: to be looked up */
		uint64_t offset, length;
	} landing;
	/* Keys that this step's accesses use, for simhca_key_release(). */
	struct simhca_key *held[SIMHCA_MAX_HELD];
	uint32_t num_held;
	/* On-demand memory that was translated last, and is not present. */
	struct {
		struct simhca_odp *odp;
		uint64_t addr, length;
	} absent[SIMHCA_MAX_SGE];
	uint32_t num_absent;
};

/*
 * Where threads of an engine sleep: one lane for each CPU that it has a thread on. A program rings
 * on the CPU that it runs on, so that no wake-up crosses CPUs.
 */
struct simhca_lane {
	int epoll_fd;
	int wake_fd;	   /* eventfd: somebody other than a doorbell has work for us */
	bool was_readable; /* when simhca_engine_stuck() last looked */
};

/* Who of an engine's threads works; see baton.c. */
struct simhca_baton {
	_Atomic(struct simhca_worker *) holder; /* NULL: all sleep, or are about to */
	_Atomic(struct simhca_worker *) heir;	/* waits to become the holder */
	_Atomic uint32_t invited; /* lane whose thread is to become the heir, plus 1 */
	/* The holder's. */
	uint32_t last_lane;
	uint32_t streak;   /* wake-ups of that lane in a row */
	uint32_t patience; /* a streak so long and a thread of another lane is invited */
	uint64_t released_ns;
};

struct simhca_engine {
	struct simhca_worker poller;   /* of simhca_engine_poll() */
	struct simhca_worker *workers; /* the newest first */
	struct simhca_fabric *fabric;
	struct simhca_engine_config config;
	struct simhca_engine *next;
	pthread_mutex_t lock;
	struct simhca_qp *run_queue; /* utlist, in the order of arrival */
	struct simhca_timers timers;
	pthread_mutex_t context_lock;	 /* of the two that follow; before lock */
	struct simhca_context *contexts; /* uthash, by id */
	struct simhca_context
		*active; /* utlist: contexts whose doorbells are polled; the others are armed */
	struct simhca_lane lane[SIMHCA_MAX_LANES];
	uint32_t lanes;
	struct simhca_baton baton;
	atomic_bool stop;
};

uint64_t simhca_engine_now(const struct simhca_engine *engine);
/* Puts a QP on the run queue, once, and wakes the engine if it sleeps. */
void simhca_engine_schedule(struct simhca_engine *engine, struct simhca_qp *qp);
/* 0 or -errno. */
int simhca_engine_attach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_detach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_forget_qp(struct simhca_qp *qp);
/* When it expires the QP is scheduled, with timer_fired set to the deadline that is returned. */
uint64_t simhca_engine_arm_timer(struct simhca_qp *qp, uint64_t delay_ns);
void simhca_engine_cancel_timer(struct simhca_qp *qp);
/* For other objects than QPs. False: out of memory. Who frees it stops it, and synchronizes. */
bool simhca_engine_start_timer(struct simhca_engine *engine, struct simhca_timer *timer,
			       uint64_t delay_ns);
void simhca_engine_stop_timer(struct simhca_engine *engine, struct simhca_timer *timer);

/* ------------------------------------------------------------------- device */

/*
 * 24-bit numbers of QPs, or of SRQs: a slot, given out in turn, and a generation that changes with
 * each use, so that a late packet misses a slot's next owner. Control functions only.
 */
struct simhca_numbers {
	uint32_t slots, next;
	uint8_t *generation;
	bool *taken;
};
bool simhca_numbers_init(struct simhca_numbers *numbers, uint32_t slots);
void simhca_numbers_free(struct simhca_numbers *numbers);
uint32_t simhca_number_take(struct simhca_numbers *numbers); /* 0: all are in use */
void simhca_number_give(struct simhca_numbers *numbers, uint32_t number);

struct simhca_mcast_group {
	union simhca_gid gid;
	struct simhca_qp **members;
	uint32_t count;
	struct simhca_mcast_group *next;
};

struct simhca_device {
	struct simhca_fabric *fabric;
	struct simhca_device *next;
	struct simhca_device_config config;
	struct simhca_log_share log_share; /* of XRC targets */
	int memory_fd;
	struct simhca_devmem *mem;
	struct simhca_qpc *qpcs;	  /* in device memory */
	struct simhca_mpt *mpts;	  /* in device memory */
	struct simhca_key *_Atomic *keys; /* by key index: what an mpt cannot say */
	struct simhca_qp *_Atomic *qps;	  /* by QPN slot */
	struct simhca_srq *_Atomic *srqs; /* XRC SRQs by SRQN slot */
	struct simhca_numbers qpns, srqns;
	uint32_t next_key_index;
	struct {
		uint32_t pd, mr, mw, ah, cq, srq, qp, xrcd, dm, wq, rwq_table, flow, counters,
			comp_cntr;
	} alive;
	uint32_t next_pd, next_cq, next_xrcd;
	struct simhca_xrcd *xrcds; /* control functions only */
	uint64_t dm_used;	   /* bytes of on-chip memory */
	uint32_t file_mrs;
	uint64_t file_mr_bytes;
	struct simhca_context *contexts;
	pthread_rwlock_t mcast_lock;
	struct simhca_mcast_group *groups;
	uint32_t group_count;
	struct simhca_stats_block *stats; /* SIMHCA_STATS_BLOCKS */
	simhca_gmp_handler *gmp;	  /* takes what comes in at QP 1 */
	void *gmp_arg;
	pthread_rwlock_t flow_lock;
	struct simhca_flow *flows;	/* in the order in which they are asked (flow.c) */
	_Atomic uint64_t odp_count[16]; /* by enum simhca_odp_count (odp.h) */
};

/* ------------------------------------------------------------------ context */

enum simhca_object_type {
	SIMHCA_OBJ_PD,
	SIMHCA_OBJ_MR,
	SIMHCA_OBJ_MW,
	SIMHCA_OBJ_AH,
	SIMHCA_OBJ_CQ,
	SIMHCA_OBJ_SRQ,
	SIMHCA_OBJ_QP,
	SIMHCA_OBJ_XRCD,
	SIMHCA_OBJ_DM,
	SIMHCA_OBJ_WQ,
	SIMHCA_OBJ_RWQ_TABLE,
	SIMHCA_OBJ_FLOW,
	SIMHCA_OBJ_COUNTERS,
	SIMHCA_OBJ_COMP_CNTR,
	SIMHCA_OBJ_TYPES,
};

/* Handles of one type: an index into slots; free slots hold NULL. */
struct simhca_handles {
	void **slot;
	uint32_t room;
	uint32_t count;
	uint32_t hint; /* no free slot below */
};
int simhca_handle_add(struct simhca_handles *handles, void *object, uint32_t *handle);
void *simhca_handle_get(const struct simhca_handles *handles, uint32_t handle);
void simhca_handle_remove(struct simhca_handles *handles, uint32_t handle);

/* A free run of a segment. */
struct simhca_hole {
	uint64_t offset, length;
	struct simhca_hole *next;
};

struct simhca_segment {
	int fd;
	char *base;
	uint64_t size;
	struct simhca_hole *holes; /* by offset, never adjacent */
};

struct simhca_context {
	struct simhca_device *device;
	struct simhca_engine *engine;
	struct simhca_context *next; /* in the device's list */
	UT_hash_handle hh;	     /* in its engine's contexts */
	struct simhca_context *active_prev, *active_next;
	bool active; /* its engine polls the doorbells; else they are armed */
	uint32_t idle_rounds;
	atomic_bool dead;
	uint32_t id;
	struct simhca_log_share log_share;
	void *arg;			   /* of the upcalls */
	int doorbell_fd[SIMHCA_MAX_LANES]; /* by lane of the engine */
	uint32_t doorbells;
	struct simhca_ctx_mem *mem;
	struct simhca_segment segment[SIMHCA_MAX_SEGMENTS];
	uint32_t segments;
	struct simhca_mm *mms;
	struct simhca_handles handles[SIMHCA_OBJ_TYPES];
	struct simhca_qp *_Atomic *doorbell; /* by doorbell slot */
	uint32_t doorbell_hint;
	uint64_t dm_used;	       /* bytes of on-chip memory */
	struct simhca_advice *advices; /* under faults.lock */
	uint32_t num_advices;
	uint64_t next_advice;
	uint32_t dying, dying_handle; /* where its destruction goes on */
};

/* Zeroed memory in the context's segments; *where and the address in this process. NULL: why says.
 */
void *simhca_context_alloc(struct simhca_context *context, uint64_t bytes,
			   struct simhca_mem_ref *where, struct simhca_why *why);
void simhca_context_free(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes);

void *simhca_object(struct simhca_context *context, enum simhca_object_type type, uint32_t handle,
		    struct simhca_why *why);
/* Files an object under a new handle and counts it, within the device's limit. */
int simhca_object_add(struct simhca_context *context, enum simhca_object_type type, void *object,
		      uint32_t *handle, struct simhca_why *why);
void simhca_object_remove(struct simhca_context *context, enum simhca_object_type type,
			  uint32_t handle);

void simhca_async_event(struct simhca_context *context, struct simhca_user_handle user,
			uint32_t type);

/* A GID table entry; false if there is none or it is empty. For engines. */
bool simhca_device_gid(struct simhca_device *device, uint32_t index, union simhca_gid *gid);

/* ------------------------------------------------------------------ objects */

struct simhca_pd {
	uint32_t number; /* in the device */
	uint32_t users;
};

/* What an entry of the protection table stands for: a region or a window. */
struct simhca_key {
	struct simhca_pd *pd;
	struct simhca_mm *mm; /* regions: where they lie */
	struct simhca_mpt *mpt;
	uint32_t index;
	/*
	 * An ordinary region changes only after it was withdrawn, so nobody needs this lock to use
	 * it. Windows and fast-register regions are changed by work requests while others use
	 * them: the lock covers their mpt and what follows here. It also covers mpt->bound of
	 * every region, with the step from "nothing bound" to FREE.
	 */
	pthread_mutex_t lock;
	uint32_t holds;		   /* accesses under way, of what work requests change */
	struct simhca_key *region; /* windows: the region that it is bound to */
	uint64_t region_offset;	   /* windows: bytes from the region's start to its own */
	uint64_t *pages;	   /* fast-register regions: room for mpt->pages addresses */
	uint64_t first_byte;	   /* fast-register regions: offset into the first page */
	uint32_t *dm_users;	   /* regions of on-chip memory: its count of them */
	bool of_file;		   /* the region's mm is its own, and maps a file */
	struct simhca_odp *odp;	   /* on-demand regions */
};

struct simhca_ah {
	struct simhca_pd *pd;
};

struct simhca_cq {
	struct simhca_context *context;
	uint32_t number; /* in the device */
	pthread_mutex_t lock;
	struct simhca_cq_mem *mem;
	struct simhca_cqe *ring;
	uint32_t entries, cqe, flags;
	bool overrun;
	uint64_t pushed;    /* CQEs since it was made */
	uint64_t solicited; /* what pushed was after the last one that was solicited, or in error */
	/* moderation, if mod_count is not 0 */
	uint32_t mod_count, mod_period_us;
	uint32_t held;		   /* completions whose event waits for more of them */
	bool timed;		   /* the timer has been used */
	struct simhca_timer timer; /* of its context's engine: until held ones are told of */
	struct simhca_user_handle user_handle;
	uint64_t channel;
	uint32_t users;
	struct simhca_mem_ref mem_ref, ring_ref;
};

/* An XRC domain, shared by the contexts that have it open; xrcd.c. */
struct simhca_xrcd {
	struct simhca_xrcd *next; /* in the device's list */
	uint32_t number;	  /* in the device */
	int file;		  /* holds the inode, lest its number name another; -1: none */
	uint64_t dev, ino;
	uint32_t opens;
};

/* What a context's handle of a domain stands for. */
struct simhca_xrcd_open {
	struct simhca_xrcd *xrcd;
	uint32_t users; /* SRQs and QPs of this context */
};

struct simhca_srq {
	struct simhca_context *context;
	struct simhca_pd *pd;
	uint32_t type, srqn;
	struct simhca_xrcd_open *domain; /* XRC: through which it is in its domain */
	struct simhca_cq *cq;	  /* XRC, tag matching: where its receives complete; else NULL */
	struct simhca_tags *tags; /* tag matching: the list, of at most max_tags; under lock */
	uint32_t max_tags;
	pthread_mutex_t lock;
	struct simhca_srq_mem *mem;
	char *ring;
	uint32_t entries, stride, max_wr, max_sge, limit;
	struct simhca_user_handle user_handle;
	uint32_t users;
	struct simhca_mem_ref mem_ref, ring_ref;
};

/* A receive WQE, as it was read last: the client can change it at any time. */
struct simhca_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint64_t length; /* of all SGEs */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
};

#define SIMHCA_TMH_BYTES 16u

static inline bool simhca_tm_matched(const struct simhca_tm_message *message)
{
	return message->kind == SIMHCA_TM_EAGER || message->kind == SIMHCA_TM_RNDV;
}

/* A send WQE likewise, with its inline data. */
struct simhca_send {
	struct simhca_send_wqe wqe;
	uint64_t length; /* of the message */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
	uint8_t data[SIMHCA_MAX_INLINE];
};

/* A turn that somebody has. */
struct simhca_turn {
	uint64_t generation; /* of the copy that counts */
	bool wanted;	     /* by others, since it began */
};

/* A handle of an XRC_RECV QP. */
struct simhca_qp_open {
	struct simhca_qp_open *next;
	struct simhca_context *context;
	struct simhca_xrcd_open *domain;
	uint32_t handle;
	struct simhca_user_handle user_handle;
};

/*
 * An XRC_RECV QP (xrc_target.c) outlives the context that made it, if others have it open. So it
 * belongs to none: it has no rings, doorbell, timer or PD, its run state is the device's own
 * memory, and no engine ever runs it; only its responder works, on the engine of who sends.
 */
struct simhca_qp {
	struct simhca_context *context; /* NULL of an XRC_RECV QP, and so are PD and CQs */
	struct simhca_device *device;
	struct simhca_xrcd *xrcd; /* XRC_RECV; and then who has it open, under opens_lock */
	struct simhca_qp_open *opens;
	pthread_mutex_t opens_lock;
	struct simhca_pd *pd;
	struct simhca_cq *send_cq, *recv_cq;
	struct simhca_srq *srq;
	struct simhca_qpc *qpc;
	uint32_t qpn, type;
	uint32_t doorbell; /* slot in the context's bitmap */
	struct simhca_user_handle user_handle;
	atomic_bool dead;	  /* being destroyed: nothing more is scheduled */
	bool drained_event_due;	  /* SQD: raise SQ_DRAINED; under req_lock */
	bool last_wqe_event_due;  /* with an SRQ, on the way to ERR; under req_lock */
	uint32_t users;		  /* flows to this QP; places of this WQ in tables */
	bool strip_cvlan;	  /* RAW_PACKET, WQ: C-VLAN tags go into the CQE; under resp_lock */
	struct simhca_rss *rss;	  /* an RSS QP: how it chooses a WQ (ethernet.h) */
	struct simhca_cast *cast; /* RAW_PACKET: who has the frame under way; under req_lock */
	struct simhca_comp_cntr *comp_cntr[SIMHCA_COUNTS_OPS]; /* under both locks; NULL: none */
	struct simhca_rndv *rndv; /* to be fetched, oldest first; under the lock of its SRQ */
	atomic_bool rndv_waits;	  /* there are some */

	const struct simhca_link *link;
	struct simhca_qp_mem *mem;
	char *sq, *rq;
	char *held; /* behind mem: a receive that was taken off an SRQ; NULL: it has none */
	uint32_t sq_entries, sq_stride, rq_entries, rq_stride;
	struct simhca_mem_ref mem_ref, sq_ref, rq_ref;

	/* on an engine's run queue */
	atomic_bool queued;
	struct simhca_engine *_Atomic queue_engine;
	struct simhca_qp *prev, *next;
	struct simhca_timer timer; /* under the lock of its context's engine */

	_Atomic uint64_t timer_fired; /* the deadline that passed last */

	/* requester and completer; under req_lock, and in a turn (turn.h) */
	pthread_mutex_t req_lock;
	atomic_bool again; /* somebody found req_lock taken: its holder schedules the QP anew */
	struct simhca_turn req_turn;
	struct simhca_requester req;
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS]; /* by ring index */
	bool rndv_runs; /* the one under way is a rendezvous', and no WQE */
	struct {
		struct simhca_qp *qp; /* whom its address names; NULL: nobody */
		uint64_t generation;  /* the fabric's when it was looked up; 0: never */
	} peer;

	/* responder; under resp_lock, and in a turn */
	pthread_mutex_t resp_lock;
	struct simhca_turn resp_turn;
	struct simhca_responder resp;
	struct simhca_srq *xrc_srq; /* XRC_RECV: that of resp.srqn, in a step only */

	/*
	 * Made when first needed, each under the lock of its side; for others, by
	 * simhca_faults_*().
	 */
	struct simhca_fault *_Atomic fault[SIMHCA_FAULT_CONTEXTS];
	_Atomic uint64_t faults_off_until; /* ns: no fault is raised before */
	_Atomic uint32_t fault_count[SIMHCA_FAULT_CONTEXTS];
};

/* The message under way that is so many younger than the oldest. */
static inline struct simhca_flight *simhca_flight(struct simhca_qp *qp, uint32_t younger)
{
	return &qp->flight[(qp->req.oldest + younger) % SIMHCA_MAX_FLIGHTS];
}

static inline const struct simhca_flight *simhca_flight_of(const struct simhca_qp *qp,
							   uint32_t younger)
{
	return &qp->flight[(qp->req.oldest + younger) % SIMHCA_MAX_FLIGHTS];
}

/* ------------------------------------------- protection (key.c, mr.c, mw.c, fast_reg.c) */

/*
 * One table serves regions, windows and fast-register regions. A key names an entry; what may be
 * done with it depends on who asks.
 *
 * "Under way" means: from translation to the end of the packet. For an ordinary region the guards
 * say when that is over, and a control function can wait. A work request that takes a key back must
 * not wait, so windows and fast-register regions count the accesses under way (holds): the
 * work request comes back later until there is none, and only then completes.
 */
struct simhca_key_use {
	struct simhca_worker *worker;
	struct simhca_device *device;
	uint32_t pd;	 /* of the QP, or of the SRQ for its buffers */
	uint32_t qpn;	 /* of the QP */
	uint32_t access; /* rights needed: enum simhca_access */
	bool remote;	 /* by an rkey */
	bool flush;	 /* the key counts even if the length is 0 */
	bool whole;	 /* all that the key names: address and length do not count */
};

/*
 * One access check for every key: whether [va, va + length) of key may be used so; where it lies is
 * added to sgl, and the key is held until simhca_key_release(). With sgl NULL it is only checked.
 * The caller is inside a guard. Length 0 names no memory and is always granted.
 */
enum simhca_reason simhca_translate(const struct simhca_key_use *use, uint32_t key, uint64_t va,
				    uint64_t length, struct simhca_sgl *sgl);
/* Adds bytes [offset, offset + length) of an SGE list to sgl. */
enum simhca_reason simhca_translate_sges(const struct simhca_key_use *use,
					 const struct simhca_sge *sge, uint32_t num_sge,
					 uint64_t offset, uint64_t length, struct simhca_sgl *sgl);
/* The accesses that the worker translated for are over, but for the first `keep`. */
void simhca_key_release(struct simhca_worker *worker, uint32_t keep);

/* Whether the user may invalidate this key by a work request. */
enum simhca_reason simhca_key_may_invalidate(const struct simhca_key_use *use, uint32_t key);
/* Invalidates it if so: no access starts from now on. Those under way end in their time. */
enum simhca_reason simhca_key_invalidate(const struct simhca_key_use *use, uint32_t key);
/* Whether no access is under way by the key's entry. */
bool simhca_key_idle(const struct simhca_key_use *use, uint32_t key);

/* A BIND_MW. *again: the old key is void, but accesses by it are under way: to be asked again. */
enum simhca_reason simhca_bind_mw(const struct simhca_key_use *use,
				  const struct simhca_send_wqe *wqe, bool *again);
/* A FAST_REG of the QP. *elsewhere: nothing is done, that engine must read the page list. */
enum simhca_reason simhca_fast_reg(const struct simhca_key_use *use, const struct simhca_qp *qp,
				   const struct simhca_send_wqe *wqe,
				   struct simhca_engine **elsewhere);

/* Windows of type 2 that are bound to the QP are free again. By control functions, when no step is
 * under way in the QP's responder. */
void simhca_qp_free_windows(struct simhca_qp *qp);

/* For mr.c, dm.c, file_mr.c, mw.c and fast_reg.c. */
int simhca_check_access(uint32_t access, struct simhca_why *why); /* of a region */
static inline bool simhca_is_window(uint32_t type)
{
	return type == SIMHCA_MPT_MW_1 || type == SIMHCA_MPT_MW_2A || type == SIMHCA_MPT_MW_2B;
}
#define SIMHCA_ACCESS_REMOTE_CHANGE (SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_ATOMIC)
#define SIMHCA_ACCESS_REMOTE_ALL (SIMHCA_ACCESS_REMOTE_CHANGE | SIMHCA_ACCESS_REMOTE_READ)
#define SIMHCA_ACCESS_FLUSH_ALL (SIMHCA_ACCESS_FLUSH_GLOBAL | SIMHCA_ACCESS_FLUSH_PERSISTENT)
#define SIMHCA_ACCESS_OPTIONAL 0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */
/* A free entry with a new key, filed under a handle of this type; not yet to be found by its key.
 */
struct simhca_key *simhca_key_create(struct simhca_context *context, enum simhca_object_type type,
				     struct simhca_pd *pd, uint32_t *handle,
				     struct simhca_why *why);
void simhca_key_publish(struct simhca_key *key, enum simhca_mpt_type type);
/* No access that starts from now on finds the entry, and none is under way on success. */
int simhca_key_withdraw(struct simhca_context *context, struct simhca_key *key);
/* The same for a region: -EBUSY, and nothing has changed, while windows are bound to it. */
int simhca_region_withdraw(struct simhca_context *context, struct simhca_key *region,
			   struct simhca_why *why);
void simhca_key_destroy(struct simhca_context *context, enum simhca_object_type type,
			uint32_t handle, struct simhca_key *key);
/* The table's entry that a key names, whoever it belongs to; NULL if it is free. Inside a guard. */
struct simhca_mpt *simhca_mpt_find(struct simhca_device *device, uint32_t key);
/* What stands behind an entry that was found; of a context that the guard keeps. May be NULL. */
struct simhca_key *simhca_key_of(struct simhca_device *device, uint32_t key);
/* Whether [va, va + length) lies inside, and how far from the start. */
enum simhca_reason simhca_key_range(const struct simhca_mpt *mpt, uint64_t va, uint64_t length,
				    uint64_t *offset);
/* Under the window's lock. */
void simhca_mw_unbind(struct simhca_key *window);

/* -------------------------------------------------------------- queues (cq.c, srq.c, wqe.c)
 */

/*
 * Publishes a CQE; seq and the time stamps are filled in here. solicited: the SE bit counts. False:
 * there was no room, now or before, so it is lost; that is the CQ's error, and fails its QPs.
 */
bool simhca_cq_push(struct simhca_cq *cq, const struct simhca_cqe *cqe, bool solicited);
/*
 * The same by a QP's turn: `completes` commits what is complete by the CQE, which is seen only
 * then. False: it was not called.
 */
bool simhca_cq_push_of(struct simhca_cq *cq, const struct simhca_cqe *cqe, bool solicited,
		       struct simhca_qp *qp,
		       void (*completes)(struct simhca_qp *qp, uint32_t ticket));

enum simhca_take { SIMHCA_TAKE_OK, SIMHCA_TAKE_EMPTY, SIMHCA_TAKE_CORRUPT };
/* Takes the next receive WQE of an SRQ: it lies in held afterwards. */
enum simhca_take simhca_srq_take(struct simhca_srq *srq, char *held);
/* Under the SRQ's lock; the limit event is the caller's to raise. */
enum simhca_take simhca_srq_take_locked(struct simhca_srq *srq, char *held, bool *limit_reached);
/* Whether the QP's own queue has a receive WQE: that at rq_ci. Under resp_lock, as what follows. */
enum simhca_take simhca_rq_peek(const struct simhca_qp *qp);
/* The receive WQE of the message at hand: its wr_id; all of it, false: it is none any more. */
uint64_t simhca_recv_id(const struct simhca_qp *qp);
bool simhca_recv_read(const struct simhca_qp *qp, struct simhca_recv *recv);
/* The message at hand needs it no more. */
void simhca_recv_done(struct simhca_qp *qp);
/* Copies the WQE at ring index and checks its shape. */
enum simhca_reason simhca_sq_load(const struct simhca_qp *qp, uint32_t index,
				  struct simhca_send *send);
/* What a QP with an SRQ takes off that, or off a tag list, in its memory. */
#define SIMHCA_HELD_BYTES                                                                          \
	(sizeof(struct simhca_recv_wqe) + SIMHCA_MAX_SGE * sizeof(struct simhca_sge))
void simhca_recv_hold(char *held, const struct simhca_recv *recv);
/* Reads a receive WQE from where it lies; false: more SGEs than there may be. */
bool simhca_recv_load(const char *slot, uint32_t max_sge, struct simhca_recv *recv);

/* Tag matching (tag_match.c): NULL when out of memory; free() ends it. */
struct simhca_tags *simhca_tags_create(uint32_t max_tags);
/* Takes, for the message that this first packet begins, an entry of the list or a receive WQE. */
enum simhca_take simhca_tm_take(struct simhca_worker *worker, struct simhca_qp *qp,
				const struct simhca_packet *packet);
/* A receive's CQE becomes one of the QP's tag-matching SRQ. */
void simhca_tm_fill_cqe(const struct simhca_qp *qp, struct simhca_cqe *cqe);
/* The rendezvous that has just matched is to be fetched, by the QP's requester. Under resp_lock. */
void simhca_rndv_add(struct simhca_qp *qp);
/* Whether the oldest one has a step to make; what cannot be done ends here. Under req_lock. */
bool simhca_rndv_start(struct simhca_qp *qp);
/* That step, as a send WQE would ask for it. */
void simhca_rndv_load(struct simhca_qp *qp, struct simhca_send *send);
void simhca_rndv_complete(struct simhca_qp *qp, enum simhca_wc_status status,
			  enum simhca_reason reason);
/* Forgets all of them. Under both locks. */
void simhca_rndv_drop_all(struct simhca_qp *qp, bool flush);

/* ---------------------------------------------------------------- QPs (qp.c) */

static inline uint32_t simhca_qp_state(const struct simhca_qp *qp)
{
	return atomic_load_explicit(&qp->qpc->state, memory_order_seq_cst);
}

static inline uint32_t simhca_mtu_bytes(uint32_t mtu /* enum ibv_mtu */)
{
	return 128u << mtu;
}

/* Where a receive that came from this SRQ, or from no SRQ, completes. */
static inline struct simhca_cq *simhca_recv_cq(const struct simhca_qp *qp,
					       const struct simhca_srq *srq)
{
	return srq && srq->cq ? srq->cq : qp->recv_cq;
}

/* Reliable services: every request is answered, and a NAK ends the connection. */
static inline bool simhca_is_reliable(uint32_t type)
{
	return type == SIMHCA_QPT_RC || type == SIMHCA_QPT_XRC_SEND || type == SIMHCA_QPT_XRC_RECV;
}

/* An asynchronous event of a QP, to everybody who has it open. */
void simhca_qp_event(struct simhca_qp *qp, uint32_t type);
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
/*
 * Takes the requester's side of a QP without waiting. When it is taken, its holder will schedule
 * the QP again, so that nothing is forgotten. Control functions try for a moment.
 */
bool simhca_qp_begin(struct simhca_qp *qp);
void simhca_qp_end(struct simhca_qp *qp);
/* Likewise its responder's side; nobody is told. */
bool simhca_qp_begin_responder(struct simhca_qp *qp);
void simhca_qp_end_responder(struct simhca_qp *qp);
/* Both sides, for control functions and flushing: 0 or -EAGAIN. */
int simhca_qp_begin_both(struct simhca_qp *qp, bool patient);
void simhca_qp_end_both(struct simhca_qp *qp);
/* One turn at a QP: sends, retries or flushes; true when there is more to do at once. */
bool simhca_qp_step(struct simhca_worker *worker, struct simhca_qp *qp);
/* Forgets what the requester and responder were doing. Under both locks. */
void simhca_qp_clear(struct simhca_qp *qp);
void simhca_qp_detach_all(struct simhca_qp *qp); /* from every multicast group */

/* XRC_RECV QPs, for qp.c and qp_modify.c; flush: under resp_lock, in ERR. */
int simhca_create_xrc_target(struct simhca_context *context, const struct simhca_create_qp_req *req,
			     struct simhca_create_qp_reply *reply, struct simhca_why *why);
struct simhca_user_handle
simhca_qp_user_handle(struct simhca_qp *qp, const struct simhca_context *context, uint32_t handle);
int simhca_close_xrc_target(struct simhca_context *context, uint32_t handle, struct simhca_qp *qp);
void simhca_flush_xrc_target(struct simhca_qp *qp);
/* The XRC SRQ of this number, or NULL. Inside a guard, or in a control function. */
struct simhca_srq *simhca_find_xrc_srq(struct simhca_device *device, uint32_t srqn);

/* ------------------------------------------- transport (requester.c, completer.c, responder.c) */

/* Sends what the SQ holds, within a budget; true when there is more to do at once. */
bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* Completes everything posted with a flush error: the SQ, and in ERR the RQ as well. */
void simhca_flush(struct simhca_qp *qp);
void simhca_flush_cqe(struct simhca_cq *cq, struct simhca_qp *qp, uint64_t wr_id, uint8_t opcode,
		      uint32_t index, uint8_t flags);

/* What the requester does next. */
enum simhca_next { SIMHCA_NEXT_PACKET, SIMHCA_NEXT_WAIT };
/*
 * Takes a response packet; UNREADABLE: the responder's memory cannot be read. What the requester
 * is to do about it is in its state afterwards. Under req_lock.
 */
struct simhca_handover simhca_completer_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet);
/* All before psn is acknowledged: what is complete by that leaves the send queue. */
void simhca_acknowledge(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t psn);
/* All that is not acknowledged is sent again. */
void simhca_go_back(struct simhca_qp *qp);
/* requester_wait.c. Whether the time that the QP waited for, so as to send, has passed. */
bool simhca_wait_is_over(struct simhca_qp *qp);
/* For acknowledgements of what is under way: until the transport's timer, or for longer. */
enum simhca_next simhca_wait_answer(struct simhca_qp *qp);
/* The link has neither taken the packet nor lost it: the QP waits until it can be tried again. */
bool simhca_held_up(struct simhca_qp *qp, const struct simhca_handover *handover);
enum simhca_next simhca_wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns);
/* An RNR NAK's delay, or one as long for other reasons. */
enum simhca_next simhca_wait_rnr(struct simhca_qp *qp, uint8_t rnr_timer);
/* Memory of the requester's own could not be read or written: it may have been dropped just now. */
enum simhca_next simhca_payload_failed(struct simhca_worker *worker, struct simhca_qp *qp,
				       enum simhca_fault_context context,
				       const struct simhca_sgl *sgl, enum simhca_reason reason);
/*
 * Reads the message of a flight into worker->send; false: its WQE is no longer what it was when it
 * was taken up, and the QP has failed.
 */
bool simhca_flight_load(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t younger);
/* Path MTU, in bytes. */
static inline uint32_t simhca_qp_mtu(const struct simhca_qp *qp)
{
	return simhca_mtu_bytes(qp->qpc->path_mtu ? qp->qpc->path_mtu : 5);
}
/* Something else has to end first: the QP comes back a little later. Under req_lock. */
enum simhca_next simhca_wait_busy(struct simhca_qp *qp);
/* What a memory management WQE asks for, and the invalidation that ends a read. Under req_lock. */
enum simhca_next simhca_local_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* Retires the oldest message under way with this status. Under req_lock. */
void simhca_complete_send(struct simhca_worker *worker, struct simhca_qp *qp,
			  enum simhca_wc_status status, enum simhca_reason reason);

/* Takes a request packet, and answers by the QP's link. Under resp_lock. */
struct simhca_handover simhca_responder_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet);
/* Sends more of a response that is owed. Under resp_lock. */
struct simhca_handover simhca_responder_continue(struct simhca_worker *worker,
						 struct simhca_qp *qp);

/* Whether a port has this address: on InfiniBand as its LID, on Ethernet as a GID. */
bool simhca_link_has_address(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av);
/* And is active. */
bool simhca_link_answers_to(const struct simhca_device *device, const struct simhca_device *source,
			    const struct simhca_av *av);
/* Whether QPs of the one type take what those of the other send. */
bool simhca_link_takes_from(uint32_t type, uint32_t sender_type);

/*
 * silence.c: a line about a connected QP that nobody will answer. When it is in RTR: if no port has
 * its peer's address; all else may still come. When nothing came in time: why, once.
 */
void simhca_silence_connected(const struct simhca_qp *qp);
void simhca_silence_unanswered(struct simhca_qp *qp);

/* ethernet.c: the link of raw frames, to all who are to get one. */
extern const struct simhca_link simhca_ethernet_link;
/* mcast.c: a copy to every QP attached to the packet's destination GID. */
struct simhca_handover simhca_mcast_deliver(struct simhca_worker *worker,
					    struct simhca_device *device,
					    const struct simhca_packet *packet);

#endif
