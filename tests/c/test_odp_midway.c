/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What happens in the middle of a page fault. The worker's way into a process's memory is a system
 * call, which this program provides itself: between the kernel's answer and the worker's next
 * step it does whatever the test wants done, on one thread, so each run is the same.
 */
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "odp.h"
#include "paging.h"

/* Called once, by the next worker that has touched its pages. */
static void (*midway)(void *arg);
static void *midway_arg;
static unsigned int touched; /* times */
static bool copies_fail;
static bool old_kernel; /* which cannot be asked for one mapping */

static void in_the_middle(void (*happens)(void *arg), void *arg)
{
	midway = happens;
	midway_arg = arg;
	touched = 0;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	ssize_t got = syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
	void (*happens)(void *arg) = midway;
	int error = errno;

	touched++;
	midway = NULL;
	if (happens)
		happens(midway_arg);
	if (copies_fail) {
		got = -1;
		error = EFAULT;
	}
	errno = error;
	return got;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
			  const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	if (copies_fail) {
		errno = EFAULT;
		return -1;
	}
	return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	if (old_kernel) {
		errno = ENOTTY;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

/* Another process, whose memory looks as ours does now. It goes with us. */
static pid_t another_process(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static bool poll_fault(struct world *world)
{
	return simhca_faults_poll(world->fabric);
}

static struct simhca_odp *odp_of(const struct mr *mr)
{
	struct world *world = mr->client->world;

	return simhca_key_of(world->device[mr->client->device_index], mr->lkey)->odp;
}

static unsigned int pending(const struct side *side)
{
	struct simhca_qp_info now = info(side);
	unsigned int count = 0;

	for (int i = 0; i < SIMHCA_FAULT_CONTEXTS; i++)
		count += now.fault_pending[i];
	return count;
}

/* Two messages of a that fault, in both directions; b's memory is ordinary. */
static struct pair *two_faults(struct world *world)
{
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, 100, 0);
	rdma_read(&pair->a, 2, PAGE, 100, 0);
	settle(world);
	assert_int_equal(pending(&pair->a), 2);
	return pair;
}

/* ---------------------------------------------------------- a QP or region that is to go */

/* Once: -EAGAIN is an answer here. */
static int leave(struct pair *pair, int how)
{
	struct simhca_modify_qp_req req = {
		.handle = pair->a.qp->handle,
		.mask = SIMHCA_QP_STATE,
		.attr.qp_state = how ? IBV_QPS_ERR : IBV_QPS_RESET,
	};
	struct simhca_modify_qp_reply reply;

	if (how < 2)
		return simhca_modify_qp(pair->a.client->context, &req, &reply, NULL);
	return simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL);
}

static int dereg(struct mr *mr)
{
	return simhca_dereg_mr(mr->client->context, mr->handle, NULL);
}

struct leaving {
	struct pair *pair;
	int how;
};

static void it_may_not_leave(void *arg)
{
	const struct leaving *leaving = arg;

	for (int i = 0; i < 3; i++)
		assert_int_equal(-EAGAIN, leave(leaving->pair, leaving->how));
}

/* Reset, error and destruction wait for the fault that is being resolved; what waits goes. */
static void a_qp_waits_for_its_fault(void **state)
{
	struct world *world = *state;

	for (int how = 0; how < 3; how++) {
		struct leaving leaving = { two_faults(world), how };

		in_the_middle(it_may_not_leave, &leaving);
		assert_true(poll_fault(world));
		assert_false(poll_fault(world));
		assert_int_equal(0, patiently(leave(leaving.pair, how)));
		assert_int_equal(present(leaving.pair->a.mr), 1);
	}
}

/* If nobody tries again, the QP is where it was: after a while its fault is raised once more. */
static void a_change_that_was_not_made(void **state)
{
	struct world *world = *state;
	struct leaving leaving = { two_faults(world), 0 };
	struct side *a = &leaving.pair->a;

	in_the_middle(it_may_not_leave, &leaving);
	assert_true(poll_fault(world));
	settle(world);
	/* The first message goes on, and the second may not fault as long as the change may come.
	 */
	expect(a->send_cq, 1, SUCCESS);
	assert_int_equal(pending(a), 0);
	advance(world, 49 * MSEC);
	assert_int_equal(pending(a), 0);
	for (int i = 0; i < 3; i++)
		advance(world, MSEC);
	assert_int_equal(pending(a), 1);
	assert_true(poll_fault(world));
	settle(world);
	expect(a->send_cq, 2, SUCCESS);
}

static void it_stands(void *arg)
{
	struct pair *pair = arg;

	it_may_not_leave(&(struct leaving){ pair, 0 });
}

/* The same for a requester that stands at the fault that was taken back, and at nothing else. */
static void a_requester_is_not_forgotten(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);
	struct mr *paged = pair->b.mr;

	/* First in the line: what the peer writes to a. Behind it: what a sends. */
	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->b, 1, 0, 8, 2 * PAGE);
	settle(world);
	rdma_write(&pair->a, 2, 0, 8, 8);
	settle(world);
	assert_int_equal(pending(&pair->a), 2);
	in_the_middle(it_stands, pair);
	assert_true(poll_fault(world));
	assert_false(poll_fault(world));
	for (int i = 0; i < 60; i++)
		advance(world, MSEC);
	expect(pair->b.send_cq, 1, SUCCESS);
	assert_int_equal(pending(&pair->a), 1);
	page_in(world);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(present(paged), 0);
}

/* Back within the time for which faults were off, it faults at once. */
static void faults_are_on_when_it_comes_back(void **state)
{
	struct world *world = *state;
	struct pair *pair = two_faults(world);

	pair_reconnect(pair);
	rdma_write(&pair->a, 3, 0, 100, 0);
	settle(world);
	assert_int_equal(pending(&pair->a), 1);
	page_in(world);
	expect(pair->a.send_cq, 3, SUCCESS);
}

/* What a fault was about does not outlive the QP's reset: the page may be there by now. */
static void a_failed_fault_is_forgotten(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);
	uint8_t *at = pair->b.mr->addr;

	pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	munmap(at, PAGE);
	rdma_write(&pair->a, 1, 0, 100, 0);
	settle(world);
	assert_true(poll_fault(world));
	/* It has failed, and before the requester comes again both begin anew. */
	assert_int_equal(counters(pair->b.mr).failures, 1);
	pair_reconnect(pair);
	assert_ptr_equal(at, mmap(at, PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	rdma_write(&pair->a, 2, 0, 100, 0);
	page_in(world);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* The peer begins anew, and a responder that stood at a fault does not. */
static void peer_reconnects(struct pair *pair)
{
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, pair->b.client->device_index,
						pair->b.qp->qpn, &pair->a.options);

	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
}

/* A fault has a say in the access that it is about, and in no other one. */
static void another_access_than_the_faults(void **state)
{
	struct world *world = *state;

	for (int fails = 0; fails < 2; fails++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, 4);

		pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
		if (fails)
			munmap(pair->b.mr->addr, PAGE);
		rdma_write(&pair->a, 1, 0, 8, 0);
		settle(world);
		assert_true(poll_fault(world));
		assert_int_equal(counters(pair->b.mr).failures, fails);
		peer_reconnects(pair);
		rdma_write(&pair->a, 2, 0, 8, PAGE);
		settle(world);
		assert_int_equal(pending(&pair->b), 1);
		page_in(world);
		expect(pair->a.send_cq, 2, SUCCESS);
		assert_int_equal(info(&pair->b).faults[SIMHCA_RESPONDER_WRITE], 2);
	}
}

/* A failure is told once: when the same access comes again it faults anew. */
static void a_failure_is_told_once(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_UC, 2);
	uint8_t *at = pair->a.mr->addr;

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	munmap(at, PAGE);
	rdma_write(&pair->a, 1, 0, 8, 0);
	page_in(world);
	expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, FAULT_NOT_MAPPED);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQE);
	assert_ptr_equal(at, mmap(at, PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	rdma_write(&pair->a, 2, 0, 8, 0);
	page_in(world);
	expect(pair->a.send_cq, 2, SUCCESS);
}

static void it_fails_by_itself(void *arg)
{
	struct pair *pair = arg;
	struct simhca_sge local = sge(pair->b.mr, 0, 8);

	/* The peer's request is refused, which is this QP's end. */
	post(&pair->b, .id = 9, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(local), .rkey = 0x7700);
	settle(pair->a.world);
	expect(pair->b.send_cq, 9, REM_ACCESS_ERR);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	expect_none(pair->a.send_cq);
}

/* A QP that fails by itself is flushed when its last fault has ended. */
static void a_flush_waits_for_the_fault(void **state)
{
	struct world *world = *state;
	struct pair *pair = two_faults(world);

	in_the_middle(it_fails_by_itself, pair);
	assert_true(poll_fault(world));
	assert_false(poll_fault(world));
	settle(world);
	expect(pair->a.send_cq, 1, WR_FLUSH_ERR);
	expect(pair->a.send_cq, 2, WR_FLUSH_ERR);
}

static void the_region_may_not_go(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < 3; i++)
		assert_int_equal(-EAGAIN, dereg(pair->a.mr));
	/* Nor does it take new faults: the key is unknown already. */
	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	post(&pair->b, .id = 5, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->b.mr, 0, 8)),
	     .remote_addr = pair->a.mr->iova + 4 * PAGE, .rkey = pair->a.mr->rkey);
	settle(pair->a.world);
	expect_why(pair->b.send_cq, 5, REM_ACCESS_ERR, KEY_UNKNOWN);
	assert_false(poll_fault(pair->a.world));
}

/* Deregistration waits for the fault that is being resolved, and takes the others back. */
static void a_region_waits_for_its_fault(void **state)
{
	struct pair *pair = two_faults(*state);

	in_the_middle(the_region_may_not_go, pair);
	assert_true(poll_fault(*state));
	assert_int_equal(0, patiently(dereg(pair->a.mr)));
	assert_false(poll_fault(*state));
}

struct prefetch {
	struct mr *mr;
	struct simhca_advise_mr_req req;
};

/* -EAGAIN: it is waited for. */
static int advise(struct prefetch *prefetch, uint32_t advice, uint32_t flags, uint32_t length)
{
	prefetch->req.pd = prefetch->mr->client->pd;
	prefetch->req.advice = advice;
	prefetch->req.flags = flags;
	prefetch->req.num_sge = 1;
	prefetch->req.sge[0] = sge(prefetch->mr, 0, length);
	return simhca_advise_mr(prefetch->mr->client->context, &prefetch->req, NULL);
}

static int outcome(struct prefetch *prefetch)
{
	return simhca_advise_mr(prefetch->mr->client->context, &prefetch->req, NULL);
}

static void the_region_waits(void *arg)
{
	const struct prefetch *prefetch = arg;

	assert_int_equal(-EAGAIN, dereg(prefetch->mr));
}

/* A prefetch that waits goes with its region, and whoever waits for it learns of it. */
static void a_prefetch_ends_with_its_region(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 1024);
	struct prefetch prefetch = { .mr = pair->a.mr };

	assert_int_equal(-EAGAIN, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVISE_FLUSH,
					 1024 * PAGE));
	in_the_middle(the_region_waits, &prefetch);
	assert_true(poll_fault(world));
	assert_int_equal(-EAGAIN, outcome(&prefetch));
	assert_int_equal(0, patiently(dereg(pair->a.mr)));
	assert_false(poll_fault(world));
	assert_int_equal(-EFAULT, outcome(&prefetch));
	assert_int_equal(-EINVAL, outcome(&prefetch));
}

/* A prefetch that meets what is not mapped ends there, whatever comes behind. */
static void a_prefetch_ends_where_it_fails(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 1024);
	struct prefetch prefetch = { .mr = pair->a.mr };

	munmap(pair->a.mr->addr, PAGE);
	assert_int_equal(-EAGAIN, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVISE_FLUSH,
					 1024 * PAGE));
	page_in(world);
	assert_int_equal(-EFAULT, outcome(&prefetch));
	assert_int_equal(present(pair->a.mr), 0);
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
	settle(world);
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
		settle(world);
		in_the_middle(a_page_is_dropped, pair->a.mr);
		drops_left = drops;
		assert_true(poll_fault(world));
		midway = NULL;
		assert_int_equal(touched, drops < 3 ? drops + 1 : 3);
		assert_int_equal(present(pair->a.mr), drops < 3);
		/* It goes on either way. */
		settle(world);
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

/* Workers are stuck if work waits, none of them is idle, and nothing ends between two looks. */
static void workers_that_are_stuck(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	assert_false(simhca_faults_stuck(world->fabric));
	for (uint64_t i = 0; i < 3; i++)
		rdma_write(&pair->a, i, i * PAGE, 8, 0);
	settle(world);
	assert_true(simhca_faults_stuck(world->fabric));
	assert_true(poll_fault(world));
	settle(world);
	assert_false(simhca_faults_stuck(world->fabric));
	assert_true(simhca_faults_stuck(world->fabric));
	page_in(world);
	simhca_faults_stuck(world->fabric);
	assert_false(simhca_faults_stuck(world->fabric));
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
	settle(world);
	assert_int_equal(0, pthread_create(&thread, NULL, work, world->fabric));
	/* By the world's clock it is never due, so the worker only ever looks, and waits on. */
	for (int i = 0; i < 100000 && stuck; i++) {
		test_nap(100);
		stuck = simhca_faults_stuck(world->fabric);
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

static void both_stand(void *arg)
{
	struct pair *pair = arg;

	/* The second one fails, while the first one is being resolved: it is not raised again. */
	assert_true(poll_fault(pair->a.world));
	assert_int_equal(counters(pair->a.mr).failures, 1);
	for (int i = 0; i < 3; i++) {
		settle(pair->a.world);
		qp_ring(pair->a.qp);
	}
	settle(pair->a.world);
	assert_int_equal(info(&pair->a).faults[SIMHCA_REQUESTER_WRITE], 1);
	assert_false(poll_fault(pair->a.world));
}

/* While a requester stands, what was raised ahead of it is raised once, also if it fails. */
static void a_fault_ahead_is_raised_once(void **state)
{
	struct pair *pair = two_faults(*state);

	munmap(pair->a.mr->addr + PAGE, PAGE);
	in_the_middle(both_stand, pair);
	assert_true(poll_fault(*state));
	settle(*state);
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
			settle(world);
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
		settle(world);
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
		settle(world);
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

/* A page that came in for writing needs no fault of the program's own when it stores there. */
static void a_page_comes_in_for_writing(void **state)
{
	static const char zeros[64];

	for (int writable = 0; writable < 2; writable++) {
		struct pair *pair = paging_pair(*state, IBV_QPT_RC, 1);
		uint8_t *at = pages(64);
		struct prefetch prefetch = { .mr = on_demand(pair->a.client, at, 64 * PAGE,
							     writable ? ODP
								      : SIMHCA_ACCESS_ON_DEMAND) };
		unsigned long before;
		int fd[2];

		/* As many as can be told from what else goes on. */
		assert_int_equal(0, madvise(at, 64 * PAGE, MADV_NOHUGEPAGE));
		assert_int_equal(0, pipe(fd));
		assert_int_equal(0, advise(&prefetch, SIMHCA_ADVICE_PREFETCH, 0, 64 * PAGE));
		page_in(*state);
		assert_int_equal(present(prefetch.mr), 64);
		assert_int_equal(64, write(fd[1], zeros, sizeof(zeros)));
		before = minor_faults();
		/* The kernel stores, so that no sanitizer does anything beside. */
		for (int i = 0; i < 64; i++)
			assert_int_equal(1, syscall(SYS_read, fd[0], at + i * PAGE, 1));
		if (writable)
			assert_true(minor_faults() - before < 32);
		else
			assert_true(minor_faults() - before >= 64);
		close(fd[0]);
		close(fd[1]);
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
	settle(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	rdma_read(&pair->a, 2, 0, 8, 0);
	page_in(*state);
	expect_why(pair->a.send_cq, 2, LOC_PROT_ERR, FAULT_NOT_WRITABLE);
}

static void a_mapping_that_is_only_readable(void **state)
{
	only_readable(state);
	old_kernel = true;
	only_readable(state);
	old_kernel = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_qp_waits_for_its_fault),
		ON_ETHERNET(a_change_that_was_not_made),
		ON_ETHERNET(a_requester_is_not_forgotten),
		ON_ETHERNET(faults_are_on_when_it_comes_back),
		ON_ETHERNET(a_failed_fault_is_forgotten),
		ON_ETHERNET(another_access_than_the_faults),
		ON_ETHERNET(a_failure_is_told_once),
		ON_ETHERNET(a_flush_waits_for_the_fault),
		ON_ETHERNET(a_region_waits_for_its_fault),
		ON_ETHERNET(a_prefetch_ends_with_its_region),
		ON_ETHERNET(a_prefetch_ends_where_it_fails),
		ON_ETHERNET(dropped_ranges_and_regions),
		ON_ETHERNET(a_page_that_is_gone_at_once),
		ON_ETHERNET(pages_dropped_while_they_come),
		ON_ETHERNET(a_process_has_two_workers),
		ON_ETHERNET(workers_that_are_stuck),
		cmocka_unit_test_setup_teardown(an_idle_worker_is_not_stuck, setup_latency,
						teardown),
		ON_ETHERNET(prefetches_are_bounded),
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
