/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Makes the mistake that its argument names, between two QPs of its own. Exits with 0 when that has
 * failed as it does on hardware: by a completion with an error, or by a verb that is refused.
 */
#include <byteswap.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "xrc.h"

#define LENGTH 4096u

static const char *how;

/* Two QPs, and how they are connected; a mistake changes some of it before they are. */
struct world {
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct ibv_mr *from, *to;
	struct ibv_qp_attr of_a, of_b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static bool is(const char *mistake)
{
	return !strcmp(how, mistake);
}

static struct ibv_mr *region(struct ibv_pd *pd, int access)
{
	void *memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(memory != MAP_FAILED);
	mr = ibv_reg_mr(pd, memory, LENGTH, access);
	CHECK(mr);
	return mr;
}

static struct ibv_qp_attr connection(const struct world *world, uint32_t peer)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = FULL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 2,
		.rnr_retry = 2,
		.ah_attr = loopback(world->context),
	};
}

static struct world new_world(enum ibv_qp_type type)
{
	struct world world = { .context = open_device() };

	world.pd = ibv_alloc_pd(world.context);
	world.other_pd = ibv_alloc_pd(world.context);
	world.cq = ibv_create_cq(world.context, 64, NULL, NULL, 0);
	CHECK(world.pd && world.other_pd && world.cq);
	world.a = make_qp(world.pd, world.cq, type);
	world.b = make_qp(world.pd, world.cq, type);
	world.from = region(world.pd, FULL_ACCESS);
	world.to = region(world.pd, FULL_ACCESS);
	world.of_a = connection(&world, world.b->qp_num);
	world.of_b = connection(&world, world.a->qp_num);
	world.sge = (struct ibv_sge){ (uintptr_t)world.from->addr, 64, world.from->lkey };
	world.wr = (struct ibv_send_wr){ .wr_id = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
					 .num_sge = 1 };
	return world;
}

static int to_init(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	attr->qp_state = IBV_QPS_INIT;
	return ibv_modify_qp(qp, attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY
								: IBV_QP_ACCESS_FLAGS));
}

#define RTR_MASK                                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static int to_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	attr->qp_state = IBV_QPS_RTR;
	return ibv_modify_qp(qp, attr, mask);
}

static int to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	attr->qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, attr, mask);
}

static void connect_one(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	CHECK(!to_init(qp, attr));
	CHECK(!to_rtr(qp, attr, RTR_MASK));
	CHECK(!to_rts(qp, attr, RTS_MASK));
}

/* Whether the post, or its completion, has failed. */
static bool fails(struct world *world)
{
	world->wr.sg_list = &world->sge;
	if (post_send(world->a, &world->wr))
		return true;
	return poll_one(world->cq).status != IBV_WC_SUCCESS;
}

/* A region whose key the first device does not have. */
static struct ibv_mr *on_another_device(void *memory)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_mr *mr = NULL;
	struct ibv_pd *pd;

	CHECK(list && list[0] && list[1]);
	context = ibv_open_device(list[1]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	for (int i = 0; i < 4; i++)
		mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS);
	CHECK(mr);
	return mr;
}

/* ------------------------------------------------------------------------- work requests */

/* Of a completion with an error; false: it is none of these. */
static bool make_completion(void)
{
	struct world w = new_world(IBV_QPT_RC);
	struct ibv_mr *mr = w.to;
	uint64_t at;
	uint32_t received = 0, offset = 0;
	bool has_peer = false; /* which is as it is to be */

	w.wr.wr.rdma.rkey = w.to->rkey;
	at = (uintptr_t)w.to->addr;
	if (is("no_receive")) {
		w.wr.opcode = IBV_WR_SEND;
	} else if (is("deregistered_rkey")) {
		CHECK(!ibv_dereg_mr(w.to));
	} else if (is("deregistered_lkey")) {
		CHECK(!ibv_dereg_mr(w.from));
	} else if (is("moved_region")) {
		/* The peer goes on with the address that it was told before. */
		w.wr.wr.rdma.remote_addr = (uintptr_t)w.to->addr;
		CHECK(!ibv_rereg_mr(w.to, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				    region(w.pd, FULL_ACCESS)->addr, LENGTH, 0));
	} else if (is("region_to_another_pd")) {
		CHECK(!ibv_rereg_mr(w.to, IBV_REREG_MR_CHANGE_PD, w.other_pd, NULL, 0, 0));
	} else if (is("right_taken_back")) {
		CHECK(!ibv_rereg_mr(w.to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE));
	} else if (is("lkey_of_another_pd")) {
		w.sge.lkey = ibv_reg_mr(w.other_pd, w.from->addr, LENGTH, FULL_ACCESS)->lkey;
	} else if (is("rkey_of_another_pd")) {
		w.wr.wr.rdma.rkey = ibv_reg_mr(w.other_pd, w.to->addr, LENGTH, FULL_ACCESS)->rkey;
	} else if (is("lkey_of_another_device")) {
		w.sge.lkey = on_another_device(w.from->addr)->lkey;
	} else if (is("rkey_of_another_device")) {
		w.wr.wr.rdma.rkey = on_another_device(w.to->addr)->rkey;
	} else if (is("lkey_of_another_context")) {
		w.sge.lkey =
			ibv_reg_mr(ibv_alloc_pd(open_device()), w.from->addr, LENGTH, FULL_ACCESS)
				->lkey;
	} else if (is("rkey_of_another_context")) {
		w.wr.wr.rdma.rkey =
			ibv_reg_mr(ibv_alloc_pd(open_device()), w.to->addr, LENGTH, FULL_ACCESS)
				->rkey;
	} else if (is("null_mr")) {
		w.wr.wr.rdma.rkey = ibv_alloc_null_mr(w.pd)->rkey;
	} else if (is("no_rkey")) {
		w.wr.wr.rdma.rkey = 0;
	} else if (is("rkey_of_rdma")) {
		w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD; /* below, wr.rdma is set */
	} else if (is("no_lkey")) {
		w.sge.lkey = 0;
	} else if (is("no_remote_write")) {
		w.wr.wr.rdma.rkey =
			ibv_reg_mr(w.pd, w.to->addr, LENGTH, IBV_ACCESS_LOCAL_WRITE)->rkey;
	} else if (is("no_remote_read")) {
		w.wr.opcode = IBV_WR_RDMA_READ;
		w.wr.wr.rdma.rkey = ibv_reg_mr(w.pd, w.to->addr, LENGTH,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
					    ->rkey;
	} else if (is("no_remote_atomic")) {
		w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		CHECK(!ibv_rereg_mr(w.to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    FULL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC));
	} else if (is("qp_without_remote_write")) {
		w.of_b.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
	} else if (is("qp_without_remote_read")) {
		w.wr.opcode = IBV_WR_RDMA_READ;
		w.of_b.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	} else if (is("qp_without_remote_atomic")) {
		w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		w.of_b.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	} else if (is("read_without_local_write")) {
		w.wr.opcode = IBV_WR_RDMA_READ;
		w.sge.lkey = ibv_reg_mr(w.pd, w.from->addr, LENGTH, 0)->lkey;
	} else if (is("receive_without_local_write")) {
		w.wr.opcode = IBV_WR_SEND;
		mr = ibv_reg_mr(w.pd, w.to->addr, LENGTH, 0);
		CHECK(mr);
		received = 64;
	} else if (is("receive_too_short")) {
		w.wr.opcode = IBV_WR_SEND;
		received = 32;
	} else if (is("receive_past_the_region")) {
		w.wr.opcode = IBV_WR_SEND;
		w.sge.length = LENGTH;
		received = LENGTH;
		offset = LENGTH / 2;
	} else if (is("unmapped_receive") || is("deregistered_receive")) {
		w.wr.opcode = IBV_WR_SEND;
		received = 64;
	} else if (is("atomic_unaligned")) {
		w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		at += 4;
	} else if (is("atomic_of_4_bytes")) {
		w.wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	} else if (is("no_max_rd_atomic")) {
		w.wr.opcode = IBV_WR_RDMA_READ;
		w.of_a.max_rd_atomic = 0;
	} else if (is("no_max_dest_rd_atomic")) {
		w.wr.opcode = IBV_WR_RDMA_READ;
		w.of_b.max_dest_rd_atomic = 0;
	} else if (is("other_rq_psn")) {
		w.of_b.rq_psn = 7;
	} else if (is("other_path_mtu")) {
		w.of_b.path_mtu = IBV_MTU_512;
		w.sge.length = LENGTH;
	} else if (is("peer_in_init")) {
		/* It stays there. */
	} else if (is("sge_past_the_region")) {
		w.sge.addr += LENGTH - 32;
	} else if (is("write_past_the_region")) {
		at += LENGTH - 32;
	} else if (is("no_address")) {
		w.sge.addr = 0;
	} else if (is("unregistered_buffer")) {
		static char unregistered[64];

		w.sge.addr = (uintptr_t)unregistered;
	} else if (is("address_of_another_buffer")) {
		w.sge.addr = (uintptr_t)w.to->addr;
	} else if (is("unmapped_buffer")) {
		CHECK(!munmap(w.from->addr, LENGTH));
	} else if (is("receive_of_another_pd")) {
		w.wr.opcode = IBV_WR_SEND;
		mr = ibv_reg_mr(w.other_pd, w.to->addr, LENGTH, FULL_ACCESS);
		CHECK(mr);
		received = 64;
	} else if (is("region_invalidated")) {
		w.wr.opcode = IBV_WR_LOCAL_INV;
		w.wr.num_sge = 0;
		w.wr.invalidate_rkey = w.from->rkey;
	} else if (is("bind_by_itself")) {
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);

		CHECK(mw);
		w.of_a.dest_qp_num = w.a->qp_num;
		w.wr.opcode = IBV_WR_BIND_MW;
		w.wr.bind_mw.mw = mw;
		w.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ w.to, (uintptr_t)w.to->addr, 64,
								    IBV_ACCESS_REMOTE_WRITE };
	} else if (is("bind_past_the_region")) {
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);

		mr = ibv_reg_mr(w.pd, w.to->addr, LENGTH, FULL_ACCESS | IBV_ACCESS_MW_BIND);
		CHECK(mw && mr);
		w.wr.opcode = IBV_WR_BIND_MW;
		w.wr.bind_mw.mw = mw;
		w.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = mr,
			.addr = (uintptr_t)mr->addr,
			.length = 2 * LENGTH,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
		};
	} else if (is("zero_based")) {
		mr = ibv_reg_mr(w.pd, w.to->addr, LENGTH, FULL_ACCESS | IBV_ACCESS_ZERO_BASED);
		CHECK(mr);
		w.wr.wr.rdma.rkey = mr->rkey;
	} else if (is("past_zero_based")) {
		mr = ibv_reg_mr(w.pd, w.to->addr, LENGTH, FULL_ACCESS | IBV_ACCESS_ZERO_BASED);
		CHECK(mr);
		w.wr.wr.rdma.rkey = mr->rkey;
		at = LENGTH - 32;
	} else if (is("lid_reversed")) {
		w.of_a.ah_attr.dlid = bswap_16(w.of_a.ah_attr.dlid);
	} else if (is("no_dlid")) {
		w.of_a.ah_attr.dlid = 0;
	} else if (is("no_such_lid")) {
		w.of_a.ah_attr.dlid += 7;
	} else if (is("dm_by_address")) {
		struct ibv_alloc_dm_attr attr = { .length = LENGTH };
		struct ibv_dm *dm = ibv_alloc_dm(w.context, &attr);

		mr = dm ? ibv_reg_dm_mr(w.pd, dm, 0, LENGTH, FULL_ACCESS | IBV_ACCESS_ZERO_BASED)
			: NULL;
		CHECK(mr && !ibv_dereg_mr(w.to));
		w.wr.wr.rdma.rkey = mr->rkey;
	} else if (is("memory_of_an_iova")) {
		mr = ibv_reg_mr_iova(w.pd, w.from->addr, LENGTH, 0x100000, FULL_ACCESS);
		CHECK(mr);
		w.sge.lkey = mr->lkey;
	} else if (is("odp_not_mapped")) {
		mr = ibv_reg_mr(w.pd, w.to->addr, LENGTH, FULL_ACCESS | IBV_ACCESS_ON_DEMAND);
		CHECK(mr);
		w.wr.wr.rdma.rkey = mr->rkey;
	} else if (is("message_too_long")) {
		w.sge.length = 1u << 31;
	} else if (is("peer_in_err") || is("peer_of_another")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		connect_one(w.b, &w.of_b);
		has_peer = true;
		if (is("peer_in_err"))
			CHECK(!ibv_modify_qp(w.b, &attr, IBV_QP_STATE));
		else
			w.a = make_qp(w.pd, w.cq, IBV_QPT_RC);
	} else if (is("peer_of_another_type")) {
		w.b = make_qp(w.pd, w.cq, IBV_QPT_UD);
		w.of_a.dest_qp_num = w.b->qp_num;
		start_qp(w.b, 0);
		has_peer = true;
	} else if (is("no_such_gid")) {
		w.of_a.ah_attr.grh.dgid.raw[15] ^= 0x55;
	} else if (is("receives_before_reset")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

		w.wr.opcode = IBV_WR_SEND;
		CHECK(!to_init(w.b, &w.of_b) && !post_recv(w.b, 2, w.to, 0, 64) &&
		      !post_recv(w.b, 3, w.to, 0, 64));
		CHECK(!ibv_modify_qp(w.b, &attr, IBV_QP_STATE));
	} else if (is("peer_not_told")) {
		w.of_b.dest_qp_num = 0;
	} else if (is("destroyed_peer")) {
		connect_one(w.a, &w.of_a);
		CHECK(!ibv_destroy_qp(w.b));
	} else if (is("window_not_bound")) {
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);

		CHECK(mw);
		w.wr.wr.rdma.rkey = mw->rkey;
	} else if (is("bind_without_mw_bind")) {
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);

		CHECK(mw);
		w.wr.opcode = IBV_WR_BIND_MW;
		w.wr.bind_mw.mw = mw;
		w.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = w.to,
			.addr = (uintptr_t)w.to->addr,
			.length = 64,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
		};
	} else {
		return false;
	}
	if (w.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    w.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		w.sge.length = is("atomic_of_4_bytes") ? 4 : 8;
		w.wr.wr.atomic.remote_addr = at;
		if (is("rkey_of_rdma"))
			w.wr.wr.rdma.rkey = w.to->rkey;
		else
			w.wr.wr.atomic.rkey = w.to->rkey;
	} else if (w.wr.opcode != IBV_WR_BIND_MW && w.wr.opcode != IBV_WR_LOCAL_INV) {
		w.wr.wr.rdma.remote_addr = at;
	}
	if (is("peer_in_init"))
		CHECK(!to_init(w.b, &w.of_b));
	else if (!is("destroyed_peer") && !has_peer)
		connect_one(w.b, &w.of_b);
	if (!is("destroyed_peer"))
		connect_one(w.a, &w.of_a);
	if (received)
		CHECK(!post_recv(w.b, 2, mr, offset, received));
	if (is("deregistered_receive"))
		CHECK(!ibv_dereg_mr(w.to));
	if (is("unmapped_receive") || is("odp_not_mapped"))
		CHECK(!munmap(mr->addr, LENGTH));
	CHECK(fails(&w));
	return true;
}

/* Of a window that was bound, for 32 bytes; false: it is none of these. */
static bool use_a_window(void)
{
	bool other_qp = is("window_of_another_qp"), twice = is("window_bound_twice");
	struct world w;
	struct ibv_mw *mw;
	uint32_t before;

	if (!other_qp && !twice && !is("old_window_key") && !is("past_the_window") &&
	    !is("freed_window"))
		return false;
	w = new_world(IBV_QPT_RC);
	mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);
	CHECK(mw && !ibv_dereg_mr(w.to));
	w.to = ibv_reg_mr(w.pd, w.from->addr, LENGTH, FULL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(w.to);
	before = mw->rkey;
	connect_one(w.a, &w.of_a);
	connect_one(w.b, &w.of_b);
	for (int i = 0; i < 1 + twice; i++) {
		w.wr.opcode = IBV_WR_BIND_MW;
		w.wr.bind_mw.mw = mw;
		w.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = w.to,
			.addr = (uintptr_t)w.to->addr,
			.length = 32,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
		};
		CHECK(!post_send(other_qp ? w.a : w.b, &w.wr));
		CHECK((poll_one(w.cq).status == IBV_WC_SUCCESS) == !i);
	}
	if (twice)
		return true;
	w.wr.opcode = IBV_WR_RDMA_WRITE;
	w.wr.wr.rdma.remote_addr = (uintptr_t)w.to->addr;
	w.wr.wr.rdma.rkey = is("old_window_key") ? before : mw->rkey;
	w.sge.length = is("past_the_window") ? 64 : 32;
	if (is("freed_window"))
		CHECK(!ibv_dealloc_mw(mw));
	CHECK(fails(&w));
	return true;
}

/* An SRQ of two receives, whose limit of two is below its size once. */
static bool leave_a_limit(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 2, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_sge sge;
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq *srq;
	struct world w;

	if (!is("limit_not_set_again"))
		return false;
	w = new_world(IBV_QPT_RC);
	srq = ibv_create_srq(w.pd, &init);
	CHECK(srq);
	w.b = make_qp_with(w.pd, w.cq, IBV_QPT_RC, srq);
	w.of_a.dest_qp_num = w.b->qp_num;
	connect_one(w.b, &w.of_b);
	connect_one(w.a, &w.of_a);
	sge = (struct ibv_sge){ (uintptr_t)w.to->addr, 64, w.to->lkey };
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_post_srq_recv(srq, &recv, &bad));
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	w.wr.opcode = IBV_WR_SEND;
	w.wr.sg_list = &w.sge;
	for (int i = 0; i < 2; i++) {
		CHECK(!post_send(w.a, &w.wr));
		poll_success(w.cq);
		poll_success(w.cq);
	}
	CHECK(fails(&w));
	return true;
}

static bool make_xrc(void)
{
	struct world w;
	struct ibv_xrcd *xrcd;
	struct ibv_qp_init_attr_ex attr;

	if (!is("no_srq_number"))
		return false;
	w = new_world(IBV_QPT_RC);
	xrcd = open_domain(w.context, -1, O_CREAT);
	CHECK(xrcd);
	attr = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_SEND,
					     .send_cq = w.cq,
					     .cap = { 16, 0, 1, 0, 0 },
					     .comp_mask = IBV_QP_INIT_ATTR_PD,
					     .pd = w.pd };
	w.a = ibv_create_qp_ex(w.context, &attr);
	CHECK(w.a);
	w.b = new_target(w.context, xrcd);
	start_xrc(w.a, w.b->qp_num);
	start_xrc(w.b, w.a->qp_num);
	w.wr.opcode = IBV_WR_SEND;
	CHECK(fails(&w));
	return true;
}

static bool make_datagram(void)
{
	struct world w;
	struct ibv_ah_attr to;

	if (!is("datagram_too_long") && !is("no_ah") && !is("destroyed_ah") &&
	    !is("ah_destroyed_twice"))
		return false;
	w = new_world(IBV_QPT_UD);
	to = loopback(w.context);
	start_qp(w.a, 0);
	if (is("no_ah")) {
		w.wr.opcode = IBV_WR_SEND;
		CHECK(fails(&w));
		return true;
	}
	w.wr.opcode = IBV_WR_SEND;
	w.wr.wr.ud.ah = ibv_create_ah(w.pd, &to);
	w.wr.wr.ud.remote_qpn = w.b->qp_num;
	w.wr.wr.ud.remote_qkey = QKEY;
	if (is("ah_destroyed_twice")) {
		struct ibv_ah *other;

		CHECK(w.wr.wr.ud.ah && !ibv_destroy_ah(w.wr.wr.ud.ah));
		other = ibv_create_ah(w.pd, &to);
		CHECK(other && ibv_destroy_ah(w.wr.wr.ud.ah) == EINVAL && !ibv_destroy_ah(other));
		return true;
	}
	if (is("destroyed_ah")) {
		CHECK(w.wr.wr.ud.ah && !ibv_destroy_ah(w.wr.wr.ud.ah) && fails(&w));
		return true;
	}
	CHECK(w.wr.wr.ud.ah && !ibv_dereg_mr(w.from));
	w.from = ibv_reg_mr(w.pd, malloc(2 * LENGTH), 2 * LENGTH, FULL_ACCESS);
	CHECK(w.from);
	w.sge = (struct ibv_sge){ (uintptr_t)w.from->addr, LENGTH + 1, w.from->lkey };
	CHECK(fails(&w));
	return true;
}

/* ----------------------------------------------------------------------------------- verbs */

/* The GID table has an IPv4 and an IPv6 address; ah_attr has one of these. */
static uint8_t index_of_another_family(const struct world *w)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;
	uint8_t index = 0;
	int differ = memcmp(w->of_a.ah_attr.grh.dgid.raw, mapped, sizeof(mapped));

	do
		CHECK(!ibv_query_gid(w->context, 1, ++index, &gid));
	while (!memcmp(gid.raw, mapped, sizeof(mapped)) == !differ);
	return index;
}

/* Of a QP that does not get to where it should; false: it is none of these. */
static bool make_modify(void)
{
	struct world w = new_world(IBV_QPT_RC);
	struct ibv_qp_attr *attr = &w.of_a;
	int mask = RTR_MASK;

	if (is("port_0"))
		attr->port_num = 0;
	else if (is("pkey_index"))
		attr->pkey_index = 999;
	if (is("port_0") || is("pkey_index")) {
		CHECK(to_init(w.a, attr));
		return true;
	}
	if (is("no_state")) {
		CHECK(ibv_modify_qp(w.a, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL);
		return true;
	}
	if (is("init_skipped")) {
		CHECK(to_rtr(w.a, attr, RTR_MASK));
		return true;
	}
	CHECK(!to_init(w.a, attr));
	if (is("rtr_skipped")) {
		CHECK(to_rts(w.a, attr, RTS_MASK));
		return true;
	}
	if (is("no_av"))
		mask &= ~IBV_QP_AV;
	else if (is("no_min_rnr_timer"))
		mask &= ~IBV_QP_MIN_RNR_TIMER;
	else if (is("timeout_too_early"))
		mask |= IBV_QP_TIMEOUT;
	else if (is("sgid_index"))
		attr->ah_attr.grh.sgid_index = 200;
	else if (is("sgid_of_another_family"))
		attr->ah_attr.grh.sgid_index = index_of_another_family(&w);
	else if (is("no_grh"))
		attr->ah_attr.is_global = 0;
	else if (is("no_dgid"))
		memset(&attr->ah_attr.grh.dgid, 0, sizeof(attr->ah_attr.grh.dgid));
	else if (is("path_mtu"))
		attr->path_mtu = 4096;
	else if (is("ah_attr_port"))
		attr->ah_attr.port_num = 0;
	else if (is("dest_qp_num"))
		attr->dest_qp_num = 1u << 24;
	else if (is("max_dest_rd_atomic"))
		attr->max_dest_rd_atomic = 255;
	else if (!is("retry_cnt") && !is("no_timeout") && !is("max_rd_atomic") &&
		 !is("rts_to_init") && !is("rts_to_rtr"))
		return false;
	if (!is("retry_cnt") && !is("no_timeout") && !is("max_rd_atomic") && !is("rts_to_init") &&
	    !is("rts_to_rtr")) {
		CHECK(to_rtr(w.a, attr, mask));
		return true;
	}
	CHECK(!to_rtr(w.a, attr, mask));
	if (is("rts_to_init") || is("rts_to_rtr")) {
		CHECK(!to_rts(w.a, attr, RTS_MASK));
		CHECK(is("rts_to_init") ? to_init(w.a, attr) : to_rtr(w.a, attr, RTR_MASK));
		return true;
	}
	if (is("retry_cnt"))
		attr->retry_cnt = 8;
	else if (is("max_rd_atomic"))
		attr->max_rd_atomic = 255;
	CHECK(to_rts(w.a, attr, is("no_timeout") ? RTS_MASK & ~IBV_QP_TIMEOUT : RTS_MASK));
	return true;
}

static bool make_creation(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr qp = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 }
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 1 } };
	static char memory[LENGTH];
	struct ibv_ah_attr ah = loopback(context);
	union ibv_gid gid = { .raw = { 0xff, 0x0e, [15] = 1 } };

	CHECK(pd && cq);
	if (is("remote_without_local_write")) {
		CHECK(!ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_REMOTE_WRITE));
	} else if (is("memory_not_mapped")) {
		CHECK(!ibv_reg_mr(pd, (void *)(uintptr_t)0x10000, LENGTH, FULL_ACCESS));
	} else if (is("memory_read_only")) {
		void *text = mmap(NULL, LENGTH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(text != MAP_FAILED && !ibv_reg_mr(pd, text, LENGTH, FULL_ACCESS));
	} else if (is("region_past_its_end")) {
		char *text = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(text != MAP_FAILED && !munmap(text + LENGTH, LENGTH));
		CHECK(!ibv_reg_mr(pd, text, 2 * LENGTH, FULL_ACCESS));
	} else if (is("cqe")) {
		CHECK(!ibv_create_cq(context, 1 << 30, NULL, NULL, 0));
	} else if (is("cqe_negative")) {
		CHECK(!ibv_create_cq(context, -1, NULL, NULL, 0));
	} else if (is("channel_of_another_context")) {
		struct ibv_comp_channel *channel = ibv_create_comp_channel(open_device());

		CHECK(channel && !ibv_create_cq(context, 64, NULL, channel, 0) && errno == EBADF);
	} else if (is("cq_overrun")) {
		struct ibv_qp *made =
			make_qp(pd, ibv_create_cq(context, 4, NULL, NULL, 0), IBV_QPT_RC);
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };
		struct ibv_async_event event;

		start_qp(made, made->qp_num);
		for (int i = 0; i < 8; i++)
			CHECK(!post_send(made, &wr));
		CHECK(!ibv_get_async_event(context, &event) &&
		      event.event_type == IBV_EVENT_CQ_ERR);
	} else if (is("wr_ring")) {
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .next = &wr };

		start_qp(made, made->qp_num);
		CHECK(post_send(made, &wr) == ENOMEM);
	} else if (is("cur_state")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);

		start_qp(made, made->qp_num);
		CHECK(ibv_modify_qp(made, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
	} else if (is("ah_sl")) {
		ah.sl = 16;
		CHECK(!ibv_create_ah(pd, &ah));
	} else if (is("dm_not_zero_based")) {
		struct ibv_alloc_dm_attr attr = { .length = LENGTH };
		struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

		CHECK(dm && !ibv_reg_dm_mr(pd, dm, 0, LENGTH, FULL_ACCESS));
	} else if (is("dm_past_its_end") || is("dm_unaligned")) {
		struct ibv_alloc_dm_attr attr = { .length = 256 };
		struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

		CHECK(dm);
		if (is("dm_unaligned"))
			CHECK(ibv_memcpy_from_dm(memory, dm, 2, 4) == EINVAL);
		else
			CHECK(ibv_memcpy_to_dm(dm, 200, memory, 100) == EFAULT);
	} else if (is("dm_too_large")) {
		struct ibv_alloc_dm_attr attr = { .length = 1ull << 40 };

		CHECK(!ibv_alloc_dm(context, &attr));
	} else if (is("unknown_access")) {
		CHECK(!ibv_reg_mr(pd, memory, LENGTH, 0x40000007) && errno == EINVAL);
	} else if (is("parent_of_nothing")) {
		struct ibv_parent_domain_init_attr attr = { 0 };

		CHECK(!ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	} else if (is("comp_mask") || is("send_ops")) {
		struct ibv_qp_init_attr_ex attr = {
			.qp_type = is("comp_mask") ? IBV_QPT_RC : IBV_QPT_UD,
			.send_cq = cq,
			.recv_cq = cq,
			.cap = qp.cap,
			.comp_mask = IBV_QP_INIT_ATTR_PD |
				     (is("comp_mask") ? 1u << 30 : IBV_QP_INIT_ATTR_SEND_OPS_FLAGS),
			.pd = pd,
			.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
		};

		CHECK(!ibv_create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
	} else if (is("bind_too_early")) {
		struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
		struct ibv_mw_bind bind = { 0 };

		CHECK(mw && ibv_bind_mw(make_qp(pd, cq, IBV_QPT_RC), mw, &bind) == EINVAL);
	} else if (is("prefetch_of_pinned")) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS);
		struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };

		CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	} else if (is("err_to_rts")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);

		start_qp(made, made->qp_num);
		CHECK(!ibv_modify_qp(made, &attr, IBV_QP_STATE));
		attr.qp_state = IBV_QPS_RTS;
		CHECK(ibv_modify_qp(made, &attr, IBV_QP_STATE) == EINVAL);
	} else if (is("cq_too_small")) {
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		start_qp(made, made->qp_num);
		for (int i = 0; i < 8; i++)
			CHECK(!post_send(made, &wr));
		CHECK(ibv_resize_cq(cq, 1) == EINVAL);
	} else if (is("gid_index")) {
		CHECK(ibv_query_gid(context, 1, 200, &gid));
	} else if (is("dmabuf_of_no_file")) {
		CHECK(!ibv_reg_dmabuf_mr(pd, 0, LENGTH, 0, 999, FULL_ACCESS) && errno == EBADF);
	} else if (is("domain_of_no_file")) {
		CHECK(!open_domain(context, 999, O_CREAT) && errno == EBADF);
	} else if (is("comp_vector")) {
		CHECK(!ibv_create_cq(context, 64, NULL, NULL, 1000));
	} else if (is("max_send_wr")) {
		qp.cap.max_send_wr = 1 << 30;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("max_recv_sge")) {
		qp.cap.max_recv_sge = 1000;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("max_inline_data")) {
		qp.cap.max_inline_data = 1 << 20;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("srq_limit")) {
		struct ibv_srq *made = ibv_create_srq(pd, &srq);
		struct ibv_srq_attr attr = { .srq_limit = 100000 };

		CHECK(made && ibv_modify_srq(made, &attr, IBV_SRQ_LIMIT));
	} else if (is("srq_max_wr")) {
		srq.attr.max_wr = 1 << 30;
		CHECK(!ibv_create_srq(pd, &srq));
	} else if (is("ah_without_dgid")) {
		memset(&ah.grh.dgid, 0, sizeof(ah.grh.dgid));
		CHECK(!ibv_create_ah(pd, &ah));
	} else if (is("ah_port")) {
		ah.port_num = 7;
		CHECK(!ibv_create_ah(pd, &ah));
	} else if (is("multicast_on_rc")) {
		CHECK(ibv_attach_mcast(make_qp(pd, cq, IBV_QPT_RC), &gid, 0));
	} else if (is("multicast_of_unicast")) {
		CHECK(ibv_attach_mcast(make_qp(pd, cq, IBV_QPT_UD), &ah.grh.dgid, 0));
	} else if (is("group_left_twice")) {
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_UD);

		CHECK(ibv_detach_mcast(made, &gid, 0));
	} else if (is("no_qp_type")) {
		qp.qp_type = 0;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("no_send_cq")) {
		qp.send_cq = NULL;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("no_recv_cq")) {
		qp.recv_cq = NULL;
		CHECK(!ibv_create_qp(pd, &qp));
	} else if (is("cq_of_another_context")) {
		qp.send_cq = ibv_create_cq(open_device(), 64, NULL, NULL, 0);
		CHECK(qp.send_cq && !ibv_create_qp(pd, &qp) && errno == EINVAL);
	} else if (is("srq_of_another_context")) {
		qp.srq = ibv_create_srq(ibv_alloc_pd(open_device()), &srq);
		CHECK(qp.srq && !ibv_create_qp(pd, &qp) && errno == EINVAL);
	} else if (is("no_such_port")) {
		struct ibv_port_attr port;

		CHECK(ibv_query_port(context, 0, &port) == EINVAL);
	} else if (is("xrc_without_domain")) {
		struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV };

		CHECK(!ibv_create_qp_ex(context, &target) && errno == EINVAL);
	} else if (is("xrc_srq_without_cq")) {
		struct ibv_srq_init_attr_ex of_xrc = {
			.attr = srq.attr,
			.srq_type = IBV_SRQT_XRC,
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
			.pd = pd,
		};

		CHECK(!ibv_create_srq_ex(context, &of_xrc) && errno == EINVAL);
	} else if (is("type_1_by_a_work_request")) {
		struct ibv_mr *mr =
			ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS | IBV_ACCESS_MW_BIND);
		struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_BIND_MW,
			.bind_mw = { mw,
				     0,
				     { mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_WRITE } },
		};

		CHECK(mr && mw);
		start_qp(made, made->qp_num);
		CHECK(post_send(made, &wr) == EINVAL);
	} else if (is("implicit_without_odp")) {
		CHECK(!ibv_reg_mr(pd, NULL, SIZE_MAX, FULL_ACCESS));
	} else if (is("srq_in_use")) {
		struct ibv_srq *made = ibv_create_srq(pd, &srq);

		CHECK(made);
		make_qp_with(pd, cq, IBV_QPT_RC, made);
		CHECK(ibv_destroy_srq(made) == EBUSY);
	} else if (is("pd_with_ah")) {
		struct ibv_pd *other = ibv_alloc_pd(context);

		CHECK(other && ibv_create_ah(other, &ah) && ibv_dealloc_pd(other) == EBUSY);
	} else if (is("mr_with_window")) {
		struct ibv_qp *made = make_qp(pd, cq, IBV_QPT_RC);
		struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
		struct ibv_mr *mr =
			ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS | IBV_ACCESS_MW_BIND);
		struct ibv_mw_bind bind = { .bind_info = { mr, (uintptr_t)memory, 64,
							   IBV_ACCESS_REMOTE_WRITE },
					    .send_flags = IBV_SEND_SIGNALED };

		CHECK(mw && mr);
		start_qp(made, made->qp_num);
		CHECK(!ibv_bind_mw(made, mw, &bind));
		poll_success(cq);
		CHECK(ibv_dereg_mr(mr) == EBUSY);
	} else if (is("ud_without_qkey")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		CHECK(ibv_modify_qp(make_qp(pd, cq, IBV_QPT_UD), &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	how = argc > 1 ? argv[1] : "";
	CHECK(make_completion() || use_a_window() || leave_a_limit() || make_xrc() ||
	      make_datagram() || make_modify() || make_creation());
	_exit(0);
}
