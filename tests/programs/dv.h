/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tests in C, of the direct verbs above all: each program is a set of TEST()s, run by name, or all
 * of them. tests/python/test_fast_reg.py finds them by these lines, and runs each on its own.
 */
#ifndef DV_H
#define DV_H

#include <infiniband/simhcadv.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "helper.h"
#include "simhca-abi-reason.h"

#define SHIFT 12
#define PAGE 4096u
#define MAX_TESTS 64

static struct {
	const char *name;
	void (*run)(void);
} dv_tests[MAX_TESTS];
static int dv_num_tests;

static inline void dv_add(const char *name, void (*run)(void))
{
	CHECK(dv_num_tests < MAX_TESTS);
	dv_tests[dv_num_tests].name = name;
	dv_tests[dv_num_tests++].run = run;
}

#define TEST(name)                                                                                 \
	static void test_##name(void);                                                             \
	static __attribute__((constructor)) void add_##name(void)                                  \
	{                                                                                          \
		dv_add(#name, test_##name);                                                        \
	}                                                                                          \
	static void test_##name(void)

int main(int argc, char **argv)
{
	int ran = 0;

	for (int i = 0; i < dv_num_tests; i++) {
		if (argc > 1 && strcmp(argv[1], dv_tests[i].name))
			continue;
		dv_tests[i].run();
		ran++;
	}
	CHECK(ran);
	return 0;
}

#define CHECK_REASON(found, wanted)                                                                \
	do {                                                                                       \
		if ((found) != (wanted)) {                                                         \
			fprintf(stderr, "%s:%d: vendor_err %u (%s)\n", __FILE__, __LINE__,         \
				(unsigned int)(found), simhca_reason_text(found));                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* One end of a connection: a context of its own, and some memory that is registered as usual. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *memory;
	struct ibv_mr *mr;
	size_t length;
};

static inline uint8_t *new_pages(size_t pages)
{
	uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	for (size_t i = 0; i < pages * PAGE; i++)
		memory[i] = (uint8_t)(i * 7 + i / PAGE * 13);
	return memory;
}

/* Nobody reaches it any more; its place stays taken, or the next mapping would be there. */
static inline void drop_page(uint8_t *page)
{
	CHECK(!mprotect(page, PAGE, PROT_NONE));
}

/* All but the QP. */
static inline struct end new_end(void)
{
	struct end end = { .context = open_device(), .length = 16 * PAGE };

	CHECK(simhcadv_is_supported(end.context->device));
	end.pd = ibv_alloc_pd(end.context);
	CHECK(end.pd);
	end.cq = ibv_create_cq(end.context, 256, NULL, NULL, 0);
	CHECK(end.cq);
	end.memory = new_pages(end.length / PAGE);
	end.mr = ibv_reg_mr(end.pd, end.memory, end.length, FULL_ACCESS);
	CHECK(end.mr);
	return end;
}

/* Two ends, connected. Programs are short: nothing is closed, but for what a test is about. */
struct pair {
	struct end client;
	struct end server;
};

static inline struct pair new_pair_of(enum ibv_qp_type type)
{
	struct pair pair = { .client = new_end(), .server = new_end() };

	pair.client.qp = make_qp(pair.client.pd, pair.client.cq, type);
	pair.server.qp = make_qp(pair.server.pd, pair.server.cq, type);
	start_qp(pair.client.qp, pair.server.qp->qp_num);
	start_qp(pair.server.qp, pair.client.qp->qp_num);
	return pair;
}

static inline struct pair new_pair(void)
{
	return new_pair_of(IBV_QPT_RC);
}

/* A second connection between the same contexts; the server's QP is of this PD. */
static inline struct pair second_pair(const struct pair *first, struct ibv_pd *server_pd)
{
	struct pair pair = *first;

	pair.client.qp = make_qp(pair.client.pd, pair.client.cq, IBV_QPT_RC);
	pair.server.qp = make_qp(server_pd, pair.server.cq, IBV_QPT_RC);
	start_qp(pair.client.qp, pair.server.qp->qp_num);
	start_qp(pair.server.qp, pair.client.qp->qp_num);
	return pair;
}

static inline struct ibv_mr *new_region(const struct end *end, uint32_t pages)
{
	struct ibv_mr *mr = simhcadv_alloc_mr(end->pd, pages);

	CHECK(mr);
	return mr;
}

static inline struct simhcadv_page_list *new_list(const struct end *end, uint32_t pages)
{
	struct simhcadv_page_list *list = simhcadv_alloc_page_list(end->context, pages);

	CHECK(list);
	CHECK(list->max_page_list_len >= pages);
	return list;
}

/* mr over these pages in this order; as the tests do not say otherwise, with all rights. */
static inline struct simhcadv_fast_reg over(const struct ibv_mr *mr,
					    struct simhcadv_page_list *list, uint8_t *const *pages,
					    uint32_t count)
{
	struct simhcadv_fast_reg reg = {
		.iova_start = 0x10000000,
		.page_list = list,
		.page_list_len = count,
		.page_shift = SHIFT,
		.length = (uint64_t)count * PAGE,
		.access = FULL_ACCESS,
		.rkey = mr->rkey,
	};

	for (uint32_t i = 0; i < count; i++)
		list->page_list[i] = (uintptr_t)pages[i];
	return reg;
}

/* mr over the first count pages of the end's memory. */
static inline struct simhcadv_fast_reg over_memory(const struct end *end, const struct ibv_mr *mr,
						   struct simhcadv_page_list *list, uint32_t count)
{
	uint8_t *pages[16];

	CHECK(count <= 16);
	for (uint32_t i = 0; i < count; i++)
		pages[i] = end->memory + i * PAGE;
	return over(mr, list, pages, count);
}

static inline int post_reg(struct ibv_qp *qp, const struct simhcadv_fast_reg *reg,
			   unsigned int flags)
{
	struct simhcadv_fast_reg_wr wr = { .wr_id = 77, .send_flags = flags, .fast_reg = *reg };
	struct simhcadv_fast_reg_wr *bad = NULL;
	int err = simhcadv_post_fast_reg(qp, &wr, &bad);

	CHECK(err ? bad == &wr : !bad);
	return err;
}

static inline void do_reg(const struct end *end, const struct simhcadv_fast_reg *reg)
{
	struct ibv_wc wc;

	CHECK(!post_reg(end->qp, reg, IBV_SEND_SIGNALED));
	wc = poll_success(end->cq);
	CHECK(wc.wr_id == 77 && wc.qp_num == end->qp->qp_num);
	CHECK((int)wc.opcode == SIMHCADV_WC_FAST_REG);
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static inline void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static inline void expect_error(struct ibv_cq *cq, enum ibv_wc_status status,
				enum simhca_reason reason)
{
	struct ibv_wc wc = poll_one(cq);

	if (wc.status != status)
		fprintf(stderr, "%s (%s)\n", ibv_wc_status_str(wc.status),
			simhca_reason_text(wc.vendor_err));
	CHECK(wc.status == status);
	CHECK_REASON(wc.vendor_err, reason);
}

/* The registration fails in its completion, for this reason, and takes the QP with it. */
static inline void fail_reg(const struct end *end, const struct simhcadv_fast_reg *reg,
			    enum simhca_reason reason)
{
	CHECK(!post_reg(end->qp, reg, IBV_SEND_SIGNALED));
	expect_error(end->cq, IBV_WC_MW_BIND_ERR, reason);
	CHECK(state_of(end->qp) == IBV_QPS_ERR);
}

/* An RDMA operation of the end into or out of the start of its memory. */
static inline void post_rdma(const struct end *end, enum ibv_wr_opcode opcode, uint64_t addr,
			     uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory,
			       .length = length,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { .remote_addr = addr, .rkey = rkey } };

	CHECK(!post_send(end->qp, &wr));
}

static inline void do_rdma(const struct end *end, enum ibv_wr_opcode opcode, uint64_t addr,
			   uint32_t rkey, uint32_t length)
{
	post_rdma(end, opcode, addr, rkey, length);
	poll_success(end->cq);
}

static inline void fail_rdma(const struct end *end, enum ibv_wr_opcode opcode, uint64_t addr,
			     uint32_t rkey, uint32_t length, enum simhca_reason reason)
{
	post_rdma(end, opcode, addr, rkey, length);
	expect_error(end->cq, IBV_WC_REM_ACCESS_ERR, reason);
}

/* A write completes in this CQ, which the end has for a new QP; ibv_end_poll() is the caller's. */
static inline void begin_to_poll_a_write(struct end *end, struct ibv_cq_ex *cq_ex)
{
	struct ibv_poll_cq_attr poll_attr = {};
	double limit = now() + 10;

	CHECK(cq_ex);
	end->cq = ibv_cq_ex_to_cq(cq_ex);
	end->qp = make_qp(end->pd, end->cq, IBV_QPT_RC);
	start_qp(end->qp, end->qp->qp_num);
	post_rdma(end, IBV_WR_RDMA_WRITE, (uintptr_t)end->memory, end->mr->rkey, 8);
	while (ibv_start_poll(cq_ex, &poll_attr))
		CHECK(now() < limit);
}

static inline int post_inv(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t key,
			   unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = opcode, .send_flags = flags, .invalidate_rkey = key
	};

	return post_send(qp, &wr);
}

static inline void do_local_inv(const struct end *end, uint32_t key)
{
	CHECK(!post_inv(end->qp, IBV_WR_LOCAL_INV, key, IBV_SEND_SIGNALED));
	CHECK(poll_success(end->cq).opcode == IBV_WC_LOCAL_INV);
}

static inline int post_read_inv(const struct end *end, uint64_t to, uint32_t lkey, uint32_t length,
				uint64_t addr, uint32_t rkey, uint32_t invalidate)
{
	struct ibv_sge sge = { .addr = to, .length = length, .lkey = lkey };
	struct simhcadv_read_with_inv_wr wr = {
		.wr_id = 8,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.remote_addr = addr,
		.rkey = rkey,
		.invalidate_rkey = invalidate,
	}, *bad = NULL;
	int err = simhcadv_post_read_with_inv(end->qp, &wr, &bad);

	CHECK(err ? bad == &wr : !bad);
	return err;
}

#endif
