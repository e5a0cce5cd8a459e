/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues. */
#ifndef LIBSIMHCA_CQ_H
#define LIBSIMHCA_CQ_H

#include "core/context.h"
#include "engine/timer.h"
#include "renew.h"
#include "queue/cqe_reservation.h"

struct simhca_qp;

/* The ring that a CQ moves to, bit by bit. The other one is in use meanwhile. */
struct simhca_cq_move {
	struct simhca_cqe *ring; /* NULL: it does not move */
	struct simhca_mem_ref ring_ref;
	uint32_t entries, cqe;
	uint32_t next;	 /* index: those before it are there */
	uint64_t copied; /* CQEs */
};

struct simhca_cq {
	struct simhca_context *context;
	uint32_t number; /* in the device */
	pthread_mutex_t lock;
	struct simhca_cq_view view;
	struct simhca_shared shared; /* its state and its first ring */
	struct {
		bool begun;	   /* to copy it */
		uint32_t ci, next; /* from where on; those before next are there */
	} renewal;
	bool overrun;
	uint32_t most_waiting; /* CQEs at a time */
	/* Work requests that its QPs may have posted at a time; the most of that so far. */
	uint32_t feeds, most_feeds;
	uint64_t solicited; /* index of the last one that was solicited, or in error, plus 1 */
	/* moderation, if mod_count is not 0 */
	uint32_t mod_count, mod_period_us;
	uint32_t moderated;	   /* completions whose event waits for more of them */
	bool timed;		   /* the timer has been used */
	struct simhca_timer timer; /* of its context's engine: until moderated ones are told of */
	struct simhca_user_handle user_handle;
	uint64_t channel;
	uint32_t users;
	struct { /* sends of a QP that was destroyed, of which no completion was polled */
		uint32_t sends, qpn;
	} dropped; /* sends 0: there are none, or another QP has the CQ since */
	struct simhca_mem_ref mem_ref, ring_ref, data_ref;
	struct simhca_cq_move move;
	bool moved; /* that has to be answered yet */
	struct simhca_rest rest;
	uint64_t wiped; /* bytes of its ring, as it is destroyed */
};

/*
 * Publishes a CQE; seq and the time stamps are filled in here. False: there was no room, now or before,
 * so it is lost; that is the CQ's error, and fails its QPs.
 */
bool simhca_cq_push(struct simhca_cq *cq, const struct simhca_cqe *cqe);
/*
 * The same by who holds a QP's requester or responder. commit() runs between the reservation of the
 * CQE and its publication, under the CQ's lock; NULL: nothing is to be committed. False: no CQE could
 * be reserved, and it was not called.
 */
bool simhca_cq_push_commit(struct simhca_cq *cq, const struct simhca_cqe *cqe, struct simhca_qp *qp,
			   void (*commit)(struct simhca_qp *qp, uint32_t cqe_index));

/*
 * Completions of the QP's sends that wait, among the oldest that do. QPs write none meanwhile.
 */
uint32_t simhca_cq_sends_of(struct simhca_cq *cq, uint32_t qpn);

/* Raises an event that is due. Without the CQ's lock, as it is a system call. */
void simhca_cq_notify(const struct simhca_cq *cq);
/*
 * Other memory for it (renew.h), which has come: what is to be seen there until it is moved; and it
 * moves: 0, -ERESTART, or -errno, and then the CQ is in error.
 */
void simhca_cq_renew(struct simhca_cq *cq);
int simhca_cq_move(struct simhca_cq *cq, struct simhca_why *why);
/*
 * Of who is gone, and has that name: the CQE that it had committed (its index plus 1, 0: none) is
 * published, and what else it had claimed is void. The owner is told, who may wait for it.
 */
void simhca_cq_repair(struct simhca_cq *cq, uint32_t name, uint32_t committed);

#endif
