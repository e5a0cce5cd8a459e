/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Flushing. */
#ifndef LIBSIMHCA_FLUSH_H
#define LIBSIMHCA_FLUSH_H

#include <stdint.h>

struct simhca_qp;

/* Completes everything posted with a flush error: the SQ, and in ERR the RQ as well. */
void simhca_flush(struct simhca_qp *qp);
/* The receive that a message had consumed, but not completed, if there is one. How many. */
uint32_t simhca_flush_receive(struct simhca_qp *qp);

#endif
