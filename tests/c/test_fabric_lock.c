/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * No packet takes the fabric's lock, whatever the QP's type, on the local link and on the wire: so those
 * who send never keep a control function, which takes it to change the lists, from it.
 */
#include <pthread.h>

#include "core/fabric.h"
#include "frames.h"
#include "link/wire/wire_impl.h"
#include "wire_scene.h"

#define MESSAGES 20

static pthread_rwlock_t *watched;
static unsigned int taken;

int __real_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	taken += lock == watched;
	return __real_pthread_rwlock_rdlock(lock);
}

int __real_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	taken += lock == watched;
	return __real_pthread_rwlock_wrlock(lock);
}

static void watch_lock(pthread_rwlock_t *lock)
{
	watched = lock;
	taken = 0;
}

static void watch(struct world *world)
{
	watch_lock(&world->fabric->lock);
}

static void no_message_takes_it(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct options options = default_options(types[i]);
		struct pair *pair = pair_new(*state, &options);

		for (uint64_t id = 0; id < MESSAGES; id++) {
			recv_into(&pair->b, id, 0, 512);
			watch(*state);
			send_from(&pair->a, id, 0, 100);
			expect(pair->a.send_cq, id, SUCCESS);
			expect(pair->b.recv_cq, id, SUCCESS);
			/* A connected QP looks for its peer once. */
			assert_int_equal(taken, 0);
		}
	}
}

static void no_multicast_takes_it(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct side *from = side_new(client_new(*state, 0), &options);
	struct side *to = side_new(client_new(*state, 1), &options);
	struct simhca_mcast_req req = { .qp = to->qp->handle,
					.gid = { .raw = { 0xff, 0x0e, [15] = 1 } } };
	struct simhca_av av = av_to(*state, 1, 0);

	qp_connect(from->qp, 0, 0, &options);
	qp_connect(to->qp, 0, 0, &options);
	assert_int_equal(simhca_attach_mcast(to->client->context, &req, NULL), 0);
	av.dgid = req.gid;
	for (uint64_t id = 0; id < MESSAGES; id++) {
		recv_into(to, id, 0, 512);
		watch(*state);
		post(from, .id = id, .opcode = SIMHCA_WR_SEND, SGES(sge(from->mr, 0, 64)), .av = av,
		     .dest_qpn = SIMHCA_MCAST_QPN, .qkey = options.qkey);
		expect(from->send_cq, id, SUCCESS);
		expect(to->recv_cq, id, SUCCESS);
		assert_int_equal(taken, 0);
	}
}

static void no_frame_takes_it(void **state)
{
	struct side *from = raw_side(client_new(*state, 0)), *to = raw_side(client_new(*state, 1));
	struct simhca_create_flow_req flow = flow_to(to->qp);

	flow_new(to->client, &flow);
	for (uint64_t id = 0; id < MESSAGES; id++) {
		recv_into(to, id, 0, 5000);
		watch(*state);
		frame_go(from, &(struct recipe){ .ip = 4, .payload = 100 });
		expect(to->recv_cq, id, SUCCESS);
		assert_int_equal(taken, 0);
	}
}

/* Neither what goes out nor what comes in. */
static void no_packet_of_the_wire_takes_it(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	const struct simhca_packet send = a_send(&net, 0, 100), read = a_read(&net, 1);

	write_mtus(&net, 2, 1);
	acknowledge(&net, 0);
	run_until_idle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	watch(*state);
	write_mtus(&net, 3, 1);
	acknowledge(&net, 1);
	comes(&net, ELSEWHERE, &send, 0);
	comes(&net, ELSEWHERE, &read, 0);
	run_until_idle(*state);
	expect(net.side->send_cq, 3, SUCCESS);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(taken, 0);
}

/* So who frees a QP waits, by the wire's own lock, for what comes in to be put where it is for. */
static void who_frees_a_qp_waits_for_the_wire(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);

	watch_lock(&net.world->fabric->wire->lock);
	assert_int_equal(0,
			 simhca_destroy_qp(net.side->client->context, net.side->qp->handle, NULL));
	assert_int_equal(taken, 1);
}

/* So that the counts above say something. */
static void a_control_function_takes_it(void **state)
{
	watch(*state);
	assert_true(simhca_fabric_synchronize(((struct world *)*state)->fabric, 1));
	assert_int_equal(taken, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(no_message_takes_it),
		ON_INFINIBAND(no_message_takes_it),
		ON_ETHERNET(no_multicast_takes_it),
		ON_ETHERNET(no_frame_takes_it),
		ON_THE_WIRE(no_packet_of_the_wire_takes_it),
		ON_THE_WIRE(who_frees_a_qp_waits_for_the_wire),
		ON_ETHERNET(a_control_function_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
