/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Atomics on regions that a program on the fast path has mapped: one instruction, whoever carries them,
 * and what is not one.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "dm_scene.h"
#include "mapped_scene.h"

#define PAGE 4096u

/* One of 8 bytes, whose result or, of an atomic write, value is at the beginning of the QP's own region. */
static void put_atomic(struct pair *pair, const struct mr *to, uint8_t opcode, uint64_t compare_add,
		       uint64_t swap)
{
	struct simhca_sge own = sge(pair->a.mr, 0, 8);

	qp_put(pair->a.qp, &(struct wr){ .opcode = opcode,
					 .flags = SIGNALED,
					 .sges = &own,
					 .num_sge = 1,
					 .remote_addr = to->iova,
					 .rkey = to->rkey,
					 .compare_add = compare_add,
					 .swap = swap });
}

static void is_done(struct simhca_step *step, struct pair *pair, bool by_device)
{
	if (!by_device)
		assert_true(mapped_carry(step, &pair->a));
	else
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	fastpath_completes(pair->a.send_cq);
}

/* By whom each of them is done does not matter: one instruction, for which nobody is waited. */
static void atomics_in_a_file(void **state)
{
	for (int by_device = 0; by_device < 2; by_device++) {
		struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
		struct pair *other = fastpath_pair_of(*state, IBV_QPT_RC);
		struct simhca_step step = fastpath_attach(&pair->a);
		struct simhca_step others = fastpath_attach(&other->a);
		struct mr *file = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
		uint64_t *word = (uint64_t *)file->addr, *own = (uint64_t *)pair->a.mr->addr;
		struct simhca_step_regions regions = { 0 };
		uint64_t before = *word = 5;

		step.regions = &regions;
		mapped_forbid_calls(&step);
		/* As if another program's step were under way. */
		atomic_store(&others.fastpath->guard, 1);
		for (size_t i = 0; i < FASTPATH_ATOMICS; i++) {
			const struct fastpath_atomic *row = &fastpath_atomics[i];

			put_atomic(pair, file, row->opcode, row->compare_add, row->swap);
			is_done(&step, pair, by_device);
			assert_true(*word == row->leaves && *own == before);
			before = row->leaves;
		}
		*own = 1234567;
		put_atomic(pair, file, SIMHCA_WR_ATOMIC_WRITE, 0, 0);
		is_done(&step, pair, by_device);
		assert_int_equal(1234567, *word);
		assert_true(all_bytes(file->addr + 8, 64, 0));
		assert_int_equal(step.fastpath->messages, by_device ? 0 : FASTPATH_ATOMICS + 1);
		/* Writes are still the program's, and so is what follows. */
		fastpath_write(pair, 100, file);
		put_atomic(pair, file, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 0, 0);
		assert_true(mapped_carry(&step, &pair->a));
		fastpath_completes(pair->a.send_cq);
		fastpath_completes(pair->a.send_cq);
		atomic_store(&others.fastpath->guard, 2);
		check_works(pair);
		fastpath_detach(&step);
		fastpath_detach(&others);
	}
}

/*
 * One region has a file that could shrink when it was made, so an atomic there takes the device more than
 * an instruction. The first one waits for steps that are under way; after that writes to that file are the
 * device's, whoever has mapped which part of it, and so are atomics, and reads are not.
 */
static void atomics_that_take_longer(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct pair *other = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach(&pair->a), others = fastpath_attach(&other->a);
	struct mr own = *pair->a.mr, *early, *file, *elsewhere;
	struct simhca_step_regions regions = { 0 };
	int fd = mapped_memfd(MAPPED_BYTES + 5 * PAGE, 0);
	uint64_t *word;

	early = mapped_mr_of(pair->b.client, fd, ALL_ACCESS);
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	file = mapped_mr_of(pair->b.client, fd, ALL_ACCESS);
	close(fd);
	elsewhere = mapped_mr(pair->b.client, F_SEAL_SHRINK, ALL_ACCESS);
	word = (uint64_t *)file->addr;
	step.regions = &regions;
	memset(pair->a.mr->addr, 0, 100);
	fastpath_write(pair, 8, file);
	fastpath_write(pair, 8, elsewhere);
	assert_true(mapped_carry(&step, &pair->a));
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->a.send_cq);
	put_atomic(pair, early, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	assert_false(mapped_carry(&step, &pair->a));
	/* As if another program's step were under way. */
	atomic_store(&others.fastpath->guard, 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	assert_int_equal(0, *word);
	atomic_store(&others.fastpath->guard, 2);
	advance(*state, SEC);
	fastpath_completes(pair->a.send_cq);
	assert_int_equal(1, *word);
	fastpath_write(pair, 8, file);
	assert_false(mapped_carry(&step, &pair->a));
	is_done(NULL, pair, true);
	put_atomic(pair, file, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 5, 0);
	assert_false(mapped_carry(&step, &pair->a));
	is_done(NULL, pair, true);
	assert_int_equal(*word, 5 + *(uint64_t *)pair->a.mr->addr);
	/* To another file it goes on, and it reads. */
	fastpath_write(pair, 8, elsewhere);
	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_RDMA_READ,
					 .flags = SIGNALED,
					 .sges = &(struct simhca_sge){ own.iova, 8, own.lkey },
					 .num_sge = 1,
					 .remote_addr = file->iova,
					 .rkey = file->rkey });
	put_atomic(pair, elsewhere, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	assert_true(mapped_carry(&step, &pair->a));
	for (int i = 0; i < 3; i++)
		fastpath_completes(pair->a.send_cq);
	fastpath_detach(&step);
	fastpath_detach(&others);
}

/* On-chip memory may be registered from any byte on: what does not lie as a word does takes longer. */
static void atomics_in_on_chip_memory(void **state)
{
	for (uint64_t offset = 0; offset < 12; offset += 4) {
		struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
		struct simhca_step step = fastpath_attach(&pair->a);
		struct mr mr = dm_mr_new(pair->b.client, dm_new(pair->b.client, PAGE), offset, 64);
		struct simhca_step_regions regions = { 0 };
		uint64_t value = 40;

		step.regions = &regions;
		memcpy(mr.addr + 8, &value, sizeof(value));
		mr.iova += 8;
		put_atomic(pair, &mr, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 2, 0);
		assert_int_equal(mapped_carry(&step, &pair->a), !(offset % 8));
		if (offset % 8)
			is_done(NULL, pair, true);
		else
			fastpath_completes(pair->a.send_cq);
		memcpy(&value, mr.addr + 8, sizeof(value));
		assert_int_equal(42, value);
		fastpath_detach(&step);
	}
}

/* An atomic is done or it is not, and the device does the next one. */
static void killed_in_an_atomic(void **state)
{
	bool killed = true, before = false, after = false;
	unsigned int store;

	for (store = 1; killed; store += STORE_STEP) {
		struct simhca_step_regions regions = { 0 };
		struct pair *pair, *other;
		struct simhca_step step;
		uint64_t *word, old;
		int fd;

		assert_true(store < MOST_STORES);
		fastpath_setup(state);
		pair = fastpath_rc_pair(*state, false);
		other = fastpath_rc_pair(*state, false);
		fd = mapped_memfd(MAPPED_BYTES + 5 * PAGE, F_SEAL_SHRINK);
		pair->b.mr = mapped_mr_of(pair->b.client, fd, ALL_ACCESS);
		other->b.mr = mapped_mr_of(other->b.client, fd, ALL_ACCESS);
		close(fd);
		word = (uint64_t *)pair->b.mr->addr;
		step = fastpath_attach(&pair->a);
		step.regions = &regions;
		regions.wanted.key = pair->b.mr->rkey;
		mapped_map_wanted(&step, &pair->a);
		put_atomic(pair, pair->b.mr, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		killed = fastpath_killed_at(&step, store);
		client_gone(pair->a.client);
		assert_int_equal(pair->b.qp->state->resp_owner.holder, 0);
		old = *word;
		assert_true(old <= 1 && (killed || old));
		before |= killed && !old;
		after |= killed && old;
		put_atomic(other, other->b.mr, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
		is_done(NULL, other, true);
		assert_int_equal(old + 1, *word);
		fastpath_detach(&step);
		teardown(state);
	}
	assert_true(STORE_STEP > 1 || (before && after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(atomics_in_a_file),
		HERE(atomics_that_take_longer),
		HERE(atomics_in_on_chip_memory),
		cmocka_unit_test(killed_in_an_atomic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
