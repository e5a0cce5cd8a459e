/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which link a QP sends by: when it gets its address, that says whether its peer is elsewhere. */

#include <errno.h>

#include "core/address.h"
#include "core/fabric.h"
#include "link/wire/inbox.h"
#include "link/wire/wire_impl.h"
#include "proto/qp.h"

bool simhca_wire_is_local(const struct simhca_device *source, const struct simhca_av *av)
{
	struct simhca_fabric *fabric = source->fabric;
	const struct simhca_device *device;

	if (fabric->wire->ops.always)
		return false;
	for (device = fabric->devices; device; device = device->next)
		if (simhca_link_has_address(device, source, av))
			break;
	return device;
}

void simhca_wire_synchronize(struct simhca_fabric *fabric)
{
	struct simhca_wire *wire = fabric->wire;

	if (!wire)
		return;
	pthread_rwlock_wrlock(&wire->lock);
	pthread_rwlock_unlock(&wire->lock);
}

static int attach(struct simhca_qp *qp)
{
	if (!qp->device->config.wire || qp->type == SIMHCA_QPT_RAW_PACKET ||
	    qp->type == SIMHCA_QPT_WQ)
		return 0;
	qp->wire.inbox = simhca_inbox_create();
	if (!qp->wire.inbox)
		return -ENOMEM;
	qp->wire.uplink = &simhca_wire_uplink;
	return 0;
}

static void detach(struct simhca_qp *qp)
{
	struct simhca_wire *wire = qp->device->fabric->wire;

	/* It is in no table: whoever had found it there has let go of it then. */
	simhca_wire_synchronize(qp->device->fabric);
	simhca_share_leave(&wire->ways, &simhca_inbox_way(qp->wire.inbox)->share);
	simhca_inbox_destroy(qp->wire.inbox);
}

static void connect_qp(struct simhca_qp *qp)
{
	const struct simhca_av *av = &qp->qpc->av;
	struct simhca_wire_path path;
	union simhca_gid source = { 0 };

	if (qp->type == SIMHCA_QPT_UD) {
		simhca_inbox_open(qp->wire.inbox, NULL, 0, 0);
		atomic_store(&qp->link, &simhca_wire_datagrams);
	} else if (simhca_wire_is_local(qp->device, av)) {
		simhca_inbox_close(qp->wire.inbox);
		/* It may have been connected by the wire, and goes no such way any more. */
		simhca_share_leave(&qp->device->fabric->wire->ways,
				   &simhca_inbox_way(qp->wire.inbox)->share);
		atomic_store(&qp->link, qp->device->fabric->link);
	} else {
		simhca_device_gid(qp->device, av->sgid_index, &source);
		path = simhca_wire_path(qp->device->fabric->wire, &source, &av->dgid,
					av->flow_label, qp->qpn, qp->qpc->dest_qpn);
		simhca_inbox_open(qp->wire.inbox, &path, qp->qpc->dest_qpn, qp->qpc->path_mtu);
		simhca_share_join(&qp->device->fabric->wire->ways,
				  &simhca_inbox_way(qp->wire.inbox)->share, &av->dgid);
		atomic_store(&qp->link, &simhca_wire_link);
	}
}

static void reset(struct simhca_qp *qp)
{
	simhca_share_leave(&qp->device->fabric->wire->ways,
			   &simhca_inbox_way(qp->wire.inbox)->share);
	simhca_inbox_close(qp->wire.inbox);
}

static bool retire(struct simhca_qp *qp)
{
	return simhca_inbox_retire(qp->wire.inbox);
}

static void group(struct simhca_device *device, const union simhca_gid *gid, bool member)
{
	const struct simhca_wire *wire = device->fabric->wire;

	if (device->config.wire && wire->ops.group)
		wire->ops.group(wire->ops.arg, device, gid, member);
}

bool simhca_wire_traffic(struct simhca_context *context, uint32_t handle,
			 struct simhca_wire_traffic *traffic)
{
	const struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, NULL);

	return qp && qp->wire.inbox && qp->link->remote &&
	       simhca_inbox_traffic(qp->wire.inbox, traffic);
}

const struct simhca_uplink simhca_wire_uplink = {
	.attach = attach,
	.detach = detach,
	.connect = connect_qp,
	.reset = reset,
	.retire = retire,
	.group = group,
};
