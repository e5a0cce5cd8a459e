/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What small messages bring waits elsewhere until it is polled; here is when it must not. */
#include "dv.h"

static struct ibv_qp *make_without_scatter(const struct end *end, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = end->pd,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct simhcadv_qp_init_attr dv = {
		.comp_mask = SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = SIMHCADV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};
	struct ibv_qp *qp = simhcadv_create_qp(end->context, &attr, &dv);

	CHECK(qp);
	return qp;
}

static void send_bytes(const struct end *end, uint32_t length, uint8_t value)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, length, end->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	memset(end->memory, value, length);
	CHECK(!post_send(end->qp, &wr));
	poll_success(end->cq);
}

TEST(not_of_a_qp_without_it)
{
	struct pair pair = { .client = new_end(), .server = new_end() };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pair.server.pd, &attr);
	struct ibv_sge sge = { (uintptr_t)pair.server.memory, 64, pair.server.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(srq);
	pair.client.qp = make_qp(pair.client.pd, pair.client.cq, IBV_QPT_RC);
	pair.server.qp = make_without_scatter(&pair.server, srq);
	start_qp(pair.client.qp, pair.server.qp->qp_num);
	start_qp(pair.server.qp, pair.client.qp->qp_num);
	for (int i = 1; i < 8; i++) {
		memset(pair.server.memory, 0, 64);
		CHECK(!ibv_post_srq_recv(srq, &recv, &bad));
		send_bytes(&pair.client, 8, (uint8_t)i);
		CHECK(pair.server.memory[7] == i);
		poll_success(pair.server.cq);
	}
}

TEST(of_a_cq_that_overruns)
{
	struct pair pair = { .client = new_end(), .server = new_end() };
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(pair.server.context, &attr);
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int seen = 0;

	CHECK(ex);
	cq = ibv_cq_ex_to_cq(ex);
	pair.client.qp = make_qp(pair.client.pd, pair.client.cq, IBV_QPT_RC);
	pair.server.qp = make_qp(pair.server.pd, cq, IBV_QPT_RC);
	start_qp(pair.client.qp, pair.server.qp->qp_num);
	start_qp(pair.server.qp, pair.client.qp->qp_num);
	memset(pair.server.memory, 0, 1024);
	for (int i = 0; i < 10; i++)
		CHECK(!post_recv(pair.server.qp, (uint64_t)i, pair.server.mr, (size_t)i * 64, 64));
	for (int i = 0; i < 10; i++)
		send_bytes(&pair.client, 8, (uint8_t)(i + 1));
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS);
		CHECK(pair.server.memory[wc.wr_id * 64 + 7] == wc.wr_id + 1);
		seen++;
	}
	CHECK(seen == 4);
}
