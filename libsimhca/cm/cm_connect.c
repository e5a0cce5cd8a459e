/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* REQ, REP, RTU, and what may come instead: REJ, MRA (IBTA vol. 1, 12.9.7 and 12.9.8). */
#include <errno.h>
#include <string.h>

#include "cm_impl.h"

#define ACK_DELAY 15	       /* of this device: 4.096 us * 2^n */
#define MRA_SERVICE_TIMEOUT 24 /* what a user may take to answer a REQ: 69 s */

/*
 * The local ACK timeout for a path: twice the packet life time and the peer's delay, rounded to a
 * power of two as Linux does.
 */
static uint8_t ack_timeout(uint8_t ack_delay, uint8_t packet_life)
{
	int timeout = packet_life + 1;

	if (timeout >= ack_delay)
		timeout += ack_delay >= timeout - 1;
	else
		timeout = ack_delay + (timeout >= ack_delay - 1);
	return (uint8_t)(timeout > 31 ? 31 : timeout);
}

static struct simhca_cm_mad answer(uint16_t attribute, uint64_t tid)
{
	return (struct simhca_cm_mad){ .attribute = attribute, .tid = tid };
}

/* ------------------------------------------------------------------------------- active side */

static struct simhca_cm_path_info describe(const struct simhca_cm_path *path, uint8_t timeout)
{
	return (struct simhca_cm_path_info){
		.local_lid = path->slid,
		.remote_lid = path->dlid,
		.local_gid = path->sgid,
		.remote_gid = path->dgid,
		.flow_label = path->flow_label,
		.rate = path->rate,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.sl = path->sl,
		.subnet_local = path->hop_limit <= 1,
		.ack_timeout = timeout,
	};
}

int simhca_cm_send_req(struct simhca_cm_id *id, const struct simhca_cm_path *path,
		       const struct simhca_cm_req *req, uint32_t attr_mod)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_REQ, 0);
	uint8_t timeout = ack_timeout(ACK_DELAY, path->packet_life);
	int ret;

	if (id->state != SIMHCA_CM_IDLE)
		return -EINVAL;
	id->path = *path;
	id->remote_id = 0;
	id->service_id = req->service_id;
	id->tid = (uint64_t)id->cm->id_mask << 32 | id->local_id;
	id->conn = (struct simhca_cm_connection){
		.local_qpn = req->qpn,
		.rq_psn = req->starting_psn,
		.responder_resources = req->responder_resources,
		.initiator_depth = req->initiator_depth,
		.retry_count = req->retry_count,
		.mtu = path->mtu,
		.ack_timeout = timeout,
	};
	id->timeout_ms = simhca_cm_milliseconds(path->packet_life) * 2 +
			 simhca_cm_milliseconds(req->remote_cm_timeout);
	id->max_retries = req->max_cm_retries;

	mad.tid = id->tid;
	mad.attr_mod = attr_mod;
	mad.req = *req;
	mad.req.local_comm_id = id->local_id;
	mad.req.ca_guid = path->ca_guid;
	mad.req.pkey = path->pkey;
	mad.req.mtu = path->mtu;
	mad.req.primary = describe(path, timeout);
	ret = cm_begin_retries(id, &mad);
	if (!ret)
		cm_set_state(id, SIMHCA_CM_REQ_SENT);
	return ret;
}

static void send_rtu(struct simhca_cm_id *id)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_RTU, id->tid);

	mad.rtu.local_comm_id = id->local_id;
	mad.rtu.remote_comm_id = id->remote_id;
	cm_post_kept(id, &mad);
}

static void send_mra(struct simhca_cm_id *id, enum simhca_cm_message message)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_MRA, id->tid);

	mad.mra.local_comm_id = id->local_id;
	mad.mra.remote_comm_id = id->remote_id;
	mad.mra.message = message;
	mad.mra.service_timeout = MRA_SERVICE_TIMEOUT;
	cm_post(id->cm, &id->path, &mad);
}

/* Rejects what came, for which there is no ID here. */
static void refuse(struct simhca_cm *cm, const struct simhca_cm_path *path,
		   const struct simhca_cm_mad *to, const struct simhca_cm_rej *rej)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_REJ, to->tid);

	mad.rej = *rej;
	cm_post(cm, path, &mad);
}

/* A QP of the peer that is known from another connection: that one is no more (12.9.8.3). */
static void refuse_stale(struct simhca_cm *cm, const struct simhca_cm_path *path,
			 const struct simhca_cm_mad *to, uint32_t remote_id,
			 enum simhca_cm_message message)
{
	refuse(cm, path, to,
	       &(struct simhca_cm_rej){ .remote_comm_id = remote_id,
					.message = (uint8_t)message,
					.reason = SIMHCA_CM_REJ_STALE_CONNECTION });
}

/* A REP to a connection that is over here: the peer's is of a REQ that came late. */
static void refuse_rep(struct simhca_cm *cm, const struct simhca_cm_path *path,
		       const struct simhca_cm_mad *to)
{
	refuse(cm, path, to,
	       &(struct simhca_cm_rej){ .local_comm_id = to->rep.remote_comm_id,
					.remote_comm_id = to->rep.local_comm_id,
					.message = SIMHCA_CM_MESSAGE_REP,
					.reason = SIMHCA_CM_REJ_INVALID_COMM_ID });
}

/* The peer repeats its REP: it has not heard our answer, or we have none yet. */
static void on_rep_again(struct simhca_cm *cm, const struct simhca_cm_path *path,
			 const struct simhca_cm_mad *mad)
{
	struct simhca_cm_id *id = cm_find(cm, mad->rep.remote_comm_id, mad->rep.local_comm_id);

	if (!id)
		refuse_rep(cm, path, mad);
	else if (id->state == SIMHCA_CM_ESTABLISHED)
		send_rtu(id);
	else if (id->state == SIMHCA_CM_REP_RCVD)
		send_mra(id, SIMHCA_CM_MESSAGE_REP);
}

void cm_on_rep(struct simhca_cm *cm, const struct simhca_cm_path *path,
	       const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_rep *rep = &mad->rep;
	struct simhca_cm_id *id = cm_find(cm, rep->remote_comm_id, 0);

	if (!id || id->state != SIMHCA_CM_REQ_SENT) {
		on_rep_again(cm, path, mad);
		return;
	}
	id->remote_id = rep->local_comm_id;
	id->conn.remote_qpn = rep->qpn;
	if (!cm_claim_remote(id, rep->ca_guid)) {
		id->remote_id = 0; /* this ID of the peer is in another connection */
		return;
	}
	if (!cm_claim_remote_qp(id, rep->ca_guid)) {
		cm_release_remote(id);
		id->remote_id = 0;
		refuse_stale(cm, path, mad, rep->local_comm_id, SIMHCA_CM_MESSAGE_REP);
		return;
	}
	cm_disarm(id);
	cm_set_state(id, SIMHCA_CM_REP_RCVD);
	/* What the peer can take is what this side can ask for, and the other way round. */
	id->conn.initiator_depth = rep->responder_resources;
	id->conn.responder_resources = rep->initiator_depth;
	id->conn.sq_psn = rep->starting_psn;
	id->conn.rnr_retry = rep->rnr_retry;
	id->conn.ack_timeout = ack_timeout(rep->target_ack_delay, id->path.packet_life);
	cm_event(id, SIMHCA_CM_REP_RECEIVED, mad);
}

int simhca_cm_send_rtu(struct simhca_cm_id *id)
{
	if (id->state != SIMHCA_CM_REP_RCVD)
		return -EINVAL;
	send_rtu(id);
	cm_set_state(id, SIMHCA_CM_ESTABLISHED);
	return 0;
}

/* ------------------------------------------------------------------------------ passive side */

/* The path that a REQ describes, as its receiver sees it. */
static struct simhca_cm_path passive_path(const struct simhca_cm_path *back,
					  const struct simhca_cm_req *req)
{
	struct simhca_cm_path path = *back;

	path.sgid = req->primary.remote_gid;
	path.dgid = req->primary.local_gid;
	path.slid = req->primary.remote_lid;
	path.dlid = req->primary.local_lid;
	path.pkey = req->pkey;
	path.flow_label = req->primary.flow_label;
	path.rate = req->primary.rate;
	path.traffic_class = req->primary.traffic_class;
	path.hop_limit = req->primary.hop_limit;
	path.sl = req->primary.sl;
	path.mtu = req->mtu;
	path.packet_life = req->primary.ack_timeout ? (uint8_t)(req->primary.ack_timeout - 1) : 0;
	return path;
}

/* The peer repeats its REQ: it has not heard our answer, or we have none yet. */
static void on_req_again(struct simhca_cm_id *id, const struct simhca_cm_path *path,
			 const struct simhca_cm_mad *mad)
{
	switch (id->state) {
	case SIMHCA_CM_REQ_RCVD:
		send_mra(id, SIMHCA_CM_MESSAGE_REQ);
		break;
	case SIMHCA_CM_REP_SENT:
		if (id->tid == mad->tid)
			cm_post_again(id);
		break;
	case SIMHCA_CM_TIMEWAIT:
		refuse_stale(id->cm, path, mad, mad->req.local_comm_id, SIMHCA_CM_MESSAGE_REQ);
		break;
	default:
		break;
	}
}

static void refuse_service(struct simhca_cm *cm, const struct simhca_cm_path *path,
			   const struct simhca_cm_mad *to)
{
	refuse(cm, path, to,
	       &(struct simhca_cm_rej){ .remote_comm_id = to->req.local_comm_id,
					.message = SIMHCA_CM_MESSAGE_REQ,
					.reason = SIMHCA_CM_REJ_INVALID_SERVICE_ID });
}

/* The connection that has this QP of the peer, which is no more, is over. */
static void end_stale(struct simhca_cm *cm, const struct simhca_cm_req *req)
{
	struct remote_key key = { .guid = req->ca_guid, .number = req->qpn };
	struct simhca_cm_id *id;

	HASH_FIND(hh_remote_qp, cm->remote_qps, &key, sizeof(key), id);
	if (id)
		simhca_cm_send_dreq(id);
}

static void fill_passive(struct simhca_cm_id *id, const struct simhca_cm_path *path,
			 const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_req *req = &mad->req;

	id->path = passive_path(path, req);
	id->tid = mad->tid;
	id->remote_id = req->local_comm_id;
	id->service_id = req->service_id;
	id->timeout_ms = simhca_cm_milliseconds(req->local_cm_timeout);
	id->max_retries = req->max_cm_retries;
	id->conn = (struct simhca_cm_connection){
		.remote_qpn = req->qpn,
		.sq_psn = req->starting_psn,
		.initiator_depth = req->responder_resources,
		.responder_resources = req->initiator_depth,
		.retry_count = req->retry_count,
		.rnr_retry = req->rnr_retry,
		.mtu = req->mtu,
		.ack_timeout = req->primary.ack_timeout,
	};
}

void cm_on_req(struct simhca_cm *cm, const struct simhca_cm_path *path,
	       const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_req *req = &mad->req;
	struct simhca_cm_id *id = cm_find_remote(cm, req->ca_guid, req->local_comm_id);
	struct simhca_cm_event event = { .type = SIMHCA_CM_REQ_RECEIVED, .mad = mad };
	struct simhca_cm_id *listener;
	int ret;

	if (id) {
		on_req_again(id, path, mad);
		return;
	}
	HASH_FIND(hh_service, cm->services, &req->service_id, sizeof(req->service_id), listener);
	if (!listener) {
		refuse_service(cm, path, mad);
		return;
	}
	id = simhca_cm_id_create(cm, NULL);
	if (!id)
		return; /* it will be repeated */
	fill_passive(id, path, mad);
	if (!cm_claim_remote_qp(id, req->ca_guid)) {
		refuse_stale(cm, path, mad, req->local_comm_id, SIMHCA_CM_MESSAGE_REQ);
		end_stale(cm, req);
		cm_forget(id);
		return;
	}
	cm_claim_remote(id, req->ca_guid);
	cm_set_state(id, SIMHCA_CM_REQ_RCVD);
	event.listener = listener->context;
	ret = cm->ops.event(cm->arg, id, &event);
	if (!ret)
		return;
	if (ret > 0)
		cm_reject(id, (uint16_t)ret, NULL, 0);
	cm_forget(id);
}

int simhca_cm_send_rep(struct simhca_cm_id *id, const struct simhca_cm_rep *rep, uint32_t attr_mod)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_REP, id->tid);
	int ret;

	if (id->state != SIMHCA_CM_REQ_RCVD)
		return -EINVAL;
	mad.attr_mod = attr_mod;
	mad.rep = *rep;
	mad.rep.local_comm_id = id->local_id;
	mad.rep.remote_comm_id = id->remote_id;
	mad.rep.ca_guid = id->path.ca_guid;
	mad.rep.target_ack_delay = ACK_DELAY;
	ret = cm_begin_retries(id, &mad);
	if (ret)
		return ret;
	id->conn.local_qpn = rep->qpn;
	id->conn.rq_psn = rep->starting_psn;
	id->conn.initiator_depth = rep->initiator_depth;
	id->conn.responder_resources = rep->responder_resources;
	cm_set_state(id, SIMHCA_CM_REP_SENT);
	return 0;
}

int simhca_cm_establish(struct simhca_cm_id *id)
{
	if (id->state == SIMHCA_CM_ESTABLISHED)
		return -EISCONN;
	if (id->state != SIMHCA_CM_REP_SENT)
		return -EINVAL;
	cm_disarm(id);
	cm_set_state(id, SIMHCA_CM_ESTABLISHED);
	return 0;
}

void cm_on_rtu(struct simhca_cm *cm, const struct simhca_cm_mad *mad)
{
	struct simhca_cm_id *id = cm_find(cm, mad->rtu.remote_comm_id, mad->rtu.local_comm_id);

	if (!id || id->state != SIMHCA_CM_REP_SENT)
		return;
	cm_disarm(id);
	cm_set_state(id, SIMHCA_CM_ESTABLISHED);
	cm_event(id, SIMHCA_CM_RTU_RECEIVED, mad);
}

/* ------------------------------------------------------------------------------- either side */

void cm_on_mra(struct simhca_cm *cm, const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_mra *mra = &mad->mra;
	struct simhca_cm_id *id;
	uint32_t timeout;

	/* That of a REQ comes from an ID that this side does not know yet. */
	id = cm_find(cm, mra->remote_comm_id,
		     mra->message == SIMHCA_CM_MESSAGE_REQ ? 0 : mra->local_comm_id);
	if (!id || (id->state != SIMHCA_CM_REQ_SENT && id->state != SIMHCA_CM_REP_SENT))
		return;
	timeout =
		simhca_cm_milliseconds(mra->service_timeout) +
		simhca_cm_milliseconds(id->conn.ack_timeout ? id->conn.ack_timeout
							    : (uint8_t)(id->path.packet_life + 1));
	cm_arm(id, timeout);
}

void cm_reject(struct simhca_cm_id *id, uint16_t reason, const void *private_data, size_t length)
{
	struct simhca_cm_mad mad = answer(SIMHCA_CM_REJ, id->tid);
	struct simhca_cm_rej *rej = &mad.rej;

	rej->remote_comm_id = id->remote_id;
	rej->reason = reason;
	switch (id->state) {
	case SIMHCA_CM_REQ_RCVD:
		rej->message = SIMHCA_CM_MESSAGE_REQ;
		break;
	case SIMHCA_CM_REP_RCVD:
		rej->local_comm_id = id->local_id;
		rej->message = SIMHCA_CM_MESSAGE_REP;
		break;
	default:
		rej->local_comm_id = id->local_id;
		rej->message = SIMHCA_CM_MESSAGE_OTHER;
	}
	/* Who has not learned our ID finds the connection by our GUID and its own note of it. */
	if (reason == SIMHCA_CM_REJ_TIMEOUT) {
		rej->info_length = sizeof(uint64_t);
		for (int i = 0; i < 8; i++)
			rej->ari[i] = (uint8_t)(id->path.ca_guid >> (56 - 8 * i));
	}
	if (length)
		memcpy(rej->private_data, private_data, length);
	cm_post(id->cm, &id->path, &mad);
}

int simhca_cm_send_rej(struct simhca_cm_id *id, uint16_t reason, const void *private_data,
		       size_t length)
{
	if (length > SIMHCA_CM_REJ_PRIVATE ||
	    (id->state != SIMHCA_CM_REQ_SENT && id->state != SIMHCA_CM_REQ_RCVD &&
	     id->state != SIMHCA_CM_REP_SENT && id->state != SIMHCA_CM_REP_RCVD))
		return -EINVAL;
	cm_reject(id, reason, private_data, length);
	cm_reset(id);
	return 0;
}

static struct simhca_cm_id *find_rejected(struct simhca_cm *cm, const struct simhca_cm_rej *rej)
{
	uint64_t guid = 0;

	if (rej->reason == SIMHCA_CM_REJ_TIMEOUT) {
		for (int i = 0; i < 8; i++)
			guid = guid << 8 | rej->ari[i];
		return cm_find_remote(cm, guid, rej->local_comm_id);
	}
	return cm_find(cm, rej->remote_comm_id,
		       rej->message == SIMHCA_CM_MESSAGE_REQ ? 0 : rej->local_comm_id);
}

void cm_on_rej(struct simhca_cm *cm, const struct simhca_cm_mad *mad)
{
	struct simhca_cm_id *id = find_rejected(cm, &mad->rej);

	/* A stale REP is refused by one that has not kept its ID. */
	if (!id && mad->rej.message == SIMHCA_CM_MESSAGE_REP && !mad->rej.local_comm_id) {
		uint32_t local = mad->rej.remote_comm_id;

		HASH_FIND(hh, cm->ids, &local, sizeof(local), id);
		if (id && (id->state != SIMHCA_CM_REP_SENT || id->tid != mad->tid))
			id = NULL;
	}
	if (!id)
		return;
	switch (id->state) {
	case SIMHCA_CM_REQ_SENT:
	case SIMHCA_CM_REQ_RCVD:
	case SIMHCA_CM_REP_SENT:
	case SIMHCA_CM_REP_RCVD:
		if (mad->rej.reason == SIMHCA_CM_REJ_STALE_CONNECTION)
			cm_enter_timewait(id);
		else
			cm_reset(id);
		break;
	case SIMHCA_CM_DREQ_SENT:
		cm_enter_timewait(id);
		break;
	default:
		return;
	}
	cm_event(id, SIMHCA_CM_REJ_RECEIVED, mad);
}
