/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues. */
#ifndef LIBSIMHCA_SRQ_H
#define LIBSIMHCA_SRQ_H

#include "core/context.h"
#include "core/pd.h"
#include "cq.h"
#include "renew.h"
#include "queue/srq_claim.h"

struct simhca_srq_kind;
struct simhca_tags;
struct simhca_xrcd_open;

/* The ring that an SRQ moves to, bit by bit. The other one is in use meanwhile. */
struct simhca_srq_move {
	char *ring; /* NULL: it does not move */
	struct simhca_mem_ref ref;
	uint32_t max_wr;
	uint32_t next;	 /* index: those before it are there */
	uint64_t copied; /* WQEs */
};

struct simhca_srq {
	struct simhca_context *context;
	struct simhca_pd *pd;
	uint32_t type, srqn;
	const struct simhca_srq_kind *kind;
	struct simhca_xrcd_open *domain; /* XRC: through which it is in its domain */
	struct simhca_cq *cq;	  /* XRC, tag matching: where its receives complete; else NULL */
	struct simhca_tags *tags; /* tag matching: the list, of at most max_tags; under lock */
	uint32_t max_tags;
	pthread_mutex_t lock;
	struct simhca_srq_view view;
	struct simhca_shared shared; /* its state and its first ring */
	struct {
		bool begun;    /* to copy it */
		uint32_t next; /* those before are there */
	} renewal;
	uint32_t max_wr, limit;
	uint32_t armed, armings; /* what programs are told of the limit, and how often it was set */
	bool limit_spent;	 /* its event came, and it was not set again */
	uint32_t unused_limit; /* which ibv_create_srq() was given, and none was set since; or 0 */
	uint64_t
		claimants[SIMHCA_SRQ_CLAIMANTS / 64]; /* numbers that QPs have; control functions */
	struct simhca_user_handle user_handle;
	uint32_t users;
	struct simhca_mem_ref mem_ref, ring_ref;
	struct simhca_srq_move move;
	bool moved; /* that has to be answered yet */
	struct simhca_rest rest;
	uint64_t wiped; /* bytes of its ring, as it is destroyed */
	bool withdrawn; /* likewise: nobody finds it */
};

/* An XRC SRQ, by its number; NULL: none has it. Inside a guard, or in a control function. */
struct simhca_srq *simhca_xrc_srq(const struct simhca_device *device, uint32_t srqn);

/* Consumes the next receive WQE of an SRQ for a QP: it lies in qp->recv_copy afterwards. */
enum simhca_consume simhca_srq_consume(struct simhca_srq *srq, struct simhca_qp *qp);
/* Under the SRQ's lock; the limit event is the caller's to raise. */
enum simhca_consume simhca_srq_consume_locked(struct simhca_srq *srq, struct simhca_qp *qp,
					      bool *limit_reached);
void simhca_srq_raise_limit(const struct simhca_srq *srq);
/* It moves to other memory (renew.h): 0, -ERESTART, or -errno, and then the SRQ is in error. */
int simhca_srq_move(struct simhca_srq *srq, struct simhca_why *why);
/* Raises the limit event, if it is armed and fewer are left, or were when a step saw that arming reached. */
void simhca_srq_check_limit(struct simhca_srq *srq, uint32_t seen);

/* A number by which claims are told apart, of those that are not in use; 0: all are. */
uint32_t simhca_claimant_add(uint64_t claimants[SIMHCA_SRQ_CLAIMANTS / 64]);
void simhca_claimant_remove(uint64_t claimants[SIMHCA_SRQ_CLAIMANTS / 64], uint32_t number);

#endif
