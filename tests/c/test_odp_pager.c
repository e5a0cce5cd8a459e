/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pagers: whose they are, and what becomes of events that cannot be read. The program provides the
 * system calls by which they are.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "memory/key.h"
#include "paging.h"
#include "paging/odp.h"
#include "paging/watch.h"

#define DEADLINE 60 /* seconds until whoever waits for good is killed, with the test */

static int watched = -1;   /* our own copy of the userfaultfd */
static unsigned int times; /* that a read fails from now on, and with which errno */
static int fails;
static bool taken;	/* just before it is read, somebody else takes the event */
static bool old_kernel; /* which cannot be asked not to wait in the call itself */
static bool lingers;	/* with an event that it has read, as if it had lost its CPU */
static _Atomic unsigned int reads;

ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	struct uffd_msg msg;
	ssize_t got;

	atomic_fetch_add(&reads, 1);
	if (times) {
		times--;
		errno = fails;
		return -1;
	}
	if (taken) {
		taken = false;
		if (syscall(SYS_read, watched, &msg, sizeof(msg)) != sizeof(msg))
			abort();
	}
	if (old_kernel) {
		errno = EOPNOTSUPP;
		return -1;
	}
	got = syscall(SYS_preadv2, fd, iov, count, offset, 0l, flags);
	if (got > 0 && lingers)
		test_nap(50000);
	return got;
}

static void *read_events(void *arg)
{
	simhca_pagers_run(arg);
	return NULL;
}

static int userfaultfd_of(struct client *client, int flags, bool initialised)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
					      UFFD_FEATURE_EVENT_UNMAP };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | flags | 1 /* USER_MODE_ONLY */);

	if (fd < 0 || (initialised && ioctl(fd, UFFDIO_API, &api))) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	watched = dup(fd);
	assert_true(watched >= 0);
	assert_int_equal(0, simhca_mm_set_userfaultfd(client->context, client->mm, fd, NULL));
	return fd;
}

static void no_copy_of_ours(void)
{
	close(watched);
	watched = -1;
}

static int setup_calls(void **state)
{
	times = 0;
	taken = old_kernel = lingers = false;
	reads = 0;
	watched = -1;
	alarm(DEADLINE);
	return setup_ethernet(state);
}

static int teardown_calls(void **state)
{
	alarm(0);
	if (watched >= 0)
		close(watched);
	return teardown(state);
}

static pthread_t reader_new(struct world *world)
{
	pthread_t reader;

	assert_int_equal(0, pthread_create(&reader, NULL, read_events, world->fabric));
	return reader;
}

static void reader_ends(struct world *world, pthread_t reader)
{
	uint64_t stops;

	simhca_pagers_stop(world->fabric);
	assert_int_equal(0, pthread_join(reader, NULL));
	/* There may be another one. */
	assert_int_equal(sizeof(stops), read(world->fabric->pager_stop, &stops, sizeof(stops)));
}

/* a's pages come in by writing each of them to b. */
static void use_pages(struct pair *pair, unsigned int count)
{
	for (uint64_t i = 0; i < count; i++) {
		rdma_write(&pair->a, i, i * PAGE, 8, 0);
		page_in(pair->a.world);
		expect(pair->a.send_cq, i, SUCCESS);
	}
}

static struct pair *watched_pair(struct world *world, int flags)
{
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	if (userfaultfd_of(pair->a.client, flags, true) < 0)
		skip(); /* the kernel gives this process no userfaultfd with these events */
	use_pages(pair, 8);
	assert_int_equal(counters(pair->a.mr).watched_pages, 8);
	return pair;
}

/* Whoever waits for its event goes on, and from then on the device looks for itself. */
static void events_that_cannot_be_read(void **state)
{
	struct world *world = *state;
	struct pair *pair = watched_pair(world, O_NONBLOCK);
	pthread_t reader;

	no_copy_of_ours();
	fails = EMFILE;
	times = UINT_MAX;
	reader = reader_new(world);
	assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
	reader_ends(world, reader);
	assert_int_equal(present(pair->a.mr), 0);
	use_pages(pair, 8);
	assert_int_equal(counters(pair->a.mr).watched_pages, 8);
	assert_int_equal(counters(pair->a.mr).checked_pages, 8);
	/* No event is raised any more, for which somebody would have to be there. */
	assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
}

/*
 * The program goes on when the event was read. What it registers then, where it has just dropped pages, has lost none
 * since.
 */
static void what_left_before(void **state)
{
	struct world *world = *state;
	struct pair *pair = watched_pair(world, O_NONBLOCK);
	struct simhca_why why = { .text = "" };
	struct simhca_watch *watch;
	pthread_t reader;
	int fd;

	lingers = true;
	reader = reader_new(world);
	assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
	watch = simhca_watch_create(world->device[0], pair->a.client->mm,
				    (uintptr_t)pair->a.mr->addr, PAGE, &fd, &why);
	assert_non_null(watch);
	close(fd);
	reader_ends(world, reader);
	assert_int_equal(watch->ranges, 0);
	/* But what leaves it from then on. */
	lingers = false;
	use_pages(pair, 1);
	reader = reader_new(world);
	assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
	reader_ends(world, reader);
	assert_int_equal(watch->ranges, 1);
	simhca_watch_destroy(watch);
}

/* It is looked at once, however long the program keeps its own copy. */
static void a_userfaultfd_that_was_never_set_up(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);
	pthread_t reader;

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	if (userfaultfd_of(pair->a.client, O_NONBLOCK, false) < 0)
		skip(); /* the kernel gives this process no userfaultfd */
	reader = reader_new(world);
	for (int i = 0; i < 100000 && !reads; i++)
		test_nap(100);
	for (int i = 0; i < 20; i++)
		test_nap(1000);
	reader_ends(world, reader);
	assert_int_equal(reads, 1);
	use_pages(pair, 2);
	assert_int_equal(counters(pair->a.mr).checked_pages, 2);
}

/* A read that finds nothing, or was interrupted, is no reason to give the events up. */
static void reads_for_nothing(void **state)
{
	static const int errors[] = { EAGAIN, EINTR };
	struct world *world = *state;
	struct pair *pair = watched_pair(world, O_NONBLOCK);

	for (unsigned int i = 0; i < ARRAY_SIZE(errors); i++) {
		pthread_t reader;

		fails = errors[i];
		times = 3;
		reader = reader_new(world);
		assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
		reader_ends(world, reader);
		assert_int_equal(times, 0);
		assert_int_equal(present(pair->a.mr), 7);
		use_pages(pair, 8);
		assert_int_equal(counters(pair->a.mr).watched_pages, 9 + i);
	}
}

/*
 * The client may have made its descriptor blocking, and its event may be gone when it is read: the
 * reader does not wait for the next one.
 */
static void an_event_that_somebody_else_takes(void **state)
{
	struct world *world = *state;
	struct pair *pair = watched_pair(world, 0);

	for (unsigned int i = 0; i < 2; i++) {
		pthread_t reader;

		old_kernel = i;
		assert_int_equal(0, fcntl(watched, F_SETFL, 0));
		taken = true;
		reader = reader_new(world);
		assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
		reader_ends(world, reader);
		assert_false(taken);
		assert_int_equal(present(pair->a.mr), 8);

		reader = reader_new(world);
		assert_int_equal(0, madvise(pair->a.mr->addr + PAGE, PAGE, MADV_DONTNEED));
		reader_ends(world, reader);
		assert_int_equal(present(pair->a.mr), 7);
		use_pages(pair, 8);
		assert_int_equal(counters(pair->a.mr).watched_pages, 9 + i);
	}
}

static void *drop_a_page(void *arg)
{
	struct mr *mr = arg;

	return madvise(mr->addr, PAGE, MADV_DONTNEED) ? NULL : arg;
}

/* Who waits for an event that nobody reads goes on when the last region's process has gone. */
static void events_that_nobody_reads(void **state)
{
	struct pair *pair = watched_pair(*state, O_NONBLOCK);
	struct pollfd event = { .fd = watched, .events = POLLIN };
	pthread_t thread;
	void *dropped;

	assert_int_equal(0, pthread_create(&thread, NULL, drop_a_page, pair->a.mr));
	assert_int_equal(1, poll(&event, 1, -1));
	no_copy_of_ours();
	client_gone(pair->a.client);
	client_gone(pair->b.client);
	assert_int_equal(0, pthread_join(thread, &dropped));
	assert_ptr_equal(dropped, pair->a.mr);
}

/* A further client of the pair's process, with a region of its own. */
static struct pair *another_client(struct pair *pair, pid_t pid)
{
	struct pair *other = pair_new(pair->a.world, &pair->a.options);

	other->a.client->mm = simhca_context_mm(other->a.client->context, pid);
	other->a.mr = on_demand(other->a.client, pages(8), 8 * PAGE, ODP);
	return other;
}

static const struct simhca_pager *pager_of(const struct side *side)
{
	return simhca_key_of(side->world->device[0], side->mr->lkey)->odp->pager;
}

/* A process has one pager, with one userfaultfd; who has the same pid later has another one. */
static void pids_are_used_again(void **state)
{
	struct world *world = *state;
	struct pair *pair = watched_pair(world, O_NONBLOCK), *same, *later;

	same = another_client(pair, getpid());
	assert_ptr_equal(pager_of(&pair->a), pager_of(&same->a));
	assert_ptr_not_equal(pager_of(&pair->a), pager_of(&another_client(pair, getppid())->a));
	use_pages(same, 8);
	assert_int_equal(counters(same->a.mr).watched_pages, 8);

	simhca_mm_gone(pair->a.client->mm);
	later = another_client(pair, getpid());
	assert_ptr_not_equal(pager_of(&pair->a), pager_of(&later->a));
	use_pages(later, 4);
	assert_int_equal(counters(later->a.mr).checked_pages, 4);
	no_copy_of_ours();
	assert_true(userfaultfd_of(later->a.client, O_NONBLOCK, true) >= 0);
	use_pages(later, 8);
	assert_int_equal(counters(later->a.mr).watched_pages, 4);
}

/* Those whose pid is not known are not one process. */
static void pids_that_are_not_known(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 1);
	struct pair *one = another_client(pair, 0), *two = another_client(pair, 0);

	assert_ptr_not_equal(pager_of(&one->a), pager_of(&two->a));
}

#define WITH_CALLS(test) cmocka_unit_test_setup_teardown(test, setup_calls, teardown_calls)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_CALLS(what_left_before),
		WITH_CALLS(events_that_cannot_be_read),
		WITH_CALLS(a_userfaultfd_that_was_never_set_up),
		WITH_CALLS(reads_for_nothing),
		WITH_CALLS(an_event_that_somebody_else_takes),
		WITH_CALLS(events_that_nobody_reads),
		WITH_CALLS(pids_are_used_again),
		WITH_CALLS(pids_that_are_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
