/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work requests that send nothing. */
#ifndef LIBSIMHCA_LOCAL_OPS_H
#define LIBSIMHCA_LOCAL_OPS_H

#include "requester.h"

/* What a memory management WQE asks for, and the invalidation that ends a read. Under req_lock. */
enum simhca_next simhca_local_run(struct simhca_worker *worker, struct simhca_qp *qp);

#endif
