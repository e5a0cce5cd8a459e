/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the transport asks of the link to QPs that are not in the fabric; link/wire/wire.c has it.
 */
#ifndef LIBSIMHCA_UPLINK_H
#define LIBSIMHCA_UPLINK_H

#include <stdbool.h>

struct simhca_qp;

/* A QP is made (0 or -ENOMEM), and freed; on devices without a wire nothing happens. */
int simhca_wire_attach(struct simhca_qp *qp);
void simhca_wire_detach(struct simhca_qp *qp);
/* It has got its address, and it is forgotten. Under both of its locks. */
void simhca_wire_connect(struct simhca_qp *qp);
void simhca_wire_reset(struct simhca_qp *qp);
/*
 * No engine begins to take what has come for it; false: one is at it. For who cannot tell by the
 * guards, as an XRC_RECV QP has no context.
 */
bool simhca_wire_retire(struct simhca_qp *qp);
/* Whether its peer is on the wire. */
bool simhca_wire_has(const struct simhca_qp *qp);

#endif
