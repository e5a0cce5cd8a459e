/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who waits for an answer sees a time-out, whatever the reason, and with a timeout of 0 not even
 * that. The device sees both ends, and can say why nobody answers.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "core/address.h"
#include "core/av.h"
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
	PORT_DOWN,
	ON_THE_WIRE,
	NO_QP,
	OTHER_TYPE,
	NOT_READY,
	IN_ERROR,
	CONNECTED_ELSEWHERE,
	OTHER_SOURCE,
	NOTHING_TO_SEE,
};

static const char *const text[] = {
	[NO_PORT] = "no port has this address",
	[PORT_DOWN] = "a port is down",
	[ON_THE_WIRE] = "the address is not one of this daemon, and nobody answers from there",
	[NO_QP] = "the peer has no such QP",
	[OTHER_TYPE] = "the peer's QP is of another type",
	[NOT_READY] = "the peer's QP is not in RTR or RTS yet",
	[IN_ERROR] = "the peer's QP is in ERR",
	[CONNECTED_ELSEWHERE] = "the peer's QP is connected to another one",
	[OTHER_SOURCE] = ("the peer's QP is connected to another GID than this QP sends from "
			  "(sgid_index)"),
	[NOTHING_TO_SEE] = "the peer is there and does not answer",
};

/* Looks at device memory only, which stays whatever becomes of the peer. */
static enum obstacle find_obstacle(const struct simhca_qp *qp)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	const struct simhca_device *device;
	const struct simhca_qpc *peer = NULL;
	bool has_port = false, connected = false;
	uint32_t state;

	if (qp->link->remote)
		return ON_THE_WIRE;
	pthread_rwlock_rdlock(&fabric->lock);
	/* Several devices may have the address; at most one of them has the QP. */
	for (device = fabric->devices; device; device = device->next) {
		has_port |= simhca_link_has_address(device, qp->device, &qp->qpc->av);
		if (!simhca_link_answers_to(device, qp->device, &qp->qpc->av))
			continue;
		peer = &device->qpcs[SIMHCA_QPN_SLOT(qp->qpc->dest_qpn)];
		if (peer->qpn != qp->qpc->dest_qpn)
			continue;
		connected = simhca_link_is_connected(device, peer, qp->device, qp->qpc);
		break;
	}
	pthread_rwlock_unlock(&fabric->lock);
	if (!has_port)
		return NO_PORT;
	if (!peer || atomic_load(&qp->device->mem->port.state) != IBV_PORT_ACTIVE)
		return PORT_DOWN;
	if (peer->qpn != qp->qpc->dest_qpn)
		return NO_QP;
	if (!simhca_link_accepts(peer->type, qp->type))
		return OTHER_TYPE;
	state = atomic_load(&peer->state);
	if (state < SIMHCA_QPS_RTR)
		return NOT_READY;
	if (state == SIMHCA_QPS_ERR)
		return IN_ERROR;
	if (peer->dest_qpn != qp->qpn)
		return CONNECTED_ELSEWHERE;
	return connected ? NOTHING_TO_SEE : OTHER_SOURCE;
}

/*
 * Whether the host itself has refused to send to the peer while the QP waited, which is why there
 * is no answer; false as well if that was said already.
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
	if (find_obstacle(qp) == NO_PORT)
		tell(qp, "is connected to", text[NO_PORT], "");
}

/*
 * Whether who opened the peer's device has ended, and so its memory is gone. While the requester is
 * held.
 */
static bool is_orphaned(const struct simhca_qp *qp, char text[ORPHAN_TEXT])
{
	const struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;

	if (!peer || !peer->context ||
	    !atomic_load_explicit(&peer->context->orphaned, memory_order_relaxed))
		return false;
	snprintf(text, ORPHAN_TEXT,
		 "the peer's process, %s[%d], has ended; another one, such as a child that it "
		 "forked, keeps its QP, but not its memory",
		 peer->context->name, (int)peer->context->pid);
	return true;
}

static const char *find_reason(struct simhca_qp *qp, char orphan[ORPHAN_TEXT])
{
	enum obstacle obstacle = find_obstacle(qp);

	if (obstacle != NOTHING_TO_SEE)
		return text[obstacle];
	if (is_orphaned(qp, orphan))
		return orphan;
	return qp->req.why != SIMHCA_REASON_NO_RESPONSE ? simhca_reason_text(qp->req.why)
							: text[obstacle];
}

void simhca_silence_unanswered(struct simhca_qp *qp)
{
	char unsent[UNSENT_TEXT], orphan[ORPHAN_TEXT];
	const char *why = unsent;

	/* A rule of faults is told of by itself. */
	if (qp->req.why == SIMHCA_REASON_INJECTED)
		return;
	if (find_unsent(qp, unsent)) {
		simhca_report_silence(qp, qp->req.why, why);
	} else if (qp->req.told) {
		return;
	} else {
		why = find_reason(qp, orphan);
		simhca_report_silence(qp, SIMHCA_REASON_NO_RESPONSE, why);
	}
	qp->req.told = true;
	tell(qp, "has no answer from", why,
	     qp->qpc->timeout ? "" : "; its timeout is 0, so it waits without end");
}
