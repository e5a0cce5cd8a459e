/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whoever has a turn ends before any one of the stores that it makes, and the next one goes on:
 * what comes of it is what comes of a run that was not stopped. Each store has a number
 * (libsimhca/queue/store.h); a child does the work, and ends at that number. It shares with us
 * what a client and a device share: context memory, device memory, and the buffers.
 *
 * Not here: atomics, which are not repeatable, and an SRQ's WQE, which is lost with who took it.
 * Both stay the device's own.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/context.h"
#include "engine/engine.h"
#include "harness.h"
#include "proto/qp.h"
#include "queue/store.h"

#define KILLED 77
#define BUFFER (1u << 20)
#define MOST_STORES 2000

static unsigned int stores, stop_at; /* 0: not at all */

void simhca_store(void)
{
	if (stop_at && ++stores == stop_at)
		_exit(KILLED);
}

static void *shared(struct world *world, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)world;
	assert_true(memory != MAP_FAILED);
	return memory;
}

/* ------------------------------------------------------------------------------- repair */

static void repair_cq(struct cq *cq, uint32_t committed)
{
	const struct simhca_cq_view view = {
		.mem = cq->state, .ring = cq->ring, .entries = cq->entries, .cqe = cq->cqe
	};

	simhca_cqes_recover(&view, SIMHCA_OWNER_DEVICE, committed);
}

static void repair(struct side *side)
{
	atomic_store(&side->qp->state->req_owner.holder, 0);
	atomic_store(&side->qp->state->resp_owner.holder, 0);
	repair_cq(side->send_cq, requester_of(side->qp)->cqe_index);
	repair_cq(side->recv_cq, responder_of(side->qp)->cqe_index);
}

/* Has the engine look at it; a doorbell could be heard by the child alone. */
static void schedule(struct side *side)
{
	struct simhca_qp *qp =
		simhca_object(side->client->context, SIMHCA_OBJ_QP, side->qp->handle, NULL);

	simhca_engine_schedule(qp->context->engine, &qp->task);
}

/* ------------------------------------------------------------------------------ the work */

struct work {
	const char *name;
	enum ibv_qp_type type;
	uint8_t opcode;
	uint32_t count, length;
	bool receives;
	bool inlined;
};

static const struct work works[] = {
	{ "a write", IBV_QPT_RC, SIMHCA_WR_RDMA_WRITE, 1, 100, false, false },
	{ "three writes", IBV_QPT_RC, SIMHCA_WR_RDMA_WRITE, 3, 100, false, false },
	{ "a write of more than a slice", IBV_QPT_RC, SIMHCA_WR_RDMA_WRITE, 1, 600000, false,
	  false },
	{ "a write with immediate data", IBV_QPT_RC, SIMHCA_WR_RDMA_WRITE_WITH_IMM, 1, 5000, true,
	  false },
	{ "a send", IBV_QPT_RC, SIMHCA_WR_SEND, 1, 100, true, false },
	{ "three sends", IBV_QPT_RC, SIMHCA_WR_SEND, 3, 100, true, false },
	{ "inline data", IBV_QPT_RC, SIMHCA_WR_SEND, 1, 64, true, true },
	{ "a send of more than a slice", IBV_QPT_RC, SIMHCA_WR_SEND, 1, 600000, true, false },
	{ "a read", IBV_QPT_RC, SIMHCA_WR_RDMA_READ, 1, 100, false, false },
	{ "two reads of more than a slice", IBV_QPT_RC, SIMHCA_WR_RDMA_READ, 2, 300000, false,
	  false },
};

static void post_work(struct pair *pair, const struct work *work, uint32_t tag)
{
	for (uint32_t i = 0; i < work->count; i++) {
		uint32_t at = i * work->length;
		struct simhca_sge from = sge(pair->a.mr, at, work->length);
		struct wr wr = {
			.id = tag + i,
			.opcode = work->opcode,
			.flags = SIMHCA_WQE_SIGNALED,
			.remote_addr = pair->b.mr->iova + at,
			.rkey = pair->b.mr->rkey,
		};

		if (work->inlined) {
			wr.flags |= SIMHCA_WQE_INLINE;
			wr.inline_data = pair->a.mr->addr + at;
			wr.inline_len = work->length;
		} else {
			wr.sges = &from;
			wr.num_sge = 1;
		}
		if (work->receives)
			recv_into(&pair->b, tag + i, at, work->length);
		qp_put(pair->a.qp, &wr);
	}
}

/* The next completion that is not void. */
static bool poll_cq(struct cq *cq, struct simhca_cqe *cqe)
{
	while (cq_poll(cq, cqe))
		if (cqe->qpn != SIMHCA_VOID_QPN)
			return true;
	return false;
}

static void check_work(struct pair *pair, const struct work *work, uint32_t tag)
{
	bool read = work->opcode == SIMHCA_WR_RDMA_READ;
	struct simhca_cqe cqe;

	for (uint32_t i = 0; i < work->count; i++) {
		assert_true(poll_cq(pair->a.send_cq, &cqe));
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_int_equal(cqe.wr_id, tag + i);
		assert_int_equal(cqe.wqe_index, requester_of(pair->a.qp)->oldest - work->count + i);
		if (!work->receives)
			continue;
		assert_true(poll_cq(pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_int_equal(cqe.wr_id, tag + i);
		assert_int_equal(cqe.byte_len, work->length);
	}
	assert_false(poll_cq(pair->a.send_cq, &cqe));
	assert_false(poll_cq(pair->b.recv_cq, &cqe));
	assert_true(
		filled((read ? pair->a.mr : pair->b.mr)->addr, work->count * work->length, tag));
}

/* What is left of the work in the QPs: all but what only names reserved CQEs, of which some may be void.
 */
struct progress {
	uint32_t psn, oldest, count, epsn, msn, rq_ci, have_recv, in_message;
};

static struct progress progress_of(const struct pair *pair)
{
	const struct simhca_requester *req = requester_of(pair->a.qp);
	const struct simhca_responder *resp = responder_of(pair->b.qp);

	return (struct progress){ req->psn_next, req->oldest, req->count,      resp->epsn,
				  resp->msn,	 resp->rq_ci, resp->have_recv, resp->in_message };
}

/* Does the work in a child, which ends at a store; true: it came to that store. */
static bool work_until(struct world *world, struct side *side, unsigned int store)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		stop_at = store;
		schedule(side);
		run_until_idle(world);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED);
	return WEXITSTATUS(status) == KILLED;
}

static struct pair *make(struct world *world, const struct work *work)
{
	struct options options = default_options(work->type);
	struct pair *pair = pair_new(world, &options);
	const uint32_t all =
		SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ;

	for (int i = 0; i < 2; i++) {
		struct side *side = i ? &pair->b : &pair->a;
		void *buffer = shared(world, BUFFER);

		side->mr = mr_over(side->client, side->client->pd, buffer, BUFFER,
				   (uintptr_t)buffer, all);
	}
	return pair;
}

static void the_next_one_goes_on(void **state)
{
	struct world *world = *state;

	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		const struct work *work = &works[w];
		uint32_t bytes = work->count * work->length;
		bool read = work->opcode == SIMHCA_WR_RDMA_READ;
		struct pair *pair = make(world, work), *whole = make(world, work);
		unsigned int store;
		bool killed = true;

		for (store = 1; killed; store += STORE_STEP) {
			uint32_t tag = store * 16;
			struct progress stopped, unstopped;

			assert_true(store < MOST_STORES);
			for (int i = 0; i < 2; i++) {
				struct pair *one = i ? whole : pair;

				fill((read ? one->b.mr : one->a.mr)->addr, bytes, tag);
				post_work(one, work, tag);
				if (!i)
					killed = work_until(world, &one->a, store);
				if (!i && killed) {
					repair(&pair->a);
					repair(&pair->b);
				}
				schedule(&one->a);
				run_until_idle(world);
			}
			check_work(pair, work, tag);
			check_work(whole, work, tag);
			stopped = progress_of(pair);
			unstopped = progress_of(whole);
			assert_memory_equal(&stopped, &unstopped, sizeof(stopped));
		}
		print_message("%s: about %u stores\n", work->name, store - 1 - STORE_STEP);
		assert_true(store > 30);
		munmap(pair->a.mr->addr, BUFFER);
		munmap(pair->b.mr->addr, BUFFER);
		munmap(whole->a.mr->addr, BUFFER);
		munmap(whole->b.mr->addr, BUFFER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(the_next_one_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
