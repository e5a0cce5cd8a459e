/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The local link. */
#ifndef LIBSIMHCA_LOCAL_H
#define LIBSIMHCA_LOCAL_H

#include "proto/link.h"

/*
 * Both ends in this process. A packet is handed over by a call with its payload still in its
 * owner's memory, and its answer comes before the call returns. The slice bounds a step.
 */
extern const struct simhca_link simhca_local_link;

/* A datagram to a multicast group: a copy to every QP that is attached at one of the ports. */
struct simhca_handover simhca_multicast(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet);

#endif
