/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What `simhca run --lint` looks for in the program itself (SIMHCA_LINT=on): requests that this device
 * carries out as they were meant, and a NIC need not. A program is judged by what it knows: a
 * request is under way from its post until its completion, or that of a later one, was polled.
 *
 * Nobody is accused of what may be all right. Bytes of which lint does not know where they lie, as
 * they are named by a key that is not of an ordinary region of this process, are passed over.
 */
#ifndef SHCA_PROVIDER_LINT_H
#define SHCA_PROVIDER_LINT_H

#include "provider.h"

/*
 * lint_regions.c: the regions of this process. All of it is under one mutex, which is taken within
 * the locks of queues.
 */
void shca_lint_lock(void);
void shca_lint_unlock(void);

/* Does nothing unless lint is on. */
void shca_lint_region_add(struct shca_mr *mr, const struct simhca_reg_mr_req *req);
/* The region has other keys, and what else the command has changed. */
void shca_lint_region_change(struct shca_mr *mr, const struct simhca_rereg_mr_req *req);
void shca_lint_region_remove(struct shca_mr *mr);
/* Whether what a region's memory is unmapped or replaced by there would be told of it. */
bool shca_lint_watches(uint64_t addr, uint64_t length);
/* From now on the device may write to memory of which lint does not know where it lies. */
void shca_lint_unknown_writes(struct shca_context *ctx);

/* The following are called with the mutex. */

/* Where an SGE's bytes lie; 0: nothing is known of it, or it has none. */
uint64_t shca_lint_address(struct shca_context *ctx, const struct simhca_sge *sge);
/* The device is asked to write there. */
void shca_lint_will_write(struct shca_context *ctx, const struct simhca_sge *sge, uint32_t num_sge);
/*
 * Whether the device may ever have written to any of these bytes, for this process or for a peer.
 * It asks the device, with commands.
 */
bool shca_lint_may_have_written(uint64_t addr, uint32_t length);

/* lint.c */

/* With the SQ's lock, before the device is told of the WQEs from sq.posted to sq.head. */
void shca_lint_sends(struct shca_qp *qp);
/* A datagram is to be posted by this address handle. */
void shca_lint_address_handle(struct shca_qp *qp, const struct ibv_ah *ah);
/* A request is to be posted whose sg_list is not used. */
void shca_lint_no_sge(struct shca_qp *qp, const struct ibv_send_wr *wr);
/* With the SQ's lock, before the WQE at sq.head is finished: bytes that are copied into it. */
void shca_lint_inline(struct shca_qp *qp, uint64_t wr_id, const void *addr, size_t length);
/* The QP was modified so. */
void shca_lint_modified(struct shca_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* query.c: whether the process has asked for attributes of a port. */
extern atomic_bool shca_lint_asked_port;
/* With the RQ's lock, likewise. */
void shca_lint_receives(struct shca_context *ctx, const struct shca_rq *rq);
/* With the CQ's lock, before the slots that the CQE covers are free again. */
void shca_lint_completion(struct shca_cq *cq, const struct simhca_cqe *cqe);

/* lint_threads.c: when the context has its verbs; nothing happens if lint is off. */
void shca_lint_threads(struct shca_context *ctx);
/* Likewise, when a QP or a CQ has its functions. */
void shca_lint_threads_of_qp(struct shca_qp *qp);
void shca_lint_threads_of_cq(struct shca_cq *cq);

/* A QP that has its queues; nothing happens if lint is off. */
void shca_lint_qp_add(struct shca_qp *qp);
/* Before its queues go, or start over. */
void shca_lint_qp_remove(struct shca_qp *qp);
void shca_lint_qp_reset(struct shca_qp *qp);

#endif
