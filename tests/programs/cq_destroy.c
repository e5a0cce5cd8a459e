/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* ibv_destroy_cq() of a CQ whose QPs another thread makes and destroys. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "dv.h"

#define CONTEXTS 2
#define ROUNDS 100
#define QPS 4

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	atomic_int made;
	pthread_t qps, cqs;
};

/* The CQ cannot go while one QP is left: further ones may be made meanwhile. */
static void *make_and_destroy_qps(void *arg)
{
	struct side *side = arg;
	struct ibv_qp *qp[QPS];

	for (int i = 0; i < QPS; i++) {
		qp[i] = make_qp(side->pd, side->cq, IBV_QPT_RC);
		atomic_fetch_add(&side->made, 1);
	}
	for (int i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	return NULL;
}

static void *destroy_cqs(void *arg)
{
	struct side *side = arg;
	double end = now() + 60;
	int err;

	for (int i = 0; i < ROUNDS; i++) {
		side->cq = ibv_create_cq(side->pd->context, 64, NULL, NULL, 0);
		CHECK(side->cq);
		side->made = 0;
		CHECK(!pthread_create(&side->qps, NULL, make_and_destroy_qps, side));
		while (!side->made)
			sched_yield();
		while ((err = ibv_destroy_cq(side->cq)) == EBUSY) {
			CHECK(now() < end);
			sched_yield();
		}
		CHECK(!err && side->made == QPS);
		CHECK(!pthread_join(side->qps, NULL));
	}
	return NULL;
}

/* It is refused until the last QP has gone, and then it succeeds: in two contexts at a time. */
TEST(while_qps_come_and_go)
{
	struct side side[CONTEXTS] = {};

	for (int i = 0; i < CONTEXTS; i++) {
		side[i].pd = ibv_alloc_pd(open_device());
		CHECK(side[i].pd);
		CHECK(!pthread_create(&side[i].cqs, NULL, destroy_cqs, &side[i]));
	}
	for (int i = 0; i < CONTEXTS; i++)
		CHECK(!pthread_join(side[i].cqs, NULL));
}

/* Nor does it wait for a poll that its own caller has begun. */
TEST(while_polling)
{
	struct pair pair = new_pair();
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(pair.client.context, &cq_attr);
	struct end end = pair.client;

	begin_to_poll_a_write(&end, cq_ex);
	CHECK(cq_ex->status == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_cq(end.cq) == EBUSY);
	ibv_end_poll(cq_ex);
	CHECK(!ibv_destroy_qp(end.qp));
	CHECK(!ibv_destroy_cq(end.cq));
}
