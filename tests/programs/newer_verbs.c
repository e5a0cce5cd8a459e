/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Verbs that came with rdma-core 45 and later. The argument says which; HAVE_x says that verbs.h
 * has them.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include "helper.h"

#define FAILS(error, call)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(!(call));                                                                    \
		CHECK(errno == (error));                                                           \
	} while (0)

#define BYTES 4096

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char memory[4 * BYTES] __attribute__((aligned(BYTES)));

/* 0 is no limit; the device has none to offer, and says so. On Ethernet, where there are raw packets. */
static void rate_limit(void)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 0 };
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .rate_limit = 5000 };
	struct ibv_device_attr_ex device;

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(!device.packet_pacing_caps.qp_rate_limit_max);
	start_qp(qp, qp->qp_num);
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL); /* it is for raw packets alone */
	if (!is_ethernet(context))
		return;
	qp = make_qp(pd, cq, IBV_QPT_RAW_PACKET);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT) == EOPNOTSUPP);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == 0);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_RATE_LIMIT) == EOPNOTSUPP);
	limit.rate_limit = 5000;
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EOPNOTSUPP);
	limit = (struct ibv_qp_rate_limit_attr){ .max_burst_sz = 1 };
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL);
	limit = (struct ibv_qp_rate_limit_attr){ .typical_pkt_sz = 1 };
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL);
	limit = (struct ibv_qp_rate_limit_attr){ .comp_mask = 1 };
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL);
}

#ifdef HAVE_FLUSH
static struct ibv_qp *flush_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	struct ibv_qp_attr access = { .qp_access_flags = FULL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL |
							 IBV_ACCESS_FLUSH_PERSISTENT };

	CHECK(qp);
	start_qp(qp, qp->qp_num);
	CHECK(!ibv_modify_qp(qp, &access, IBV_QP_ACCESS_FLAGS));
	return qp;
}

static struct ibv_wc flush(struct ibv_qp *qp, struct ibv_mr *mr, size_t length, uint8_t type,
			   uint8_t level)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(ex, mr->rkey, (uintptr_t)memory, length, type, level);
	CHECK(!ibv_wr_complete(ex));
	return poll_one(cq);
}

/* Both placements, both selectivities; what is not granted; and no way by ibv_post_send(). */
static void flushes(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_FLUSH }, *bad;
	struct ibv_qp *qp = flush_qp();
	struct ibv_mr *mr =
		ibv_reg_mr(pd, memory, sizeof(memory),
			   FULL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);
	struct ibv_device_attr_ex device;
	struct ibv_wc wc;

	CHECK(mr);
	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(device.device_cap_flags_ex & 1ull << 38 && device.device_cap_flags_ex & 1ull << 39);
	for (uint8_t type = 1; type <= 3; type++) {
		for (uint8_t level = 0; level < 2; level++) {
			wc = flush(qp, mr, BYTES, type, level);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FLUSH);
			CHECK(wc.wr_id == 7);
		}
	}
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(flush(qp, mr, sizeof(memory) + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR).status ==
	      IBV_WC_SUCCESS);
	CHECK(flush(qp, mr, sizeof(memory) + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE).status ==
	      IBV_WC_REM_ACCESS_ERR);

	CHECK(!ibv_dereg_mr(mr));
	mr = ibv_reg_mr(pd, memory, sizeof(memory), FULL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL);
	CHECK(mr);
	qp = flush_qp();
	CHECK(flush(qp, mr, BYTES, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE).status ==
	      IBV_WC_REM_ACCESS_ERR);
}
#endif

#ifdef HAVE_DMAH
static struct ibv_dmah_init_attr hint(void)
{
	return (struct ibv_dmah_init_attr){
		.comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_PH |
			     IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
		.cpu_id = (uint32_t)sched_getcpu(),
		.ph = 3,
		.tph_mem_type = IBV_TPH_MEM_TYPE_PM,
	};
}

static struct ibv_mr_init_attr of_memory(struct ibv_dmah *dmah)
{
	return (struct ibv_mr_init_attr){
		.length = BYTES,
		.access = FULL_ACCESS,
		.comp_mask = IBV_REG_MR_MASK_ADDR | (dmah ? IBV_REG_MR_MASK_DMAH : 0),
		.addr = memory,
		.dmah = dmah,
	};
}

/* What mlx5 and the kernel check of a handle is checked; it stays while regions have it. */
static void dma_handles(void)
{
	struct ibv_dmah_init_attr attr = hint();
	struct ibv_mr_init_attr mr_attr;
	struct ibv_dmah *dmah, *foreign;
	struct ibv_mr *mr, *other;
	cpu_set_t mine;

	CHECK(!sched_getaffinity(0, sizeof(mine), &mine));
	attr.ph = 4;
	FAILS(EINVAL, ibv_alloc_dmah(context, &attr));
	attr = hint();
	attr.tph_mem_type = 2;
	FAILS(EINVAL, ibv_alloc_dmah(context, &attr));
	attr = hint();
	attr.comp_mask = 0;
	FAILS(EINVAL, ibv_alloc_dmah(context, &attr));
	attr.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH | IBV_DMAH_INIT_ATTR_MASK_CPU_ID;
	FAILS(EINVAL, ibv_alloc_dmah(context, &attr));
	attr.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH | 1u << 3;
	FAILS(EOPNOTSUPP, ibv_alloc_dmah(context, &attr));
	attr = hint();
	attr.cpu_id = 0xffff;
	FAILS(EPERM, ibv_alloc_dmah(context, &attr));
	attr.cpu_id = UINT32_MAX;
	FAILS(EPERM, ibv_alloc_dmah(context, &attr));
	attr.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH; /* and no CPU */
	dmah = ibv_alloc_dmah(context, &attr);
	CHECK(dmah && !ibv_dealloc_dmah(dmah));

	attr = hint();
	attr.cpu_id = 0;
	while (!CPU_ISSET(attr.cpu_id, &mine))
		attr.cpu_id++;
	dmah = ibv_alloc_dmah(context, &attr);
	CHECK(dmah);
	mr_attr = of_memory(dmah);
	mr = ibv_reg_mr_ex(pd, &mr_attr);
	other = ibv_reg_mr_ex(pd, &mr_attr);
	CHECK(mr && other && mr->addr == memory && mr->length == BYTES && mr->lkey != other->lkey);
	CHECK(ibv_dealloc_dmah(dmah) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(ibv_dealloc_dmah(dmah) == EBUSY);
	CHECK(!ibv_dereg_mr(other));
	mr_attr.access |= IBV_ACCESS_ON_DEMAND;
	FAILS(EOPNOTSUPP, ibv_reg_mr_ex(pd, &mr_attr));
	mr_attr.access =
		IBV_ACCESS_REMOTE_WRITE; /* without LOCAL_WRITE: a refusal leaves it unused */
	FAILS(EINVAL, ibv_reg_mr_ex(pd, &mr_attr));
	foreign = ibv_alloc_dmah(open_device(), &attr);
	CHECK(foreign);
	mr_attr = of_memory(foreign);
	FAILS(EINVAL, ibv_reg_mr_ex(pd, &mr_attr));
	CHECK(!ibv_dealloc_dmah(foreign));
	CHECK(!ibv_dealloc_dmah(dmah));
}

/* Memory by its address or by a name of its own; a file; and what is neither or both. */
static void registration(void)
{
	struct ibv_mr_init_attr attr = of_memory(NULL), file;
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_mr *mr, *named, *of_file;
	int fd = memfd_create("region", MFD_CLOEXEC);
	char *shared;

	CHECK(fd >= 0 && !ftruncate(fd, 2 * BYTES));
	shared = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	start_qp(qp, qp->qp_num);
	mr = ibv_reg_mr_ex(pd, &attr);
	attr.addr = memory + BYTES;
	attr.comp_mask |= IBV_REG_MR_MASK_IOVA;
	attr.iova = 0x123000;
	named = ibv_reg_mr_ex(pd, &attr);
	file = (struct ibv_mr_init_attr){
		.length = BYTES,
		.access = FULL_ACCESS,
		.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA,
		.fd = fd,
		.fd_offset = BYTES,
		.iova = 0x456000,
	};
	of_file = ibv_reg_mr_ex(pd, &file);
	CHECK(mr && named && of_file);
	strcpy(memory, "by its address");
	for (int to_file = 0; to_file < 2; to_file++) {
		struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = to_file ? 0x456008 : 0x123008,
				     .rkey = to_file ? of_file->rkey : named->rkey },
		};

		CHECK(!post_send(qp, &wr));
		poll_success(cq);
	}
	CHECK(!strcmp(memory + BYTES + 8, "by its address"));
	CHECK(!strcmp(shared + BYTES + 8, "by its address"));

	for (uint64_t mask = 0; mask < 16; mask++) {
		bool memory_mask = (mask & ~1ull) == IBV_REG_MR_MASK_ADDR;

		attr.comp_mask = mask;
		attr.fd = fd;
		attr.fd_offset = 0;
		if (memory_mask || mask == file.comp_mask)
			continue;
		FAILS(EINVAL, ibv_reg_mr_ex(pd, &attr));
	}
	attr.comp_mask = IBV_REG_MR_MASK_ADDR | 1ull << 40;
	FAILS(EOPNOTSUPP, ibv_reg_mr_ex(pd, &attr));
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(named) && !ibv_dereg_mr(of_file));
}
#endif

#ifdef HAVE_PORT_SPEED
static void port_speed(void)
{
	uint64_t speed = 0;

	CHECK(!ibv_query_port_speed(context, 1, &speed));
	CHECK(speed == 1000); /* of 100 Mb/s: 4x EDR, as ibv_query_port() says */
	speed = 17;
	CHECK(ibv_query_port_speed(context, 0, &speed) == EINVAL);
	CHECK(ibv_query_port_speed(context, 2, &speed) == EINVAL);
	CHECK(ibv_query_port_speed(context, 257, &speed) == EINVAL);
	CHECK(speed == 17);
}
#endif

#ifdef HAVE_EXPORT_DM
/* The same bytes by each way; they stay as long as any of these is open. */
static void export_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct ibv_mr *mr;
	char text[16] = "", *shared;
	int fd;

	CHECK(dm);
	CHECK(!ibv_memcpy_to_dm(dm, 0, "0123456789abcdef", 16));
	fd = ibv_dm_export_dmabuf_fd(dm);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	shared = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED && !memcmp(shared, "0123456789abcdef", 16));
	memcpy(shared, "ABCD", 4);
	CHECK(!ibv_memcpy_from_dm(text, dm, 0, 8) && !memcmp(text, "ABCD4567", 8));
	mr = ibv_reg_dmabuf_mr(pd, 0, 64, 0, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	CHECK(!ibv_free_dm(dm)); /* a region of the file does not hold it */
	CHECK(!memcmp(shared, "ABCD4567", 8));
	CHECK(!ibv_dereg_mr(mr) && !close(fd));
	dm = ibv_alloc_dm(context, &attr);
	CHECK(dm && !ibv_memcpy_from_dm(text, dm, 0, 8) && !memcmp(text, "\0\0\0\0\0\0\0\0", 8));
	CHECK(!memcmp(shared, "ABCD4567", 8)); /* the next one is other memory */
}
#endif

#ifdef HAVE_COMP_CNTR
static struct ibv_comp_cntr *counter(enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = { .type = type };
	struct ibv_comp_cntr *made = ibv_create_comp_cntr(context, &attr);

	CHECK(made && made->context == context);
	return made;
}

static uint64_t value(struct ibv_comp_cntr *of)
{
	uint64_t value = 77;

	CHECK(!ibv_read_comp_cntr(of, &value));
	return value;
}

static uint64_t error_value(struct ibv_comp_cntr *of)
{
	uint64_t value = 77;

	CHECK(!ibv_read_err_comp_cntr(of, &value));
	return value;
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *to, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = ops };

	return ibv_qp_attach_comp_cntr(qp, to, &attr);
}

/* Until the counter has this value: that is what programs do without CQEs. */
static void wait_for(struct ibv_comp_cntr *of, uint64_t wanted)
{
	double end = now() + 10;

	while (value(of) != wanted)
		CHECK(now() < end);
}

/* The rules of ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3), ibv_query_comp_cntr_caps(3). */
static void comp_counters(void)
{
	struct ibv_comp_cntr_init_attr attr = { .type = IBV_COMP_CNTR_TYPE_BYTES + 1 };
	struct ibv_qp_attach_comp_cntr_attr attach_attr = { .comp_mask = 1, .op_mask = 1 };
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), FULL_ACCESS);
	struct ibv_comp_cntr *wrs = counter(IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *bytes = counter(IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 100, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + BYTES, .rkey = mr->rkey },
	};
	struct ibv_comp_cntr_caps caps;

	CHECK(!ibv_query_comp_cntr_caps(context, &caps));
	CHECK(caps.max_value == UINT64_MAX && caps.max_counters >= 1000);
	CHECK(caps.supported_qp_attach_ops == 0x3f);
	FAILS(EINVAL, ibv_create_comp_cntr(context, &attr));
	attr = (struct ibv_comp_cntr_init_attr){ .flags = 1 };
	FAILS(EINVAL, ibv_create_comp_cntr(context, &attr));
	attr = (struct ibv_comp_cntr_init_attr){ .comp_mask = 1 };
	FAILS(EINVAL, ibv_create_comp_cntr(context, &attr));

	CHECK(!ibv_set_comp_cntr(wrs, UINT64_MAX) && value(wrs) == UINT64_MAX);
	CHECK(!ibv_inc_comp_cntr(wrs, 1) && value(wrs) == 0);
	CHECK(!ibv_set_err_comp_cntr(wrs, 5) && !ibv_inc_err_comp_cntr(wrs, 2));
	CHECK(error_value(wrs) == 7 && value(wrs) == 0);
	CHECK(!ibv_set_err_comp_cntr(wrs, 0));

	CHECK(ibv_qp_attach_comp_cntr(qp, wrs, &attach_attr) == EINVAL);
	CHECK(attach(qp, wrs, 1 << 6) == ENOTSUP);
	CHECK(!attach(qp, wrs, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE));
	CHECK(attach(qp, bytes,
		     IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE) ==
	      EBUSY);
	CHECK(!attach(qp, bytes, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE));
	start_qp(qp, qp->qp_num);
	CHECK(attach(qp, bytes, IBV_QP_ATTACH_COMP_CNTR_OP_SEND) == EINVAL);
	for (int i = 1; i <= 10; i++) {
		strcpy(memory, "counted");
		memory[0] = (char)('a' + i);
		CHECK(!post_send(qp, &wr));
		wait_for(bytes, 100u * i);
		CHECK(!strcmp(memory + BYTES, memory)); /* what is counted is there */
		wait_for(wrs, i);
	}
	wr.wr.rdma.rkey ^= 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK(!post_send(qp, &wr));
	CHECK(poll_one(cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(error_value(wrs) == 1 && error_value(bytes) == 1);
	CHECK(value(wrs) == 10 && value(bytes) == 1000);

	CHECK(ibv_destroy_comp_cntr(wrs) == EBUSY);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_comp_cntr(wrs) && !ibv_destroy_comp_cntr(bytes));
}
#endif

/* Confidential computing: a promise about memory that this device has no use for. */
static void confidential_domain(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .comp_mask = 1u << 2 };
	struct ibv_pd *domain = ibv_alloc_parent_domain(context, &attr);

	CHECK(domain && !ibv_dealloc_pd(domain));
	attr.comp_mask = 1u << 3;
	FAILS(EINVAL, ibv_alloc_parent_domain(context, &attr));
}

int main(int argc, char *argv[])
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "rate_limit", rate_limit },
		{ "confidential_domain", confidential_domain },
#ifdef HAVE_FLUSH
		{ "flushes", flushes },
#endif
#ifdef HAVE_DMAH
		{ "dma_handles", dma_handles },
		{ "registration", registration },
#endif
#ifdef HAVE_PORT_SPEED
		{ "port_speed", port_speed },
#endif
#ifdef HAVE_EXPORT_DM
		{ "export_dm", export_dm },
#endif
#ifdef HAVE_COMP_CNTR
		{ "comp_counters", comp_counters },
#endif
	};

	CHECK(argc == 2);
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(pd && cq);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(tests[i].name, argv[1]))
			continue;
		tests[i].run();
		return 0;
	}
	fprintf(stderr, "no test %s\n", argv[1]);
	return 2;
}
