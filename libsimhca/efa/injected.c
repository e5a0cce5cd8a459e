/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What rules of `simhca inject` do to messages of an EFA device: each is judged once. */
#include <infiniband/verbs.h>

#include "inject/inject.h"
#include "objects.h"

#define LOST_NS (1000 * 1000)	  /* until SRD sends again what was lost */
#define OVERTAKEN_NS (200 * 1000) /* that others have to pass a message */

static struct simhca_inject_hit hit_at(const struct efa_qp *qp, const struct efa_message *message,
				       enum simhca_point point)
{
	return (struct simhca_inject_hit){
		.point = point,
		.device = qp->context->device,
		.context = qp->context,
		.qpn = qp->qpn,
		.peer_qpn = message->send.dest_qpn,
		.qp_type = qp->srd ? IBV_QPT_DRIVER : SIMHCA_QPT_UD,
		.opcode = (int)efa_wr_opcode(&message->send),
		.bytes = message->send.length,
		.datagram = true,
	};
}

static bool decide(const struct efa_qp *qp, const struct efa_message *message,
		   enum simhca_point point, struct simhca_inject_outcome *outcome)
{
	const struct simhca_inject_hit hit = hit_at(qp, message, point);

	return simhca_inject_decide(qp->context->device->fabric, &hit, outcome);
}

enum efa_injection efa_injected_send(const struct efa_qp *qp, struct efa_message *message,
				     uint64_t now)
{
	struct simhca_inject_outcome outcome = { 0 };

	if (message->judged)
		return EFA_INJECTED_NOTHING;
	message->judged = true;
	message->reason = SIMHCA_REASON_INJECTED;
	if (decide(qp, message, SIMHCA_AT_WQE, &outcome) && outcome.status) {
		message->injected = efa_status_of(outcome.status);
		return EFA_INJECTED_FAILURE;
	}
	if (!decide(qp, message, SIMHCA_AT_REQUEST, &outcome))
		return EFA_INJECTED_NOTHING;
	if (outcome.drop && !qp->srd)
		return EFA_INJECTED_LOSS;
	if (outcome.corrupt) {
		message->corrupt = true;
		message->corrupt_at = (uint32_t)outcome.random;
	}
	if (outcome.drop)
		outcome.delay_ns += LOST_NS;
	if (outcome.reorder)
		outcome.delay_ns += OVERTAKEN_NS;
	if (!outcome.delay_ns)
		return EFA_INJECTED_NOTHING;
	message->not_before_ns = now + outcome.delay_ns;
	return EFA_INJECTED_DELAY;
}

enum efa_injection efa_injected_arrival(const struct efa_qp *qp, struct efa_message *message)
{
	struct simhca_inject_outcome outcome;

	if (!qp->srd || !decide(qp, message, SIMHCA_AT_ARRIVAL, &outcome))
		return EFA_INJECTED_NOTHING;
	message->reason = SIMHCA_REASON_INJECTED;
	if (outcome.not_ready)
		return EFA_INJECTED_NOT_READY;
	if (!outcome.nak)
		return EFA_INJECTED_NOTHING;
	message->injected = EFA_STATUS_REMOTE_ABORT;
	return EFA_INJECTED_FAILURE;
}

bool efa_injected_event(const struct efa_cq *cq)
{
	const struct simhca_inject_hit hit = { .point = SIMHCA_AT_EVENT,
					       .device = cq->context->device,
					       .context = cq->context,
					       .opcode = -1 };
	struct simhca_inject_outcome outcome;

	return simhca_inject_is_on(cq->context->device->fabric) &&
	       simhca_inject_decide(cq->context->device->fabric, &hit, &outcome) &&
	       outcome.no_event;
}
