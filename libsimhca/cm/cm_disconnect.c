/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* DREQ, DREP, and the time that packets of the connection may still be under way (12.9.9). */
#include <errno.h>

#include "cm_impl.h"

void cm_enter_timewait(struct simhca_cm_id *id)
{
	cm_set_state(id, SIMHCA_CM_TIMEWAIT);
	/* The peer may connect its QP again at once. */
	cm_release_remote_qp(id);
	/* Without memory for the timer it is over at once. */
	if (cm_arm(id, simhca_cm_milliseconds(id->conn.ack_timeout)))
		cm_release_remote(id);
}

int simhca_cm_send_dreq(struct simhca_cm_id *id)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_DREQ };
	int ret;

	if (id->state != SIMHCA_CM_ESTABLISHED)
		return -EINVAL;
	mad.tid = id->tid;
	mad.dreq.local_comm_id = id->local_id;
	mad.dreq.remote_comm_id = id->remote_id;
	mad.dreq.remote_qpn = id->conn.remote_qpn;
	ret = cm_begin_retries(id, &mad);
	if (!ret)
		cm_set_state(id, SIMHCA_CM_DREQ_SENT);
	return ret;
}

static void answer_dreq(struct simhca_cm *cm, const struct simhca_cm_path *path, uint64_t tid,
			uint32_t local_id, uint32_t remote_id)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_DREP, .tid = tid };

	mad.drep.local_comm_id = local_id;
	mad.drep.remote_comm_id = remote_id;
	cm_post(cm, path, &mad);
}

int simhca_cm_send_drep(struct simhca_cm_id *id)
{
	if (id->state != SIMHCA_CM_DREQ_RCVD)
		return -EINVAL;
	answer_dreq(id->cm, &id->path, id->tid, id->local_id, id->remote_id);
	cm_enter_timewait(id);
	return 0;
}

void cm_on_dreq(struct simhca_cm *cm, const struct simhca_cm_path *path,
		const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_dreq *dreq = &mad->dreq;
	struct simhca_cm_id *id = cm_find(cm, dreq->remote_comm_id, dreq->local_comm_id);

	/* Of a connection that is gone: the peer shall not have to repeat it. */
	if (!id) {
		answer_dreq(cm, path, mad->tid, dreq->remote_comm_id, dreq->local_comm_id);
		return;
	}
	if (dreq->remote_qpn != id->conn.local_qpn)
		return;
	switch (id->state) {
	case SIMHCA_CM_REP_SENT: /* the RTU was lost */
	case SIMHCA_CM_ESTABLISHED:
	case SIMHCA_CM_DREQ_SENT: /* both at once */
		break;
	case SIMHCA_CM_TIMEWAIT: /* our DREP was lost */
		answer_dreq(cm, &id->path, mad->tid, id->local_id, id->remote_id);
		return;
	default:
		return;
	}
	cm_disarm(id);
	id->tid = mad->tid;
	cm_set_state(id, SIMHCA_CM_DREQ_RCVD);
	if (id->orphan)
		simhca_cm_send_drep(id);
	else
		cm_event(id, SIMHCA_CM_DREQ_RECEIVED, mad);
}

void cm_on_drep(struct simhca_cm *cm, const struct simhca_cm_mad *mad)
{
	struct simhca_cm_id *id = cm_find(cm, mad->drep.remote_comm_id, mad->drep.local_comm_id);

	if (!id || (id->state != SIMHCA_CM_DREQ_SENT && id->state != SIMHCA_CM_DREQ_RCVD))
		return;
	cm_enter_timewait(id);
	cm_event(id, SIMHCA_CM_DREP_RECEIVED, mad);
}
