/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* On-demand regions: when accesses fault, who waits, and how it ends. */
#include <sys/mman.h>

#include "paging.h"

/* One page fault where context says, and none elsewhere. */
static void one_fault(const struct side *side, enum simhca_own_access context, bool pending)
{
	struct simhca_qp_info now = info(side);

	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		assert_int_equal(now.faults[i], (enum simhca_own_access)i == context);
		assert_int_equal(now.fault_pending[i],
				 pending && (enum simhca_own_access)i == context);
	}
}

/* ------------------------------------------------------------------ where QPs stop */

static void a_sender_stops_until_its_pages_are_there(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);
	struct mr *ordinary = mr_new(pair->b.client, 100, ALL_ACCESS);

	pair->b.mr = ordinary;
	fill(pair->a.mr->addr + 10, 100, 1);
	assert_int_equal(present(pair->a.mr), 0);
	recv_into(&pair->b, 2, 0, 100);
	send_from(&pair->a, 1, 10, 100);
	advance(*state, 100 * MSEC);
	expect_none(pair->a.send_cq);
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, true);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
	assert_true(filled(ordinary->addr, 100, 1));
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, false);
	assert_int_equal(present(pair->a.mr), 1);
	assert_int_equal(counters(pair->a.mr).faults, 1);
	assert_int_equal(counters(pair->a.mr).fault_pages, 1);

	/* The second time it does not. */
	recv_into(&pair->b, 4, 0, 100);
	send_from(&pair->a, 3, 10, 100);
	run_until_idle(*state);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_int_equal(counters(pair->a.mr).faults, 1);
}

static void a_reader_stops_until_its_pages_are_there(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);

	pair->b.mr = mr_new(pair->b.client, 100, ALL_ACCESS);
	fill(pair->b.mr->addr, 100, 1);
	rdma_read(&pair->a, 1, 0, 100, 0);
	advance(*state, 100 * MSEC);
	expect_none(pair->a.send_cq);
	one_fault(&pair->a, SIMHCA_REQUESTER_WRITE, true);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 100, 1));
	one_fault(&pair->a, SIMHCA_REQUESTER_WRITE, false);
}

/* An atomic write only reads from its own side's memory, though it goes with the atomics. */
static void an_atomic_writes_source_is_read(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);

	pair->b.mr = mr_new(pair->b.client, 8, ALL_ACCESS);
	fill(pair->a.mr->addr, 8, 1);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
	run_until_idle(*state);
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, true);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->b.mr->addr, 8, 1));
}

/* What a posts towards b's fresh pages, by number. */
static void towards_fresh_pages(struct pair *pair, int what)
{
	struct simhca_sge local = sge(pair->a.mr, 0, what < 3 ? 100 : 8);

	switch (what) {
	case 0:
		recv_into(&pair->b, 2, 0, 100);
		send_from(&pair->a, 1, 0, 100);
		break;
	case 1:
		rdma_write(&pair->a, 1, 0, 100, 0);
		break;
	case 2:
		rdma_read(&pair->a, 1, 0, 100, 0);
		break;
	default:
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SGES(local),
		     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey, .compare_add = 5);
		break;
	}
}

/* To the requester it is an RNR NAK that costs nothing: neither an RNR retry nor any other. */
static void a_responders_fault_costs_no_retry(void **state)
{
	if (((struct world *)*state)->tick)
		skip(); /* in a queue nobody is told that a packet waits */
	for (int what = 0; what < 4; what++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;
		enum simhca_own_access context =
			what == 2 ? SIMHCA_RESPONDER_READ : SIMHCA_RESPONDER_WRITE;

		options.access = ALL_ACCESS;
		options.rnr_retry = 0;
		options.retry_cnt = 0;
		options.timeout = 14; /* 67 ms */
		pair = pair_new(*state, &options);
		pair->b.mr = on_demand(pair->b.client, pages(2), 2 * PAGE, ODP);
		fill(pair->a.mr->addr, 100, 7);
		towards_fresh_pages(pair, what);
		for (int i = 0; i < 200; i++)
			advance(*state, 5 * MSEC);
		expect_none(pair->a.send_cq);
		one_fault(&pair->b, context, true);
		page_in(*state);
		expect(pair->a.send_cq, 1, SUCCESS);
		one_fault(&pair->b, context, false);
		if (what == 0)
			expect(pair->b.recv_cq, 2, SUCCESS);
		if (what < 2)
			assert_true(filled(pair->b.mr->addr, 100, 7));
		if (what == 2)
			assert_true(all_bytes(pair->a.mr->addr, 100, 0));
		if (what == 3)
			assert_int_equal(*(uint64_t *)pair->b.mr->addr, 5);
		assert_int_equal(counters(pair->b.mr).faults, 1);
		assert_int_equal(counters(pair->b.mr).fault_pages, 1);
	}
}

/* When the pages have come the requester hears of it, and sends at once. */
static void who_waits_for_a_peers_pages_is_told(void **state)
{
	struct world *world = *state;

	if (world->tick)
		skip(); /* likewise, so nobody waits */
	for (int what = 0; what < 4; what++) {
		struct pair *pair = paging_pair(world, what == 3 ? IBV_QPT_UC : IBV_QPT_RC, 2);

		pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
		towards_fresh_pages(pair, what == 3 ? 1 : what);
		for (int i = 0; i < 20; i++)
			advance(world, 2 * MSEC);
		expect_none(pair->a.send_cq);
		assert_true(simhca_faults_poll(world->fabric));
		expect(pair->a.send_cq, 1, SUCCESS);
	}
	/* Also of those that will not come. */
	for (int i = 0; i < 2; i++) {
		struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);

		rdma_write(&pair->a, 1, 0, 100, 0);
		page_in(world);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_int_equal(0, munmap(pair->b.mr->addr + PAGE, PAGE));
		rdma_write(&pair->a, 2, 0, 100, PAGE);
		run_until_idle(world);
		expect_none(pair->a.send_cq);
		assert_true(simhca_faults_poll(world->fabric));
		expect(pair->a.send_cq, 2, REM_ACCESS_ERR);
	}
}

/*
 * Nobody tells a datagram's sender: it comes again after 10 us, and, if that was too early, ever
 * more seldom, up to 1.28 ms.
 */
static void a_sender_comes_back_ever_more_seldom(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_UD, 2);

	if (((struct world *)*state)->tick)
		skip(); /* a packet in a queue needs no sender */
	pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	recv_into(&pair->b, 1, 0, 200);
	recv_into(&pair->b, 2, PAGE, 200);
	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	assert_true(simhca_faults_poll(((struct world *)*state)->fabric));
	advance(*state, 9 * USEC);
	expect_none(pair->a.send_cq);
	advance(*state, USEC);
	expect(pair->a.send_cq, 1, SUCCESS);

	send_from(&pair->a, 2, 0, 100);
	for (int i = 0; i < 20; i++)
		advance(*state, 2 * MSEC);
	assert_true(simhca_faults_poll(((struct world *)*state)->fabric));
	advance(*state, 1279 * USEC);
	expect_none(pair->a.send_cq);
	advance(*state, USEC);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* UC and UD have no answers, and lose nothing all the same: the link holds the packet back. */
static void unreliable_transports_lose_nothing(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct pair *pair = paging_pair(*state, types[i], 2);

		fill(pair->a.mr->addr, 100, 3);
		recv_into(&pair->b, 2, 0, 200);
		send_from(&pair->a, 1, 0, 100);
		page_in(*state);
		expect(pair->a.send_cq, 1, SUCCESS);
		expect(pair->b.recv_cq, 2, SUCCESS);
		assert_true(filled(pair->b.mr->addr + (types[i] == IBV_QPT_UD ? 40 : 0), 100, 3));
		one_fault(&pair->b, SIMHCA_RESPONDER_WRITE, false);
	}
}

static void other_qps_go_on_meanwhile(void **state)
{
	struct pair *stopped = paging_pair(*state, IBV_QPT_RC, 2);
	struct options options = default_options(IBV_QPT_RC);
	struct pair *other = pair_new(*state, &options);

	recv_into(&stopped->b, 2, 0, 100);
	send_from(&stopped->a, 1, 0, 100);
	run_until_idle(*state);
	check_works(other);
	expect_none(stopped->a.send_cq);
	page_in(*state);
	expect(stopped->a.send_cq, 1, SUCCESS);
}

/* A fault in one direction, then one in the other, and two from the peer: four at a time. */
static void raise_four(struct pair *pair, struct side *third)
{
	/* As requester: a message of its own, and behind it a response. */
	send_from(&pair->a, 1, 0, 100);
	rdma_read(&pair->a, 2, PAGE, 100, 0);
	/* As responder: the peer writes; then it is reset, comes back, and reads. */
	rdma_write(&pair->b, 3, 0, 100, 2 * PAGE);
	run_until_idle(pair->a.world);
	assert_int_equal(0, patiently(qp_move(pair->b.qp, IBV_QPS_RESET)));
	qp_connect(pair->b.qp, pair->a.client->device_index, pair->a.qp->qpn, &pair->b.options);
	rdma_read(&pair->b, 4, 0, 100, 3 * PAGE);
	run_until_idle(pair->a.world);
	(void)third;
}

static struct pair *pair_of_four(struct world *world)
{
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	return pair;
}

static void four_faults_of_one_qp(void **state)
{
	struct pair *pair = pair_of_four(*state);
	struct simhca_qp_info now;

	if (((struct world *)*state)->tick)
		skip(); /* a queue offers no request while a response is owed: three at a time */
	raise_four(pair, NULL);
	now = info(&pair->a);
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		assert_int_equal(now.faults[i], 1);
		assert_true(now.fault_pending[i]);
	}
	/* Each is brought in on its own. */
	for (unsigned int i = 1; i <= 4; i++) {
		assert_true(simhca_faults_poll(((struct world *)*state)->fabric));
		assert_int_equal(present(pair->a.mr), i);
	}
	page_in(*state);
	expect(pair->b.send_cq, 4, SUCCESS);
	recv_into(&pair->b, 9, 0, 100);
	page_in(*state);
	now = info(&pair->a);
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		assert_int_equal(now.faults[i], 1);
		assert_false(now.fault_pending[i]);
	}
}

/* The same if the second message comes when the requester stands already. */
static void a_fault_beside_one_that_waits(void **state)
{
	struct pair *pair = pair_of_four(*state);

	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, true);
	rdma_read(&pair->a, 2, PAGE, 100, 0);
	run_until_idle(*state);
	assert_true(info(&pair->a).fault_pending[SIMHCA_REQUESTER_READ]);
	assert_true(info(&pair->a).fault_pending[SIMHCA_REQUESTER_WRITE]);
	recv_into(&pair->b, 9, 0, 100);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(info(&pair->a).faults[SIMHCA_REQUESTER_READ], 1);
	assert_int_equal(info(&pair->a).faults[SIMHCA_REQUESTER_WRITE], 1);
}

/* Pages that are dropped as soon as they are there delay a QP, and each fault lets it get on. */
static void a_resumed_access_goes_on(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 2);
	struct mr *dropped = pair->b.mr, *ordinary = mr_new(pair->b.client, PAGE, ALL_ACCESS);

	if (world->tick)
		skip(); /* a packet in a queue is tried again before the other one is sent */
	/* What it sends from. */
	pair->b.mr = ordinary;
	rdma_write(&pair->a, 1, 0, 100, 0);
	run_until_idle(world);
	assert_true(simhca_faults_poll(world->fabric));
	assert_int_equal(0, madvise(pair->a.mr->addr, PAGE, MADV_DONTNEED));
	run_until_idle(world);
	expect(pair->a.send_cq, 1, SUCCESS);
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, false);

	/* What its peer writes to; another access takes the page out of the map in between. */
	pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	pair->b.mr = dropped;
	rdma_write(&pair->a, 2, 0, 100, 0);
	run_until_idle(world);
	assert_true(simhca_faults_poll(world->fabric));
	assert_int_equal(0, madvise(dropped->addr, PAGE, MADV_DONTNEED));
	rdma_write(&pair->b, 3, 0, 100, 0);
	run_until_idle(world);
	assert_int_equal(present(dropped), 0);
	assert_true(info(&pair->b).fault_pending[SIMHCA_REQUESTER_READ]);
	advance(world, MSEC);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(info(&pair->b).faults[SIMHCA_RESPONDER_WRITE], 1);
	page_in(world);
	expect(pair->b.send_cq, 3, SUCCESS);
}

/* ------------------------------------------------------------------ what is brought in */

/* A message over pages of which some are there and some are not; and the region's ragged ends. */
static void a_fault_in_the_middle(void **state)
{
	const uint32_t length = 600000;
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 160);
	struct mr *from, *to;

	from = on_demand(pair->a.client, pair->a.mr->addr + 100, length + 77, ODP);
	to = on_demand(pair->b.client, pair->b.mr->addr + 3000, length + 77, ODP);
	pair->a.mr = from;
	pair->b.mr = to;
	fill(from->addr, length + 77, 1);
	/* The beginning, the end and something between are present before. */
	rdma_write(&pair->a, 1, 0, 10, 0);
	rdma_write(&pair->a, 2, 300000, 10, 270000);
	rdma_write(&pair->a, 3, length + 70, 7, length + 70);
	page_in(*state);
	for (uint64_t id = 1; id <= 3; id++)
		expect(pair->a.send_cq, id, SUCCESS);
	assert_int_equal(present(to), 3);
	rdma_write(&pair->a, 4, 0, length + 77, 0);
	page_in(*state);
	expect(pair->a.send_cq, 4, SUCCESS);
	assert_true(filled(to->addr, length + 77, 1));
	assert_int_equal(present(to), (3000 + length + 77 + PAGE - 1) / PAGE);
	assert_int_equal(present(from), (100 + length + 77 + PAGE - 1) / PAGE);
}

/* Several regions in one scatter list: one fault for all of them. */
static void a_list_of_regions_is_one_fault(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct simhca_sge list[4];
	struct pair *pair;
	struct mr *mr[4];

	options.max_send_sge = 4;
	pair = pair_new(*state, &options);
	for (int i = 0; i < 4; i++) {
		mr[i] = on_demand(pair->a.client, pages(1), PAGE, ODP);
		list[i] = sge(mr[i], 5, 10);
	}
	recv_into(&pair->b, 2, 0, 100);
	qp_post(pair->a.qp, &(struct wr){ .id = 1,
					  .opcode = SIMHCA_WR_SEND,
					  .flags = SIMHCA_WQE_SIGNALED,
					  .sges = list,
					  .num_sge = 4 });
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	one_fault(&pair->a, SIMHCA_REQUESTER_READ, false);
	for (int i = 0; i < 4; i++)
		assert_int_equal(present(mr[i]), 1);
}

/* To bring a page in for writing changes none of its bytes. */
static void a_write_fault_changes_nothing(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);
	FILE *file = tmpfile();
	uint8_t *at;

	pair->a.mr = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	for (int i = 0; i < 2 * (int)PAGE; i++)
		putc(i % 251, file);
	fflush(file);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	pair->b.mr = on_demand(pair->b.client, at, 2 * PAGE, ODP);
	fill(pair->a.mr->addr, 100, 9);
	rdma_write(&pair->a, 1, 0, 100, PAGE - 50);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	for (int i = 0; i < 2 * (int)PAGE; i++)
		if (i < (int)PAGE - 50 || i >= (int)PAGE + 50)
			assert_int_equal(at[i], i % 251);
	assert_true(filled(at + PAGE - 50, 100, 9));
	/* And the file is still what it was. */
	fseek(file, PAGE - 50, SEEK_SET);
	assert_int_equal(getc(file), (PAGE - 50) % 251);
	fclose(file);
	munmap(at, 2 * PAGE);
}

/* Address 0, length SIZE_MAX: everything, of which only what is used costs anything. */
static void an_implicit_region(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct mr *all;
	uint8_t *far;

	options.access = ALL_ACCESS;
	pair = pair_new(*state, &options);
	all = mr_over(pair->a.client, pair->a.client->pd, NULL, UINT64_MAX, 0, ODP);
	far = pages(3);
	fill(far, 3 * PAGE, 4);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE,
	     SGES({ .addr = (uintptr_t)far + 10, .length = 2 * PAGE, .lkey = all->lkey }),
	     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_memory_equal(pair->b.mr->addr, far + 10, 2 * PAGE);
	assert_int_equal(present(all), 3);
	/* Page 0 is not mapped, nor is the end of everything. */
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE,
	     SGES({ .addr = UINT64_MAX - 100, .length = 50, .lkey = all->lkey }),
	     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
	page_in(*state);
	expect_why(pair->a.send_cq, 2, LOC_PROT_ERR, FAULT_NOT_MAPPED);
}

/* ---------------------------------------------------------- what cannot be brought in */

static void a_local_buffer_that_is_not_there(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 3);

	pair->b.mr = mr_new(pair->b.client, 3 * PAGE, ALL_ACCESS);
	munmap(pair->a.mr->addr + PAGE, PAGE);
	rdma_write(&pair->a, 1, 0, 2 * PAGE, 0);
	page_in(*state);
	expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, FAULT_NOT_MAPPED);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	assert_int_equal(counters(pair->a.mr).failures, 1);
	assert_true(all_bytes(pair->b.mr->addr, 3 * PAGE, 0));
}

/* Who destroys a QP does not wait for pages. */
static void sends_that_wait_for_pages(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_UC, 3);

	pair->b.mr = mr_new(pair->b.client, 3 * PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, PAGE, 0);
	run_until_idle(*state);
	assert_false(simhca_qp_has_sends(pair->a.client->context, pair->a.qp->handle));
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void the_peers_memory_that_is_not_there(void **state)
{
	for (int what = 1; what < 4; what++) {
		struct pair *pair = paging_pair(*state, IBV_QPT_RC, 3);

		pair->a.mr = mr_new(pair->a.client, 3 * PAGE, ALL_ACCESS);
		munmap(pair->b.mr->addr, PAGE);
		towards_fresh_pages(pair, what);
		page_in(*state);
		expect_why(pair->a.send_cq, 1, REM_ACCESS_ERR, FAULT_NOT_MAPPED);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR), 1);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	}
}

static void a_receive_buffer_that_is_not_there(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 3);

	pair->a.mr = mr_new(pair->a.client, 3 * PAGE, ALL_ACCESS);
	munmap(pair->b.mr->addr, PAGE);
	towards_fresh_pages(pair, 0);
	page_in(*state);
	expect_why(pair->a.send_cq, 1, REM_OP_ERR, FAULT_NOT_MAPPED);
	expect_why(pair->b.recv_cq, 2, LOC_PROT_ERR, FAULT_NOT_MAPPED);
}

static void memory_that_may_only_be_read(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 3);

	pair->a.mr = mr_new(pair->a.client, 3 * PAGE, ALL_ACCESS);
	fill(pair->b.mr->addr, PAGE, 5);
	mprotect(pair->b.mr->addr, PAGE, PROT_READ);
	rdma_read(&pair->a, 1, 0, 100, 0);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_memory_equal(pair->a.mr->addr, pair->b.mr->addr, 100);
	rdma_write(&pair->a, 2, 0, 100, 0);
	page_in(*state);
	expect_why(pair->a.send_cq, 2, REM_ACCESS_ERR, FAULT_NOT_WRITABLE);
}

/* ------------------------------------------------------------------------ life and death */

static void how_it_goes_away(struct pair *pair, int how)
{
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
	}
}

/* Faults that are queued are taken back; nothing of them is left to be done. */
static void faults_of_a_qp_that_goes(void **state)
{
	struct world *world = *state;

	for (int how = 0; how < 3; how++) {
		struct pair *pair = pair_of_four(world);

		raise_four(pair, NULL);
		how_it_goes_away(pair, how);
		assert_false(simhca_faults_poll(world->fabric));
		assert_int_equal(present(pair->a.mr), 0);
		assert_int_equal(0, patiently(mr_gone(pair->a.mr)));
		run_until_idle(world);
		if (how == 1) {
			expect(pair->a.send_cq, 1, WR_FLUSH_ERR);
			expect(pair->a.send_cq, 2, WR_FLUSH_ERR);
		}
	}
}

/* And enabled again when it comes back. */
static void a_qp_that_comes_back_faults_again(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);

	for (int i = 0; i < 3; i++) {
		recv_into(&pair->b, 2, 0, 100);
		send_from(&pair->a, 1, 0, 100);
		run_until_idle(*state);
		assert_true(info(&pair->a).fault_pending[SIMHCA_REQUESTER_READ]);
		pair_reconnect(pair);
	}
	recv_into(&pair->b, 4, 0, 100);
	send_from(&pair->a, 3, 0, 100);
	page_in(*state);
	expect(pair->a.send_cq, 3, SUCCESS);
}

/* A change that is refused leaves the QP as it was: its fault is raised again. */
static void a_fault_outlives_a_refused_change(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);
	struct simhca_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	recv_into(&pair->b, 2, 0, 100);
	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	assert_int_equal(-EINVAL, qp_modify(pair->a.qp, SIMHCA_QP_STATE | SIMHCA_QP_QKEY, attr));
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void a_region_that_goes(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);

	recv_into(&pair->b, 2, 0, 100);
	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	assert_int_equal(0, mr_gone(pair->a.mr));
	run_until_idle(*state);
	expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, KEY_UNKNOWN);
	assert_false(simhca_faults_poll(((struct world *)*state)->fabric));
}

static void a_client_that_goes(void **state)
{
	struct pair *pair = pair_of_four(*state);

	raise_four(pair, NULL);
	client_gone(pair->a.client);
	run_until_idle(*state);
	assert_false(simhca_faults_poll(((struct world *)*state)->fabric));
}

static void rereg_begins_anew(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);
	struct simhca_rereg_mr_req req = { .handle = pair->a.mr->handle,
					   .flags = SIMHCA_REREG_ACCESS,
					   .access = ALL_ACCESS };
	struct simhca_reg_mr_reply reply;

	recv_into(&pair->b, 2, 0, 100);
	send_from(&pair->a, 1, 0, 100);
	page_in(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
	/* An ordinary region, and on demand again. */
	assert_int_equal(0, simhca_rereg_mr(pair->a.client->context, pair->a.client->mm, &req,
					    &reply, NULL));
	recv_into(&pair->b, 4, 0, 100);
	send_from(&pair->a, 3, PAGE, 100);
	run_until_idle(*state);
	expect(pair->a.send_cq, 3, SUCCESS);
	req.access = ODP;
	assert_int_equal(0, simhca_rereg_mr(pair->a.client->context, pair->a.client->mm, &req,
					    &reply, NULL));
	assert_int_equal(present(pair->a.mr), 0);
	recv_into(&pair->b, 6, 0, 100);
	send_from(&pair->a, 5, 0, 100);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	page_in(*state);
	expect(pair->a.send_cq, 5, SUCCESS);
}

/* ------------------------------------------------------------------------------ advice */

static int advise(const struct mr *mr, uint32_t advice, uint32_t flags, uint64_t offset,
		  uint32_t length)
{
	struct simhca_advise_mr_req req = {
		.pd = mr->client->pd, .advice = advice, .flags = flags, .num_sge = 1
	};
	int ret;

	req.sge[0] = sge(mr, offset, length);
	for (int i = 0; i < 1000; i++) {
		ret = simhca_advise_mr(mr->client->context, &req, NULL);
		if (ret != -EAGAIN)
			break;
		simhca_faults_poll(mr->client->world->fabric);
	}
	return ret;
}

static void what_was_prefetched_does_not_fault(void **state)
{
	static const uint32_t advices[] = { SIMHCA_ADVICE_PREFETCH, SIMHCA_ADVICE_PREFETCH_WRITE };

	for (size_t i = 0; i < ARRAY_SIZE(advices); i++) {
		struct pair *pair = paging_pair(*state, IBV_QPT_RC, 1500);

		pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
		assert_int_equal(0, advise(pair->a.mr, advices[i], SIMHCA_ADVISE_FLUSH, 100,
					   1400 * PAGE));
		assert_int_equal(present(pair->a.mr), 1401);
		rdma_write(&pair->a, 1, 100 * PAGE, 100, 0);
		rdma_read(&pair->a, 2, 1400 * PAGE, 100, 0);
		run_until_idle(*state);
		expect(pair->a.send_cq, 1, SUCCESS);
		expect(pair->a.send_cq, 2, SUCCESS);
		assert_int_equal(counters(pair->a.mr).faults, 0);
		assert_int_equal(counters(pair->a.mr).prefetches, 1);
		assert_int_equal(counters(pair->a.mr).prefetched_pages, 1401);
	}
}

/* Without FLUSH it happens some time. */
static void a_prefetch_need_not_be_waited_for(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);

	assert_int_equal(0, advise(pair->a.mr, SIMHCA_ADVICE_PREFETCH, 0, 0, 4 * PAGE));
	assert_int_equal(present(pair->a.mr), 0);
	page_in(*state);
	assert_int_equal(present(pair->a.mr), 4);
}

/* NO_FAULT takes what the process has, for reading, and nothing more. */
static void a_prefetch_without_faults(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);

	pair->a.mr->addr[2 * PAGE] = 1;
	assert_int_equal(0, advise(pair->a.mr, SIMHCA_ADVICE_PREFETCH_NO_FAULT, SIMHCA_ADVISE_FLUSH,
				   0, 4 * PAGE));
	assert_int_equal(present(pair->a.mr), 1);
}

static void advice_that_is_refused(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 4);
	struct mr *ordinary = mr_new(pair->a.client, PAGE, ALL_ACCESS);
	struct mr *readable = on_demand(pair->a.client, pages(1), PAGE, SIMHCA_ACCESS_ON_DEMAND);
	struct mr none = *pair->a.mr;
	struct simhca_advise_mr_req empty = { .pd = none.client->pd };
	struct simhca_advise_mr_req foreign = { .num_sge = 1 };
	struct simhca_handle other;

	assert_int_equal(-EOPNOTSUPP, advise(pair->a.mr, 3, 0, 0, 1));
	assert_int_equal(-EINVAL, advise(pair->a.mr, 0, 2, 0, 1));
	assert_int_equal(-EINVAL, advise(ordinary, 0, 0, 0, 1));
	assert_int_equal(-EPERM, advise(readable, SIMHCA_ADVICE_PREFETCH_WRITE, 0, 0, 1));
	assert_int_equal(-EFAULT, advise(pair->a.mr, 0, 0, 4 * PAGE - 1, 2));
	assert_int_equal(-EINVAL, simhca_advise_mr(none.client->context, &empty, NULL));
	assert_int_equal(0, simhca_alloc_pd(none.client->context, &other, NULL));
	foreign.pd = other.handle;
	foreign.sge[0] = sge(pair->a.mr, 0, 1);
	assert_int_equal(-EPERM, simhca_advise_mr(none.client->context, &foreign, NULL));
	none.lkey ^= 1;
	assert_int_equal(-ENOENT, advise(&none, 0, 0, 0, 1));
	/* What is not mapped shows when it is waited for. */
	munmap(pair->a.mr->addr + PAGE, PAGE);
	assert_int_equal(-EFAULT, advise(pair->a.mr, 0, SIMHCA_ADVISE_FLUSH, 0, 4 * PAGE));
	assert_int_equal(0, advise(pair->a.mr, 0, 0, 0, 4 * PAGE));
	/* A stranger's note is not ours. */
	empty.reserved = 77;
	assert_int_equal(-EINVAL, simhca_advise_mr(none.client->context, &empty, NULL));
}

/* -------------------------------------------------------------------------- the line */

/* A QP with many messages does not keep others from having their pages brought in. */
static void faults_are_resolved_in_turn(void **state)
{
	struct world *world = *state;
	struct pair *busy = paging_pair(world, IBV_QPT_RC, 64);
	struct pair *other = paging_pair(world, IBV_QPT_RC, 1);

	busy->b.mr = mr_new(busy->b.client, PAGE, ALL_ACCESS);
	other->b.mr = mr_new(other->b.client, PAGE, ALL_ACCESS);
	for (uint64_t i = 0; i < 60; i++)
		rdma_write(&busy->a, i, i * PAGE, 8, 0);
	rdma_write(&other->a, 1, 0, 8, 0);
	run_until_idle(world);
	for (int i = 0; i < 2; i++) {
		assert_true(simhca_faults_poll(world->fabric));
		run_until_idle(world);
	}
	expect(other->a.send_cq, 1, SUCCESS);
	assert_int_equal(present(busy->a.mr), 1);
}

/* A long prefetch is done in pieces, between which faults have their turn. */
static void a_prefetch_gives_way_to_faults(void **state)
{
	struct world *world = *state;
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 4096);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	assert_int_equal(0, advise(pair->a.mr, 0, 0, 0, 4096 * PAGE));
	rdma_write(&pair->a, 1, 4000 * PAGE, 8, 0);
	run_until_idle(world);
	for (int i = 0; i < 2; i++) {
		assert_true(simhca_faults_poll(world->fabric));
		run_until_idle(world);
	}
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(present(pair->a.mr) < 1000);
}

static int setup_latency(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .fault_latency_us = 1000 } });
	return 0;
}

static void faults_can_be_made_slow(void **state)
{
	struct pair *pair = paging_pair(*state, IBV_QPT_RC, 2);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, 8, 0);
	advance(*state, MSEC - 1);
	assert_false(simhca_faults_poll(((struct world *)*state)->fabric));
	advance(*state, 1);
	assert_true(simhca_faults_poll(((struct world *)*state)->fabric));
	run_until_idle(*state);
	expect(pair->a.send_cq, 1, SUCCESS);
}

/* A window of an on-demand region faults as the region does. */
static void windows_of_on_demand_regions(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct mw *mw;

	options.access = ALL_ACCESS;
	options.same_device = true;
	pair = pair_new(*state, &options);
	pair->b.mr = on_demand(pair->b.client, pages(2), 2 * PAGE, ODP | SIMHCA_ACCESS_MW_BIND);
	mw = mw_new(pair->b.client, pair->b.client->pd, SIMHCA_MW_TYPE_2);
	qp_bind(pair->b.qp, 1, mw, pair->b.mr, PAGE, PAGE, SIMHCA_ACCESS_REMOTE_WRITE);
	run_until_idle(*state);
	expect(pair->b.send_cq, 1, SUCCESS);
	fill(pair->a.mr->addr, 100, 1);
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 100)),
	     .remote_addr = pair->b.mr->iova + PAGE, .rkey = mw->rkey);
	page_in(*state);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(filled(pair->b.mr->addr + PAGE, 100, 1));
	one_fault(&pair->b, SIMHCA_RESPONDER_WRITE, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_sender_stops_until_its_pages_are_there),
		ON_ETHERNET(a_reader_stops_until_its_pages_are_there),
		ON_ETHERNET(an_atomic_writes_source_is_read),
		ON_ETHERNET(a_responders_fault_costs_no_retry),
		ON_ETHERNET(who_waits_for_a_peers_pages_is_told),
		ON_ETHERNET(a_sender_comes_back_ever_more_seldom),
		ON_ETHERNET(unreliable_transports_lose_nothing),
		ON_INFINIBAND(unreliable_transports_lose_nothing),
		ON_ETHERNET(other_qps_go_on_meanwhile),
		ON_ETHERNET(four_faults_of_one_qp),
		ON_ETHERNET(a_fault_beside_one_that_waits),
		ON_ETHERNET(a_resumed_access_goes_on),
		ON_ETHERNET(a_fault_in_the_middle),
		ON_ETHERNET(a_list_of_regions_is_one_fault),
		ON_ETHERNET(a_write_fault_changes_nothing),
		ON_ETHERNET(an_implicit_region),
		ON_ETHERNET(a_local_buffer_that_is_not_there),
		ON_ETHERNET(sends_that_wait_for_pages),
		ON_ETHERNET(the_peers_memory_that_is_not_there),
		ON_ETHERNET(a_receive_buffer_that_is_not_there),
		ON_ETHERNET(memory_that_may_only_be_read),
		ON_ETHERNET(faults_of_a_qp_that_goes),
		ON_ETHERNET(a_qp_that_comes_back_faults_again),
		ON_ETHERNET(a_fault_outlives_a_refused_change),
		ON_ETHERNET(a_region_that_goes),
		ON_ETHERNET(a_client_that_goes),
		ON_ETHERNET(rereg_begins_anew),
		ON_ETHERNET(what_was_prefetched_does_not_fault),
		ON_ETHERNET(a_prefetch_need_not_be_waited_for),
		ON_ETHERNET(a_prefetch_without_faults),
		ON_ETHERNET(advice_that_is_refused),
		ON_ETHERNET(faults_are_resolved_in_turn),
		ON_ETHERNET(a_prefetch_gives_way_to_faults),
		cmocka_unit_test_setup_teardown(faults_can_be_made_slow, setup_latency, teardown),
		ON_ETHERNET(windows_of_on_demand_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
