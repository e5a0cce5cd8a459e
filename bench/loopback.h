/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A program that talks to itself: two reliable QPs of the first device, connected to each other. */
#ifndef SIMHCA_BENCH_LOOPBACK_H
#define SIMHCA_BENCH_LOOPBACK_H

#include <infiniband/verbs.h>

#include "steps.h"

struct loopback {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2]; /* of each QP */
	struct ibv_qp *qp[2];
};

static inline void loopback_connect(const struct loopback *b, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };

	if (ibv_query_port(b->context, 1, &port) ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = port.active_mtu,
				     .dest_qp_num = peer,
				     .max_dest_rd_atomic = 16,
				     .min_rnr_timer = 1,
				     .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 1;
		if (ibv_query_gid(b->context, 1, 0, &attr.ah_attr.grh.dgid))
			die("ibv_query_gid");
	}
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 16 };
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

static inline void loopback_open(struct loopback *b, uint32_t depth)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = depth,
						  .max_recv_wr = depth,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	if (!list || !list[0])
		die("ibv_get_device_list");
	b->context = ibv_open_device(list[0]);
	b->pd = b->context ? ibv_alloc_pd(b->context) : NULL;
	for (int i = 0; i < 2; i++) {
		b->cq[i] = b->pd ? ibv_create_cq(b->context, (int)depth, NULL, NULL, 0) : NULL;
		attr.send_cq = attr.recv_cq = b->cq[i];
		b->qp[i] = b->cq[i] ? ibv_create_qp(b->pd, &attr) : NULL;
		if (!b->qp[i])
			die("a device with two QPs");
	}
	for (int i = 0; i < 2; i++)
		loopback_connect(b, b->qp[i], b->qp[!i]->qp_num);
}

#endif
