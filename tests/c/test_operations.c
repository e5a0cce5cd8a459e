/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Every operation on every transport: the bytes, the completions on both sides, and what is
 * refused. */
#include <arpa/inet.h>

#include "harness.h"

static const enum ibv_qp_type transports[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* Lengths around packets, slices of the local link, and everything in between. */
static const uint32_t lengths[] = { 0,	    1,	    2,	    3,	    7,	     8,	     63,
				    64,	    65,	    255,    256,    257,     1023,   1024,
				    1025,   4095,   4096,   4097,   65535,   65536,  65537,
				    262143, 262144, 262145, 524288, 1048576, 3145729 };

#define BIG (4u << 20)

static struct pair *big_pair(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);

	options.buffer = BIG;
	options.path_mtu = IBV_MTU_4096;
	return pair_new(world, &options);
}

static uint32_t grh(const struct pair *pair)
{
	return pair->a.qp->type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
}

static uint32_t limit(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? 4096 : BIG;
}

static void sends_of_all_lengths(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct pair *pair = big_pair(*state, transports[t]);

		for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
			uint32_t length = lengths[i], skip = grh(pair);
			struct simhca_cqe cqe;

			if (length > limit(transports[t]))
				continue;
			fill(pair->a.mr->addr + 3, length, (uint32_t)i);
			memset(pair->b.mr->addr, 0xee, length + skip + 8);
			recv_into(&pair->b, 100 + i, 1, length + skip);
			send_from(&pair->a, i, 3, length);
			cqe = expect(pair->a.send_cq, i, SUCCESS);
			assert_int_equal(cqe.opcode, IBV_WC_SEND);
			assert_int_equal(cqe.qpn, pair->a.qp->qpn);
			assert_int_equal(cqe.flags & SIMHCA_CQE_RECV, 0);
			cqe = expect(pair->b.recv_cq, 100 + i, SUCCESS);
			assert_int_equal(cqe.opcode, IBV_WC_RECV);
			assert_int_equal(cqe.qpn, pair->b.qp->qpn);
			assert_int_equal(cqe.byte_len, length + skip);
			assert_int_equal(cqe.flags & (SIMHCA_CQE_RECV | SIMHCA_CQE_IMM |
						      SIMHCA_CQE_INV | SIMHCA_CQE_SRQ),
					 SIMHCA_CQE_RECV);
			assert_true(filled(pair->b.mr->addr + 1 + skip, length, (uint32_t)i));
			assert_int_equal(pair->b.mr->addr[0], 0xee);
			assert_int_equal(pair->b.mr->addr[1 + skip + length], 0xee);
		}
	}
}

static void writes_of_all_lengths(void **state)
{
	for (size_t t = 0; t < 2; t++) {
		struct pair *pair = big_pair(*state, transports[t]);

		for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
			uint32_t length = lengths[i];
			struct simhca_cqe cqe;

			fill(pair->a.mr->addr + 5, length, (uint32_t)i);
			memset(pair->b.mr->addr, 0xee, length + 8);
			rdma_write(&pair->a, i, 5, length, 2);
			cqe = expect(pair->a.send_cq, i, SUCCESS);
			assert_int_equal(cqe.opcode, IBV_WC_RDMA_WRITE);
			run_until_idle(*state);
			assert_true(filled(pair->b.mr->addr + 2, length, (uint32_t)i));
			assert_true(all_bytes(pair->b.mr->addr, 2, 0xee));
			assert_true(all_bytes(pair->b.mr->addr + 2 + length, 6, 0xee));
		}
		expect_none(pair->b.recv_cq);
	}
}

static void reads_of_all_lengths(void **state)
{
	struct pair *pair = big_pair(*state, IBV_QPT_RC);

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t length = lengths[i];
		struct simhca_cqe cqe;

		fill(pair->b.mr->addr + 5, length, (uint32_t)i);
		memset(pair->a.mr->addr, 0xee, length + 8);
		rdma_read(&pair->a, i, 1, length, 5);
		cqe = expect(pair->a.send_cq, i, SUCCESS);
		assert_int_equal(cqe.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(cqe.byte_len, length);
		assert_true(filled(pair->a.mr->addr + 1, length, (uint32_t)i));
		assert_int_equal(pair->a.mr->addr[0], 0xee);
		assert_true(all_bytes(pair->a.mr->addr + 1 + length, 7, 0xee));
	}
	expect_none(pair->b.recv_cq);
	expect_none(pair->b.send_cq);
}

static void immediate_data_arrives(void **state)
{
	const uint32_t imm = htonl(0xdeadbeef);

	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct pair *pair = big_pair(*state, transports[t]);
		uint32_t skip = grh(pair);
		static const uint32_t sizes[] = { 0, 8, 4000, 600000 };

		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct simhca_cqe cqe;

			if (sizes[i] > limit(transports[t]))
				continue;
			fill(pair->a.mr->addr, sizes[i], 1);
			recv_into(&pair->b, 2, 0, sizes[i] + skip);
			post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND_WITH_IMM, .imm = imm,
			     SGES(sge(pair->a.mr, 0, sizes[i])), .av = av_to(*state, 1, 0),
			     .dest_qpn = pair->b.qp->qpn, .qkey = 0x11111111);
			assert_int_equal(expect(pair->a.send_cq, 1, SUCCESS).opcode, IBV_WC_SEND);
			cqe = expect(pair->b.recv_cq, 2, SUCCESS);
			assert_int_equal(cqe.opcode, IBV_WC_RECV);
			assert_true(cqe.flags & SIMHCA_CQE_IMM);
			assert_int_equal(cqe.imm_or_rkey, imm);
			assert_int_equal(cqe.byte_len, sizes[i] + skip);
			assert_true(filled(pair->b.mr->addr + skip, sizes[i], 1));
		}
	}
}

/* RDMA WRITE with immediate consumes a receive request, but not its buffer. */
static void writes_with_immediate(void **state)
{
	const uint32_t imm = htonl(0x01020304);
	static const uint32_t sizes[] = { 0, 8, 4000, 600000 };

	for (size_t t = 0; t < 2; t++) {
		struct pair *pair = big_pair(*state, transports[t]);

		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct simhca_cqe cqe;

			fill(pair->a.mr->addr, sizes[i], 1);
			memset(pair->b.mr->addr, 0xee, BIG);
			recv_into(&pair->b, 2, BIG - 64, 64);
			post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = imm,
			     SGES(sge(pair->a.mr, 0, sizes[i])), .remote_addr = pair->b.mr->iova,
			     .rkey = pair->b.mr->rkey);
			assert_int_equal(expect(pair->a.send_cq, 1, SUCCESS).opcode,
					 IBV_WC_RDMA_WRITE);
			cqe = expect(pair->b.recv_cq, 2, SUCCESS);
			assert_int_equal(cqe.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			assert_true(cqe.flags & SIMHCA_CQE_IMM);
			assert_int_equal(cqe.imm_or_rkey, imm);
			assert_int_equal(cqe.byte_len, sizes[i]);
			assert_true(filled(pair->b.mr->addr, sizes[i], 1));
			assert_true(all_bytes(pair->b.mr->addr + BIG - 64, 64, 0xee));
		}
	}
}

/* A receive with no SGE at all takes an empty message, or an immediate. */
static void receives_without_a_buffer(void **state)
{
	for (size_t t = 0; t < 2; t++) {
		struct pair *pair = big_pair(*state, transports[t]);

		qp_recv(pair->b.qp, 1, NULL, 0);
		qp_recv(pair->b.qp, 2, NULL, 0);
		qp_post(pair->a.qp, &(struct wr){ .id = 1,
						  .opcode = SIMHCA_WR_SEND,
						  .flags = SIMHCA_WQE_SIGNALED });
		qp_post(pair->a.qp, &(struct wr){ .id = 2,
						  .opcode = SIMHCA_WR_SEND_WITH_IMM,
						  .flags = SIMHCA_WQE_SIGNALED });
		for (uint64_t id = 1; id <= 2; id++) {
			expect(pair->a.send_cq, id, SUCCESS);
			assert_int_equal(expect(pair->b.recv_cq, id, SUCCESS).byte_len, 0);
		}
	}
}

/* Inline data is taken when it is posted: its buffer may change at once, and needs no region. */
static void inline_data_of_all_lengths(void **state)
{
	uint8_t data[256];

	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct pair *pair = big_pair(*state, transports[t]);
		uint32_t most = pair->a.qp->granted.max_inline, skip = grh(pair);

		assert_true(most >= sizeof(data));
		for (uint32_t length = 0; length <= sizeof(data); length += 1 + length / 5) {
			fill(data, length, length);
			recv_into(&pair->b, 1, 0, sizeof(data) + skip);
			post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND, .inline_data = data,
			     .inline_len = length, .av = av_to(*state, 1, 0),
			     .dest_qpn = pair->b.qp->qpn, .qkey = 0x11111111);
			memset(data, 0, sizeof(data));
			expect(pair->a.send_cq, 1, SUCCESS);
			assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len,
					 length + skip);
			assert_true(filled(pair->b.mr->addr + skip, length, length));
			if (transports[t] == IBV_QPT_UD)
				continue;
			fill(data, length, length + 1);
			post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .inline_data = data,
			     .inline_len = length, .remote_addr = pair->b.mr->iova + 1000,
			     .rkey = pair->b.mr->rkey);
			expect(pair->a.send_cq, 2, SUCCESS);
			run_until_idle(*state);
			assert_true(filled(pair->b.mr->addr + 1000, length, length + 1));
		}
	}
}

/* Cuts length bytes at odd places into at most count SGEs, with gaps between them in the buffer. */
static uint32_t cut(const struct mr *mr, uint32_t length, struct simhca_sge *list, uint32_t count,
		    uint64_t *seed)
{
	uint64_t at = 0;
	uint32_t n = 0;

	while (n < count) {
		uint32_t part =
			n + 1 == count ? length : test_random(seed) % (2 * length / count + 2);

		if (part > length)
			part = length;
		list[n++] = sge(mr, at, part);
		length -= part;
		at += part + test_random(seed) % 13;
	}
	return n;
}

static void scatter_out(const struct mr *mr, const struct simhca_sge *list, uint32_t count,
			const uint8_t *data)
{
	for (uint32_t i = 0; i < count; i++) {
		memcpy(mr->addr + (list[i].addr - mr->iova), data, list[i].length);
		data += list[i].length;
	}
}

static bool gathers_to(const struct mr *mr, const struct simhca_sge *list, uint32_t count,
		       const uint8_t *data)
{
	for (uint32_t i = 0; i < count; i++) {
		if (memcmp(mr->addr + (list[i].addr - mr->iova), data, list[i].length) != 0)
			return false;
		data += list[i].length;
	}
	return true;
}

static void gather_and_scatter_across_odd_boundaries(void **state)
{
	uint8_t *data = world_alloc(*state, BIG);
	uint64_t seed = 20;

	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct options options = default_options(transports[t]);
		struct pair *pair;

		options.max_send_sge = options.max_recv_sge = SIMHCA_MAX_SGE;
		options.buffer = BIG;
		options.path_mtu = IBV_MTU_4096;
		pair = pair_new(*state, &options);
		for (int lap = 0; lap < 60; lap++) {
			struct simhca_sge out[SIMHCA_MAX_SGE], in[SIMHCA_MAX_SGE];
			uint32_t most =
				transports[t] == IBV_QPT_UD ? 4096 : (lap % 6 ? 30000 : BIG / 2);
			uint32_t length = test_random(&seed) % most, skip = grh(pair);
			uint32_t sent = cut(pair->a.mr, length, out,
					    1 + test_random(&seed) % SIMHCA_MAX_SGE, &seed);
			uint32_t received = cut(pair->b.mr, length + skip, in,
						1 + test_random(&seed) % SIMHCA_MAX_SGE, &seed);

			fill(data + skip, length, (uint32_t)lap);
			memset(pair->b.mr->addr, 0, BIG);
			scatter_out(pair->a.mr, out, sent, data + skip);
			qp_recv(pair->b.qp, 1, in, received);
			post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND, .sges = out,
			     .num_sge = sent, .av = av_to(*state, 1, 0),
			     .dest_qpn = pair->b.qp->qpn, .qkey = 0x11111111);
			expect(pair->a.send_cq, 1, SUCCESS);
			assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len,
					 length + skip);
			if (skip) { /* what the GRH says is for another test */
				uint8_t first[SIMHCA_GRH_BYTES] = { 0 };
				uint32_t got = 0;

				for (uint32_t i = 0; i < received && got < skip; i++)
					for (uint32_t j = 0; j < in[i].length && got < skip; j++)
						first[got++] =
							pair->b.mr->addr[in[i].addr -
									 pair->b.mr->iova + j];
				memcpy(data, first, skip);
			}
			assert_true(gathers_to(pair->b.mr, in, received, data));
			if (transports[t] == IBV_QPT_UD)
				continue;
			memset(pair->b.mr->addr, 0, length);
			post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .sges = out,
			     .num_sge = sent, .remote_addr = pair->b.mr->iova + 7,
			     .rkey = pair->b.mr->rkey);
			expect(pair->a.send_cq, 2, SUCCESS);
			run_until_idle(*state);
			assert_memory_equal(pair->b.mr->addr + 7, data, length);
			if (transports[t] != IBV_QPT_RC)
				continue;
			memset(pair->a.mr->addr, 0, BIG);
			post(&pair->a, .id = 3, .opcode = SIMHCA_WR_RDMA_READ, .sges = out,
			     .num_sge = sent, .remote_addr = pair->b.mr->iova + 7,
			     .rkey = pair->b.mr->rkey);
			expect(pair->a.send_cq, 3, SUCCESS);
			assert_true(gathers_to(pair->a.mr, out, sent, data));
		}
	}
}

/* A receive buffer may be larger than the message; the rest of it is left alone. */
static void the_rest_of_a_receive_buffer_is_left_alone(void **state)
{
	struct pair *pair = big_pair(*state, IBV_QPT_RC);

	memset(pair->b.mr->addr, 0xee, 4096);
	memset(pair->a.mr->addr, 0x11, 4096);
	post_recv(&pair->b, 1, sge(pair->b.mr, 0, 10), sge(pair->b.mr, 20, 0),
		  sge(pair->b.mr, 30, 100), sge(pair->b.mr, 200, 100));
	send_from(&pair->a, 1, 0, 50);
	assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len, 50);
	assert_true(all_bytes(pair->b.mr->addr, 10, 0x11));
	assert_true(all_bytes(pair->b.mr->addr + 10, 20, 0xee));
	assert_true(all_bytes(pair->b.mr->addr + 30, 40, 0x11));
	assert_true(all_bytes(pair->b.mr->addr + 70, 1000, 0xee));
}

static void rc_messages_longer_than_the_buffer_fail_both(void **state)
{
	static const uint32_t sizes[] = { 65, 4097, 600000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct pair *pair = big_pair(*state, IBV_QPT_RC);

		memset(pair->b.mr->addr, 0xee, BIG);
		recv_into(&pair->b, 1, 0, sizes[i] - 1);
		send_from(&pair->a, 2, 0, sizes[i]);
		expect_why(pair->a.send_cq, 2, REM_INV_REQ_ERR, RECV_TOO_SHORT);
		expect_why(pair->b.recv_cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
		/* Not a byte beyond what was given. */
		assert_true(all_bytes(pair->b.mr->addr + sizes[i] - 1, 4096, 0xee));
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_REQ_ERR), 0);
	}
}

static void uc_and_ud_lose_what_nobody_awaits(void **state)
{
	for (size_t t = 1; t < ARRAY_SIZE(transports); t++) {
		struct pair *pair = big_pair(*state, transports[t]);

		for (uint64_t id = 0; id < 5; id++) {
			send_from(&pair->a, id, 0, 100);
			expect(pair->a.send_cq, id, SUCCESS);
		}
		expect_none(pair->b.recv_cq);
		check_works(pair);
		expect_none(pair->b.recv_cq);
	}
}

struct outcome {
	enum ibv_qp_type type;
	uint8_t opcode;
};

/* IBTA vol. 1, table of operations by transport: what UC and UD cannot do. */
static void operations_that_a_transport_lacks(void **state)
{
	static const struct outcome lacking[] = {
		{ IBV_QPT_UC, SIMHCA_WR_RDMA_READ },
		{ IBV_QPT_UC, SIMHCA_WR_ATOMIC_CMP_AND_SWP },
		{ IBV_QPT_UC, SIMHCA_WR_ATOMIC_FETCH_AND_ADD },
		{ IBV_QPT_UD, SIMHCA_WR_RDMA_WRITE },
		{ IBV_QPT_UD, SIMHCA_WR_RDMA_WRITE_WITH_IMM },
		{ IBV_QPT_UD, SIMHCA_WR_RDMA_READ },
		{ IBV_QPT_UD, SIMHCA_WR_ATOMIC_CMP_AND_SWP },
		{ IBV_QPT_UD, SIMHCA_WR_ATOMIC_FETCH_AND_ADD },
		{ IBV_QPT_UD, SIMHCA_WR_LOCAL_INV },
		{ IBV_QPT_UD, SIMHCA_WR_BIND_MW },
		{ IBV_QPT_UD, SIMHCA_WR_SEND_WITH_INV },
		{ IBV_QPT_RC, 10 },
		{ IBV_QPT_RC, 77 },
		{ IBV_QPT_UC, 255 },
		{ IBV_QPT_UD, 128 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lacking); i++) {
		struct options options = default_options(lacking[i].type);
		struct pair *pair = pair_new(*state, &options);

		recv_into(&pair->b, 3, 0, 64);
		post(&pair->a, .id = 1, .opcode = lacking[i].opcode, SGES(sge(pair->a.mr, 0, 8)),
		     .av = av_to(*state, 1, 0), .dest_qpn = pair->b.qp->qpn, .qkey = 0x11111111,
		     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
		expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
		expect_none(pair->b.recv_cq);
		assert_int_equal(qp_state(pair->a.qp),
				 lacking[i].type == IBV_QPT_RC ? IBV_QPS_ERR : IBV_QPS_SQE);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	}
}

/* Requests keep their order, and a message sees what the one before it wrote. */
static void requests_are_done_in_order(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t *value = (uint64_t *)pair->a.mr->addr;

	for (uint64_t i = 0; i < 20; i++)
		value[i] = 100 + i;
	for (uint64_t i = 0; i < 20; i++) {
		/* b[0] = value[i]; a[100 + i] = b[0] */
		rdma_write(&pair->a, 2 * i, i * 8, 8, 0);
		rdma_read(&pair->a, 2 * i + 1, (100 + i) * 8, 8, 0);
	}
	for (uint64_t i = 0; i < 20; i++) {
		expect(pair->a.send_cq, 2 * i, SUCCESS);
		expect(pair->a.send_cq, 2 * i + 1, SUCCESS);
		assert_int_equal(value[100 + i], 100 + i);
	}
}

static void both_directions_at_once(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	for (uint64_t id = 0; id < 30; id++) {
		recv_into(&pair->a, id, 32768, 3000);
		recv_into(&pair->b, id, 32768, 3000);
	}
	fill(pair->a.mr->addr, 3000, 1);
	fill(pair->b.mr->addr, 3000, 2);
	for (uint64_t id = 0; id < 30; id++) {
		send_from(&pair->a, id, 0, 3000);
		send_from(&pair->b, id, 0, 3000);
	}
	for (uint64_t id = 0; id < 30; id++) {
		expect(pair->a.send_cq, id, SUCCESS);
		expect(pair->b.send_cq, id, SUCCESS);
		expect(pair->a.recv_cq, id, SUCCESS);
		expect(pair->b.recv_cq, id, SUCCESS);
	}
	assert_true(filled(pair->a.mr->addr + 32768, 3000, 2));
	assert_true(filled(pair->b.mr->addr + 32768, 3000, 1));
}

static void everything_works_within_one_device(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		for (int context = 0; context < 2; context++) {
			struct options options = default_options(transports[t]);

			options.same_device = true;
			options.same_context = context;
			check_works(pair_new(*state, &options));
		}
	}
}

/* A QP may be its own peer. */
static void a_qp_talks_to_itself(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct options options = default_options(transports[t]);
		struct side *side = side_new(client_new(*state, 0), &options);

		qp_connect(side->qp, 0, side->qp->qpn, &options);
		side->peer = side;
		for (int i = 0; i < 5; i++) {
			uint32_t skip = transports[t] == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;

			fill(side->mr->addr, 3000, (uint32_t)i);
			recv_into(side, 1, 8192, 3000 + skip);
			send_from(side, 2, 0, 3000);
			expect(side->send_cq, 2, SUCCESS);
			expect(side->recv_cq, 1, SUCCESS);
			assert_true(filled(side->mr->addr + 8192 + skip, 3000, (uint32_t)i));
		}
	}
}

static void reads_need_max_rd_atomic(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_RDMA_READ, SIMHCA_WR_ATOMIC_CMP_AND_SWP,
					   SIMHCA_WR_ATOMIC_FETCH_AND_ADD };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (int responder = 0; responder < 2; responder++) {
			struct options options = default_options(IBV_QPT_RC);
			struct pair *pair = pair_unconnected(*state, &options);

			if (responder)
				pair->b.options.max_dest_rd_atomic = 0;
			else
				pair->a.options.max_rd_atomic = 0;
			pair_connect(pair);
			memset(pair->b.mr->addr, 0x42, 64);
			post(&pair->a, .id = 1, .opcode = opcodes[i], SGES(sge(pair->a.mr, 0, 8)),
			     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey,
			     .compare_add = 0x4242424242424242);
			if (responder)
				expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, RESP_NO_RD_ATOMIC);
			else
				expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, READ_NOT_ENABLED);
			assert_true(all_bytes(pair->b.mr->addr, 64, 0x42));
			assert_true(all_bytes(pair->a.mr->addr, 64, 0));
			assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
			assert_int_equal(qp_state(pair->b.qp),
					 responder ? IBV_QPS_ERR : IBV_QPS_RTS);
			assert_int_equal(events_of(pair->b.client, pair->b.qp,
						   IBV_EVENT_QP_REQ_ERR),
					 responder);
		}
	}
}

/* What takes a response needs a place for it: inline data is none. */
static void reads_are_never_inline(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_RDMA_READ, SIMHCA_WR_ATOMIC_CMP_AND_SWP,
					   SIMHCA_WR_ATOMIC_FETCH_AND_ADD };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair = pair_new(*state, &options);

		post(&pair->a, .id = 1, .opcode = opcodes[i], .inline_data = "12345678",
		     .inline_len = 8, .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey);
		expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
		assert_true(all_bytes(pair->b.mr->addr, 8, 0));
	}
}

/* Sends the first packets of a long message, and no more. */
static struct pair *half_a_message(struct world *world)
{
	const uint32_t length = 32u << 20; /* more than an engine moves in a round */
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.buffer = length;
	pair = pair_new(world, &options);
	recv_into(&pair->b, 7, 0, length);
	recv_into(&pair->b, 8, 0, length);
	send_from(&pair->a, 1, 0, length);
	for (int i = 0; i < 10 && responder_of(pair->b.qp)->epsn == pair->b.options.psn; i++)
		rounds(world, 1);
	assert_true(responder_of(pair->b.qp)->epsn != pair->b.options.psn);
	assert_int_equal(responder_of(pair->b.qp)->msn, 0);
	return pair;
}

/* The receive that was taken for a message which never ended comes back first. */
static void a_message_cut_short_gives_its_receive_back(void **state)
{
	struct pair *pair = half_a_message(*state);

	assert_int_equal(0, simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL));
	run_until_idle(*state);
	expect_none(pair->b.recv_cq);
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_ERR));
	expect_why(pair->b.recv_cq, 7, WR_FLUSH_ERR, FLUSHED);
	expect_why(pair->b.recv_cq, 8, WR_FLUSH_ERR, FLUSHED);
	expect_none(pair->b.recv_cq);
}

/* In the middle of a message nothing else may begin (IBTA vol. 1, 9.7.4.1.2). */
static void a_message_within_a_message_is_refused(void **state)
{
	struct pair *pair = half_a_message(*state);
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &pair->a.options);

	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	attr.sq_psn = responder_of(pair->b.qp)->epsn;
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
	rdma_write(&pair->a, 2, 0, 8, 0);
	expect_why(pair->a.send_cq, 2, REM_INV_REQ_ERR, OPCODE_SEQUENCE);
	/* The receive that the first had taken says so; there is no event beside it (class C). */
	expect_why(pair->b.recv_cq, 7, REM_INV_REQ_ERR, OPCODE_SEQUENCE);
	expect_why(pair->b.recv_cq, 8, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_REQ_ERR), 0);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
}

/* More than 1 GiB is no message; the SGEs say so before any of it is looked at. */
static void messages_above_the_largest_are_refused(void **state)
{
	for (size_t t = 0; t < 2; t++) {
		struct options options = default_options(transports[t]);
		struct pair *pair = pair_new(*state, &options);

		recv_into(&pair->b, 9, 0, 64);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND,
		     SGES(sge(pair->a.mr, 0, 1u << 30), sge(pair->a.mr, 0, 1)));
		expect_why(pair->a.send_cq, 1, LOC_LEN_ERR, MSG_TOO_LONG);
		expect_none(pair->b.recv_cq);
	}
}

/* The null MR reads as zeros, and swallows what is written. */
static void the_null_mr_reads_as_zero(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_reg_mr_req req = { .pd = pair->a.client->pd, .null_mr = 1 };
	struct simhca_reg_mr_reply null;

	assert_int_equal(0, simhca_reg_mr(pair->a.client->context, pair->a.client->mm, &req, &null,
					  NULL));
	memset(pair->a.mr->addr, 0x11, 64);
	memset(pair->b.mr->addr, 0xee, 200);
	recv_into(&pair->b, 1, 0, 200);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_SEND,
	     SGES(sge(pair->a.mr, 0, 10), { .addr = 12345, .length = 70, .lkey = null.lkey },
		  sge(pair->a.mr, 10, 20)));
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(expect(pair->b.recv_cq, 1, SUCCESS).byte_len, 100);
	assert_true(all_bytes(pair->b.mr->addr, 10, 0x11));
	assert_true(all_bytes(pair->b.mr->addr + 10, 70, 0));
	assert_true(all_bytes(pair->b.mr->addr + 80, 20, 0x11));
	post_recv(&pair->a, 2, { .addr = 0, .length = 50, .lkey = null.lkey },
		  sge(pair->a.mr, 1000, 50));
	fill(pair->b.mr->addr, 100, 4);
	send_from(&pair->b, 2, 0, 100);
	expect(pair->a.recv_cq, 2, SUCCESS);
	assert_memory_equal(pair->a.mr->addr + 1000, pair->b.mr->addr + 50, 50);
}

/* The responder refuses what it has no room for; reads and atomics before that are done. */
static void more_reads_than_the_responder_takes(void **state)
{
	static const struct {
		uint8_t sends, takes, posted, fence; /* fence: this one has it; 0: none */
		bool one_by_one;
		uint8_t done;
	} cases[] = {
		{ 16, 1, 16, 0, false, 1 }, { 16, 4, 16, 0, false, 4 }, { 5, 4, 16, 0, false, 4 },
		{ 4, 4, 16, 0, false, 16 }, { 2, 4, 16, 0, false, 16 }, { 16, 4, 4, 0, false, 4 },
		{ 16, 4, 8, 4, false, 8 },  { 16, 4, 9, 4, false, 8 },	{ 16, 1, 16, 0, true, 16 },
	};

	if (((struct world *)*state)->tick)
		skip(); /* other links do not look ahead */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.max_rd_atomic = cases[i].sends;
		options.max_dest_rd_atomic = cases[i].takes;
		pair = pair_new(*state, &options);
		for (uint32_t n = 0; n < cases[i].posted; n++) {
			const struct wr wr = {
				.id = n,
				.flags = SIMHCA_WQE_SIGNALED |
					 (n && n == cases[i].fence ? SIMHCA_WQE_FENCE : 0),
				.opcode = n % 3 == 2 ? SIMHCA_WR_ATOMIC_FETCH_AND_ADD
						     : SIMHCA_WR_RDMA_READ,
				SGES(sge(pair->a.mr, 0, 8)),
				.remote_addr = pair->b.mr->iova,
				.rkey = pair->b.mr->rkey,
			};

			qp_post(pair->a.qp, &wr);
			if (cases[i].one_by_one)
				run_until_idle(*state);
		}
		run_until_idle(*state);
		for (uint32_t n = 0; n < cases[i].done; n++)
			expect(pair->a.send_cq, n, SUCCESS);
		if (cases[i].done != cases[i].posted)
			expect_why(pair->a.send_cq, cases[i].done, REM_INV_REQ_ERR,
				   RD_ATOMIC_EXCEEDED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(more_reads_than_the_responder_takes),
		ON_INFINIBAND(more_reads_than_the_responder_takes),
		ON_ETHERNET(sends_of_all_lengths),
		ON_INFINIBAND(sends_of_all_lengths),
		ON_ETHERNET(writes_of_all_lengths),
		ON_INFINIBAND(writes_of_all_lengths),
		ON_ETHERNET(reads_of_all_lengths),
		ON_INFINIBAND(reads_of_all_lengths),
		ON_ETHERNET(immediate_data_arrives),
		ON_INFINIBAND(immediate_data_arrives),
		ON_ETHERNET(writes_with_immediate),
		ON_ETHERNET(receives_without_a_buffer),
		ON_ETHERNET(inline_data_of_all_lengths),
		ON_ETHERNET(gather_and_scatter_across_odd_boundaries),
		ON_ETHERNET(the_rest_of_a_receive_buffer_is_left_alone),
		ON_ETHERNET(rc_messages_longer_than_the_buffer_fail_both),
		ON_ETHERNET(uc_and_ud_lose_what_nobody_awaits),
		ON_ETHERNET(operations_that_a_transport_lacks),
		ON_ETHERNET(requests_are_done_in_order),
		ON_ETHERNET(both_directions_at_once),
		ON_ETHERNET(everything_works_within_one_device),
		ON_INFINIBAND(everything_works_within_one_device),
		ON_ETHERNET(a_qp_talks_to_itself),
		ON_INFINIBAND(a_qp_talks_to_itself),
		ON_ETHERNET(reads_need_max_rd_atomic),
		ON_ETHERNET(reads_are_never_inline),
		ON_ETHERNET(a_message_cut_short_gives_its_receive_back),
		ON_ETHERNET(a_message_within_a_message_is_refused),
		ON_INFINIBAND(a_message_within_a_message_is_refused),
		ON_ETHERNET(messages_above_the_largest_are_refused),
		ON_ETHERNET(the_null_mr_reads_as_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
