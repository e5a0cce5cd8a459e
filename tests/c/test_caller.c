/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Steps of a requester in the program that posts (libsimhca/message/step.h): what comes of them
 * is what comes of the device's, or nothing. Both QPs are ours, and our memory is reached as
 * another process's would be.
 */
#include <sys/mman.h>
#include <sys/socket.h>

#include "caller_scene.h"

#define MOST_STORES 300

static unsigned int raised; /* events of CQs */
static struct cq *late;
static uint32_t late_pi;

static struct pair *make_with(struct world *world, bool slot_data)
{
	struct options options = caller_options();

	options.slot_data = slot_data;
	return caller_pair(world, &options);
}

static struct pair *make(struct world *world)
{
	return make_with(world, false);
}

/* The next completion that is not void. */
static bool next_cqe(struct cq *cq, struct simhca_cqe *cqe)
{
	while (cq_poll(cq, cqe))
		if (cqe->qpn != SIMHCA_VOID_QPN)
			return true;
	return false;
}

/* -------------------------------------------------------------------- as by the device */

struct work {
	const char *name;
	uint8_t opcode, flags;
	uint32_t count, length, sges;
	bool receives, inlined;
};

#define SIGNALED SIMHCA_WQE_SIGNALED
static const struct work works[] = {
	{ "write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 100, 1, false, false },
	{ "an empty write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 0, 1, false, false },
	{ "writes, unsignaled", SIMHCA_WR_RDMA_WRITE, 0, 3, 100, 1, false, false },
	{ "a list of writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 20, 333, 1, false, false },
	{ "a list of inline writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 10, 64, 1, false, true },
	{ "more than a turn takes", SIMHCA_WR_RDMA_WRITE, 0, 100, 8, 1, false, false },
	{ "a long write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 200001, 2, false, false },
	{ "a longer one", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 3000001, 1, false, false },
	{ "write with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 9000, 1, true, false },
	{ "send", SIMHCA_WR_SEND, SIGNALED, 1, 100, 1, true, false },
	{ "an empty send", SIMHCA_WR_SEND, SIGNALED, 1, 0, 1, true, false },
	{ "sends of two parts", SIMHCA_WR_SEND, SIGNALED | SIMHCA_WQE_SOLICITED, 3, 5001, 2, true,
	  false },
	{ "send with imm", SIMHCA_WR_SEND_WITH_IMM, SIGNALED, 1, 100, 1, true, false },
	{ "inline", SIMHCA_WR_SEND, SIGNALED, 2, 64, 1, true, true },
	{ "read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, 100, 1, false, false },
	{ "a long read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, 3000001, 1, false, false },
	{ "long reads", SIMHCA_WR_RDMA_READ, SIGNALED | SIMHCA_WQE_FENCE, 3, 20001, 2, false,
	  false },
};

static uint32_t messages_of_works(void)
{
	uint32_t messages = 0;

	for (size_t w = 0; w < ARRAY_SIZE(works); w++)
		messages += works[w].count;
	return messages;
}

static void put_work(struct pair *pair, const struct work *work)
{
	for (uint32_t i = 0; i < work->count; i++) {
		uint32_t at = i * work->length, first = work->length / work->sges;
		struct simhca_sge parts[2] = { sge(pair->a.mr, at, first),
					       sge(pair->a.mr, at + first, work->length - first) };
		struct wr wr = {
			.id = 1000 + i,
			.opcode = work->opcode,
			.flags = work->flags,
			.imm = 7 + i,
			.remote_addr = pair->b.mr->iova + at,
			.rkey = pair->b.mr->rkey,
		};

		if (work->inlined) {
			wr.flags |= SIMHCA_WQE_INLINE;
			wr.inline_data = pair->a.mr->addr + at;
			wr.inline_len = work->length;
		} else {
			wr.sges = parts;
			wr.num_sge = work->sges;
		}
		if (work->receives) {
			struct simhca_sge into[2] = { sge(pair->b.mr, at, first),
						      sge(pair->b.mr, at + first,
							  work->length - first + 10) };

			side_recv(&pair->b, 2000 + i, into, 2);
		}
		qp_put(pair->a.qp, &wr);
	}
}

static void same_cqes(struct cq *one, struct cq *other)
{
	struct simhca_cqe x, y;

	while (cq_poll(one, &x)) {
		assert_true(cq_poll(other, &y));
		assert_int_equal(x.wr_id, y.wr_id);
		assert_int_equal(x.qpn & SIMHCA_QPN_MASK ? 1 : 0, 1);
		assert_int_equal(x.byte_len, y.byte_len);
		assert_int_equal(x.imm_or_rkey, y.imm_or_rkey);
		assert_int_equal(x.vendor_err, y.vendor_err);
		assert_int_equal(x.wqe_index, y.wqe_index);
		assert_memory_equal(&x.opcode, &y.opcode,
				    offsetof(struct simhca_cqe, seq) -
					    offsetof(struct simhca_cqe, opcode));
	}
	assert_false(cq_poll(other, &y));
}

static struct simhca_usage_sum usage_of(const struct side *side)
{
	struct simhca_qp_info info;
	uint32_t handle = side->qp->handle;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	assert_int_equal(info.qpn, side->qp->qpn);
	memset(info.usage.latency, 0, sizeof(info.usage.latency)); /* they differ each time */
	return info.usage;
}

static void what_the_device_does(struct world *world, const struct options *options)
{
	uint64_t before[SIMHCA_STATS], by_fast_path[SIMHCA_STATS], by_device[SIMHCA_STATS];

	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		const struct work *work = &works[w];
		struct pair *pair = caller_pair(world, options),
			    *other = caller_pair(world, options);
		struct simhca_step step = caller_attach(&pair->a);
		uint32_t bytes = work->count * work->length;
		bool read = work->opcode == SIMHCA_WR_RDMA_READ;

		if (read && options->type == IBV_QPT_UC)
			continue;
		print_message("%s\n", work->name);
		settle(world);
		for (uint32_t round = 0; round < 3; round++) {
			for (int i = 0; i < 2; i++) {
				struct pair *one = i ? other : pair;

				fill((read ? one->b.mr : one->a.mr)->addr, bytes, round + 1);
				put_work(one, work);
			}
			simhca_device_stats(world->device[0], before);
			assert_true(simhca_step(&step));
			settle(world); /* nothing that it could do */
			simhca_device_stats(world->device[0], by_fast_path);
			ring_doorbell(other->a.client, other->a.qp->doorbell);
			settle(world);
			simhca_device_stats(world->device[0], by_device);
			for (int i = 0; i < SIMHCA_STATS; i++)
				assert_int_equal(by_fast_path[i] - before[i],
						 by_device[i] - by_fast_path[i]);
			assert_true(
				filled((read ? pair->a.mr : pair->b.mr)->addr, bytes, round + 1));
			assert_int_equal(requester_of(pair->a.qp)->psn_next,
					 requester_of(other->a.qp)->psn_next);
			assert_int_equal(requester_of(pair->a.qp)->oldest,
					 requester_of(other->a.qp)->oldest);
			responder_of(other->b.qp)->read.rkey = responder_of(pair->b.qp)->read.rkey;
			responder_of(other->b.qp)->read.va = responder_of(pair->b.qp)->read.va;
			responder_of(other->b.qp)->va = responder_of(pair->b.qp)->va;
			responder_of(other->b.qp)->rkey = responder_of(pair->b.qp)->rkey;
			assert_memory_equal(responder_of(pair->b.qp), responder_of(other->b.qp),
					    sizeof(struct simhca_responder));
			same_cqes(pair->a.send_cq, other->a.send_cq);
			same_cqes(pair->b.recv_cq, other->b.recv_cq);
		}
		assert_int_equal(step.fastpath->messages, 3 * work->count);
		for (int i = 0; i < 2; i++) {
			struct simhca_usage_sum one = usage_of(i ? &pair->b : &pair->a);
			struct simhca_usage_sum same = usage_of(i ? &other->b : &other->a);

			assert_memory_equal(&one, &same, sizeof(one));
		}
		check_works(pair); /* the device finds what the caller has left */
		caller_detach(&step);
	}
}

static uint64_t timed(const struct side *side)
{
	uint32_t handle = side->qp->handle;
	struct simhca_qp_info info;
	uint64_t count = 0;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		count += info.usage.latency[i];
	return count;
}

/* All of the first 64, then about one in 64, which counts for four. */
static void a_sample_is_timed(void **state)
{
	const struct work write = {
		"write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 8, 1, false, false
	};
	struct options options = caller_options();
	struct pair *pair = caller_pair(*state, &options);
	struct simhca_step step = caller_attach(&pair->a);

	for (int i = 0; i < 64; i++) {
		put_work(pair, &write);
		assert_true(simhca_step(&step));
		expect(pair->a.send_cq, 1000, SUCCESS);
	}
	assert_int_equal(timed(&pair->a), 64);
	for (int i = 0; i < 64 * 400; i++) {
		put_work(pair, &write);
		assert_true(simhca_step(&step));
		expect(pair->a.send_cq, 1000, SUCCESS);
	}
	assert_in_range(timed(&pair->a) - 64, 4 * 300, 4 * 500);
	caller_detach(&step);
}

static void what_the_device_does_on_rc(void **state)
{
	const struct options options = caller_options();

	what_the_device_does(*state, &options);
}

static void what_the_device_does_on_uc(void **state)
{
	struct options options = caller_options();

	options.type = IBV_QPT_UC;
	options.sq_sig_all = 1;
	what_the_device_does(*state, &options);
}

static void what_the_device_does_with_an_srq(void **state)
{
	struct options options = caller_options();

	options.srq_wr = 256;
	what_the_device_does(*state, &options);
}

/* -------------------------------------------------------------------- data in slots */

enum buffer { ORDINARY, OTHER_IOVA, OF_FILE };

static const struct {
	const char *name;
	uint8_t opcode;
	uint32_t length, parts, first; /* SGEs of the send; bytes of the receive's first */
	enum buffer buffer;
	bool stays;
} small[] = {
	{ "one byte", SIMHCA_WR_SEND, 1, 1, 200, ORDINARY, true },
	{ "as much as there is room for", SIMHCA_WR_SEND, 64, 1, 64, ORDINARY, true },
	{ "one byte more", SIMHCA_WR_SEND, 65, 1, 200, ORDINARY, false },
	{ "nothing", SIMHCA_WR_SEND, 0, 1, 200, ORDINARY, false },
	{ "of several pieces", SIMHCA_WR_SEND_WITH_IMM, 40, 3, 200, ORDINARY, true },
	{ "for two buffers", SIMHCA_WR_SEND, 40, 1, 39, ORDINARY, false },
	{ "at another address than the program's", SIMHCA_WR_SEND, 8, 1, 200, OTHER_IOVA, false },
	{ "in a file", SIMHCA_WR_SEND, 8, 1, 200, OF_FILE, false },
	{ "a write", SIMHCA_WR_RDMA_WRITE_WITH_IMM, 8, 1, 200, ORDINARY, false },
};

/* At address 0, as the device maps a file: no program's memory lies there. */
static struct mr region_of_file(struct client *client)
{
	struct simhca_reg_dmabuf_mr_req req = { .length = 4096,
						.pd = client->pd,
						.access = SIMHCA_ACCESS_LOCAL_WRITE };
	struct mr mr = { .length = req.length };
	struct simhca_reg_mr_reply reply;
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)mr.length), 0);
	mr.addr = mmap(NULL, mr.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mr.addr, MAP_FAILED);
	assert_int_equal(simhca_reg_dmabuf_mr(client->context, fd, &req, &reply, NULL), 0);
	mr.lkey = reply.lkey;
	close(fd);
	return mr;
}

static struct mr small_buffer(struct pair *pair, enum buffer buffer)
{
	struct client *client = pair->b.client;

	if (buffer == OF_FILE)
		return region_of_file(client);
	if (buffer == OTHER_IOVA)
		return *mr_over(client, client->pd, pair->b.mr->addr, 4096, 0x10000,
				SIMHCA_ACCESS_LOCAL_WRITE);
	return *pair->b.mr;
}

static void small_message(struct pair *pair, size_t i, const struct mr *to, uint32_t parts)
{
	const uint32_t part = small[i].length / parts;
	struct simhca_sge into[2] = { sge(to, 0, small[i].first), sge(to, small[i].first, 100) };
	struct simhca_sge from[3] = { sge(pair->a.mr, 0, part), sge(pair->a.mr, part, part),
				      sge(pair->a.mr, 2 * part, small[i].length - 2 * part) };

	if (parts == 1)
		from[0].length = small[i].length;
	qp_recv(pair->b.qp, i, into, 2);
	qp_put(pair->a.qp, &(struct wr){ .opcode = small[i].opcode,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = from,
					 .num_sge = parts,
					 .remote_addr = pair->b.mr->iova,
					 .rkey = pair->b.mr->rkey });
}

static const uint8_t *slot_of(const struct qp *qp, uint32_t index)
{
	return qp->rq + (size_t)(index % qp->granted.rq_entries) * qp->granted.rq_stride +
	       qp->granted.slot_data;
}

/* What lies in the receive's slot is in no buffer, and the other way round; who polls is told. */
static void data_in_slots(struct world *world, bool by_fast_path)
{
	struct pair *pair = make_with(world, true);
	struct simhca_step step = caller_attach(&pair->a);

	assert_int_equal(step.peer.slot_data % 64, 0);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
		const uint8_t *slot = slot_of(pair->b.qp, pair->b.qp->rq_pi);
		const struct mr to = small_buffer(pair, small[i].buffer);
		uint32_t parts = small[i].parts;
		struct simhca_cqe cqe;

		print_message("%s\n", small[i].name);
		memset(to.addr, 0, 300);
		fill(pair->a.mr->addr, small[i].length, (uint32_t)i + 1);
		small_message(pair, i, &to, parts);
		if (by_fast_path && small[i].buffer != OF_FILE)
			assert_true(simhca_step(&step));
		else
			ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		settle(world);
		assert_true(cq_poll(pair->a.send_cq, &cqe));
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		assert_int_equal(cqe.in_slot, 0);
		assert_true(cq_poll(pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		assert_int_equal(cqe.byte_len, small[i].length);
		assert_int_equal(cqe.in_slot, small[i].stays);
		if (small[i].stays)
			assert_int_equal(to.addr[0], 0);
		assert_true(
			filled(small[i].stays ? slot : to.addr, small[i].length, (uint32_t)i + 1));
		if (small[i].buffer == OF_FILE)
			munmap(to.addr, to.length);
	}
	caller_detach(&step);
}

static void data_in_slots_by_device(void **state)
{
	data_in_slots(*state, false);
}

static void data_in_slots_by_fast_path(void **state)
{
	data_in_slots(*state, true);
}

/* ------------------------------------------------------------------ left to the device */

static void write_to(struct pair *pair, uint32_t length, const struct mr *to)
{
	struct simhca_sge from = sge(pair->a.mr, 0, length);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = &from,
					 .num_sge = 1,
					 .remote_addr = to->iova,
					 .rkey = to->rkey });
}

static void send_some(struct pair *pair, uint32_t length)
{
	struct simhca_sge from = sge(pair->a.mr, 0, length);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = &from,
					 .num_sge = 1 });
}

static void refuse_turn(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	atomic_store(&pair->b.qp->state->resp_owner.holder, SIMHCA_OWNER_DEVICE);
}

static void refuse_own_turn(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	atomic_store(&pair->a.qp->state->req_owner.holder, SIMHCA_OWNER_DEVICE);
}

static void refuse_sqd(struct pair *pair)
{
	assert_int_equal(qp_move(pair->a.qp, IBV_QPS_SQD), 0);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_port(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	simhca_device_set_port(pair->a.world->device[0], false);
}

static void refuse_reset_peer(struct pair *pair)
{
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	write_to(pair, 8, pair->b.mr);
}

/* To the same QP, and so with the same numbers: yet it is another connection. */
static void refuse_reconnected_peer(struct pair *pair)
{
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &pair->b.options);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_new_address(struct pair *pair)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES];
	struct world *world = pair->a.world;

	memcpy(gids, simhca_device_memory(world->device[0])->gids, sizeof(gids));
	gids[5] = gids[0];
	simhca_device_set_gids(world->device[0], gids);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_resized_cq(struct pair *pair)
{
	assert_int_equal(cq_resize(pair->b.recv_cq, 2 * pair->b.recv_cq->cqe), 0);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_psn(struct pair *pair)
{
	responder_of(pair->b.qp)->epsn++;
	write_to(pair, 8, pair->b.mr);
}

/* By its own memory: its peer has not heard of it, and the numbers are what they were. */
static void fail_alone(struct side *side)
{
	struct simhca_sge bad = sge(side->mr, 0, 8);
	struct simhca_cqe cqe;

	bad.lkey ^= 1;
	qp_post(side->qp,
		&(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE, .sges = &bad, .num_sge = 1 });
	settle(side->client->world);
	assert_true(cq_poll(side->send_cq, &cqe) && cqe.status == IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
}

static void refuse_failed(struct pair *pair)
{
	fail_alone(&pair->a);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_failed_peer(struct pair *pair)
{
	fail_alone(&pair->b);
	write_to(pair, 8, pair->b.mr);
}

static void refuse_under_way(struct pair *pair)
{
	requester_of(pair->a.qp)->count = 1;
	write_to(pair, 8, pair->b.mr);
}

static void refuse_waiting(struct pair *pair)
{
	requester_of(pair->a.qp)->wait = SIMHCA_WAIT_BUSY;
	write_to(pair, 8, pair->b.mr);
}

static void refuse_in_message(struct pair *pair)
{
	responder_of(pair->b.qp)->in_message = 1;
	write_to(pair, 8, pair->b.mr);
}

static void refuse_consumed_receive(struct pair *pair)
{
	responder_of(pair->b.qp)->have_recv = 1;
	write_to(pair, 8, pair->b.mr);
}

static void refuse_told_gap(struct pair *pair)
{
	responder_of(pair->b.qp)->nak_sent = 1;
	write_to(pair, 8, pair->b.mr);
}

static void refuse_owed_response(struct pair *pair)
{
	responder_of(pair->b.qp)->owed = SIMHCA_OWES_RESPONSE;
	write_to(pair, 8, pair->b.mr);
}

/* What is posted first, for who lies about it. */
static struct simhca_send_wqe *first_send(const struct pair *pair)
{
	return (struct simhca_send_wqe *)pair->a.qp->sq;
}

static void write_imm(struct pair *pair)
{
	struct simhca_sge from = sge(pair->a.mr, 0, 8);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
					 .sges = &from,
					 .num_sge = 1,
					 .remote_addr = pair->b.mr->iova,
					 .rkey = pair->b.mr->rkey });
}

static void refuse_inline_read(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	first_send(pair)->opcode = SIMHCA_WR_RDMA_READ;
	first_send(pair)->flags |= SIMHCA_WQE_INLINE;
	first_send(pair)->inline_len = 8;
}

static void refuse_long_inline(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	first_send(pair)->flags |= SIMHCA_WQE_INLINE;
	first_send(pair)->inline_len = pair->a.options.max_inline + 1;
}

static void refuse_many_sges(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	first_send(pair)->num_sge = (uint8_t)(pair->a.options.max_send_sge + 1);
}

static void refuse_send_index(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	atomic_store(&pair->a.qp->state->sq_pi, pair->a.qp->granted.sq_entries + 1);
}

/* None of a list is written before it is known that the first is carried. */
static void refuse_no_receive_for_imm(struct pair *pair)
{
	for (int i = 0; i < 5; i++)
		write_imm(pair);
}

static void refuse_receive_index(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	atomic_store(&pair->b.qp->state->rq_pi, pair->b.qp->granted.rq_entries + 1);
	write_imm(pair);
}

static void refuse_many_receive_sges(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	((struct simhca_recv_wqe *)pair->b.qp->rq)->num_sge = pair->b.options.max_recv_sge + 1;
	write_imm(pair);
}

static void refuse_dead_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	send_some(pair, 8);
	atomic_store(&pair->b.recv_cq->state->overrun, 1);
}

static void refuse_no_such_key(struct pair *pair)
{
	struct mr none = { .rkey = UINT32_MAX, .iova = pair->b.mr->iova };

	write_to(pair, 8, &none);
}

static void put_fetch_and_add(struct side *side, const struct mr *mr)
{
	struct simhca_sge into = sge(side->mr, 0, 8);

	qp_put(side->qp, &(struct wr){ .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
				       .flags = SIGNALED,
				       .sges = &into,
				       .num_sge = 1,
				       .remote_addr = mr->iova,
				       .rkey = mr->rkey,
				       .compare_add = 1 });
}

static void refuse_atomic(struct pair *pair)
{
	put_fetch_and_add(&pair->a, pair->b.mr);
}

static void refuse_long(struct pair *pair)
{
	write_to(pair, 5 << 20, pair->b.mr);
}

static void refuse_right(struct pair *pair)
{
	write_to(pair, 8, mr_new(pair->b.client, 4096, SIMHCA_ACCESS_REMOTE_READ));
}

static void refuse_atomics_memory(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, ALL_ACCESS);
	struct simhca_cqe cqe;

	put_fetch_and_add(&pair->a, mr);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(pair->a.world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	write_to(pair, 8, pair->b.mr); /* of the same process, which is enough */
}

static void refuse_other_owner(struct pair *pair)
{
	write_to(pair, 8, pair->a.mr);
}

static void refuse_gone_key(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, caller_options().mr_access);

	assert_int_equal(mr_gone(mr), 0);
	write_to(pair, 8, mr);
}

static void refuse_range(struct pair *pair)
{
	write_to(pair, 4097, mr_new(pair->b.client, 4096, caller_options().mr_access));
}

static void refuse_no_receive(struct pair *pair)
{
	send_some(pair, 8);
}

static void refuse_short_receive(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 7);
	send_some(pair, 8);
}

static void refuse_full_recv_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	send_some(pair, 8);
	atomic_store(&pair->b.recv_cq->state->pi, pair->b.recv_cq->cqe);
}

static void refuse_full_send_cq(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	atomic_store(&pair->a.send_cq->state->pi, pair->a.send_cq->cqe);
}

/* The index that no progress can name is the device's. */
static void refuse_last_recv_index(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	send_some(pair, 8);
	atomic_store(&pair->b.recv_cq->state->pi, UINT32_MAX);
	atomic_store(&pair->b.recv_cq->state->ci, UINT32_MAX);
}

static void refuse_last_send_index(struct pair *pair)
{
	write_to(pair, 8, pair->b.mr);
	atomic_store(&pair->a.send_cq->state->pi, UINT32_MAX);
	atomic_store(&pair->a.send_cq->state->ci, UINT32_MAX);
}

static void refuse_copy(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, caller_options().mr_access);

	((struct simhca_mpt *)mpt_of(pair->b.client, mr->rkey))->addr = 4096; /* mapped by nobody */
	write_to(pair, 8, mr);
}

static const struct refusal {
	void (*arrange)(struct pair *pair);
	enum simhca_slow_reason why;
} refusals[] = {
	{ refuse_turn, SIMHCA_SLOW_OWNER },
	{ refuse_own_turn, SIMHCA_SLOW_OWNER },
	{ refuse_sqd, SIMHCA_SLOW_STATE },
	{ refuse_port, SIMHCA_SLOW_STATE },
	{ refuse_reset_peer, SIMHCA_SLOW_STATE },
	{ refuse_reconnected_peer, SIMHCA_SLOW_STATE },
	{ refuse_new_address, SIMHCA_SLOW_STATE },
	{ refuse_resized_cq, SIMHCA_SLOW_STATE },
	{ refuse_failed, SIMHCA_SLOW_STATE },
	{ refuse_failed_peer, SIMHCA_SLOW_STATE },
	{ refuse_psn, SIMHCA_SLOW_WAITS },
	{ refuse_under_way, SIMHCA_SLOW_WAITS },
	{ refuse_waiting, SIMHCA_SLOW_WAITS },
	{ refuse_in_message, SIMHCA_SLOW_WAITS },
	{ refuse_consumed_receive, SIMHCA_SLOW_WAITS },
	{ refuse_told_gap, SIMHCA_SLOW_WAITS },
	{ refuse_owed_response, SIMHCA_SLOW_WAITS },
	{ refuse_atomic, SIMHCA_SLOW_REQUEST },
	{ refuse_inline_read, SIMHCA_SLOW_REQUEST },
	{ refuse_long_inline, SIMHCA_SLOW_REQUEST },
	{ refuse_many_sges, SIMHCA_SLOW_REQUEST },
	{ refuse_send_index, SIMHCA_SLOW_REQUEST },
	{ refuse_long, SIMHCA_SLOW_REQUEST },
	{ refuse_right, SIMHCA_SLOW_MEMORY },
	{ refuse_atomics_memory, SIMHCA_SLOW_MEMORY },
	{ refuse_other_owner, SIMHCA_SLOW_MEMORY },
	{ refuse_gone_key, SIMHCA_SLOW_MEMORY },
	{ refuse_no_such_key, SIMHCA_SLOW_MEMORY },
	{ refuse_range, SIMHCA_SLOW_MEMORY },
	{ refuse_no_receive, SIMHCA_SLOW_RECEIVE },
	{ refuse_short_receive, SIMHCA_SLOW_RECEIVE },
	{ refuse_no_receive_for_imm, SIMHCA_SLOW_RECEIVE },
	{ refuse_receive_index, SIMHCA_SLOW_RECEIVE },
	{ refuse_many_receive_sges, SIMHCA_SLOW_RECEIVE },
	{ refuse_dead_cq, SIMHCA_SLOW_CQ },
	{ refuse_full_recv_cq, SIMHCA_SLOW_CQ },
	{ refuse_full_send_cq, SIMHCA_SLOW_CQ },
	{ refuse_last_recv_index, SIMHCA_SLOW_CQ },
	{ refuse_last_send_index, SIMHCA_SLOW_CQ },
	{ refuse_copy, SIMHCA_SLOW_COPY },
};

static void nothing_is_changed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct pair *pair;
		struct simhca_step step;
		struct simhca_qp_mem a, b;
		struct simhca_cqe cqe;

		caller_setup(state);
		pair = make(*state);
		fill(pair->a.mr->addr, 8, 1);
		step = caller_attach(&pair->a);
		refusals[i].arrange(pair);
		memcpy(&a, pair->a.qp->state, sizeof(a));
		memcpy(&b, pair->b.qp->state, sizeof(b));
		assert_false(simhca_step(&step));
		for (int why = 0; why < SIMHCA_SLOW_REASONS; why++)
			if (step.fastpath->handed[why] != (why == (int)refusals[i].why))
				fail_msg("refusal %zu: reason %d", i, why);
		assert_memory_equal(&a, pair->a.qp->state, sizeof(a));
		assert_memory_equal(&b, pair->b.qp->state, sizeof(b));
		assert_int_equal(step.fastpath->messages, 0);
		assert_int_equal(step.fastpath->guard % 2, 0);
		assert_true(all_bytes(pair->b.mr->addr, 8, 0));
		if (refusals[i].why != SIMHCA_SLOW_CQ)
			assert_false(cq_poll(pair->a.send_cq, &cqe) ||
				     cq_poll(pair->b.recv_cq, &cqe));
		caller_detach(&step);
		teardown(state);
	}
}

/* By neither QP: the device refuses it, and says why. */
static void what_the_qps_do_not_grant(void **state)
{
	static const struct {
		uint8_t opcode, max_rd_atomic, max_dest_rd_atomic;
		uint32_t access;
		enum simhca_slow_reason why;
	} rows[] = {
		{ SIMHCA_WR_RDMA_WRITE, 4, 4, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 4, 4, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 4, 0, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 0, 4, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_REQUEST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct options options = caller_options();
		struct simhca_step step;
		struct pair *pair;

		options.access = rows[i].access;
		options.max_rd_atomic = rows[i].max_rd_atomic;
		options.max_dest_rd_atomic = rows[i].max_dest_rd_atomic;
		pair = caller_pair(*state, &options);
		step = caller_attach(&pair->a);
		write_to(pair, 8, pair->b.mr);
		first_send(pair)->opcode = rows[i].opcode;
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->handed[rows[i].why], 1);
		caller_detach(&step);
	}
}

/* They are of the SRQ's PD, which need not be the QP's; and its limit is told of. */
static void receives_of_an_srq(void **state)
{
	const struct options options = caller_options();
	struct pair *pair = pair_unconnected(*state, &options);
	struct side *b = &pair->b;
	struct srq *srq = srq_new(b->client, 8, 2, 2);
	uint32_t pd = pd_new(b->client);
	struct mr *of_qp = mr_over(b->client, pd, b->mr->addr, 8, b->mr->iova, ALL_ACCESS);
	struct simhca_sge into[4] = { sge(b->mr, 0, 8), sge(b->mr, 0, 8), sge(b->mr, 0, 8),
				      sge(of_qp, 0, 8) };
	struct simhca_step step;

	caller_offer(pair->a.client);
	caller_offer(b->client);
	b->srq = srq;
	b->qp = qp_new_in(b->client, pd, &options, b->send_cq, b->recv_cq, srq);
	pair_connect(pair);
	for (uint64_t id = 0; id < ARRAY_SIZE(into); id++)
		srq_recv(srq, id, &into[id], 1);
	step = caller_attach(&pair->a);
	for (uint64_t id = 0; id < 3; id++) {
		send_some(pair, 8);
		assert_int_equal(simhca_step(&step), id != 2); /* one is left, and the limit is 2 */
		expect(b->recv_cq, id, SUCCESS);
	}
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(*state);
	assert_int_equal(events_of(b->client, srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	send_some(pair, 8);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_RECEIVE], 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect_why(b->recv_cq, 3, LOC_PROT_ERR, KEY_WRONG_PD);
	caller_detach(&step);
}

/* What a step has consumed, and could not fill, the device goes on with. */
static void a_receive_that_was_consumed(void **state)
{
	struct pair *pair = caller_pair_with_srq(*state);
	struct simhca_step step = caller_attach(&pair->a);
	struct srq *srq = pair->b.srq;
	int memory = step.peer.memory;

	for (uint64_t id = 0; id < 2; id++) {
		struct simhca_sge into = sge(pair->b.mr, id * 8, 8);

		srq_recv(srq, id, &into, 1);
	}
	fill(pair->a.mr->addr, 8, 1);
	send_some(pair, 8);
	step.peer.memory = -1;
	assert_false(simhca_step(&step));
	step.peer.memory = memory;
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(srq_ci_of(srq), 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect(pair->b.recv_cq, 0, SUCCESS);
	assert_true(filled(pair->b.mr->addr, 8, 1));
	assert_int_equal(srq_ci_of(srq), 1);
	caller_detach(&step);
}

/*
 * Writes that go by one system call are those before what is none of them, and what the device is
 * to refuse. That of what is written nothing is left out, or comes before its turn, is told by the
 * bytes: each write is to the same place.
 */
static void a_list_of_writes(void **state)
{
	enum { WRITES = 12 };

	for (unsigned int wrong = 0; wrong < WRITES; wrong++) {
		struct world *world;
		struct simhca_step step;
		struct simhca_sge from;
		struct pair *pair;

		caller_setup(state);
		world = *state;
		pair = make(world);
		step = caller_attach(&pair->a);
		for (unsigned int i = 0; i < WRITES; i++) {
			from = sge(pair->a.mr, i, 1);
			pair->a.mr->addr[i] = (uint8_t)(i + 1);
			qp_put(pair->a.qp, &(struct wr){ .id = i,
							 .opcode = SIMHCA_WR_RDMA_WRITE,
							 .flags = SIGNALED,
							 .sges = &from,
							 .num_sge = 1,
							 .remote_addr = pair->b.mr->iova,
							 .rkey = pair->b.mr->rkey + (i == wrong) });
		}
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->messages, wrong);
		assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
		assert_int_equal(pair->b.mr->addr[0], wrong);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		for (unsigned int i = 0; i < wrong; i++)
			expect(pair->a.send_cq, i, SUCCESS);
		expect(pair->a.send_cq, wrong, REM_ACCESS_ERR);
		assert_int_equal(pair->b.mr->addr[0], wrong);
		caller_detach(&step);
		teardown(state);
	}
}

/* One more read than the responder takes at once: in a list, and by one post after the other. */
static void more_reads_than_the_responder_takes(void **state)
{
	enum { AT_ONCE, ONE_BY_ONE, POLLED, FENCED, LATER, WAYS };

	for (int way = 0; way < WAYS; way++) {
		const uint32_t takes = 2, count = 4;
		struct options options = caller_options();
		bool refused = way == AT_ONCE || way == ONE_BY_ONE;
		struct simhca_step step;
		struct pair *pair;

		caller_setup(state);
		options.max_rd_atomic = 4;
		options.max_dest_rd_atomic = (uint8_t)takes;
		pair = caller_pair(*state, &options);
		step = caller_attach(&pair->a);
		step.reads.most_ns = way == LATER ? 100000 : 60 * SEC;
		for (uint32_t i = 0; i < count; i++) {
			struct simhca_sge to = sge(pair->a.mr, 0, 100);

			qp_put(pair->a.qp,
			       &(struct wr){ .id = i,
					     .opcode = SIMHCA_WR_RDMA_READ,
					     .flags = SIGNALED |
						      (way == FENCED ? SIMHCA_WQE_FENCE : 0),
					     .sges = &to,
					     .num_sge = 1,
					     .remote_addr = pair->b.mr->iova,
					     .rkey = pair->b.mr->rkey });
			if (way == LATER)
				test_nap(1000);
			if (way != AT_ONCE)
				assert_true(simhca_step(&step) || (refused && i >= takes));
			if (way == POLLED)
				expect(pair->a.send_cq, i, SUCCESS);
		}
		if (way == AT_ONCE)
			assert_false(simhca_step(&step));
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		for (uint32_t i = 0; way != POLLED && i < (refused ? takes : count); i++)
			expect(pair->a.send_cq, i, SUCCESS);
		if (refused)
			expect_why(pair->a.send_cq, takes, REM_INV_REQ_ERR, RD_ATOMIC_EXCEEDED);
		assert_int_equal(step.fastpath->messages, way == AT_ONCE ? 0
							  : refused	 ? takes
									 : count);
		caller_detach(&step);
		teardown(state);
	}
}

/* ------------------------------------------------------------------- with the device */

static void the_device_waits_for_a_turn(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	uint32_t name = SIMHCA_OWNER_PROGRAM | pair->a.qp->qpn;
	struct simhca_cqe cqe;

	atomic_store(&pair->b.qp->state->resp_owner.holder, name);
	rdma_write(&pair->a, 1, 0, 8, 0);
	settle(world);
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	atomic_store(&pair->b.qp->state->resp_owner.holder, 0);
	advance(world, 1 * MSEC);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);

	/* The requester's: the caller is told, and rings. */
	atomic_store(&pair->a.qp->state->req_owner.holder, name);
	rdma_write(&pair->a, 2, 0, 8, 0);
	settle(world);
	assert_int_equal(pair->a.qp->state->req_owner.holder, name | SIMHCA_OWNER_WANTED);
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	atomic_store(&pair->a.qp->state->req_owner.holder, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);

	/* Of nobody's that is attached it is nonsense. */
	atomic_store(&pair->a.qp->state->req_owner.holder, name + 1);
	rdma_write(&pair->a, 3, 0, 8, 0);
	settle(world);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	caller_detach(&step);
}

static void put_sends(struct pair *pair, uint64_t first, uint64_t count)
{
	const struct simhca_sge from = sge(pair->a.mr, 0, 100);

	for (uint64_t id = first; id < first + count; id++)
		qp_put(pair->a.qp, &(struct wr){ .id = id,
						 .opcode = SIMHCA_WR_SEND,
						 .flags = SIGNALED,
						 .sges = &from,
						 .num_sge = 1 });
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
}

static uint32_t sent(const struct pair *pair)
{
	return pair->a.send_cq->state->pi;
}

/* A receive is missing, and while the device waits for it the program posts on. */
static void behind_a_missing_receive(struct pair *pair, struct simhca_step *step, uint64_t first)
{
	uint32_t before = sent(pair);

	put_sends(pair, first, 1);
	assert_false(simhca_step(step));
	settle(pair->a.world);
	put_sends(pair, first + 1, 10);
	assert_false(simhca_step(step));
	for (uint64_t id = first; id < first + 11; id++)
		recv_into(&pair->b, id, 0, 100);
	for (int i = 0; i < 10000 && sent(pair) == before; i++)
		advance(pair->a.world, 5000);
}

/* A program that posts again and again would be the device's for ever. */
static void the_rest_is_left_to_the_program(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);

	behind_a_missing_receive(pair, &step, 0);
	assert_int_equal(sent(pair), 1);
	assert_int_equal(step.fastpath->left, 1);
	assert_true(simhca_step(&step));
	assert_int_equal(sent(pair), 11);
	assert_int_equal(step.fastpath->messages, 10);
	/* And what it cannot do then is the device's at once. */
	put_sends(pair, 11, 1);
	assert_false(simhca_step(&step));
	recv_into(&pair->b, 11, 0, 100);
	settle(world);
	assert_int_equal(sent(pair), 12);
	caller_detach(&step);
}

/* What no step can do is not left to one. */
static void an_atomic_is_not_left_to_the_program(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);

	put_sends(pair, 0, 1);
	assert_false(simhca_step(&step));
	settle(world);
	put_fetch_and_add(&pair->a, pair->b.mr);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	assert_false(simhca_step(&step));
	recv_into(&pair->b, 0, 0, 100);
	for (int i = 0; i < 10000 && !sent(pair); i++)
		advance(world, 5000);
	assert_int_equal(sent(pair), 2);
	assert_int_equal(step.fastpath->left, 0);
	caller_detach(&step);
}

/* One that does not come has lost a moment, and less often the next time. */
static void the_program_does_not_come(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);

	for (uint32_t n = 0; n < 2; n++) {
		behind_a_missing_receive(pair, &step, 11 * n);
		assert_int_equal(sent(pair), 11 * n + 1);
		advance(world, 10000);
		assert_int_equal(sent(pair), 11 * n + 1);
		advance(world, 15000);
		assert_int_equal(sent(pair), 11 * n + 11);
	}
	behind_a_missing_receive(pair, &step, 22);
	assert_int_equal(sent(pair), 33);
	caller_detach(&step);
}

static int dereg(const struct mr *mr)
{
	return simhca_dereg_mr(mr->client->context, mr->handle, NULL);
}

static int resize(const struct cq *cq)
{
	const struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = 2 * cq->cqe };
	struct simhca_create_cq_reply reply;

	return simhca_resize_cq(cq->client->context, &req, &reply, NULL);
}

static void deregistration_waits_for_a_step(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world), *stranger = make(world);
	struct simhca_step step = caller_attach(&pair->a);

	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(dereg(pair->b.mr), -EAGAIN);
	assert_int_equal(dereg(stranger->b.mr), 0);
	assert_int_equal(resize(pair->b.recv_cq), -EAGAIN);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(dereg(pair->b.mr), 0);
	assert_int_equal(resize(pair->b.recv_cq), 0);
	/* Who has ended is in no step any more. */
	pair = make(world);
	step = caller_attach(&pair->a);
	atomic_fetch_add(&step.fastpath->guard, 1);
	client_gone(pair->a.client);
	assert_int_equal(dereg(pair->b.mr), 0);
}

/* What the device changes in two halves no caller writes to in between. */
static void an_atomic_waits_for_steps(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world), *other = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	struct mr *mr = mr_new(pair->b.client, 4096, ALL_ACCESS);
	uint64_t *word = (void *)(uintptr_t)mr->addr;
	bool early, late_enough;
	struct simhca_cqe cqe;

	/* Memory that grants atomics is like any other, while there are none. */
	write_to(pair, 8, mr);
	assert_true(simhca_step(&step));
	assert_true(cq_poll(pair->a.send_cq, &cqe));
	*word = 5;

	atomic_fetch_add(&step.fastpath->guard, 1);
	put_fetch_and_add(&other->a, mr_new(other->b.client, 4096, ALL_ACCESS));
	ring_doorbell(other->a.client, other->a.qp->doorbell);
	settle(world);
	advance(world, 1 * MSEC);
	early = cq_poll(other->a.send_cq, &cqe);
	atomic_fetch_add(&step.fastpath->guard,
			 2); /* that one has ended, and the next has looked */
	advance(world, 1 * MSEC);
	late_enough = cq_poll(other->a.send_cq, &cqe);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_false(early);
	assert_true(late_enough && !cqe.status);

	/* From then on writes are the device's, and reads need not be. */
	write_to(pair, 8, mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
	assert_int_equal(*word, 5);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	caller_detach(&step);
}

static void count_event(struct cq *cq, void *arg)
{
	(void)cq;
	(void)arg;
	raised++;
}

/* Arms it when the next CQE of it has a ticket, after the step has looked. */
static void arm_in_step(void)
{
	if (late->state->pi == late_pi)
		return;
	cq_arm(late, SIMHCA_ARM_NEXT);
	caller_at_store = NULL;
}

/* A completion channel, as the provider has it; ends[0] is the device's. */
static void make_channel(struct simhca_notify *tell, const struct cq *cq, int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*tell = (struct simhca_notify){ .fd = ends[0], .record = (uintptr_t)cq };
}

static void close_channel(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* Records of nobody, until there is no room. */
static void fill_channel(const int ends[2])
{
	const uint64_t nobody = 0;

	while (send(ends[0], &nobody, sizeof(nobody), MSG_DONTWAIT) == sizeof(nobody))
		;
}

/* How many events of the CQ are there. */
static unsigned int read_channel(const int ends[2], const struct cq *cq)
{
	unsigned int events = 0;
	uint64_t record;

	while (recv(ends[1], &record, sizeof(record), MSG_DONTWAIT) == sizeof(record)) {
		assert_true(!record || record == (uintptr_t)cq);
		events += record != 0;
	}
	return events;
}

/* So many messages, for each of which the peer's CQ is armed. */
static void carry_armed(struct pair *pair, struct simhca_step *step, unsigned int count)
{
	struct simhca_cqe cqe;

	for (unsigned int i = 0; i < count; i++) {
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		recv_into(&pair->b, 1, 0, 8);
		send_some(pair, 8);
		assert_false(simhca_step(step));
		while (cq_poll(pair->b.recv_cq, &cqe) || cq_poll(pair->a.send_cq, &cqe))
			;
	}
}

/* Whether it came back from the step before it ended. */
static void *cancelled_in_step(void *arg)
{
	struct simhca_step *step = arg;

	pthread_cancel(pthread_self());
	simhca_step(step);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return step;
}

/* It ends after the step: none of the system calls in it is a cancellation point. */
static void a_thread_that_is_cancelled(void **state)
{
	struct pair *pair = make(*state);
	struct simhca_step step = caller_attach(&pair->a);
	int ends[2];

	make_channel(&step.peer.recv_notify, pair->b.recv_cq, ends);
	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		struct simhca_cqe cqe;
		pthread_t thread;
		void *came_back;

		put_work(pair, &works[w]);
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		assert_int_equal(pthread_create(&thread, NULL, cancelled_in_step, &step), 0);
		pthread_join(thread, &came_back);
		assert_ptr_equal(came_back, &step);
		while (cq_poll(pair->a.send_cq, &cqe) || cq_poll(pair->b.recv_cq, &cqe))
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(atomic_load(&step.fastpath->messages), messages_of_works());
	close_channel(ends);
}

/* Of completions that callers publish the device raises the events, or they do so themselves. */
static void who_sleeps_is_woken(struct world *world, bool by_fast_path)
{
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	int send_ends[2] = { -1, -1 }, recv_ends[2] = { -1, -1 };
	struct {
		uint32_t arm;
		uint8_t flags;
		unsigned int events;
	} rows[] = {
		{ SIMHCA_ARM_NONE, 0, 0 },
		{ SIMHCA_ARM_NEXT, 0, 1 },
		{ SIMHCA_ARM_SOLICITED, 0, 0 },
		{ SIMHCA_ARM_SOLICITED, SIMHCA_WQE_SOLICITED, 1 },
	};

	pair->b.recv_cq->on_event = pair->a.send_cq->on_event = count_event;
	if (by_fast_path) {
		make_channel(&step.send_notify, pair->a.send_cq, send_ends);
		make_channel(&step.peer.recv_notify, pair->b.recv_cq, recv_ends);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct simhca_sge from = sge(pair->a.mr, 0, 8);

		raised = 0;
		cq_arm(pair->b.recv_cq, rows[i].arm);
		recv_into(&pair->b, 1, 0, 8);
		qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
						 .flags = rows[i].flags,
						 .sges = &from,
						 .num_sge = 1 });
		assert_int_equal(simhca_step(&step), by_fast_path || !rows[i].events);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		settle(world);
		raised += read_channel(recv_ends, pair->b.recv_cq);
		assert_int_equal(raised, rows[i].events);
	}
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 2);
	assert_int_equal(step.fastpath->told, by_fast_path ? 2 : 0);
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	write_to(pair, 8, pair->b.mr);
	assert_int_equal(simhca_step(&step), by_fast_path);
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 3);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(world);
	assert_int_equal(read_channel(send_ends, pair->a.send_cq), by_fast_path);

	for (int i = 0; i < 2; i++) {
		raised = 0;
		late = i ? pair->a.send_cq : pair->b.recv_cq;
		recv_into(&pair->b, 1, 0, 8);
		send_some(pair, 8);
		late_pi = late->state->pi;
		caller_at_store = arm_in_step;
		assert_int_equal(simhca_step(&step), by_fast_path);
		assert_null(caller_at_store);
		assert_int_equal(late->state->arm & SIMHCA_ARM_BITS, 0);
		cq_arm(late, SIMHCA_ARM_NEXT); /* the next one's event, not this one's */
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		settle(world);
		assert_int_equal(raised + read_channel(i ? send_ends : recv_ends, late), 1);
		assert_int_equal(late->state->arm & SIMHCA_ARM_BITS, SIMHCA_ARM_NEXT);
		atomic_store(&late->state->arm, 0);
	}
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 5);
	assert_int_equal(step.fastpath->told, by_fast_path ? 5 : 0);
	assert_int_equal(pair->b.recv_cq->state->told, by_fast_path ? 3 : 0);
	assert_int_equal(pair->a.send_cq->state->told, by_fast_path ? 2 : 0);
	assert_int_equal(step.fastpath->messages, ARRAY_SIZE(rows) + 3);
	if (by_fast_path) {
		fill_channel(recv_ends);
		close(send_ends[1]);
		cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	}

	/* Many of them, before the device hears the bell. */
	raised = 0;
	carry_armed(pair, &step, 200);
	assert_int_equal(raised, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(world);
	assert_int_equal(raised, 200 + by_fast_path);

	/* Its program has the completions, and destroys the QP before that. */
	raised = 0;
	carry_armed(pair, &step, 200);
	assert_int_equal(raised, 0);
	assert_int_equal(
		patiently(simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL)), 0);
	assert_int_equal(raised, 200);
	caller_detach(&step);
	/* What found no room does not count, and neither did what nobody reads. */
	assert_int_equal(pair->b.recv_cq->state->told, by_fast_path ? 3 : 0);
	assert_int_equal(pair->a.send_cq->state->told, by_fast_path ? 2 : 0);
	assert_int_equal(read_channel(recv_ends, pair->b.recv_cq), 0);
	close(send_ends[0]);
	close_channel(recv_ends);
}

/* The peer can answer as soon as it is woken, and the answer's event comes after the message's. */
static void own_event_comes_first(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	uint64_t records[2];
	int ends[2];

	make_channel(&step.send_notify, pair->a.send_cq, ends);
	step.peer.recv_notify =
		(struct simhca_notify){ .fd = ends[0], .record = (uintptr_t)pair->b.recv_cq };
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	recv_into(&pair->b, 1, 0, 8);
	send_some(pair, 8);
	assert_true(simhca_step(&step));
	assert_int_equal(recv(ends[1], records, sizeof(records), MSG_DONTWAIT), sizeof(records));
	assert_ptr_equal(records[0], pair->a.send_cq);
	assert_ptr_equal(records[1], pair->b.recv_cq);
	close_channel(ends);
	caller_detach(&step);
}

static void who_sleeps_is_woken_by_the_device(void **state)
{
	who_sleeps_is_woken(*state, false);
}

static void who_sleeps_is_woken_by_the_fast_path(void **state)
{
	who_sleeps_is_woken(*state, true);
}

/* --------------------------------------------------------------------------- attaching */

static void who_may_be_attached(void **state)
{
	struct world *world = *state;
	const struct simhca_secret wrong = { { caller_secret.word[0], caller_secret.word[1] + 1 } };
	struct options options = caller_options();
	struct simhca_attach_peer_reply reply;
	struct pair *pair = pair_new(world, &options);

	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply),
			 -ENOTCONN); /* nothing offered */
	caller_offer(pair->b.client);
	assert_int_equal(caller_attach_with(&pair->a, &wrong, &reply), -EPERM);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), 0);
	assert_int_equal(caller_attach_with(&pair->b, &caller_secret, &reply), -ENOTCONN);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);

	/* Connected to it, but not it to us. */
	pair = pair_unconnected(world, &options);
	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	qp_connect(pair->a.qp, 0, pair->b.qp->qpn, &options);
	qp_connect(pair->b.qp, 0, pair->b.qp->qpn, &options);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);

	/* Each QP, and each CQ, lies in a segment of its own. */
	assert_int_not_equal(pair->a.qp->granted.state.segment, 0);
	assert_int_equal(pair->a.qp->granted.state.segment, pair->a.qp->granted.rq.segment);
	for (int i = 0; i < 2; i++) {
		struct side *side = side_new(pair->a.client, &options);

		assert_int_not_equal(side->qp->granted.state.segment,
				     pair->a.qp->granted.state.segment);
	}
	/* It wants nobody to, or wants not to. */
	options.no_fastpath = true;
	pair = pair_new(world, &options);
	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	assert_int_equal(pair->a.qp->granted.state.segment, 0);
	options.no_fastpath = false;
	pair = pair_unconnected(world, &options);
	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	options.no_fastpath = true;
	pair->b.qp = qp_new(pair->b.client, &options, pair->b.send_cq, pair->b.recv_cq, NULL);
	pair_connect(pair);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	options.no_fastpath = false;
	/* Another device, whose tables are others. */
	options.same_device = false;
	pair = pair_new(world, &options);
	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
}

/* A pair whose send completions, or receive completions, are in such a CQ. */
static struct pair *pair_over(struct world *world, uint32_t flags, bool moderated, bool receives)
{
	const struct options options = caller_options();
	struct pair *pair = pair_unconnected(world, &options);
	struct side *side = receives ? &pair->b : &pair->a;
	struct cq *cq = cq_new_flags(side->client, 64, flags);
	const struct simhca_modify_cq_req req = { .handle = cq->handle, .count = 2, .period = 100 };

	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	if (moderated)
		assert_int_equal(simhca_modify_cq(side->client->context, &req, NULL), 0);
	side->qp = qp_new(side->client, &options, receives ? side->send_cq : cq,
			  receives ? cq : side->recv_cq, NULL);
	pair_connect(pair);
	return pair;
}

/* What a step would not do: time stamps, events that wait, and writing over what was not read. */
static void completions_that_are_the_devices(void **state)
{
	static const struct {
		uint32_t flags;
		bool moderated;
		int result;
	} rows[] = {
		{ 0, false, 0 },
		{ SIMHCA_CQ_TIMESTAMP, false, -ENOTCONN },
		{ SIMHCA_CQ_IGNORE_OVERRUN, false, -ENOTCONN },
		{ 0, true, -ENOTCONN },
	};
	struct simhca_attach_peer_reply reply;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct pair *pair =
			pair_over(*state, rows[i / 2].flags, rows[i / 2].moderated, i % 2);

		assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply),
				 rows[i / 2].result);
	}
}

/* What a counter of either QP counts the device has to see. */
static void counters_are_the_devices(void **state)
{
	const struct options options = caller_options();
	struct simhca_create_comp_cntr_req create = { .type = SIMHCA_COMP_CNTR_BYTES };

	for (int i = 0; i < 2; i++) {
		struct pair *pair = pair_unconnected(*state, &options);
		struct side *side = i ? &pair->b : &pair->a;
		struct simhca_attach_comp_cntr_req attach = { .qp = side->qp->handle };
		struct simhca_create_comp_cntr_reply counter;
		struct simhca_attach_peer_reply reply;

		caller_offer(pair->a.client);
		caller_offer(pair->b.client);
		assert_int_equal(
			simhca_create_comp_cntr(side->client->context, &create, &counter, NULL), 0);
		attach.counter = counter.handle;
		attach.ops = 1u << (i ? SIMHCA_COUNTS_RECV : SIMHCA_COUNTS_SEND);
		assert_int_equal(simhca_attach_comp_cntr(side->client->context, &attach, NULL), 0);
		pair_connect(pair);
		assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	}
}

/* Who is connected to the QP, and yet cannot be the other end of a step. */
static void peers_that_are_none(void **state)
{
	enum { IN_ERR, OF_ANOTHER_TYPE, OF_ANOTHER_MTU, GONE, PEERS };

	for (int i = 0; i < PEERS; i++) {
		struct options options = caller_options(), other = options;
		struct pair *pair = pair_unconnected(*state, &options);
		struct simhca_attach_peer_reply reply;
		struct side *b = &pair->b;

		if (i == OF_ANOTHER_TYPE)
			other.type = IBV_QPT_UC;
		if (i == OF_ANOTHER_MTU)
			other.path_mtu = IBV_MTU_256;
		caller_offer(pair->a.client);
		caller_offer(b->client);
		b->qp = qp_new(b->client, &other, b->send_cq, b->recv_cq, NULL);
		qp_connect(pair->a.qp, 0, b->qp->qpn, &options);
		qp_connect(b->qp, 0, pair->a.qp->qpn, &other);
		if (i == IN_ERR)
			assert_int_equal(qp_move(b->qp, IBV_QPS_ERR), 0);
		if (i == GONE)
			simhca_mm_gone(b->client->mm);
		assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	}
}

/* What a program carries nobody would see. */
static void the_device_carries_what_is_traced(void **state)
{
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	struct simhca_attach_peer_reply reply;

	simhca_fabric_tap(world->fabric, true);
	write_to(pair, 8, pair->b.mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	simhca_fabric_tap(world->fabric, false);
	caller_detach(&step);
	step = caller_attach(&pair->a);
	assert_true(simhca_step(&step));
	caller_detach(&step);
}

/* The first message is an event, which the device raises. */
static void the_device_carries_the_first_message_in_rtr(void **state)
{
	const struct options options = caller_options();
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_step step;

	caller_offer(pair->a.client);
	caller_offer(pair->b.client);
	qp_connect(pair->a.qp, 0, pair->b.qp->qpn, &options);
	qp_up_to(pair->b.qp, IBV_QPS_RTR, qp_attr_to(pair->b.qp, 0, pair->a.qp->qpn, &options));
	step = caller_attach(&pair->a);
	write_to(pair, 8, pair->b.mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	settle(*state);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 1);
	write_to(pair, 8, pair->b.mr);
	assert_true(simhca_step(&step));
	caller_detach(&step);
}

/* Faults are the device's: while there are rules it carries all messages. */
static void none_while_there_are_rules(void **state)
{
	const struct simhca_rule rule = { .action = SIMHCA_INJECT_DELAY, .ns = 1 };
	struct world *world = *state;
	struct pair *pair = make(world);
	struct simhca_step step = caller_attach(&pair->a);
	struct simhca_attach_peer_reply reply;
	struct simhca_cqe cqe;
	uint32_t number;

	assert_int_equal(simhca_inject_add(world->fabric, &rule, &number), 0);
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), -ENOTCONN);
	rdma_write(&pair->a, 1, 0, 8, 0);
	assert_false(simhca_step(&step));
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	advance(world, 1);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	assert_true(simhca_inject_remove(world->fabric, number));
	assert_int_equal(caller_attach_with(&pair->a, &caller_secret, &reply), 0);
	caller_detach(&step);
}

/* What belonged to one queue is not another's later. */
static void segments_are_not_used_again(void **state)
{
	struct world *world = *state;
	struct options options = caller_options();
	struct side *side = side_new(client_new(world, 0), &options);
	uint32_t segment = side->qp->granted.state.segment, last = segment;
	struct simhca_handle req = { .handle = side->qp->handle };
	uint64_t size;

	assert_true(simhca_context_segment(side->client->context, segment, &size) >= 0);
	/* What goes makes room for others, which nobody takes for it. */
	for (int i = 0; i < 2 * SIMHCA_MAX_OWN_SEGMENTS; i++) {
		assert_int_equal(
			patiently(simhca_destroy_qp(side->client->context, req.handle, NULL)), 0);
		assert_true(simhca_context_segment(side->client->context, last, &size) < 0);
		side->qp = qp_new(side->client, &options, side->send_cq, side->recv_cq, NULL);
		req.handle = side->qp->handle;
		assert_true(side->qp->granted.state.segment >= SIMHCA_MAX_SEGMENTS);
		assert_int_not_equal(side->qp->granted.state.segment, last);
		last = side->qp->granted.state.segment;
		assert_int_not_equal(last, segment);
	}
	/* Three are there, with the CQs'; beyond it is like any other memory. */
	for (int i = 3; i < SIMHCA_MAX_OWN_SEGMENTS + 2; i++) {
		struct qp *qp = qp_new(side->client, &options, side->send_cq, side->recv_cq, NULL);

		assert_int_equal(qp->granted.state.segment >= SIMHCA_MAX_SEGMENTS,
				 i < SIMHCA_MAX_OWN_SEGMENTS);
	}
}

/* How many of so many QPs have one; their CQ comes first. */
static uint32_t own_segments(struct client *client, const struct options *options, uint32_t qps)
{
	struct cq *cq = cq_new(client, 16);
	uint32_t own = 0;

	for (uint32_t i = 0; i < qps; i++)
		own += qp_new(client, options, cq, cq, NULL)->granted.state.segment >=
		       SIMHCA_MAX_SEGMENTS;
	return own;
}

/* One program has half of what there is, and what it gives back another can have. */
static void segments_are_shared_out(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .own_segments = 20 } };
	struct world *world = world_new(&config);
	struct options options = caller_options();
	struct client *one[2] = { client_new(world, 0), client_new(world, 0) };
	struct client *other = client_new(world, 0), *third = client_new(world, 0);

	*state = world;
	for (int i = 0; i < 2; i++)
		simhca_context_share(one[i]->context, 7);
	assert_int_equal(own_segments(one[0], &options, 7), 7);
	assert_int_equal(own_segments(one[1], &options, 7), 1);
	assert_int_equal(own_segments(other, &options, 20), 9);
	assert_int_equal(own_segments(third, &options, 1), 0);
	client_gone(one[0]);
	assert_int_equal(own_segments(third, &options, 10), 7);
}

/* -------------------------------------------------------------------------- the end */

/* Ends at each store: the peer has the message or has not, and goes on without the dead one. */
static void killed_at_each_store(void **state)
{
	static const struct {
		struct work work;
		enum { NO_CHANNEL, CHANNEL, FULL_CHANNEL } channel;
	} once[] = {
		{ { "a send", SIMHCA_WR_SEND, SIGNALED, 3, 100, 1, true, false }, NO_CHANNEL },
		{ { "a send to a slot", SIMHCA_WR_SEND, SIGNALED, 3, 64, 1, true, false },
		  NO_CHANNEL },
		{ { "a write with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 100, 1, true,
		    false },
		  NO_CHANNEL },
		{ { "a read", SIMHCA_WR_RDMA_READ, SIGNALED, 2, 100, 1, false, false },
		  NO_CHANNEL },
		{ { "a list of writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 4, 100, 1, false, false },
		  NO_CHANNEL },
		{ { "a send and its event", SIMHCA_WR_SEND, SIGNALED, 2, 100, 1, true, false },
		  CHANNEL },
		{ { "a send, and no room", SIMHCA_WR_SEND, SIGNALED, 2, 100, 1, true, false },
		  FULL_CHANNEL },
	};

	for (size_t w = 0; w < ARRAY_SIZE(once); w++) {
		const struct work *work = &once[w].work;
		int ends[2] = { -1, -1 };
		bool killed = true;
		unsigned int store;

		for (store = 1; killed; store += STORE_STEP) {
			uint32_t bytes = work->count * work->length, arrived = 0, flushed = 0;
			uint32_t by_device, counted, read;
			struct simhca_step step;
			struct simhca_cqe cqe;
			struct pair *pair;

			assert_true(store < MOST_STORES);
			caller_setup(state);
			pair = make_with(*state, work->length == SIMHCA_SLOT_DATA);
			step = caller_attach(&pair->a);
			fill(pair->a.mr->addr, bytes, store);
			put_work(pair, work);
			raised = 0;
			pair->b.recv_cq->on_event = count_event;
			cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
			if (once[w].channel)
				make_channel(&step.peer.recv_notify, pair->b.recv_cq, ends);
			if (once[w].channel == FULL_CHANNEL)
				fill_channel(ends);
			killed = caller_killed_at(&step, store);
			client_gone(pair->a.client);
			assert_int_equal(pair->b.qp->state->resp_owner.holder, 0);
			by_device = raised;
			read = read_channel(ends, pair->b.recv_cq);
			counted = pair->b.recv_cq->state->told;
			assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
			settle(*state);
			while (next_cqe(pair->b.recv_cq, &cqe)) {
				assert_int_equal(cqe.wr_id, 2000 + arrived + flushed);
				if (cqe.status) {
					flushed++;
					continue;
				}
				assert_int_equal(flushed, 0);
				assert_int_equal(cqe.byte_len, work->length);
				if (cqe.in_slot)
					memcpy(pair->b.mr->addr + arrived * work->length,
					       slot_of(pair->b.qp, arrived), work->length);
				arrived++;
			}
			assert_int_equal(arrived + flushed, work->receives ? work->count : 0);
			assert_true(by_device + read || !arrived); /* it may sleep until then */
			/* None that is there was not counted, and none that was is missed. */
			assert_true(read <= counted && counted <= read + by_device);
			if (!killed && work->receives) {
				assert_int_equal(by_device, once[w].channel != CHANNEL);
				assert_int_equal(read, once[w].channel == CHANNEL);
				assert_int_equal(counted, read);
			}
			if (work->receives)
				assert_true(
					filled(pair->b.mr->addr, arrived * work->length, store));
			if (!killed && work->receives)
				assert_int_equal(arrived, work->count);
			assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
			caller_detach(&step);
			close_channel(ends);
			teardown(state);
		}
		print_message("%s: about %u stores\n", work->name, store);
		assert_true(store > 20);
	}
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, caller_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_the_device_does_on_rc),
		HERE(what_the_device_does_on_uc),
		HERE(what_the_device_does_with_an_srq),
		HERE(a_sample_is_timed),
		HERE(data_in_slots_by_device),
		HERE(data_in_slots_by_fast_path),
		cmocka_unit_test(nothing_is_changed),
		HERE(what_the_qps_do_not_grant),
		HERE(receives_of_an_srq),
		HERE(a_receive_that_was_consumed),
		HERE(the_device_waits_for_a_turn),
		HERE(the_rest_is_left_to_the_program),
		HERE(an_atomic_is_not_left_to_the_program),
		HERE(the_program_does_not_come),
		HERE(deregistration_waits_for_a_step),
		HERE(a_thread_that_is_cancelled),
		HERE(an_atomic_waits_for_steps),
		HERE(who_sleeps_is_woken_by_the_device),
		HERE(who_sleeps_is_woken_by_the_fast_path),
		HERE(own_event_comes_first),
		HERE(who_may_be_attached),
		HERE(completions_that_are_the_devices),
		HERE(counters_are_the_devices),
		HERE(peers_that_are_none),
		HERE(none_while_there_are_rules),
		HERE(the_device_carries_what_is_traced),
		HERE(the_device_carries_the_first_message_in_rtr),
		HERE(segments_are_not_used_again),
		cmocka_unit_test_teardown(segments_are_shared_out, teardown),
		cmocka_unit_test(a_list_of_writes),
		cmocka_unit_test(more_reads_than_the_responder_takes),
		cmocka_unit_test(killed_at_each_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
