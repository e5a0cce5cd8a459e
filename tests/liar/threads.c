/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A thread goes on lying while engine threads work on its QPs. */
#include <time.h>

#include "dma/dma.h"
#include "liar.h"

#define MOST_WAIT 20.0 /* seconds until an honest message has come, on a busy machine */

static struct {
	struct scene *scene;
	uint64_t seed;
	atomic_bool stop;
	_Atomic uint64_t lies;
} liar;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* One that a program tells in a step keeps its own commands waiting, so not on the fast path. */
static bool may_notify(const struct lie *lie)
{
	for (unsigned int i = 0; i < lie->pokes; i++) {
		const struct field *field = &liar.scene->field[lie->poke[i].field];

		if (liar.scene->kind->fast_path &&
		    (field->kind == HOLDER || strstr(field->name, "guard")))
			return false;
	}
	return true;
}

static void *lie_on(void *arg)
{
	(void)arg;
	for (uint64_t n = 0; !atomic_load(&liar.stop); n++) {
		struct lie lie;

		lie_make(liar.scene, liar.seed, n, &lie);
		if (!may_notify(&lie))
			continue;
		lie_tell(liar.scene, &lie);
		atomic_fetch_add(&liar.lies, 1);
		if (n % 4 == 0)
			liar.scene->rings->ring(liar.scene);
		if (n % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* As far as it comes: each step may fail by what is said meanwhile. */
void revive(struct scene *scene, unsigned int number)
{
	struct side *side = number ? &scene->bad->b : &scene->bad->a;

	static const enum ibv_qp_state up[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct qp *qp = side->qp;
	uint32_t mask[] = { init_mask(qp->type), rtr_mask(qp->type), rts_mask(qp->type) };
	struct simhca_qp_attr attr = qp_attr_to(qp, 0, side->peer->qp->qpn, &side->options);

	if (qp_move(qp, IBV_QPS_RESET))
		caught("the QP cannot be reset");
	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++) {
		attr.qp_state = up[i];
		qp_modify(qp, mask[i], attr);
	}
}

static void take(const struct scene *scene, struct cq *cq)
{
	const double until = now() + MOST_WAIT;
	struct simhca_cqe cqe;

	while (!cq_poll(cq, &cqe)) {
		if (now() > until)
			caught("an honest message does not come");
		sched_yield();
	}
	if (cqe.wr_id != scene->message || cqe.status)
		caught("an honest message ends with status %u", cqe.status);
}

void send_honest(struct scene *scene)
{
	const uint32_t length = 64 + (uint32_t)(scene->message % 8000);
	struct pair *good = scene->good;

	fill(good->a.mr->addr, length, (uint32_t)scene->message);
	recv_into(&good->b, scene->message, 16384, length);
	send_from(&good->a, scene->message, 0, length);
	take(scene, good->a.send_cq);
	take(scene, good->b.recv_cq);
	if (!filled(good->b.mr->addr + 16384, length, (uint32_t)scene->message))
		caught("an honest message has other bytes");
}

uint64_t lie_while_engines_run(struct scene *scene, uint64_t seed, double seconds)
{
	static const enum act acts[] = { ACT_POST,   ACT_RECV, ACT_POST,
					 ACT_ANSWER, ACT_MOVE, ACT_QUERY };
	const double until = now() + seconds;
	pthread_t thread;

	liar.scene = scene;
	liar.seed = seed;
	atomic_store(&liar.stop, false);
	atomic_store(&liar.lies, 0);
	for (unsigned int i = 0; i < 2; i++) /* both engines copy to and from it */
		scene->mr[i]->client->mm->kind = SIMHCA_MM_PROCESS_VM;
	for (unsigned int i = 0; i < 2; i++)
		scene->rings->revive(scene, i);
	fields_list(scene);
	assert_int_equal(0, pthread_create(&thread, NULL, lie_on, NULL));
	for (unsigned int n = 0; now() < until; n++) {
		if (n % 8 == 7)
			for (unsigned int i = 0; i < 2; i++)
				scene->rings->revive(scene, i);
		scene_act(scene, acts[n % ARRAY_SIZE(acts)]);
		scene->rings->send_honest(scene);
		scene->message++;
	}
	atomic_store(&liar.stop, true);
	pthread_join(thread, NULL);
	return liar.lies;
}
