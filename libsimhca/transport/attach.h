/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that run steps of their QPs (simhca-abi-caller.h): who may, with whom, until when; and
 * what the device does about those who are in the middle of one, or have ended there.
 */
#ifndef LIBSIMHCA_ATTACH_H
#define LIBSIMHCA_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

struct simhca_context;
struct simhca_qp;
struct simhca_usage_sum;

/* A QP that is being made, whose memory takes so many bytes: what it has of this. */
void simhca_caller_init(struct simhca_qp *qp, uint64_t bytes);
void simhca_caller_free(struct simhca_qp *qp);
/* Where a CQ that is being made shall lie; 0: anywhere. */
uint32_t simhca_caller_cq_segment(struct simhca_context *context, uint64_t state, uint64_t ring);

/* No program begins a step with the QP any more. */
void simhca_callers_end(struct simhca_qp *qp);
/*
 * The QP goes, and no step of it is under way, unless its program ended there: mends what that left
 * behind. False: somebody is at the peer, or many events are due.
 */
bool simhca_caller_detach(struct simhca_qp *qp);
/* The doorbell of the QP rang, or will not: does what a caller has left. True: some is left still.
 */
bool simhca_caller_rang(struct simhca_qp *qp);

/* Adds what programs have carried for the QP, and to it. */
void simhca_caller_usage(const struct simhca_qp *qp, struct simhca_usage_sum *sum);

#endif
