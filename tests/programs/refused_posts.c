/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Posts what is refused, for the reason that the argument names. */
#include "helper.h"

#define DEPTH 4
#define MOST_SGES 17

static char buffer[4096];

struct queues {
	struct ibv_qp *qp;
	struct ibv_srq *srq; /* NULL: receives are the QP's own */
	struct ibv_sge sge[MOST_SGES];
};

static struct queues make_queues(const char *how)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = strcmp(how, "recv_none") ? DEPTH : 0,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = 128 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct queues queues = { 0 };

	CHECK(pd && cq && mr);
	if (strstr(how, "srq")) {
		struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

		queues.srq = attr.srq = ibv_create_srq(pd, &srq);
		CHECK(attr.srq);
	}
	queues.qp = ibv_create_qp_ex(context, &attr);
	CHECK(queues.qp);
	for (int i = 0; i < MOST_SGES; i++)
		queues.sge[i] = (struct ibv_sge){ (uintptr_t)buffer, 8, mr->lkey };
	return queues;
}

static int post_one_send(struct queues *queues, const char *how)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = queues->sge, .num_sge = 1
	};
	int err = 0;

	if (!strcmp(how, "too_many_sges"))
		wr.num_sge = MOST_SGES;
	else if (!strcmp(how, "negative"))
		wr.num_sge = -1;
	else if (!strcmp(how, "opcode"))
		wr.opcode = IBV_WR_TSO;
	else if (!strcmp(how, "unknown_opcode"))
		wr.opcode = 77;
	else if (!strcmp(how, "inline_too_long")) {
		wr.send_flags = IBV_SEND_INLINE;
		queues->sge[0].length = 129;
	} else if (!strcmp(how, "inline_read")) {
		wr.send_flags = IBV_SEND_INLINE;
		wr.opcode = IBV_WR_RDMA_READ;
	}
	/* Nobody receives, so they stay. */
	for (int i = strcmp(how, "full") ? DEPTH : 0; i <= DEPTH && !err; i++)
		err = post_send(queues->qp, &wr);
	return err;
}

static int build_sends(const struct queues *queues, int count, size_t num_sge)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(queues->qp);

	ibv_wr_start(qp);
	for (int i = 0; i < count; i++) {
		qp->wr_id = 1;
		ibv_wr_send(qp);
		ibv_wr_set_sge_list(qp, num_sge, queues->sge);
	}
	return ibv_wr_complete(qp);
}

static struct ibv_ah *destroyed_handle(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = loopback(pd->context);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah && !ibv_destroy_ah(ah));
	return ah;
}

static int build_wrongly(const struct queues *queues, const char *how)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(queues->qp);
	const struct ibv_sge *sge = queues->sge;
	struct ibv_ah *ah = strcmp(how, "builder_old_ah") ? NULL : destroyed_handle(queues->qp->pd);

	ibv_wr_start(qp);
	if (!strcmp(how, "builder_inline_read"))
		ibv_wr_rdma_read(qp, 0, 0);
	else if (!strcmp(how, "builder_not_asked_for"))
		ibv_wr_rdma_write(qp, 0, 0);
	else if (strcmp(how, "builder_not_begun"))
		ibv_wr_send(qp);
	if (!strcmp(how, "builder_no_ah") || ah)
		ibv_wr_set_ud_addr(qp, ah, 1, QKEY);
	if (!strncmp(how, "builder_inline", strlen("builder_inline")))
		ibv_wr_set_inline_data(qp, buffer, 129);
	else
		ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	return ibv_wr_complete(qp);
}

static int post_one_receive(struct queues *queues, const char *how)
{
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = queues->sge, .num_sge = 1 }, *bad;
	bool to_srq = !strncmp(how, "srq", 3);
	int err = 0;

	if (strstr(how, "sges"))
		wr.num_sge = 9;
	for (int i = strstr(how, "full") ? 0 : DEPTH; i <= DEPTH && !err; i++)
		err = to_srq ? ibv_post_srq_recv(queues->srq, &wr, &bad)
			     : ibv_post_recv(queues->qp, &wr, &bad);
	return err;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct queues queues = make_queues(how);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = FULL_ACCESS };

	if (!strcmp(how, "too_early"))
		CHECK(!ibv_modify_qp(queues.qp, &init,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     IBV_QP_ACCESS_FLAGS));
	else if (strcmp(how, "recv_reset"))
		start_qp(queues.qp, queues.qp->qp_num);
	if (!strcmp(how, "builder"))
		CHECK(build_sends(&queues, 1, 9));
	else if (!strcmp(how, "builder_full"))
		CHECK(build_sends(&queues, DEPTH + 1, 1));
	else if (!strncmp(how, "builder_", strlen("builder_")))
		CHECK(build_wrongly(&queues, how));
	else if (strstr(how, "recv") || strstr(how, "srq"))
		CHECK(post_one_receive(&queues, how));
	else
		CHECK(post_one_send(&queues, how));
	/* What was posted and taken shall fail no more. */
	_exit(0);
}
