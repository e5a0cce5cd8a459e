/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "dma/dma.h"
#include "engine/worker.h"
#include "faulty.h"
#include "inject/inject.h"
#include "tap.h"
#include "proto/completer.h"
#include "proto/injected.h"
#include "packet/packet.h"
#include "proto/qp.h"

#define HELD_NS (10 * 1000 * 1000) /* a rule that holds something is looked for again */
#define DATAGRAM_MOST 4096u

/* A datagram that waits to be overtaken. */
struct overtaken {
	struct simhca_packet packet;
	struct simhca_av av;
	struct simhca_sgl sgl;
	uint8_t payload[DATAGRAM_MOST];
};

/* Changes a bit of the payload on its way; whoever sent it keeps what it has. */
static void corrupt(struct simhca_worker *worker, struct simhca_packet *packet, uint64_t random,
		    struct simhca_sgl *sgl)
{
	uint8_t *bytes;

	if (!packet->payload || !packet->length ||
	    !simhca_tap_payload(worker, packet, &worker->faulty.payload))
		return;
	bytes = worker->faulty.payload;
	bytes[random / 8 % packet->length] ^= (uint8_t)(1u << random % 8);
	sgl->count = 1;
	sgl->seg[0] = (struct simhca_seg){ .addr = (uintptr_t)bytes, .length = packet->length };
	packet->payload = sgl;
}

/* --------------------------------------------------------------------------------- requests */

static void judge_request(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet)
{
	struct simhca_inject_hit hit = simhca_inject_hit_at(qp, SIMHCA_AT_REQUEST);
	struct simhca_inject_past *past = &qp->inject_past;

	if (past->request && past->request_psn == packet->psn)
		return;
	past->request = true;
	past->request_psn = packet->psn;
	hit.peer_qpn = packet->dest_qpn;
	hit.opcode = (int)worker->send->wqe.opcode;
	hit.bytes = simhca_request_bytes(packet);
	/* On a wire what follows, or an adaptive retransmission, may find out sooner. */
	if (simhca_is_reliable(qp->type) && !qp->link->remote)
		hit.timeout = qp->qpc->timeout;
	simhca_inject_decide(qp->device->fabric, &hit, &past->outcome);
	if (past->outcome.event)
		simhca_injected_async(qp, past->outcome.event - 1);
}

/* True: it waits for the next one. */
static bool put_aside(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet)
{
	struct overtaken *late;
	uint8_t *payload;

	if (qp->inject_past.overtaken || packet->length > DATAGRAM_MOST)
		return false;
	late = calloc(1, sizeof(*late));
	if (!late)
		return false;
	payload = late->payload;
	if (!simhca_tap_payload(worker, packet, &payload)) {
		free(late);
		return false;
	}
	late->packet = *packet;
	late->av = *packet->av;
	late->packet.av = &late->av;
	late->sgl.count = 1;
	late->sgl.seg[0] =
		(struct simhca_seg){ .addr = (uintptr_t)late->payload, .length = packet->length };
	late->packet.payload = &late->sgl;
	qp->inject_past.overtaken = late;
	return true;
}

struct simhca_handover simhca_faulty_request(
	struct simhca_worker *worker, struct simhca_qp *qp, struct simhca_packet *packet,
	struct simhca_handover (*carry)(struct simhca_worker *worker, struct simhca_qp *qp,
					struct simhca_packet *packet))
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_inject_past *past = &qp->inject_past;
	struct simhca_inject_outcome *outcome = &past->outcome;
	struct overtaken *late;
	struct simhca_sgl sgl;

	judge_request(worker, qp, packet);
	if (outcome->delay_ns) {
		handover.outcome = SIMHCA_LATE;
		handover.delay_ns = outcome->delay_ns;
		outcome->delay_ns = 0;
		return handover;
	}
	if (outcome->drop || (outcome->reorder && put_aside(worker, qp, packet))) {
		past->request = false;
		handover.reason = outcome->drop ? SIMHCA_REASON_INJECTED : SIMHCA_REASON_NONE;
		return handover;
	}
	if (outcome->corrupt)
		corrupt(worker, packet, outcome->random, &sgl);
	worker->faulty.delay_ns = 0;
	worker->faulty.lost = false;
	handover = carry(worker, qp, packet);
	if (handover.outcome != SIMHCA_ACCEPTED)
		return handover;
	if (outcome->duplicate)
		carry(worker, qp, packet);
	late = past->overtaken;
	if (late) {
		past->overtaken = NULL;
		carry(worker, qp, &late->packet);
		free(late);
	}
	past->request = worker->faulty.delay_ns;
	*outcome = (struct simhca_inject_outcome){ 0 };
	if (worker->faulty.delay_ns) {
		handover.outcome = SIMHCA_LATE;
		handover.delay_ns = worker->faulty.delay_ns;
		worker->faulty.delay_ns = 0;
	} else if (worker->faulty.lost) {
		handover.reason = SIMHCA_REASON_INJECTED;
	}
	return handover;
}

/* -------------------------------------------------------------------------------- responses */

/* What a response is part of, if that can be told. */
static int opcode_of(const struct simhca_qp *requester, const struct simhca_packet *packet)
{
	if (requester && requester->req.count)
		return (int)simhca_gate_nth(&requester->req, requester->flight, 0)->opcode;
	return packet->op == SIMHCA_PKT_READ_RESPONSE ? SIMHCA_WR_RDMA_READ : -1;
}

/* How long the answer is late for who waits for it, within the fabric. */
static uint64_t delay_of(struct simhca_qp *requester, const struct simhca_packet *packet,
			 const struct simhca_inject_outcome *response)
{
	struct simhca_inject_past *past = &requester->inject_past;
	struct simhca_fabric *fabric = requester->device->fabric;
	struct simhca_inject_hit hit = simhca_inject_hit_at(requester, SIMHCA_AT_ANSWER);
	struct simhca_inject_outcome outcome;

	hit.opcode = opcode_of(requester, packet);
	hit.bytes = packet->length;
	if (past->held && past->answer_psn == packet->psn &&
	    simhca_inject_stands(fabric, past->held))
		return HELD_NS;
	past->held = 0;
	if (past->answer && past->answer_psn == packet->psn) {
		past->answer = false;
		return 0;
	}
	simhca_inject_decide(fabric, &hit, &outcome);
	outcome.delay_ns += response->delay_ns;
	past->held = outcome.held;
	past->answer = outcome.delay_ns || outcome.held;
	past->answer_psn = packet->psn;
	return outcome.held ? HELD_NS : outcome.delay_ns;
}

struct simhca_handover simhca_faulty_respond(
	struct simhca_worker *worker, struct simhca_qp *qp, const struct simhca_packet *packet,
	struct simhca_handover (*carry)(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet))
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_inject_hit hit = simhca_inject_hit_at(qp, SIMHCA_AT_RESPONSE);
	struct simhca_qp *requester = qp->link->remote ? NULL : worker->requester;
	struct simhca_packet changed = *packet;
	struct simhca_inject_outcome outcome = { 0 };
	struct simhca_sgl sgl;

	hit.opcode = opcode_of(requester, packet);
	hit.bytes = packet->length;
	/* One that was late has been judged. */
	if (!requester || !requester->inject_past.answer ||
	    requester->inject_past.answer_psn != packet->psn)
		simhca_inject_decide(qp->device->fabric, &hit, &outcome);
	if (outcome.event && qp->context)
		simhca_injected_async(qp, outcome.event - 1);
	if (outcome.drop) {
		worker->faulty.lost = true;
		return handover;
	}
	if (requester) {
		worker->faulty.delay_ns = delay_of(requester, packet, &outcome);
		if (worker->faulty.delay_ns)
			return handover;
	}
	if (outcome.corrupt)
		corrupt(worker, &changed, outcome.random, &sgl);
	handover = carry(worker, qp, &changed);
	if (outcome.duplicate && handover.outcome == SIMHCA_ACCEPTED)
		carry(worker, qp, &changed);
	return handover;
}

void simhca_faulty_pulled(struct simhca_worker *worker, struct simhca_qp *qp,
			  struct simhca_handover *handover)
{
	if (handover->outcome != SIMHCA_ACCEPTED || !worker->faulty.delay_ns)
		return;
	handover->outcome = SIMHCA_LATE;
	handover->delay_ns = worker->faulty.delay_ns;
	worker->faulty.delay_ns = 0;
	simhca_go_back(qp);
}
