/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fast path of QPs whose queues lie beside others, as the device has no segments more for single
 * queues: within one process as of any other QP, for another process none.
 */
#include <unistd.h>

#include "core/context.h"
#include "fastpath_scene.h"
#include "dma/dma.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)

static int setup(void **state)
{
	const struct world_config config = {
		.device = { .fast_path = true, .slot_data = true, .own_segments = 1 }
	};
	struct world *world = world_new(&config);

	/* Another program has the one that there is. */
	*state = world;
	return !simhca_context_own_segment(client_new(world, 0)->context, 4096);
}

static bool lies_beside(const struct simhca_mem_ref *ref)
{
	return ref->segment < SIMHCA_MAX_SEGMENTS;
}

static void put_send(struct pair *pair)
{
	struct simhca_sge from = sge(pair->a.mr, 0, LENGTH);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = &from,
					 .num_sge = 1,
					 .av = av_to(pair->a.world, 0, pair->a.options.gid_index),
					 .dest_qpn = pair->b.qp->qpn,
					 .qkey = pair->b.options.qkey });
}

static struct pair *pair_of(struct world *world, enum ibv_qp_type type, bool srq)
{
	struct options options = fastpath_options();
	struct pair *pair;

	options.type = type;
	if (srq)
		options.srq_wr = 128;
	pair = fastpath_pair(world, &options);
	run_until_idle(world);
	assert_true(lies_beside(&pair->a.qp->granted.state));
	assert_true(lies_beside(&pair->b.qp->granted.state));
	return pair;
}

static void carried_within_a_process(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		bool srq;
	} of[] = { { IBV_QPT_RC, false },
		   { IBV_QPT_UC, false },
		   { IBV_QPT_RC, true },
		   { IBV_QPT_UD, false },
		   { IBV_QPT_UD, true } };

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct pair *pair = pair_of(*state, of[i].type, of[i].srq);
		struct simhca_step step = fastpath_attach(&pair->a);

		recv_into(&pair->b, 7, 0, BUFFER);
		put_send(pair);
		assert_true(fastpath_run(&step));
		fastpath_completes(pair->a.send_cq);
		fastpath_completes(pair->b.recv_cq);
		assert_int_equal(step.fastpath->messages, 1);
		fastpath_detach(&step);
	}
}

static void not_for_another_process(void **state)
{
	struct pair *pair = pair_of(*state, IBV_QPT_RC, false);
	struct simhca_attach_peer_reply reply;
	struct simhca_mm *mm = pair->a.client->mm;
	const pid_t pid = mm->pid;

	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	mm->pid = getppid();
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	mm->pid = pid;
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
}

/* The ring of such a CQ comes to lie elsewhere. */
static void not_with_a_cq_that_was_resized(void **state)
{
	struct pair *pair = pair_of(*state, IBV_QPT_RC, false);
	struct simhca_attach_peer_reply reply;

	assert_int_equal(cq_resize(pair->b.recv_cq, 500), 0);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
}

static const struct simhca_qp_mem *gone;
static bool touched;

static void look_at_it(void)
{
	touched |= atomic_load(&gone->resp_owner.holder) != 0;
}

/* Where the peer was another queue may lie: nothing of it changes, not even for a moment. */
static void what_has_gone_is_not_touched(void **state)
{
	struct pair *pair = pair_of(*state, IBV_QPT_RC, false);
	struct simhca_step step = fastpath_attach(&pair->a);

	gone = pair->b.qp->state;
	assert_int_equal(
		patiently(simhca_destroy_qp(pair->b.client->context, pair->b.qp->handle, NULL)), 0);
	put_send(pair);
	touched = false;
	fastpath_at_store = look_at_it;
	assert_false(fastpath_run(&step));
	fastpath_at_store = NULL;
	assert_false(touched);
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(carried_within_a_process, setup, teardown),
		cmocka_unit_test_setup_teardown(not_for_another_process, setup, teardown),
		cmocka_unit_test_setup_teardown(not_with_a_cq_that_was_resized, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_gone_is_not_touched, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
