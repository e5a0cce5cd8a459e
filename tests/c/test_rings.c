/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rings go round: send, receive and completion queues of all sizes, many laps each. */
#include "harness.h"

#define LAPS 50

static void laps(struct world *world, enum ibv_qp_type type, uint32_t depth, uint32_t cqe)
{
	struct options options = default_options(type);
	const uint32_t grh = type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
	struct pair *pair;
	uint32_t batch;
	uint64_t id = 1ull << 40;

	options.max_send_wr = depth;
	options.max_recv_wr = depth;
	options.cqe = cqe;
	pair = pair_new(world, &options);
	assert_int_equal(pair->a.qp->granted.sq_entries & (pair->a.qp->granted.sq_entries - 1), 0);
	assert_true(pair->a.qp->granted.max_send_wr >= depth);
	assert_true(pair->b.qp->granted.max_recv_wr >= depth);
	batch = depth < cqe ? depth : cqe;
	for (uint32_t lap = 0; lap < LAPS; lap++) {
		/* A different number each time, so that laps begin at every slot. */
		uint32_t count = 1 + lap % batch;

		for (uint32_t i = 0; i < count; i++) {
			fill(pair->a.mr->addr + i * 32, 32, lap * 1000 + i);
			recv_into(&pair->b, id + i, i * 128, 32 + grh);
		}
		for (uint32_t i = 0; i < count; i++)
			send_from(&pair->a, id + i, i * 32, 32);
		for (uint32_t i = 0; i < count; i++) {
			struct simhca_cqe cqe = expect(pair->a.send_cq, id + i, SUCCESS);

			assert_int_equal(cqe.qpn, pair->a.qp->qpn);
			assert_int_equal(expect(pair->b.recv_cq, id + i, SUCCESS).byte_len,
					 32 + grh);
			assert_true(filled(pair->b.mr->addr + i * 128 + grh, 32, lap * 1000 + i));
		}
		id += count;
	}
	expect_none(pair->a.send_cq);
	expect_none(pair->b.recv_cq);
}

static void rings_of_one(void **state)
{
	laps(*state, IBV_QPT_RC, 1, 1);
	laps(*state, IBV_QPT_UC, 1, 1);
	laps(*state, IBV_QPT_UD, 1, 1);
}

static void rings_of_two_and_three(void **state)
{
	laps(*state, IBV_QPT_RC, 2, 2);
	laps(*state, IBV_QPT_RC, 3, 3);
	laps(*state, IBV_QPT_UC, 3, 2);
	laps(*state, IBV_QPT_UD, 2, 3);
}

static void rings_of_odd_sizes(void **state)
{
	static const uint32_t sizes[] = { 5, 7, 9, 17, 31, 33, 100 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		laps(*state, IBV_QPT_RC, sizes[i], sizes[i]);
		laps(*state, IBV_QPT_UD, sizes[i], sizes[i] + 1);
	}
}

/* The largest queues that the device offers, once round and a bit. */
static void rings_of_the_largest_size(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.max_send_wr = SIMHCA_MAX_QP_WR;
	options.max_recv_wr = SIMHCA_MAX_QP_WR;
	options.cqe = SIMHCA_MAX_QP_WR;
	pair = pair_new(*state, &options);
	for (uint32_t lap = 0; lap < 2; lap++) {
		for (uint32_t i = 0; i < SIMHCA_MAX_QP_WR - 5; i++)
			recv_into(&pair->b, i, 0, 8);
		for (uint32_t i = 0; i < SIMHCA_MAX_QP_WR - 5; i++)
			send_from(&pair->a, i, 0, 8);
		for (uint32_t i = 0; i < SIMHCA_MAX_QP_WR - 5; i++) {
			expect(pair->a.send_cq, i, SUCCESS);
			expect(pair->b.recv_cq, i, SUCCESS);
		}
	}
}

/* Each CQE's seq is its index plus one, lap after lap, and nothing is written beyond it. */
static void cqe_sequence_counts_across_laps(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct cq *cq;

	options.cqe = 4;
	pair = pair_new(*state, &options);
	cq = pair->a.send_cq;
	for (uint32_t i = 0; i < 100 * cq->entries; i++) {
		const struct simhca_cqe *slot = &cq->ring[i & (cq->entries - 1)];
		uint32_t before = i < cq->entries ? 0 : i - cq->entries + 1;

		assert_int_equal(atomic_load(&slot->seq), before);
		rdma_write(&pair->a, i, 0, 8, 0);
		run_until_idle(*state);
		assert_int_equal(atomic_load(&slot->seq), i + 1);
		assert_int_equal(atomic_load(&cq->state->pi), i + 1);
		expect(cq, i, SUCCESS);
	}
}

/* wqe_index retires all up to it, so that unsignaled requests cost no CQE. */
static void a_completion_retires_the_unsignaled_before_it(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.max_send_wr = 8;
	pair = pair_new(*state, &options);
	for (uint32_t lap = 0; lap < LAPS; lap++) {
		for (uint32_t i = 0; i < 6; i++)
			qp_post(pair->a.qp, &(struct wr){
						    .id = 10 + i,
						    .opcode = SIMHCA_WR_RDMA_WRITE,
						    .flags = i == 5 ? SIMHCA_WQE_SIGNALED : 0,
						    SGES(sge(pair->a.mr, 0, 8)),
						    .remote_addr = pair->b.mr->iova,
						    .rkey = pair->b.mr->rkey,
					    });
		assert_int_equal(expect(pair->a.send_cq, 15, SUCCESS).wqe_index, lap * 6 + 5);
		assert_int_equal(sq_ci_of(pair->a.qp), lap * 6 + 6);
	}
	expect_none(pair->a.send_cq);
}

/* sq_sig_all signals what is not marked. */
static void sq_sig_all_completes_every_request(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.sq_sig_all = 1;
	pair = pair_new(*state, &options);
	for (uint32_t i = 0; i < 5; i++)
		qp_post(pair->a.qp, &(struct wr){
					    .id = i,
					    .opcode = SIMHCA_WR_RDMA_WRITE,
					    SGES(sge(pair->a.mr, 0, 8)),
					    .remote_addr = pair->b.mr->iova,
					    .rkey = pair->b.mr->rkey,
				    });
	for (uint32_t i = 0; i < 5; i++)
		expect(pair->a.send_cq, i, SUCCESS);
}

/* Nothing starts before the doorbell, and one doorbell is enough for all that was posted. */
static void one_doorbell_for_many_requests(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	run_until_idle(*state);
	for (uint32_t i = 0; i < 10; i++)
		qp_put(pair->a.qp, &(struct wr){ .id = i,
						 .opcode = SIMHCA_WR_RDMA_WRITE,
						 .flags = SIMHCA_WQE_SIGNALED,
						 SGES(sge(pair->a.mr, 0, 8)),
						 .remote_addr = pair->b.mr->iova,
						 .rkey = pair->b.mr->rkey });
	qp_ring(pair->a.qp);
	for (uint32_t i = 0; i < 10; i++)
		expect(pair->a.send_cq, i, SUCCESS);
}

/* As if the queues had been used 2^32 - left times: all counters stand just before their wrap. */
static void age_qp(struct qp *qp, uint32_t left)
{
	qp->sq_pi = qp->rq_pi = -left;
	requester_of(qp)->oldest = -left;
	atomic_store(&qp->state->sq_pi, -left);
	responder_of(qp)->rq_ci = -left;
	others_had_turns(qp);
	atomic_store(&qp->state->rq_pi, -left);
}

static void age_cq(struct cq *cq, uint32_t left)
{
	cq->ci = -left;
	atomic_store(&cq->state->pi, -left);
	atomic_store(&cq->state->ci, -left);
	/* What the lap before would have left behind. */
	for (uint32_t i = 0; i < cq->entries; i++) {
		uint32_t index = -left - 1 - i;

		atomic_store(&cq->ring[index & (cq->entries - 1)].seq, index + 1);
	}
}

static void counters_wrap(struct world *world, enum ibv_qp_type type, uint32_t depth)
{
	struct options options = default_options(type);
	const uint32_t grh = type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
	struct pair *pair;

	options.max_send_wr = options.max_recv_wr = options.cqe = depth;
	pair = pair_new(world, &options);
	run_until_idle(world);
	age_qp(pair->a.qp, 10);
	age_qp(pair->b.qp, 13);
	age_cq(pair->a.send_cq, 12);
	age_cq(pair->b.recv_cq, 9);
	for (uint32_t id = 0; id < 40; id += depth) {
		for (uint32_t i = 0; i < depth; i++)
			recv_into(&pair->b, id + i, i * 128, 64 + grh);
		for (uint32_t i = 0; i < depth; i++)
			send_from(&pair->a, id + i, 0, 64);
		for (uint32_t i = 0; i < depth; i++) {
			expect(pair->a.send_cq, id + i, SUCCESS);
			expect(pair->b.recv_cq, id + i, SUCCESS);
		}
		expect_none(pair->a.send_cq);
		expect_none(pair->b.recv_cq);
	}
	assert_true(pair->a.qp->sq_pi < 100 && pair->b.qp->rq_pi < 100);
	assert_true(pair->a.send_cq->ci < 100 && pair->b.recv_cq->ci < 100);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
}

static void counters_wrap_at_32_bits(void **state)
{
	static const uint32_t depths[] = { 1, 2, 3, 5, 8 };

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		counters_wrap(*state, IBV_QPT_RC, depths[i]);
		counters_wrap(*state, IBV_QPT_UC, depths[i]);
		counters_wrap(*state, IBV_QPT_UD, depths[i]);
	}
}

/* A ring that was just resized holds no CQE that was not written, not even at index 2^32 - 1. */
static void a_resized_cq_has_no_phantom_at_the_wrap(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct cq *cq;

	options.cqe = 4;
	pair = pair_new(*state, &options);
	cq = pair->a.send_cq;
	age_cq(cq, 3);
	assert_int_equal(0, cq_resize(cq, 16));
	for (uint64_t id = 0; id < 40; id++) {
		expect_none(cq);
		rdma_write(&pair->a, id, 0, 8, 0);
		expect(cq, id, SUCCESS);
	}
}

static void srq_counters_wrap_at_32_bits(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct client *client = pair->b.client;
	struct srq *srq = srq_new(client, 5, 1, 0);

	pair->b.qp = qp_new(client, &options, pair->b.send_cq, pair->b.recv_cq, srq);
	pair_connect(pair);
	srq->pi = -7u;
	atomic_store(&srq->state->head, -7u);
	atomic_store(&srq->state->pi, -7u);
	for (uint64_t id = 0; id < 20; id++) {
		struct simhca_sge one = sge(pair->b.mr, 0, 64);

		srq_recv(srq, id, &one, 1);
		send_from(&pair->a, id, 0, 64);
		expect(pair->a.send_cq, id, SUCCESS);
		expect(pair->b.recv_cq, id, SUCCESS);
	}
	assert_true(srq->pi < 100);
}

/* The device names what it gave, and gives at least what was asked. */
static void strides_and_entries_are_those_of_the_contract(void **state)
{
	static const uint32_t sges[] = { 1, 2, 3, 4, 5, 8, 16, 31, 32 };
	static const uint32_t inlines[] = { 0, 1, 63, 64, 65, 255, 1000, 1024 };

	for (size_t i = 0; i < ARRAY_SIZE(sges); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(inlines); j++) {
			struct options options = default_options(IBV_QPT_RC);
			struct client *client = client_new(*state, 0);
			struct cq *cq = cq_new(client, 4);
			const struct simhca_create_qp_reply *granted;

			options.max_send_sge = sges[i];
			options.max_recv_sge = sges[ARRAY_SIZE(sges) - 1 - i];
			options.max_inline = inlines[j];
			options.max_send_wr = 3 + (uint32_t)i;
			granted = &qp_new(client, &options, cq, cq, NULL)->granted;
			assert_true(granted->max_send_sge >= options.max_send_sge);
			assert_true(granted->max_recv_sge >= options.max_recv_sge);
			assert_true(granted->max_inline >= options.max_inline);
			assert_true(granted->sq_entries >= granted->max_send_wr);
			assert_true(granted->rq_entries >= granted->max_recv_wr);
			assert_int_equal(granted->sq_stride,
					 simhca_send_stride(granted->max_send_sge,
							    granted->max_inline));
			assert_int_equal(granted->rq_stride,
					 simhca_recv_stride(granted->max_recv_sge));
			client_gone(client);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(rings_of_one),
		ON_ETHERNET(rings_of_two_and_three),
		ON_ETHERNET(rings_of_odd_sizes),
		ON_ETHERNET(rings_of_the_largest_size),
		ON_ETHERNET(cqe_sequence_counts_across_laps),
		ON_ETHERNET(a_completion_retires_the_unsignaled_before_it),
		ON_ETHERNET(sq_sig_all_completes_every_request),
		ON_ETHERNET(one_doorbell_for_many_requests),
		ON_ETHERNET(counters_wrap_at_32_bits),
		ON_ETHERNET(a_resized_cq_has_no_phantom_at_the_wrap),
		ON_ETHERNET(srq_counters_wrap_at_32_bits),
		ON_ETHERNET(strides_and_entries_are_those_of_the_contract),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
