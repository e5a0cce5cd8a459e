/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams to multicast groups, on the local link. */
#include "deliver.h"
#include "core/address.h"
#include "core/fabric.h"
#include "core/guard.h"
#include "engine/worker.h"
#include "local.h"
#include "proto/link.h"
#include "proto/mcast.h"
#include "proto/qp.h"
#include "proto/silence.h"

/* To the members of one device, which are added to their number. */
static struct simhca_handover deliver(struct simhca_worker *worker, struct simhca_device *device,
				      const struct simhca_packet *packet, uint32_t *members)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	uint32_t qpns[SIMHCA_MAX_MCAST_QP_ATTACH], count;
	struct simhca_qp *qp;

	count = simhca_mcast_members(device, &packet->av->dgid, qpns);
	*members += count;
	/* One member whose memory must be waited for: the whole datagram goes by its engine. */
	for (uint32_t i = 0; i < count && !worker->engine->config.may_block; i++) {
		qp = simhca_qp_numbered(device, qpns[i]);
		if (qp && qp->context->engine->config.may_block) {
			handover.outcome = SIMHCA_ELSEWHERE;
			handover.engine = qp->context->engine;
			return handover;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		struct simhca_handover one = { .outcome = SIMHCA_ACCEPTED };

		simhca_guard_widen(&worker->guard);
		qp = simhca_qp_numbered(device, qpns[i]);
		if (qp)
			one = simhca_link_deliver(worker, qp, packet);
		/* Only what concerns the sender's own memory matters to it. */
		if (one.outcome == SIMHCA_UNREADABLE)
			handover = one;
	}
	return handover;
}

struct simhca_handover simhca_multicast(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_device *device;
	uint32_t members = 0;

	for (device = qp->device->fabric->devices; device; device = device->next) {
		struct simhca_handover one;

		if (device->config.infiniband != qp->device->config.infiniband ||
		    !simhca_port_is_active(device))
			continue;
		one = deliver(worker, device, packet, &members);
		simhca_guard_widen(&worker->guard);
		if (one.outcome != SIMHCA_ACCEPTED)
			handover = one;
		if (one.outcome == SIMHCA_ELSEWHERE)
			break;
	}
	if (!members)
		simhca_silence_lost(qp, packet);
	return handover;
}
