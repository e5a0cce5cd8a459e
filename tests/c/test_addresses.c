/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whom an address and a QP number mean, where several devices have the same address. */
#include "harness.h"

static void share_gids(struct world *world)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = {
		{ .type = SIMHCA_GID_ROCE_V2, .ifindex = 1 },
		{ .type = SIMHCA_GID_ROCE_V2, .ifindex = 1 },
	};

	for (unsigned int i = 0; i < 2; i++) {
		gids[0].gid = device_gid(i, 0);
		gids[1].gid = device_gid(!i, 0);
		simhca_device_set_gids(world->device[i], gids);
	}
}

static void works_both_ways(struct pair *pair)
{
	struct pair back = { .a = pair->b, .b = pair->a };

	back.a.peer = &back.b;
	back.b.peer = &back.a;
	check_works(pair);
	check_works(&back);
}

/* From one to the other, and within each of them. */
static void connections_by_an_address_of_both(void **state)
{
	share_gids(*state);
	for (unsigned int i = 0; i < 2; i++) {
		struct options options = default_options(i ? IBV_QPT_UC : IBV_QPT_RC);

		works_both_ways(pair_new(*state, &options));
		options.same_device = true;
		works_both_ways(pair_new(*state, &options));
	}
}

/* So no two QPs that have an address in common have a number in common, early or late. */
static void numbers_are_of_one_qp(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	uint32_t qpns[2][50];

	for (int i = 0; i < 50; i++) {
		struct pair *pair = pair_unconnected(*state, &options);

		qpns[0][i] = pair->a.qp->qpn;
		qpns[1][i] = pair->b.qp->qpn;
		for (int n = 0; n <= i; n++) {
			assert_int_not_equal(qpns[0][n], qpns[1][i]);
			assert_int_not_equal(qpns[1][n], qpns[0][i]);
		}
	}
}

/* A connected QP drops what comes from another address than its peer's, or to another of its own. */
static void from_another_source(void **state)
{
	struct options options = default_options(IBV_QPT_RC), other = options;
	struct pair *pair;

	options.timeout = 8;
	options.retry_cnt = 1;
	other.gid_index = 1;
	for (int who = 0; who < 2; who++) {
		pair = pair_unconnected(*state, &options);
		qp_connect(pair->a.qp, 1, pair->b.qp->qpn, who ? &other : &options);
		qp_connect(pair->b.qp, 0, pair->a.qp->qpn, who ? &options : &other);
		recv_into(&pair->b, 1, 0, 100);
		send_from(&pair->a, 1, 0, 100);
		for (int i = 0; i < 10; i++)
			advance(*state, SEC);
		expect_why(pair->a.send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
		expect_none(pair->b.recv_cq);
		assert_int_equal(logged(*state, "another GID than this QP sends from"), who + 1);
	}
}

/* It is heard as soon as it is connected rightly. */
static void connected_anew(void **state)
{
	struct options options = default_options(IBV_QPT_UC), other = options;
	struct pair *pair = pair_unconnected(*state, &options);

	other.gid_index = 1;
	qp_connect(pair->a.qp, 1, pair->b.qp->qpn, &options);
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &other);
	send_from(&pair->a, 1, 0, 100);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_RESET));
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &options);
	check_works(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(connections_by_an_address_of_both),
		ON_ETHERNET(numbers_are_of_one_qp),
		ON_ETHERNET(from_another_source),
		ON_ETHERNET(connected_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
