/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An EFA device as its driver sees it, by rings and doorbells: what RDMA writes do, with immediate data
 * that takes a receive or does not, and how work requests fail.
 */
#include <sys/mman.h>

#include "efa/efa.h"
#include "efa/gate.h"
#include "harness.h"
#include "simhca-info.h"
#include "simhca-inject.h"

#define QKEY 0x11111111u
#define ENTRIES 16u
#define ROOM (512u * 1024u)
#define WHOLE (EFA_WQE_FIRST | EFA_WQE_LAST)

/* A context with one QP, as libefa keeps it. */
struct end {
	struct client *client;
	uint32_t pd, cq;
	uint64_t cq_key, doorbell_key; /* of that */
	struct simhca_efa_qp_reply qp;
	struct mr *mr;
	uint16_t ah; /* that leads to the other */
	struct efa_send_wqe *sq;
	struct efa_recv_desc *rq;
	_Atomic uint32_t *sq_doorbell, *rq_doorbell;
	const struct efa_cqe *cqes;
	_Atomic uint32_t *cq_doorbell;
	struct cq events; /* of its CQ: how many were raised */
	uint32_t sq_pi, rq_pi, cq_ci;
};

struct ends {
	struct end a, b;
};

static void *map(struct client *client, uint64_t key, uint64_t bytes)
{
	struct simhca_efa_mapping mapping;
	struct simhca_why why;
	void *base;

	if (simhca_efa_map(client->context, key, bytes, &mapping, &why))
		fail_msg("map: %s", why.text);
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapping.fd,
		    (off_t)mapping.offset);
	assert_ptr_not_equal(base, MAP_FAILED);
	return base;
}

static void make_cq(struct end *end)
{
	const struct simhca_efa_cq_request req = { .entries = ENTRIES,
						   .entry_size = EFA_CQE_LONG,
						   .channel = 1,
						   .user_handle = (uintptr_t)&end->events };
	struct simhca_efa_cq_reply made;
	struct simhca_why why;

	assert_int_equal(simhca_efa_create_cq(end->client->context, &req, &made, &why), 0);
	end->cq = made.handle;
	end->cq_key = made.key;
	end->doorbell_key = made.doorbell_key;
	end->cqes = map(end->client, made.key, made.size);
	end->cq_doorbell = map(end->client, made.doorbell_key, 4096);
}

static int modify(struct end *end, uint32_t state, uint32_t mask)
{
	const struct simhca_efa_qp_attr attr = {
		.state = state, .qkey = QKEY, .port = 1, .rnr_retry = 2
	};
	struct simhca_why why;

	return patiently(simhca_efa_modify_qp(end->client->context, end->qp.handle,
					      SIMHCA_QP_STATE | mask, &attr, &why));
}

static void to_rts(struct end *end)
{
	assert_int_equal(0, modify(end, SIMHCA_QPS_INIT,
				   SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_QKEY));
	assert_int_equal(0, modify(end, SIMHCA_QPS_RTR, 0));
	assert_int_equal(0, modify(end, SIMHCA_QPS_RTS, SIMHCA_QP_SQ_PSN | SIMHCA_QP_RNR_RETRY));
}

static void make_qp(struct end *end, bool unsolicited)
{
	const struct simhca_efa_qp_request req = {
		.pd = end->pd,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.sq_bytes = ENTRIES * sizeof(struct efa_send_wqe),
		.rq_bytes = ENTRIES * sizeof(struct efa_recv_desc),
		.srd = true,
		.unsolicited = unsolicited,
	};
	struct simhca_why why;

	assert_int_equal(simhca_efa_create_qp(end->client->context, &req, &end->qp, &why), 0);
	end->sq = map(end->client, end->qp.sq_key, req.sq_bytes);
	end->rq = map(end->client, end->qp.rq_key, end->qp.rq_size);
	end->sq_doorbell = map(end->client, end->qp.sq_doorbell_key, 4096);
	end->rq_doorbell = (void *)((char *)end->sq_doorbell + end->qp.rq_doorbell_offset);
	to_rts(end);
}

static void make_end(struct world *world, unsigned int device, struct end *end, bool unsolicited)
{
	struct simhca_why why;

	end->client = client_new(world, device);
	assert_int_equal(simhca_efa_open(end->client->context, &why), 0);
	end->pd = pd_new(end->client);
	end->mr = mr_over(end->client, end->pd, world_alloc(world, ROOM), ROOM, 0x10000,
			  SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE);
	make_cq(end);
	make_qp(end, unsolicited);
}

static void make_ah(struct end *end, unsigned int device, uint32_t *handle)
{
	const union simhca_gid gid = device_gid(device, 0);
	struct simhca_why why;

	assert_int_equal(simhca_efa_create_ah(end->client->context, end->pd, &gid, handle, &end->ah,
					      &why),
			 0);
}

static struct world *world_of(void **state)
{
	struct ends *ends = *state;

	return ends->a.client->world;
}

static int setup_ends(void **state, bool unsolicited, struct simhca_device_config device)
{
	struct world *world = world_new(&(struct world_config){ .device = device });
	struct ends *ends = world_alloc(world, sizeof(*ends));
	uint32_t handle;

	make_end(world, 0, &ends->a, false);
	make_end(world, 1, &ends->b, unsolicited);
	make_ah(&ends->a, 1, &handle);
	make_ah(&ends->b, 0, &handle);
	for (uint32_t i = 0; i < ROOM; i++)
		ends->a.mr->addr[i] = (uint8_t)(i * 7 + i / 256);
	*state = ends;
	return 0;
}

static int setup_solicited(void **state)
{
	return setup_ends(state, false, (struct simhca_device_config){ .efa = true });
}

static int setup_unsolicited(void **state)
{
	return setup_ends(state, true, (struct simhca_device_config){ .efa = true });
}

static int setup_shuffled(void **state)
{
	return setup_ends(state, true,
			  (struct simhca_device_config){ .efa = true, .srd_shuffled = true });
}

static int setup_generation_2(void **state)
{
	return setup_ends(state, false,
			  (struct simhca_device_config){ .efa = true, .efa_generation = 2 });
}

static int setup_lowered(void **state)
{
	return setup_ends(state, false,
			  (struct simhca_device_config){ .efa = true,
							 .efa_mtu = 60,
							 .efa_rdma = 1000,
							 .max_qp_wr = 10,
							 .max_sge = 1,
							 .max_inline = 8,
							 .max_cqe = 100 });
}

static int teardown_ends(void **state)
{
	*state = world_of(state);
	return teardown(state);
}

static void ring(struct world *world, _Atomic uint32_t *doorbell, uint32_t value)
{
	atomic_store(doorbell, value);
	/* Where nobody can be told of a store, the engine looks once in a millisecond. */
	advance(world, 2 * MSEC);
}

static void give_recv(struct end *end, uint16_t id)
{
	end->rq[end->rq_pi++ % ENTRIES] = (struct efa_recv_desc){
		.req_id = id,
		.length = 64,
		.addr_low = (uint32_t)end->mr->iova,
		.key_flags = EFA_RECV_FIRST | EFA_RECV_LAST | end->mr->lkey,
	};
	ring(end->client->world, end->rq_doorbell, end->rq_pi);
}

struct write {
	uint16_t id;
	uint32_t length, imm;
	bool has_imm;
	uint64_t offset;     /* in the other's region */
	uint32_t lkey, rkey; /* 0: those of the regions */
};

static struct efa_send_wqe write_of(struct ends *ends, struct write how)
{
	struct end *end = &ends->a;
	const struct mr *there = ends->b.mr;
	return (struct efa_send_wqe){
		.req_id = how.id,
		.control = WHOLE | EFA_RDMA_WRITE | (how.has_imm ? EFA_WQE_HAS_IMM : 0),
		.dest_qpn = (uint16_t)ends->b.qp.qpn,
		.length = 1,
		.imm = how.imm,
		.ah = end->ah,
		.qkey = QKEY,
		.rdma = { .remote = { .length = how.length,
				      .key = how.rkey ? how.rkey : there->rkey,
				      .addr_low = (uint32_t)(there->iova + how.offset) },
			  .local = { .length = how.length,
				     .key = how.lkey ? how.lkey : end->mr->lkey,
				     .addr_low = (uint32_t)end->mr->iova } },
	};
}

static void post_write(struct ends *ends, struct write how)
{
	struct end *end = &ends->a;

	end->sq[end->sq_pi++ % ENTRIES] = write_of(ends, how);
	ring(end->client->world, end->sq_doorbell, end->sq_pi);
}

/* The next completion, which has to be there. */
static struct efa_cqe next(struct end *end)
{
	struct efa_cqe cqe = end->cqes[end->cq_ci % ENTRIES];

	assert_int_equal(cqe.flags & EFA_CQE_PHASE, !(end->cq_ci & ENTRIES));
	end->cq_ci++;
	return cqe;
}

static void expect_no_more(struct end *end)
{
	assert_int_equal(end->cqes[end->cq_ci % ENTRIES].flags & EFA_CQE_PHASE,
			 (end->cq_ci & ENTRIES) ? EFA_CQE_PHASE : 0);
}

static void expect_sent(struct ends *ends, uint16_t id, enum efa_status status)
{
	struct efa_cqe cqe = next(&ends->a);

	assert_int_equal(cqe.status, status);
	assert_int_equal(cqe.req_id, id);
	assert_int_equal(cqe.flags & ~EFA_CQE_PHASE,
			 EFA_CQE_SEND | EFA_RDMA_WRITE << EFA_CQE_OPCODE_SHIFT);
}

/* More than one slice; nobody there hears of it. */
static void a_write_places_its_bytes(void **state)
{
	struct ends *ends = *state;

	for (uint32_t length = 0; length <= ROOM; length = length ? length * 8 : 1) {
		memset(ends->b.mr->addr, 0, ROOM);
		post_write(ends, (struct write){ .id = 3, .length = length });
		expect_sent(ends, 3, EFA_STATUS_OK);
		assert_memory_equal(ends->a.mr->addr, ends->b.mr->addr, length);
		if (length < ROOM)
			assert_int_equal(ends->b.mr->addr[length], 0);
	}
	expect_no_more(&ends->b);
}

/* Of each packet: Ethernet, IPv4, UDP, BTH and ICRC. */
#define HEADERS (14u + 20 + 8 + 12 + 4)
enum {
	WRITE_FIRST = 6,
	WRITE_MIDDLE,
	WRITE_LAST,
	WRITE_LAST_IMM,
	WRITE_ONLY,
	WRITE_ONLY_IMM,
	ACK = 17
};

/* As of RC: packets of 4096 bytes, and an answer, a NAK where the key is wrong. */
static void a_trace_has_writes_in_packets(void **state)
{
	struct ends *ends = *state;
	struct world *world = ends->a.client->world;

	if (world_has_wire(world))
		skip(); /* what stands there is what goes */
	simhca_fabric_tap(world->fabric, true);
	post_write(ends, (struct write){ .id = 3, .length = 400000 });
	expect_sent(ends, 3, EFA_STATUS_OK);
	assert_int_equal(world->tapped[WRITE_FIRST], 1);
	assert_int_equal(world->tapped[WRITE_MIDDLE], 96);
	assert_int_equal(world->tapped[WRITE_LAST], 1);
	assert_int_equal(world->tapped[ACK], 1);
	assert_int_equal(world->tapped_bytes, 400000 + 99 * HEADERS + 16 + 4); /* RETH, AETH */
	post_write(ends, (struct write){ .id = 4, .length = 0 });
	expect_sent(ends, 4, EFA_STATUS_OK);
	assert_int_equal(world->tapped[WRITE_ONLY], 1);
	assert_int_equal(world->tapped[ACK], 2);
	give_recv(&ends->b, 5);
	post_write(ends, (struct write){ .id = 5, .length = 8, .has_imm = true });
	expect_sent(ends, 5, EFA_STATUS_OK);
	assert_int_equal(world->tapped[WRITE_ONLY_IMM], 1);
	assert_int_equal(world->tapped[ACK], 3);
	post_write(ends, (struct write){ .id = 6, .length = 8, .rkey = 0x123400 });
	expect_sent(ends, 6, EFA_STATUS_BAD_ADDRESS);
	assert_int_equal(world->tapped[ACK], 4);
	/* Two of two slices each, for one receive: one waits with all of its bytes moved. */
	give_recv(&ends->b, 6);
	ends->a.sq[ends->a.sq_pi++ % ENTRIES] =
		write_of(ends, (struct write){ .id = 8, .length = 400000, .has_imm = true });
	post_write(ends, (struct write){ .id = 9, .length = 400000, .has_imm = true });
	assert_int_equal(world->tapped[WRITE_LAST_IMM], 2);
	advance(world, 5 * MSEC);
	give_recv(&ends->b, 7);
	assert_int_equal(world->tapped[WRITE_LAST_IMM], 2);
	expect_sent(ends, 8, EFA_STATUS_OK);
	expect_sent(ends, 9, EFA_STATUS_OK);
	simhca_fabric_tap(world->fabric, false);
	post_write(ends, (struct write){ .id = 7, .length = 8 });
	expect_sent(ends, 7, EFA_STATUS_OK);
	assert_int_equal(world->tapped[WRITE_ONLY], 1);
}

static void immediate_data_take_a_receive(void **state)
{
	struct ends *ends = *state;
	struct efa_cqe cqe;

	give_recv(&ends->b, 5);
	post_write(ends, (struct write){ .id = 3, .length = 400000, .has_imm = true, .imm = 77 });
	expect_sent(ends, 3, EFA_STATUS_OK);
	cqe = next(&ends->b);
	assert_int_equal(cqe.status, EFA_STATUS_OK);
	assert_int_equal(cqe.req_id, 5);
	assert_int_equal(cqe.flags & ~EFA_CQE_PHASE,
			 EFA_CQE_RECV | EFA_CQE_HAS_IMM | EFA_RDMA_WRITE << EFA_CQE_OPCODE_SHIFT);
	assert_int_equal(cqe.imm, 77);
	assert_int_equal(cqe.length | (uint32_t)cqe.length_high << 16, 400000);
	assert_int_equal(cqe.src_qpn, ends->a.qp.qpn);
	assert_int_equal(cqe.ah, ends->b.ah);
	assert_memory_equal(ends->a.mr->addr, ends->b.mr->addr, 400000);
}

static void immediate_data_wait_for_a_receive(void **state)
{
	struct ends *ends = *state;

	post_write(ends, (struct write){ .id = 3, .length = 8, .has_imm = true });
	advance(world_of(state), SEC);
	expect_sent(ends, 3, EFA_STATUS_RNR);
	expect_no_more(&ends->b);
	/* Without immediate data it takes none. */
	post_write(ends, (struct write){ .id = 4, .length = 8 });
	expect_sent(ends, 4, EFA_STATUS_OK);
}

static void unsolicited_writes_take_no_receive(void **state)
{
	struct ends *ends = *state;
	struct efa_cqe cqe;

	post_write(ends, (struct write){ .id = 3, .length = 8, .has_imm = true, .imm = 78 });
	expect_sent(ends, 3, EFA_STATUS_OK);
	cqe = next(&ends->b);
	assert_int_equal(cqe.flags & EFA_CQE_UNSOLICITED, EFA_CQE_UNSOLICITED);
	assert_int_equal(cqe.imm, 78);
	assert_int_equal(cqe.length, 8);
	/* One that is there stays, for sends. */
	give_recv(&ends->b, 5);
	post_write(ends, (struct write){ .id = 4, .length = 8, .has_imm = true });
	expect_sent(ends, 4, EFA_STATUS_OK);
	assert_int_equal(next(&ends->b).flags & EFA_CQE_UNSOLICITED, EFA_CQE_UNSOLICITED);
	expect_no_more(&ends->b);
}

static void a_write_needs_its_rights(void **state)
{
	struct ends *ends = *state;
	struct mr *readable =
		mr_over(ends->b.client, ends->b.pd, world_alloc(world_of(state), 4096), 4096,
			ends->b.mr->iova, SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_READ);

	post_write(ends, (struct write){ .id = 1, .length = 8, .rkey = readable->rkey });
	expect_sent(ends, 1, EFA_STATUS_BAD_ADDRESS);
	post_write(ends, (struct write){ .id = 2, .length = 8, .offset = ROOM - 7 });
	expect_sent(ends, 2, EFA_STATUS_BAD_ADDRESS);
	post_write(ends, (struct write){ .id = 3, .length = 8, .lkey = 0x123400 });
	expect_sent(ends, 3, EFA_STATUS_INVALID_LKEY);
	assert_int_equal(ends->b.mr->addr[0], 0);
	post_write(ends, (struct write){ .id = 4, .length = 8, .offset = ROOM - 8 });
	expect_sent(ends, 4, EFA_STATUS_OK);
}

/* RDMA needs an address handle that leads back. */
static void an_unknown_peer_may_not_write(void **state)
{
	struct world *world = world_new(&(struct world_config){ .device = { .efa = true } });
	struct ends *ends = world_alloc(world, sizeof(*ends));
	struct simhca_why why;
	uint32_t handle;

	make_end(world, 0, &ends->a, false);
	make_end(world, 1, &ends->b, false);
	make_ah(&ends->a, 1, &handle);
	*state = ends;
	post_write(ends, (struct write){ .id = 1, .length = 8 });
	expect_sent(ends, 1, EFA_STATUS_UNKNOWN_PEER);
	make_ah(&ends->b, 0, &handle);
	post_write(ends, (struct write){ .id = 2, .length = 8 });
	expect_sent(ends, 2, EFA_STATUS_OK);
	assert_int_equal(simhca_efa_destroy_ah(ends->b.client->context, handle, &why), 0);
	post_write(ends, (struct write){ .id = 3, .length = 8 });
	expect_sent(ends, 3, EFA_STATUS_UNKNOWN_PEER);
}

/* ------------------------------------------------------------- generations, and order */

static void a_generation_has_what_it_has(void **state)
{
	struct ends *ends = *state;
	const struct simhca_efa_qp_request req = { .pd = ends->a.pd,
						   .send_cq = ends->a.cq,
						   .recv_cq = ends->a.cq,
						   .srd = true,
						   .unsolicited = true };
	struct simhca_efa_qp_reply reply;
	struct simhca_why why;

	assert_int_equal(simhca_device_memory(world_of(state)->device[0])->attr.vendor_part_id,
			 0xefa1);
	post_write(ends, (struct write){ .id = 3, .length = 8 });
	expect_sent(ends, 3, EFA_STATUS_INVALID_OP);
	assert_int_equal(simhca_efa_create_qp(ends->a.client->context, &req, &reply, &why),
			 -EINVAL);
}

static uint32_t number_of_cq(const struct end *end)
{
	struct simhca_cq_info info;
	uint32_t handle = end->cq;

	assert_true(simhca_next_cq(end->client->context, &handle, &info));
	return info.number;
}

/* Of CQs of the device, whoever has them. */
static void each_cq_has_a_number(void **state)
{
	struct ends *ends = *state;
	struct end other = { .client = client_new(world_of(state), 0) };
	struct simhca_why why;

	assert_int_equal(simhca_efa_open(other.client->context, &why), 0);
	make_cq(&other);
	assert_true(number_of_cq(&ends->a) && number_of_cq(&other));
	assert_int_not_equal(number_of_cq(&ends->a), number_of_cq(&other));
}

static int try_qp(const struct ends *ends, struct simhca_efa_qp_caps caps)
{
	const struct simhca_efa_qp_request req = {
		.pd = ends->a.pd,
		.send_cq = ends->a.cq,
		.recv_cq = ends->a.cq,
		.sq_bytes = ENTRIES * sizeof(struct efa_send_wqe),
		.rq_bytes = ENTRIES * sizeof(struct efa_recv_desc),
		.srd = true,
		.caps = caps,
	};
	struct simhca_efa_qp_reply reply;
	struct simhca_why why;

	return simhca_efa_create_qp(ends->a.client->context, &req, &reply, &why);
}

static int try_cq(const struct ends *ends, uint32_t entries)
{
	const struct simhca_efa_cq_request req = { .entries = entries,
						   .entry_size = EFA_CQE_SHORT };
	struct simhca_efa_cq_reply reply;
	struct simhca_why why;

	return simhca_efa_create_cq(ends->a.client->context, &req, &reply, &why);
}

static void limits_can_be_lowered(void **state)
{
	struct ends *ends = *state;
	struct efa_send_wqe send = write_of(ends, (struct write){ .id = 4 });

	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 10, 10, 1, 1, 8 }), 0);
	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 11, 10, 1, 1, 8 }), -EINVAL);
	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 10, 11, 1, 1, 8 }), -EINVAL);
	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 10, 10, 2, 1, 8 }), -EINVAL);
	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 10, 10, 1, 2, 8 }), -EINVAL);
	assert_int_equal(try_qp(ends, (struct simhca_efa_qp_caps){ 10, 10, 1, 1, 9 }), -EINVAL);
	/* A program that asks for as many as there are gets a power of 2 that holds them. */
	assert_int_equal(try_cq(ends, 128), 0);
	assert_int_equal(try_cq(ends, 256), -EINVAL);
	post_write(ends, (struct write){ .id = 1, .length = 1000 });
	expect_sent(ends, 1, EFA_STATUS_OK);
	post_write(ends, (struct write){ .id = 2, .length = 1001 });
	expect_sent(ends, 2, EFA_STATUS_LOCAL_LENGTH);
	send.control = WHOLE | EFA_SEND;
	send.buffer[0] = (struct efa_buffer){ .length = 60,
					      .key = ends->a.mr->lkey,
					      .addr_low = (uint32_t)ends->a.mr->iova };
	give_recv(&ends->b, 1);
	ends->a.sq[ends->a.sq_pi++ % ENTRIES] = send;
	ring(world_of(state), ends->a.sq_doorbell, ends->a.sq_pi);
	assert_int_equal(next(&ends->a).status, EFA_STATUS_OK);
	send.buffer[0].length = 61;
	ends->a.sq[ends->a.sq_pi++ % ENTRIES] = send;
	ring(world_of(state), ends->a.sq_doorbell, ends->a.sq_pi);
	assert_int_equal(next(&ends->a).status, EFA_STATUS_LOCAL_LENGTH);
}

/* All arrive, once each; not in the order in which they were posted. */
static void shuffled_messages_pass_each_other(void **state)
{
	struct ends *ends = *state;
	unsigned int out_of_order = 0, seen = 0;
	uint32_t last = 0;

	for (uint32_t i = 1; i <= 12; i++) {
		ends->a.sq[ends->a.sq_pi++ % ENTRIES] = write_of(
			ends, (struct write){ .id = 1, .length = 1, .has_imm = true, .imm = i });
	}
	atomic_store(ends->a.sq_doorbell, ends->a.sq_pi);
	for (int i = 0; i < 200; i++) {
		atomic_fetch_add(&world_of(state)->now, 10 * USEC);
		rounds(world_of(state), 10);
	}
	advance(world_of(state), MSEC);
	for (uint32_t i = 1; i <= 12; i++) {
		struct efa_cqe cqe = next(&ends->b);

		seen |= 1u << cqe.imm;
		out_of_order += cqe.imm < last;
		last = cqe.imm;
	}
	expect_no_more(&ends->b);
	assert_int_equal(seen, 0x1ffe);
	/* On the wire fewer pass each other. */
	assert_true(out_of_order > (getenv("SIMHCA_TEST_LINK") ? 0 : 1));
}

/* ------------------------------------------------------------------------------ faults */

static void rule(void **state, struct simhca_rule rule)
{
	uint32_t number;

	assert_int_equal(simhca_inject_add(world_of(state)->fabric, &rule, &number), 0);
}

static void a_message_is_late(void **state)
{
	struct ends *ends = *state;

	rule(state,
	     (struct simhca_rule){
		     .action = SIMHCA_INJECT_DELAY, .ns = 500 * MSEC, .first = 1, .times = 1 });
	post_write(ends, (struct write){ .id = 1, .length = 8 });
	expect_no_more(&ends->a);
	post_write(ends, (struct write){ .id = 2, .length = 8 });
	expect_sent(ends, 2, EFA_STATUS_OK);
	advance(world_of(state), 490 * MSEC);
	expect_no_more(&ends->a);
	advance(world_of(state), 20 * MSEC);
	expect_sent(ends, 1, EFA_STATUS_OK);
}

/* SRD sends again, of which nobody hears. */
static void what_is_dropped_comes_later(void **state)
{
	struct ends *ends = *state;

	rule(state, (struct simhca_rule){ .action = SIMHCA_INJECT_DROP, .first = 1, .times = 1 });
	post_write(ends, (struct write){ .id = 1, .length = 8 });
	advance(world_of(state), 2 * MSEC);
	expect_sent(ends, 1, EFA_STATUS_OK);
	assert_memory_equal(ends->a.mr->addr, ends->b.mr->addr, 8);
}

static void a_message_fails_as_it_is_told_to(void **state)
{
	struct ends *ends = *state;

	rule(state, (struct simhca_rule){ .action = SIMHCA_INJECT_COMPLETE,
					  .value = SIMHCA_WC_REM_ACCESS_ERR,
					  .first = 1,
					  .times = 1 });
	post_write(ends, (struct write){ .id = 1, .length = 8 });
	expect_sent(ends, 1, EFA_STATUS_BAD_ADDRESS);
	assert_int_equal(ends->b.mr->addr[1], 0);
	rule(state, (struct simhca_rule){ .action = SIMHCA_INJECT_RNR, .first = 1, .times = 3 });
	give_recv(&ends->b, 5);
	post_write(ends, (struct write){ .id = 2, .length = 8, .has_imm = true });
	for (int i = 0; i < 3; i++)
		advance(world_of(state), 10 * MSEC);
	expect_sent(ends, 2, EFA_STATUS_RNR);
	post_write(ends, (struct write){ .id = 3, .length = 8, .has_imm = true });
	expect_sent(ends, 3, EFA_STATUS_OK);
}

/* One that waits is forgotten with the others when its QP is reset. */
static void a_reset_forgets_what_waits(void **state)
{
	struct ends *ends = *state;

	for (uint16_t i = 0; i < 2; i++)
		ends->a.sq[i] =
			write_of(ends, (struct write){ .id = i, .length = 8, .has_imm = true });
	atomic_store(ends->a.sq_doorbell, 2);
	atomic_fetch_add(&world_of(state)->now, 2 * MSEC);
	rounds(world_of(state), 4);
	expect_no_more(&ends->a);
	assert_int_equal(0, modify(&ends->a, SIMHCA_QPS_RESET, 0));
	to_rts(&ends->a);
	ends->a.sq[0] = write_of(ends, (struct write){ .id = 2, .length = 8 });
	atomic_store(ends->a.sq_doorbell, 1);
	rounds(world_of(state), 4);
	give_recv(&ends->b, 5);
	advance(world_of(state), 10 * MSEC);
	expect_sent(ends, 2, EFA_STATUS_OK);
	expect_no_more(&ends->a);
}

/* ------------------------------------------------------------------------------ events */

/* As libefa stores it: what has been polled, and how many events have been taken. */
static void store(struct end *end, uint32_t taken, bool arm)
{
	atomic_store(end->cq_doorbell,
		     (end->cq_ci & 0xffff) | (taken & 3) << 29 | (arm ? EFA_CQ_DOORBELL_ARM : 0));
}

static void complete_one(struct ends *ends)
{
	post_write(ends, (struct write){ .id = 1, .length = 1 });
}

static void expect_events(struct end *end, unsigned int count)
{
	advance(end->client->world, 10 * MSEC);
	assert_int_equal(atomic_load(&end->events.events), count);
}

static void an_armed_cq_raises_one_event(void **state)
{
	struct ends *ends = *state;

	complete_one(ends);
	expect_events(&ends->a, 0);
	next(&ends->a);
	store(&ends->a, 0, true);
	expect_events(&ends->a, 0);
	complete_one(ends);
	complete_one(ends);
	expect_events(&ends->a, 1);
	/* Armed again, but for the event that has been raised. */
	store(&ends->a, 0, false);
	store(&ends->a, 0, true);
	expect_events(&ends->a, 1);
	complete_one(ends);
	expect_events(&ends->a, 1);
}

/* Who arms for the next event and has not polled all is told at once. */
static void arming_tells_of_what_is_there(void **state)
{
	struct ends *ends = *state;

	complete_one(ends);
	store(&ends->a, 0, true);
	expect_events(&ends->a, 1);
	store(&ends->a, 1, true);
	expect_events(&ends->a, 2);
	next(&ends->a);
	store(&ends->a, 2, true);
	expect_events(&ends->a, 2);
	complete_one(ends);
	expect_events(&ends->a, 3);
	for (unsigned int i = 4; i < 10; i++) {
		next(&ends->a);
		store(&ends->a, i - 1, true);
		complete_one(ends);
		expect_events(&ends->a, i);
	}
}

/* The store that polls hides the one that arms: it is not lost. */
static void arming_is_not_hidden_by_polling(void **state)
{
	struct ends *ends = *state;

	complete_one(ends);
	store(&ends->a, 0, true);
	expect_events(&ends->a, 1);
	store(&ends->a, 1, true);
	next(&ends->a);
	store(&ends->a, 1, false);
	expect_events(&ends->a, 1);
	complete_one(ends);
	expect_events(&ends->a, 2);
	/* Polling alone, when the event has not been taken, asks for none. */
	next(&ends->a);
	store(&ends->a, 1, false);
	complete_one(ends);
	expect_events(&ends->a, 2);
}

static void a_cq_without_a_channel_has_no_doorbell(void **state)
{
	const struct simhca_efa_cq_request req = { .entries = 4, .entry_size = EFA_CQE_SHORT };
	struct ends *ends = *state;
	struct simhca_context *context = ends->a.client->context;
	const uint64_t its = ends->a.doorbell_key - ends->a.cq_key;
	struct simhca_efa_cq_reply made = { .doorbell_key = 0 };
	struct simhca_efa_mapping mapping;
	struct simhca_why why;

	assert_int_equal(simhca_efa_create_cq(context, &req, &made, &why), 0);
	assert_int_equal(made.doorbell_key, 0);
	/* What its key would be; nor is there one to be watched. */
	assert_int_equal(simhca_efa_map(context, made.key + its, 4096, &mapping, &why), -ENOENT);
	assert_int_equal(simhca_efa_watch(context, made.key + its, 0, -1, &why), -EINVAL);
	assert_int_equal(simhca_efa_watch(context, ends->a.doorbell_key, 0, -1, &why), 0);
	assert_int_equal(simhca_efa_destroy_cq(context, made.handle, &why), 0);
}

/* UD has no RDMA, and so nothing of it. */
static void unsolicited_is_for_srd(void **state)
{
	struct ends *ends = *state;
	const struct simhca_efa_qp_request req = {
		.pd = ends->a.pd, .send_cq = ends->a.cq, .recv_cq = ends->a.cq, .unsolicited = true
	};
	struct simhca_efa_qp_reply reply;
	struct simhca_why why;

	assert_int_equal(simhca_efa_create_qp(ends->a.client->context, &req, &reply, &why),
			 -EINVAL);
}

#define SHUFFLED(test) cmocka_unit_test_setup_teardown(test, setup_shuffled, teardown_ends)
#define GENERATION_2(test) cmocka_unit_test_setup_teardown(test, setup_generation_2, teardown_ends)
#define LOWERED(test) cmocka_unit_test_setup_teardown(test, setup_lowered, teardown_ends)
#define SOLICITED(test) cmocka_unit_test_setup_teardown(test, setup_solicited, teardown_ends)
#define UNSOLICITED(test) cmocka_unit_test_setup_teardown(test, setup_unsolicited, teardown_ends)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOLICITED(a_write_places_its_bytes),
		SOLICITED(a_trace_has_writes_in_packets),
		SOLICITED(immediate_data_take_a_receive),
		SOLICITED(immediate_data_wait_for_a_receive),
		UNSOLICITED(unsolicited_writes_take_no_receive),
		SOLICITED(a_write_needs_its_rights),
		cmocka_unit_test_teardown(an_unknown_peer_may_not_write, teardown_ends),
		SOLICITED(unsolicited_is_for_srd),
		GENERATION_2(a_generation_has_what_it_has),
		SOLICITED(each_cq_has_a_number),
		LOWERED(limits_can_be_lowered),
		SHUFFLED(shuffled_messages_pass_each_other),
		SOLICITED(a_message_is_late),
		SOLICITED(what_is_dropped_comes_later),
		SOLICITED(a_message_fails_as_it_is_told_to),
		SOLICITED(a_reset_forgets_what_waits),
		SOLICITED(an_armed_cq_raises_one_event),
		SOLICITED(arming_tells_of_what_is_there),
		SOLICITED(arming_is_not_hidden_by_polling),
		SOLICITED(a_cq_without_a_channel_has_no_doorbell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
