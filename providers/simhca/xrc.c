/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC: domains, and XRC_RECV QPs. Such a QP has no queues and no CQs here: its receives are an XRC
 * SRQ's (srq.c), and complete on that one's CQ.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "command.h"
#include "say.h"

struct ibv_xrcd *shca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t all = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct simhca_open_xrcd_req req = {};
	struct simhca_handle reply;
	struct shca_xrcd *xrcd;
	int err;

	if (attr->comp_mask != all)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_OPEN_XRCD,
					 attr->comp_mask & ~all ? EOPNOTSUPP : EINVAL,
					 "comp_mask is IBV_XRCD_INIT_ATTR_FD | _OFLAGS");
	/* As the kernel has it, any other negative number is a bad descriptor. */
	if (attr->fd != -1 && fcntl(attr->fd, F_GETFD) < 0)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_OPEN_XRCD, EBADF,
					 "fd is no open file, and not -1, which is for a domain "
					 "that no other process shares");
	req.has_fd = attr->fd != -1;
	req.flags = (attr->oflags & O_CREAT ? SIMHCA_XRCD_CREATE : 0) |
		    (attr->oflags & O_EXCL ? SIMHCA_XRCD_EXCLUSIVE : 0);

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return shca_null(ENOMEM);
	err = shca_execute(to_sctx(context), &(struct shca_command){
						     .command = SIMHCA_CMD_OPEN_XRCD,
						     .req = &req,
						     .req_size = sizeof(req),
						     .req_fds = &attr->fd,
						     .num_req_fds = req.has_fd,
						     .reply = &reply,
						     .reply_size = sizeof(reply),
					     });
	if (err) {
		free(xrcd);
		/* The kernel's errno for "there is none, and O_CREAT is missing". */
		return shca_null(err == ENOENT ? EAGAIN : err);
	}
	xrcd->ibv_xrcd.context = context;
	xrcd->handle = reply.handle;
	return &xrcd->ibv_xrcd;
}

int shca_close_xrcd(struct ibv_xrcd *ibv_xrcd)
{
	struct shca_xrcd *xrcd = to_sxrcd(ibv_xrcd);
	struct simhca_handle req = { .handle = xrcd->handle };
	struct shca_context *ctx = to_sctx(ibv_xrcd->context);
	int err = shca_command(ctx, SIMHCA_CMD_CLOSE_XRCD, &req);

	if (err && !shca_is_fatal(ctx))
		return err;
	free(xrcd);
	return 0;
}

struct ibv_qp *shca_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct simhca_create_qp_req req = { .type = SIMHCA_QPT_XRC_RECV };
	struct simhca_create_qp_reply reply;
	struct shca_qp *qp;
	int err;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		shca_say_create_qp(to_sctx(context), EINVAL, attr->qp_type,
				   "an XRC_RECV QP is of a domain: comp_mask lacks "
				   "IBV_QP_INIT_ATTR_XRCD");
		return shca_null(EINVAL);
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		shca_say_create_qp(to_sctx(context), EOPNOTSUPP, attr->qp_type,
				   "an XRC_RECV QP sends nothing: comp_mask has "
				   "IBV_QP_INIT_ATTR_SEND_OPS_FLAGS");
		return shca_null(EOPNOTSUPP);
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return shca_null(ENOMEM);
	req.user_handle = shca_user_handle(to_sctx(context), &qp->vqp.qp);
	req.xrcd = to_sxrcd(attr->xrcd)->handle;
	err = shca_call(to_sctx(context), SIMHCA_CMD_CREATE_QP, &req, &reply);
	if (err) {
		free(qp);
		return shca_null(err);
	}
	shca_qp_init(qp, context, reply.handle, reply.qpn, attr->qp_context, IBV_QPT_XRC_RECV);
	/* It protects nothing, but programs make the SRQs of the connection in it. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD)
		qp->vqp.qp.pd = attr->pd;
	return &qp->vqp.qp;
}

struct ibv_qp *shca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct simhca_open_qp_req req = {};
	struct simhca_handle reply;
	struct shca_qp *qp;
	int err;

	if (attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT))
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_OPEN_QP, EOPNOTSUPP,
					 "comp_mask has bits that are not known");
	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_OPEN_QP, EINVAL,
					 "a QP is opened by its number, its domain and its type, "
					 "IBV_QPT_XRC_RECV, and comp_mask names them");
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return shca_null(ENOMEM);
	req.user_handle = shca_user_handle(to_sctx(context), &qp->vqp.qp);
	req.xrcd = to_sxrcd(attr->xrcd)->handle;
	req.qpn = attr->qp_num;
	err = shca_call(to_sctx(context), SIMHCA_CMD_OPEN_QP, &req, &reply);
	if (err) {
		free(qp);
		return shca_null(err);
	}
	shca_qp_init(qp, context, reply.handle, attr->qp_num,
		     attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
		     IBV_QPT_XRC_RECV);
	qp->vqp.qp.state = (enum ibv_qp_state)shca_qp_state(qp);
	return &qp->vqp.qp;
}
