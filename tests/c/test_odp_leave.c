/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* QPs and regions that are to go, or fail, in the middle of a page fault. */
#include <sys/mman.h>

#include "midway.h"
#include "paging.h"

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
	run_until_idle(world);
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
	run_until_idle(world);
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
	run_until_idle(world);
	rdma_write(&pair->a, 2, 0, 8, 8);
	run_until_idle(world);
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
	run_until_idle(world);
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
	run_until_idle(world);
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

	if (world->tick)
		skip(); /* what waits in a queue is carried out after all, and has taken the PSN */
	for (int fails = 0; fails < 2; fails++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, 4);

		pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
		if (fails)
			munmap(pair->b.mr->addr, PAGE);
		rdma_write(&pair->a, 1, 0, 8, 0);
		run_until_idle(world);
		assert_true(poll_fault(world));
		assert_int_equal(counters(pair->b.mr).failures, fails);
		peer_reconnects(pair);
		rdma_write(&pair->a, 2, 0, 8, PAGE);
		run_until_idle(world);
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
	run_until_idle(pair->a.world);
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
	run_until_idle(world);
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
	run_until_idle(pair->a.world);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
