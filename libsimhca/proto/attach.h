/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that run steps of their QPs (simhca-abi-fastpath.h): who may, with whom, until when; and
 * what the device does about those who are in the middle of one, or have ended there.
 */
#ifndef LIBSIMHCA_ATTACH_H
#define LIBSIMHCA_ATTACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"
#include "simhca-spin.h"

struct simhca_context;
struct simhca_qp;
struct simhca_usage_sum;
struct simhca_why;

/* simhca_context_place() of a QP that is being made, and what else it has of this. */
int simhca_fastpath_init(struct simhca_qp *qp, uint64_t bytes, uint32_t *segment,
			 struct simhca_why *why);
void simhca_fastpath_free(struct simhca_qp *qp);
/*
 * The QP starts over, and a peer that had its memory is to have none of what the QP has from here
 * on. *fd: a file for that, -1: none is needed; 0 or -errno, before anything has changed. Then,
 * under both locks, the QP's memory becomes that file, all zero: the segment that the client has to
 * map anew, or 0, and then it has the one that it had.
 */
int simhca_fastpath_spare(const struct simhca_qp *qp, int *fd, struct simhca_why *why);
uint32_t simhca_fastpath_revoke(struct simhca_qp *qp, int fd);
/*
 * The QP goes, and no step of it is under way, unless its program ended there: mends what that left
 * behind. False: somebody is at the peer, or many events are due.
 */
bool simhca_fastpath_detach(struct simhca_qp *qp);
/*
 * The QP goes or starts over, and no program is in a step with it but those that have ended in one:
 * recovers what these have left at it. False: somebody is at one of them.
 */
bool simhca_fastpath_recover(struct simhca_qp *qp);
/*
 * The program of this context has ended: an atomic, or a write, that it was in the middle of is
 * over.
 */
void simhca_fastpath_gone(struct simhca_context *context);
/* The QP has gone; nobody sends to it any more. */
void simhca_fastpath_forget(struct simhca_qp *qp);
/*
 * The doorbell of the QP rang, or will not: does what the program has left to the device. True:
 * some is still left.
 */
bool simhca_fastpath_rang(struct simhca_qp *qp);

/*
 * The device works for a QP whose program posts on: without a gap that would never end, while the
 * program could carry it all at its next post. So between two messages the device leaves the rest
 * to it, for a moment. Under req_lock.
 */
struct simhca_fastpath_yielding {
	_Atomic uint64_t until; /* the timer's deadline; 0: it is not left. Read without the lock */
	uint64_t messages, bytes; /* that the program had carried when it was left last */
	struct simhca_spin worth;
};
/* The program would carry the next messages: none is to be begun before those under way are done. */
bool simhca_fastpath_is_wanted(const struct simhca_qp *qp);
/* Whether it does so now. */
bool simhca_fastpath_yield(struct simhca_qp *qp);
/* Whether it has done so, and the program has not come yet, nor is the moment over. Any time. */
bool simhca_fastpath_has_yielded(struct simhca_qp *qp);

/* Adds what programs have carried for the QP, and to it. */
void simhca_fastpath_usage(const struct simhca_qp *qp, struct simhca_usage_sum *sum);

#endif
