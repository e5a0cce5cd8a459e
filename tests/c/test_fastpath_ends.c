/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What programs that ended in a step have left at a QP that goes itself (proto/attach.h). */

#include "fastpath_scene.h"
#include "core/context.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)

static void put_send(struct side *side)
{
	struct simhca_sge from = sge(side->mr, 0, LENGTH);

	qp_put(side->qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
				       .flags = SIMHCA_WQE_SIGNALED,
				       .sges = &from,
				       .num_sge = 1,
				       .av = av_to(side->world, 0, side->options.gid_index),
				       .dest_qpn = side->peer->qp->qpn,
				       .qkey = side->peer->options.qkey });
}

/* Another program, which sends to a QP that has b's client and receive CQ. */
static struct pair *beside(struct pair *pair)
{
	struct pair *other = world_alloc(pair->a.world, sizeof(*other));
	const struct options *options = &pair->b.options;

	side_make(&other->a, client_new(pair->a.world, 0), options, NULL);
	other->b = pair->b;
	other->b.qp = qp_new(pair->b.client, options, pair->b.send_cq, pair->b.recv_cq, NULL);
	other->a.peer = &other->b;
	other->b.peer = &other->a;
	pair_connect(other);
	return other;
}

static int gone(struct qp *qp)
{
	return patiently(simhca_destroy_qp(qp->client->context, qp->handle, NULL));
}

static int reset(struct qp *qp)
{
	return qp_move(qp, IBV_QPS_RESET);
}

/* The device knows that the program has ended, and has done nothing about it. */
static void has_ended(struct client *client, bool ended)
{
	atomic_store(&client->context->dead, ended);
}

/* What others complete in that CQ is not behind a CQE that was reserved and that nobody publishes. */
static void the_cq_goes_on(void **state, enum ibv_qp_type type, int (*end)(struct qp *qp))
{
	bool killed = true, seen;
	unsigned int store;

	for (store = 1; killed; store += STORE_STEP) {
		struct simhca_step step;
		struct pair *pair, *other;
		struct simhca_cqe cqe;

		assert_true(store < MOST_STORES);
		fastpath_setup(state);
		pair = fastpath_pair_of(*state, type);
		other = beside(pair);
		step = fastpath_attach(&pair->a);
		recv_into(&pair->b, 1, 0, BUFFER);
		recv_into(&other->b, 2, BUFFER, BUFFER);
		put_send(&pair->a);
		killed = fastpath_killed_at(&step, store);
		has_ended(pair->a.client, true);
		assert_int_equal(end(pair->b.qp), 0);
		send_from(&other->a, 3, 0, LENGTH);
		do {
			seen = cq_wait(pair->b.recv_cq, &cqe);
		} while (seen && cqe.qpn != other->b.qp->qpn);
		assert_true(seen);
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		has_ended(pair->a.client, false);
		client_gone(pair->a.client);
		fastpath_detach(&step);
		teardown(state);
	}
	assert_true(store > 20);
}

static void one_of_rc_is_destroyed(void **state)
{
	the_cq_goes_on(state, IBV_QPT_RC, gone);
}

static void one_of_ud_is_destroyed(void **state)
{
	the_cq_goes_on(state, IBV_QPT_UD, gone);
}

static void one_of_ud_is_reset(void **state)
{
	the_cq_goes_on(state, IBV_QPT_UD, reset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_rc_is_destroyed),
		cmocka_unit_test(one_of_ud_is_destroyed),
		cmocka_unit_test(one_of_ud_is_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
