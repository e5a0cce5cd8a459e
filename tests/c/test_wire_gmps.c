/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Management datagrams, from QP 1 to QP 1. */
#include "packet/mad.h"
#include "wire_scene.h"

static unsigned int gmps;
static struct simhca_gmp last_gmp;
static uint8_t last_mad[SIMHCA_MAD_BYTES];

static void on_gmp(void *arg, const struct simhca_gmp *gmp)
{
	gmps++;
	last_gmp = *gmp;
	memcpy(last_mad, gmp->mad, sizeof(last_mad));
}

static struct simhca_packet a_gmp(void)
{
	return (struct simhca_packet){ .op = SIMHCA_PKT_SEND,
				       .transport = SIMHCA_QPT_UD,
				       .first = true,
				       .last = true,
				       .dest_qpn = 1,
				       .src_qpn = 1,
				       .qkey = 0x80010000,
				       .length = SIMHCA_MAD_BYTES };
}

static void management_datagrams_come(void **state)
{
	struct net net = { .world = *state };
	const union simhca_gid from = device_gid(STRANGER, 0), to = device_gid(0, 0);
	struct simhca_packet packet = a_gmp();

	gmps = 0;
	simhca_device_set_gmp(net.world->device[0], on_gmp, NULL);
	comes(&net, STRANGER, &packet, 0);
	assert_int_equal(gmps, 0); /* that is another thread's */
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
	assert_memory_equal(&last_gmp.sgid, &from, sizeof(from));
	assert_memory_equal(&last_gmp.dgid, &to, sizeof(to));

	packet.qkey++;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.src_qpn = 2;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.length -= 4;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.transport = SIMHCA_QPT_RC;
	comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
	assert_int_equal(net_counts(&net).unclaimed, 4);
}

static void a_flood_of_management_datagrams(void **state)
{
	struct net net = { .world = *state };
	struct simhca_packet packet = a_gmp();

	gmps = 0;
	simhca_device_set_gmp(net.world->device[0], on_gmp, NULL);
	for (int i = 0; i < 5000; i++)
		comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_in_range(gmps, 10, 1000);
	gmps = 0;
	comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
}

/* There and, by this host's own devices, back again: what is sent can be received. */
static void management_datagrams_go(void **state)
{
	struct world *world = *state;
	struct simhca_av av = { .dgid = device_gid(ELSEWHERE, 0), .is_global = 1, .port_num = 1 };
	uint8_t mad[SIMHCA_MAD_BYTES];
	struct net net = { .world = world };

	gmps = 0;
	fill(mad, sizeof(mad), 7);
	simhca_device_set_gmp(world->device[1], on_gmp, NULL);
	assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
	av.dgid = device_gid(1, 0); /* at home it is a call */
	assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
	assert_int_equal(gmps, 1);
	assert_memory_equal(last_mad, mad, sizeof(mad));
	run_until_idle(world);
	assert_int_equal(net_counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 0);
	simhca_wire_gmps(world->fabric);
	assert_int_equal(gmps, 1);
	assert_int_equal(net_counts(&net).taken, 1);
	/* Who is at home and does not answer is not elsewhere. */
	simhca_device_set_port(world->device[1], false);
	assert_false(simhca_device_send_gmp(world->device[0], &av, mad));
	run_until_idle(world);
	assert_int_equal(net_counts(&net).taken, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(management_datagrams_come),
		ON_THE_WIRE(a_flood_of_management_datagrams),
		ON_THE_WIRE(management_datagrams_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
