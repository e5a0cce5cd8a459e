/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How many requests a long read is, how many of them are under way, and what max_rd_atomic says of that. */
#include "queue/progress.h"
#include "request.h"
#include "requester.h"
#include "wqe.h"

#define LOOKED_AHEAD 256u /* WQEs */

/* PSNs that a READ request asks for at most: a power of two, and no more than the window. */
static uint32_t most_of_read(const struct simhca_qp *qp)
{
	uint32_t most = qp->link->read, window = simhca_window(qp);

	while (most > window && most > 1)
		most /= 2;
	return most;
}

/*
 * The bytes that a READ request asks for from that offset on. A request that is repeated has to lie
 * within one that was sent before, or the responder does not answer it. So requests begin at multiples
 * of their largest size, those of a smaller window lie within those of a larger one, and a repeated one
 * ends where the request that it repeats did, and never behind what was sent.
 */
uint64_t simhca_request_read_length(const struct simhca_qp *qp, uint64_t offset, uint64_t left)
{
	uint64_t mtu = simhca_qp_mtu(qp), part = most_of_read(qp) * mtu;
	int32_t again = simhca_psn_cmp(qp->requester.asked, qp->req.psn_send);

	if (!part)
		return left;
	if (again <= 0)
		again = simhca_psn_cmp(qp->req.psn_sent, qp->req.psn_send);
	if (again > 0 && left > (uint64_t)again * mtu)
		left = (uint64_t)again * mtu;
	if (left > part - offset % part)
		return part - offset % part;
	return left;
}

/* How many requests of reads and atomics are without a complete answer. */
static uint32_t reads_under_way(struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;
	uint32_t oldest = simhca_flight(qp, 0)->first, requests = 0;
	uint32_t from = simhca_psn_distance(oldest, req->psn_una);
	uint32_t to = simhca_psn_distance(oldest, req->psn_send);

	for (uint32_t i = 0; i < req->count; i++) {
		const struct simhca_flight *flight = simhca_flight(qp, i);
		uint32_t first = simhca_psn_distance(oldest, flight->first);
		uint32_t end = simhca_psn_distance(oldest, flight->last) + 1;

		if (first >= to)
			break;
		if (end <= from || !simhca_is_read_like(flight->opcode))
			continue;
		requests += ((end < to ? end : to) - 1 - first) / qp->link->read -
			    ((first < from ? from : first) - first) / qp->link->read + 1;
	}
	return requests;
}

/*
 * Nothing paces the responses to one request, so a long read is several requests. As many are under way
 * as the window has room for and the responder takes. A repeated request has to lie within one of them
 * (simhca_request_read_length()), so requests that a small window has made smaller go one by one, until one begins at
 * a multiple of the link's size again.
 */
bool simhca_request_may_read(struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;
	const struct simhca_flight *flight;
	uint32_t part;

	if (!qp->link->read || req->psn_send == req->psn_una)
		return true;
	flight = simhca_flight(qp, simhca_flight_at(qp, req->psn_send));
	if (!simhca_is_read_like(flight->opcode))
		return true;
	if (reads_under_way(qp) >= qp->qpc->max_rd_atomic)
		return false;
	part = simhca_psn_distance(flight->first, req->psn_send) % qp->link->read;
	return req->psn_send == flight->first ||
	       (!part && simhca_psns_under_way(qp) + qp->link->read <= simhca_window(qp));
}

bool simhca_exceeds_rd_atomic(const struct simhca_worker *worker, struct simhca_qp *qp,
			      uint32_t most)
{
	uint32_t index = worker->send_index, reads = 0, posted;

	if (worker->send->wqe.flags & SIMHCA_WQE_EXCEEDS_RD_ATOMIC)
		return true;
	if (qp->requester.exceeding.found &&
	    qp->requester.exceeding.index - index < SIMHCA_MAX_QP_WR)
		return qp->requester.exceeding.index == index;
	qp->requester.exceeding.found = false;
	if (!most || qp->requester.fetching ||
	    !simhca_progress_sends(qp->mem, qp->req.oldest, qp->req.count, qp->sq_entries, &posted))
		return false;
	posted = qp->req.oldest + posted - index;
	for (uint32_t n = 1; n < posted && n < LOOKED_AHEAD; n++) {
		struct simhca_send_wqe wqe;

		simhca_sq_header(qp, index + n, &wqe);
		/* These wait for the answers, and so does all behind them. */
		if (simhca_is_local_op(wqe.opcode) || (wqe.flags & SIMHCA_WQE_FENCE))
			break;
		if (!simhca_is_read_like(wqe.opcode))
			continue;
		if (++reads == qp->qpc->max_rd_atomic)
			break;
		if (reads == most) {
			qp->requester.exceeding.found = true;
			qp->requester.exceeding.index = index + n;
			break;
		}
	}
	return false;
}
