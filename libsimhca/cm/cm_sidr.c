/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Service ID resolution: which QP serves, for datagrams (IBTA vol. 1, 12.11). */
#include <errno.h>
#include <string.h>

#include "cm_impl.h"

int simhca_cm_send_sidr_req(struct simhca_cm_id *id, const struct simhca_cm_path *path,
			    const struct simhca_cm_sidr_param *param)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_SIDR_REQ };
	int ret;

	if (id->state != SIMHCA_CM_IDLE || param->length > SIMHCA_CM_SIDR_REQ_PRIVATE)
		return -EINVAL;
	id->path = *path;
	id->remote_id = 0;
	id->service_id = param->service_id;
	id->tid = (uint64_t)id->cm->id_mask << 32 | id->local_id;
	id->timeout_ms = param->timeout_ms;
	id->max_retries = param->max_retries;
	mad.tid = id->tid;
	mad.sidr_req.request_id = id->local_id;
	mad.sidr_req.pkey = path->pkey;
	mad.sidr_req.service_id = param->service_id;
	if (param->length)
		memcpy(mad.sidr_req.private_data, param->private_data, param->length);
	ret = cm_begin_retries(id, &mad);
	if (!ret)
		cm_set_state(id, SIMHCA_CM_SIDR_REQ_SENT);
	return ret;
}

void cm_sidr_answer(struct simhca_cm_id *id, const struct simhca_cm_sidr_rep *rep,
		    uint32_t attr_mod)
{
	struct simhca_cm_mad mad = { .attribute = SIMHCA_CM_SIDR_REP, .tid = id->tid };

	mad.attr_mod = attr_mod;
	mad.sidr_rep = *rep;
	mad.sidr_rep.request_id = id->remote_id;
	mad.sidr_rep.service_id = id->service_id;
	cm_post(id->cm, &id->path, &mad);
}

int simhca_cm_send_sidr_rep(struct simhca_cm_id *id, const struct simhca_cm_sidr_rep *rep,
			    uint32_t attr_mod)
{
	if (id->state != SIMHCA_CM_SIDR_REQ_RCVD)
		return -EINVAL;
	cm_sidr_answer(id, rep, attr_mod);
	cm_reset(id);
	return 0;
}

/*
 * A GID stands for the peer's GUID, which a SIDR_REQ does not have, and the transaction for the
 * request: a repetition of one that waits for the user is not another one.
 */
static uint64_t peer_of(const struct simhca_cm_path *path)
{
	uint64_t peer = path->dlid;

	for (size_t i = 0; i < sizeof(path->dgid.raw); i++)
		peer = (peer ^ path->dgid.raw[i]) * UINT64_C(0x100000001b3);
	return peer;
}

void cm_on_sidr_req(struct simhca_cm *cm, const struct simhca_cm_path *path,
		    const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_sidr_req *req = &mad->sidr_req;
	struct simhca_cm_event event = { .type = SIMHCA_CM_SIDR_REQ_RECEIVED, .mad = mad };
	struct simhca_cm_sidr_rep refused = { 0 };
	struct simhca_cm_id *id, *listener;
	int ret;

	id = simhca_cm_id_create(cm, NULL);
	if (!id)
		return; /* it will be repeated */
	id->path = *path;
	id->path.pkey = req->pkey;
	id->tid = mad->tid;
	id->remote_id = req->request_id;
	id->service_id = req->service_id;
	cm_set_state(id, SIMHCA_CM_SIDR_REQ_RCVD);
	HASH_FIND(hh_service, cm->services, &req->service_id, sizeof(req->service_id), listener);
	if (!cm_claim_remote(id, peer_of(path))) {
		cm_forget(id);
		return;
	}
	ret = SIMHCA_CM_SIDR_UNSUPPORTED;
	if (listener) {
		event.listener = listener->context;
		ret = cm->ops.event(cm->arg, id, &event);
	}
	if (!ret)
		return;
	if (ret > 0) {
		refused.status = (uint8_t)ret;
		cm_sidr_answer(id, &refused, 0);
	}
	cm_forget(id);
}

void cm_on_sidr_rep(struct simhca_cm *cm, const struct simhca_cm_mad *mad)
{
	struct simhca_cm_id *id = cm_find(cm, mad->sidr_rep.request_id, 0);

	if (!id || id->state != SIMHCA_CM_SIDR_REQ_SENT)
		return;
	cm_reset(id);
	cm_event(id, SIMHCA_CM_SIDR_REP_RECEIVED, mad);
}
