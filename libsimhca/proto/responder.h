/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The responder: takes requests. */
#ifndef LIBSIMHCA_RESPONDER_H
#define LIBSIMHCA_RESPONDER_H

#include "link.h"

/* Takes a request packet, and answers by the QP's link. Under resp_lock. */
struct simhca_handover simhca_responder_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet);
/* Sends more of a response that is owed. Under resp_lock. */
struct simhca_handover simhca_responder_continue(struct simhca_worker *worker,
						 struct simhca_qp *qp);

#endif
