/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows, as far as pyverbs cannot say it: no region, lists of work requests. */
#include "dv.h"

struct setting {
	struct pair pair;
	struct ibv_mr *mr; /* of the server; can be bound to */
};

static struct setting bindable(void)
{
	struct setting s = { .pair = new_pair() };

	s.mr = ibv_reg_mr(s.pair.server.pd, s.pair.server.memory, s.pair.server.length,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(s.mr);
	return s;
}

static struct ibv_mw *new_window(const struct setting *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->pair.server.pd, type);

	CHECK(mw && mw->type == type && mw->pd == s->pair.server.pd);
	CHECK(mw->context == s->pair.server.context && mw->rkey);
	return mw;
}

static struct ibv_mw_bind_info all_of(struct ibv_mr *mr)
{
	struct ibv_mw_bind_info info = {
		.mr = mr,
		.addr = (uintptr_t)mr->addr,
		.length = mr->length,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};

	return info;
}

/* Unbinding needs no region. */
TEST(unbind_without_a_region)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .wr_id = 3,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = all_of(s.mr) };
	struct ibv_wc wc;

	CHECK(!ibv_bind_mw(s.pair.server.qp, mw, &bind));
	wc = poll_success(s.pair.server.cq);
	CHECK(wc.wr_id == 3 && wc.opcode == IBV_WC_BIND_MW);
	CHECK(ibv_dereg_mr(s.mr) == EBUSY);
	memset(&bind.bind_info, 0, sizeof(bind.bind_info));
	CHECK(!ibv_bind_mw(s.pair.server.qp, mw, &bind));
	poll_success(s.pair.server.cq);
	CHECK(!ibv_dereg_mr(s.mr));
	CHECK(!ibv_dealloc_mw(mw));
}

TEST(type_2_needs_a_region)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey) } };

	CHECK(post_send(s.pair.server.qp, &wr) == EINVAL);
}

/*
 * The low 8 bits of a type 2 window's key are the consumer's, the index is the window's. As with
 * type 1, mw->rkey is the key when the post returns, whatever comes of it; and if it is refused
 * nothing has changed.
 */
TEST(key_of_a_type_2_window)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_2);
	uint32_t index = mw->rkey & ~0xffu, before = mw->rkey;
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	const uint32_t given[] = { 0x12, 0xffffff34, before };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ~before;
	wr.bind_mw.bind_info = all_of(s.mr);
	wr.send_flags |= IBV_SEND_INLINE;
	CHECK(post_send(s.pair.server.qp, &wr) == EINVAL && mw->rkey == before);
	wr.send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		struct ibv_send_wr inv = { .opcode = IBV_WR_LOCAL_INV };

		wr.bind_mw.rkey = given[i];
		CHECK(!post_send(s.pair.server.qp, &wr));
		CHECK(mw->rkey == (index | (given[i] & 0xff)));
		poll_success(s.pair.server.cq);
		do_rdma(&s.pair.client, IBV_WR_RDMA_READ, (uintptr_t)s.mr->addr, mw->rkey, PAGE);
		inv.invalidate_rkey = mw->rkey;
		inv.send_flags = IBV_SEND_SIGNALED;
		CHECK(!post_send(s.pair.server.qp, &inv));
		poll_success(s.pair.server.cq);
	}
}

/* Those before the bad one are posted, and bad_wr says which it is. */
TEST(bad_one_in_a_list)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_2), *other = new_window(&s, IBV_MW_TYPE_1);
	struct ibv_send_wr inv = { .wr_id = 3, .opcode = IBV_WR_LOCAL_INV };
	struct ibv_send_wr wrong = { .wr_id = 2, .next = &inv, .opcode = IBV_WR_BIND_MW };
	struct ibv_send_wr right = { .wr_id = 1,
				     .next = &wrong,
				     .opcode = IBV_WR_BIND_MW,
				     .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc;

	right.bind_mw.mw = mw;
	right.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	right.bind_mw.bind_info = all_of(s.mr);
	wrong.bind_mw = right.bind_mw;
	wrong.bind_mw.mw = other;
	inv.invalidate_rkey = right.bind_mw.rkey;
	CHECK(ibv_post_send(s.pair.server.qp, &right, &bad) == EINVAL && bad == &wrong);
	CHECK(poll_success(s.pair.server.cq).wr_id == 1);
	do_rdma(&s.pair.client, IBV_WR_RDMA_READ, (uintptr_t)s.mr->addr, right.bind_mw.rkey, PAGE);
	usleep(20000);
	CHECK(!ibv_poll_cq(s.pair.server.cq, 1, &wc));
}

/* Bind, tell the peer, and invalidate in one post: the read that is told of it comes too late. */
TEST(bind_and_invalidate_in_one_list)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_2);
	struct ibv_send_wr inv = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr bind = { .next = &inv, .opcode = IBV_WR_BIND_MW };

	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = all_of(s.mr);
	inv.invalidate_rkey = bind.bind_mw.rkey;
	for (int i = 0; i < 100; i++) {
		CHECK(!post_send(s.pair.server.qp, &bind));
		CHECK(poll_success(s.pair.server.cq).opcode == IBV_WC_LOCAL_INV);
	}
	fail_rdma(&s.pair.client, IBV_WR_RDMA_READ, (uintptr_t)s.mr->addr, bind.bind_mw.rkey, 8,
		  SIMHCA_REASON_MW_NOT_BOUND);
}

TEST(dereg_says_busy_by_errno)
{
	struct setting s = bindable();
	struct ibv_mw *mw = new_window(&s, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = all_of(s.mr) };

	CHECK(!ibv_bind_mw(s.pair.server.qp, mw, &bind));
	poll_success(s.pair.server.cq);
	for (int i = 0; i < 3; i++) {
		errno = 0;
		CHECK(ibv_dereg_mr(s.mr) == EBUSY && errno == EBUSY);
		do_rdma(&s.pair.client, IBV_WR_RDMA_READ, (uintptr_t)s.mr->addr, mw->rkey, PAGE);
		CHECK(!memcmp(s.pair.client.memory, s.pair.server.memory, PAGE));
	}
	CHECK(ibv_dealloc_pd(s.pair.server.pd) == EBUSY);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(s.mr));
}
