/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who waits for an answer sees a time-out, whatever the reason, and with a timeout of 0 not even
 * that. The device sees both ends, and can say why nobody answers.
 */
#include <arpa/inet.h>
#include <byteswap.h>
#include <stdio.h>
#include <string.h>

#include "core/address.h"
#include "core/av.h"
#include "dma/dma.h"
#include "failure.h"
#include "qp.h"
#include "requester.h"
#include "silence.h"

#define ORPHAN_TEXT 192 /* bytes, NUL included */
#define UNSENT_TEXT 128 /* likewise */
/* How long before its wait began the host may have refused a packet, as engines can be late. */
#define UNSENT_NS (1000ull * 1000 * 1000)

enum obstacle {
	NO_PORT,
	NO_LID,
	LID_REVERSED,
	NO_GROUP_QPN,
	NO_GROUP_GID,
	NOT_JOINED,
	PORT_DOWN,
	ON_THE_WIRE,
	NO_QP,
	OTHER_TYPE,
	NOT_READY,
	IN_ERROR,
	NOT_TOLD,
	CONNECTED_ELSEWHERE,
	OTHER_SOURCE,
	ORPHANED,
	NOTHING_TO_SEE,
};

/* The name is for the tool, which has advice on it. */
static const struct {
	const char *name, *text;
} obstacles[] = {
	[NO_PORT] = { "no_port", "no port has this address" },
	[NO_LID] = { "no_port", "dlid is 0: it was not set, or not exchanged yet" },
	[LID_REVERSED] = { "lid_reversed", "no port has this LID, and with its bytes reversed one "
					   "has it" },
	[NO_GROUP_QPN] = { "no_group_qpn",
			   "the address is a multicast group's, whose QP number is 0xffffff" },
	[NO_GROUP_GID] = { "no_group_gid", "QP number 0xffffff is for multicast groups, and the "
					   "address is no group's" },
	[NOT_JOINED] = { "not_joined", "no QP of this daemon is attached to the group" },
	[PORT_DOWN] = { "port_down", "a port is down" },
	[ON_THE_WIRE] = { NULL, "the address is not one of this daemon, and nobody answers from "
				"there" },
	[NO_QP] = { "no_qp", "the peer has no such QP" },
	[OTHER_TYPE] = { "other_type", "the peer's QP is of another type" },
	[NOT_READY] = { "not_ready", "the peer's QP is not in RTR or RTS yet" },
	[IN_ERROR] = { "in_error", "the peer's QP is in ERR" },
	[NOT_TOLD] = { "not_told", "dest_qp_num of the peer's QP is 0: it was not set, or not "
				   "exchanged yet" },
	[CONNECTED_ELSEWHERE] = { "connected_elsewhere",
				  "the peer's QP is connected to another one" },
	[OTHER_SOURCE] = { "other_source", "the peer's QP is connected to another GID than this QP "
					   "sends from (sgid_index)" },
	[ORPHANED] = { "orphaned", NULL },
	[NOTHING_TO_SEE] = { NULL, "the peer is there and does not answer" },
};

/* The LID was converted once too often, or once too few. */
static bool has_reversed_lid(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av)
{
	struct simhca_av reversed = *av;

	reversed.dlid = bswap_16(av->dlid);
	return device->config.infiniband && simhca_link_has_address(device, source, &reversed);
}

/* Of an address that no port has. */
static enum obstacle why_no_port(const struct simhca_qp *qp, const struct simhca_av *av,
				 bool has_reversed)
{
	if (qp->device->config.infiniband && !av->dlid)
		return NO_LID;
	return has_reversed ? LID_REVERSED : NO_PORT;
}

/*
 * Between the QP and who has this address and QP number. Looks at device memory only, which stays
 * whatever becomes of the peer.
 */
static enum obstacle find_obstacle_to(const struct simhca_qp *qp, const struct simhca_av *av,
				      uint32_t qpn)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	const struct simhca_device *device;
	const struct simhca_qpc *peer = NULL;
	bool has_port = false, has_reversed = false, connected = false;
	uint32_t state;

	if (qp->link->remote)
		return ON_THE_WIRE;
	pthread_rwlock_rdlock(&fabric->lock);
	/* Several devices may have the address; at most one of them has the QP. */
	for (device = fabric->devices; device; device = device->next) {
		has_port |= simhca_link_has_address(device, qp->device, av);
		has_reversed |= has_reversed_lid(device, qp->device, av);
		if (!simhca_link_answers_to(device, qp->device, av))
			continue;
		peer = &device->qpcs[SIMHCA_QPN_SLOT(qpn)];
		if (peer->qpn != qpn)
			continue;
		connected = simhca_link_is_connected(device, peer, qp->device, qp->qpc);
		break;
	}
	pthread_rwlock_unlock(&fabric->lock);
	if (!has_port)
		return why_no_port(qp, av, has_reversed);
	if (!peer || !simhca_port_is_active(qp->device))
		return PORT_DOWN;
	if (!qpn || peer->qpn != qpn)
		return NO_QP;
	if (!simhca_link_accepts(peer->type, qp->type))
		return OTHER_TYPE;
	if (qp->type == SIMHCA_QPT_UD)
		connected = true;
	state = atomic_load(&peer->state);
	if (state < SIMHCA_QPS_RTR)
		return NOT_READY;
	if (state == SIMHCA_QPS_ERR)
		return IN_ERROR;
	if (qp->type != SIMHCA_QPT_UD && peer->dest_qpn != qp->qpn)
		return peer->dest_qpn ? CONNECTED_ELSEWHERE : NOT_TOLD;
	return connected ? NOTHING_TO_SEE : OTHER_SOURCE;
}

static enum obstacle find_obstacle(const struct simhca_qp *qp)
{
	return find_obstacle_to(qp, &qp->qpc->av, qp->qpc->dest_qpn);
}

/*
 * Whether the host itself has refused to send to the peer while the QP waited, or the way there has a
 * hole, which is why there is no answer; false as well if that was said already.
 */
static bool find_unsent(struct simhca_qp *qp, char text[UNSENT_TEXT])
{
	uint64_t waited, adaptive;
	const struct simhca_av *av = &qp->qpc->av;
	char address[INET6_ADDRSTRLEN];
	enum simhca_reason reason;
	int error;

	if (!qp->link->unsent)
		return false;
	/* The wait that is over now, as it was when it began. */
	waited = simhca_ack_timeout(qp, &adaptive);
	error = qp->link->unsent(qp, waited + UNSENT_NS, &reason);
	if (!error || qp->req.why == reason)
		return false;
	qp->req.why = reason;
	if (simhca_gid_is_ipv4(&av->dgid))
		inet_ntop(AF_INET, av->dgid.raw + 12, address, sizeof(address));
	else
		inet_ntop(AF_INET6, av->dgid.raw, address, sizeof(address));
	if (reason == SIMHCA_REASON_WIRE_PATH_MTU)
		snprintf(text, UNSENT_TEXT, "%s answers short packets, and none of %u bytes",
			 address, simhca_qp_mtu(qp));
	else
		snprintf(text, UNSENT_TEXT, "sending to %s failed: %s", address, strerror(error));
	return true;
}

static void tell(const struct simhca_qp *qp, const char *what, const char *why, const char *more)
{
	const struct simhca_av *av = &qp->qpc->av;
	char address[INET6_ADDRSTRLEN + sizeof("LID 0x0000, GID ")];
	int used = 0;

	if (qp->device->config.infiniband)
		used = snprintf(address, sizeof(address), "LID 0x%04x%s", av->dlid,
				av->is_global ? ", " : "");
	if (av->is_global) {
		used += sprintf(address + used, "GID ");
		inet_ntop(AF_INET6, av->dgid.raw, address + used, INET6_ADDRSTRLEN);
	}
	simhca_qp_log(qp, " %s QP 0x%06x at %s: %s%s", what, qp->qpc->dest_qpn, address, why, more);
}

void simhca_silence_connected(const struct simhca_qp *qp)
{
	enum obstacle obstacle = find_obstacle(qp);

	if (obstacle == NO_PORT || obstacle == NO_LID || obstacle == LID_REVERSED)
		tell(qp, "is connected to", obstacles[obstacle].text, "");
}

/*
 * Whether who opened the peer's device has ended, and so its memory is gone. While the requester is
 * held. The main thread may not have heard of it when a short time-out is over.
 */
static bool is_orphaned(const struct simhca_qp *qp, char text[ORPHAN_TEXT])
{
	const struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;

	if (!peer || !peer->context || !peer->context->pid)
		return false;
	if (!atomic_load_explicit(&peer->context->orphaned, memory_order_relaxed) &&
	    !simhca_process_has_ended(peer->context->pid))
		return false;
	snprintf(text, ORPHAN_TEXT,
		 "the peer's process, %s[%d], has ended; another one, such as a child that it "
		 "forked, keeps its QP, but not its memory",
		 peer->context->name, (int)peer->context->pid);
	return true;
}

static const char *find_reason(struct simhca_qp *qp, char orphan[ORPHAN_TEXT],
			       enum obstacle *obstacle)
{
	*obstacle = find_obstacle(qp);
	if (*obstacle != NOTHING_TO_SEE)
		return obstacles[*obstacle].text;
	if (is_orphaned(qp, orphan)) {
		*obstacle = ORPHANED;
		return orphan;
	}
	return qp->req.why != SIMHCA_REASON_NO_RESPONSE ? simhca_reason_text(qp->req.why)
							: obstacles[*obstacle].text;
}

void simhca_silence_unanswered(struct simhca_qp *qp)
{
	char unsent[UNSENT_TEXT], orphan[ORPHAN_TEXT];
	const char *why = unsent;
	enum obstacle obstacle;

	/* A rule of faults is told of by itself. */
	if (qp->req.why == SIMHCA_REASON_INJECTED)
		return;
	if (find_unsent(qp, unsent)) {
		simhca_report_silence(qp, qp->req.why, NULL, why);
	} else if (qp->req.silence_logged) {
		return;
	} else {
		why = find_reason(qp, orphan, &obstacle);
		simhca_report_silence(qp, SIMHCA_REASON_NO_RESPONSE, obstacles[obstacle].name, why);
	}
	qp->req.silence_logged = true;
	tell(qp, "has no answer from", why,
	     qp->qpc->timeout ? "" : "; its timeout is 0, so it waits without end");
}

static enum obstacle why_lost(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	bool is_group = packet->av->is_global && simhca_gid_is_group(&packet->av->dgid);

	if (qp->type == SIMHCA_QPT_UD && packet->dest_qpn == SIMHCA_MCAST_QPN)
		return is_group ? NOT_JOINED : NO_GROUP_GID;
	if (qp->type == SIMHCA_QPT_UD && is_group)
		return NO_GROUP_QPN;
	return find_obstacle_to(qp, qp->type == SIMHCA_QPT_UD ? packet->av : &qp->qpc->av,
				packet->dest_qpn);
}

void simhca_silence_lost(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	enum obstacle obstacle = why_lost(qp, packet);

	if (packet->first)
		simhca_report_lost(qp, packet, obstacles[obstacle].name, obstacles[obstacle].text);
}
