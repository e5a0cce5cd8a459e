/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion counters (rdma-core 65): what a QP completes, as two numbers in memory that its client
 * reads, beside or instead of CQEs. Each operation of a QP can have one; a counter can serve many.
 */
#ifndef LIBSIMHCA_COMP_CNTR_H
#define LIBSIMHCA_COMP_CNTR_H

#include "qp.h"

struct simhca_comp_cntr {
	struct simhca_comp_cntr_mem *mem;
	struct simhca_mem_ref mem_ref;
	uint32_t type;	/* enum simhca_comp_cntr_type */
	uint32_t users; /* operations of QPs */
};

/* The QP has completed that many work requests of the operation, or a part with so many bytes. */
static inline void simhca_count(const struct simhca_qp *qp, enum simhca_comp_cntr_op op,
				uint64_t wrs, uint64_t bytes)
{
	struct simhca_comp_cntr *counter = qp->comp_cntr[op];

	if (__builtin_expect(counter != NULL, 0))
		atomic_fetch_add_explicit(&counter->mem->value,
					  counter->type == SIMHCA_COMP_CNTR_BYTES ? bytes : wrs,
					  memory_order_release);
}

static inline void simhca_count_error(const struct simhca_qp *qp, enum simhca_comp_cntr_op op)
{
	struct simhca_comp_cntr *counter = qp->comp_cntr[op];

	if (__builtin_expect(counter != NULL, 0))
		atomic_fetch_add_explicit(&counter->mem->errors, 1, memory_order_release);
}

/* A send work request has completed, with success or not; atomics and others are not counted. */
void simhca_count_send(const struct simhca_qp *qp, uint8_t opcode, bool success, uint64_t bytes);

/* The QP is destroyed, and no step of it is under way. */
void simhca_comp_cntr_detach(struct simhca_qp *qp);

#endif
