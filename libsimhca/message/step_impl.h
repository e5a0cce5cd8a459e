/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What steps of connected QPs (step.c) and of datagrams (step_ud.c) have in common. */
#ifndef LIBSIMHCA_STEP_IMPL_H
#define LIBSIMHCA_STEP_IMPL_H

#include <sys/uio.h>

#include "queue/recv.h"
#include "step.h"

/* It is done; else the reason why not, enum simhca_slow_reason. */
#define SIMHCA_STEP_DONE (-1)
/* Others who have a WQE first; then it is left to the device. */
#define SIMHCA_STEP_CLAIM_TRIES 64
/*
 * Messages between acquiring an owner word and releasing it: the device and the peer may want it,
 * too.
 */
#define SIMHCA_STEP_MESSAGES 64u

/* A message, as it was read. */
struct simhca_step_message {
	struct simhca_send_wqe wqe;
	uint32_t length, psns;
	struct iovec own[SIMHCA_MAX_SGE]; /* its data in this program, or where they go */
	int num_own;
	struct iovec there[SIMHCA_MAX_SGE]; /* in the peer's */
	int num_there;
	char *slot; /* room for them in the slot of the receive, where they may stay; or NULL */
	struct simhca_recv recv;
};

/* The events of a CQ: where they go, and what becomes of those that do not. */
struct simhca_step_events {
	const struct simhca_cq_view *cq;
	const struct simhca_notify *notify;
	_Atomic uint32_t *due, *notifying;
};

/* ------------------------------------------------------------------------- owner words */

/*
 * How often one call acquires the owner words. Who is attached to the QP can set its requester back
 * each time; the queue holds no more messages than are carried so.
 */
static inline uint32_t simhca_step_most_rounds(const struct simhca_step *step)
{
	return step->sq_entries / SIMHCA_STEP_MESSAGES + 2;
}

bool simhca_step_acquire(struct simhca_owner *word, uint32_t name, uint32_t *generation);
/* That of the QP; if the device is at work for it, after a moment. */
bool simhca_step_acquire_own(struct simhca_step *step, uint32_t name, uint32_t *generation);
/* True: the device wants it. */
bool simhca_step_end(struct simhca_owner *word, uint32_t name);
void simhca_step_commit_requester(struct simhca_step *step, const struct simhca_requester *req,
				  uint32_t *generation);
uint32_t simhca_step_name(const struct simhca_step *step);
/* Whether QP and peer are those that were attached, and the QP may send; the peer's state. */
bool simhca_step_may(const struct simhca_step *step, uint32_t *peer_state);

/* ------------------------------------------------------------------------- the receive */

/* The queue that the peer's receives are claimed from. */
struct simhca_srq_view simhca_step_queue(const struct simhca_step *step);
/* After a claim: whether it leaves fewer than the SRQ's limit says; the device is to tell of it. */
bool simhca_step_reaches_limit(const struct simhca_step *step);

/* ------------------------------------------------------------------------- the message */

/* Adds the first `length` bytes of an SGE list. */
bool simhca_step_add_sges(const struct simhca_step *step, const struct simhca_sge *sge,
			  uint32_t num_sge, uint64_t length, uint32_t access, uint32_t pd,
			  uint32_t mm, struct iovec *iov, int *count);
/* Reads the send WQE, and finds its memory. */
int simhca_step_read_send(const struct simhca_step *step, uint32_t index,
			  struct simhca_step_message *msg);
/* All of it or, as far as anybody is told, nothing: false. */
bool simhca_step_copy(const struct simhca_step *step, const struct iovec *own, int num_own,
		      const struct iovec *there, int num_there, uint64_t bytes, bool read);

/* ---------------------------------------------------------------------------- its time */

uint64_t simhca_step_now(void); /* CLOCK_MONOTONIC, ns */
/*
 * When the message that comes next is taken up; 0: it is not of the sample, which has the first
 * ones and then one in 64 or so, left to chance.
 */
static inline uint64_t simhca_step_begins(struct simhca_step *step)
{
	if (__builtin_expect(step->sample.until != 0, 1)) {
		step->sample.until--;
		return 0;
	}
	return simhca_step_now();
}
/* It is done. */
void simhca_step_took(struct simhca_step *step, uint64_t since_ns);

/* --------------------------------------------------------------------------- completions */

bool simhca_step_is_signaled(const struct simhca_step *step, const struct simhca_step_message *msg);
bool simhca_step_has_room(const struct simhca_cq_view *cq);
/*
 * The CQE of the send is reserved and has its fields, if it is to have one, and *req says that the
 * message is done. False: none could be reserved.
 */
bool simhca_step_complete(const struct simhca_step *step, struct simhca_requester *req,
			  const struct simhca_step_message *msg);
void simhca_step_publish(const struct simhca_cq_view *cq, uint32_t cqe_index);
struct simhca_step_events simhca_step_send_events(const struct simhca_step *step);
struct simhca_step_events simhca_step_recv_events(const struct simhca_step *step);
/* What CQs are armed for that an arriving message is. */
uint32_t simhca_step_matches(const struct simhca_step_message *msg);
/* After it was published: whether the CQ was armed for it, which is used up so. */
bool simhca_step_disarm(const struct simhca_step_events *events, uint32_t matches);
/* Raises the event that disarm() says is due; false: it is left to the device. */
bool simhca_step_raise(struct simhca_fastpath *fastpath, const struct simhca_step_events *events);

/* relaxed: a number by itself, which one thread at a time writes. */
static inline void simhca_step_add(_Atomic uint64_t *count, uint64_t n)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
