/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Verbs that succeed leave errno alone: programs, and librdmacm, look at it later. */
#include "helper.h"

#define MARK 12345

#define KEEPS(call)                                                                                \
	do {                                                                                       \
		errno = MARK;                                                                      \
		CHECK(call);                                                                       \
		CHECK(errno == MARK);                                                              \
	} while (0)

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_device_attr device;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_port_attr port;
	struct ibv_ah_attr address;
	static char buffer[4096];
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	union ibv_gid gid;
	struct ibv_wc wc;

	CHECK(list && list[0]);
	KEEPS(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	KEEPS(!ibv_query_device(context, &device));
	KEEPS(!ibv_query_port(context, 1, &port));
	KEEPS(!ibv_query_gid(context, 1, 0, &gid));
	KEEPS(pd = ibv_alloc_pd(context));
	KEEPS(channel = ibv_create_comp_channel(context));
	KEEPS(cq = ibv_create_cq(context, 8, NULL, channel, 0));
	KEEPS(mr = ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS));
	KEEPS(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	address = loopback(context);
	KEEPS(ah = ibv_create_ah(pd, &address));
	init.send_cq = init.recv_cq = cq;
	KEEPS(qp = ibv_create_qp(pd, &init));
	KEEPS((start_qp(qp, qp->qp_num), true));
	KEEPS(!ibv_req_notify_cq(cq, 0));
	KEEPS(!ibv_poll_cq(cq, 1, &wc));
	KEEPS(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	KEEPS(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	KEEPS(!ibv_destroy_qp(qp));
	KEEPS(!ibv_destroy_ah(ah));
	KEEPS(!ibv_dealloc_mw(mw));
	KEEPS(!ibv_dereg_mr(mr));
	KEEPS(!ibv_destroy_cq(cq));
	KEEPS(!ibv_destroy_comp_channel(channel));
	KEEPS(!ibv_dealloc_pd(pd));
	KEEPS(!ibv_close_device(context));
	return 0;
}
