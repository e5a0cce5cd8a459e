/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Parent domains: whom the allocator is asked for, in which order things go, thread domains. */
#include "helper.h"
#include <infiniband/simhcadv.h>

static struct ibv_context *context;
static int key; /* its address is the allocator's context */

enum answer { OURS, DEFAULT, NOTHING };
static enum answer answer;

static struct {
	int allocated, freed;
	uint64_t type;
	struct ibv_pd *pd;
	void *ptr;
} seen;

static void *allocate(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		      uint64_t type)
{
	void *ptr;

	CHECK(pd_context == &key && size);
	CHECK(alignment && !(alignment & (alignment - 1)));
	if (answer == DEFAULT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (answer == NOTHING)
		return NULL;
	CHECK(!posix_memalign(&ptr, alignment, size));
	memset(ptr, 0xee, size); /* nobody may rely on zeroes */
	seen.allocated++;
	seen.type = type;
	seen.pd = pd;
	seen.ptr = ptr;
	return ptr;
}

static void release(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t type)
{
	CHECK(pd_context == &key && pd == seen.pd);
	CHECK(ptr == seen.ptr && type == seen.type);
	seen.freed++;
	free(ptr);
}

static struct ibv_pd *make_domain(struct ibv_pd *pd, struct ibv_td *td, bool allocator)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.td = td,
		.comp_mask = allocator ? IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
						 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
				       : 0,
		.alloc = allocate,
		.free = release,
		.pd_context = &key,
	};

	return ibv_alloc_parent_domain(context, &attr);
}

static struct ibv_cq *make_cq(struct ibv_pd *domain)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = domain,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_srq *make_srq(struct ibv_pd *domain)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	return ibv_create_srq(domain, &attr);
}

static void expect_allocated(int count, uint64_t type)
{
	CHECK(seen.allocated == count);
	CHECK(seen.type == type);
}

/* Each object's state comes from the allocator, and goes back to it. */
static void allocators(struct ibv_pd *pd)
{
	struct ibv_pd *domain = make_domain(pd, NULL, true);
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	CHECK(domain && domain->handle == pd->handle);
	cq = make_cq(domain);
	CHECK(cq);
	expect_allocated(1, SIMHCADV_RES_TYPE_CQ);
	CHECK(seen.pd == domain);
	CHECK((char *)cq >= (char *)seen.ptr && (char *)cq < (char *)seen.ptr + 4096);
	CHECK(ibv_dealloc_pd(domain) == EBUSY);
	CHECK(!ibv_destroy_cq(cq) && seen.freed == 1);
	srq = make_srq(domain);
	CHECK(srq);
	expect_allocated(2, SIMHCADV_RES_TYPE_SRQ);
	CHECK(ibv_dealloc_pd(domain) == EBUSY);
	CHECK(!ibv_destroy_srq(srq) && seen.freed == 2);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0); /* which is in no domain */
	CHECK(seen.allocated == 2);
	qp = make_qp(domain, cq, IBV_QPT_RC);
	expect_allocated(3, SIMHCADV_RES_TYPE_QP);
	CHECK(qp->pd == domain);
	CHECK(ibv_dealloc_pd(domain) == EBUSY);
	CHECK(!ibv_destroy_qp(qp) && seen.freed == 3);
	/* What is not made gives back what was taken for it. */
	errno = 0;
	CHECK(!ibv_create_srq(domain, &(struct ibv_srq_init_attr){ .attr.max_wr = 1 << 30 }));
	CHECK(errno == EINVAL && seen.allocated == 4 && seen.freed == 4);

	/* The library's own allocator, by its wish: freed by it too. */
	answer = DEFAULT;
	qp = make_qp(domain, cq, IBV_QPT_RC);
	CHECK(!ibv_destroy_qp(qp) && seen.allocated == 4 && seen.freed == 4);
	answer = NOTHING;
	errno = 0;
	CHECK(!make_srq(domain) && errno == ENOMEM);
	answer = OURS;
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(domain));
}

static void order_of_going(struct ibv_pd *pd)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_pd *domain = make_domain(pd, td, false);

	CHECK(td && domain);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!ibv_dealloc_pd(domain));
	CHECK(!ibv_dealloc_td(td));
}

static void wrong_attributes(struct ibv_pd *pd)
{
	struct ibv_context *other = open_device();
	struct ibv_pd *theirs = ibv_alloc_pd(other), *domain = make_domain(pd, NULL, false);
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_parent_domain_init_attr attr = { .pd = pd };

	errno = 0;
	CHECK(!ibv_alloc_td(context, &td_attr) && errno == EINVAL);
	errno = 0;
	CHECK(!make_domain(NULL, NULL, false) && errno == EINVAL);
	errno = 0;
	CHECK(!make_domain(theirs, NULL, false) && errno == EINVAL);
	errno = 0;
	CHECK(!make_domain(domain, NULL, false) && errno == EINVAL);
	attr.comp_mask = 1u << 20;
	errno = 0;
	CHECK(!ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	errno = 0;
	CHECK(!ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	/* A CQ in a PD that is no parent domain. */
	errno = 0;
	CHECK(!make_cq(pd) && errno == EINVAL);
	CHECK(!ibv_dealloc_pd(domain) && !ibv_dealloc_pd(theirs));
	CHECK(!ibv_close_device(other));
}

/* Messages with everything in a thread domain, and its allocator. */
static void traffic(struct ibv_pd *pd)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_pd *domain = make_domain(pd, td, false);
	struct ibv_cq *cq = make_cq(domain);
	char *memory = aligned_alloc(4096, 8192);
	struct ibv_mr *mr = ibv_reg_mr(domain, memory, 8192, FULL_ACCESS);
	struct ibv_ah_attr ah_attr = loopback(context);
	struct ibv_ah *ah = ibv_create_ah(domain, &ah_attr);
	struct ibv_qp *qp = make_qp(domain, cq, IBV_QPT_RC);
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 4096 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	CHECK(cq && mr && ah && mr->pd == domain);
	sge.lkey = mr->lkey;
	start_qp(qp, qp->qp_num);
	for (int i = 1; i < 1000; i++) {
		memset(memory, i, 4096);
		CHECK(!post_recv(qp, i, mr, 4096, 4096));
		CHECK(!post_send(qp, &wr));
		poll_success(cq);
		poll_success(cq);
		CHECK(!memcmp(memory, memory + 4096, 4096));
	}
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(domain) && !ibv_dealloc_td(td));
	free(memory);
}

int main(void)
{
	struct ibv_pd *pd;

	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	allocators(pd);
	order_of_going(pd);
	wrong_attributes(pd);
	traffic(pd);
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
