/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The packets of requests: what one says, how much of its message it has, and how many may be under way. */
#ifndef LIBSIMHCA_REQUEST_H
#define LIBSIMHCA_REQUEST_H

#include "link.h"
#include "packet/packet.h"
#include "qp.h"
#include "queue/psn.h"

/* request.c: builds the packet at psn_send, of the message in worker->send, without its payload. */
void simhca_request_build(const struct simhca_worker *worker, struct simhca_qp *qp, uint64_t offset,
			  struct simhca_packet *packet);
/* Finds the memory that a packet is made of; of a read, where its first response goes. */
enum simhca_reason simhca_request_memory(struct simhca_worker *worker, struct simhca_qp *qp,
					 uint64_t offset, const struct simhca_packet *packet,
					 struct simhca_sgl *sgl);

/* request_read.c: the bytes that a READ request asks for from that offset on. */
uint64_t simhca_request_read_length(const struct simhca_qp *qp, uint64_t offset, uint64_t left);
/* Whether what is at psn_send is no READ request, or one that may be sent now. */
bool simhca_request_may_read(struct simhca_qp *qp);

/* The bytes of the first response to a read of so many. */
static inline uint64_t simhca_response_length(uint64_t bytes)
{
	return bytes < SIMHCA_LINK_SLICE ? bytes : SIMHCA_LINK_SLICE;
}

/* How many PSNs may be under way now. */
static inline uint32_t simhca_window(const struct simhca_qp *qp)
{
	return qp->link->window_now ? qp->link->window_now(qp) : qp->link->window;
}

/* How many PSNs are sent and not acknowledged. */
static inline uint32_t simhca_psns_under_way(const struct simhca_qp *qp)
{
	return simhca_psn_distance(qp->req.psn_una, qp->req.psn_send);
}

#endif
