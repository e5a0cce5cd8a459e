/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the device says of on-demand paging, and that it is so: odp_caps TRANSPORT does, by QPs of
 * that transport and on memory that nothing has touched yet, each operation that it claims, and it
 * claims no other. HAVE_FLUSH says that verbs.h has ibv_wr_flush().
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "xrc.h"

#define PAGE 4096u
#define GRH_BYTES 40u
#define VALUE 0x123456789abcdefull

/* As the kernel numbers them; older headers do not have all. */
enum {
	CAP_SEND = 1 << 0,
	CAP_RECV = 1 << 1,
	CAP_WRITE = 1 << 2,
	CAP_READ = 1 << 3,
	CAP_ATOMIC = 1 << 4,
	CAP_SRQ_RECV = 1 << 5,
	CAP_FLUSH = 1 << 6,
	CAP_ATOMIC_WRITE = 1 << 7,
};
#define CAP_NUMBER 8

#ifdef HAVE_FLUSH
#define ACCESS (FULL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)
#else
#define ACCESS FULL_ACCESS
#endif

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;

/* A QP that sends to itself, or to an XRC target; what comes goes to its receive queue or an SRQ.
 */
struct way {
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
};

/* A page that has not been touched, and a region of it. */
static struct ibv_mr *untouched(int access)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(page != MAP_FAILED);
	mr = ibv_reg_mr(pd, page, PAGE, access | IBV_ACCESS_ON_DEMAND);
	CHECK(mr);
	return mr;
}

static uint64_t *words(const struct ibv_mr *mr)
{
	return mr->addr;
}

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_srq *srq, uint64_t send_ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = type,
		.cap = { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = send_ops,
	};

	if (type == IBV_QPT_XRC_SEND) {
		attr.srq = NULL;
		attr.recv_cq = NULL;
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	}
	return ibv_create_qp_ex(context, &attr);
}

static void grant(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_access_flags = ACCESS };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS));
}

/* False if there are no such QPs with this operation, or no such receives. */
static bool make_way(struct way *way, enum ibv_qp_type type, bool by_srq, uint64_t send_op)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	*way = (struct way){ .srq = NULL };
	if (type == IBV_QPT_XRC_SEND)
		way->srq = new_srq(pd, xrcd, cq, 4);
	else if (by_srq)
		CHECK(way->srq = ibv_create_srq(pd, &attr));
	way->qp = create(type, way->srq, send_op);
	if (!way->qp)
		return false;
	if (type == IBV_QPT_XRC_SEND) {
		struct ibv_qp *target = new_target(context, xrcd);

		start_xrc(target, way->qp->qp_num);
		start_xrc(way->qp, target->qp_num);
		grant(target);
		return true;
	}
	start_qp(way->qp, way->qp->qp_num);
	if (type == IBV_QPT_UD) {
		struct ibv_ah_attr address = loopback(context);

		way->ah = ibv_create_ah(pd, &address);
		CHECK(way->ah);
	} else {
		grant(way->qp);
	}
	return true;
}

static void receive(struct way *way, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = PAGE, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!(way->srq ? ibv_post_srq_recv(way->srq, &wr, &bad)
			 : ibv_post_recv(way->qp, &wr, &bad)));
}

/* What ibv_wr_start() to ibv_wr_complete() say of one operation from or into `near`. */
static void post(struct way *way, uint32_t cap, const struct ibv_mr *near, const struct ibv_mr *far)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(way->qp);
	const uint64_t to = (uintptr_t)far->addr, value = VALUE;

	ibv_wr_start(qp);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (cap == CAP_WRITE)
		ibv_wr_rdma_write(qp, far->rkey, to);
	else if (cap == CAP_READ)
		ibv_wr_rdma_read(qp, far->rkey, to);
	else if (cap == CAP_ATOMIC)
		ibv_wr_atomic_fetch_add(qp, far->rkey, to, VALUE);
	else if (cap == CAP_ATOMIC_WRITE)
		ibv_wr_atomic_write(qp, far->rkey, to, &value);
#ifdef HAVE_FLUSH
	else if (cap == CAP_FLUSH)
		ibv_wr_flush(qp, far->rkey, to, PAGE, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
#endif
	else
		ibv_wr_send(qp);
	if (way->qp->qp_type == IBV_QPT_XRC_SEND) {
		uint32_t number;

		CHECK(!ibv_get_srq_num(way->srq, &number));
		ibv_wr_set_xrc_srqn(qp, number);
	}
	if (way->ah)
		ibv_wr_set_ud_addr(qp, way->ah, way->qp->qp_num, QKEY);
	if (cap != CAP_ATOMIC_WRITE && cap != CAP_FLUSH)
		ibv_wr_set_sge(qp, near->lkey, (uintptr_t)near->addr, sizeof(uint64_t));
	CHECK(!ibv_wr_complete(qp));
}

static const uint64_t send_ops[CAP_NUMBER] = {
	IBV_QP_EX_WITH_SEND,
	IBV_QP_EX_WITH_SEND,
	IBV_QP_EX_WITH_RDMA_WRITE,
	IBV_QP_EX_WITH_RDMA_READ,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	IBV_QP_EX_WITH_SEND,
#ifdef HAVE_FLUSH
	IBV_QP_EX_WITH_FLUSH,
#else
	0,
#endif
	IBV_QP_EX_WITH_ATOMIC_WRITE,
};

/* One capability, by memory that is paged in for it at both ends; false if there is no such QP. */
static bool try(enum ibv_qp_type type, unsigned int number)
{
	const uint32_t cap = 1u << number;
	const bool receives = send_ops[number] == IBV_QP_EX_WITH_SEND;
	struct ibv_mr *near = untouched(ACCESS), *far = untouched(ACCESS);
	struct way way;

	if (!make_way(&way, type, cap == CAP_SRQ_RECV, send_ops[number]))
		return false;
	*words(cap == CAP_READ ? far : near) = VALUE;
	if (receives)
		receive(&way, far);
	post(&way, cap, near, far);
	poll_success(cq);
	if (receives)
		poll_success(cq);
	if (cap == CAP_ATOMIC)
		CHECK(*words(near) == 0);
	if (cap == CAP_READ)
		CHECK(*words(near) == VALUE);
	else if (cap != CAP_FLUSH)
		CHECK(words(far)[type == IBV_QPT_UD ? GRH_BYTES / sizeof(uint64_t) : 0] == VALUE);
	return true;
}

int main(int argc, char *argv[])
{
	struct ibv_device_attr_ex attr;
	const struct {
		const char *name;
		enum ibv_qp_type type;
		const uint32_t *caps;
	} transports[] = {
		{ "RC", IBV_QPT_RC, &attr.odp_caps.per_transport_caps.rc_odp_caps },
		{ "UC", IBV_QPT_UC, &attr.odp_caps.per_transport_caps.uc_odp_caps },
		{ "UD", IBV_QPT_UD, &attr.odp_caps.per_transport_caps.ud_odp_caps },
		{ "XRC", IBV_QPT_XRC_SEND, &attr.xrc_odp_caps },
	};

	CHECK(argc == 2);
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	xrcd = open_domain(context, -1, O_CREAT);
	CHECK(pd && cq && xrcd);
	CHECK(!ibv_query_device_ex(context, NULL, &attr));
	CHECK(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		const uint32_t caps = *transports[i].caps;

		if (strcmp(transports[i].name, argv[1]))
			continue;
		CHECK(!(caps >> CAP_NUMBER));
		for (unsigned int number = 0; number < CAP_NUMBER; number++) {
			if (!send_ops[number]) /* this library cannot ask for it */
				continue;
			fprintf(stderr, "%s: capability %u\n", argv[1], number);
			CHECK(try(transports[i].type, number) == !!(caps & 1u << number));
		}
		return 0;
	}
	CHECK(!"a transport of the table");
}
