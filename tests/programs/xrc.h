/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* XRC domains and what is in them, for programs that have a connection by XRC. */
#ifndef XRC_H
#define XRC_H

#include "helper.h"

static inline struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

static inline struct ibv_srq *new_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
				      uint32_t max_wr)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = max_wr, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pd->context, &attr);

	CHECK(srq);
	return srq;
}

static inline struct ibv_qp *new_target(struct ibv_context *context, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	CHECK(qp);
	return qp;
}

static inline void start_xrc_with(struct ibv_qp *qp, uint32_t peer, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = FULL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 3,
		.rnr_retry = rnr_retry,
		.ah_attr = loopback(qp->context),
	};
	const bool target = qp->qp_type == IBV_QPT_XRC_RECV;

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(
		qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				     (target ? 0
					     : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						       IBV_QP_MAX_QP_RD_ATOMIC)));
	CHECK(qp->state == IBV_QPS_RTS);
}

static inline void start_xrc(struct ibv_qp *qp, uint32_t peer)
{
	start_xrc_with(qp, peer, 7);
}

#endif
