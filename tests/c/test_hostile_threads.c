/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A client that writes into its context memory all the time, while engine threads work on its QPs.
 * Its own queues may do what they like; the model survives, and others are served.
 */
#include "dma/dma.h"
#include "harness.h"

#define MESSAGES 200

struct scribbler {
	struct pair *pair;
	uint64_t seed;
	atomic_bool stop;
	pthread_t thread;
};

/*
 * Another process would do this, so ThreadSanitizer does not look here: it is to tell of the
 * model's threads among themselves.
 */
__attribute__((no_sanitize("thread"))) static void put(uint8_t *base, uint64_t size, uint64_t *seed)
{
	static const uint64_t nasty[] = { 0, 1, 2, 63, 64, 65, 0x7fffffff, 0xffffffff, UINT64_MAX };
	volatile uint64_t *word = (volatile uint64_t *)base + test_random(seed) % (size / 8);

	switch (test_random(seed) % 3) {
	case 0:
		*word ^= 1ull << test_random(seed) % 64;
		break;
	case 1:
		*word = nasty[test_random(seed) % ARRAY_SIZE(nasty)];
		break;
	default:
		*word += test_random(seed) % 3 - 1;
	}
}

static void scribble(struct scribbler *scribbler)
{
	struct side *side =
		test_random(&scribbler->seed) % 2 ? &scribbler->pair->a : &scribbler->pair->b;
	struct qp *qp = side->qp;
	struct cq *cq = test_random(&scribbler->seed) % 2 ? side->send_cq : side->recv_cq;

	switch (test_random(&scribbler->seed) % 8) {
	case 0:
		put(qp->sq, (uint64_t)qp->granted.sq_entries * qp->granted.sq_stride,
		    &scribbler->seed);
		break;
	case 1:
		put(qp->rq, (uint64_t)qp->granted.rq_entries * qp->granted.rq_stride,
		    &scribbler->seed);
		break;
	case 2:
		put((uint8_t *)cq->state, sizeof(*cq->state), &scribbler->seed);
		break;
	default: /* how far the QP is, and whose turn */
		put((uint8_t *)qp->state, sizeof(*qp->state), &scribbler->seed);
		if (test_random(&scribbler->seed) % 4 == 0)
			others_had_turns(qp);
	}
}

static void *scribble_thread(void *arg)
{
	struct scribbler *scribbler = arg;

	for (uint32_t n = 0; !atomic_load(&scribbler->stop); n++) {
		scribble(scribbler);
		if (n % 16 == 0) {
			qp_ring(scribbler->pair->a.qp);
			qp_ring(scribbler->pair->b.qp);
		}
		if (n % 256 == 0)
			sched_yield();
	}
	return NULL;
}

/* Something for the engines to do. */
__attribute__((no_sanitize("thread"))) static void post_something(struct side *side, uint64_t *seed)
{
	struct qp *qp = side->qp;
	uint32_t pi = atomic_load(&qp->state->sq_pi);
	volatile struct simhca_send_wqe *wqe =
		(void *)(qp->sq +
			 (size_t)(pi & (qp->granted.sq_entries - 1)) * qp->granted.sq_stride);
	volatile struct simhca_sge *to = (volatile void *)(wqe + 1);

	wqe->wr_id = pi;
	wqe->opcode = (uint8_t)(test_random(seed) % 7);
	wqe->flags = SIMHCA_WQE_SIGNALED;
	wqe->num_sge = 1;
	wqe->rdma.remote_addr = side->peer->mr->iova;
	wqe->rdma.rkey = side->peer->mr->rkey;
	to->addr = side->mr->iova;
	to->lkey = side->mr->lkey;
	to->length = wqe->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP ||
				     wqe->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD
			     ? 8
			     : test_random(seed) % 5000;
	atomic_store(&qp->state->sq_pi, pi + 1);
	pi = atomic_load(&qp->state->rq_pi);
	to = (volatile void *)(qp->rq +
			       (size_t)(pi & (qp->granted.rq_entries - 1)) * qp->granted.rq_stride +
			       sizeof(struct simhca_recv_wqe));
	*(volatile uint32_t *)((volatile uint8_t *)to - 8) = 1; /* num_sge */
	to->addr = side->mr->iova;
	to->lkey = side->mr->lkey;
	to->length = 4096;
	atomic_store(&qp->state->rq_pi, pi + 1);
	qp_ring(qp);
}

/* As far as it gets: what is scribbled may bring it down at each step. */
static void revive(struct side *side)
{
	static const enum ibv_qp_state up[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct qp *qp = side->qp;
	uint32_t mask[] = { init_mask(qp->type), rtr_mask(qp->type), rts_mask(qp->type) };
	struct simhca_qp_attr attr = qp_attr_to(qp, side->peer->client->device_index,
						side->peer->qp->qpn, &side->options);

	assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++) {
		attr.qp_state = up[i];
		qp_modify(qp, mask[i], attr);
	}
}

static void scribbling_while_engines_run(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct options options = default_options(IBV_QPT_RC);
	struct pair *good = pair_new(*state, &options);
	const char *given = getenv("SIMHCA_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 20261122;

	print_message("SIMHCA_TEST_SEED=%llu\n", (unsigned long long)seed);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct scribbler scribbler = { .seed = seed + k };

		options = default_options(kinds[k]);
		scribbler.pair = pair_new(*state, &options);
		/* Both engines copy to and from it, as the client tells them. */
		scribbler.pair->a.client->mm->kind = SIMHCA_MM_PROCESS_VM;
		scribbler.pair->b.client->mm->kind = SIMHCA_MM_PROCESS_VM;
		assert_int_equal(0, pthread_create(&scribbler.thread, NULL, scribble_thread,
						   &scribbler));
		for (uint32_t n = 0; n < MESSAGES; n++) {
			uint32_t length = 1 + test_random(&seed) % 5000;

			post_something(&scribbler.pair->a, &seed);
			post_something(&scribbler.pair->b, &seed);
			fill(good->a.mr->addr, length, n);
			recv_into(&good->b, n, 8192, length);
			send_from(&good->a, n, 0, length);
			expect(good->a.send_cq, n, SUCCESS);
			expect(good->b.recv_cq, n, SUCCESS);
			assert_true(filled(good->b.mr->addr + 8192, length, n));
			if (n % 4 == 3) {
				revive(&scribbler.pair->a);
				revive(&scribbler.pair->b);
			}
		}
		atomic_store(&scribbler.stop, true);
		pthread_join(scribbler.thread, NULL);
		client_gone(scribbler.pair->a.client);
		client_gone(scribbler.pair->b.client);
	}
	check_works(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TWO_THREADS(scribbling_while_engines_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
