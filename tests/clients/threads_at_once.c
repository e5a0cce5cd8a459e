/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Two threads use at once what has no lock; with a second argument they take turns. */
#include <pthread.h>

#include "../programs/helper.h"

#define SECONDS 0.3

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static bool takes_turns;
static const char *what;
static struct ibv_qp *qp;
static struct ibv_srq *srq;
static struct ibv_cq *cq;

static void send_batch(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_sge(ex, 0, 0, 0);
	ibv_wr_complete(ex);
}

/* Most often there is nothing to poll. */
static void poll_several(void)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(ex, &attr))
		return;
	while (!ibv_next_poll(ex))
		;
	ibv_end_poll(ex);
}

static void use(void)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_RDMA_WRITE }, *bad_send;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_wc wc;

	if (!strcmp(what, "sends"))
		ibv_post_send(qp, &send, &bad_send);
	else if (!strcmp(what, "receives"))
		ibv_post_recv(qp, &recv, &bad_recv);
	else if (!strcmp(what, "shared receives"))
		ibv_post_srq_recv(srq, &recv, &bad_recv);
	else if (!strcmp(what, "batches"))
		send_batch();
	else if (!strcmp(what, "polls"))
		ibv_poll_cq(cq, 1, &wc);
	else
		poll_several();
}

static void *user(void *until)
{
	while (now() < *(double *)until) {
		if (takes_turns)
			pthread_mutex_lock(&turn);
		use();
		if (takes_turns)
			pthread_mutex_unlock(&turn);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_cq_init_attr_ex single = { .cqe = 16,
					      .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					      .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_qp_init_attr_ex ex_attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct ibv_context *context = open_device();
	struct ibv_td_init_attr td_attr = { 0 };
	double until;
	struct ibv_pd *domain;
	pthread_t thread[2];

	CHECK(argc > 1);
	what = argv[1];
	takes_turns = argc > 2;
	parent.pd = ibv_alloc_pd(context);
	parent.td = ibv_alloc_td(context, &td_attr);
	CHECK(parent.pd && parent.td);
	domain = ibv_alloc_parent_domain(context, &parent);
	CHECK(domain);
	cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &single));
	CHECK(cq);
	srq = ibv_create_srq(domain, &srq_attr);
	CHECK(srq);
	ex_attr.send_cq = ex_attr.recv_cq = cq;
	ex_attr.pd = domain;
	qp = ibv_create_qp_ex(context, &ex_attr);
	CHECK(qp);
	start_qp(qp, qp->qp_num);
	until = now() + SECONDS;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, user, &until));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], NULL));
	return 0;
}
