/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP of an id has to be told on its way to RTS (INIT_QP_ATTR). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "cma.h"

/* On Ethernet all packets have a GRH; on InfiniBand none within the subnet. */
void cma_path_av(const struct cma_id *id, const struct simhca_cm_path *path,
		 struct ib_uverbs_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->sl = path->sl;
	attr->port_num = 1;
	attr->static_rate = path->rate;
	if (id->device->options->settings.infiniband) {
		attr->dlid = path->dlid;
		return;
	}
	attr->is_global = 1;
	memcpy(attr->grh.dgid, &path->dgid, sizeof(attr->grh.dgid));
	attr->grh.flow_label = path->flow_label;
	attr->grh.sgid_index = id->sgid_index;
	attr->grh.hop_limit = path->hop_limit;
	attr->grh.traffic_class = path->traffic_class;
}

static bool is_reliable(const struct cma_id *id)
{
	return id->qp_type != IBV_QPT_UC;
}

static void init_attr(const struct cma_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->port_num = 1;
	if (id->qp_type == IBV_QPT_UD) {
		attr->qp_attr_mask |= IBV_QP_QKEY;
		attr->qkey = id->qkey ? id->qkey : CMA_UDP_QKEY;
		return;
	}
	attr->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	if (!id->cm)
		return;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (simhca_cm_id_connection(id->cm)->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					 SIMHCA_ACCESS_FLUSH_GLOBAL |
					 SIMHCA_ACCESS_FLUSH_PERSISTENT;
}

static void rtr_attr(const struct cma_id *id, const struct simhca_cm_connection *conn,
		     struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	cma_path_av(id, simhca_cm_id_path(id->cm), &attr->ah_attr);
	attr->path_mtu = conn->mtu;
	attr->dest_qp_num = conn->remote_qpn;
	attr->rq_psn = id->psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV) {
		attr->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->max_dest_rd_atomic = conn->responder_resources;
	}
}

static void rts_attr(const struct cma_id *id, const struct simhca_cm_connection *conn,
		     struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = conn->sq_psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND) {
		attr->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr->retry_cnt = conn->retry_count;
		attr->rnr_retry = conn->rnr_retry;
		attr->max_rd_atomic = conn->initiator_depth;
	}
	if (is_reliable(id)) {
		attr->qp_attr_mask |= IBV_QP_TIMEOUT;
		attr->timeout = id->ack_timeout_set ? id->ack_timeout : conn->ack_timeout;
	}
}

/* Of a connection that is over nothing is known, and before both sides have spoken half of it is not. */
static bool is_known(enum simhca_cm_state connection, uint32_t state)
{
	switch (connection) {
	case SIMHCA_CM_REQ_RCVD:
	case SIMHCA_CM_REP_SENT:
	case SIMHCA_CM_REP_RCVD:
	case SIMHCA_CM_ESTABLISHED:
		return true;
	case SIMHCA_CM_REQ_SENT:
		return state == IBV_QPS_INIT;
	default:
		return false;
	}
}

int cma_init_qp_attr(struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr,
		     struct simhca_why *why)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (!id->device)
		return simhca_why(why, EINVAL, "the id has no device yet");
	if (id->state == CMA_LISTEN && id->qp_type != IBV_QPT_UD)
		return simhca_why(why, EINVAL, "the id listens: a QP is of the id of a request");
	/* Where no connection says more it is INIT's, whatever was asked for. */
	if (!id->cm || id->qp_type == IBV_QPT_UD) {
		init_attr(id, attr);
		return 0;
	}
	if (!is_known(simhca_cm_id_state(id->cm), state))
		return cma_not_in_this_state(id, -EINVAL, why);
	if (state == IBV_QPS_INIT)
		init_attr(id, attr);
	else if (state == IBV_QPS_RTR)
		rtr_attr(id, simhca_cm_id_connection(id->cm), attr);
	else if (state == IBV_QPS_RTS)
		rts_attr(id, simhca_cm_id_connection(id->cm), attr);
	else
		return simhca_why(why, EINVAL, "attributes are known of INIT, RTR and RTS");
	return 0;
}
