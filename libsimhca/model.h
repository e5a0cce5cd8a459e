/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The model's objects as its own files see them. simhca.h is what the outside sees.
 *
 * Locks, in the order in which they may be taken:
 *	qp->req_lock    requester and completer state of one QP (simhca_qp_begin)
 *	qp->resp_lock   responder state; of the peer's QP, while the requester's is held
 *	srq->lock, cq->lock, device->mcast_lock
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

#include "dma.h"
#include "guard.h"
#include "packet.h"
#include "simhca.h"
#include "timer.h"

/* ------------------------------------------------------------------- fabric */

struct simhca_fabric {
	struct simhca_ops ops;
	struct simhca_device *devices; /* grows only while no engine runs a step on them */
	struct simhca_engine *engines;
	pthread_rwlock_t lock; /* of both lists */
	uint32_t next_context_id;
	struct simhca_atomicity *atomicities; /* control functions only */
};

void simhca_log(const struct simhca_fabric *fabric, enum simhca_log_level level, const char *format,
		...) __attribute__((format(printf, 3, 4)));

/* Waits a moment until no engine uses what was unlinked of this context; false if one still does.
 */
bool simhca_fabric_synchronize(struct simhca_fabric *fabric, uint32_t context_id);

/* ------------------------------------------------------------------- engine */

/* A thread that runs an engine; or a test that polls it. */
struct simhca_worker {
	struct simhca_guard guard;
	struct simhca_engine *engine;
	struct simhca_worker *next; /* in the engine's list, under the fabric's lock */
	uint64_t watched;	    /* guard count when simhca_engine_stuck() last looked */
	uint32_t rounds;
	void *scratch; /* SIMHCA_DMA_SCRATCH bytes */
};

struct simhca_engine {
	struct simhca_worker poller; /* of simhca_engine_poll() */
	struct simhca_worker *workers;
	uint32_t worker_count;
	struct simhca_fabric *fabric;
	struct simhca_engine_config config;
	struct simhca_engine *next;
	uint32_t number; /* from 1; the holder's name in shared lock words */
	pthread_mutex_t lock;
	struct simhca_qp *run_queue; /* utlist, in the order of arrival */
	struct simhca_timers timers;
	pthread_mutex_t context_lock;	 /* of the two that follow; before lock */
	struct simhca_context *contexts; /* uthash, by id */
	struct simhca_context
		*active; /* utlist: contexts whose doorbells are polled; the others are armed */
	int epoll_fd;
	int wake_fd;		   /* eventfd: somebody other than a doorbell has work for us */
	_Atomic uint32_t sleepers; /* threads that sleep or are about to */
	atomic_bool stop;
};

uint64_t simhca_engine_now(const struct simhca_engine *engine);
/* Puts a QP on the run queue, once, and wakes the engine if it sleeps. */
void simhca_engine_schedule(struct simhca_engine *engine, struct simhca_qp *qp);
void simhca_engine_attach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_detach(struct simhca_engine *engine, struct simhca_context *context);
void simhca_engine_forget_qp(struct simhca_qp *qp);
/* When it expires the QP is scheduled, with timer_fired set to the deadline that is returned. */
uint64_t simhca_engine_arm_timer(struct simhca_qp *qp, uint64_t delay_ns);
void simhca_engine_cancel_timer(struct simhca_qp *qp);

/* ------------------------------------------------------------------- device */

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
	int memory_fd;
	struct simhca_devmem *mem;
	struct simhca_qpc *qpcs;	/* in device memory */
	struct simhca_mpt *mpts;	/* in device memory */
	struct simhca_mr *_Atomic *mrs; /* by key index: what an mpt cannot say */
	struct simhca_qp *_Atomic *qps; /* by QPN slot */
	uint32_t next_qpn_slot, next_key_index;
	uint8_t *qpn_generation;
	struct {
		uint32_t pd, mr, ah, cq, srq, qp;
	} alive;
	uint32_t next_pd;
	struct simhca_context *contexts;
	pthread_rwlock_t mcast_lock;
	struct simhca_mcast_group *groups;
	uint32_t group_count;
};

/* ------------------------------------------------------------------ context */

enum simhca_object_type {
	SIMHCA_OBJ_PD,
	SIMHCA_OBJ_MR,
	SIMHCA_OBJ_AH,
	SIMHCA_OBJ_CQ,
	SIMHCA_OBJ_SRQ,
	SIMHCA_OBJ_QP,
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
	void *arg; /* of the upcalls */
	int doorbell_fd;
	struct simhca_ctx_mem *mem;
	struct simhca_segment segment[SIMHCA_MAX_SEGMENTS];
	uint32_t segments;
	struct simhca_mm *mms;
	struct simhca_handles handles[SIMHCA_OBJ_TYPES];
	struct simhca_qp *_Atomic *doorbell; /* by doorbell slot */
	uint32_t doorbell_hint;
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

void simhca_async_event(struct simhca_context *context, uint64_t element, uint32_t type);

/* A GID table entry; false if there is none or it is empty. For engines. */
bool simhca_device_gid(struct simhca_device *device, uint32_t index, union simhca_gid *gid);

/* ------------------------------------------------------------------ objects */

struct simhca_pd {
	uint32_t number; /* in the device */
	uint32_t users;
};

struct simhca_mr {
	struct simhca_pd *pd;
	struct simhca_mm *mm;
	uint32_t index;
};

struct simhca_ah {
	struct simhca_pd *pd;
};

struct simhca_cq {
	struct simhca_context *context;
	pthread_mutex_t lock;
	struct simhca_cq_mem *mem;
	struct simhca_cqe *ring;
	uint32_t entries, cqe, flags;
	uint32_t pi; /* ours; mem->pi is a copy for the client */
	bool overrun;
	uint64_t user_handle, channel;
	uint32_t users;
	struct simhca_mem_ref mem_ref, ring_ref;
};

struct simhca_srq {
	struct simhca_context *context;
	struct simhca_pd *pd;
	pthread_mutex_t lock;
	struct simhca_srq_mem *mem;
	char *ring;
	uint32_t entries, stride, max_wr, max_sge, limit;
	uint64_t user_handle;
	uint32_t users;
	struct simhca_mem_ref mem_ref, ring_ref;
};

/* A receive WQE, copied out of shared memory once, so that it cannot change under us. */
struct simhca_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint64_t length; /* of all SGEs */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
};

/* A send WQE likewise, with its inline data. */
struct simhca_send {
	struct simhca_send_wqe wqe;
	uint64_t length; /* of the message */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
	uint8_t data[SIMHCA_MAX_INLINE];
};

/* What a requester waits for. */
enum simhca_wait {
	SIMHCA_WAIT_NOTHING,
	SIMHCA_WAIT_RNR,    /* the delay that an RNR NAK asked for */
	SIMHCA_WAIT_ANSWER, /* an acknowledgement; when time is up it is a retry */
	SIMHCA_WAIT_BUSY,   /* the peer's responder, which another engine works on */
};

struct simhca_qp {
	struct simhca_context *context;
	struct simhca_device *device;
	struct simhca_pd *pd;
	struct simhca_cq *send_cq, *recv_cq;
	struct simhca_srq *srq;
	struct simhca_qpc *qpc;
	uint32_t qpn, type;
	uint32_t doorbell; /* slot in the context's bitmap */
	uint64_t user_handle;
	atomic_bool dead;	 /* being destroyed: nothing more is scheduled */
	bool drained_event_due;	 /* SQD: raise SQ_DRAINED; under req_lock */
	bool last_wqe_event_due; /* with an SRQ, on the way to ERR; under req_lock */

	struct simhca_qp_mem *mem;
	char *sq, *rq;
	uint32_t sq_entries, sq_stride, rq_entries, rq_stride;
	struct simhca_mem_ref mem_ref, sq_ref, rq_ref;

	/* on an engine's run queue */
	atomic_bool queued;
	struct simhca_engine *_Atomic queue_engine;
	struct simhca_qp *prev, *next;
	struct simhca_timer timer; /* under the lock of its context's engine */

	_Atomic uint64_t timer_fired; /* the deadline that passed last */

	/* requester and completer; under req_lock */
	pthread_mutex_t req_lock;
	atomic_bool again; /* somebody found req_lock taken: its holder schedules the QP anew */
	struct {
		bool started;	       /* the WQE at sq_ci is loaded and checked */
		enum simhca_wait wait; /* for the timer, until deadline */
		uint64_t deadline;
		uint32_t busy;	 /* times in a row that the peer was busy */
		uint32_t index;	 /* ring index of the current WQE */
		uint64_t offset; /* bytes of the message that are acknowledged */
		uint8_t retries, rnr_retries;
		struct simhca_send *send;
	} req;

	/* responder; under resp_lock */
	pthread_mutex_t resp_lock;
	struct {
		bool in_message; /* between a first and a last packet */
		enum simhca_packet_op op;
		bool have_recv;	 /* recv is taken off its queue, for the current message */
		bool nak_sent;	 /* one NAK for a gap, until the expected PSN comes */
		uint64_t offset; /* bytes of the message placed */
		struct simhca_recv recv;
		/* the latest atomics, to answer a repeated one without doing it again */
		struct {
			bool valid;
			uint32_t psn;
			uint64_t old;
		} atomics[SIMHCA_MAX_RD_ATOMIC];
		uint32_t next_atomic;
		bool comm_est; /* the event has been raised */
	} resp;
};

/* ----------------------------------------------------------- protection (mr.c) */

struct simhca_key_use {
	uint32_t pd;	 /* of the QP */
	uint32_t access; /* rights needed: enum simhca_access */
	bool remote;	 /* by an rkey */
};
/*
 * One access check for every key: whether [va, va + length) of key may be used so, and where
 * it lies. The caller is inside a guard. Length 0 names no memory and is always granted.
 */
enum simhca_reason simhca_translate(struct simhca_device *device, uint32_t key, uint64_t va,
				    uint64_t length, const struct simhca_key_use *use,
				    struct simhca_seg *seg);
/* Adds bytes [offset, offset + length) of an SGE list to sgl. */
enum simhca_reason simhca_translate_sges(struct simhca_device *device, const struct simhca_sge *sge,
					 uint32_t num_sge, uint64_t offset, uint64_t length,
					 const struct simhca_key_use *use, struct simhca_sgl *sgl);

/* -------------------------------------------------------------- queues (cq.c, srq.c, wqe.c)
 */

/* Publishes a CQE; seq and the time stamps are filled in here. solicited: the SE bit counts. */
void simhca_cq_push(struct simhca_cq *cq, const struct simhca_cqe *cqe, bool solicited);

/* Takes the next receive WQE; false when there is none. Under resp_lock. */
enum simhca_take { SIMHCA_TAKE_OK, SIMHCA_TAKE_EMPTY, SIMHCA_TAKE_CORRUPT };
enum simhca_take simhca_srq_take(struct simhca_srq *srq, struct simhca_recv *recv);
enum simhca_take simhca_rq_take(struct simhca_qp *qp, struct simhca_recv *recv);
/* Copies the WQE at ring index into qp->req.send and checks its shape. */
enum simhca_reason simhca_sq_load(struct simhca_qp *qp, uint32_t index);
/* Reads a receive WQE's header and SGEs from a ring slot. */
enum simhca_take simhca_recv_load(const char *slot, uint32_t max_sge, struct simhca_recv *recv);

/* ---------------------------------------------------------------- QPs (qp.c) */

static inline uint32_t simhca_qp_state(const struct simhca_qp *qp)
{
	return atomic_load_explicit(&qp->qpc->state, memory_order_seq_cst);
}

static inline uint32_t simhca_mtu_bytes(uint32_t mtu /* enum ibv_mtu */)
{
	return 128u << mtu;
}

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
/* Both sides, for control functions and flushing: 0 or -EAGAIN. */
int simhca_qp_begin_both(struct simhca_qp *qp, bool patient);
void simhca_qp_end_both(struct simhca_qp *qp);
/* One turn at a QP: sends, retries or flushes; true when there is more to do at once. */
bool simhca_qp_step(struct simhca_worker *worker, struct simhca_qp *qp);
/* Forgets what the requester and responder were doing. Under both locks. */
void simhca_qp_clear(struct simhca_qp *qp);
void simhca_qp_detach_all(struct simhca_qp *qp); /* from every multicast group */

/* ------------------------------------------- transport (requester.c, completer.c, responder.c) */

/* Sends what the SQ holds, within a budget; true when there is more to do at once. */
bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* Completes everything posted with a flush error: the SQ, and in ERR the RQ as well. */
void simhca_flush(struct simhca_qp *qp);

/* What the requester does next. */
enum simhca_next { SIMHCA_NEXT_PACKET, SIMHCA_NEXT_WAIT };
/* Takes the answer to the packet just sent. Under req_lock. */
enum simhca_next simhca_completer_run(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet,
				      const struct simhca_reply *reply);
/* Retires the current send WQE with this status. Under req_lock. */
void simhca_complete_send(struct simhca_qp *qp, enum simhca_wc_status status,
			  enum simhca_reason reason);

/* Takes a request packet. Under resp_lock. */
void simhca_responder_run(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct simhca_reply *reply);

/*
 * The local link: both ends in this process. A packet is handed over by a call with its
 * payload still in its owner's memory, and carries up to SIMHCA_LINK_SLICE bytes (a multiple
 * of every MTU; PSNs advance as if it had been cut at the path MTU). The slice bounds a step.
 */
#define SIMHCA_LINK_SLICE (256u * 1024u)
void simhca_link_request(struct simhca_worker *worker, struct simhca_qp *qp,
			 struct simhca_packet *packet, struct simhca_reply *reply);
/* mcast.c: a copy to every QP attached to the packet's destination GID. */
void simhca_mcast_deliver(struct simhca_worker *worker, struct simhca_device *device,
			  const struct simhca_packet *packet, struct simhca_reply *reply);
/* Hands a packet to one QP; the answer is NONE if the two do not belong together. */
void simhca_link_deliver(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply);

#endif
