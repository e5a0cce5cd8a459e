/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Management datagrams reach the port that has the address, and no other. */
#include "harness.h"

struct inbox {
	unsigned int count;
	struct simhca_gmp last;
};

static const char mad[256] = "a datagram";

static void on_gmp(void *arg, const struct simhca_gmp *gmp)
{
	struct inbox *inbox = arg;

	inbox->count++;
	inbox->last = *gmp;
}

static void open_both(struct world *world, struct inbox inbox[2])
{
	memset(inbox, 0, 2 * sizeof(*inbox));
	for (int i = 0; i < 2; i++)
		simhca_device_set_gmp(world->device[i], on_gmp, &inbox[i]);
}

static void to_each_port(void **state)
{
	struct world *world = *state;
	struct inbox inbox[2];

	open_both(world, inbox);
	for (unsigned int to = 0; to < 2; to++) {
		struct simhca_av av = av_to(world, to, 0);

		assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
		assert_int_equal(inbox[to].count, 1);
		assert_ptr_equal(inbox[to].last.mad, mad);
	}
	assert_int_equal(inbox[0].count, 1);
}

/* Devices on one interface have its addresses in common: each of them means itself by those. */
static void its_own_address_comes_back(void **state)
{
	struct world *world = *state;
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = {
		{ .gid = device_gid(0, 0), .type = SIMHCA_GID_ROCE_V2, .ifindex = 1 }
	};
	struct inbox inbox[2];
	struct simhca_av av = av_to(world, 0, 0);

	for (int i = 0; i < 2; i++)
		simhca_device_set_gids(world->device[i], gids);
	open_both(world, inbox);
	for (int i = 0; i < 2; i++) {
		assert_true(simhca_device_send_gmp(world->device[i], &av, mad));
		assert_int_equal(inbox[i].count, 1);
	}
	assert_int_equal(inbox[0].count, 1);
}

static void says_who_sent_it(void **state)
{
	struct world *world = *state;
	struct simhca_av av = av_to(world, 1, 0);
	const struct simhca_devmem *from = simhca_device_memory(world->device[0]);
	struct inbox inbox[2];

	open_both(world, inbox);
	assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
	assert_int_equal(inbox[1].last.slid, from->port.lid);
	if (av.is_global) {
		assert_memory_equal(&inbox[1].last.dgid, &av.dgid, sizeof(av.dgid));
		assert_memory_equal(&inbox[1].last.sgid, &from->gids[av.sgid_index].gid,
				    sizeof(av.dgid));
	}
}

static void nobody_there(void **state)
{
	struct world *world = *state;
	struct simhca_av av = av_to(world, 1, 0), nowhere = av;
	struct inbox inbox[2];

	open_both(world, inbox);
	nowhere.dgid.raw[15] ^= 0x55;
	nowhere.dlid ^= 0x55;
	assert_false(simhca_device_send_gmp(world->device[0], &nowhere, mad));
	simhca_device_set_port(world->device[1], false);
	assert_false(simhca_device_send_gmp(world->device[0], &av, mad));
	simhca_device_set_port(world->device[1], true);
	simhca_device_set_port(world->device[0], false);
	assert_false(simhca_device_send_gmp(world->device[0], &av, mad));
	simhca_device_set_port(world->device[0], true);
	simhca_device_set_gmp(world->device[1], NULL, NULL);
	assert_false(simhca_device_send_gmp(world->device[0], &av, mad));
	assert_int_equal(inbox[0].count + inbox[1].count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(to_each_port),
		ON_INFINIBAND(to_each_port),
		ON_ETHERNET(its_own_address_comes_back),
		ON_ETHERNET(says_who_sent_it),
		ON_INFINIBAND(says_who_sent_it),
		ON_ETHERNET(nobody_there),
		ON_INFINIBAND(nobody_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
