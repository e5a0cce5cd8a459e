/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Fast-register regions: a key over a list of pages, given and taken by work requests. */
#include "dma/dma.h"
#include "midway.h"

enum { PAGE = 4096, PAGES = 16 };
#define IOVA 0x600000000000ull
#define BINDABLE (ALL_ACCESS | SIMHCA_ACCESS_MW_BIND)

/* b has a region and memory to register: pages that lie in another order than they are listed. */
struct setting {
	struct pair *pair;
	struct side *a, *b;
	uint8_t *arena;
	uint64_t *pages;
	struct mr *mr;
};

static uint8_t *aligned(struct world *world, size_t size, size_t alignment)
{
	uintptr_t at = (uintptr_t)world_alloc(world, size + alignment);

	return (uint8_t *)((at + alignment - 1) & ~(alignment - 1));
}

static struct setting make(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);
	struct setting s = { .pair = pair_new(world, &options) };

	s.a = &s.pair->a;
	s.b = &s.pair->b;
	s.arena = aligned(world, PAGES * PAGE, PAGE);
	s.pages = world_alloc(world, PAGES * sizeof(*s.pages));
	for (uint64_t i = 0; i < PAGES; i++)
		s.pages[i] = (uintptr_t)s.arena + (i * 5 + 3) % PAGES * PAGE;
	s.mr = fast_mr_new(s.b->client, s.b->client->pd, PAGES);
	return s;
}

/* The byte at this distance from the first page's start. */
static uint8_t *byte_at(const struct setting *s, uint64_t at)
{
	return (uint8_t *)(uintptr_t)s->pages[at / PAGE] + at % PAGE;
}

static void fast_reg(struct setting *s, uint32_t num_pages, uint64_t iova, uint64_t length)
{
	qp_fast_reg(s->b->qp, 80, s->mr, s->pages, num_pages, iova, length, BINDABLE);
	assert_int_equal(expect(s->b->send_cq, 80, SUCCESS).opcode, SIMHCA_WC_FAST_REG);
}

static void invalidate(struct setting *s)
{
	qp_local_inv(s->b->qp, 81, s->mr->rkey);
	expect(s->b->send_cq, 81, SUCCESS);
}

static int alloc(struct client *client, uint32_t pd, uint32_t max_pages,
		 struct simhca_reg_mr_reply *reply)
{
	struct simhca_alloc_mr_req req = { .pd = pd, .max_pages = max_pages };
	struct simhca_why why = { "" };

	return simhca_alloc_mr(client->context, client->mm, &req, reply, &why);
}

static void commands(void **state)
{
	struct client *client = client_new(*state, 0);
	const struct simhca_device_attr *attr =
		&simhca_device_memory(client->world->device[0])->attr;
	struct simhca_rereg_mr_req rereg = { .flags = SIMHCA_REREG_ACCESS };
	struct simhca_reg_mr_reply reply, other;
	struct simhca_counts counts;

	assert_true(attr->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	assert_true(attr->max_fast_reg_page_list_len >= 512);
	assert_true(attr->fast_reg_page_sizes & PAGE);
	assert_int_equal(-ENOENT, alloc(client, 99, 1, &reply));
	assert_int_equal(-EINVAL, alloc(client, client->pd, 0, &reply));
	assert_int_equal(-EINVAL,
			 alloc(client, client->pd, attr->max_fast_reg_page_list_len + 1, &reply));
	assert_int_equal(0, alloc(client, client->pd, 1, &reply));
	assert_int_equal(0, alloc(client, client->pd, attr->max_fast_reg_page_list_len, &other));
	assert_int_equal(reply.lkey, reply.rkey);
	assert_int_not_equal(SIMHCA_KEY_INDEX(reply.lkey), SIMHCA_KEY_INDEX(other.lkey));
	simhca_context_counts(client->context, &counts);
	assert_int_equal(counts.mrs, 2);
	assert_int_equal(-EBUSY, simhca_dealloc_pd(client->context, client->pd, NULL));
	/* It is registered by work requests, not by a command. */
	rereg.handle = reply.handle;
	assert_int_equal(-EINVAL,
			 simhca_rereg_mr(client->context, client->mm, &rereg, &reply, NULL));
	assert_int_equal(0, simhca_dereg_mr(client->context, rereg.handle, NULL));
	assert_int_equal(0, simhca_dereg_mr(client->context, other.handle, NULL));
	assert_int_equal(0, simhca_dealloc_pd(client->context, client->pd, NULL));
}

/* Every byte is where the list says, whatever the first byte's offset and the access. */
static void scattered_pages(void **state)
{
	static const struct {
		uint64_t first, length, from;
		uint32_t bytes;
	} range[] = {
		{ 0, PAGES * PAGE, 0, PAGES * PAGE },	   { 0, PAGES * PAGE, PAGE - 1, 2 },
		{ 1, PAGES * PAGE - 1, 0, 3 * PAGE },	   { 4095, PAGE, 0, PAGE },
		{ 100, 2 * PAGE, PAGE - 101, PAGE + 101 }, { 8, 8, 0, 8 },
	};
	struct setting s = make(*state, IBV_QPT_RC);

	for (uint32_t i = 0; i < ARRAY_SIZE(range); i++) {
		uint64_t at = range[i].first + range[i].from;
		uint8_t *data = s.a->mr->addr;

		memset(s.arena, 0, PAGES * PAGE);
		fast_reg(&s, PAGES, IOVA + range[i].first, range[i].length);
		fill(data, range[i].bytes, i);
		post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE,
		     SGES(sge(s.a->mr, 0, range[i].bytes)), .remote_addr = IOVA + at,
		     .rkey = s.mr->rkey);
		expect(s.a->send_cq, 1, SUCCESS);
		for (uint64_t n = 0; n < PAGES * PAGE; n++) {
			bool inside = n >= at && n < at + range[i].bytes;

			assert_int_equal(*byte_at(&s, n), inside ? data[n - at] : 0);
		}
		memset(data, 0, range[i].bytes);
		post(s.a, .id = 2, .opcode = SIMHCA_WR_RDMA_READ,
		     SGES(sge(s.a->mr, 0, range[i].bytes)), .remote_addr = IOVA + at,
		     .rkey = s.mr->rkey);
		expect(s.a->send_cq, 2, SUCCESS);
		assert_true(filled(data, range[i].bytes, i));
		invalidate(&s);
	}
}

/* As an lkey: gather, scatter and the result of a read; registered in the same queue just before.
 */
static void local_use_in_order(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	const uint32_t length = 3 * PAGE + 17;

	for (uint32_t i = 0; i < length; i++)
		*byte_at(&s, 5 + i) = (uint8_t)(i * 7);
	recv_into(s.a, 1, 0, length);
	qp_fast_reg(s.b->qp, 1, s.mr, s.pages, 4, IOVA + 5, length, ALL_ACCESS);
	post(s.b, .id = 2, .opcode = SIMHCA_WR_SEND,
	     SGES(sge(s.mr, 0, 1000), sge(s.mr, 1000, length - 1000)));
	qp_local_inv(s.b->qp, 3, s.mr->lkey);
	for (uint64_t id = 1; id <= 3; id++)
		expect(s.b->send_cq, id, SUCCESS);
	assert_int_equal(expect(s.a->recv_cq, 1, SUCCESS).byte_len, length);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(s.a->mr->addr[i], (uint8_t)(i * 7));

	fill(s.a->mr->addr, length, 9);
	qp_fast_reg(s.b->qp, 1, s.mr, s.pages + 4, 4, IOVA + 5, length, SIMHCA_ACCESS_LOCAL_WRITE);
	post(s.b, .id = 2, .opcode = SIMHCA_WR_RDMA_READ, SGES(sge(s.mr, 0, length)),
	     .remote_addr = s.a->mr->iova, .rkey = s.a->mr->rkey);
	expect(s.b->send_cq, 1, SUCCESS);
	expect(s.b->send_cq, 2, SUCCESS);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(*byte_at(&s, 4 * PAGE + 5 + i), s.a->mr->addr[i]);
	post_recv(s.b, 3, sge(s.mr, 0, length));
	fill(s.a->mr->addr, length, 10);
	send_from(s.a, 4, 0, length);
	expect(s.a->send_cq, 4, SUCCESS);
	expect(s.b->recv_cq, 3, SUCCESS);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(*byte_at(&s, 4 * PAGE + 5 + i), s.a->mr->addr[i]);
}

/* Messages that take several turns, over the longest list of small pages. */
static void long_lists(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	const uint32_t count = SIMHCA_MAX_FAST_REG_PAGES;
	struct pair *pair;
	struct side *a, *b;
	uint64_t *pages;
	struct mr *mr;
	uint8_t *arena;

	options.buffer = (uint64_t)count * PAGE;
	pair = pair_new(*state, &options);
	a = &pair->a;
	b = &pair->b;
	arena = aligned(*state, (uint64_t)count * PAGE, PAGE);
	pages = world_alloc(*state, count * sizeof(*pages));
	for (uint64_t i = 0; i < count; i++)
		pages[i] = (uintptr_t)arena + (count - 1 - i) * PAGE;
	mr = fast_mr_new(b->client, b->client->pd, count);
	fill(a->mr->addr, options.buffer, 1);
	qp_fast_reg(b->qp, 1, mr, pages, count, IOVA, options.buffer, ALL_ACCESS);
	expect(b->send_cq, 1, SUCCESS);
	/* Four SGEs that begin and end inside pages. */
	post(a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE,
	     SGES(sge(a->mr, 0, 1), sge(a->mr, 1, 5000), sge(a->mr, 5001, 5000000),
		  sge(a->mr, 5005001, (uint32_t)options.buffer - 5005001)),
	     .remote_addr = IOVA, .rkey = mr->rkey);
	expect(a->send_cq, 2, SUCCESS);
	for (uint64_t i = 0; i < count; i++)
		assert_memory_equal(arena + (count - 1 - i) * PAGE, a->mr->addr + i * PAGE, PAGE);
	/* Both ends scattered: the most runs that a step can have. */
	post(b, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE,
	     SGES({ IOVA + 4095, 1000001, mr->lkey }, { IOVA + 1, 1000001, mr->lkey },
		  { IOVA + 77, 1000001, mr->lkey }, { IOVA + 4000, 1000001, mr->lkey }),
	     .remote_addr = a->mr->iova, .rkey = a->mr->rkey);
	expect(b->send_cq, 3, SUCCESS);
}

static void page_sizes(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	const uint64_t big = 2u << 20;
	uint8_t *arena = aligned(*state, 2 * big, big);
	uint64_t pages[] = { (uintptr_t)arena + big, (uintptr_t)arena };
	struct wr wr = {
		.id = 1,
		.opcode = SIMHCA_WR_FAST_REG,
		.flags = SIMHCA_WQE_SIGNALED,
		.addr = IOVA,
		.length = 2 * big,
		.pages = pages,
		.num_pages = 2,
		.page_shift = 21,
		.access = ALL_ACCESS,
		.key = s.mr->lkey,
	};

	qp_post(s.b->qp, &wr);
	expect(s.b->send_cq, 1, SUCCESS);
	memset(s.a->mr->addr, 0x66, 64);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 64)),
	     .remote_addr = IOVA + big - 32, .rkey = wr.key);
	expect(s.a->send_cq, 1, SUCCESS);
	assert_true(all_bytes(arena + 2 * big - 32, 32, 0x66));
	assert_true(all_bytes(arena, 32, 0x66));
	assert_int_equal(arena[32], 0);
}

/* ------------------------------------------------------------------------------ refusals */

struct bad_reg {
	const char *what;
	enum simhca_reason reason;
	void (*change)(struct wr *wr, struct setting *s);
};

static void no_such_key(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->key = 0xfff00;
}

static void ordinary_region(struct wr *wr, struct setting *s)
{
	wr->key = s->b->mr->lkey;
}

static void window(struct wr *wr, struct setting *s)
{
	wr->key = mw_new(s->b->client, s->b->client->pd, 2)->rkey;
}

static void other_pd(struct wr *wr, struct setting *s)
{
	wr->key = fast_mr_new(s->b->client, pd_new(s->b->client), PAGES)->lkey;
}

static void other_client(struct wr *wr, struct setting *s)
{
	struct client *stranger = client_new(s->b->world, 1);

	wr->key = fast_mr_new(stranger, stranger->pd, PAGES)->lkey;
}

static void list_too_long(struct wr *wr, struct setting *s)
{
	wr->key = fast_mr_new(s->b->client, s->b->client->pd, PAGES - 1)->lkey;
}

static void list_far_too_long(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->num_pages = UINT32_MAX;
}

static void unaligned_first(struct wr *wr, struct setting *s)
{
	(void)wr;
	s->pages[0] += PAGE / 2;
}

static void unaligned_last(struct wr *wr, struct setting *s)
{
	(void)wr;
	s->pages[PAGES - 1] += 1;
}

static void small_page(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->page_shift = 11;
}

static void large_page(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->page_shift = 22;
}

static void silly_page(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->page_shift = 12 + 64;
}

static void a_byte_too_long(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->length = PAGES * PAGE + 1;
}

static void first_byte_too_late(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->addr = IOVA + 1;
}

static void first_byte_outside(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->addr = IOVA + 1;
	wr->num_pages = 0;
	wr->length = 0;
}

static void wraps(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->addr = UINT64_MAX - PAGE + 1;
}

static void write_without_local(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->access = SIMHCA_ACCESS_REMOTE_WRITE;
}

static void atomics_without_local(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->access = SIMHCA_ACCESS_REMOTE_ATOMIC;
}

static void on_demand(struct wr *wr, struct setting *s)
{
	(void)s;
	wr->access |= SIMHCA_ACCESS_ON_DEMAND;
}

static const struct bad_reg bad_regs[] = {
	{ "no such key", SIMHCA_REASON_FAST_REG_NO_REGION, no_such_key },
	{ "ordinary region", SIMHCA_REASON_FAST_REG_NO_REGION, ordinary_region },
	{ "window", SIMHCA_REASON_FAST_REG_NO_REGION, window },
	{ "other PD", SIMHCA_REASON_KEY_WRONG_PD, other_pd },
	{ "other client", SIMHCA_REASON_KEY_WRONG_PD, other_client },
	{ "list too long", SIMHCA_REASON_FAST_REG_TOO_MANY_PAGES, list_too_long },
	{ "list far too long", SIMHCA_REASON_FAST_REG_TOO_MANY_PAGES, list_far_too_long },
	{ "unaligned first page", SIMHCA_REASON_FAST_REG_UNALIGNED, unaligned_first },
	{ "unaligned last page", SIMHCA_REASON_FAST_REG_UNALIGNED, unaligned_last },
	{ "page too small", SIMHCA_REASON_FAST_REG_PAGE_SIZE, small_page },
	{ "page too large", SIMHCA_REASON_FAST_REG_PAGE_SIZE, large_page },
	{ "page size of 76 bits", SIMHCA_REASON_FAST_REG_PAGE_SIZE, silly_page },
	{ "a byte too long", SIMHCA_REASON_FAST_REG_PAST_END, a_byte_too_long },
	{ "first byte too late", SIMHCA_REASON_FAST_REG_PAST_END, first_byte_too_late },
	{ "first byte outside", SIMHCA_REASON_FAST_REG_PAST_END, first_byte_outside },
	{ "wraps", SIMHCA_REASON_KEY_WRAPS, wraps },
	{ "write without LOCAL_WRITE", SIMHCA_REASON_FAST_REG_BAD_ACCESS, write_without_local },
	{ "atomics without LOCAL_WRITE", SIMHCA_REASON_FAST_REG_BAD_ACCESS, atomics_without_local },
	{ "on demand", SIMHCA_REASON_FAST_REG_BAD_ACCESS, on_demand },
};

static void registrations_that_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_regs); i++) {
		struct setting s = make(*state, IBV_QPT_RC);
		struct wr wr = {
			.id = i,
			.opcode = SIMHCA_WR_FAST_REG,
			.flags = SIMHCA_WQE_SIGNALED,
			.addr = IOVA,
			.length = PAGES * PAGE,
			.pages = s.pages,
			.num_pages = PAGES,
			.page_shift = 12,
			.access = ALL_ACCESS,
			.key = s.mr->lkey,
		};

		print_message("[          ] %s\n", bad_regs[i].what);
		bad_regs[i].change(&wr, &s);
		qp_post(s.b->qp, &wr);
		expect_(s.b->send_cq, i, IBV_WC_MW_BIND_ERR, bad_regs[i].reason, __FILE__,
			__LINE__);
		assert_int_equal(qp_state(s.b->qp), IBV_QPS_ERR);
		assert_false(mpt_of(s.b->client, s.mr->lkey)->valid);
	}
}

/* What stands at the edge of what is allowed. */
static void registrations_just_inside(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	fast_reg(&s, PAGES, IOVA + 1, PAGES * PAGE - 1);
	invalidate(&s);
	fast_reg(&s, 1, UINT64_MAX - PAGE + 1, PAGE);
	invalidate(&s);
	fast_reg(&s, 0, IOVA, 0);
	invalidate(&s);
	fast_reg(&s, PAGES, IOVA, 1);
}

static void a_valid_region_is_not_registered_again(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	uint32_t rkey;

	fast_reg(&s, PAGES, IOVA, PAGES * PAGE);
	rkey = s.mr->rkey;
	qp_fast_reg(s.b->qp, 1, s.mr, s.pages, 1, IOVA, PAGE, ALL_ACCESS);
	expect_why(s.b->send_cq, 1, MW_BIND_ERR, FAST_REG_NOT_FREE);
	/* The first registration stands. */
	assert_int_equal(mpt_of(s.b->client, rkey)->key, rkey);
	assert_int_equal(mpt_of(s.b->client, rkey)->length, PAGES * PAGE);
	assert_true(mpt_of(s.b->client, rkey)->valid);
}

/* What its list says when it is carried out is not what was posted. */
static void a_list_that_changes_is_refused(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	qp_fast_reg(s.b->qp, 1, s.mr, s.pages, 2, IOVA, PAGE, ALL_ACCESS);
	s.pages[1] += PAGE;
	expect_why(s.b->send_cq, 1, MW_BIND_ERR, FAST_REG_LIST_CHANGED);
	assert_false(mpt_of(s.b->client, s.mr->rkey)->valid);
}

static void begin_to_destroy(void *arg)
{
	const struct mr *mr = arg;

	assert_int_equal(-EAGAIN, simhca_dereg_mr(mr->client->context, mr->handle, NULL));
}

/* While its list is read, which takes as long as the client's memory does. */
static void a_region_that_goes_is_not_registered(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	need_process_vm();
	s.b->client->mm->kind = SIMHCA_MM_PROCESS_VM;
	in_the_middle(begin_to_destroy, s.mr);
	qp_fast_reg(s.b->qp, 1, s.mr, s.pages, 1, IOVA, PAGE, ALL_ACCESS);
	expect_why(s.b->send_cq, 1, MW_BIND_ERR, FAST_REG_NO_REGION);
	assert_null(midway);
	assert_int_equal(0, mr_gone(s.mr));
}

/* Each registration has the variant that its work request names, and no other. */
static void the_variant_is_the_work_requests(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	uint32_t old;

	for (int i = 0; i < 300; i++) {
		fast_reg(&s, 1, IOVA, PAGE);
		post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 8)),
		     .remote_addr = IOVA, .rkey = s.mr->rkey);
		expect(s.a->send_cq, 1, SUCCESS);
		invalidate(&s);
	}
	old = s.mr->rkey;
	fast_reg(&s, 1, IOVA, PAGE);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 8)),
	     .remote_addr = IOVA, .rkey = old);
	expect_why(s.a->send_cq, 1, REM_ACCESS_ERR, KEY_STALE);
}

/* Registered, used by a send, invalidated, registered over other pages: all posted at once. */
static void cycles_in_flight(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	const uint64_t cycles = 20;

	for (uint64_t i = 0; i < PAGES; i++)
		memset((void *)(uintptr_t)s.pages[i], (int)i + 1, PAGE);
	for (uint64_t round = 0; round < 50; round++) {
		for (uint64_t i = 0; i < cycles; i++) {
			recv_into(s.a, i, i * 64, 64);
			qp_fast_reg(s.b->qp, 3 * i, s.mr, s.pages + i % PAGES, 1, IOVA, PAGE,
				    ALL_ACCESS);
			post(s.b, .id = 3 * i + 1, .opcode = SIMHCA_WR_SEND,
			     SGES(sge(s.mr, 0, 64)));
			qp_local_inv(s.b->qp, 3 * i + 2, s.mr->lkey);
		}
		for (uint64_t i = 0; i < 3 * cycles; i++)
			expect(s.b->send_cq, i, SUCCESS);
		for (uint64_t i = 0; i < cycles; i++) {
			expect(s.a->recv_cq, i, SUCCESS);
			assert_true(
				all_bytes(s.a->mr->addr + i * 64, 64, (uint8_t)(i % PAGES + 1)));
		}
	}
}

/* The region is done with its list once the work request has completed. */
static void the_list_may_be_used_again(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	uint8_t *first = byte_at(&s, 0);

	fast_reg(&s, 1, IOVA, PAGE);
	s.pages[0] = 0x1234;
	memset(s.a->mr->addr, 0x55, 64);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 64)),
	     .remote_addr = IOVA, .rkey = s.mr->rkey);
	expect(s.a->send_cq, 1, SUCCESS);
	assert_true(all_bytes(first, 64, 0x55));
}

static void zero_based(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	qp_fast_reg(s.b->qp, 1, s.mr, s.pages, 2, IOVA + 100, PAGE,
		    ALL_ACCESS | SIMHCA_ACCESS_ZERO_BASED);
	expect(s.b->send_cq, 1, SUCCESS);
	memset(s.a->mr->addr, 0x55, 64);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 64)),
	     .remote_addr = PAGE - 64, .rkey = s.mr->rkey);
	expect(s.a->send_cq, 1, SUCCESS);
	assert_true(all_bytes(byte_at(&s, 100 + PAGE - 64), 64, 0x55));
}

/* A window over scattered pages, which keeps them: no invalidation, no dereg. */
static void windows_over_pages(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct mw *mw = mw_new(s.b->client, s.b->client->pd, 2);

	fast_reg(&s, 4, IOVA + 7, 3 * PAGE);
	qp_bind(s.b->qp, 1, mw, s.mr, PAGE - 50, 200,
		SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_ZERO_BASED);
	expect(s.b->send_cq, 1, SUCCESS);
	fill(s.a->mr->addr, 200, 4);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 200)),
	     .remote_addr = 0, .rkey = mw->rkey);
	expect(s.a->send_cq, 1, SUCCESS);
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(*byte_at(&s, 7 + PAGE - 50 + i), s.a->mr->addr[i]);
	assert_int_equal(*byte_at(&s, 7 + PAGE - 51), 0);
	assert_int_equal(*byte_at(&s, 7 + PAGE + 150), 0);
	assert_int_equal(-EBUSY, mr_gone(s.mr));
	qp_local_inv(s.b->qp, 2, s.mr->lkey);
	expect_why(s.b->send_cq, 2, MW_BIND_ERR, INV_WINDOWS_BOUND);
	assert_true(mpt_of(s.b->client, s.mr->lkey)->valid);
	pair_reconnect(s.pair); /* frees the window */
	invalidate(&s);
}

/* Eight bytes at an aligned address that lie in two pages: only a window can bring that about. */
static void atomics_across_pages(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct mw *mw = mw_new(s.b->client, s.b->client->pd, 2);

	fast_reg(&s, 2, IOVA, 2 * PAGE);
	qp_bind(s.b->qp, 1, mw, s.mr, PAGE - 4, 8,
		SIMHCA_ACCESS_REMOTE_ATOMIC | SIMHCA_ACCESS_ZERO_BASED);
	expect(s.b->send_cq, 1, SUCCESS);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SGES(sge(s.a->mr, 0, 8)),
	     .remote_addr = 0, .rkey = mw->rkey, .compare_add = 1);
	expect_why(s.a->send_cq, 1, REM_INV_REQ_ERR, ATOMIC_UNALIGNED);
	assert_true(all_bytes(s.arena, PAGES * PAGE, 0));
}

static void a_valid_region_can_be_destroyed(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	fast_reg(&s, 4, IOVA, 4 * PAGE);
	assert_int_equal(0, mr_gone(s.mr));
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 8)),
	     .remote_addr = IOVA, .rkey = s.mr->rkey);
	expect_why(s.a->send_cq, 1, REM_ACCESS_ERR, KEY_UNKNOWN);
}

/* A datagram to many, each with the longest list of buffers, all of them in such a region. */
static void datagrams_to_many(void **state)
{
	enum { RECEIVERS = 8, EACH = 64 };
	struct setting s = make(*state, IBV_QPT_RC);
	struct options options = default_options(IBV_QPT_UD);
	union simhca_gid group = { .raw = { 0xff, 0x0e } };
	struct simhca_sge list[SIMHCA_MAX_SGE];
	struct client *client = s.b->client;
	struct side *sender, *receiver[RECEIVERS];

	options.max_recv_sge = SIMHCA_MAX_SGE;
	fast_reg(&s, PAGES, IOVA, PAGES * PAGE);
	sender = side_new(client, &options);
	qp_connect(sender->qp, 0, 0, &options);
	for (uint64_t i = 0; i < RECEIVERS; i++) {
		struct simhca_mcast_req req = { .lid = 0xc001, .gid = group };

		receiver[i] = side_new(client, &options);
		qp_connect(receiver[i]->qp, 0, 0, &options);
		req.qp = receiver[i]->qp->handle;
		assert_int_equal(0, simhca_attach_mcast(client->context, &req, NULL));
		for (uint64_t n = 0; n < SIMHCA_MAX_SGE; n++)
			list[n] = sge(s.mr, i * PAGE + n * EACH, EACH);
		qp_recv(receiver[i]->qp, i, list, SIMHCA_MAX_SGE);
	}
	fill(sender->mr->addr, 1000, 8);
	post(sender, .id = 1, .opcode = SIMHCA_WR_SEND, SGES(sge(sender->mr, 0, 1000)),
	     .av = { .dgid = group, .is_global = 1, .port_num = 1 }, .dest_qpn = SIMHCA_MCAST_QPN,
	     .qkey = options.qkey);
	expect(sender->send_cq, 1, SUCCESS);
	for (uint64_t i = 0; i < RECEIVERS; i++) {
		expect(receiver[i]->recv_cq, i, SUCCESS);
		for (uint64_t n = 0; n < 1000; n++)
			assert_int_equal(*byte_at(&s, i * PAGE + SIMHCA_GRH_BYTES + n),
					 sender->mr->addr[n]);
	}
	invalidate(&s); /* nothing is left that it would wait for */
}

static void on_unreliable_connections(void **state)
{
	struct setting s = make(*state, IBV_QPT_UC);

	fast_reg(&s, 4, IOVA, 4 * PAGE);
	memset(s.a->mr->addr, 0x55, 64);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 64)),
	     .remote_addr = IOVA, .rkey = s.mr->rkey);
	expect(s.a->send_cq, 1, SUCCESS);
	run_until_idle(*state);
	assert_true(all_bytes(byte_at(&s, 0), 64, 0x55));
	invalidate(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(commands),
		ON_ETHERNET(scattered_pages),
		ON_ETHERNET(local_use_in_order),
		ON_ETHERNET(long_lists),
		ON_ETHERNET(page_sizes),
		ON_ETHERNET(registrations_that_are_refused),
		ON_ETHERNET(registrations_just_inside),
		ON_ETHERNET(a_valid_region_is_not_registered_again),
		ON_ETHERNET(a_list_that_changes_is_refused),
		ON_ETHERNET(a_region_that_goes_is_not_registered),
		ON_ETHERNET(the_variant_is_the_work_requests),
		ON_ETHERNET(cycles_in_flight),
		ON_ETHERNET(the_list_may_be_used_again),
		ON_ETHERNET(zero_based),
		ON_ETHERNET(windows_over_pages),
		ON_ETHERNET(atomics_across_pages),
		ON_ETHERNET(a_valid_region_can_be_destroyed),
		ON_ETHERNET(datagrams_to_many),
		ON_ETHERNET(on_unreliable_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
