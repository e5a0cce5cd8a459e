/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "core/guard.h"
#include "dma/dma.h"
#include "engine/engine.h"
#include "link/deliver.h"
#include "link/local.h"
#include "link/traffic.h"
#include "lossy.h"
#include "link/wire/wire.h"
#include "proto/link.h"
#include "proto/own_memory.h"
#include "packet/packet.h"
#include "proto/qp.h"
#include "wire_net.h"

#define LATE_MOST 24 /* ticks */
#define WINDOW 32    /* PSNs */
#define TAKES 16     /* packets in one turn of a QP */
#define TRIES 500    /* of a packet for a QP that is busy; then it is lost */

struct envelope {
	struct envelope *next;
	const struct simhca_device *device;
	uint32_t qpn; /* of whom it is for */
	uint64_t due; /* tick */
	bool kept; /* it could not be taken: it is tried again in time, or at the QP's next turn */
	uint64_t kept_at;
	unsigned int tries;
	struct simhca_packet packet;
	struct simhca_av av;
	struct simhca_sgl sgl;
	uint8_t data[4096];
};

static struct {
	struct world *world;
	struct lossy *how;
	uint64_t tick;
	struct envelope *queue; /* the oldest first */
} net;

static bool happens(unsigned int per_mille)
{
	return test_random(&net.how->seed) % 1000 < per_mille;
}

static void put(const struct envelope *original, uint64_t due)
{
	size_t size = offsetof(struct envelope, data) + original->packet.length;
	struct envelope *copy = malloc(sizeof(*copy)), **link = &net.queue;

	assert_non_null(copy);
	memcpy(copy, original, size);
	copy->due = due;
	copy->next = NULL;
	copy->kept = false;
	copy->tries = 0;
	copy->packet.av = &copy->av;
	if (copy->packet.payload) {
		copy->sgl.seg[0].addr = (uintptr_t)copy->data;
		copy->packet.payload = &copy->sgl;
	}
	while (*link)
		link = &(*link)->next;
	*link = copy;
}

struct fate lossy_fate(const struct simhca_packet *packet)
{
	struct lossy *how = net.how;
	struct fate fate = { .copies = 1 };
	bool late = false;

	how->sent++;
	if ((how->loses && how->loses(how->arg, packet->op, packet->psn)) || happens(how->lost))
		fate.copies = 0;
	else if (happens(how->twice))
		fate.copies = 2;
	for (unsigned int i = 0; i < fate.copies; i++) {
		if (!happens(how->late))
			continue;
		how->has_delayed++;
		fate.late[i] = 1 + test_random(&how->seed) % LATE_MOST;
		late = true;
	}
	how->has_lost += !fate.copies;
	how->has_doubled += fate.copies == 2;
	if (how->tells)
		how->tells(how->arg, packet, fate.copies, late);
	return fate;
}

/* Whether its bytes could be read; then it is on its way, or lost. */
static struct simhca_handover carry(struct simhca_worker *worker, struct simhca_qp *qp,
				    const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	static struct envelope envelope;
	struct simhca_qp *to;
	struct fate fate;

	envelope.packet = *packet;
	envelope.av = packet->av ? *packet->av : qp->qpc->av;
	envelope.sgl.count = 1;
	envelope.sgl.seg[0] =
		(struct simhca_seg){ .addr = (uintptr_t)envelope.data, .length = packet->length };
	assert_true(packet->length <= sizeof(envelope.data));
	if (packet->payload && (!simhca_payload_reached(worker, packet) ||
				simhca_dma_copy(&envelope.sgl, packet->payload, packet->length,
						&worker->mover, &handover.reason))) {
		handover.outcome = SIMHCA_UNREADABLE;
		return handover;
	}
	simhca_stats_sent(worker, qp->device, packet);
	to = qp->type == SIMHCA_QPT_UD
		     ? simhca_link_find(qp->device, &envelope.av, packet->dest_qpn)
		     : simhca_link_peer(qp);
	if (!to)
		return handover;
	envelope.device = to->device;
	envelope.qpn = to->qpn;
	fate = lossy_fate(packet);
	for (unsigned int i = 0; i < fate.copies; i++)
		put(&envelope, net.tick + 1 + fate.late[i]);
	return handover;
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };

	if (packet->dest_qpn == SIMHCA_MCAST_QPN)
		return simhca_local_link.request(worker, qp, packet);
	return simhca_link_is_up(qp) ? carry(worker, qp, packet) : handover;
}

static struct simhca_handover respond(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet)
{
	return carry(worker, qp, packet);
}

/* The next packet that is due for a QP; or the next response, when no request can be taken. */
static struct envelope **next_for(const struct simhca_qp *qp, bool responses)
{
	struct envelope **link = &net.queue;

	for (; *link; link = &(*link)->next)
		if ((*link)->device == qp->device && (*link)->qpn == qp->qpn &&
		    (*link)->due <= net.tick &&
		    (!responses || simhca_is_response((*link)->packet.op)))
			break;
	return link;
}

static void drop(const struct envelope *envelope)
{
	struct envelope **link = &net.queue, *gone;

	while (*link != envelope)
		link = &(*link)->next;
	gone = *link;
	*link = gone->next;
	free(gone);
}

static bool arrived(struct simhca_worker *worker, struct simhca_qp *qp)
{
	bool owed = false, kept = false;

	for (int i = 0; i < TAKES; i++) {
		struct simhca_handover handover;
		struct envelope *envelope;

		simhca_guard_widen(&worker->guard);
		handover = simhca_link_continue(
			worker, qp, qp->context ? qp->context->id : SIMHCA_GUARD_ANY, &owed);
		if (handover.outcome == SIMHCA_BUSY) /* as the request will find, and wait */
			owed = false;
		envelope = *next_for(qp, owed || kept);
		if (!envelope)
			return owed;
		simhca_guard_widen(&worker->guard);
		handover = simhca_link_deliver(worker, qp, &envelope->packet);
		assert_int_not_equal(handover.outcome, SIMHCA_UNREADABLE);
		if (handover.outcome == SIMHCA_ACCEPTED ||
		    (handover.outcome == SIMHCA_BUSY && ++envelope->tries == TRIES)) {
			drop(envelope);
			continue;
		}
		envelope->kept = true;
		envelope->kept_at = net.world->now;
		if (simhca_is_response(envelope->packet.op))
			return false;
		kept = true;
	}
	return true;
}

static const struct simhca_link lossy_link = {
	.window = WINDOW,
	.request = request,
	.respond = respond,
	.arrived = arrived,
};

/* Whether a request waits behind one that could not be taken. */
static bool waits(const struct envelope *envelope)
{
	const struct envelope *before = net.queue;

	for (; before != envelope; before = before->next)
		if (before->kept && before->device == envelope->device &&
		    before->qpn == envelope->qpn && !simhca_is_response(before->packet.op))
			return !simhca_is_response(envelope->packet.op);
	return false;
}

/* Time passes; whoever has something to take gets a turn. */
static bool tick(void)
{
	struct envelope **link = &net.queue, *envelope;
	bool under_way = false;

	net.tick++;
	while ((envelope = *link)) {
		struct simhca_qp *qp =
			atomic_load(&envelope->device->qps[SIMHCA_QPN_SLOT(envelope->qpn)]);

		if (!qp || qp->qpn != envelope->qpn) {
			*link = envelope->next;
			free(envelope);
			continue;
		}
		link = &envelope->next;
		if (waits(envelope))
			continue;
		if (envelope->kept ? envelope->kept_at != net.world->now
				   : envelope->due <= net.tick)
			simhca_engine_schedule(net.world->engine[0], &qp->task);
		under_way |= !envelope->kept;
	}
	return under_way;
}

void lossy_use(struct world *world, struct lossy *how)
{
	static struct lossy nothing;

	assert_false(world->threaded);
	net.world = world;
	net.how = how ? how : &nothing;
	if (world->fabric->wire)
		return;
	world->fabric->link = &lossy_link;
	world->tick = tick;
}

static void forge_datagram(const struct simhca_device *device, const struct simhca_qpc *qpc,
			   const struct simhca_packet *packet)
{
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(8192)] = { 0 };
	struct simhca_wire_path path = { .source = qpc->av.dgid,
					 .destination = device->mem->gids[qpc->av.sgid_index].gid,
					 .source_port = SIMHCA_WIRE_PORT };
	size_t length = simhca_bth_encode(packet, datagram);

	assert_int_not_equal(length, 0);
	length += packet->length + simhca_pad(packet->length);
	simhca_icrc_put(&path, datagram, length);
	wire_net_put(&path, 0, datagram, length + SIMHCA_ICRC_BYTES, 0);
}

void lossy_forge(struct qp *to, const struct simhca_packet *packet)
{
	const struct simhca_device *device = to->client->world->device[to->client->device_index];
	const struct simhca_qpc *qpc = &device->qpcs[SIMHCA_QPN_SLOT(to->qpn)];
	static struct envelope envelope;

	envelope.device = device;
	envelope.qpn = to->qpn;
	envelope.av = qpc->av;
	envelope.packet = *packet;
	envelope.packet.transport =
		to->type == IBV_QPT_XRC_RECV ? SIMHCA_QPT_XRC_SEND : (enum simhca_qp_type)to->type;
	envelope.packet.dest_qpn = to->qpn;
	envelope.packet.mtu = qpc->path_mtu;
	if (!packet->src_qpn)
		envelope.packet.src_qpn = qpc->dest_qpn;
	envelope.sgl.count = 1;
	envelope.sgl.seg[0].length = packet->length;
	envelope.packet.payload = &envelope.sgl;
	if (device->fabric->wire) {
		forge_datagram(device, qpc, &envelope.packet);
		return;
	}
	put(&envelope, net.tick + 1);
}

void lossy_end(void)
{
	struct envelope *envelope;

	wire_net_end();
	while ((envelope = net.queue)) {
		net.queue = envelope->next;
		free(envelope);
	}
	net.world->fabric->link = &simhca_local_link;
	net.world->tick = NULL;
}
