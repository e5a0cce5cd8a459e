/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files about programs that are attached to a peer share (attach.h). */
#ifndef LIBSIMHCA_ATTACH_IMPL_H
#define LIBSIMHCA_ATTACH_IMPL_H

#include "qp.h"

/* The QP's peer, if the two can do without the device; or NULL, and why says what is in the way. */
struct simhca_qp *simhca_fastpath_peer(const struct simhca_qp *qp, const struct simhca_mm *asker,
				       const struct simhca_av *av, uint32_t qpn,
				       struct simhca_why *why);
/* The numbers by which those that send to a UD QP claim its receives. */
uint64_t *simhca_fastpath_claimants(struct simhca_qp *qp);
/* The QP of that number does not write to what it is with any more. */
void simhca_fastpath_remove_writers(struct simhca_fabric *fabric, struct simhca_steps_with *with,
				    uint32_t qpn);

/* Which of those that the QP is with the peer is. */
static inline uint32_t simhca_fastpath_key(const struct simhca_qp *qp, const struct simhca_qp *peer)
{
	return qp->type == SIMHCA_QPT_UD ? peer->qpn : 0;
}

#endif
