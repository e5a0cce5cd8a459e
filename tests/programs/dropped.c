/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sends three datagrams, each of which is dropped for the reason that the argument names. */
#include "helper.h"

#define DATAGRAMS 3
#define LENGTH 64

static char buffer[4096];

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	uint32_t qkey = !strcmp(how, "qkey") ? QKEY * 2 : QKEY;
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS) : NULL;
	struct ibv_sge sge = { (uintptr_t)buffer, LENGTH, 0 };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_ah_attr to = loopback(context);
	struct ibv_qp *sender, *receiver;

	CHECK(pd && cq && mr);
	sender = make_qp(pd, cq, IBV_QPT_UD);
	receiver = make_qp(pd, cq, IBV_QPT_UD);
	start_qp(sender, 0);
	start_qp(receiver, 0);
	if (!strcmp(how, "qkey_reversed")) {
		struct ibv_qp_attr attr = { .qkey = 0x01020304 };

		CHECK(!ibv_modify_qp(receiver, &attr, IBV_QP_QKEY));
		qkey = 0x04030201;
	}
	sge.lkey = mr->lkey;
	wr.wr.ud.ah = ibv_create_ah(pd, &to);
	wr.wr.ud.remote_qpn = receiver->qp_num;
	wr.wr.ud.remote_qkey = qkey;
	CHECK(wr.wr.ud.ah);
	if (strcmp(how, "no_receive"))
		CHECK(!post_recv(receiver, 2, mr, 1024,
				 !strcmp(how, "grh") ? LENGTH : LENGTH + 40));
	for (int i = 0; i < DATAGRAMS; i++) {
		struct ibv_wc wc;

		CHECK(!post_send(sender, &wr));
		wc = poll_one(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1);
	}
	return 0;
}
