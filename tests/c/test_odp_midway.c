/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Pages, processes, copies and workers in the middle of a page fault. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "dma/dma.h"
#include "memory/key.h"
#include "midway.h"
#include "paging.h"
#include "paging/odp.h"

static struct simhca_odp *odp_of(const struct mr *mr)
{
	struct world *world = mr->client->world;

	return simhca_key_of(world->device[mr->client->device_index], mr->lkey)->odp;
}

/* ------------------------------------------------------------------ pages that go meanwhile */

/* What a program drops may begin before a region, end behind it, or miss it. */
static void dropped_ranges_and_regions(void **state)
{
	static const struct {
		int from, to, left; /* pages of the region, which has eight */
	} drops[] = { { -4, 0, 8 }, { 8, 12, 8 }, { 3, 3, 8 },	{ 3, 4, 7 },
		      { -4, 1, 7 }, { 7, 12, 7 }, { -4, 12, 0 } };
	struct world *world = *state;

	for (size_t i = 0; i < ARRAY_SIZE(drops); i++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);
		struct prefetch prefetch = { .mr = pair->a.mr };
		uint64_t start = pair->a.mr->iova;

		assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, 8 * PAGE));
		page_in(world);
		assert_int_equal(present(pair->a.mr), 8);
		simhca_odp_invalidate(odp_of(pair->a.mr),
				      start + (uint64_t)((int64_t)drops[i].from * PAGE),
				      start + (uint64_t)((int64_t)drops[i].to * PAGE));
		assert_int_equal(present(pair->a.mr), drops[i].left);
		assert_int_equal(counters(pair->a.mr).invalidated_pages, 8 - drops[i].left);
	}
}

/* Gone again before the requester comes back: the access gets through, and faults no more. */
static void a_page_that_is_gone_at_once(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);

	pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(world);
	assert_true(poll_fault(world));
	assert_int_equal(0, madvise(pair->b.mr->addr, PAGE, MADV_DONTNEED));
	advance(world, MSEC);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(info(&pair->b).faults[SIMHCA_RESPONDER_WRITE], 1);
}

static unsigned int drops_left;

static void a_page_is_dropped(void *arg)
{
	struct mr *mr = arg;

	simhca_odp_invalidate(odp_of(mr), mr->iova, mr->iova + PAGE);
	if (--drops_left)
		midway = a_page_is_dropped;
}

/* What was dropped while it was brought in is brought in anew, three times at most. */
static void pages_dropped_while_they_come(void **state)
{
	struct world *world = *state;

	for (unsigned int drops = 1; drops < 5; drops++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);

		pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
		fill(pair->a.mr->addr, 100, drops);
		rdma_write(&pair->a, 1, 0, 100, 0);
		run_until_idle(world);
		in_the_middle(a_page_is_dropped, pair->a.mr);
		drops_left = drops;
		assert_true(poll_fault(world));
		midway = NULL;
		assert_int_equal(touched, drops < 3 ? drops + 1 : 3);
		assert_int_equal(present(pair->a.mr), drops < 3);
		/* It goes on either way. */
		run_until_idle(world);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_true(filled(pair->b.mr->addr, 100, drops));
		assert_int_equal(counters(pair->a.mr).fault_pages, drops < 3);
	}
}

/* ------------------------------------------------------------------- who works, who waits */

static unsigned int at_work;

/* Until nothing is left that another worker could do. */
static void another_one_works(void *arg)
{
	at_work++;
	midway = another_one_works;
	poll_fault(arg);
}

/* One process has two workers at most; another one's fault is resolved beside them. */
static void a_process_has_two_workers(void **state)
{
	struct world *world = *state;
	uint8_t *shared = pages(2);
	pid_t child = another_process();
	struct pair *pair, *other;
	struct prefetch prefetch;

	pair = two_faults(world);
	two_faults(world);
	in_the_middle(another_one_works, world);
	at_work = 0;
	assert_true(poll_fault(world));
	midway = NULL;
	assert_int_equal(at_work, 2);

	/* Two faults are left, and there is a prefetch of another process. */
	other = pair_new(world, &pair->a.options);
	other->a.client->mm = simhca_context_mm(other->a.client->context, child);
	prefetch = (struct prefetch){ .mr = on_demand(other->a.client, shared, 2 * PAGE, ODP) };
	two_faults(world);
	assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, 2 * PAGE));
	in_the_middle(another_one_works, world);
	at_work = 0;
	assert_true(poll_fault(world));
	midway = NULL;
	assert_int_equal(at_work, 3);
	assert_int_equal(present(prefetch.mr), 2);
	page_in(world);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static unsigned int short_of_workers; /* how often that was told */

static void on_no_worker(void *arg)
{
	(void)arg;
	short_of_workers++;
}

/* Workers are stuck if work waits, none of them is idle, and nothing ends between two looks. */
static void workers_that_are_stuck(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	world->fabric->ops.no_worker = on_no_worker;
	short_of_workers = 0;
	assert_int_equal(simhca_faults_stuck(world->fabric), -1);
	for (uint64_t i = 0; i < 3; i++)
		rdma_write(&pair->a, i, i * PAGE, 8, 0);
	run_until_idle(world);
	assert_int_equal(short_of_workers, 1);
	assert_true(simhca_faults_stuck(world->fabric) > 0);
	assert_true(poll_fault(world));
	run_until_idle(world);
	assert_int_equal(simhca_faults_stuck(world->fabric), 0);
	assert_true(simhca_faults_stuck(world->fabric) > 0);
	assert_int_equal(short_of_workers, 1);
	page_in(world);
	assert_int_equal(simhca_faults_stuck(world->fabric), -1);
	/* And it is told anew. */
	rdma_write(&pair->a, 3, 3 * PAGE, 8, 0);
	run_until_idle(world);
	assert_int_equal(short_of_workers, 2);
	page_in(world);
}

static void *work(void *arg)
{
	simhca_faults_run(arg);
	return NULL;
}

static int setup_latency(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .fault_latency_us = 1000 } });
	return 0;
}

/* Nobody is stuck as long as a worker waits for work that is not due yet. */
static void an_idle_worker_is_not_stuck(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);
	bool stuck = true;
	pthread_t thread;

	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(world);
	assert_int_equal(0, pthread_create(&thread, NULL, work, world->fabric));
	/* By the world's clock it is never due, so the worker only ever looks, and waits on. */
	for (int i = 0; i < 100000 && stuck; i++) {
		test_nap(100);
		stuck = simhca_faults_stuck(world->fabric) >= 0;
	}
	assert_false(stuck);
	simhca_faults_stop(world->fabric);
	pthread_join(thread, NULL);
}

#define MOST_ADVICES 256

/* A context has so many prefetches under way, and no more. */
static void prefetches_are_bounded(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 1);
	struct prefetch prefetch = { .mr = pair->a.mr }, other = { .mr = pair->b.mr };

	for (int i = 0; i < MOST_ADVICES; i++)
		assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	assert_int_equal(-ENOMEM, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	assert_int_equal(0, advise(&other, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	page_in(world);
	assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	/* The rest goes with the context. */
}

/* Nobody waits for what was not to be waited for, and nothing is done about nothing. */
static void prefetches_that_nobody_waits_for(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 1);
	struct prefetch prefetch = { .mr = pair->a.mr };

	assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVISE_FLUSH, 0));
	assert_false(poll_fault(world));
	assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, PAGE));
	for (uint64_t number = 1; number < 4; number++) {
		prefetch.req.reserved = number; /* a stranger's guess */
		assert_int_equal(-EINVAL, outcome(&prefetch));
	}
	page_in(world);
	assert_int_equal(present(pair->a.mr), 1);
}

static void both_stand(void *arg)
{
	struct pair *pair = arg;

	/* The second one fails, while the first one is being resolved: it is not raised again. */
	assert_true(poll_fault(pair->a.world));
	assert_int_equal(counters(pair->a.mr).failures, 1);
	for (int i = 0; i < 3; i++) {
		run_until_idle(pair->a.world);
		qp_ring(pair->a.qp);
	}
	run_until_idle(pair->a.world);
	assert_int_equal(info(&pair->a).faults[SIMHCA_REQUESTER_WRITE], 1);
	assert_false(poll_fault(pair->a.world));
}

/* While a requester stands, what was raised ahead of it is raised once, also if it fails. */
static void a_fault_ahead_is_raised_once(void **state)
{
	struct pair *pair = two_faults(*state);

	if (((struct world *)*state)->tick)
		skip(); /* what is ahead is sent, so that its fault is its own */
	munmap(pair->a.mr->addr + PAGE, PAGE);
	in_the_middle(both_stand, pair);
	assert_true(poll_fault(*state));
	run_until_idle(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_why(pair->a.send_cq, 2, LOC_PROT_ERR, FAULT_NOT_MAPPED);
	assert_int_equal(info(&pair->a).faults[SIMHCA_REQUESTER_WRITE], 1);
}

/* ------------------------------------------------------------------------------ the other end */

/* A pair whose second end is another process's. */
struct stranger {
	pid_t pid;
	struct pair *pair; /* b's region lies in its memory */
};

static struct stranger stranger_new(struct world *world, unsigned int count)
{
	struct stranger stranger = { .pair = NULL };
	struct options options = default_options(IBV_QPT_RC);
	uint8_t *at = pages(count);
	struct side *b;

	stranger.pid = another_process();
	options.access = ALL_ACCESS;
	options.buffer = count * (uint64_t)PAGE;
	stranger.pair = pair_new(world, &options);
	b = &stranger.pair->b;
	b->client->mm = simhca_context_mm(b->client->context, stranger.pid);
	b->mr = on_demand(b->client, at, count * (uint64_t)PAGE, ODP);
	return stranger;
}

static void stranger_gone(const struct stranger *stranger)
{
	kill(stranger->pid, SIGKILL);
	waitpid(stranger->pid, NULL, 0);
}

/* It has ended, and nobody has noticed: what is left answers that it has no memory. */
static void it_is_killed(void *arg)
{
	const struct stranger *stranger = arg;
	siginfo_t how;

	kill(stranger->pid, SIGKILL);
	assert_int_equal(0, waitid(P_PID, (id_t)stranger->pid, &how, WEXITED | WNOWAIT));
}

static void it_is_killed_and_buried(void *arg)
{
	stranger_gone(arg);
}

/* A process that ends in the middle of a fault falls silent; its memory is not "read-only". */
static void the_process_ends(void **state)
{
	static void (*const ends[])(void *arg) = { it_is_killed, it_is_killed_and_buried };
	struct world *world = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		for (int reads = 0; reads < 2; reads++) {
			struct stranger stranger = stranger_new(world, 2);
			struct pair *pair = stranger.pair;

			if (reads)
				rdma_read(&pair->a, 1, 0, 100, 0);
			else
				rdma_write(&pair->a, 1, 0, 100, 0);
			run_until_idle(world);
			in_the_middle(ends[i], &stranger);
			assert_true(poll_fault(world));
			for (int n = 0; n < 50; n++) {
				advance(world, SEC);
				poll_fault(world);
			}
			expect_why(pair->a.send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
			if (!i)
				waitpid(stranger.pid, NULL, 0);
		}
	}
}

static void it_is_gone(void *arg)
{
	const struct stranger *stranger = arg;

	simhca_mm_gone(stranger->pair->b.client->mm);
}

/* Once it is known to be gone its number may be somebody else's: nothing more is asked of it. */
static void the_process_is_known_to_be_gone(void **state)
{
	struct world *world = *state;
	struct stranger stranger = stranger_new(world, 1024);
	struct prefetch prefetch = { .mr = stranger.pair->b.mr };

	assert_int_equal(-EAGAIN, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVISE_FLUSH,
					 1024 * PAGE));
	in_the_middle(it_is_gone, &stranger);
	while (poll_fault(world))
		;
	assert_int_equal(touched, 1);
	assert_int_equal(-EFAULT, outcome(&prefetch));
	/* Nor is there a fault where the table has the page: nobody could resolve it. */
	assert_int_equal(present(prefetch.mr), 512);
	rdma_write(&stranger.pair->a, 1, 0, 8, 0);
	for (int n = 0; n < 20; n++)
		advance(world, SEC);
	expect_why(stranger.pair->a.send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
	assert_int_equal(info(&stranger.pair->b).faults[SIMHCA_RESPONDER_WRITE], 0);
	stranger_gone(&stranger);
}

/* ---------------------------------------------------- copies that fail all the same */

#define FRUITLESS 16

/* Carries a's request on; while copies fail, a worker still gets at the pages. */
static unsigned int failing_rounds(struct world *world, unsigned int most)
{
	unsigned int count = 0;

	while (count < most) {
		copies_fail = true;
		advance(world, 2 * MSEC);
		copies_fail = false;
		if (!poll_fault(world))
			break;
		count++;
	}
	return count;
}

/* A copy that fails though the table has the page: the table was wrong, and the access faults. */
static void a_failed_copy_is_a_fault(void **state)
{
	struct world *world = *state;
	struct stranger stranger = stranger_new(world, 2);
	struct pair *pair = stranger.pair;

	for (int reads = 0; reads < 2; reads++) {
		rdma_write(&pair->a, 1, 0, 100, 0);
		page_in(world);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_int_equal(present(pair->b.mr), 1);
		/* As where events tell, else the access would look for itself. */
		copies_fail = true;
		if (reads)
			rdma_read(&pair->a, 2, 0, 100, 0);
		else
			rdma_write(&pair->a, 2, 0, 100, 0);
		run_until_idle(world);
		copies_fail = false;
		assert_int_equal(present(pair->b.mr), 0);
		assert_int_equal(pending(&pair->b), 1);
		expect_none(pair->a.send_cq);
		page_in(world);
		expect(pair->a.send_cq, 2, SUCCESS);
	}
	stranger_gone(&stranger);
}

/* If every fault is resolved and the copies fail on and on, that is an error in the end. */
static void fruitless_faults_have_an_end(void **state)
{
	struct world *world = *state;
	struct stranger stranger = stranger_new(world, 2);
	struct pair *pair = stranger.pair;

	/* Again and again, if one gets through in between; and after a reset. */
	for (int i = 0; i < 3; i++) {
		rdma_write(&pair->a, 1, 0, 100, 0);
		assert_int_equal(failing_rounds(world, 10), 10);
		if (i == 1)
			pair_reconnect(pair);
		page_in(world);
		if (i != 1)
			expect(pair->a.send_cq, 1, SUCCESS);
	}
	rdma_write(&pair->a, 2, 0, 100, PAGE);
	assert_int_equal(failing_rounds(world, 1000), FRUITLESS + 1);
	expect_why(pair->a.send_cq, 2, REM_ACCESS_ERR, PAGE_NOT_MAPPED);
	stranger_gone(&stranger);
}

/* ------------------------------------------------------------------------- where it resumes */

/* What was acknowledged before the fault is not sent again: nobody sees how it looks now. */
static void it_resumes_where_it_stopped(void **state)
{
	const uint32_t length = 3 * SIMHCA_LINK_SLICE, there = SIMHCA_LINK_SLICE;
	struct world *world = *state;

	if (world->tick)
		skip(); /* slices are those of the local link */
	for (int reads = 0; reads < 2; reads++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, length / PAGE);
		struct prefetch prefetch = { .mr = pair->a.mr };
		uint8_t *from, *to;

		pair->b.mr = mr_new(pair->b.client, length, ALL_ACCESS);
		from = reads ? pair->b.mr->addr : pair->a.mr->addr;
		to = reads ? pair->a.mr->addr : pair->b.mr->addr;
		assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, there));
		page_in(world);
		fill(from, there, 1);
		if (reads)
			rdma_read(&pair->a, 1, 0, length, 0);
		else
			rdma_write(&pair->a, 1, 0, length, 0);
		run_until_idle(world);
		assert_int_equal(pending(&pair->a), 1);
		assert_true(filled(to, there, 1));
		fill(from, length, 2);
		page_in(world);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_true(filled(to, there, 1));
		assert_memory_equal(to + there, from + there, length - there);
		/* The two slices that were absent, one fault each. */
		assert_int_equal(counters(pair->a.mr).faults, 2);
	}
}

/* ------------------------------------------------------------------------- how pages come */

static unsigned long minor_faults(void)
{
	unsigned long faults = 0;
	FILE *stat = fopen("/proc/thread-self/stat", "r");

	assert_non_null(stat);
	assert_int_equal(1, fscanf(stat, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %lu", &faults));
	fclose(stat);
	return faults;
}

#define FRESH 64u /* pages: as many as can be told from what else goes on */

static uint8_t *fresh_pages(void)
{
	uint8_t *at = pages(FRESH);

	assert_int_equal(0, madvise(at, FRESH * PAGE, MADV_NOHUGEPAGE));
	return at;
}

/* Whether stores to these pages fault, one to each. */
static bool stores_fault(uint8_t *at)
{
	static const char zeros[FRESH];
	unsigned long before;
	int fd[2];

	assert_int_equal(0, pipe(fd));
	assert_int_equal(FRESH, write(fd[1], zeros, sizeof(zeros)));
	before = minor_faults();
	/* The kernel stores, so that no sanitizer does anything beside. */
	for (unsigned int i = 0; i < FRESH; i++)
		assert_int_equal(1, syscall(SYS_read, fd[0], at + i * PAGE, 1));
	close(fd[0]);
	close(fd[1]);
	return minor_faults() - before >= FRESH / 2;
}

/*
 * Whether this kernel has a store fault on a page that was only read. Most map the page of zeros,
 * which a store replaces; some give each reader a page of its own.
 */
static bool stores_fault_after_a_read(void)
{
	uint8_t *at = fresh_pages();

	for (unsigned int i = 0; i < FRESH; i++) {
		char byte;
		struct iovec local = { .iov_base = &byte, .iov_len = 1 };
		struct iovec remote = { .iov_base = at + i * PAGE, .iov_len = 1 };

		assert_int_equal(1, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	}
	return stores_fault(at);
}

/* A page that came in for writing needs no fault of the program's own when it stores there. */
static void a_page_comes_in_for_writing(void **state)
{
	for (int writable = 0; writable < 2; writable++) {
		struct pair *pair = paging_pair(*state, IBV_QPT_RC, 1);
		uint8_t *at = fresh_pages();
		struct prefetch prefetch = { .mr = on_demand(pair->a.client, at, FRESH * PAGE,
							     writable ? ODP
								      : SIMHCA_ACCESS_ON_DEMAND) };

		assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, FRESH * PAGE));
		page_in(*state);
		assert_int_equal(present(prefetch.mr), FRESH);
		assert_int_equal(stores_fault(at), !writable && stores_fault_after_a_read());
	}
}

/* Memory that may only be read comes in for reading, unless writing is what was asked for. */
static void only_readable(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);
	struct prefetch prefetch = { .mr = pair->a.mr };
	int ret;

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	assert_int_equal(0, mprotect(pair->a.mr->addr, 2 * PAGE, PROT_READ));
	assert_int_equal(-EAGAIN, advise(&prefetch, SIMHCA_ADVICE_PREFETCH_WRITE,
					 SIMHCA_ADVISE_FLUSH, PAGE));
	page_in(*state);
	assert_int_equal(-EFAULT, outcome(&prefetch));
	assert_int_equal(present(pair->a.mr), 0);
	prefetch.req.reserved = 0;
	assert_int_equal(-EAGAIN,
			 advise(&prefetch, SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVISE_FLUSH, PAGE));
	page_in(*state);
	ret = outcome(&prefetch);
	assert_int_equal(0, ret);
	/* For reading it is there, and for writing it is not. */
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	rdma_read(&pair->a, 2, 0, 8, 0);
	page_in(*state);
	expect_why(pair->a.send_cq, 2, LOC_PROT_ERR, FAULT_NOT_WRITABLE);
}

static void a_mapping_that_is_only_readable(void **state)
{
	/* As new kernels, old ones, emulators and sandboxes have it. */
	const int errors[] = { 0, ENOTTY, ENOSYS, EINVAL };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		map_query_error = errors[i];
		only_readable(state);
	}
	map_query_error = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(dropped_ranges_and_regions),
		ON_ETHERNET(a_page_that_is_gone_at_once),
		ON_ETHERNET(pages_dropped_while_they_come),
		ON_ETHERNET(a_process_has_two_workers),
		ON_ETHERNET(workers_that_are_stuck),
		cmocka_unit_test_setup_teardown(an_idle_worker_is_not_stuck, setup_latency,
						teardown),
		ON_ETHERNET(prefetches_are_bounded),
		ON_ETHERNET(prefetches_that_nobody_waits_for),
		ON_ETHERNET(a_fault_ahead_is_raised_once),
		ON_ETHERNET(the_process_ends),
		ON_ETHERNET(the_process_is_known_to_be_gone),
		ON_ETHERNET(a_failed_copy_is_a_fault),
		ON_ETHERNET(fruitless_faults_have_an_end),
		ON_ETHERNET(it_resumes_where_it_stopped),
		ON_ETHERNET(a_page_comes_in_for_writing),
		ON_ETHERNET(a_mapping_that_is_only_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
