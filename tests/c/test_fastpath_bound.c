/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who is attached to a QP can write how far its requester is, and takes it back each time that the
 * program itself has got further. A call that posts carries no more messages for that than the
 * queue holds.
 */
#include "fastpath_scene.h"

#define LENGTH 8u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)
#define POSTED 100u /* more than one turn carries */
#define MOST 1000u  /* where this test ends it */

static struct qp *victim;
static uint64_t most_carried;
static struct simhca_fastpath *carrier;
static unsigned int taken_back;

/* Both copies, for one of them counts next. */
static void take_back(void)
{
	uint32_t pi = atomic_load(&victim->state->sq_pi);

	most_carried = atomic_load(&carrier->messages);
	for (int i = 0; i < 2 && most_carried < MOST; i++)
		if (victim->state->req[i].oldest != pi - POSTED) {
			victim->state->req[i].oldest = pi - POSTED;
			taken_back++;
		}
}

static void one_call_ends(void **state, enum ibv_qp_type type)
{
	struct options options = fastpath_options();
	struct simhca_sge from;
	struct simhca_step step;
	struct pair *pair;

	options.type = type;
	options.max_recv_wr = options.cqe = MOST;
	pair = fastpath_pair(*state, &options);
	run_until_idle(*state);
	step = fastpath_attach(&pair->a);
	for (uint64_t i = 0; i < MOST; i++)
		recv_into(&pair->b, i, 0, BUFFER);
	from = sge(pair->a.mr, 0, LENGTH);
	for (uint32_t i = 0; i < POSTED; i++)
		qp_put(pair->a.qp,
		       &(struct wr){ .opcode = SIMHCA_WR_SEND,
				     .sges = &from,
				     .num_sge = 1,
				     .av = av_to(pair->a.world, 0, pair->a.options.gid_index),
				     .dest_qpn = pair->b.qp->qpn,
				     .qkey = pair->b.options.qkey });
	victim = pair->a.qp;
	carrier = step.fastpath;
	taken_back = 0;
	fastpath_at_store = take_back;
	assert_false(fastpath_run(&step));
	fastpath_at_store = NULL;
	assert_true(taken_back > 1);
	assert_in_range(most_carried, POSTED + 1, 2 * pair->a.qp->granted.sq_entries + 128);
	fastpath_detach(&step);
}

static void of_a_connected_qp(void **state)
{
	one_call_ends(state, IBV_QPT_RC);
}

static void of_datagrams(void **state)
{
	one_call_ends(state, IBV_QPT_UD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_a_connected_qp, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(of_datagrams, fastpath_setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
