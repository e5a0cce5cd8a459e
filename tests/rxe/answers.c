/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Questions to a device that are wrong, most of them, and what it answers: a line each, "question: answer".
 * test_verbs.py has Linux's rxe and simhca answer them, and compares.
 */
#include <stddef.h>
#include <sys/mman.h>

#include "helper.h"

#define PAGE 4096u
#define NO_KEY 0x777u

static struct ibv_context *context;
static struct ibv_device_attr limits;
static struct ibv_port_attr port;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_mr *mr;
static uint8_t *memory; /* two pages, between pages that are not mapped */

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
static const char *const type_names[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"
};
static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

static const char *error_name(int error)
{
	return !error ? "ok" : error < 0 ? strerrorname_np(errno) : strerrorname_np(error);
}

static const char *made(const void *object)
{
	return object ? "ok" : error_name(errno);
}

static const char *state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return states[attr.qp_state];
}

/* --------------------------------------------------------------------------- states of QPs */

static struct ibv_qp *new_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.qp_type = type,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

/* All that a QP of any type needs, on its way to RTS. */
static struct ibv_qp_attr good_attr(uint32_t peer)
{
	return (struct ibv_qp_attr){
		.cap = { 8, 8, 1, 1, 0 },
		.port_num = 1,
		.alt_port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = FULL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.dest_qp_num = peer,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 2,
		.rnr_retry = 2,
		.ah_attr = loopback(context),
		.alt_ah_attr = loopback(context),
	};
}

static int needs(enum ibv_qp_type type, int from, int to)
{
	const bool rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;

	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return IBV_QP_STATE |
		       (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
		       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					IBV_QP_MAX_QP_RD_ATOMIC
			   : 0);
	return IBV_QP_STATE;
}

/* Before that rxe changes nothing of the QP. */
static void wait_until_drained(struct ibv_qp *qp)
{
	double end = now() + 10;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do {
		CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
		CHECK(now() < end);
	} while (attr.sq_draining);
}

static void move(struct ibv_qp *qp, uint32_t peer, int from, int to)
{
	struct ibv_qp_attr attr = good_attr(peer);

	attr.qp_state = (enum ibv_qp_state)to;
	CHECK(!ibv_modify_qp(qp, &attr, needs(qp->qp_type, from, to)));
	if (to == IBV_QPS_SQD)
		wait_until_drained(qp);
}

static struct ibv_qp *qp_in(enum ibv_qp_type type, int state)
{
	struct ibv_qp *qp = new_qp(type);
	int last = state == IBV_QPS_ERR ? IBV_QPS_INIT : state == IBV_QPS_SQD ? IBV_QPS_RTS : state;

	for (int to = IBV_QPS_INIT; to <= last; to++)
		move(qp, 17, to - 1, to);
	if (last != state)
		move(qp, 17, last, state);
	return qp;
}

/* Every transition with what it needs, with each attribute added, and with each one left out. */
static void transition(enum ibv_qp_type type, int from, int to, int bit)
{
	struct ibv_qp *qp = qp_in(type, from);
	struct ibv_qp_attr attr = good_attr(17);
	int error, mask = needs(type, from, to);

	attr.qp_state = (enum ibv_qp_state)to;
	attr.cur_qp_state = (enum ibv_qp_state)from;
	printf("%s %s to %s", type_names[type], states[from], states[to]);
	if (bit >= 0)
		printf(" %s bit %d", mask & 1 << bit ? "without" : "with", bit);
	error = ibv_modify_qp(qp, &attr, bit < 0 ? mask : mask ^ 1 << bit);
	printf(": %s, %s\n", error_name(error), state_of(qp));
	CHECK(!ibv_destroy_qp(qp));
}

static void transitions(void)
{
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
				for (int bit = -1; bit <= 24 && from != IBV_QPS_SQE; bit++)
					transition(types[t], from, to, bit);
}

enum { RC = 1, CONNECTED = 3, ALL = 7 }; /* types, as bits */

/* A value that is out of range, or just inside; of the limits of the device and port those + 1. */
#define OF(member)                                                                                 \
#member, offsetof(struct ibv_qp_attr, member), sizeof(((struct ibv_qp_attr *)0)->member)
static const struct value {
	int types;
	enum ibv_qp_state to; /* from the state before */
	const char *name;
	size_t offset, size;
	uint64_t value;
} values[] = {
	{ ALL, IBV_QPS_INIT, OF(port_num), 0 },
	{ ALL, IBV_QPS_INIT, OF(port_num), 2 },
	{ ALL, IBV_QPS_INIT, OF(pkey_index), 1 },
	{ ALL, IBV_QPS_INIT, OF(qkey), 0x80010000 },
	{ CONNECTED, IBV_QPS_INIT, OF(qp_access_flags), 1 << 5 },
	{ CONNECTED, IBV_QPS_INIT, OF(qp_access_flags), 1 << 19 },
	{ CONNECTED, IBV_QPS_INIT, OF(qp_access_flags), 1 << 20 },
	{ CONNECTED, IBV_QPS_INIT, OF(qp_access_flags), 1 << 30 },
	{ CONNECTED, IBV_QPS_RTR, OF(path_mtu), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(path_mtu), 5 },
	{ CONNECTED, IBV_QPS_RTR, OF(path_mtu), 6 },
	{ CONNECTED, IBV_QPS_RTR, OF(path_mtu), UINT32_MAX },
	{ CONNECTED, IBV_QPS_RTR, OF(dest_qp_num), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(dest_qp_num), 1 << 24 },
	{ CONNECTED, IBV_QPS_RTR, OF(rq_psn), 1 << 24 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.is_global), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.port_num), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.port_num), 2 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.grh.sgid_index), 7 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.grh.dgid.global), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.grh.hop_limit), 0 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.grh.flow_label), UINT32_MAX },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.dlid), 0xc001 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.sl), 15 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.sl), 16 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.static_rate), 255 },
	{ CONNECTED, IBV_QPS_RTR, OF(ah_attr.src_path_bits), 127 },
	{ RC, IBV_QPS_RTR, OF(max_dest_rd_atomic), 0 },
	{ RC, IBV_QPS_RTR, OF(max_dest_rd_atomic), 255 },
	{ RC, IBV_QPS_RTR, OF(min_rnr_timer), 31 },
	{ RC, IBV_QPS_RTR, OF(min_rnr_timer), 32 },
	{ RC, IBV_QPS_RTS, OF(timeout), 31 },
	{ RC, IBV_QPS_RTS, OF(timeout), 32 },
	{ RC, IBV_QPS_RTS, OF(retry_cnt), 7 },
	{ RC, IBV_QPS_RTS, OF(retry_cnt), 8 },
	{ RC, IBV_QPS_RTS, OF(rnr_retry), 8 },
	{ RC, IBV_QPS_RTS, OF(max_rd_atomic), 0 },
	{ RC, IBV_QPS_RTS, OF(max_rd_atomic), 255 },
	{ ALL, IBV_QPS_RTS, OF(sq_psn), UINT32_MAX },
};

static void bad_values(void)
{
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			const struct value *value = &values[i];
			const enum ibv_qp_state from = value->to - 1;
			struct ibv_qp_attr attr = good_attr(17);
			struct ibv_qp *qp;
			int error;

			if (!(value->types & 1 << t))
				continue;
			qp = qp_in(types[t], from);
			attr.qp_state = value->to;
			memset((char *)&attr + value->offset, 0, value->size);
			memcpy((char *)&attr + value->offset, &value->value,
			       value->size < 8 ? value->size : 8); /* little-endian */
			error = ibv_modify_qp(qp, &attr, needs(types[t], from, value->to));
			printf("%s %s = 0x%lx: %s, %s\n", type_names[types[t]], value->name,
			       value->value, error_name(error), state_of(qp));
			CHECK(!ibv_destroy_qp(qp));
		}
}

static void query_masks(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (int bit = 0; bit < 31; bit++)
		printf("query_qp bit %d: %s\n", bit,
		       error_name(ibv_query_qp(qp, &attr, 1 << bit, &init)));
	CHECK(!ibv_destroy_qp(qp));
}

/* ---------------------------------------------------------------------------------- memory */

static void region(const char *name, void *addr, size_t length, int access)
{
	struct ibv_mr *one = ibv_reg_mr(pd, addr, length, access);

	printf("region %s, access 0x%x: %s\n", name, access, made(one));
	CHECK(!one || !ibv_dereg_mr(one));
}

static void regions(void)
{
	uint8_t *read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = memfd_create("short", 0);
	uint8_t *mapped;

	CHECK(!ftruncate(file, PAGE));
	mapped = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(read_only != MAP_FAILED && mapped != MAP_FAILED);
	for (int bit = 0; bit < 31; bit++)
		region("of two pages", memory, 2 * PAGE, 1 << bit);
	for (int access = 0; access <= FULL_ACCESS; access += FULL_ACCESS) {
		region("of no bytes, at a page", memory, 0, access);
		region("of no bytes, inside", memory + 8, 0, access);
		region("from NULL", NULL, PAGE, access);
		region("before", memory - 1, 2, access);
		region("past", memory, 2 * PAGE + 1, access);
		region("up to the end of all", (void *)-(uintptr_t)PAGE, PAGE, access);
		region("past the end of all", (void *)-(uintptr_t)PAGE, 2 * PAGE, access);
		region("of the kernel", (void *)0xffff800000000000, PAGE, access);
		region("of SIZE_MAX bytes", memory, SIZE_MAX, access);
		region("of read-only memory", read_only, PAGE, access);
		region("of a file", mapped, PAGE, access);
		region("past the end of a file", mapped, PAGE + 1, access);
		region("behind the end of a file", mapped + PAGE, 1, access);
	}
	region("of read-only memory", read_only, PAGE, IBV_ACCESS_REMOTE_READ);
	region("of read-only memory", read_only, PAGE, IBV_ACCESS_MW_BIND);
	for (int type = 0; type < 4; type++) {
		struct ibv_mw *mw = ibv_alloc_mw(pd, (enum ibv_mw_type)type);

		printf("window of type %d: %s\n", type, made(mw));
		CHECK(!mw || !ibv_dealloc_mw(mw));
	}
}

static void windows(void)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	struct ibv_mw *mw[] = { ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_alloc_mw(pd, IBV_MW_TYPE_2) };
	struct ibv_mw_bind bind = { .bind_info = { mr, (uintptr_t)memory, PAGE,
						   IBV_ACCESS_REMOTE_READ } };

	CHECK(mw[0] && mw[1]);
	printf("bind_mw of type 2: %s\n", error_name(ibv_bind_mw(qp, mw[1], &bind)));
	printf("bind_mw in RESET: %s\n", error_name(ibv_bind_mw(qp, mw[0], &bind)));
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		move(qp, qp->qp_num, to - 1, to);
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
	printf("bind_mw zero-based: %s\n", error_name(ibv_bind_mw(qp, mw[0], &bind)));
	bind.bind_info = (struct ibv_mw_bind_info){ .length = PAGE };
	printf("bind_mw without a region: %s\n", error_name(ibv_bind_mw(qp, mw[0], &bind)));
	CHECK(!ibv_dealloc_mw(mw[0]) && !ibv_dealloc_mw(mw[1]) && !ibv_destroy_qp(qp));
}

/* --------------------------------------------------------------------------------- objects */

static void cqs(void)
{
	const int sizes[] = { -1, 0, 1, limits.max_cqe, limits.max_cqe + 1, INT32_MAX };
	const char *const names[] = { "-1", "0", "1", "max_cqe", "max_cqe + 1", "INT32_MAX" };
	struct ibv_qp *user = new_qp(IBV_QPT_RC);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_cq *cq = ibv_create_cq(context, sizes[i], NULL, NULL, 0);

		printf("CQ of %s: %s\n", names[i], made(cq));
		CHECK(!cq || !ibv_destroy_cq(cq));
	}
	for (int i = -1; i <= context->num_comp_vectors; i += context->num_comp_vectors + 1)
		printf("CQ of vector %s: %s\n", i < 0 ? "-1" : "num_comp_vectors",
		       made(ibv_create_cq(context, 4, NULL, NULL, i)));
	printf("CQ resized to 0: %s\n", error_name(ibv_resize_cq(send_cq, 0)));
	printf("CQ resized to max_cqe + 1: %s\n",
	       error_name(ibv_resize_cq(send_cq, limits.max_cqe + 1)));
	printf("CQ in use destroyed: %s\n", error_name(ibv_destroy_cq(send_cq)));
	CHECK(!ibv_destroy_qp(user));
}

static void srqs(void)
{
	static const struct {
		const char *name;
		uint32_t max_wr, max_sge;
	} sizes[] = { { "0 WRs", 0, 1 },
		      { "no SGE", 8, 0 },
		      { "UINT32_MAX WRs", UINT32_MAX, 1 },
		      { "UINT32_MAX SGEs", 1, UINT32_MAX } };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr = { .srq_limit = 50 };

	CHECK(srq);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		init.attr.max_wr = sizes[i].max_wr;
		init.attr.max_sge = sizes[i].max_sge;
		printf("SRQ of %s: %s\n", sizes[i].name, made(ibv_create_srq(pd, &init)));
	}
	printf("SRQ's limit: %s\n", error_name(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)));
	attr.max_wr = 4;
	printf("SRQ below its limit: %s\n", error_name(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR)));
	/* rxe does not survive a resize that failed: nothing more of this one. */
	CHECK(!ibv_destroy_srq(srq));
}

static void qps(void)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
		struct ibv_qp_cap cap;
	} rows[] = {
		{ "nothing", IBV_QPT_RC, { 0 } },
		{ "UINT32_MAX sends", IBV_QPT_RC, { UINT32_MAX, 1, 1, 1, 0 } },
		{ "UINT32_MAX receives", IBV_QPT_RC, { 1, UINT32_MAX, 1, 1, 0 } },
		{ "1000 SGEs to send", IBV_QPT_RC, { 1, 1, 1000, 1, 0 } },
		{ "1000 SGEs to receive", IBV_QPT_RC, { 1, 1, 1, 1000, 0 } },
		{ "64 KiB inline", IBV_QPT_RC, { 1, 1, 1, 1, 65536 } },
		{ "UINT32_MAX inline", IBV_QPT_RC, { 1, 1, 1, 1, UINT32_MAX } },
		{ "a driver's type", IBV_QPT_DRIVER, { 1, 1, 1, 1, 0 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr init = { .send_cq = send_cq,
						 .recv_cq = recv_cq,
						 .qp_type = rows[i].type,
						 .cap = rows[i].cap };
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		printf("QP of %s: %s\n", rows[i].name, made(qp));
		CHECK(!qp || !ibv_destroy_qp(qp));
	}
}

static void multicast(void)
{
	struct ibv_qp *ud = new_qp(IBV_QPT_UD), *rc = new_qp(IBV_QPT_RC);
	union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 99 } },
		      host = loopback(context).grh.dgid;

	printf("multicast of a host: %s\n", error_name(ibv_attach_mcast(ud, &host, 0)));
	printf("multicast of an RC QP: %s\n", error_name(ibv_attach_mcast(rc, &group, 0)));
	printf("multicast detached before: %s\n", error_name(ibv_detach_mcast(ud, &group, 0)));
	printf("multicast: %s\n", error_name(ibv_attach_mcast(ud, &group, 0)));
	printf("multicast again: %s\n", error_name(ibv_attach_mcast(ud, &group, 0)));
	printf("multicast of a QP that is destroyed: %s\n", error_name(ibv_destroy_qp(ud)));
	printf("multicast of another lid: %s\n", error_name(ibv_detach_mcast(ud, &group, 1)));
	printf("multicast detached: %s\n", error_name(ibv_detach_mcast(ud, &group, 0)));
	CHECK(!ibv_destroy_qp(ud) && !ibv_destroy_qp(rc));
}

/* -------------------------------------------------------------------------------- requests */

static const char *next_status(struct ibv_cq *cq, double seconds)
{
	double end = now() + seconds;
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return ibv_wc_status_str(wc.status);
		usleep(200);
	} while (now() < end);
	return "nothing";
}

static const char *const opcodes[] = { [IBV_WR_SEND] = "SEND",
				       [IBV_WR_RDMA_WRITE] = "WRITE",
				       [IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
				       [IBV_WR_RDMA_READ] = "READ",
				       [IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD" };

struct request {
	enum ibv_wr_opcode opcode;
	struct ibv_sge local;
	uint64_t remote;
	uint32_t rkey;
	int receive; /* bytes; -1: there is none */
	int access;  /* of the peer */
};

/* Posted on a pair of QPs of its own. */
static void ask(const char *name, const struct request *request)
{
	struct ibv_qp *a = new_qp(IBV_QPT_RC), *b = new_qp(IBV_QPT_RC);
	struct ibv_sge sge = request->local;
	struct ibv_send_wr wr = { .opcode = request->opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_qp_attr access = { .qp_access_flags = (unsigned int)request->access };
	const char *sent = "", *received;
	int error;

	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		move(a, b->qp_num, to - 1, to);
		move(b, a->qp_num, to - 1, to);
	}
	CHECK(!ibv_modify_qp(b, &access, IBV_QP_ACCESS_FLAGS));
	if (request->receive >= 0)
		CHECK(!post_recv(b, 0, mr, PAGE, (uint32_t)request->receive));
	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = request->remote;
		wr.wr.atomic.rkey = request->rkey;
	} else {
		wr.wr.rdma.remote_addr = request->remote;
		wr.wr.rdma.rkey = request->rkey;
	}
	error = post_send(a, &wr);
	if (!error)
		sent = next_status(send_cq, 5);
	received = next_status(recv_cq, 0.05);
	printf("%s %s: %s, %s, %s, %s, %s\n", opcodes[request->opcode], name, error_name(error),
	       sent, received, state_of(a), state_of(b));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	while (strcmp(next_status(send_cq, 0), "nothing") ||
	       strcmp(next_status(recv_cq, 0), "nothing"))
		;
}

static void requests(enum ibv_wr_opcode opcode)
{
	struct ibv_mr *foreign = ibv_reg_mr(other_pd, memory, PAGE, FULL_ACCESS);
	struct ibv_mr *closed = ibv_reg_mr(pd, memory, PAGE, 0);
	const struct request good = { .opcode = opcode,
				      .local = { (uintptr_t)memory, 8, mr->lkey },
				      .remote = (uintptr_t)memory + 64,
				      .rkey = mr->rkey,
				      .receive = 64,
				      .access = FULL_ACCESS };
	struct request bad;

	CHECK(foreign && closed);
#define ASK(name, member, value)                                                                   \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.member = (value);                                                              \
		ask(name, &bad);                                                                   \
	} while (0)
	ask("as it should be", &good);
	ASK("of no lkey", local.lkey, NO_KEY);
	ASK("of an lkey of another PD", local.lkey, foreign->lkey);
	ASK("of a read-only lkey", local.lkey, closed->lkey);
	ASK("from before the region", local.addr, (uintptr_t)memory - 1);
	ASK("from past the region", local.addr, (uintptr_t)memory + 2 * PAGE - 7);
	ASK("of 4 GiB - 1", local.length, UINT32_MAX);
	ASK("of 7 bytes", local.length, 7);
	ASK("of 0 bytes", local.length, 0);
	ASK("without a receive", receive, -1);
	ASK("with a receive of 7 bytes", receive, 7);
	if (opcode == IBV_WR_SEND)
		goto out;
	ASK("to no rkey", rkey, NO_KEY);
	ASK("to an rkey of another PD", rkey, foreign->rkey);
	ASK("to a region without rights", rkey, closed->rkey);
	ASK("to before the region", remote, (uintptr_t)memory - 8);
	ASK("to past the region", remote, (uintptr_t)memory + 2 * PAGE);
	ASK("to the end of all", remote, UINT64_MAX - 7);
	ASK("to an odd address", remote, (uintptr_t)memory + 4);
	ASK("to a QP that only reads", access, IBV_ACCESS_REMOTE_READ);
	ASK("to a QP that only writes", access, IBV_ACCESS_REMOTE_WRITE);
	ASK("to a QP that has atomics", access, IBV_ACCESS_REMOTE_ATOMIC);
#undef ASK
out:
	CHECK(!ibv_dereg_mr(foreign) && !ibv_dereg_mr(closed));
}

static void posts(enum ibv_qp_type type)
{
	struct ibv_ah_attr address = loopback(context);
	struct ibv_ah *ah = ibv_create_ah(pd, &address);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud = { ah, 17, QKEY } };

	CHECK(ah);
	for (int state = IBV_QPS_RESET; state <= IBV_QPS_ERR; state++) {
		struct ibv_qp *qp;

		if (state == IBV_QPS_SQE)
			continue;
		qp = qp_in(type, state);
		printf("%s post_recv in %s: %s\n", type_names[type], states[state],
		       error_name(post_recv(qp, 0, mr, 0, 8)));
		if (state < IBV_QPS_RTS)
			printf("%s post_send in %s: %s\n", type_names[type], states[state],
			       error_name(post_send(qp, &wr)));
		CHECK(!ibv_destroy_qp(qp));
	}
	CHECK(!ibv_destroy_ah(ah));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_device();
	CHECK(!ibv_query_device(context, &limits) && !ibv_query_port(context, 1, &port));
	pd = ibv_alloc_pd(context);
	other_pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	memory = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pd && other_pd && send_cq && recv_cq && memory != MAP_FAILED);
	memory += PAGE;
	CHECK(!mprotect(memory, 2 * PAGE, PROT_READ | PROT_WRITE));
	mr = ibv_reg_mr(pd, memory, 2 * PAGE, FULL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	transitions();
	bad_values();
	query_masks();
	regions();
	windows();
	cqs();
	srqs();
	qps();
	multicast();
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		posts(types[t]);
	requests(IBV_WR_SEND);
	requests(IBV_WR_RDMA_WRITE);
	requests(IBV_WR_RDMA_WRITE_WITH_IMM);
	requests(IBV_WR_RDMA_READ);
	requests(IBV_WR_ATOMIC_FETCH_AND_ADD);
	puts("end: ok");
	return 0;
}
