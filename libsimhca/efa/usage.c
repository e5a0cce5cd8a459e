/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What QPs have done, for who watches: of the sender under its work lock, of the receiver by any sender. */
#include "objects.h"

void efa_show(struct efa_qp *qp)
{
	const struct efa_send *oldest = qp->waiting ? &qp->messages[0].send : NULL;
	union simhca_gid gid;

	atomic_store_explicit(&qp->shown_count, qp->count + qp->flight_count, memory_order_relaxed);
	atomic_store_explicit(&qp->shown_waits_for, oldest ? oldest->dest_qpn : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&qp->shown_peer_device,
			      oldest && efa_ah_gid(qp->context->efa, oldest->ah, &gid)
				      ? efa_device_at(qp->context->device, &gid)
				      : NULL,
			      memory_order_relaxed);
}

/* By one of many senders. */
static void count_at(_Atomic uint64_t *counter, uint64_t by)
{
	/* relaxed: numbers by themselves. */
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

void efa_count_sent(struct simhca_worker *worker, struct efa_qp *qp,
		    const struct efa_message *message, enum efa_status status)
{
	struct simhca_usage *usage = qp->usage;
	const bool reads = message->send.opcode == EFA_RDMA_READ;

	if (status != EFA_STATUS_OK) {
		simhca_usage_add(&usage->errors, 1);
	} else {
		simhca_usage_add(reads ? &usage->reads : &usage->messages, 1);
		simhca_usage_add(reads ? &usage->read_bytes : &usage->bytes, message->send.length);
	}
	if (simhca_usage_is_timed(usage, message->index))
		simhca_usage_end(usage, simhca_engine_now(worker->engine));
}

void efa_count_without_recv(struct efa_qp *qp)
{
	bool any_yet;

	efa_recvs(qp, &any_yet);
	if (!any_yet)
		count_at(&qp->usage->too_early, 1);
	count_at(&qp->usage->no_receive, 1);
}

void efa_count_not_ready(struct efa_qp *qp, struct efa_qp *peer)
{
	if (peer)
		efa_count_without_recv(peer);
	if (qp->srd)
		simhca_usage_add(&qp->usage->rnr_naks, 1);
}

void efa_count_received(struct efa_qp *peer, uint64_t bytes)
{
	count_at(&peer->usage->received, 1);
	count_at(&peer->usage->received_bytes, bytes);
}
