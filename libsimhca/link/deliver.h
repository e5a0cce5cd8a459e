/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* For links: a packet at the QP that it is for. */
#ifndef LIBSIMHCA_DELIVER_H
#define LIBSIMHCA_DELIVER_H

#include "proto/link.h"

struct simhca_device;

/*
 * A packet at the QP that it is for. BUSY, ELSEWHERE, ABSENT: it is to be kept. A queue
 * offers no request while the responder owes a response.
 */
struct simhca_handover simhca_link_deliver(struct simhca_worker *worker, struct simhca_qp *qp,
					   const struct simhca_packet *packet);
/* A request that leaves `from` by being at the QP. */
struct simhca_handover simhca_link_carry(struct simhca_worker *worker, struct simhca_device *from,
					 struct simhca_qp *qp, const struct simhca_packet *packet);
/* Has the responder go on with a response; *owed: there is yet more of it. */
struct simhca_handover simhca_link_continue(struct simhca_worker *worker, struct simhca_qp *qp,
					    uint32_t other, bool *owed);
/* The QP that an address names, as seen from a device. Inside a guard. */
struct simhca_qp *simhca_link_find(const struct simhca_device *source, const struct simhca_av *av,
				   uint32_t qpn);

/*
 * The QP that a connected one sends to; NULL as well if that drops what comes from this one, as it
 * is connected to other addresses. Inside a guard.
 */
struct simhca_qp *simhca_link_peer(const struct simhca_qp *qp);

/* Whether the QP's port lets anything out; counts what it does not. */
bool simhca_link_is_up(struct simhca_qp *qp);

#endif
