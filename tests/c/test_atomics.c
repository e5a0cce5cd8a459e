/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* COMPARE AND SWAP, FETCH AND ADD: what they do, return and refuse; and fences around them. */
#include "dma/dma.h"
#include "midway.h"

static void post_atomic(struct side *side, uint64_t id, uint8_t opcode, uint64_t remote,
			uint64_t compare_add, uint64_t swap)
{
	post(side, .id = id, .opcode = opcode, SGES(sge(side->mr, 8, 8)), .remote_addr = remote,
	     .rkey = side->peer->mr->rkey, .compare_add = compare_add, .swap = swap);
}

static uint64_t result(struct pair *pair)
{
	return *(uint64_t *)(pair->a.mr->addr + 8);
}

static void fetch_and_add_adds(void **state)
{
	static const uint64_t adds[] = { 0, 1, 0xffffffff, 1ull << 40, UINT64_MAX, 12345678901 };
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *target = (uint64_t *)(pair->b.mr->addr + 16);
	uint64_t sum = *target = 0x1122334455667788;

	for (size_t i = 0; i < ARRAY_SIZE(adds); i++) {
		struct simhca_cqe cqe;

		post_atomic(&pair->a, i, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)target, adds[i],
			    77);
		cqe = expect(pair->a.send_cq, i, SUCCESS);
		assert_int_equal(cqe.opcode, IBV_WC_FETCH_ADD);
		assert_int_equal(cqe.byte_len, 8);
		assert_true(result(pair) == sum);
		sum += adds[i];
		assert_true(*target == sum);
	}
	assert_true(all_bytes(pair->a.mr->addr, 8, 0));
	assert_true(all_bytes(pair->a.mr->addr + 16, 64, 0));
	assert_true(all_bytes(pair->b.mr->addr, 16, 0));
	assert_true(all_bytes(pair->b.mr->addr + 24, 64, 0));
}

static void compare_and_swap_swaps_if_equal(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *target = (uint64_t *)pair->b.mr->addr;
	struct simhca_cqe cqe;

	*target = 5;
	post_atomic(&pair->a, 1, SIMHCA_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)target, 5, UINT64_MAX);
	cqe = expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(cqe.opcode, IBV_WC_COMP_SWAP);
	assert_true(result(pair) == 5 && *target == UINT64_MAX);
	post_atomic(&pair->a, 2, SIMHCA_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)target,
		    UINT64_MAX ^ 1ull << 63, 9);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(result(pair) == UINT64_MAX && *target == UINT64_MAX);
	post_atomic(&pair->a, 3, SIMHCA_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)target, UINT64_MAX, 0);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(result(pair) == UINT64_MAX && *target == 0);
}

static int beside; /* what somebody who writes is told */

static void try_to_write(void *arg)
{
	pthread_rwlock_t *lock = arg;

	beside = pthread_rwlock_tryrdlock(lock);
	if (!beside)
		pthread_rwlock_unlock(lock);
}

/* Between reading and writing: that is how all that the device writes there is kept off. */
static void nobody_writes_in_the_middle(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	need_process_vm();
	pair->b.client->mm->kind = SIMHCA_MM_PROCESS_VM;
	in_the_middle(try_to_write, &pair->b.client->mm->atomicity->lock);
	post_atomic(&pair->a, 1, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, pair->b.mr->iova, 5, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_null(midway);
	assert_int_equal(beside, EBUSY);
	assert_int_equal(*(uint64_t *)pair->b.mr->addr, 5);
}

/* The result may be scattered over several SGEs. */
static void results_scatter(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *target = (uint64_t *)pair->b.mr->addr;
	uint8_t *to = pair->a.mr->addr;

	*target = 0x8877665544332211;
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
	     SGES(sge(pair->a.mr, 1, 3), sge(pair->a.mr, 100, 5)), .remote_addr = (uintptr_t)target,
	     .rkey = pair->b.mr->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_memory_equal(to + 1, "\x11\x22\x33", 3);
	assert_memory_equal(to + 100, "\x44\x55\x66\x77\x88", 5);
}

static void an_unaligned_address_is_refused(void **state)
{
	for (uint64_t off = 1; off < 8; off++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair = pair_new(*state, &options);

		memset(pair->b.mr->addr, 0x42, 64);
		post_atomic(&pair->a, 1, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, pair->b.mr->iova + off, 1,
			    0);
		expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, ATOMIC_UNALIGNED);
		assert_true(all_bytes(pair->b.mr->addr, 64, 0x42));
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_REQ_ERR), 1);
	}
}

static void a_result_buffer_of_another_size_is_refused(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 4, 7, 9, 16 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair = pair_new(*state, &options);

		memset(pair->b.mr->addr, 0x42, 64);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
		     SGES(sge(pair->a.mr, 0, sizes[i])), .remote_addr = pair->b.mr->iova,
		     .rkey = pair->b.mr->rkey);
		expect_why(pair->a.send_cq, 1, LOC_LEN_ERR, ATOMIC_BAD_LENGTH);
		assert_true(all_bytes(pair->b.mr->addr, 64, 0x42));
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	}
}

/* Many QPs add to one counter: each value is returned once. */
static void nobody_gets_the_same_ticket(void **state)
{
	enum { QPS = 4, EACH = 60 };
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair[QPS];
	struct mr *counter;
	bool seen[QPS * EACH] = { false };

	options.same_device = true;
	for (int i = 0; i < QPS; i++)
		pair[i] = pair_new(*state, &options);
	counter = pair[0]->b.mr;
	for (int i = 1; i < QPS; i++)
		pair[i]->b.mr = mr_over(pair[i]->b.client, pair[i]->b.client->pd, counter->addr,
					counter->length, counter->iova, ALL_ACCESS);
	for (uint32_t n = 0; n < EACH; n++)
		for (int i = 0; i < QPS; i++)
			post(&pair[i]->a, .id = n, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
			     .compare_add = 1, SGES(sge(pair[i]->a.mr, n * 8, 8)),
			     .remote_addr = counter->iova, .rkey = pair[i]->b.mr->rkey);
	for (int i = 0; i < QPS; i++) {
		for (uint32_t n = 0; n < EACH; n++) {
			uint64_t cqe_index;

			expect(pair[i]->a.send_cq, n, SUCCESS);
			cqe_index = ((uint64_t *)pair[i]->a.mr->addr)[n];
			assert_true(cqe_index < QPS * EACH);
			assert_false(seen[cqe_index]);
			seen[cqe_index] = true;
		}
	}
	assert_int_equal(*(uint64_t *)counter->addr, QPS * EACH);
}

/* A fenced request sees the data of the reads and atomics before it. */
static void a_fence_waits_for_reads_and_atomics(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *a = (uint64_t *)pair->a.mr->addr, *b = (uint64_t *)pair->b.mr->addr;

	for (uint64_t i = 0; i < 20; i++) {
		b[0] = 1000 + i;
		b[1] = i;
		b[5] = 0;
		rdma_read(&pair->a, 1, 0, 8, 0);
		post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .also = SIMHCA_WQE_FENCE,
		     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova + 40,
		     .rkey = pair->b.mr->rkey);
		post(&pair->a, .id = 3, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		     SGES(sge(pair->a.mr, 8, 8)), .compare_add = 1,
		     .remote_addr = pair->b.mr->iova + 8, .rkey = pair->b.mr->rkey);
		post(&pair->a, .id = 4, .opcode = SIMHCA_WR_RDMA_WRITE, .also = SIMHCA_WQE_FENCE,
		     SGES(sge(pair->a.mr, 8, 8)), .remote_addr = pair->b.mr->iova + 48,
		     .rkey = pair->b.mr->rkey);
		for (uint64_t id = 1; id <= 4; id++)
			expect(pair->a.send_cq, id, SUCCESS);
		assert_int_equal(a[0], 1000 + i);
		assert_int_equal(b[5], 1000 + i);
		assert_int_equal(b[6], i);
		assert_int_equal(b[1], i + 1);
	}
}

/* An atomic write, of the value in the request, of inline data or of an SGE. */
static void atomic_writes(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *target = (uint64_t *)(pair->b.mr->addr + 16);
	const uint64_t inline_value = 0x2222222222222222;
	uint64_t *local = (uint64_t *)pair->a.mr->addr;
	struct simhca_cqe cqe;

	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = (uintptr_t)target,
	     .rkey = pair->b.mr->rkey, .swap = 0x1111111111111111);
	cqe = expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(cqe.opcode, SIMHCA_WC_ATOMIC_WRITE);
	assert_int_equal(cqe.byte_len, 8);
	assert_true(*target == 0x1111111111111111);
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = (uintptr_t)target,
	     .rkey = pair->b.mr->rkey, .inline_data = &inline_value, .inline_len = 8);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(*target == inline_value);
	local[3] = 0x3333333333333333;
	post(&pair->a, .id = 3, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = (uintptr_t)target,
	     .rkey = pair->b.mr->rkey, SGES(sge(pair->a.mr, 24, 4), sge(pair->a.mr, 28, 4)));
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(*target == local[3]);
	assert_true(all_bytes(pair->b.mr->addr, 16, 0));
	assert_true(all_bytes(pair->b.mr->addr + 24, 64, 0));
}

static void atomic_writes_that_are_refused(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t target = pair->b.mr->iova;

	for (unsigned int i = 1; i < 8; i++) {
		post(&pair->a, .id = i, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = target + i,
		     .rkey = pair->b.mr->rkey);
		expect_why(pair->a.send_cq, i, REM_INV_REQ_ERR, ATOMIC_UNALIGNED);
		pair_reconnect(pair);
	}
	for (unsigned int length = 0; length < 17; length++) {
		if (length == 8)
			continue;
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = target,
		     .rkey = pair->b.mr->rkey, SGES(sge(pair->a.mr, 0, length)));
		expect_why(pair->a.send_cq, 1, LOC_LEN_ERR, ATOMIC_BAD_LENGTH);
		pair_reconnect(pair);
	}
	assert_true(all_bytes(pair->b.mr->addr, 64, 0));
}

/* It is a write to the rights, and an atomic to the resources. */
static void what_atomic_writes_need(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.access = options.mr_access = SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE;
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);

	options.mr_access = ALL_ACCESS & ~SIMHCA_ACCESS_REMOTE_WRITE;
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect_why(pair->a.send_cq, 1, REM_ACCESS_ERR, MR_NO_REMOTE_WRITE);

	options = default_options(IBV_QPT_RC);
	options.access = ALL_ACCESS & ~SIMHCA_ACCESS_REMOTE_WRITE;
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, QP_NO_REMOTE_WRITE);

	options = default_options(IBV_QPT_RC);
	options.max_rd_atomic = 0;
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, READ_NOT_ENABLED);

	options = default_options(IBV_QPT_RC);
	options.max_dest_rd_atomic = 0;
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, RESP_NO_RD_ATOMIC);
	assert_true(all_bytes(pair->b.mr->addr, 64, 0));

	options = default_options(IBV_QPT_UC);
	pair = pair_new(*state, &options);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(fetch_and_add_adds),
		ON_ETHERNET(compare_and_swap_swaps_if_equal),
		ON_ETHERNET(nobody_writes_in_the_middle),
		ON_ETHERNET(results_scatter),
		ON_ETHERNET(an_unaligned_address_is_refused),
		ON_ETHERNET(a_result_buffer_of_another_size_is_refused),
		ON_ETHERNET(nobody_gets_the_same_ticket),
		ON_ETHERNET(a_fence_waits_for_reads_and_atomics),
		ON_ETHERNET(atomic_writes),
		ON_ETHERNET(atomic_writes_that_are_refused),
		ON_ETHERNET(what_atomic_writes_need),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
