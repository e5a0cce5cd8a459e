/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast groups of UD QPs: who gets a copy of what is sent to a group. */
#include "helper.h"

#define GRH 40u
#define SIZE 64u
#define MCAST_QPN 0xffffffu
#define SENDER 0
#define QPS 4 /* one sends, the others receive */

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char buffer[1024];
};

static struct end ends[QPS];
static union ibv_gid group_a, group_b;
static bool ethernet;

static void open_end(struct end *end)
{
	end->context = open_device();
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
	CHECK(end->pd && end->cq);
	end->mr = ibv_reg_mr(end->pd, end->buffer, sizeof(end->buffer), IBV_ACCESS_LOCAL_WRITE);
	CHECK(end->mr);
	end->qp = make_qp(end->pd, end->cq, IBV_QPT_UD);
	start_qp(end->qp, 0);
}

static void close_end(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp));
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(!ibv_destroy_cq(end->cq));
	CHECK(!ibv_dealloc_pd(end->pd));
	CHECK(!ibv_close_device(end->context));
}

/* One datagram to the group; the bits of receivers say which ends get it, each once. */
static void expect(const union ibv_gid *group, uint32_t qkey, unsigned int receivers)
{
	static unsigned char seed;
	struct end *sender = &ends[SENDER];
	struct ibv_ah_attr attr = loopback(sender->context);
	struct ibv_sge sge = { .addr = (uintptr_t)sender->buffer,
			       .length = SIZE,
			       .lkey = sender->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_ah *ah;
	struct ibv_wc wc;

	attr.is_global = 1;
	attr.grh.dgid = *group;
	attr.grh.hop_limit = 1;
	attr.dlid = ethernet ? 0 : 0xc001;
	ah = ibv_create_ah(sender->pd, &attr);
	CHECK(ah);
	seed++;
	memset(sender->buffer, seed, SIZE);
	for (int i = 1; i < QPS; i++) {
		memset(ends[i].buffer, 0, sizeof(ends[i].buffer));
		CHECK(!post_recv(ends[i].qp, 1, ends[i].mr, 0, GRH + SIZE));
		CHECK(!post_recv(ends[i].qp, 2, ends[i].mr, 512, GRH + SIZE));
	}
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = MCAST_QPN;
	wr.wr.ud.remote_qkey = qkey;
	CHECK(!post_send(sender->qp, &wr));
	poll_success(sender->cq);
	for (int i = 1; i < QPS; i++) {
		if (receivers & 1u << i) {
			wc = poll_success(ends[i].cq);
			CHECK(wc.wr_id == 1 && wc.byte_len == GRH + SIZE);
			CHECK(wc.wc_flags & IBV_WC_GRH);
			CHECK(wc.src_qp == sender->qp->qp_num);
			CHECK(wc.qp_num == ends[i].qp->qp_num);
			for (unsigned int byte = 0; byte < SIZE; byte++)
				CHECK(ends[i].buffer[GRH + byte] == (char)seed);
		}
	}
	usleep(5000);
	for (int i = 1; i < QPS; i++) {
		struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

		/* No other copy: what is left is flushed. */
		CHECK(!ibv_modify_qp(ends[i].qp, &err, IBV_QP_STATE));
		for (int left = receivers & 1u << i ? 1 : 2; left; left--)
			CHECK(poll_one(ends[i].cq).status == IBV_WC_WR_FLUSH_ERR);
		err.qp_state = IBV_QPS_RESET;
		CHECK(!ibv_modify_qp(ends[i].qp, &err, IBV_QP_STATE));
		start_qp(ends[i].qp, 0);
	}
	CHECK(!ibv_destroy_ah(ah));
}

static void set_group(union ibv_gid *gid, unsigned char last)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xff;
	gid->raw[1] = 0x12;
	gid->raw[15] = last;
}

static void set_ipv4(union ibv_gid *gid, unsigned char first)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = first;
	gid->raw[15] = 9;
}

int main(void)
{
	static const uint16_t no_lid[] = { 0, 1, 0xbfff, 0xffff };
	union ibv_gid group_v4, not_a_group = { .raw = { 0xfe, 0x80 } };
	struct ibv_qp *rc;

	set_group(&group_a, 1);
	set_group(&group_b, 2);
	for (int i = 0; i < QPS; i++)
		open_end(&ends[i]);
	ethernet = is_ethernet(ends[0].context);

	expect(&group_a, QKEY, 0);
	CHECK(!ibv_attach_mcast(ends[1].qp, &group_a, 0xc001));
	expect(&group_a, QKEY, 1 << 1);
	CHECK(!ibv_attach_mcast(ends[2].qp, &group_a, 0xc001));
	CHECK(!ibv_attach_mcast(ends[2].qp, &group_b, 0xc002));
	CHECK(!ibv_attach_mcast(ends[3].qp, &group_b, 0xc002));
	expect(&group_a, QKEY, 1 << 1 | 1 << 2);
	expect(&group_b, QKEY, 1 << 2 | 1 << 3);
	expect(&group_a, QKEY + 1, 0); /* the Q_Key is looked at here too */

	/* Attached twice is attached once. */
	CHECK(!ibv_attach_mcast(ends[1].qp, &group_a, 0xc001));
	expect(&group_a, QKEY, 1 << 1 | 1 << 2);
	CHECK(!ibv_detach_mcast(ends[1].qp, &group_a, 0xc001));
	expect(&group_a, QKEY, 1 << 2);
	CHECK(ibv_detach_mcast(ends[1].qp, &group_a, 0xc001) == EINVAL);

	/* An IPv4 group, as it is in a GID. */
	set_ipv4(&group_v4, 224);
	CHECK(!ibv_attach_mcast(ends[1].qp, &group_v4, 0xc003));
	expect(&group_v4, QKEY, 1 << 1);
	CHECK(!ibv_detach_mcast(ends[1].qp, &group_v4, 0xc003));
	expect(&group_v4, QKEY, 0);
	set_ipv4(&group_v4, 239);
	CHECK(!ibv_attach_mcast(ends[1].qp, &group_v4, 0xc003));
	CHECK(!ibv_detach_mcast(ends[1].qp, &group_v4, 0xc003));

	/* What is refused. */
	CHECK(ibv_attach_mcast(ends[1].qp, &not_a_group, 0xc001) == EINVAL);
	set_ipv4(&group_v4, 223);
	CHECK(ibv_attach_mcast(ends[1].qp, &group_v4, 0xc003) == EINVAL);
	set_ipv4(&group_v4, 240);
	CHECK(ibv_attach_mcast(ends[1].qp, &group_v4, 0xc003) == EINVAL);
	group_v4.raw[10] = 0;
	group_v4.raw[12] = 224;
	CHECK(ibv_attach_mcast(ends[1].qp, &group_v4, 0xc003) == EINVAL);
	CHECK(ibv_detach_mcast(ends[1].qp, &group_b, 0xc002) == EINVAL);
	/* On Ethernet nobody has an LID; on InfiniBand that of a group is 0xc000 to 0xfffe. */
	for (size_t i = 0; i < sizeof(no_lid) / sizeof(no_lid[0]); i++) {
		CHECK(ibv_attach_mcast(ends[1].qp, &group_a, no_lid[i]) == (ethernet ? 0 : EINVAL));
		CHECK(ibv_detach_mcast(ends[1].qp, &group_a, no_lid[i]) == (ethernet ? 0 : EINVAL));
	}
	rc = make_qp(ends[1].pd, ends[1].cq, IBV_QPT_RC);
	CHECK(ibv_attach_mcast(rc, &group_a, 0xc001) == EINVAL);
	CHECK(!ibv_destroy_qp(rc));

	/* A QP that is in groups stays, and is in them; one whose context goes leaves them. */
	CHECK(ibv_destroy_qp(ends[2].qp) == EBUSY);
	expect(&group_a, QKEY, 1 << 2);
	CHECK(!ibv_detach_mcast(ends[2].qp, &group_a, 0xc001));
	CHECK(ibv_destroy_qp(ends[2].qp) == EBUSY);
	CHECK(!ibv_detach_mcast(ends[2].qp, &group_b, 0xc002));
	close_end(&ends[2]);
	open_end(&ends[2]);
	expect(&group_a, QKEY, 0);
	expect(&group_b, QKEY, 1 << 3);
	CHECK(!ibv_close_device(ends[3].context));
	open_end(&ends[3]);
	expect(&group_b, QKEY, 0);

	for (int i = 0; i < QPS; i++)
		close_end(&ends[i]);
	return 0;
}
