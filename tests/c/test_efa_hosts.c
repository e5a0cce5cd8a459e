/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * SRD and UD between hosts: whatever a network does to packets, a message arrives once and whole, or its
 * sender is told. Both ends are QPs of one device here, whose packets all go by the network of wire_net.h.
 */
#include "efa/wire.h"
#include "efa_scene.h"
#include "wire_net.h"

#define MESSAGES 1500u
#define UNDER_WAY 6u
#define RDMA_BYTES 50000u /* seven parcels */
#define LONG_BYTES (140 * 8192u)

static int setup_mtu(void **state, uint32_t mtu)
{
	setenv("SIMHCA_TEST_LINK", "wire", 1);
	*state = world_new(&(struct world_config){ .device = { .efa = true, .mtu = mtu } });
	unsetenv("SIMHCA_TEST_LINK");
	return 0;
}

static int setup(void **state)
{
	return setup_mtu(state, 4096);
}

/* A message of EFA_BYTES is three packets. */
static int setup_small(void **state)
{
	return setup_mtu(state, 256);
}

static struct efa_end *end_new(struct world *world)
{
	struct efa_end *end = efa_end_new(
		world, &(struct simhca_efa_cq_request){ .entries = 2048, .entry_size = 16 });

	efa_add_qps(end, 4);
	return end;
}

/* The fourth is of type UD. */
#define UD_QP 3

static void go_on(struct world *world, struct efa_end *end)
{
	simhca_engine_schedule(end->client->context->engine, &end->client->context->efa->task);
	atomic_fetch_add(&world->now, 50 * USEC);
	rounds(world, 2);
}

/* The next completion, within some seconds of the engine's clock. */
static struct efa_cqe next_of(struct world *world, struct efa_end *end)
{
	struct efa_cqe cqe;

	for (int i = 0; i < 2000; i++) {
		if (efa_poll(end, &cqe))
			return cqe;
		efa_let_work(world, end);
	}
	fail_msg("nothing completes");
	return (struct efa_cqe){ 0 };
}

static void post_numbered(struct efa_end *end, uint32_t number)
{
	struct efa_send_wqe wqe = efa_send_of(end, end->qp[1], (uint16_t)number);

	wqe.control |= EFA_WQE_HAS_IMM;
	wqe.imm = number;
	wqe.buffer[0].length = number % EFA_BYTES;
	efa_put_send(end->qp[0], &wqe);
}

/* Sends of which each has a number. */
static void every_message_arrives_once(void **state)
{
	struct lossy how = { .seed = 7, .lost = 50, .twice = 50, .late = 50 };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	static uint8_t seen[MESSAGES];
	uint32_t posted = 0, sent = 0, received = 0;
	struct efa_cqe cqe;

	memset(seen, 0, sizeof(seen));
	lossy_use(world, &how);
	for (uint16_t i = 0; i < EFA_ENTRIES; i++)
		efa_post_recv(end, end->qp[1], i);
	for (uint32_t tries = 0; received < MESSAGES || sent < MESSAGES; tries++) {
		assert_true(tries < 400 * MESSAGES);
		while (posted < MESSAGES && posted - sent < UNDER_WAY)
			post_numbered(end, posted++);
		go_on(world, end);
		while (efa_poll(end, &cqe)) {
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			if (!(cqe.flags & EFA_CQE_RECV)) {
				sent++;
				continue;
			}
			assert_true(cqe.imm < MESSAGES && !seen[cqe.imm]);
			assert_int_equal(cqe.length, cqe.imm % EFA_BYTES);
			seen[cqe.imm] = 1;
			received++;
			efa_post_recv(end, end->qp[1], cqe.req_id);
		}
	}
	assert_true(how.has_lost && how.has_doubled && how.has_delayed);
}

static struct efa_send_wqe rdma(const struct efa_end *end, enum efa_opcode opcode, struct mr *here,
				struct mr *there)
{
	struct efa_send_wqe wqe = efa_send_of(end, end->qp[1], 5);

	wqe.control = EFA_WQE_FIRST | EFA_WQE_LAST | opcode;
	wqe.rdma.local = (struct efa_buffer){ .length = RDMA_BYTES,
					      .key = here->lkey,
					      .addr_low = (uint32_t)here->iova,
					      .addr_high = (uint32_t)(here->iova >> 32) };
	wqe.rdma.remote = (struct efa_buffer){ .length = RDMA_BYTES,
					       .key = there->rkey,
					       .addr_low = (uint32_t)there->iova,
					       .addr_high = (uint32_t)(there->iova >> 32) };
	return wqe;
}

/* A write with immediate data tells once all of it is there. */
static void reads_and_writes_are_whole(void **state)
{
	struct lossy how = { .seed = 9, .lost = 50, .twice = 50, .late = 50 };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct mr *one = mr_new(end->client, RDMA_BYTES, ALL_ACCESS);
	struct mr *other = mr_new(end->client, RDMA_BYTES, ALL_ACCESS);
	struct efa_send_wqe wqe;

	lossy_use(world, &how);
	for (uint32_t i = 0; i < RDMA_BYTES; i++)
		one->addr[i] = (uint8_t)(i * 7 + i / 256);
	wqe = rdma(end, EFA_RDMA_WRITE, one, other);
	wqe.control |= EFA_WQE_HAS_IMM;
	efa_post_recv(end, end->qp[1], 1);
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).flags & ~EFA_CQE_PHASE,
			 EFA_CQE_RECV | EFA_CQE_HAS_IMM | EFA_RDMA_WRITE << EFA_CQE_OPCODE_SHIFT);
	assert_memory_equal(one->addr, other->addr, RDMA_BYTES);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	memset(one->addr, 0, RDMA_BYTES);
	wqe = rdma(end, EFA_RDMA_READ, one, other);
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	assert_memory_equal(one->addr, other->addr, RDMA_BYTES);
	wqe.rdma.remote.key ^= 0x100;
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_ADDRESS);
}

static void datagrams_have_a_grh(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct efa_send_wqe wqe = efa_send_of(end, end->qp[UD_QP], 5);
	struct efa_cqe cqe;

	memset(end->mr->addr, 0, 2 * EFA_BYTES);
	memset(end->mr->addr, 0x5a, 400);
	wqe.buffer[0].length = 400;
	efa_post_recv(end, end->qp[UD_QP], 1);
	efa_put_send(end->qp[UD_QP], &wqe);
	for (int i = 0; i < 2; i++) {
		cqe = next_of(world, end);
		assert_int_equal(cqe.status, EFA_STATUS_OK);
		if (cqe.flags & EFA_CQE_RECV)
			assert_int_equal(cqe.length, 440);
	}
	assert_memory_equal(end->mr->addr, end->mr->addr + EFA_BYTES + 40, 400);
}

static bool loses_all(void *arg, unsigned int op, uint32_t psn)
{
	return *(bool *)arg;
}

/* Five seconds; others are reached meanwhile, and it again once it is there. */
static void who_is_silent_is_gone(void **state)
{
	bool silent = true;
	struct lossy how = { .loses = loses_all, .arg = &silent };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	uint64_t before = world->now;

	lossy_use(world, &how);
	efa_post_recv(end, end->qp[1], 1);
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_UNREACHABLE);
	assert_in_range(world->now - before, 5 * SEC, 6 * SEC);
	silent = false;
	efa_post_send(end, end->qp[0], end->qp[1], 3);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	silent = true;
	efa_post_send(end, end->qp[0], end->qp[1], 4);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_UNRESPONSIVE);
}

static void exchange(struct world *world, struct efa_end *end, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		efa_post_recv(end, end->qp[1], 1);
		efa_post_send(end, end->qp[0], end->qp[1], 2);
		for (int n = 0; n < 2; n++)
			assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	}
}

/* Its clock was set back: the flow that it begins is older than the one that its receiver knows. */
static void an_older_flow_is_taken_later(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	exchange(world, end, 1);
	end->qp[1]->heard->flow += 3600 * SEC;
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_UNRESPONSIVE);
	atomic_fetch_add(&world->now, 5 * SEC);
	exchange(world, end, 1);
}

static void no_such_qp(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct efa_send_wqe wqe = efa_send_of(end, end->qp[1], 5);
	uint64_t before = world->now;

	wqe.dest_qpn = 999;
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_DEST_QPN);
	wqe.dest_qpn = (uint16_t)end->qp[UD_QP]->qpn;
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_DEST_QPN);
	wqe.dest_qpn = (uint16_t)end->qp[1]->qpn;
	wqe.qkey++;
	efa_put_send(end->qp[0], &wqe);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_DEST_QPN);
	assert_in_range(world->now - before, 0, SEC); /* it was told */
}

/* A QP that was reset does not know what was done before: who goes on is told, and begins anew. */
static void a_flow_begins_anew(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	exchange(world, end, 300); /* more than a window */
	efa_start(end->qp[1]);
	efa_post_recv(end, end->qp[1], 1);
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_DEST_QPN);
	efa_start(end->qp[1]);
	exchange(world, end, 3);
	efa_start(end->qp[0]); /* and who sends may be another, too */
	exchange(world, end, 3);
}

/* Reads have numbers as well, and so have more of them than a window. */
static void reads_are_counted(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct mr *one = mr_new(end->client, LONG_BYTES, ALL_ACCESS);
	struct mr *other = mr_new(end->client, LONG_BYTES, ALL_ACCESS);
	struct efa_send_wqe wqe = rdma(end, EFA_RDMA_READ, one, other);

	wqe.rdma.local.length = wqe.rdma.remote.length = LONG_BYTES;
	for (int i = 0; i < 2; i++) {
		efa_put_send(end->qp[0], &wqe);
		assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
		exchange(world, end, 1);
	}
}

/* Parcels of writes that fail at their sender: what is sent after a window of them arrives. */
static void given_up_writes_stop_nobody(void **state)
{
	bool silent = false;
	struct lossy how = { .loses = loses_all, .arg = &silent };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct mr *one = mr_new(end->client, 8192, ALL_ACCESS); /* a parcel */
	struct mr *other = mr_new(end->client, RDMA_BYTES, ALL_ACCESS);
	struct efa_send_wqe wqe = rdma(end, EFA_RDMA_WRITE, one, other);

	lossy_use(world, &how);
	for (int sent = 0; sent < 2; sent++) {
		silent = sent; /* the first parcel of each is */
		wqe.rdma.local.key = sent ? one->lkey : one->lkey ^ 0x100;
		for (int i = 0; i < 200; i++) {
			efa_put_send(end->qp[0], &wqe);
			assert_int_equal(next_of(world, end).status, EFA_STATUS_INVALID_LKEY);
		}
		silent = false;
		exchange(world, end, 1);
	}
}

static bool loses_number(void *arg, unsigned int op, uint32_t psn)
{
	return psn == *(uint32_t *)arg;
}

/* 20 seconds, as long as others are answered; and what waited for a receive begins to count then. */
static void a_message_ends_that_is_always_lost(void **state)
{
	uint32_t number = 1;
	struct lossy how = { .loses = loses_number, .arg = &number };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct efa_cqe cqe = { .req_id = 1 };
	uint64_t before;

	exchange(world, end, 1);
	atomic_store(&end->qp[0]->rnr_retry, 7);
	efa_post_send(end, end->qp[0], end->qp[1], 3);
	for (int i = 0; i < 100; i++) {
		atomic_fetch_add(&world->now, 250 * MSEC);
		efa_let_work(world, end);
	}
	lossy_use(world, &how);
	efa_post_recv(end, end->qp[1], 4);
	before = world->now;
	for (int i = 0; cqe.req_id != 3; i++) {
		assert_true(i < 100);
		atomic_fetch_add(&world->now, 250 * MSEC);
		efa_post_send(end, end->qp[0], end->qp[1], 1);
		efa_post_recv(end, end->qp[1], 1);
		for (int n = 0; n < 2 && cqe.req_id != 3; n++)
			cqe = next_of(world, end);
	}
	assert_int_equal(cqe.status, EFA_STATUS_UNRESPONSIVE);
	assert_in_range(world->now - before, 20 * SEC, 22 * SEC);
}

/* So often as rnr_retry says, and as long as it takes where that is 7. */
static void a_receiver_is_waited_for(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct efa_cqe cqe;

	atomic_store(&end->qp[0]->rnr_retry, 2);
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	assert_int_equal(next_of(world, end).status, EFA_STATUS_RNR);
	assert_int_equal(end->qp[0]->usage->rnr_naks, 3);
	assert_int_equal(end->qp[1]->usage->no_receive, 3);
	atomic_store(&end->qp[0]->rnr_retry, 7);
	efa_post_send(end, end->qp[0], end->qp[1], 3);
	for (int i = 0; i < 50; i++)
		efa_let_work(world, end);
	assert_false(efa_poll(end, &cqe));
	efa_post_send(end, end->qp[0], end->qp[2], 4); /* it waits for nobody */
	efa_post_recv(end, end->qp[2], 5);
	assert_int_equal(next_of(world, end).req_id, 5);
	assert_int_equal(next_of(world, end).req_id, 4);
	efa_post_recv(end, end->qp[1], 6);
	assert_int_equal(next_of(world, end).req_id, 6);
	assert_int_equal(next_of(world, end).req_id, 3);
}

/* Nothing is to come but the next look at doorbells, which tests have nobody to watch for. */
static void expect_idle(struct world *world, struct efa_end *end)
{
	const struct simhca_task *task = &end->client->context->efa->task;

	for (int i = 0; i < 10; i++)
		efa_let_work(world, end);
	assert_true(task->timer.slot);
	assert_true(task->timer.deadline_ns > world->now + 500 * USEC);
}

/* One of those that wait asks, and less and less often; the others follow it. */
static void one_asks_for_all_that_wait(void **state)
{
	struct lossy how = { .seed = 1 };
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	atomic_store(&end->qp[0]->rnr_retry, 7);
	lossy_use(world, &how);
	for (uint16_t i = 0; i < UNDER_WAY; i++)
		efa_post_send(end, end->qp[0], end->qp[1], i);
	for (int i = 0; i < 100; i++)
		go_on(world, end);
	for (int i = 0; i < 250; i++)
		efa_let_work(world, end); /* a second */
	assert_in_range(how.sent, 2 * (UNDER_WAY + 20), 2 * (UNDER_WAY + 40));
	for (uint16_t i = 0; i < UNDER_WAY; i++)
		efa_post_recv(end, end->qp[1], i);
	for (uint16_t i = 0; i < 2 * UNDER_WAY; i++)
		assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	expect_idle(world, end);
}

/* A receiver that posts one at a time is not left waiting for what it has room for. */
static void a_slow_receiver_is_kept_busy(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	uint32_t posted = 0, completed = 0;
	uint64_t before = world->now;
	struct efa_cqe cqe;

	atomic_store(&end->qp[0]->rnr_retry, 7);
	for (uint32_t i = 0; completed < 300; i++) {
		for (; posted < completed + UNDER_WAY; posted++)
			efa_post_send(end, end->qp[0], end->qp[1], 0);
		if (i % 8 == 0)
			efa_post_recv(end, end->qp[1], 1);
		go_on(world, end);
		while (efa_poll(end, &cqe)) {
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			completed += !(cqe.flags & EFA_CQE_RECV);
		}
	}
	assert_true(end->qp[0]->usage->rnr_naks < 6 * 300);
	assert_in_range(world->now - before, 0, 2 * 300 * 8 * 50 * USEC);
}

/* What came by the wire is looked at in the program's turn. */
static void a_flush_takes_what_is_under_way(void **state)
{
	bool silent = true;
	struct lossy how = { .loses = loses_all, .arg = &silent };
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	lossy_use(world, &how);
	for (uint16_t i = 0; i < 5; i++)
		efa_post_send(end, end->qp[0], end->qp[1], i);
	efa_let_work(world, end);
	assert_int_equal(end->qp[0]->flight_count, 5);
	assert_int_equal(0, efa_to_state(end->qp[0], SIMHCA_QPS_ERR, 0));
	for (uint16_t i = 0; i < 5; i++) {
		struct efa_cqe cqe = next_of(world, end);

		assert_int_equal(cqe.status, EFA_STATUS_FLUSHED);
		assert_int_equal(cqe.req_id, i);
	}
}

static void write_to(struct efa_end *end, const struct efa_qp *to, uint16_t id)
{
	struct efa_send_wqe wqe = rdma(end, EFA_RDMA_WRITE, end->mr, end->mr);

	wqe.req_id = id;
	wqe.dest_qpn = (uint16_t)to->qpn;
	wqe.rdma.local.length = wqe.rdma.remote.length = EFA_BYTES;
	efa_put_send(end->qp[0], &wqe);
}

/* The next completions, in any order: that many with each status. */
static void expect_statuses(struct world *world, struct efa_end *end, unsigned int ok,
			    unsigned int bad)
{
	for (unsigned int count = ok + bad; count; count--) {
		struct efa_cqe cqe = next_of(world, end);

		if (cqe.status == EFA_STATUS_OK)
			ok--;
		else
			bad--;
		assert_true(cqe.status == EFA_STATUS_OK || cqe.status == EFA_STATUS_BAD_DEST_QPN);
	}
	assert_int_equal(ok, 0);
	assert_int_equal(bad, 0);
}

/* Not what waits for a receive of the same QP, nor what is sent later, and be it the first that it takes. */
static void a_wrong_qkey_stops_nobody(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct efa_send_wqe wrong = efa_send_of(end, end->qp[1], 5);

	wrong.qkey++;
	for (uint32_t i = 0; i < EFA_WINDOW + 1; i++) {
		efa_put_send(end->qp[0], &wrong);
		assert_int_equal(next_of(world, end).status, EFA_STATUS_BAD_DEST_QPN);
	}
	atomic_store(&end->qp[0]->rnr_retry, 7);
	efa_post_send(end, end->qp[0], end->qp[1], 1);
	for (int i = 0; i < 10; i++)
		efa_let_work(world, end);
	efa_put_send(end->qp[0], &wrong);
	write_to(end, end->qp[1], 2);
	expect_statuses(world, end, 1, 1);
	write_to(end, end->qp[1], 3);
	expect_statuses(world, end, 1, 0);
	efa_post_recv(end, end->qp[1], 4);
	expect_statuses(world, end, 2, 0);
}

/* A packet comes, as one that another host has sent. */
static void forge(struct efa_end *end, uint8_t host, const struct efa_wire_header *header,
		  size_t data)
{
	static const uint8_t bytes[4096];
	struct simhca_device *device = end->client->context->device;
	uint8_t payload[sizeof(bytes)];
	const struct simhca_wire_datagram datagram = {
		.path = { .source.raw = { 0xfd, [15] = host },
			  .destination = simhca_gids_get(&device->gids, 0) }
	};
	const struct simhca_packet packet = {
		.op = SIMHCA_PKT_EFA,
		.first = true,
		.last = true,
		.dest_qpn = end->qp[1]->qpn,
		.length = EFA_WIRE_HEADER + data,
		.sgid = datagram.path.source,
	};

	efa_wire_encode(header, payload);
	memcpy(payload + EFA_WIRE_HEADER, bytes, data);
	assert_true(atomic_load(&device->efa_take)(device, &packet, payload, &datagram));
}

static void open_flow(struct world *world, struct efa_end *end, uint8_t host, uint32_t qpn)
{
	const struct efa_wire_header header = {
		.kind = EFA_WIRE_SEND, .src_qpn = qpn, .unit = 200, .flow = 1
	};

	forge(end, host, &header, 0);
	if (qpn % 256 == 0)
		efa_let_work(world, end);
}

/* It has as many as it may, and not as many as there are; others open theirs, and it again later. */
static void a_host_has_so_many_flows(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	const struct simhca_efa *efa = end->client->context->efa;

	for (uint32_t qpn = 1; qpn < UINT16_MAX; qpn++)
		open_flow(world, end, 1, qpn);
	efa_let_work(world, end);
	assert_int_equal(efa->flows, EFA_FLOWS_OF_HOST);
	exchange(world, end, 3);
	assert_int_equal(efa->flows, EFA_FLOWS_OF_HOST + 1);
	for (uint32_t qpn = 1; qpn < UINT16_MAX; qpn++)
		open_flow(world, end, 2, qpn);
	efa_let_work(world, end);
	assert_int_equal(efa->flows, EFA_FLOWS);
	exchange(world, end, 3);
	atomic_fetch_add(&world->now, 11 * SEC);
	for (uint32_t qpn = 1; qpn <= 2 * EFA_FLOWS; qpn++)
		open_flow(world, end, 3, qpn);
	efa_let_work(world, end);
	assert_int_equal(efa->flows, EFA_FLOWS);
	efa_start(end->qp[1]);
	assert_int_equal(efa->flows, 0);
	assert_int_equal(HASH_COUNT(efa->hosts), 1); /* to which there is a route */
	efa_start(end->qp[0]);
	assert_null(efa->hosts);
}

/* Packets of each kind have been sent, and have come; what was sent again is told as well. */
static void what_has_passed_is_counted(void **state)
{
	uint32_t number = 1;
	struct lossy how = { .loses = loses_number, .arg = &number };
	struct world *world = *state;
	struct efa_end *end = end_new(world);
	struct simhca_efa_traffic traffic;

	assert_false(simhca_efa_traffic(end->client->context, 0, &traffic));
	exchange(world, end, 1);
	assert_true(simhca_efa_traffic(end->client->context, 0, &traffic));
	assert_int_equal(traffic.routes, 1);
	assert_int_equal(traffic.flows, 1);
	assert_int_equal(traffic.sent, 4); /* three of a message, and the answer */
	assert_int_equal(traffic.received, 4);
	assert_int_equal(traffic.repeated, 0);
	/* PSNs of packets are the message's and the next ones: the second message has the second one. */
	lossy_use(world, &how);
	efa_post_recv(end, end->qp[1], 1);
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	for (int i = 0; i < 50; i++)
		efa_let_work(world, end);
	number = UINT32_MAX;
	for (int n = 0; n < 2; n++)
		assert_int_equal(next_of(world, end).status, EFA_STATUS_OK);
	assert_true(simhca_efa_traffic(end->client->context, 0, &traffic));
	assert_true(traffic.repeated >= 3 && traffic.repeated % 3 == 0);
	assert_int_equal(traffic.sent, 8 + traffic.repeated);
	assert_false(simhca_efa_traffic(end->client->context, 1, &traffic));
}

static struct {
	struct efa_end *end;
	bool (*tick)(void); /* the network's */
} begun;

/* Whenever a packet may come another host begins more messages than there is room for. */
static bool begin_many(void)
{
	struct efa_wire_header header = {
		.kind = EFA_WIRE_SEND, .unit = 200, .flow = 1, .length = 400
	};
	bool busy = begun.tick();

	if (busy)
		for (header.src_qpn = 1; header.src_qpn <= EFA_PARTS; header.src_qpn++)
			forge(begun.end, 1, &header, 200);
	return busy;
}

static void a_host_leaves_room_for_parts_of_others(void **state)
{
	struct lossy how = { .seed = 3, .late = 1000 };
	struct world *world = *state;

	begun.end = end_new(world);
	lossy_use(world, &how);
	begun.tick = world->tick;
	world->tick = begin_many;
	exchange(world, begun.end, 10);
}

static void an_engine_rests_afterwards(void **state)
{
	bool silent = false;
	struct lossy how = { .loses = loses_all, .arg = &silent };
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	lossy_use(world, &how);
	exchange(world, end, 1);
	expect_idle(world, end);
	silent = true;
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	efa_let_work(world, end);
	assert_int_equal(0, efa_to_state(end->qp[0], SIMHCA_QPS_ERR, 0));
	assert_int_equal(next_of(world, end).status, EFA_STATUS_FLUSHED);
	expect_idle(world, end);
}

/* What comes finds its ring of receives broken: what it sends itself has no answer any more. */
static void a_broken_receiver_is_flushed(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world);

	atomic_store(&end->qp[0]->rnr_retry, 7);
	efa_post_send(end, end->qp[0], end->qp[2], 3);
	efa_let_work(world, end);
	assert_int_equal(end->qp[0]->flight_count, 1);
	atomic_store(end->qp[0]->rq_doorbell, EFA_ENTRIES + 1);
	efa_post_send(end, end->qp[1], end->qp[0], 4);
	for (int i = 0; i < 2; i++) {
		struct efa_cqe cqe = next_of(world, end);

		assert_int_equal(cqe.status,
				 cqe.req_id == 3 ? EFA_STATUS_FLUSHED : EFA_STATUS_BAD_DEST_QPN);
	}
	expect_idle(world, end);
}

/* ------------------------------------------------------------------------------ the format */

static void headers_come_back(void **state)
{
	const struct efa_wire_header header = { .kind = EFA_WIRE_WRITE,
						.has_imm = true,
						.status = EFA_STATUS_RNR,
						.src_qpn = 0x1234,
						.flow = 0x0123456789abcdef,
						.number = 0xfedcba98,
						.reason = SIMHCA_REASON_RECV_TOO_SHORT,
						.unit = 4040,
						.length = 8192,
						.offset = 4040,
						.qkey = 0x80010203,
						.imm = 0x01020304,
						.total = 1 << 30,
						.rkey = 0xaabbccdd,
						.va = 0x1122334455667788 };
	struct efa_wire_header back;
	uint8_t bytes[EFA_WIRE_HEADER];

	efa_wire_encode(&header, bytes);
	assert_true(efa_wire_decode(bytes, sizeof(bytes) + 4040, &back));
	assert_int_equal(header.kind, back.kind);
	assert_int_equal(header.has_imm, back.has_imm);
	assert_int_equal(header.status, back.status);
	assert_int_equal(header.src_qpn, back.src_qpn);
	assert_int_equal(header.flow, back.flow);
	assert_int_equal(header.number, back.number);
	assert_int_equal(header.reason, back.reason);
	assert_int_equal(header.unit, back.unit);
	assert_int_equal(header.length, back.length);
	assert_int_equal(header.offset, back.offset);
	assert_int_equal(header.qkey, back.qkey);
	assert_int_equal(header.imm, back.imm);
	assert_int_equal(header.total, back.total);
	assert_int_equal(header.rkey, back.rkey);
	assert_int_equal(header.va, back.va);
	/* Of another length than its place says. */
	assert_false(efa_wire_decode(bytes, sizeof(bytes) + 4039, &back));
	assert_false(efa_wire_decode(bytes, sizeof(bytes) + 4041, &back));
	assert_false(efa_wire_decode(bytes, sizeof(bytes) - 1, &back));
}

/* Whatever comes, what is let through lies within a parcel, of which each packet has its bit. */
static void what_is_let_through_has_its_place(void **state)
{
	unsigned int taken = 0;
	struct efa_wire_header h;
	uint8_t bytes[EFA_WIRE_HEADER];

	srandom(5);
	for (uint32_t i = 0; i < 1000000; i++) {
		const struct efa_wire_header random_one = {
			.kind = (enum efa_wire_kind)(random() % 8),
			.status = (uint8_t)(random() % 20),
			.src_qpn = (uint32_t)random() % 0x20000,
			.unit = (uint16_t)(random() % 3 ? random() % 300 : random()),
			.length = (uint32_t)random() % 10000,
			.offset = (uint32_t)random() % 4 * (uint32_t)(random() % 300),
			.reason = (uint16_t)random(),
			.total = (uint32_t)random() % 3 ? (uint32_t)random() % 10000
							: (uint32_t)random(),
		};
		size_t data = (size_t)random() % 300;

		efa_wire_encode(&random_one, bytes);
		if (!efa_wire_decode(bytes, sizeof(bytes) + data, &h))
			continue;
		taken++;
		assert_in_range(h.kind, EFA_WIRE_SEND, EFA_WIRE_DATA);
		assert_in_range(h.length, 0, EFA_WIRE_PARCEL);
		assert_in_range(h.src_qpn, 0, 0xffff);
		assert_true(!h.status || (h.status >= EFA_STATUS_BAD_ADDRESS &&
					  h.status != EFA_STATUS_UNRESPONSIVE &&
					  h.status <= EFA_STATUS_UNKNOWN_PEER));
		assert_string_not_equal(simhca_reason_text(h.reason), "unknown reason");
		if (h.kind == EFA_WIRE_WRITE)
			assert_in_range(h.total, h.length, SIMHCA_EFA_RDMA);
		if (!efa_wire_has_data(h.kind)) {
			assert_int_equal(data, 0);
			continue;
		}
		assert_true(h.offset + data <= h.length);
		assert_in_range(h.offset / h.unit, 0, EFA_WIRE_PACKETS - 1);
		assert_true(efa_wire_packets(h.length, h.unit) <= EFA_WIRE_PACKETS);
	}
	assert_true(taken > 20);
}

#define ON_WIRE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define ON_SMALL(test) cmocka_unit_test_setup_teardown(test, setup_small, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_WIRE(every_message_arrives_once),
		ON_SMALL(every_message_arrives_once),
		ON_WIRE(reads_and_writes_are_whole),
		ON_SMALL(reads_and_writes_are_whole),
		ON_SMALL(datagrams_have_a_grh),
		ON_WIRE(who_is_silent_is_gone),
		ON_WIRE(an_older_flow_is_taken_later),
		ON_WIRE(no_such_qp),
		ON_WIRE(a_flow_begins_anew),
		ON_WIRE(reads_are_counted),
		ON_WIRE(given_up_writes_stop_nobody),
		ON_WIRE(a_message_ends_that_is_always_lost),
		ON_WIRE(a_receiver_is_waited_for),
		ON_WIRE(one_asks_for_all_that_wait),
		ON_WIRE(a_slow_receiver_is_kept_busy),
		ON_WIRE(a_flush_takes_what_is_under_way),
		ON_WIRE(a_wrong_qkey_stops_nobody),
		ON_WIRE(a_host_has_so_many_flows),
		ON_SMALL(a_host_leaves_room_for_parts_of_others),
		ON_SMALL(what_has_passed_is_counted),
		ON_WIRE(an_engine_rests_afterwards),
		ON_WIRE(a_broken_receiver_is_flushed),
		cmocka_unit_test(headers_come_back),
		cmocka_unit_test(what_is_let_through_has_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
