/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Claims on the WQEs of an SRQ (libsimhca/queue/srq_claim.h). */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "harness.h"
#include "queue/srq_claim.h"

#define ENTRIES 8u

static struct simhca_srq_mem mem;
static struct simhca_recv_wqe ring[ENTRIES];
static const struct simhca_srq_view srq = {
	.mem = &mem, .ring = (char *)ring, .entries = ENTRIES, .stride = sizeof(ring[0])
};

static void empty_at(uint32_t index)
{
	memset(&mem, 0, sizeof(mem));
	mem.pi = index;
	mem.head = index;
}

static bool claim(uint32_t number, uint32_t *index)
{
	uint64_t head;
	int none;

	while (!(none = simhca_srq_look(&srq, &head))) {
		*index = simhca_srq_ci(head);
		if (simhca_srq_claim(&srq, head, number))
			return true;
	}
	if (none > 0)
		abort();
	return false;
}

/* Of each the latest is known, whoever came after it, and across the wrap of the index. */
static void the_latest_of_each(void **state)
{
	const uint32_t starts[] = { 0, 1u << 31, UINT32_MAX - 2 };
	uint32_t index;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		const uint32_t start = starts[i];

		empty_at(start);
		mem.pi = start + 6;
		assert_true(claim(1, &index) && index == start);
		assert_int_equal(simhca_srq_claimed(&srq, 1), start + 1);
		assert_true(claim(1, &index) && claim(2, &index));
		assert_int_equal(simhca_srq_claimed(&srq, 1), start + 2);
		assert_int_equal(simhca_srq_claimed(&srq, 2), start + 3);
		assert_true(claim(0, &index)); /* the device's for another QP */
		assert_int_equal(simhca_srq_claimed(&srq, 2), start + 3);
		assert_true(claim(SIMHCA_SRQ_CLAIMANTS, &index) && claim(1, &index));
		assert_int_equal(index, start + 5);
		assert_int_equal(simhca_srq_claimed(&srq, SIMHCA_SRQ_CLAIMANTS), start + 5);
		assert_int_equal(simhca_srq_claimed(&srq, 1), start + 6);
		assert_false(claim(1, &index));
	}
}

/* Who was held up before the note has nothing to say any more. */
static void a_late_note(void **state)
{
	uint32_t index;
	uint64_t old;

	(void)state;
	empty_at(0);
	mem.pi = 8;
	assert_true(claim(1, &index));
	old = mem.head;
	assert_true(claim(2, &index) && claim(1, &index) && claim(2, &index));
	assert_false(simhca_srq_note(&srq, old));
	assert_int_equal(simhca_srq_claimed(&srq, 1), 3);
	assert_false(simhca_srq_claim(&srq, old, 3));
	assert_int_equal(simhca_srq_claimed(&srq, 3), 0);
	/* Nor is there a note for who cannot be. */
	assert_true(simhca_srq_note(&srq, (uint64_t)(SIMHCA_SRQ_CLAIMANTS + 1) << 32 | 8));
	assert_int_equal(simhca_srq_claimed(&srq, 1), 3);
}

#define PAGE 4096u

static struct simhca_srq_mem *apart; /* head lies in the page after pi's */
static int moves;		     /* of others, while one looks */

/* Whoever loads pi is held up here, until others have gone round the ring. */
static void move_on(int signal)
{
	(void)signal;
	mprotect((char *)apart + offsetof(struct simhca_srq_mem, head) - PAGE, PAGE,
		 PROT_READ | PROT_WRITE);
	apart->pi += ENTRIES + 1;
	apart->head += moves ? ENTRIES + 1 : 0;
}

static int look_while_it_moves(uint64_t *head)
{
	struct simhca_srq_view view = srq;

	view.mem = apart;
	mprotect((char *)apart + offsetof(struct simhca_srq_mem, head) - PAGE, PAGE, PROT_NONE);
	return simhca_srq_look(&view, head);
}

/* What others have claimed and the client has posted while one looks is no nonsense: a QP would fail by it. */
static void held_up_between_the_indices(void **state)
{
	struct sigaction action = { .sa_handler = move_on }, before;
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t head;

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	apart = (void *)(pages + PAGE - offsetof(struct simhca_srq_mem, head));
	apart->pi = 5;
	apart->head = 3;
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	moves = 1;
	assert_int_equal(look_while_it_moves(&head), 0);
	assert_int_equal(head, 3 + ENTRIES + 1);
	/* None of it was consumed: the client lies. */
	moves = 0;
	assert_int_equal(look_while_it_moves(&head), 1);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	munmap(pages, 2 * PAGE);
}

#define CLAIMANTS 4u
#define EACH 20000u

static _Atomic uint32_t times[CLAIMANTS * EACH];
static _Atomic uint32_t done; /* of which the client knows */

static void *claim_many(void *arg)
{
	uint32_t number = (uint32_t)(uintptr_t)arg, index;

	for (uint32_t got = 0; got < EACH;) {
		if (!claim(number, &index)) {
			sched_yield();
			continue;
		}
		if (simhca_srq_claimed(&srq, number) != index + 1)
			abort();
		atomic_fetch_add(&times[index], 1);
		atomic_fetch_add(&done, 1);
		got++;
	}
	return NULL;
}

static void each_is_consumed_once(void **state)
{
	pthread_t thread[CLAIMANTS];

	(void)state;
	empty_at(0);
	for (uintptr_t i = 0; i < CLAIMANTS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, claim_many, (void *)(i + 1)), 0);
	for (uint32_t pi = 0; pi < CLAIMANTS * EACH;) {
		if (pi - atomic_load(&done) < ENTRIES)
			atomic_store(&mem.pi, ++pi);
		else
			sched_yield();
	}
	for (uintptr_t i = 0; i < CLAIMANTS; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < CLAIMANTS * EACH; i++)
		assert_int_equal(times[i], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_latest_of_each),
		cmocka_unit_test(a_late_note),
		cmocka_unit_test(held_up_between_the_indices),
		cmocka_unit_test(each_is_consumed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
