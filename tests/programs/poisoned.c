/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a completion need not say, where SIMHCA_POISON_WC is on, and where it is not. */
#include "helper.h"

static bool all_bytes(const void *of, size_t length, uint8_t byte)
{
	const uint8_t *at = of;

	while (length--)
		if (*at++ != byte)
			return false;
	return true;
}

static void next(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int polled;

	do
		polled = ibv_poll_cq(cq, 1, wc);
	while (!polled);
	CHECK(polled == 1);
}

/* A send that fails, and the receive that is flushed after it. */
static void fail(struct ibv_qp *qp)
{
	static char nowhere[8];
	struct ibv_sge sge = { .addr = (uintptr_t)nowhere, .length = 8, .lkey = 0xdead00 };
	struct ibv_send_wr send = { .wr_id = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = &sge,
				    .num_sge = 1 },
			   *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 2 }, *bad_recv;

	CHECK(!ibv_post_recv(qp, &recv, &bad_recv));
	CHECK(!ibv_post_send(qp, &send, &bad_send));
}

static void check(const struct ibv_wc *wc, struct ibv_qp *qp, bool poisons, uint8_t poison)
{
	CHECK(wc->status && wc->qp_num == qp->qp_num && !wc->wc_flags);
	CHECK(all_bytes(&wc->byte_len, sizeof(wc->byte_len), poison) == poisons);
	CHECK(all_bytes(&wc->src_qp, sizeof(wc->src_qp), poison) == poisons);
	CHECK((wc->opcode == (enum ibv_wc_opcode)poison) == poisons);
}

/* What has succeeded says what it is, and a receive how long; a send does not. */
static void succeed(struct ibv_cq *cq, struct ibv_qp *qp, bool poisons)
{
	static char buffer[64];
	struct ibv_mr *mr = ibv_reg_mr(qp->pd, buffer, 64, FULL_ACCESS);
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = 8 };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = &sge,
				    .num_sge = 1 },
			   *bad_send;
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_wc wc;

	CHECK(mr);
	sge.lkey = mr->lkey;
	send.imm_data = 0x01020304;
	for (int i = 0; i < 3; i++) {
		const bool reads = i == 2, has_imm = i == 1;

		send.opcode = reads	? IBV_WR_RDMA_READ
			      : has_imm ? IBV_WR_SEND_WITH_IMM
					: IBV_WR_SEND;
		send.wr.rdma.remote_addr = (uintptr_t)buffer + 32;
		send.wr.rdma.rkey = mr->rkey;
		CHECK(reads || !ibv_post_recv(qp, &recv, &bad_recv));
		CHECK(!ibv_post_send(qp, &send, &bad_send));
		for (int n = 0; n < 2 - reads; n++) {
			next(cq, &wc);
			CHECK(!wc.status && !wc.vendor_err && wc.qp_num == qp->qp_num);
			if (wc.opcode == IBV_WC_SEND) {
				CHECK((wc.byte_len == 8) == !poisons);
				CHECK(all_bytes(&wc.byte_len, 4, 0xfe) == poisons);
				continue;
			}
			CHECK(wc.opcode == (reads ? IBV_WC_RDMA_READ : IBV_WC_RECV));
			CHECK(wc.byte_len == 8);
			if (reads)
				continue;
			CHECK(!!(wc.wc_flags & IBV_WC_WITH_IMM) == has_imm);
			CHECK(has_imm ? wc.imm_data == send.imm_data
				      : all_bytes(&wc.imm_data, 4, 0x7e) == poisons);
		}
	}
	CHECK(!ibv_dereg_mr(mr));
}

int main(int argc, char **argv)
{
	bool poisons = argc == 1, extended = argc > 1 && !strcmp(argv[1], "extended");
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 8, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_context *context;
	struct ibv_cq_ex *cq_ex;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	if (poisons || extended)
		setenv("SIMHCA_POISON_WC", "on", 1);
	context = open_device();
	cq_ex = extended ? ibv_create_cq_ex(context, &cq_attr) : NULL;
	cq = extended ? ibv_cq_ex_to_cq(cq_ex) : ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(cq);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(ibv_alloc_pd(context), &init);
	CHECK(qp);
	start_qp(qp, qp->qp_num);
	if (!extended)
		succeed(cq, qp, poisons);
	fail(qp);
	if (extended) {
		while (ibv_start_poll(cq_ex, &poll_attr))
			;
		CHECK(cq_ex->wr_id == 1 && cq_ex->status == IBV_WC_LOC_PROT_ERR);
		CHECK(ibv_wc_read_opcode(cq_ex) == (enum ibv_wc_opcode)0xfe);
		CHECK(ibv_wc_read_byte_len(cq_ex) == 0xfefefefe);
		CHECK(ibv_wc_read_vendor_err(cq_ex) && ibv_wc_read_vendor_err(cq_ex) < 256);
		ibv_end_poll(cq_ex);
		return 0;
	}
	next(cq, &wc);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_LOC_PROT_ERR && wc.vendor_err < 256);
	check(&wc, qp, poisons, 0xfe);
	next(cq, &wc);
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR);
	check(&wc, qp, poisons, 0x7e);
	return 0;
}
