/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What libibverbs and the provider make of a tag-matching SRQ; the rest is rdma-core's own test. */
#include <endian.h>
#include <infiniband/tm_types.h>

#include "helper.h"

#define TAGS 8
#define DEPTH 4
#define LENGTH 4096u
#define ALL_OF_TM                                                                                  \
	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |                    \
	 IBV_SRQ_INIT_ATTR_TM)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

static struct ibv_srq *try_srq_on(struct ibv_cq *on, uint32_t comp_mask, uint32_t max_tags,
				  uint32_t max_ops)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
		.comp_mask = comp_mask,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = on,
		.tm_cap = { .max_num_tags = max_tags, .max_ops = max_ops },
	};

	errno = 0;
	return ibv_create_srq_ex(context, &attr);
}

static struct ibv_srq *try_srq(uint32_t comp_mask, uint32_t max_tags, uint32_t max_ops)
{
	return try_srq_on(cq, comp_mask, max_tags, max_ops);
}

static struct ibv_ops_wr add(uint64_t tag, struct ibv_sge *sge, struct ibv_ops_wr *next)
{
	return (struct ibv_ops_wr){ .wr_id = 100 + tag,
				    .next = next,
				    .opcode = IBV_WR_TAG_ADD,
				    .flags = IBV_OPS_SIGNALED,
				    .tm.add = { .recv_wr_id = tag,
						.sg_list = sge,
						.num_sge = 1,
						.tag = tag,
						.mask = UINT64_MAX } };
}

static int post_srq(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 1024, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void send_tagged(struct ibv_qp *qp, struct ibv_cq *sent, uint8_t opcode, uint64_t tag,
			uint32_t app_ctx)
{
	struct ibv_tmh *tmh = (struct ibv_tmh *)((char *)mr->addr + 3072);
	struct ibv_sge sge = { .addr = (uintptr_t)tmh, .length = 32, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	*tmh = (struct ibv_tmh){ .opcode = opcode,
				 .app_ctx = htobe32(app_ctx),
				 .tag = htobe64(tag) };
	CHECK(!post_send(qp, &wr));
	poll_success(sent);
}

static void send_tag(struct ibv_qp *qp, struct ibv_cq *sent, uint8_t opcode, uint64_t tag)
{
	send_tagged(qp, sent, opcode, tag, 0);
}

static void creation(void)
{
	const uint32_t all = ALL_OF_TM;
	struct ibv_device_attr_ex attr;

	CHECK(!ibv_query_device_ex(context, NULL, &attr));
	CHECK(attr.tm_caps.flags == IBV_TM_CAP_RC && attr.tm_caps.max_sge >= 1);
	CHECK(attr.tm_caps.max_rndv_hdr_size >= sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh));
	CHECK(!try_srq(all & ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ, TAGS, 1) && errno == EINVAL);
	CHECK(!try_srq(all & ~(uint32_t)IBV_SRQ_INIT_ATTR_TM, TAGS, 1) && errno == EINVAL);
	CHECK(!try_srq(all | IBV_SRQ_INIT_ATTR_XRCD, TAGS, 1) && errno == EINVAL);
	CHECK(!try_srq(all, 0, 1) && errno == EINVAL);
	CHECK(!try_srq(all, attr.tm_caps.max_num_tags + 1, 1) && errno == EINVAL);
	CHECK(!try_srq(all, TAGS, attr.tm_caps.max_ops + 1) && errno == EINVAL);
}

static void operations(struct ibv_srq *srq)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr + 2048, .length = 64, .lkey = mr->lkey };
	struct ibv_sge many[5] = { sge, sge, sge, sge, sge };
	struct ibv_ops_wr third = add(3, &sge, NULL), second = add(2, &sge, &third);
	struct ibv_ops_wr first = add(1, &sge, &second), *bad = NULL;
	struct ibv_ops_wr del = { .wr_id = 9, .opcode = IBV_WR_TAG_DEL };
	struct ibv_ops_wr sync = { .wr_id = 11,
				   .opcode = IBV_WR_TAG_SYNC,
				   .flags = IBV_OPS_SIGNALED };
	struct ibv_wc wc;

	second.tm.add.sg_list = many;
	second.tm.add.num_sge = 5;
	CHECK(ibv_post_srq_ops(srq, &first, &bad) == EINVAL && bad == &second);
	wc = poll_success(cq);
	CHECK(wc.wr_id == 101 && wc.opcode == IBV_WC_TM_ADD && !wc.wc_flags);
	second.tm.add.num_sge = 1;
	CHECK(!ibv_post_srq_ops(srq, &second, &bad));
	CHECK(poll_success(cq).wr_id == 102 && poll_success(cq).wr_id == 103);
	CHECK(first.tm.handle != second.tm.handle && second.tm.handle != third.tm.handle);
	for (int i = 3; i < TAGS; i++)
		CHECK(!ibv_post_srq_ops(srq, &third, &bad) && poll_success(cq).wr_id == 103);
	CHECK(ibv_post_srq_ops(srq, &third, &bad) == ENOMEM && bad == &third);
	del.tm.handle = first.tm.handle;
	CHECK(!ibv_post_srq_ops(srq, &del, &bad));
	CHECK(!ibv_poll_cq(cq, 1, &wc));
	CHECK(!ibv_post_srq_ops(srq, &del, &bad));
	wc = poll_one(cq);
	CHECK(wc.status == IBV_WC_TM_ERR && wc.wr_id == 9);
	del = (struct ibv_ops_wr){ .wr_id = 10,
				   .next = &sync,
				   .opcode = IBV_WR_TAG_DEL,
				   .flags = IBV_OPS_SIGNALED,
				   .tm.handle = third.tm.handle };
	CHECK(!ibv_post_srq_ops(srq, &del, &bad));
	wc = poll_success(cq);
	CHECK(wc.wr_id == 10 && wc.opcode == IBV_WC_TM_DEL);
	wc = poll_success(cq);
	CHECK(wc.wr_id == 11 && wc.opcode == IBV_WC_TM_SYNC);
}

/* Receives that are not matched give their slots back, and matches take none. */
static void slots(struct ibv_srq *srq)
{
	struct ibv_cq *sent = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = sent, .recv_cq = sent, .srq = srq, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *sender = make_qp(pd, sent, IBV_QPT_RC);
	struct ibv_qp *receiver = ibv_create_qp(pd, &attr);
	struct ibv_wc wc;

	CHECK(receiver);
	start_qp(receiver, sender->qp_num);
	start_qp(sender, receiver->qp_num);
	for (uint64_t i = 0; i < DEPTH; i++)
		CHECK(!post_srq(srq, i));
	send_tag(sender, sent, IBV_TMH_EAGER, 2); /* the entry that operations() left */
	wc = poll_success(cq);
	CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_TM_RECV && wc.byte_len == 16);
	CHECK(wc.wc_flags == (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID));
	CHECK(wc.qp_num == receiver->qp_num);
	for (uint64_t i = 0; i < 10 * DEPTH; i++) {
		CHECK(post_srq(srq, 0) == ENOMEM);
		send_tag(sender, sent, i & 1 ? IBV_TMH_NO_TAG : IBV_TMH_EAGER, 77);
		wc = poll_success(cq);
		CHECK(wc.wr_id == i % DEPTH && wc.byte_len == 32 && !wc.wc_flags);
		CHECK(wc.opcode == (i & 1 ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV));
		CHECK(!post_srq(srq, i % DEPTH));
	}
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	/* The QP goes, its completions stay: they are on another CQ than its own. */
	send_tag(sender, sent, IBV_TMH_NO_TAG, 1);
	CHECK(!ibv_destroy_qp(receiver) && !ibv_destroy_qp(sender) && !ibv_destroy_cq(sent));
	CHECK(poll_success(cq).opcode == IBV_WC_TM_NO_TAG);
	CHECK(!post_srq(srq, 1));
}

/* The sender's word of a message that was matched, whole; of one that was not, nothing. */
static void info(void)
{
	const uint64_t tag = 0x0123456789abcdef;
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(context, &cq_attr);
	struct ibv_cq *on = ibv_cq_ex_to_cq(cq_ex);
	struct ibv_cq *sent = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_srq *srq = try_srq_on(on, ALL_OF_TM, TAGS, 10);
	struct ibv_qp_init_attr attr = {
		.send_cq = sent, .recv_cq = sent, .srq = srq, .qp_type = IBV_QPT_RC
	};
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr + 2048, .length = 64, .lkey = mr->lkey };
	struct ibv_qp *sender = make_qp(pd, sent, IBV_QPT_RC), *receiver;
	struct ibv_ops_wr ops = add(tag, &sge, NULL), *bad;
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_wc_tm_info found;
	double limit = now() + 10;

	CHECK(srq);
	receiver = ibv_create_qp(pd, &attr);
	CHECK(receiver);
	start_qp(receiver, sender->qp_num);
	start_qp(sender, receiver->qp_num);
	ops.flags = 0;
	CHECK(!ibv_post_srq_ops(srq, &ops, &bad));
	CHECK(!post_srq(srq, 5));
	for (int matched = 1; matched >= 0; matched--) {
		send_tagged(sender, sent, IBV_TMH_EAGER, tag, 0x11223344);
		while (ibv_start_poll(cq_ex, &poll_attr))
			CHECK(now() < limit);
		CHECK(cq_ex->status == IBV_WC_SUCCESS && cq_ex->wr_id == (matched ? tag : 5));
		CHECK(ibv_wc_read_opcode(cq_ex) == IBV_WC_TM_RECV);
		ibv_wc_read_tm_info(cq_ex, &found);
		CHECK(found.tag == (matched ? tag : 0));
		CHECK(found.priv == (matched ? 0x11223344 : 0));
		ibv_end_poll(cq_ex);
	}
	CHECK(!ibv_destroy_qp(receiver) && !ibv_destroy_qp(sender) && !ibv_destroy_cq(sent));
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(on));
}

int main(void)
{
	struct ibv_srq *srq;

	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(pd && cq);
	mr = ibv_reg_mr(pd, calloc(1, LENGTH), LENGTH, FULL_ACCESS);
	CHECK(mr);
	creation();
	srq = try_srq(ALL_OF_TM, TAGS, 10);
	CHECK(srq);
	operations(srq);
	slots(srq);
	info();
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq));
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
