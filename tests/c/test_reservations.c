/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Reservations of CQEs (libsimhca/queue/cqe_reservation.h) by threads that stop halfway. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "harness.h"
#include "queue/cqe_reservation.h"

#define ENTRIES 8u

static struct simhca_cq_mem mem;
static struct simhca_cqe ring[ENTRIES];
static const struct simhca_cq_view cq = {
	.mem = &mem, .ring = ring, .entries = ENTRIES, .cqe = ENTRIES
};

static void empty_at(uint32_t index)
{
	memset(&mem, 0, sizeof(mem));
	memset(ring, 0, sizeof(ring));
	mem.pi = mem.ci = index;
}

static void publish(uint32_t index)
{
	atomic_store(&simhca_cq_slot(&cq, index)->seq, index + 1);
}

/* He has the slot, and did not come to say so in pi. */
static void claim_halfway(uint32_t name)
{
	atomic_store(simhca_cq_claim(&cq, mem.pi), (uint64_t)name << 32 | (uint32_t)(mem.pi + 1));
}

static void the_next_one_goes_past(void **state)
{
	const uint32_t starts[] = { 0, 5, UINT32_MAX - 1, UINT32_MAX };
	uint32_t cqe_index;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		empty_at(starts[i]);
		claim_halfway(2);
		assert_true(simhca_cqe_reserve(&cq, SIMHCA_OWNER_DEVICE, &cqe_index));
		assert_int_equal(cqe_index, starts[i] + 1);
		assert_int_equal(mem.pi, starts[i] + 2);
	}
	empty_at(0);
	for (uint32_t n = 0; n < ENTRIES; n++)
		assert_true(simhca_cqe_reserve(&cq, 2, &cqe_index) && cqe_index == n);
	assert_false(simhca_cqe_reserve(&cq, 2, &cqe_index));
	mem.ci = 1;
	assert_true(simhca_cqe_reserve(&cq, 2, &cqe_index));
	assert_int_equal(cqe_index, ENTRIES);
}

/* Of three takers one is gone: what it took is void, or there if it was committed; no other's. */
static void only_its_own_are_recovered(void **state)
{
	uint32_t cqe_index;

	(void)state;
	empty_at(0);
	for (uint32_t n = 0; n < 6; n++)
		assert_true(simhca_cqe_reserve(&cq, 2 + n % 3, &cqe_index));
	publish(1);
	claim_halfway(3);
	for (uint32_t n = 0; n < 7; n++)
		ring[n].qpn = 7;
	simhca_cqes_recover(&cq, 3, 5); /* index 4 */
	for (uint32_t n = 0; n < 7; n++) {
		bool gone = n % 3 == 1 || n == 6;

		assert_int_equal(ring[n].seq, gone ? n + 1 : 0);
		assert_int_equal(ring[n].qpn, n == 6 ? SIMHCA_VOID_QPN : 7);
	}
	assert_int_equal(mem.pi, 7);
}

/*
 * Plus 1 it would be what says that nothing was committed: a program leaves it to the device. Of one
 * that claims it all the same nothing is known, so what it has left is void.
 */
static void the_last_index_is_the_devices(void **state)
{
	uint32_t cqe_index;

	(void)state;
	empty_at(UINT32_MAX - 1);
	assert_true(simhca_cqe_reserve(&cq, 2, &cqe_index) && cqe_index == UINT32_MAX - 1);
	assert_false(simhca_cqe_reserve(&cq, 2, &cqe_index));
	assert_int_equal(mem.pi, UINT32_MAX);
	assert_true(simhca_cqe_reserve(&cq, SIMHCA_OWNER_DEVICE, &cqe_index) &&
		    cqe_index == UINT32_MAX);
	assert_true(simhca_cqe_reserve(&cq, 2, &cqe_index) && !cqe_index);

	empty_at(UINT32_MAX);
	claim_halfway(2);
	simhca_cq_slot(&cq, UINT32_MAX)->qpn = 7;
	simhca_cq_slot(&cq, UINT32_MAX)->seq = UINT32_MAX;
	simhca_cqes_recover(&cq, 2, 0); /* which has committed none */
	assert_int_equal(simhca_cq_slot(&cq, UINT32_MAX)->qpn, SIMHCA_VOID_QPN);
	assert_int_equal(simhca_cq_slot(&cq, UINT32_MAX)->seq, 0);
	assert_int_equal(mem.pi, 0);
}

#define CLAIMANTS 4u
#define EACH 5000u

static _Atomic uint32_t claimed[CLAIMANTS * EACH];

static void *claim_many(void *arg)
{
	uint32_t name = (uint32_t)(uintptr_t)arg, cqe_index, got = 0;

	while (got < EACH) {
		if (!simhca_cqe_reserve(&cq, name, &cqe_index)) {
			sched_yield();
			continue;
		}
		atomic_fetch_add(&claimed[cqe_index], 1);
		publish(cqe_index);
		got++;
	}
	return NULL;
}

static void each_is_claimed_once(void **state)
{
	pthread_t thread[CLAIMANTS];

	(void)state;
	empty_at(0);
	for (uintptr_t i = 0; i < CLAIMANTS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, claim_many, (void *)(i + 2)), 0);
	for (uint32_t ci = 0; ci < CLAIMANTS * EACH;) {
		if (atomic_load(&simhca_cq_slot(&cq, ci)->seq) == ci + 1)
			atomic_store(&mem.ci, ++ci);
		else
			sched_yield();
	}
	for (uintptr_t i = 0; i < CLAIMANTS; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < CLAIMANTS * EACH; i++)
		assert_int_equal(claimed[i], 1);
}

#define INTERRUPTIONS 3000

static volatile sig_atomic_t interruptions;

/* Others reserve a lap of CQEs, and the client reads them all. */
static void go_around(int number)
{
	uint32_t cqe_index;

	(void)number;
	for (uint32_t i = 0; i < ENTRIES; i++) {
		if (!simhca_cqe_reserve(&cq, 9, &cqe_index))
			abort();
		publish(cqe_index);
		atomic_store(&mem.ci, mem.pi);
	}
	interruptions++;
}

/* Wherever a taker is held up, while all that others take is read at once: there is room. */
static void nobody_is_refused_for_what_others_did(void **state)
{
	const struct itimerval often = { .it_interval.tv_usec = 20, .it_value.tv_usec = 20 };
	const struct itimerval never = { 0 };
	bool good = true;
	uint32_t cqe_index;

	(void)state;
	empty_at(0);
	signal(SIGALRM, go_around);
	setitimer(ITIMER_REAL, &often, NULL);
	while (good && interruptions < INTERRUPTIONS) {
		uint32_t ci = atomic_load(&mem.ci), pi = atomic_load(&mem.pi);

		atomic_compare_exchange_strong(&mem.ci, &ci, pi); /* else they were there */
		good = simhca_cqe_reserve(&cq, 2, &cqe_index);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_one_goes_past),
		cmocka_unit_test(only_its_own_are_recovered),
		cmocka_unit_test(the_last_index_is_the_devices),
		cmocka_unit_test(each_is_claimed_once),
		cmocka_unit_test(nobody_is_refused_for_what_others_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
