/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The objects of an EFA device, and who may do what with them when. */
#ifndef LIBSIMHCA_EFA_OBJECTS_H
#define LIBSIMHCA_EFA_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/context.h"
#include "core/pd.h"
#include "efa.h"
#include "engine/engine.h"
#include "formats.h"
#include "gate.h"
#include "core/usage.h"

#define EFA_AHS 4096u	      /* different GIDs that address handles of one context lead to */
#define EFA_PARTS 128u	      /* messages of other hosts of which some packets are missing, */
#define EFA_PARTS_OF_HOST 32u /* and of one host */
#define EFA_PAGE 4096u	      /* bytes; of doorbells a QP has one */
#define EFA_RQ_DOORBELL (EFA_PAGE / 2) /* where it is there; the SQ's is in front */

struct simhca_arrival;

/* A key for mmap() is an offset in whole pages: which object, and what of it. */
enum efa_mapping {
	EFA_KEY_CQ = 1,
	EFA_KEY_RQ,
	EFA_KEY_RQ_DOORBELL,
	EFA_KEY_SQ,
	EFA_KEY_SQ_DOORBELL,
	EFA_KEY_CQ_DOORBELL
};
#define EFA_KEY(handle, kind) ((uint64_t)(handle) << 16 | (uint64_t)(kind) << 12)
#define EFA_KEY_HANDLE(key) ((key) >> 16)
#define EFA_KEY_KIND(key) ((key) >> 12 & 15)

/* Memory in the context's segments that a program maps: whole pages, which nothing else lies in. */
struct efa_memory {
	struct simhca_mem_ref ref;
	uint64_t bytes;	 /* as they were allocated */
	uint64_t offset; /* of the first page, in its segment */
	char *base;	 /* of that page */
};

struct efa_ah {
	struct simhca_pd *pd;
	uint16_t number;
};

/* Of a page of doorbells that a program has mapped. */
enum efa_watch_state {
	EFA_WATCH_NONE, /* it has told of none, or it is gone: look again and again */
	EFA_WATCH_NEW,	/* not registered yet */
	EFA_WATCH_OPEN, /* stores there are not noticed: look at the word */
	EFA_WATCH_ARMED /* the next store is a page fault */
};

/* Under the context's watch lock. */
struct efa_watch {
	enum efa_watch_state state;
	uint64_t address; /* in the program's memory */
};

struct efa_cq {
	struct simhca_context *context;
	uint32_t number, entries, entry_size; /* entries: of each sub CQ */
	uint32_t sub_cqs, next_sub;	      /* next_sub: that the next queue gets */
	bool with_gid;
	struct efa_memory memory; /* the ring, and with a channel a page with its doorbell */
	uint64_t doorbell_offset; /* of that page, in memory */
	uint32_t users;
	uint64_t channel, user_handle; /* channel 0: none, and no doorbell */
	const _Atomic uint32_t *doorbell;
	struct efa_watch watch;
	atomic_bool dead;

	pthread_mutex_t lock; /* of what is written to the ring, and of all that follows */
	uint32_t pi;	      /* of all sub CQs together, and of each: */
	uint32_t sub_pi[SIMHCA_EFA_SUB_CQS];
	uint32_t seen; /* the doorbell, when it was looked at */
	bool armed;
	bool raised;	       /* an event was, ever: */
	uint32_t raised_after; /* so many, EFA_CQ_DOORBELL_EVENTS */
};

/* A message, from when its WQE was read until it has completed. */
struct efa_message {
	struct efa_send send;
	uint32_t done;	  /* bytes of an RDMA operation */
	uint32_t retries; /* because the receiver was not ready */
	bool checked;	  /* its buffers are the sender's to send from */
	/* Why it fails, beyond the status. */
	enum simhca_reason reason;
	const char *why;	/* NULL: what the reason says */
	uint64_t not_before_ns; /* 0: it may go at once */
	uint32_t index;		/* of all that its QP has taken, modulo 2^32 */
	uint32_t psn;		/* in a trace */
	/* Of rules of faults: they have been asked; the status that one gives it; the byte that one flips. */
	bool judged, corrupt;
	enum efa_status injected;
	uint32_t corrupt_at;
};

struct efa_flight;
struct efa_heard;
struct efa_host;
struct efa_parts;
struct efa_route;

struct efa_qp {
	struct simhca_context *context;
	struct simhca_pd *pd;
	struct efa_cq *send_cq, *recv_cq;
	uint32_t send_sub, recv_sub; /* sub CQs of these */
	uint32_t handle, qpn;
	bool srd;
	bool unsolicited; /* writes with immediate to it take no receives */
	struct simhca_efa_qp_caps caps;
	struct efa_limits limits;
	struct efa_memory memory; /* a page of doorbells, RQ, SQ */
	_Atomic uint32_t *sq_doorbell, *rq_doorbell;
	const char *sq;
	const struct efa_recv_desc *rq;
	uint32_t wqe_bytes; /* of each in sq: 64, or 128 */
	uint32_t sq_entries, rq_entries;
	uint64_t rq_offset, sq_offset, rq_size, sq_size; /* in memory; whole pages */

	_Atomic uint32_t state; /* enum simhca_qp_state */
	_Atomic uint32_t qkey;
	_Atomic uint32_t rnr_retry;
	uint32_t sq_psn;

	/* Under the context's work lock: the sender. */
	uint16_t sq_ci;
	uint32_t count;		      /* of messages under way, the oldest first */
	uint32_t waiting;	      /* of them, that found their receivers not ready */
	struct efa_message *messages; /* sq_entries */
	uint64_t retry_ns;	      /* those wait for receivers until then */
	uint64_t backoff_ns;
	uint64_t late_ns; /* when the first of those that are late may go; 0: none is */
	uint32_t shuffle; /* of random numbers */
	uint32_t taken;	  /* messages so far, modulo 2^32 */
	uint32_t psn;	  /* of its next packet in a trace */
	/* To and from other hosts (wire.h). */
	struct efa_flight *flights; /* utlist */
	uint32_t flight_count;
	uint32_t datagrams;	  /* sent, modulo 2^32 */
	struct efa_route *routes; /* uthash */
	struct efa_heard *heard;  /* uthash */
	uint64_t wire_due_ns;	  /* when something is to be sent again; 0: never */
	/* Of these counts the sender's are written by who has its work lock, the receiver's by any sender. */
	struct simhca_usage *usage;
	/*
	 * For who watches: count; the QP of whose receives the oldest message waits for one, 0: none; and
	 * the device that has that QP, NULL: none of ours.
	 */
	_Atomic uint32_t shown_count, shown_waits_for;
	const struct simhca_device *_Atomic shown_peer_device;

	pthread_mutex_t rq_lock;
	uint32_t rq_ci; /* modulo 2^32; a doorbell counts its low 16 bits */

	struct efa_watch watch;
	atomic_bool dead;
};

/* The device's QP of that number, or NULL. Inside a guard. */
static inline struct efa_qp *efa_qp_numbered(const struct simhca_device *device, uint32_t qpn)
{
	return qpn && qpn <= device->config.max_qp ? atomic_load(&device->efa_qps[qpn - 1]) : NULL;
}

/* By control functions; read by who works, who may miss one, and is woken then. */
struct efa_list {
	void *_Atomic *items;
	_Atomic uint32_t count;
};

/* What a context of such a device has. */
struct simhca_efa {
	struct simhca_context *context;
	struct simhca_task task; /* looks at doorbells, and moves messages */
	/* Tried only: held while messages move, through memory of this program and of receivers. */
	pthread_mutex_t work;
	atomic_bool again;	      /* somebody found it taken */
	uint64_t idle_ns;	      /* since when nothing was found; 0: something was */
	uint32_t next;		      /* of qps, the first that is looked at in the next turn */
	uint32_t next_cq;	      /* likewise, of notified_cqs */
	uint32_t left;		      /* of this turn */
	struct efa_list qps;	      /* struct efa_qp; config.max_qp */
	struct efa_list notified_cqs; /* struct efa_cq with a channel; config.max_cq */
	uint8_t *bounce;	      /* SIMHCA_EFA_MTU bytes, behind room for a GRH */
	/* What has come from other hosts, the oldest first: under its lock. */
	pthread_mutex_t inbox_lock;
	struct simhca_arrival *inbox, **inbox_end;
	uint32_t arrivals;
	struct efa_parts *parts[EFA_PARTS];
	uint64_t parts_clock;
	/* Which flows come from other hosts (heard.c), under the work lock. */
	struct efa_heard *heard; /* utlist */
	uint32_t flows;
	/* To be changed under both locks, and read under either. */
	pthread_mutex_t hosts_lock;
	struct efa_host *hosts; /* uthash */
	pthread_mutex_t watch_lock;
	atomic_int userfaultfd; /* -1: none */
	pthread_mutex_t ah_lock;
	struct {
		union simhca_gid gid;
		uint32_t users;
	} ahs[EFA_AHS];
	uint32_t ahs_used; /* those from here on were never used */
};

static inline uint64_t efa_whole_pages(uint64_t bytes)
{
	return (bytes + EFA_PAGE - 1) / EFA_PAGE * EFA_PAGE;
}

/* A WQE in the ring, or a wide one, by how many were posted before it. */
static inline const struct efa_send_wqe *efa_send_at(const struct efa_qp *qp, uint32_t index)
{
	return (const void *)&qp->sq[(size_t)(index & (qp->sq_entries - 1)) * qp->wqe_bytes];
}

static inline uint32_t efa_generation(const struct simhca_context *context)
{
	return context->device->config.efa_generation;
}

static inline bool efa_is_power_of_2(uint32_t number)
{
	return number && !(number & (number - 1));
}

/* memory.c */
int efa_out_of_memory(struct simhca_why *why);
int efa_make_memory(struct simhca_context *context, uint64_t bytes, struct efa_memory *memory,
		    struct simhca_why *why);
void efa_list_add(struct efa_list *list, void *item);
void efa_list_remove(struct efa_list *list, const void *item);
/* NULL: it is no EFA driver's. */
struct simhca_efa *efa_of(struct simhca_context *context, struct simhca_why *why);

/* ah.c: the GID that a number of the context's address handles stands for; false: none. */
bool efa_ah_gid(struct simhca_efa *efa, uint16_t number, union simhca_gid *gid);
/* The EFA device of the fabric that has this GID; NULL: none. */
struct simhca_device *efa_device_at(const struct simhca_device *own, const union simhca_gid *gid);
/*
 * The other way round; EFA_NO_AH: none. It compares EFA_AHS GIDs at most, some microseconds of who carries
 * the message, of which a turn has few.
 */
uint16_t efa_ah_of(struct simhca_efa *efa, const union simhca_gid *gid);

/* cq.c: the CQE becomes visible, and raises an event if one is due. */
void efa_complete(struct efa_cq *cq, uint32_t sub, struct efa_cqe *cqe);
/* Likewise, but for the event: who has put some looks at the doorbell afterwards. */
void efa_put_cqe(struct efa_cq *cq, uint32_t sub, struct efa_cqe *cqe);
/* Bytes of its rings. */
static inline uint64_t efa_cq_bytes(const struct efa_cq *cq)
{
	return (uint64_t)cq->sub_cqs * cq->entries * cq->entry_size;
}
/* Raises the event if the CQ's doorbell was armed and a CQE is there. True: it has raised one. */
bool efa_cq_look(struct efa_cq *cq);

/* work.c */
bool efa_work(struct simhca_worker *worker, struct simhca_task *task);

/* message.c, under the work lock, but for what ends.c has. What has become of a message: */
enum efa_outcome {
	EFA_DONE, /* it has completed, or wire_send.c has it */
	EFA_GOES_ON,
	EFA_WAITS, /* its receiver is not ready */
};
/* Carries it, or a slice of it. Inside a guard, which is wide before and afterwards. */
enum efa_outcome efa_carry(struct simhca_worker *worker, struct efa_qp *qp,
			   struct efa_message *message, uint64_t now);
/* What was posted is no message, for that reason. */
void efa_refuse(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		const struct efa_send_wqe *wqe, enum efa_status status);
/* The QP's rings make no sense: nothing more comes of it. */
void efa_fail(struct efa_qp *qp);
/* Completes what is under way and what is posted. */
void efa_flush(struct efa_qp *qp);
/* Descriptors of receives that wait for messages. *any_yet: one was posted since the QP was reset. */
uint32_t efa_recvs(struct efa_qp *qp, bool *any_yet);

/* usage.c. What tools show of the QP's queue is what there is: under the work lock. */
void efa_show(struct efa_qp *qp);
/* A message has completed, or met no receive: under the sender's work lock. */
void efa_count_sent(struct simhca_worker *worker, struct efa_qp *qp,
		    const struct efa_message *message, enum efa_status status);
/* peer NULL: it is not here, and counts by itself: */
void efa_count_not_ready(struct efa_qp *qp, struct efa_qp *peer);
void efa_count_without_recv(struct efa_qp *qp);
/* A message has taken a receive of the peer's. */
void efa_count_received(struct efa_qp *peer, uint64_t bytes);

/* failure.c: a message fails with that status. peer: whom it is for, if it is known. Inside a guard. */
void efa_report(struct simhca_worker *worker, const struct efa_qp *qp, struct efa_qp *peer,
		const struct efa_message *message, enum efa_status status);
/* The receive that it has taken does, too. */
void efa_report_recv(const struct efa_qp *qp, uint32_t sender_qpn, enum efa_status status,
		     enum simhca_reason reason);

/* trace.c, while the tap is on; inside a guard. Of a message that has taken a receive of the peer's: */
void efa_trace_send(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		    const struct efa_qp *peer, const uint8_t *data, enum efa_status status);
/* Of an operation that goes on after message->done bytes: the next ones have moved from there. */
void efa_trace_rdma(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		    const struct efa_qp *peer, const struct simhca_sgl *moved, uint32_t length);
/* It may not go on. */
void efa_trace_refusal(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		       const struct efa_qp *peer);

uint32_t efa_wr_opcode(const struct efa_send *send); /* enum simhca_wr_opcode */
/* EFA's for a status of a work completion; if it has none, QP_INTERNAL. */
enum efa_status efa_status_of(uint32_t wc_status);

/* injected.c, while there are rules of faults. */
enum efa_injection {
	EFA_INJECTED_NOTHING,
	EFA_INJECTED_DELAY,	/* not_before_ns has been set */
	EFA_INJECTED_LOSS,	/* UD: it is sent, and does not arrive */
	EFA_INJECTED_NOT_READY, /* as if there were no receive */
	EFA_INJECTED_FAILURE,	/* with message->injected */
};
enum efa_injection efa_injected_send(const struct efa_qp *qp, struct efa_message *message,
				     uint64_t now);
enum efa_injection efa_injected_arrival(const struct efa_qp *qp, struct efa_message *message);
/* Whether an event that is due is lost. */
bool efa_injected_event(const struct efa_cq *cq);

/* doorbells.c; under the work lock, inside a guard. */
/* Opens the pages at which programs stand. True: there were some. */
bool efa_doorbells_open(struct simhca_worker *worker, struct simhca_efa *efa);
/*
 * Arms them; false: some cannot be, and are to be looked at again and again. *more: there may be some
 * that it has not come to, as others want the engine.
 */
bool efa_doorbells_arm(struct simhca_worker *worker, struct simhca_efa *efa, bool *more);

#endif
