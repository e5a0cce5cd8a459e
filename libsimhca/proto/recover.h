/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a program leaves behind that ends in the middle of a datagram (step_ud.c): CQEs that it has
 * reserved, and receives that it claimed for a message that is not committed. These receives are
 * for the next datagrams that the device carries to that QP, or are flushed, also if they came from
 * an SRQ.
 */
#ifndef LIBSIMHCA_RECOVER_H
#define LIBSIMHCA_RECOVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct simhca_abandoned_receive;
struct simhca_qp;

/* At the QP whose receives they are. */
struct simhca_abandoned {
	pthread_mutex_t lock; /* held for moments */
	struct simhca_abandoned_receive *oldest, **end;
	_Atomic uint32_t count;
	uint32_t life;				       /* of the queue: a reset begins another */
	uint64_t claimants[SIMHCA_SRQ_CLAIMANTS / 64]; /* numbers in use; control functions */
};

void simhca_abandoned_init(struct simhca_abandoned *left);
void simhca_abandoned_free(struct simhca_abandoned *left);
/* The queue starts over, and what was claimed before means nothing. */
void simhca_abandoned_reset(struct simhca_abandoned *left);
/* Copies the oldest to where a receive that was claimed lies; false: there is none. */
bool simhca_abandoned_consume(struct simhca_abandoned *left, char *copy);

/*
 * Recovers what the QP's program has left behind, if anything: while the device holds the
 * requester, before it changes it, or when the program has ended.
 */
void simhca_qp_recover(struct simhca_qp *qp);
/* What it has left at that QP, as it has ended. False: somebody is at the QP. */
bool simhca_qp_recover_at(struct simhca_qp *qp, struct simhca_qp *dest);

#endif
