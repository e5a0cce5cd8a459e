/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which page faults are raised side by side, in whose turn they are resolved, and who looks. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "midway.h"
#include "paging.h"

/* ------------------------------------------------- what a requester that stands looks ahead at */

/* What may lie between a message that faults and the next one of the other direction. */
enum between { SAME_DIRECTION, INLINE_DATA, NO_DATA, LOCAL_OPERATION, BETWEENS };

static void one_way(struct side *side, bool reads, uint64_t id, uint64_t offset, uint32_t length)
{
	if (reads)
		rdma_read(side, id, offset, length, 0);
	else
		rdma_write(side, id, offset, length, 0);
}

static void post_between(struct pair *pair, enum between what, bool reads)
{
	struct side *a = &pair->a;

	switch (what) {
	case SAME_DIRECTION:
		one_way(a, reads, 2, PAGE, 100);
		break;
	case INLINE_DATA:
		post(a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .also = SIMHCA_WQE_INLINE,
		     .inline_data = "inline", .inline_len = 6, .remote_addr = a->peer->mr->iova,
		     .rkey = a->peer->mr->rkey);
		break;
	case NO_DATA: /* of the other direction */
		one_way(a, !reads, 2, PAGE, 0);
		break;
	case LOCAL_OPERATION:
		qp_bind(a->qp, 2, mw_new(a->client, a->client->pd, 2), a->mr, 0, PAGE,
			SIMHCA_ACCESS_REMOTE_READ);
		break;
	case BETWEENS:
		break;
	}
}

/* The next message that can fault in the other direction is found behind those that cannot. */
static void a_fault_ahead_of_others(void **state)
{
	struct world *world = *state;

	for (int reads = 0; reads < 2; reads++) {
		for (enum between what = 0; what < BETWEENS; what++) {
			struct options options = default_options(IBV_QPT_RC);
			struct pair *pair;
			struct simhca_qp_info now;

			options.access = ALL_ACCESS;
			pair = pair_new(world, &options);
			pair->a.mr = on_demand(pair->a.client, pages(8), 8 * PAGE,
					       ODP | SIMHCA_ACCESS_MW_BIND);
			one_way(&pair->a, reads, 1, 0, 100);
			post_between(pair, what, reads);
			one_way(&pair->a, !reads, 3, 2 * PAGE, 100);
			run_until_idle(world);
			now = info(&pair->a);
			assert_int_equal(now.faults[SIMHCA_REQUESTER_READ], 1);
			assert_int_equal(now.faults[SIMHCA_REQUESTER_WRITE], 1);
			assert_int_equal(pending(&pair->a), 2);
			page_in(world);
			for (uint64_t id = 1; id < 4; id++)
				expect(pair->a.send_cq, id, SUCCESS);
			assert_int_equal(present(pair->a.mr), what == SAME_DIRECTION ? 3 : 2);
		}
	}
}

/* ------------------------------------------------------------------------- whose turn it is */

/* A process with a region, pages of which are prefetched one by one. */
struct process {
	pid_t pid;
	struct mr *mr;
};

static struct process process_new(struct world *world, unsigned int count)
{
	struct process process = { .pid = 0 };
	struct client *client = client_new(world, 0);
	uint8_t *at = pages(count);

	process.pid = another_process();
	client->mm = simhca_context_mm(client->context, process.pid);
	process.mr = on_demand(client, at, count * (uint64_t)PAGE, ODP);
	return process;
}

static void ask_for_each_page(struct process *process, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		struct prefetch prefetch = {
			.mr = process->mr,
			.req = { .pd = process->mr->client->pd,
				 .num_sge = 1,
				 .sge = { sge(process->mr, i * PAGE, PAGE) } },
		};

		assert_int_equal(0, simhca_advise_mr(process->mr->client->context, &prefetch.req,
						     NULL));
	}
}

static void process_gone(const struct process *process)
{
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
}

/* A process with much to bring in gets one piece done, then others do, then it the next. */
static void processes_take_turns(void **state)
{
	struct world *world = *state;
	struct process busy = process_new(world, 8), one = process_new(world, 2),
		       two = process_new(world, 2);
	static const struct {
		unsigned int busy, one, two;
	} done[] = { { 1, 0, 0 }, { 1, 1, 0 }, { 1, 1, 1 }, { 2, 1, 1 },
		     { 2, 2, 1 }, { 2, 2, 2 }, { 3, 2, 2 }, { 4, 2, 2 } };

	ask_for_each_page(&busy, 8);
	ask_for_each_page(&one, 2);
	ask_for_each_page(&two, 2);
	for (size_t i = 0; i < ARRAY_SIZE(done); i++) {
		assert_true(poll_fault(world));
		assert_int_equal(present(busy.mr), done[i].busy);
		assert_int_equal(present(one.mr), done[i].one);
		assert_int_equal(present(two.mr), done[i].two);
	}
	page_in(world);
	process_gone(&busy);
	process_gone(&one);
	process_gone(&two);
}

/* The QPs of a process have their faults resolved in the order in which they were raised. */
static void qps_take_turns(void **state)
{
	enum { QPS = 3, PAGES = 4 };
	struct world *world = *state;
	struct pair *pair[QPS];

	for (int i = 0; i < QPS; i++) {
		pair[i] = paging_pair(world, IBV_QPT_RC, PAGES);
		pair[i]->b.mr = mr_new(pair[i]->b.client, PAGE, ALL_ACCESS);
		for (uint64_t n = 0; n < PAGES; n++)
			rdma_write(&pair[i]->a, n, n * PAGE, 8, 0);
		run_until_idle(world);
	}
	for (unsigned int n = 0; n < PAGES; n++) {
		for (int i = 0; i < QPS; i++) {
			assert_true(poll_fault(world));
			run_until_idle(world);
			assert_int_equal(present(pair[i]->a.mr), n + 1);
			expect(pair[i]->a.send_cq, n, SUCCESS);
		}
	}
	assert_false(poll_fault(world));
}

static int setup_latency(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .fault_latency_us = 1000 } });
	return 0;
}

/* A process whose fault is not due yet keeps nobody else waiting. */
static void who_is_not_due_is_passed_over(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);
	struct process other = process_new(world, 2);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(world);
	ask_for_each_page(&other, 2);
	for (unsigned int i = 1; i < 3; i++) {
		assert_true(poll_fault(world));
		assert_int_equal(present(other.mr), i);
	}
	assert_false(poll_fault(world));
	advance(world, MSEC);
	assert_true(poll_fault(world));
	run_until_idle(world);
	expect(pair->a.send_cq, 1, SUCCESS);
	process_gone(&other);
}

/* --------------------------------------------------------------------- looking before an access */

static void use(struct pair *pair, enum ibv_qp_type type, bool reads, uint64_t id)
{
	if (type == IBV_QPT_RC) {
		one_way(&pair->a, reads, id, 0, 100);
		return;
	}
	recv_into(&pair->b, id, PAGE, 200);
	send_from(&pair->a, id, 0, 100);
}

/*
 * Where no event tells, whoever uses its pages as a requester looks at each use whether they are
 * still there; and if they are, and if its pages were just brought in, it goes on.
 */
static void a_requesters_pages_are_looked_for(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		bool reads;
	} uses[] = { { IBV_QPT_RC, false },
		     { IBV_QPT_RC, true },
		     { IBV_QPT_UD, false },
		     { IBV_QPT_RAW_PACKET, false } };
	struct world *world = *state;

	for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
		struct pair *pair = paging_pair(world, uses[i].type, 2);
		enum simhca_own_access context =
			uses[i].reads ? SIMHCA_REQUESTER_WRITE : SIMHCA_REQUESTER_READ;

		pair->b.mr = mr_new(pair->b.client, 2 * PAGE, ALL_ACCESS);
		for (uint64_t n = 1; n < 4; n++) {
			use(pair, uses[i].type, uses[i].reads, 2 * n);
			run_until_idle(world);
			expect_none(pair->a.send_cq);
			assert_int_equal(pending(&pair->a), 1);
			assert_int_equal(present(pair->a.mr), 0);
			page_in(world);
			expect(pair->a.send_cq, 2 * n, SUCCESS);
			assert_int_equal(info(&pair->a).faults[context], n);
			assert_int_equal(counters(pair->a.mr).invalidated_pages, n - 1);
			/* They are there: it does not fault. */
			use(pair, uses[i].type, uses[i].reads, 2 * n + 1);
			run_until_idle(world);
			expect(pair->a.send_cq, 2 * n + 1, SUCCESS);
			assert_int_equal(info(&pair->a).faults[context], n);
			assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
		}
		/* Dropped as soon as it comes in: it goes on without looking. */
		use(pair, uses[i].type, uses[i].reads, 8);
		run_until_idle(world);
		assert_true(poll_fault(world));
		assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
		run_until_idle(world);
		expect(pair->a.send_cq, 8, SUCCESS);
		assert_int_equal(info(&pair->a).faults[context], 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_fault_ahead_of_others),
		ON_ETHERNET(processes_take_turns),
		ON_ETHERNET(qps_take_turns),
		cmocka_unit_test_setup_teardown(who_is_not_due_is_passed_over, setup_latency,
						teardown),
		ON_ETHERNET(a_requesters_pages_are_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
