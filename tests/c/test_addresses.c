/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whom an address and a QP number mean, where several devices have the same address. */
#include "harness.h"

static void share_gids(struct world *world)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = {
		{ .gid = device_gid(0, 0), .type = SIMHCA_GID_ROCE_V2, .ifindex = 1 },
		{ .gid = device_gid(1, 0), .type = SIMHCA_GID_ROCE_V2, .ifindex = 1 },
	};

	for (int i = 0; i < 2; i++)
		simhca_device_set_gids(world->device[i], gids);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(connections_by_an_address_of_both),
		ON_ETHERNET(numbers_are_of_one_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
