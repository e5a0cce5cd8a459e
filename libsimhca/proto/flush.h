/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Flushing. */
#ifndef LIBSIMHCA_FLUSH_H
#define LIBSIMHCA_FLUSH_H

#include <stdint.h>

struct simhca_cq;
struct simhca_qp;

/* Completes everything posted with a flush error: the SQ, and in ERR the RQ as well. */
void simhca_flush(struct simhca_qp *qp);
void simhca_flush_cqe(struct simhca_cq *cq, struct simhca_qp *qp, uint64_t wr_id, uint8_t opcode,
		      uint32_t index, uint8_t flags);

#endif
