/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Faults on demand (inject/inject.h) of any link: packets that are lost, late, doubled, overtaken
 * or changed on their way.
 *
 * Late means that the QP waits and sends it then, so what is behind it is late as well. Of an
 * answer within the fabric, which comes before the request has been handed over, the requester
 * waits, and asks once more; what was done is not done again.
 */
#ifndef LIBSIMHCA_FAULTY_H
#define LIBSIMHCA_FAULTY_H

#include "proto/link.h"

/* Hands a packet over as the link does, or as a rule wants it. While there are rules. */
struct simhca_handover simhca_faulty_request(
	struct simhca_worker *worker, struct simhca_qp *qp, struct simhca_packet *packet,
	struct simhca_handover (*carry)(struct simhca_worker *worker, struct simhca_qp *qp,
					struct simhca_packet *packet));
struct simhca_handover simhca_faulty_respond(
	struct simhca_worker *worker, struct simhca_qp *qp, const struct simhca_packet *packet,
	struct simhca_handover (*carry)(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet));
/* A requester has pulled: an answer may have been late. */
void simhca_faulty_pulled(struct simhca_worker *worker, struct simhca_qp *qp,
			  struct simhca_handover *handover);

#endif
