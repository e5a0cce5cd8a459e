/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What failed, for the log and for simhca_ops.failure: with all that there is to know of it then.
 */
#ifndef LIBSIMHCA_FAILURE_H
#define LIBSIMHCA_FAILURE_H

#include <stdint.h>

#include "engine/worker.h"
#include "packet/packet.h"
#include "wqe.h"

struct simhca_qp;

/* What the request is part of: an enum simhca_wr_opcode. */
uint32_t simhca_request_opcode(const struct simhca_packet *packet);

/* A send work request, that of ring index `index`, with the PSNs that it had. */
void simhca_report_send(struct simhca_worker *worker, const struct simhca_qp *qp,
			const struct simhca_send *send, uint32_t index,
			const struct simhca_flight *flight, enum simhca_wc_status status,
			enum simhca_reason reason);
/* A receive, which the peer's message had consumed; recv: its SGEs, or NULL. */
void simhca_report_recv(struct simhca_worker *worker, const struct simhca_qp *qp,
			const struct simhca_recv *recv, uint64_t wr_id, uint32_t peer_qpn,
			enum simhca_wc_status status, enum simhca_reason reason);
/* A responder "refuses" or "drops" a request. */
void simhca_report_refusal(const struct simhca_qp *qp, const struct simhca_packet *packet,
			   const char *does, enum simhca_reason reason);
/* Why nobody answers a requester, in words as well; obstacle: as simhca.h says. */
void simhca_report_silence(const struct simhca_qp *qp, enum simhca_reason reason,
			   const char *obstacle, const char *text);
/* Likewise, of a message that nobody takes, and whose sender does not wait for an answer. */
void simhca_report_lost(const struct simhca_qp *qp, const struct simhca_packet *packet,
			const char *obstacle, const char *text);
/* So many work requests of a QP that had failed. */
void simhca_report_flush(const struct simhca_qp *qp, uint32_t count);

#endif
