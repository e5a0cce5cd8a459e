/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * EFA's messages in a trace (link/tap.h). How SRD looks on Amazon's network is not public, so they stand
 * there as RC's would: a send in one packet, as EFA's MTU has room for it, RDMA in packets of 4096 bytes,
 * and an answer to each. (What is nearest, RD, Wireshark takes for ConnectX's DC.) UD is UD. A message that
 * waits for a receive is shown once it has one.
 */
#include "link/tap.h"
#include "objects.h"
#include "queue/psn.h"

#define RDMA_MTU 5 /* IBV_MTU_4096 */
#define RDMA_MTU_BYTES 4096u

static void put(struct simhca_worker *worker, const struct efa_qp *from, const struct efa_qp *to,
		const struct simhca_packet *packet, const uint8_t *payload)
{
	const struct simhca_frame_facts facts = {
		.context = from->context->id,
		.qpn = from->qpn,
		.peer_qpn = to->qpn,
	};
	const struct simhca_wire_path path = {
		.source = simhca_gids_get(&from->context->device->gids, 0),
		.destination = simhca_gids_get(&to->context->device->gids, 0),
		.source_port = SIMHCA_WIRE_PORT,
	};

	simhca_tap_packet(worker, &facts, &path, packet, payload);
}

static struct simhca_packet packet_of(const struct efa_qp *qp, const struct efa_message *message,
				      enum simhca_packet_op op)
{
	return (struct simhca_packet){
		.op = op,
		.transport = qp->srd ? SIMHCA_QPT_RC : SIMHCA_QPT_UD,
		.first = true,
		.last = true,
		.mtu = RDMA_MTU,
		.dest_qpn = message->send.dest_qpn,
		.psn = message->psn,
		.src_qpn = qp->qpn,
		.qkey = message->send.qkey,
		.imm_or_rkey = message->send.imm,
	};
}

static void answer(struct simhca_worker *worker, const struct efa_qp *qp,
		   const struct efa_message *message, const struct efa_qp *peer, uint8_t syndrome)
{
	const struct simhca_packet packet = {
		.op = SIMHCA_PKT_ACK,
		.transport = SIMHCA_QPT_RC,
		.first = true,
		.last = true,
		.dest_qpn = qp->qpn,
		.psn = message->psn,
		.syndrome = syndrome,
	};

	put(worker, peer, qp, &packet, NULL);
}

void efa_trace_send(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		    const struct efa_qp *peer, const uint8_t *data, enum efa_status status)
{
	struct simhca_packet packet;

	message->psn = qp->psn;
	qp->psn = simhca_psn_add(qp->psn, 1);
	packet = packet_of(qp, message, SIMHCA_PKT_SEND);
	packet.has_imm = message->send.has_imm;
	packet.length = message->send.length;
	put(worker, qp, peer, &packet, data);
	if (qp->srd)
		answer(worker, qp, message, peer,
		       status == EFA_STATUS_OK		    ? SIMHCA_SYNDROME_ACK
		       : status == EFA_STATUS_REMOTE_LENGTH ? SIMHCA_SYNDROME_NAK_INVALID
							    : SIMHCA_SYNDROME_NAK_OPERATIONAL);
}

/* Before the first of its bytes move: its packets get their numbers. */
static void begin(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		  const struct efa_qp *peer)
{
	struct simhca_packet request = packet_of(qp, message, SIMHCA_PKT_READ);

	request.psn = message->psn = qp->psn;
	qp->psn = simhca_psn_add(qp->psn, simhca_psn_count(message->send.length, RDMA_MTU_BYTES));
	request.va = message->send.remote_addr;
	request.dma_length = message->send.length;
	request.rkey = message->send.rkey;
	if (message->send.opcode == EFA_RDMA_READ)
		put(worker, qp, peer, &request, NULL);
}

void efa_trace_rdma(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		    const struct efa_qp *peer, const struct simhca_sgl *moved, uint32_t length)
{
	const struct efa_send *send = &message->send;
	const bool reads = send->opcode == EFA_RDMA_READ;
	struct simhca_packet packet =
		packet_of(qp, message, reads ? SIMHCA_PKT_READ_RESPONSE : SIMHCA_PKT_WRITE);

	if (!message->done)
		begin(worker, qp, message, peer);
	packet.first = !message->done;
	packet.last = message->done + length == send->length;
	packet.psn = simhca_psn_add(message->psn, message->done / RDMA_MTU_BYTES);
	packet.has_imm = send->has_imm && packet.last;
	packet.va = send->remote_addr;
	packet.dma_length = send->length;
	packet.rkey = send->rkey;
	packet.length = length;
	packet.payload = moved;
	if (reads) {
		packet.dest_qpn = qp->qpn;
		packet.syndrome = SIMHCA_SYNDROME_ACK;
	}
	if (!simhca_tap_payload(worker, &packet, &worker->tap.payload))
		return;
	put(worker, reads ? peer : qp, reads ? qp : peer, &packet, worker->tap.payload);
	if (packet.last && !reads)
		answer(worker, qp, message, peer, SIMHCA_SYNDROME_ACK);
}

void efa_trace_refusal(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		       const struct efa_qp *peer)
{
	if (!message->done)
		begin(worker, qp, message, peer);
	answer(worker, qp, message, peer, SIMHCA_SYNDROME_NAK_ACCESS);
}
