/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows: making, binding and losing them, and how they count against their region. */
#include "harness.h"
#include "memory/key.h"

#define BINDABLE (ALL_ACCESS | SIMHCA_ACCESS_MW_BIND)
#define REMOTE (ALL_ACCESS & ~SIMHCA_ACCESS_LOCAL_WRITE)

static struct pair *bindable_pair(struct world *world)
{
	struct options options = default_options(IBV_QPT_RC);

	options.mr_access = BINDABLE;
	return pair_new(world, &options);
}

static uint32_t bound_to(const struct mr *mr)
{
	return mpt_of(mr->client, mr->lkey)->bound;
}

static bool is_bound(const struct mw *mw)
{
	return mpt_of(mw->client, mw->rkey)->valid;
}

static void bind(struct side *side, struct mw *mw, uint64_t offset, uint64_t length)
{
	qp_bind(side->qp, 90, mw, side->mr, offset, length, REMOTE);
	assert_int_equal(expect(side->send_cq, 90, SUCCESS).opcode, SIMHCA_WC_BIND_MW);
}

/* a writes 8 bytes by this key of b's. */
static void write_by(struct pair *pair, uint64_t addr, uint32_t rkey)
{
	post(&pair->a, .id = 91, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = addr, .rkey = rkey);
}

static void works(struct pair *pair, uint64_t offset, uint64_t addr, uint32_t rkey)
{
	memset(pair->a.mr->addr, 0x44, 8);
	memset(pair->b.mr->addr + offset, 0, 8);
	write_by(pair, addr, rkey);
	expect(pair->a.send_cq, 91, SUCCESS);
	assert_true(all_bytes(pair->b.mr->addr + offset, 8, 0x44));
}

static void refused(struct pair *pair, uint64_t addr, uint32_t rkey, enum simhca_reason reason)
{
	write_by(pair, addr, rkey);
	expect_(pair->a.send_cq, 91, IBV_WC_REM_ACCESS_ERR, reason, __FILE__, __LINE__);
	run_until_idle(pair->a.world);
}

static void commands(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_alloc_mw_req req = { .pd = client->pd, .type = 1 };
	struct simhca_alloc_mw_reply reply, other;
	struct simhca_counts counts;
	struct simhca_why why = { "" };

	assert_int_equal(0, simhca_alloc_mw(client->context, &req, &reply, &why));
	req.type = 2;
	assert_int_equal(0, simhca_alloc_mw(client->context, &req, &other, &why));
	assert_int_not_equal(SIMHCA_KEY_INDEX(reply.rkey), SIMHCA_KEY_INDEX(other.rkey));
	simhca_context_counts(client->context, &counts);
	assert_int_equal(counts.mws, 2);
	assert_int_equal(counts.mrs, 0);
	assert_int_equal(-EBUSY, simhca_dealloc_pd(client->context, client->pd, &why));
	for (uint32_t type = 0; type < 5; type += 3) {
		req.type = type;
		assert_int_equal(-EINVAL, simhca_alloc_mw(client->context, &req, &reply, &why));
		assert_non_null(strstr(why.text, "window type"));
	}
	req = (struct simhca_alloc_mw_req){ .pd = 77, .type = 1 };
	assert_int_equal(-ENOENT, simhca_alloc_mw(client->context, &req, &reply, &why));
	assert_int_equal(-ENOENT, simhca_dealloc_mw(client->context, 77, &why));
	/* A window's handle is no region's. */
	assert_int_equal(-ENOENT, simhca_dereg_mr(client->context, other.handle, &why));
	assert_int_equal(0, simhca_dealloc_mw(client->context, 0, &why));
	assert_int_equal(0, simhca_dealloc_mw(client->context, 1, &why));
	simhca_context_counts(client->context, &counts);
	assert_int_equal(counts.mws, 0);
	assert_int_equal(0, simhca_dealloc_pd(client->context, client->pd, &why));
}

static void the_device_says_which_type(void **state)
{
	const uint64_t types = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

	(void)state;
	for (int type_2a = 0; type_2a < 2; type_2a++) {
		struct world *world = world_new(
			&(struct world_config){ .device = { .mw_type_2a = type_2a, .max_mw = 3 } });
		const struct simhca_device_attr *attr =
			&simhca_device_memory(world->device[0])->attr;
		struct client *client = client_new(world, 0);
		struct simhca_alloc_mw_req req = { .pd = client->pd, .type = 2 };
		struct simhca_alloc_mw_reply reply;
		struct simhca_why why = { "" };

		assert_int_equal(attr->max_mw, 3);
		assert_true(attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW);
		assert_true(attr->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
		assert_int_equal(attr->device_cap_flags & types,
				 type_2a ? IBV_DEVICE_MEM_WINDOW_TYPE_2A
					 : IBV_DEVICE_MEM_WINDOW_TYPE_2B);
		assert_int_equal(mpt_of(client, mw_new(client, client->pd, 2)->rkey)->state,
				 type_2a ? SIMHCA_MPT_MW_2A : SIMHCA_MPT_MW_2B);
		mw_new(client, client->pd, 1);
		mw_new(client, client->pd, 1);
		assert_int_equal(-ENOMEM, simhca_alloc_mw(client->context, &req, &reply, &why));
		world_free(world);
	}
}

/* The new key is known before the bind is posted, and each bind makes the last key stale. */
static void type_1_is_bound_again_and_again(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 1);
	uint32_t first = mw->rkey, last;

	for (uint64_t i = 1; i < 600; i++) {
		last = mw->rkey;
		bind(b, mw, 8 * i, 8);
		assert_int_equal(SIMHCA_KEY_INDEX(mw->rkey), SIMHCA_KEY_INDEX(first));
		assert_int_equal(SIMHCA_KEY_VARIANT(mw->rkey), (first + i) & 0xff);
		assert_int_equal(bound_to(b->mr), 1);
		works(pair, 8 * i, b->mr->iova + 8 * i, mw->rkey);
	}
	refused(pair, b->mr->iova + 8 * 599, last, SIMHCA_REASON_KEY_STALE);
}

static void length_0_unbinds_type_1(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 1);
	uint32_t last;

	for (int twice = 0; twice < 2; twice++) {
		bind(b, mw, 0, 64);
		last = mw->rkey;
		/* No region is needed, and a wrong one does not matter. */
		qp_bind(b->qp, 1, mw, twice ? b->mr : NULL, 1 << 20, 0, 0);
		expect(b->send_cq, 1, SUCCESS);
		assert_int_equal(bound_to(b->mr), 0);
		refused(pair, b->mr->iova, mw->rkey, SIMHCA_REASON_MW_NOT_BOUND);
		pair_reconnect(pair);
		refused(pair, b->mr->iova, last, SIMHCA_REASON_KEY_STALE);
		pair_reconnect(pair);
	}
	qp_bind(b->qp, 2, mw, NULL, 0, 0, 0); /* of one that is not bound */
	expect(b->send_cq, 2, SUCCESS);
	assert_int_equal(0, mr_gone(b->mr));
}

static void zero_based_windows(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;

	for (uint32_t type = 1; type <= 2; type++) {
		struct mw *mw = mw_new(b->client, b->client->pd, type);

		qp_bind(b->qp, 1, mw, b->mr, 800, 64, REMOTE | SIMHCA_ACCESS_ZERO_BASED);
		expect(b->send_cq, 1, SUCCESS);
		works(pair, 800, 0, mw->rkey);
		works(pair, 856, 56, mw->rkey);
		refused(pair, 57, mw->rkey, SIMHCA_REASON_KEY_PAST_END);
		mw_gone(mw);
		pair_reconnect(pair);
	}
}

/* Of a region that counts from 0 itself, and of one whose addresses are not where it lies. */
static void windows_count_as_their_region_does(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	uint8_t *addr = b->mr->addr;

	for (int zero = 0; zero < 2; zero++) {
		struct mr *mr = mr_over(b->client, b->client->pd, addr, 4096, 0x5000,
					BINDABLE | (zero ? SIMHCA_ACCESS_ZERO_BASED : 0));
		struct mw *mw = mw_new(b->client, b->client->pd, 2);

		mr->iova = zero ? 0 : 0x5000;
		qp_bind(b->qp, 1, mw, mr, 160, 16, REMOTE);
		expect(b->send_cq, 1, SUCCESS);
		works(pair, 168, mr->iova + 168, mw->rkey);
		refused(pair, mr->iova + 152, mw->rkey, SIMHCA_REASON_KEY_BELOW_START);
		mw_gone(mw);
		pair_reconnect(pair);
	}
}

/* ------------------------------------------------------------------------------ refusals */

struct bad_bind {
	const char *what;
	enum simhca_reason reason;
	void (*change)(struct wr *wr, struct side *side);
};

static void no_such_window(struct wr *wr, struct side *side)
{
	(void)side;
	wr->mw = 0xfff00;
}

static void region_as_window(struct wr *wr, struct side *side)
{
	wr->mw = side->mr->rkey;
}

static void window_of_other_pd(struct wr *wr, struct side *side)
{
	wr->mw = wr->key = mw_new(side->client, pd_new(side->client), 2)->rkey;
}

static void window_of_other_client(struct wr *wr, struct side *side)
{
	struct client *stranger = client_new(side->world, 1);

	wr->mw = wr->key = mw_new(stranger, stranger->pd, 2)->rkey;
}

static void type_1_as_type_2(struct wr *wr, struct side *side)
{
	wr->mw = wr->key = mw_new(side->client, side->client->pd, 1)->rkey;
}

static void type_2_as_type_1(struct wr *wr, struct side *side)
{
	(void)side;
	wr->mw_type = 1;
}

static void no_length(struct wr *wr, struct side *side)
{
	(void)side;
	wr->length = 0;
}

static void unknown_access(struct wr *wr, struct side *side)
{
	(void)side;
	wr->access |= SIMHCA_ACCESS_MW_BIND;
}

static void no_such_region(struct wr *wr, struct side *side)
{
	(void)side;
	wr->lkey = 0xfff00;
}

static void stale_region(struct wr *wr, struct side *side)
{
	(void)side;
	wr->lkey ^= 1;
}

static void window_as_region(struct wr *wr, struct side *side)
{
	(void)side;
	wr->lkey = wr->mw;
}

static void region_of_other_pd(struct wr *wr, struct side *side)
{
	wr->lkey = mr_over(side->client, pd_new(side->client), side->mr->addr, 4096, side->mr->iova,
			   BINDABLE)
			   ->lkey;
}

static void region_without_bind(struct wr *wr, struct side *side)
{
	wr->lkey = mr_over(side->client, side->client->pd, side->mr->addr, 4096, side->mr->iova,
			   ALL_ACCESS)
			   ->lkey;
}

static void region_without_write(struct wr *wr, struct side *side)
{
	wr->lkey = mr_over(side->client, side->client->pd, side->mr->addr, 4096, side->mr->iova,
			   SIMHCA_ACCESS_MW_BIND)
			   ->lkey;
	wr->access = SIMHCA_ACCESS_REMOTE_WRITE;
}

static void atomics_without_write(struct wr *wr, struct side *side)
{
	region_without_write(wr, side);
	wr->access = SIMHCA_ACCESS_REMOTE_ATOMIC;
}

static void free_region(struct wr *wr, struct side *side)
{
	wr->lkey = fast_mr_new(side->client, side->client->pd, 4)->lkey;
}

static void a_byte_below(struct wr *wr, struct side *side)
{
	wr->addr = side->mr->iova - 1;
}

static void a_byte_past(struct wr *wr, struct side *side)
{
	wr->addr = side->mr->iova + 1;
	wr->length = side->mr->length;
}

static void wraps(struct wr *wr, struct side *side)
{
	(void)side;
	wr->length = UINT64_MAX;
}

static const struct bad_bind bad_binds[] = {
	{ "no such window", SIMHCA_REASON_BIND_NO_WINDOW, no_such_window },
	{ "region as window", SIMHCA_REASON_BIND_NO_WINDOW, region_as_window },
	{ "window of other PD", SIMHCA_REASON_KEY_WRONG_PD, window_of_other_pd },
	{ "window of other client", SIMHCA_REASON_KEY_WRONG_PD, window_of_other_client },
	{ "type 1 as type 2", SIMHCA_REASON_BIND_WRONG_TYPE, type_1_as_type_2 },
	{ "type 2 as type 1", SIMHCA_REASON_BIND_WRONG_TYPE, type_2_as_type_1 },
	{ "no length", SIMHCA_REASON_BIND_NO_LENGTH, no_length },
	{ "unknown access", SIMHCA_REASON_BIND_BAD_ACCESS, unknown_access },
	{ "no such region", SIMHCA_REASON_KEY_UNKNOWN, no_such_region },
	{ "stale region", SIMHCA_REASON_KEY_STALE, stale_region },
	{ "window as region", SIMHCA_REASON_BIND_NO_REGION, window_as_region },
	{ "region of other PD", SIMHCA_REASON_KEY_WRONG_PD, region_of_other_pd },
	{ "region without MW_BIND", SIMHCA_REASON_MR_NO_MW_BIND, region_without_bind },
	{ "region without LOCAL_WRITE", SIMHCA_REASON_BIND_NEEDS_LOCAL_WRITE,
	  region_without_write },
	{ "atomics without LOCAL_WRITE", SIMHCA_REASON_BIND_NEEDS_LOCAL_WRITE,
	  atomics_without_write },
	{ "free fast-register region", SIMHCA_REASON_MR_NOT_VALID, free_region },
	{ "a byte below", SIMHCA_REASON_KEY_BELOW_START, a_byte_below },
	{ "a byte past", SIMHCA_REASON_KEY_PAST_END, a_byte_past },
	{ "wraps", SIMHCA_REASON_KEY_WRAPS, wraps },
};

/* A consumer chooses the low 8 bits of the key alone: the index is the window's, whatever it says.
 */
static void the_index_of_a_key_is_the_windows(void **state)
{
	static const uint32_t given[] = { 0x00000012, 0xffffff34, 0x80000056 };
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;

	for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
		struct mw *mw = mw_new(b->client, b->client->pd, 2);
		uint32_t key = (mw->rkey & ~0xffu) | (given[i] & 0xff);

		forget_log(*state);
		post(b, .id = i, .opcode = SIMHCA_WR_BIND_MW, .addr = b->mr->iova, .length = 64,
		     .mw = mw->rkey, .key = given[i], .lkey = b->mr->lkey, .access = REMOTE,
		     .mw_type = 2);
		expect(b->send_cq, i, SUCCESS);
		assert_int_equal(mpt_of(b->client, mw->rkey)->key, key);
		assert_int_equal(logged(*state, "that it was given"), 1);
		post(&pair->a, .id = 9, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
		     .remote_addr = b->mr->iova, .rkey = key);
		expect(pair->a.send_cq, 9, SUCCESS);
	}
}

static void binds_that_are_refused(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 2);

	for (size_t i = 0; i < ARRAY_SIZE(bad_binds); i++) {
		struct wr wr = {
			.id = i,
			.opcode = SIMHCA_WR_BIND_MW,
			.flags = SIMHCA_WQE_SIGNALED,
			.addr = b->mr->iova,
			.length = 64,
			.mw = mw->rkey,
			.key = simhca_key_next(mw->rkey),
			.lkey = b->mr->lkey,
			.access = REMOTE,
			.mw_type = 2,
		};

		print_message("[          ] %s\n", bad_binds[i].what);
		bad_binds[i].change(&wr, b);
		qp_post(b->qp, &wr);
		expect_(b->send_cq, i, IBV_WC_MW_BIND_ERR, bad_binds[i].reason, __FILE__, __LINE__);
		assert_int_equal(qp_state(b->qp), IBV_QPS_ERR);
		assert_false(is_bound(mw));
		assert_int_equal(mpt_of(b->client, mw->rkey)->key, mw->rkey);
		assert_int_equal(bound_to(b->mr), 0);
		pair_reconnect(pair);
	}
	/* What is not wrong: the same without a change, and reading needs no LOCAL_WRITE. */
	b->mr = mr_over(b->client, b->client->pd, b->mr->addr, 4096, b->mr->iova,
			SIMHCA_ACCESS_MW_BIND);
	qp_bind(b->qp, 1, mw, b->mr, 0, 4096,
		SIMHCA_ACCESS_REMOTE_READ | SIMHCA_ACCESS_LOCAL_WRITE);
	expect(b->send_cq, 1, SUCCESS);
}

static void datagram_qps_bind_nothing(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_BIND_MW, SIMHCA_WR_LOCAL_INV,
					   SIMHCA_WR_FAST_REG, SIMHCA_WR_SEND_WITH_INV };
	struct options options = default_options(IBV_QPT_UD);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct pair *pair = pair_new(*state, &options);

		post(&pair->a, .id = 1, .opcode = opcodes[i]);
		expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
	}
}

/* A second bind fails, and the first one stands. */
static void type_2_must_be_free(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 2);
	uint32_t rkey;

	bind(b, mw, 64, 64);
	rkey = mw->rkey;
	qp_bind(b->qp, 1, mw, b->mr, 0, 64, REMOTE);
	expect_why(b->send_cq, 1, MW_BIND_ERR, BIND_NOT_FREE);
	assert_true(is_bound(mw));
	assert_int_equal(mpt_of(b->client, rkey)->key, rkey);
	assert_int_equal(bound_to(b->mr), 1);
}

/* A type 1 window whose new bind is refused keeps the old one. */
static void a_refused_bind_changes_nothing(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 1);
	uint32_t rkey;

	bind(b, mw, 64, 64);
	rkey = mw->rkey;
	qp_bind(b->qp, 1, mw, b->mr, b->mr->length - 1, 2, REMOTE);
	expect_why(b->send_cq, 1, MW_BIND_ERR, KEY_PAST_END);
	pair_reconnect(pair);
	works(pair, 64, b->mr->iova + 64, rkey);
	/* The provider has counted on; the next bind names a key of its own, and works. */
	bind(b, mw, 0, 64);
	works(pair, 0, b->mr->iova, mw->rkey);
}

/* ---------------------------------------------------------------------------- accounting */

static int rereg(struct mr *mr, uint32_t flags)
{
	struct simhca_rereg_mr_req req = {
		.handle = mr->handle,
		.flags = flags,
		.addr = (uintptr_t)mr->addr,
		.length = mr->length,
		.iova = mr->iova,
		.pd = mr->client->pd,
		.access = BINDABLE,
	};
	struct simhca_reg_mr_reply reply;
	struct simhca_why why = { "" };

	return patiently(simhca_rereg_mr(mr->client->context, mr->client->mm, &req, &reply, &why));
}

static void windows_keep_their_region(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw[4];

	for (uint32_t i = 0; i < 4; i++) {
		mw[i] = mw_new(b->client, b->client->pd, 1 + i % 2);
		bind(b, mw[i], 8 * i, 8);
		assert_int_equal(bound_to(b->mr), i + 1);
	}
	for (uint32_t i = 0; i < 4; i++) {
		struct mpt_copy {
			uint64_t addr, length, iova;
		} before = { mpt_of(b->client, b->mr->lkey)->addr,
			     mpt_of(b->client, b->mr->lkey)->length,
			     mpt_of(b->client, b->mr->lkey)->iova };

		assert_int_equal(bound_to(b->mr), 4 - i);
		assert_int_equal(-EBUSY, mr_gone(b->mr));
		for (uint32_t flags = 1; flags < 8; flags++)
			assert_int_equal(-EBUSY, rereg(b->mr, flags));
		assert_int_equal(mpt_of(b->client, b->mr->lkey)->state, SIMHCA_MPT_MR);
		assert_int_equal(mpt_of(b->client, b->mr->lkey)->addr, before.addr);
		assert_int_equal(mpt_of(b->client, b->mr->lkey)->length, before.length);
		assert_int_equal(mpt_of(b->client, b->mr->lkey)->iova, before.iova);
		works(pair, 512, b->mr->iova + 512, b->mr->rkey);
		works(pair, 24, b->mr->iova + 24, mw[3]->rkey);
		switch (i) {
		case 0: /* unbound */
			qp_bind(b->qp, 1, mw[0], NULL, 0, 0, 0);
			expect(b->send_cq, 1, SUCCESS);
			break;
		case 1: /* invalidated */
			qp_local_inv(b->qp, 1, mw[1]->rkey);
			expect(b->send_cq, 1, SUCCESS);
			break;
		case 2: /* destroyed while bound */
			mw_gone(mw[2]);
			break;
		case 3: /* its QP is reset */
			pair_reconnect(pair);
			break;
		}
	}
	assert_int_equal(bound_to(b->mr), 0);
	assert_int_equal(0, rereg(b->mr, 7));
	assert_int_equal(0, mr_gone(b->mr));
}

static void a_new_bind_moves_the_count(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mr *other = mr_new(b->client, 4096, BINDABLE);
	struct mw *mw = mw_new(b->client, b->client->pd, 1);

	bind(b, mw, 0, 8);
	bind(b, mw, 0, 8);
	assert_int_equal(bound_to(b->mr), 1);
	qp_bind(b->qp, 1, mw, other, 0, 8, REMOTE);
	expect(b->send_cq, 1, SUCCESS);
	assert_int_equal(bound_to(b->mr), 0);
	assert_int_equal(bound_to(other), 1);
	assert_int_equal(0, mr_gone(b->mr));
	assert_int_equal(-EBUSY, mr_gone(other));
}

static void a_window_that_is_destroyed_is_revoked(void **state)
{
	for (uint32_t type = 1; type <= 2; type++) {
		struct pair *pair = bindable_pair(*state);
		struct side *b = &pair->b;
		struct mw *mw = mw_new(b->client, b->client->pd, type);

		bind(b, mw, 0, 64);
		works(pair, 0, b->mr->iova, mw->rkey);
		mw_gone(mw);
		refused(pair, b->mr->iova, mw->rkey, SIMHCA_REASON_KEY_UNKNOWN);
	}
}

/* Type 2 is free again when its QP goes; type 1 belongs to the PD and stays. ERR alone frees none.
 */
static void windows_when_their_qp_goes(void **state)
{
	for (int destroy = 0; destroy < 2; destroy++) {
		struct pair *pair = bindable_pair(*state);
		struct side *b = &pair->b;
		struct mw *one = mw_new(b->client, b->client->pd, 1);
		struct mw *two = mw_new(b->client, b->client->pd, 2);
		struct mw *others = mw_new(b->client, b->client->pd, 2);
		struct side *other = side_new(b->client, &b->options);

		qp_connect(other->qp, 0, pair->a.qp->qpn, &b->options);
		bind(b, one, 0, 64);
		bind(b, two, 64, 64);
		qp_bind(other->qp, 1, others, b->mr, 0, 64, REMOTE);
		expect(other->send_cq, 1, SUCCESS);
		assert_int_equal(bound_to(b->mr), 3);
		assert_int_equal(mpt_of(b->client, two->rkey)->qpn, b->qp->qpn);

		assert_int_equal(0, qp_move(b->qp, IBV_QPS_ERR));
		assert_true(is_bound(one) && is_bound(two) && is_bound(others));
		if (destroy)
			assert_int_equal(0, patiently(simhca_destroy_qp(b->client->context,
									b->qp->handle, NULL)));
		else
			assert_int_equal(0, qp_move(b->qp, IBV_QPS_RESET));
		assert_true(is_bound(one) && is_bound(others));
		assert_false(is_bound(two));
		assert_int_equal(bound_to(b->mr), 2);
		assert_int_equal(mpt_of(b->client, two->rkey)->qpn, 0);
		/* It can be bound again, by another QP. */
		qp_bind(other->qp, 2, two, b->mr, 0, 64, REMOTE);
		expect(other->send_cq, 2, SUCCESS);
	}
}

/* A client that dies leaves nothing behind, bound or not. */
static void nothing_stays_of_a_client(void **state)
{
	struct world *world = *state;
	struct simhca_counts counts;

	for (int round = 0; round < 3; round++) {
		struct pair *pair = bindable_pair(world);
		struct side *b = &pair->b;
		uint32_t keys[8];

		for (uint32_t i = 0; i < 8; i++) {
			struct mw *mw = mw_new(b->client, b->client->pd, 1 + i % 2);

			if (i < 6)
				bind(b, mw, 0, 64);
			keys[i] = mw->rkey;
		}
		fast_mr_new(b->client, b->client->pd, 100);
		simhca_context_counts(b->client->context, &counts);
		assert_int_equal(counts.mws, 8);
		client_gone(b->client);
		for (uint32_t i = 0; i < 8; i++)
			assert_int_equal(mpt_of(b->client, keys[i])->state, SIMHCA_MPT_FREE);
		assert_int_equal(mpt_of(b->client, b->mr->lkey)->state, SIMHCA_MPT_FREE);
	}
	assert_int_equal(world->device[1]->alive[SIMHCA_OBJ_MW], 0);
	assert_int_equal(world->device[1]->alive[SIMHCA_OBJ_MR], 0);
}

/* -------------------------------------------------------------------------------- order */

/* Each is in force for the next one of the queue, posted with it. */
static void binds_take_effect_in_order(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *one = mw_new(b->client, b->client->pd, 1);
	struct mw *two = mw_new(b->client, b->client->pd, 2);

	for (uint64_t i = 0; i < 15; i++) {
		qp_bind(b->qp, 4 * i, one, b->mr, 8 * i, 8, REMOTE);
		qp_bind(b->qp, 4 * i + 1, two, b->mr, 8 * i, 8, REMOTE);
		qp_local_inv(b->qp, 4 * i + 2, two->rkey);
		qp_bind(b->qp, 4 * i + 3, one, NULL, 0, 0, 0);
	}
	for (uint64_t i = 0; i < 60; i++)
		expect(b->send_cq, i, SUCCESS);
	assert_int_equal(bound_to(b->mr), 0);
}

/* An access by a window, as an engine has it under way. */
static void begin_access(struct side *side, uint32_t rkey, struct simhca_worker *worker)
{
	struct simhca_device *device = side->world->device[side->client->device_index];
	struct simhca_key_use use = {
		.worker = worker,
		.device = device,
		.pd = mpt_of(side->client, rkey)->pd,
		.qpn = side->qp->qpn,
		.access = SIMHCA_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct simhca_sgl sgl;

	sgl.count = 0;
	assert_int_equal(SIMHCA_REASON_NONE, simhca_translate(&use, rkey, side->mr->iova, 8, &sgl));
	assert_int_equal(sgl.count, 1);
}

/* A bind that revokes completes when no access by the old key is under way; none starts before. */
static void a_bind_waits_for_accesses(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 1);
	struct simhca_worker *engine = world_alloc(*state, sizeof(*engine));
	uint32_t old;

	bind(b, mw, 0, 64);
	old = mw->rkey;
	begin_access(b, old, engine);
	qp_bind(b->qp, 1, mw, b->mr, 64, 64, REMOTE);
	run_until_idle(*state);
	expect_none(b->send_cq);
	advance(*state, 100 * MSEC);
	expect_none(b->send_cq);
	refused(pair, b->mr->iova, old, SIMHCA_REASON_MW_NOT_BOUND);
	/* The QP failed by that; what it waited for ends with it, and the key stays void. */
	expect_why(b->send_cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(bound_to(b->mr), 0);

	simhca_key_release(engine, 0);
	pair_reconnect(pair);
	bind(b, mw, 64, 64);
	works(pair, 64, b->mr->iova + 64, mw->rkey);
}

static void a_bind_completes_after_the_last_access(void **state)
{
	struct pair *pair = bindable_pair(*state);
	struct side *b = &pair->b;
	struct mw *mw = mw_new(b->client, b->client->pd, 1);
	struct simhca_worker *engines = world_alloc(*state, 2 * sizeof(*engines));

	bind(b, mw, 0, 64);
	begin_access(b, mw->rkey, &engines[0]);
	begin_access(b, mw->rkey, &engines[1]);
	qp_bind(b->qp, 1, mw, b->mr, 64, 64, REMOTE);
	advance(*state, MSEC);
	simhca_key_release(&engines[0], 0);
	advance(*state, MSEC);
	expect_none(b->send_cq);
	simhca_key_release(&engines[1], 0);
	advance(*state, 10 * MSEC);
	expect(b->send_cq, 1, SUCCESS);
	works(pair, 64, b->mr->iova + 64, mw->rkey);
	assert_int_equal(bound_to(b->mr), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(commands),
		cmocka_unit_test(the_device_says_which_type),
		ON_ETHERNET(type_1_is_bound_again_and_again),
		ON_ETHERNET(length_0_unbinds_type_1),
		ON_ETHERNET(zero_based_windows),
		ON_ETHERNET(windows_count_as_their_region_does),
		ON_ETHERNET(the_index_of_a_key_is_the_windows),
		ON_INFINIBAND(the_index_of_a_key_is_the_windows),
		ON_ETHERNET(binds_that_are_refused),
		ON_INFINIBAND(binds_that_are_refused),
		ON_ETHERNET(datagram_qps_bind_nothing),
		ON_ETHERNET(type_2_must_be_free),
		ON_ETHERNET(a_refused_bind_changes_nothing),
		ON_ETHERNET(windows_keep_their_region),
		ON_ETHERNET(a_new_bind_moves_the_count),
		ON_ETHERNET(a_window_that_is_destroyed_is_revoked),
		ON_ETHERNET(windows_when_their_qp_goes),
		ON_ETHERNET(nothing_stays_of_a_client),
		ON_ETHERNET(binds_take_effect_in_order),
		ON_ETHERNET(a_bind_waits_for_accesses),
		ON_ETHERNET(a_bind_completes_after_the_last_access),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
