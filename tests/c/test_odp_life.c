/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-demand regions beside everything that goes on at once: pages that the program drops, told by
 * events or found out at the access; and QPs and regions that go while workers resolve faults.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "harness.h"

#define PAGE 4096u
#define COUNT 16u
#define ODP (ALL_ACCESS | SIMHCA_ACCESS_ON_DEMAND)
#define WORKERS 2

struct paging {
	struct world *world;
	pthread_t reader, worker[WORKERS];
	bool events;
};

static void *read_events(void *arg)
{
	simhca_pagers_run(arg);
	return NULL;
}

static void *work(void *arg)
{
	simhca_faults_run(arg);
	return NULL;
}

/* Engines, workers and the reader all have threads, as in the daemon. */
static struct paging *start(struct simhca_device_config config)
{
	struct paging *paging = calloc(1, sizeof(*paging));

	paging->world = world_new(&(struct world_config){ .threads = 1, .device = config });
	assert_int_equal(0,
			 pthread_create(&paging->reader, NULL, read_events, paging->world->fabric));
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(0, pthread_create(&paging->worker[i], NULL, work,
						   paging->world->fabric));
	return paging;
}

static int setup_events(void **state)
{
	*state = start((struct simhca_device_config){ 0 });
	return 0;
}

static int setup_checks(void **state)
{
	*state = start((struct simhca_device_config){ .odp_checks = true });
	return 0;
}

/* What is in the line stays there until it is taken back. */
static int setup_slow(void **state)
{
	*state = start((struct simhca_device_config){ .fault_latency_us = 3600u * 1000 * 1000 });
	return 0;
}

static int end(void **state)
{
	struct paging *paging = *state;

	simhca_faults_stop(paging->world->fabric);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(paging->worker[i], NULL);
	/* Contexts first: what they had is closed, and nobody waits for an event any more. */
	simhca_pagers_stop(paging->world->fabric);
	pthread_join(paging->reader, NULL);
	world_free(paging->world);
	free(paging);
	return 0;
}

/* As the provider does it. False: this kernel gives us none. */
static bool offer_events(struct client *client)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
					      UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_FORK };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* USER_MODE_ONLY */);

	if (fd < 0)
		return false;
	if (ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return false;
	}
	assert_int_equal(0, simhca_mm_set_userfaultfd(client->context, client->mm, fd, NULL));
	return true;
}

static uint8_t *pages(void)
{
	uint8_t *at = mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static struct simhca_query_mr_reply query(const struct mr *mr)
{
	struct simhca_query_mr_reply reply = { 0 };

	assert_int_equal(0, simhca_query_mr(mr->client->context, mr->handle, &reply, NULL));
	return reply;
}

static struct pair *paging_pair(struct paging *paging)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	uint8_t *at = pages();

	options.access = ALL_ACCESS;
	options.buffer = COUNT * PAGE;
	pair = pair_new(paging->world, &options);
	paging->events = offer_events(pair->b.client);
	pair->b.mr =
		mr_over(pair->b.client, pair->b.client->pd, at, COUNT * PAGE, (uintptr_t)at, ODP);
	return pair;
}

static void drop(struct pair *pair, int how)
{
	uint8_t *at = pair->b.mr->addr + 4 * PAGE, *away;
	pid_t child;

	switch (how) {
	case 0:
		assert_int_equal(0, madvise(at, 4 * PAGE, MADV_DONTNEED));
		break;
	case 1:
		assert_ptr_equal(at, mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		break;
	case 2:
		away = mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, pages());
		assert_ptr_not_equal(away, MAP_FAILED);
		assert_ptr_equal(at, mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		break;
	case 3: /* what it leaves behind is mapped all the while */
		away = mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		assert_ptr_not_equal(away, MAP_FAILED);
		assert_false(all_bytes(away, 4 * PAGE, 0));
		break;
	default:
		/* Not fork(): the thread that is told needs locks that ThreadSanitizer's holds. */
		child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (!child)
			syscall(SYS_exit_group, 0);
		waitpid(child, NULL, 0);
	}
}

/* Pages that were there leave the table, and the next access faults and finds what is there now. */
static void dropped_pages_leave_the_table(void **state)
{
	struct paging *paging = *state;

	for (int how = 0; how < 5; how++) {
		struct pair *pair = paging_pair(paging);
		struct simhca_query_mr_reply before, after;

		fill(pair->a.mr->addr, COUNT * PAGE, 3);
		rdma_write(&pair->a, 1, 0, COUNT * PAGE, 0);
		expect(pair->a.send_cq, 1, SUCCESS);
		before = query(pair->b.mr);
		assert_int_equal(before.present_pages, COUNT);
		assert_int_equal(before.odp.watched_pages + before.odp.checked_pages, COUNT);
		drop(pair, how);
		/* The program goes on as soon as its event is read, which is just before it counts.
		 */
		for (int i = 0; before.odp.watched_pages && i < 100000; i++) {
			after = query(pair->b.mr);
			if (after.odp.invalidated_pages >= (how == 4 ? COUNT : 4))
				break;
			test_nap(100);
		}
		if (before.odp.watched_pages) {
			assert_int_equal(after.odp.invalidated_pages, how == 4 ? COUNT : 4);
			assert_int_equal(after.present_pages, how == 4 ? 0 : COUNT - 4);
		}
		rdma_read(&pair->a, 2, 0, COUNT * PAGE, 0);
		expect(pair->a.send_cq, 2, SUCCESS);
		after = query(pair->b.mr);
		/* A second event for the same pages may have come in between, but no sooner. */
		if (!before.odp.watched_pages)
			assert_int_equal(after.present_pages, COUNT);
		if (how < 4) { /* nobody but an event tells of a fork, and no byte depends on it */
			assert_true(after.odp.faults > before.odp.faults);
			assert_true(after.odp.invalidated_pages >= 4);
			assert_true(all_bytes(pair->a.mr->addr + 4 * PAGE, 4 * PAGE, 0));
			/* What was around them stayed. */
			assert_memory_equal(pair->a.mr->addr, pair->b.mr->addr, COUNT * PAGE);
			assert_false(all_bytes(pair->b.mr->addr, 4 * PAGE, 0));
		} else {
			assert_true(filled(pair->a.mr->addr, COUNT * PAGE, 3));
		}
	}
}

static void checks_are_what_was_asked_for(void **state)
{
	struct pair *pair = paging_pair(*state);

	rdma_write(&pair->a, 1, 0, COUNT * PAGE, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(query(pair->b.mr).odp.watched_pages, 0);
	assert_int_equal(query(pair->b.mr).odp.checked_pages, COUNT);
}

static void events_are_used_where_they_can_be_had(void **state)
{
	struct paging *paging = *state;
	struct pair *pair = paging_pair(paging);

	if (!paging->events)
		skip(); /* the kernel gives this process no userfaultfd with these events */
	rdma_write(&pair->a, 1, 0, COUNT * PAGE, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(query(pair->b.mr).odp.watched_pages, COUNT);
	assert_int_equal(query(pair->b.mr).odp.checked_pages, 0);
}

static void only_a_userfaultfd_will_do(void **state)
{
	struct paging *paging = *state;
	struct client *client = client_new(paging->world, 0);
	int fds[2];

	assert_int_equal(0, pipe(fds));
	assert_int_equal(-EINVAL,
			 simhca_mm_set_userfaultfd(client->context, client->mm, fds[0], NULL));
	assert_int_equal(-1, fcntl(fds[0], F_GETFD)); /* taken all the same */
	close(fds[1]);
}

#define MANY 512u

/* Of MANY pages, those that the process has. */
static uint64_t resident(const uint8_t *at)
{
	static uint64_t entry[MANY];
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t there = 0;

	assert_int_equal(sizeof(entry), pread(fd, entry, sizeof(entry),
					      (off_t)((uintptr_t)at / PAGE * sizeof(entry[0]))));
	close(fd);
	for (unsigned int i = 0; i < MANY; i++)
		there += entry[i] >> 62 != 0;
	return there;
}

/* A page that is dropped while it is brought in with many others is not in the table afterwards. */
static void pages_dropped_while_they_come(void **state)
{
	struct paging *paging = *state;
	struct client *client = client_new(paging->world, 0);
	struct simhca_advise_mr_req req = { .pd = client->pd, .num_sge = 1 };
	uint64_t seed = 1;

	if (!offer_events(client))
		skip(); /* as above: accesses look for themselves, and no event is lost */
	for (int round = 0; round < 200; round++) {
		uint8_t *at = mmap(NULL, MANY * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct mr *mr = mr_over(client, client->pd, at, MANY * PAGE, (uintptr_t)at, ODP);
		struct simhca_query_mr_reply now;

		req.sge[0] = sge(mr, 0, MANY * PAGE);
		assert_int_equal(0, simhca_advise_mr(client->context, &req, NULL));
		/* Only when they are registered with the userfaultfd the program waits for it. */
		test_nap(test_random(&seed) % 400);
		for (unsigned int i = 0; i < 4; i++)
			assert_ptr_equal(at + i * PAGE,
					 mmap(at + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		for (int i = 0; i < 10000; i++) {
			now = query(mr);
			if (now.odp.prefetches && now.present_pages <= resident(at))
				break;
			test_nap(100);
		}
		assert_int_equal(now.odp.prefetches, 1);
		assert_true(now.present_pages <= resident(at));
		assert_int_equal(0, patiently(mr_gone(mr)));
		munmap(at, MANY * PAGE);
	}
}

/* ------------------------------------------------------------------ coming and going */

/* Waits until a's QP is stopped by so many faults. */
static void wait_for_faults(const struct pair *pair, unsigned int count)
{
	unsigned int pending = 0;

	for (int i = 0; i < 100000 && pending != count; i++) {
		uint32_t handle = pair->a.qp->handle;
		struct simhca_qp_info info;

		assert_true(simhca_next_qp(pair->a.client->context, &handle, &info));
		pending = 0;
		for (int n = 0; n < SIMHCA_OWN_ACCESSES; n++)
			pending += info.fault_pending[n];
		if (pending != count)
			test_nap(100);
	}
	assert_int_equal(pending, count);
}

/*
 * One round. With all: four faults are in the line; else some are, some are under way, and some
 * are resolved by now or will never be raised.
 */
static void round_of_faults(struct pair *pair, uint8_t *at, bool all, uint64_t *seed)
{
	struct mr *mr =
		mr_over(pair->a.client, pair->a.client->pd, at, COUNT * PAGE, (uintptr_t)at, ODP);
	unsigned int how = test_random(seed) % 3;

	pair->a.mr = mr;
	send_from(&pair->a, 1, 0, 8);
	rdma_read(&pair->a, 2, PAGE, 8, 0);
	rdma_write(&pair->b, 3, 0, 8, 2 * PAGE);
	if (all)
		wait_for_faults(pair, 3);
	else if (test_random(seed) & 1)
		test_nap(test_random(seed) % 200);
	/* The peer comes back with another request, while its first one may be being resolved. */
	assert_int_equal(0, patiently(qp_move(pair->b.qp, IBV_QPS_RESET)));
	qp_connect(pair->b.qp, pair->a.client->device_index, pair->a.qp->qpn, &pair->b.options);
	rdma_read(&pair->b, 4, 0, 8, 3 * PAGE);
	if (all)
		wait_for_faults(pair, SIMHCA_OWN_ACCESSES);
	else if (test_random(seed) & 1)
		test_nap(test_random(seed) % 200);
	switch (how) {
	case 0:
		assert_int_equal(0, patiently(qp_move(pair->a.qp, IBV_QPS_RESET)));
		break;
	case 1:
		assert_int_equal(0, patiently(qp_move(pair->a.qp, IBV_QPS_ERR)));
		break;
	default:
		assert_int_equal(0, patiently(simhca_destroy_qp(pair->a.client->context,
								pair->a.qp->handle, NULL)));
		pair->a.qp = qp_new(pair->a.client, &pair->a.options, pair->a.send_cq,
				    pair->a.recv_cq, NULL);
	}
	assert_int_equal(0, patiently(mr_gone(mr)));
	/* Both from the beginning. */
	assert_int_equal(0, patiently(qp_move(pair->a.qp, IBV_QPS_RESET)));
	assert_int_equal(0, patiently(qp_move(pair->b.qp, IBV_QPS_RESET)));
	qp_connect(pair->a.qp, pair->b.client->device_index, pair->b.qp->qpn, &pair->a.options);
	qp_connect(pair->b.qp, pair->a.client->device_index, pair->a.qp->qpn, &pair->b.options);
	pair->a.send_cq->ci = pair->a.send_cq->state->pi;
	pair->a.send_cq->state->ci = pair->a.send_cq->state->pi;
	pair->b.send_cq->ci = pair->b.send_cq->state->pi;
	pair->b.send_cq->state->ci = pair->b.send_cq->state->pi;
	pair->a.recv_cq->ci = pair->a.recv_cq->state->pi;
	pair->a.recv_cq->state->ci = pair->a.recv_cq->state->pi;
}

static void rounds_of_faults(void **state, bool all)
{
	struct paging *paging = *state;
	struct options options = default_options(IBV_QPT_RC);
	const char *rounds = getenv("SIMHCA_ODP_ROUNDS");
	struct simhca_counts before, after;
	uint8_t *at = pages();
	uint64_t seed = 1;
	struct pair *pair;

	options.access = ALL_ACCESS;
	pair = pair_new(paging->world, &options);
	simhca_context_counts(pair->a.client->context, &before);
	for (int i = 0; i < (rounds ? atoi(rounds) : 500); i++)
		round_of_faults(pair, at, all, &seed);
	simhca_context_counts(pair->a.client->context, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	client_gone(pair->a.client);
	assert_false(simhca_faults_poll(paging->world->fabric));
	munmap(at, COUNT * PAGE);
}

static void nothing_is_left_behind(void **state)
{
	rounds_of_faults(state, false);
}

/* Reset, error and destruction with exactly four faults outstanding. */
static void nothing_is_left_of_four_faults(void **state)
{
	rounds_of_faults(state, true);
}

int main(void)
{
#define WITH(setup, test)                                                                          \
	{                                                                                          \
#test " (" #setup ")", test, setup, end, NULL                                      \
	}
	const struct CMUnitTest tests[] = {
		WITH(setup_events, dropped_pages_leave_the_table),
		WITH(setup_checks, dropped_pages_leave_the_table),
		WITH(setup_events, events_are_used_where_they_can_be_had),
		WITH(setup_checks, checks_are_what_was_asked_for),
		WITH(setup_events, only_a_userfaultfd_will_do),
		WITH(setup_events, pages_dropped_while_they_come),
		WITH(setup_events, nothing_is_left_behind),
		WITH(setup_checks, nothing_is_left_behind),
		WITH(setup_slow, nothing_is_left_of_four_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
