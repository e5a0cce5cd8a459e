/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP has still to send when it is destroyed. */
#include "dv.h"

#define MESSAGES 200

/* A sender of one message, which nobody acknowledges and it does not wait for. */
static void send_and_go(const struct end *end, enum ibv_qp_type type, struct ibv_qp *to,
			struct ibv_ah *ah)
{
	struct ibv_qp *qp = make_qp(end->pd, end->cq, type);
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = 8, .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	start_qp(qp, to->qp_num);
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = to->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else {
		start_qp(to, qp->qp_num);
	}
	CHECK(!post_recv(to, 1, end->mr, 0, 64));
	CHECK(!post_send(qp, &wr));
	CHECK(!ibv_destroy_qp(qp));
}

/* Posted before, it is sent before, whether the device is awake at that moment or not. */
TEST(last_messages)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UD, IBV_QPT_UC };

	for (int t = 0; t < 2; t++) {
		struct end end = new_end();
		struct ibv_cq *received = ibv_create_cq(end.context, MESSAGES, NULL, NULL, 0);
		struct ibv_qp *to = make_qp(end.pd, received, types[t]);
		struct ibv_ah_attr address = loopback(end.context);
		struct ibv_ah *ah = ibv_create_ah(end.pd, &address);

		CHECK(received && ah);
		if (types[t] == IBV_QPT_UD)
			start_qp(to, 0);
		for (int i = 0; i < MESSAGES; i++) {
			if (i % 2)
				usleep(500);
			send_and_go(&end, types[t], to, ah);
			poll_success(received);
			if (types[t] == IBV_QPT_UC)
				to_state(to, IBV_QPS_RESET);
		}
	}
}
