/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The builders, the device's attributes, and regions as objects. */
#include "dv.h"

#define ALL_OPS (SIMHCADV_QP_EX_WITH_FAST_REG | SIMHCADV_QP_EX_WITH_READ_WITH_INV)

static struct ibv_qp_init_attr_ex usual_attr(const struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = type,
		.pd = end->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_UD
					  ? IBV_QP_EX_WITH_SEND
					  : IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	return attr;
}

static struct ibv_qp *make_qp_ex(const struct end *end, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = usual_attr(end, type);
	struct simhcadv_qp_init_attr dv = {
		.comp_mask = SIMHCADV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};

	return simhcadv_create_qp(end->context, &attr, &dv);
}

struct setting {
	struct pair pair; /* the client's QP has all builders */
	struct ibv_qp_ex *ex;
	struct simhcadv_qp_ex *dv;
	struct ibv_mr *mr;
	struct simhcadv_page_list *list;
	struct simhcadv_fast_reg reg;
};

static struct setting extended(uint64_t ops)
{
	struct setting s = { .pair = { .client = new_end(), .server = new_end() } };
	struct end *client = &s.pair.client, *server = &s.pair.server;

	client->qp = make_qp_ex(client, IBV_QPT_RC, ops);
	CHECK(client->qp);
	server->qp = make_qp(server->pd, server->cq, IBV_QPT_RC);
	start_qp(client->qp, server->qp->qp_num);
	start_qp(server->qp, client->qp->qp_num);
	s.ex = ibv_qp_to_qp_ex(client->qp);
	CHECK(s.ex);
	s.dv = simhcadv_qp_ex_from_ibv_qp_ex(s.ex);
	CHECK(s.dv);
	s.mr = new_region(client, 2);
	s.list = new_list(client, 2);
	s.reg = over(s.mr, s.list,
		     (uint8_t *[]){ client->memory + 8 * PAGE, client->memory + 4 * PAGE }, 2);
	return s;
}

static void begin(struct setting *s, uint64_t wr_id, unsigned int flags)
{
	s->ex->wr_id = wr_id;
	s->ex->wr_flags = flags;
}

/* Register, write from it, read into it and invalidate: one batch, in this order. */
TEST(a_batch)
{
	struct setting s = extended(ALL_OPS);
	struct end *client = &s.pair.client, *server = &s.pair.server;
	struct ibv_wc wc;

	for (int round = 0; round < 100; round++) {
		memset(client->memory + 8 * PAGE, round, PAGE);
		ibv_wr_start(s.ex);
		begin(&s, 1, IBV_SEND_SIGNALED);
		simhcadv_wr_fast_reg(s.dv, &s.reg);
		begin(&s, 2, 0);
		ibv_wr_rdma_write(s.ex, server->mr->rkey, (uintptr_t)server->memory);
		ibv_wr_set_sge(s.ex, s.mr->lkey, s.reg.iova_start, PAGE);
		begin(&s, 3, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		simhcadv_wr_read_with_inv(s.dv, server->mr->rkey, (uintptr_t)server->memory,
					  s.mr->rkey);
		ibv_wr_set_sge(s.ex, s.mr->lkey, s.reg.iova_start + PAGE, PAGE);
		CHECK(!ibv_wr_complete(s.ex));
		wc = poll_success(client->cq);
		CHECK(wc.wr_id == 1 && (int)wc.opcode == SIMHCADV_WC_FAST_REG);
		wc = poll_success(client->cq);
		CHECK(wc.wr_id == 3 && wc.opcode == IBV_WC_RDMA_READ);
		CHECK(client->memory[4 * PAGE] == (uint8_t)round);
		CHECK(!memcmp(client->memory + 4 * PAGE, client->memory + 8 * PAGE, PAGE));
	}
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(setters_after_fast_reg_say_nothing)
{
	struct setting s = extended(ALL_OPS);

	ibv_wr_start(s.ex);
	begin(&s, 1, IBV_SEND_SIGNALED);
	simhcadv_wr_fast_reg(s.dv, &s.reg);
	ibv_wr_set_sge(s.ex, 1, 2, 3);
	ibv_wr_local_inv(s.ex, s.mr->rkey);
	CHECK(!ibv_wr_complete(s.ex));
	poll_success(s.pair.client.cq);
	poll_success(s.pair.client.cq);
}

TEST(abort_returns_page_lists)
{
	struct setting s = extended(ALL_OPS);

	ibv_wr_start(s.ex);
	begin(&s, 1, 0);
	simhcadv_wr_fast_reg(s.dv, &s.reg);
	CHECK(simhcadv_free_page_list(s.list) == EBUSY);
	ibv_wr_abort(s.ex);
	do_reg(&s.pair.client, &s.reg);
	CHECK(!simhcadv_free_page_list(s.list));
}

/* The first error counts, and nothing of the batch is posted. */
TEST(error_takes_the_batch_back)
{
	struct setting s = extended(ALL_OPS);
	struct simhcadv_fast_reg bad = s.reg;
	struct ibv_wc wc;

	bad.page_list = new_list(&s.pair.client, 1);
	bad.page_list_len = 2;
	ibv_wr_start(s.ex);
	begin(&s, 1, IBV_SEND_SIGNALED);
	simhcadv_wr_fast_reg(s.dv, &s.reg);
	simhcadv_wr_fast_reg(s.dv, &s.reg); /* EBUSY: it is in the batch already */
	simhcadv_wr_fast_reg(s.dv, &bad);
	ibv_wr_local_inv(s.ex, s.mr->rkey);
	CHECK(ibv_wr_complete(s.ex) == EBUSY);
	usleep(20000);
	CHECK(!ibv_poll_cq(s.pair.client.cq, 1, &wc));
	CHECK(!simhcadv_free_page_list(s.list));
	CHECK(!simhcadv_free_page_list(bad.page_list));
}

TEST(flags_of_builders)
{
	struct setting s = extended(ALL_OPS);

	ibv_wr_start(s.ex);
	begin(&s, 1, IBV_SEND_INLINE);
	simhcadv_wr_fast_reg(s.dv, &s.reg);
	CHECK(ibv_wr_complete(s.ex) == EINVAL);
	ibv_wr_start(s.ex);
	begin(&s, 1, IBV_SEND_SOLICITED);
	simhcadv_wr_read_with_inv(s.dv, 1, 2, 3);
	CHECK(ibv_wr_complete(s.ex) == EINVAL);
	do_reg(&s.pair.client, &s.reg);
}

TEST(builders_not_asked_for)
{
	struct setting s = extended(SIMHCADV_QP_EX_WITH_FAST_REG);

	ibv_wr_start(s.ex);
	begin(&s, 1, 0);
	simhcadv_wr_read_with_inv(s.dv, 1, 2, 3);
	CHECK(ibv_wr_complete(s.ex) == EOPNOTSUPP);
	s = extended(SIMHCADV_QP_EX_WITH_READ_WITH_INV);
	ibv_wr_start(s.ex);
	begin(&s, 1, 0);
	simhcadv_wr_fast_reg(s.dv, &s.reg);
	CHECK(ibv_wr_complete(s.ex) == EOPNOTSUPP);
	CHECK(!simhcadv_free_page_list(s.list));
}

/* A QP of ibv_create_qp_ex() has none of them, and says so. */
TEST(builders_of_an_ordinary_qp)
{
	struct end end = new_end();
	struct ibv_qp_init_attr_ex attr = usual_attr(&end, IBV_QPT_RC);
	struct ibv_qp *qp = ibv_create_qp_ex(end.context, &attr);
	struct simhcadv_qp_ex *dv;

	CHECK(qp);
	start_qp(qp, qp->qp_num);
	dv = simhcadv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(qp));
	CHECK(dv);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	simhcadv_wr_read_with_inv(dv, 1, 2, 3);
	CHECK(ibv_wr_complete(ibv_qp_to_qp_ex(qp)) == EOPNOTSUPP);
}

TEST(create_qp_without_ibv_builders)
{
	struct end end = new_end();
	struct ibv_qp_init_attr_ex attr = usual_attr(&end, IBV_QPT_RC);
	struct simhcadv_qp_init_attr dv = {
		.comp_mask = SIMHCADV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = ALL_OPS,
	};
	struct ibv_qp *qp;

	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.send_ops_flags = UINT64_MAX;
	attr.cap.max_send_wr = 9;
	qp = simhcadv_create_qp(end.context, &attr, &dv);
	CHECK(qp && ibv_qp_to_qp_ex(qp));
	CHECK(attr.cap.max_send_wr >= 9 && attr.comp_mask == IBV_QP_INIT_ATTR_PD);
	CHECK(!ibv_destroy_qp(qp));
	qp = simhcadv_create_qp(end.context, &attr, NULL);
	CHECK(qp && !ibv_qp_to_qp_ex(qp));
}

TEST(create_qp_refused)
{
	struct end end = new_end();
	struct ibv_qp_init_attr_ex attr = usual_attr(&end, IBV_QPT_RC);
	struct simhcadv_qp_init_attr dv = { .comp_mask = 1u << 2 };

	errno = 0;
	CHECK(!simhcadv_create_qp(end.context, &attr, &dv) && errno == EOPNOTSUPP);
	dv.comp_mask = SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	dv.create_flags = 1u << 2;
	errno = 0;
	CHECK(!simhcadv_create_qp(end.context, &attr, &dv) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!make_qp_ex(&end, IBV_QPT_RC, 1u << 2) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!make_qp_ex(&end, IBV_QPT_UC, SIMHCADV_QP_EX_WITH_READ_WITH_INV) &&
	      errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!make_qp_ex(&end, IBV_QPT_UD, SIMHCADV_QP_EX_WITH_FAST_REG) && errno == EOPNOTSUPP);
	CHECK(make_qp_ex(&end, IBV_QPT_UC, SIMHCADV_QP_EX_WITH_FAST_REG));
	CHECK(make_qp_ex(&end, IBV_QPT_UD, 0));
	/* The numbers that the device gives these operations are no flags of ibv_create_qp_ex(). */
	for (int bit = 10; bit < 64; bit++) {
		/* IBV_QP_EX_WITH_FLUSH and .._ATOMIC_WRITE, which not every verbs.h names */
		if (bit == 11 || bit == 12)
			continue;
		attr = usual_attr(&end, IBV_QPT_RC);
		attr.send_ops_flags |= UINT64_C(1) << bit;
		errno = 0;
		CHECK(!ibv_create_qp_ex(end.context, &attr) && errno == EOPNOTSUPP);
	}
}

TEST(query_device)
{
	struct end end = new_end();
	struct simhcadv_device_attr attr = { .comp_mask = UINT64_MAX };
	struct ibv_device_attr device;

	CHECK(!simhcadv_query_device(end.context, &attr));
	CHECK(attr.comp_mask == 0);
	CHECK(attr.max_fast_reg_page_list_len >= 512);
	CHECK(attr.page_sizes & PAGE);
	CHECK(!ibv_query_device(end.context, &device));
	CHECK(device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
}

TEST(alloc_mr)
{
	struct end end = new_end();
	struct simhcadv_device_attr attr = {};
	struct ibv_mr *mr;

	CHECK(!simhcadv_query_device(end.context, &attr));
	errno = 0;
	CHECK(!simhcadv_alloc_mr(end.pd, 0) && errno == EINVAL);
	errno = 0;
	CHECK(!simhcadv_alloc_mr(end.pd, attr.max_fast_reg_page_list_len + 1) && errno == EINVAL);
	mr = simhcadv_alloc_mr(end.pd, attr.max_fast_reg_page_list_len);
	CHECK(mr && mr->pd == end.pd && mr->context == end.context && mr->lkey == mr->rkey);
	CHECK(mr->lkey && !mr->addr && !mr->length);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	CHECK(ibv_dealloc_pd(end.pd) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));
}

TEST(update_key)
{
	struct end end = new_end();
	struct ibv_mr *mr = new_region(&end, 1);
	uint32_t index = mr->rkey >> 8, ordinary = end.mr->rkey;

	for (int key = 0; key < 256; key++) {
		CHECK(!simhcadv_update_key(mr, (uint8_t)key));
		CHECK(mr->rkey == (index << 8 | (uint32_t)key) && mr->lkey == mr->rkey);
	}
	CHECK(simhcadv_update_key(end.mr, 7) == EINVAL);
	CHECK(end.mr->rkey == ordinary && end.mr->lkey == ordinary);
}
