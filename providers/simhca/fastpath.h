/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Steps of QPs by the thread that posts (simhca-abi-fastpath.h). A QP is attached to its peer when
 * it can be, and else its messages are the device's to carry, as they are when a step comes to an
 * end.
 */
#ifndef SIMHCA_PROVIDER_CALLER_H
#define SIMHCA_PROVIDER_CALLER_H

#include "provider.h"

/* Lets programs that could write to the memory of this one be attached to the QPs of a context. */
void shca_fastpath_offer(struct shca_context *ctx);
/* A QP of which the device says where its part is (all zero: it has none); and its end. */
int shca_fastpath_init(struct shca_qp *qp, const struct simhca_mem_ref *ref);
void shca_fastpath_free(struct shca_qp *qp);
/* It may have become possible to attach it. */
void shca_fastpath_connected(struct shca_qp *qp);
/* Carries what was posted. False: the doorbell is to be rung. The caller holds the SQ's lock. */
bool shca_fastpath_run(struct shca_qp *qp);

#endif
