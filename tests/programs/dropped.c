/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Sends three datagrams, each of which is dropped, or lost on the way, for the reason that the
 * argument names.
 */
#include "helper.h"

#define DATAGRAMS 3
#define LENGTH 64

static char buffer[4096];

/* Where the datagrams go, by mistake. */
static void mislead(const char *how, struct ibv_ah_attr *to, uint32_t *qpn)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 9 } };
	const uint32_t number = *qpn;

	if (!strcmp(how, "no_such_qp"))
		*qpn = 0x777;
	else if (!strcmp(how, "qpn_reversed"))
		*qpn = __builtin_bswap32(number) >> 8;
	else if (!strcmp(how, "no_qpn"))
		*qpn = 0;
	else if (!strcmp(how, "no_port"))
		to->grh.dgid.raw[15] ^= 0x55;
	else if (!strcmp(how, "group_without_members") || !strcmp(how, "port_as_group"))
		*qpn = 0xffffff;
	if (!strcmp(how, "group_without_members") || !strcmp(how, "group_by_number"))
		to->grh.dgid = group;
}

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
	uint32_t qpn;

	CHECK(pd && cq && mr);
	sender = make_qp(pd, cq, IBV_QPT_UD);
	receiver = make_qp(pd, cq, strcmp(how, "qp_of_rc") ? IBV_QPT_UD : IBV_QPT_RC);
	start_qp(sender, 0);
	if (strcmp(how, "not_started"))
		start_qp(receiver, sender->qp_num);
	if (!strcmp(how, "qkey_controlled")) {
		struct ibv_qp_attr attr = { .qkey = 0x80001234 };

		CHECK(!ibv_modify_qp(receiver, &attr, IBV_QP_QKEY));
		qkey = attr.qkey;
	}
	if (!strcmp(how, "qkey_reversed")) {
		struct ibv_qp_attr attr = { .qkey = 0x01020304 };

		CHECK(!ibv_modify_qp(receiver, &attr, IBV_QP_QKEY));
		qkey = 0x04030201;
	}
	sge.lkey = mr->lkey;
	qpn = receiver->qp_num;
	mislead(how, &to, &qpn);
	wr.wr.ud.ah = ibv_create_ah(pd, &to);
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	CHECK(wr.wr.ud.ah);
	if (strcmp(how, "no_receive") && strcmp(how, "not_started"))
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
