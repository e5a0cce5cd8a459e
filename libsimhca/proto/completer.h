/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The completer: takes responses, and retires what they answer. */
#ifndef LIBSIMHCA_COMPLETER_H
#define LIBSIMHCA_COMPLETER_H

#include "link.h"

/*
 * Takes a response packet; UNREADABLE: the responder's memory cannot be read. What the requester
 * is to do about it is in its state afterwards. Under req_lock.
 */
struct simhca_handover simhca_completer_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet);
/* All before psn is acknowledged: what is complete by that leaves the send queue. */
void simhca_acknowledge(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t psn);
/* All that is not acknowledged is sent again. */
void simhca_go_back(struct simhca_qp *qp);

/*
 * Retires the oldest message under way with this status. Under req_lock. False: its WQE has become
 * another one; it stays under way, and the QP has failed.
 */
bool simhca_complete_send(struct simhca_worker *worker, struct simhca_qp *qp,
			  enum simhca_wc_status status, enum simhca_reason reason);

#endif
