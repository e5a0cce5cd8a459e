/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands for QPs, which go to the room that the QP's type belongs to. */
#include <errno.h>

#include "core/context.h"
#include "recv/xrc.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "proto/qp.h"

int simhca_create_qp(struct simhca_context *context, const struct simhca_create_qp_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why)
{
	if (req->type == SIMHCA_QPT_XRC_RECV)
		return simhca_create_xrc_target(context, req, reply, why);
	return simhca_qp_create(context, req, reply, why);
}

int simhca_qp_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, why);

	if (!qp)
		return -ENOENT;
	*identity = (struct simhca_identity){
		.user_handle = simhca_qp_user_handle(qp, context, handle),
		.renew = simhca_queues_to_renew(qp, true),
	};
	return 0;
}

int simhca_destroy_qp(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, why);

	if (!qp)
		return -ENOENT;
	if (qp->type == SIMHCA_QPT_XRC_RECV)
		return simhca_close_xrc_target(context, handle, qp);
	return simhca_qp_destroy(qp, handle, why);
}
