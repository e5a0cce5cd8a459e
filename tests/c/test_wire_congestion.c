/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP has under way follows what the network and its peer say: marks, notifications, losses. */
#include <pthread.h>
#include <stdatomic.h>

#include "core/guard.h"
#include "core/handles.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "link/wire/congestion.h"
#include "link/wire/inbox.h"
#include "proto/qp.h"
#include "wire_net.h"
#include "wire_scene.h"

#define MARKED 3 /* of a traffic class; RFC 3168 */
#define READ_BYTES (1u << 20)

static void comes_marked(const struct net *net, const struct simhca_packet *packet)
{
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(4096)] = { 0 };
	struct simhca_wire_datagram datagram = {
		.path = { .source = device_gid(ELSEWHERE, 0), .destination = device_gid(0, 0) },
		.traffic_class = MARKED,
		.bytes = bytes,
		.length = simhca_bth_encode(packet, bytes) + packet->length,
	};

	simhca_icrc_put(&datagram.path, bytes, datagram.length);
	datagram.length += SIMHCA_ICRC_BYTES;
	simhca_wire_receive(net->world->fabric, &datagram);
}

/* Who sends is told of it, once in a while; a datagram's sender has no window. */
static void a_full_network(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 0);

	for (uint64_t id = 2; id < 5; id++)
		recv_into(net.side, id, 0, 2048);
	for (uint32_t n = 0; n < 3; n++) {
		packet.psn = FIRST_PSN + n;
		comes_marked(&net, &packet);
		run_until_idle(*state);
	}
	assert_int_equal(net_stat(&net, SIMHCA_STAT_ECN_MARKED), 3);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_SENT), 1);
	advance(*state, MSEC);
	packet.psn = FIRST_PSN + 3;
	comes_marked(&net, &packet);
	run_until_idle(*state);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_SENT), 2);
	/* Four acknowledgements, and two of those. */
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), 6);

	net = net_new(state, IBV_QPT_UD);
	packet = a_send(&net, 0, 0);
	comes_marked(&net, &packet);
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_SENT), 2);
}

static struct simhca_qp *object_of(const struct net *net)
{
	return simhca_object(net->side->client->context, SIMHCA_OBJ_QP, net->side->qp->handle,
			     NULL);
}

/* As long as somebody has its responder, who may be connecting it to another address, it tells nobody. */
static void a_full_network_for_who_is_busy(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	const struct simhca_packet packet = a_send(&net, 0, 0);

	assert_true(simhca_qp_begin_responder(object_of(&net)));
	comes_marked(&net, &packet);
	world_poll(*state);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_SENT), 0);
	simhca_qp_end_responder(object_of(&net));
	run_until_idle(*state); /* nothing else tells of it: the QP looks again by itself */
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_SENT), 1);
}

/* One turn of the task that is next, as an engine's loop gives it. False: there is none. */
static bool take_turn(struct simhca_engine *engine)
{
	struct simhca_worker *worker = &engine->by_hand;
	struct simhca_task *task;

	simhca_guard_enter(&worker->guard);
	task = simhca_next_task(engine);
	if (task && task->run(worker, task))
		simhca_engine_schedule(engine, task);
	simhca_guard_leave(&worker->guard);
	return task;
}

/*
 * As long as somebody has its responder, it does not go on with the response to a READ; it looks again
 * by itself, and sends the rest after that.
 */
static void a_response_of_who_is_busy(void **state)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };
	struct simhca_engine *engine = net.world->engine[0];
	struct simhca_packet packet;
	uint64_t sent;

	net.options.psn = FIRST_PSN;
	net.options.path_mtu = IBV_MTU_256;
	net.options.buffer = READ_BYTES;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	run_until_idle(*state);
	sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);
	packet = a_read(&net, 0);
	packet.dma_length = READ_BYTES;
	comes(&net, ELSEWHERE, &packet, 0);
	assert_true(take_turn(engine));
	assert_true(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) > sent);
	assert_true(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) < sent + READ_BYTES / MTU);
	assert_true(simhca_qp_begin_responder(object_of(&net)));
	for (int turns = 0; turns < 4; turns++)
		assert_true(take_turn(engine));
	simhca_qp_end_responder(object_of(&net));
	run_until_idle(*state);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, READ_BYTES / MTU);
}

static void time_goes_on(const struct net *net, uint64_t ns)
{
	atomic_fetch_add_explicit(&net->world->now, ns, memory_order_relaxed);
	rounds(net->world, 4);
}

/*
 * A packet that meets a responder which somebody has is tried again for 10 ms since it came, also if the QP
 * was busy before.
 */
static void a_packet_for_who_is_busy(void **state)
{
	static const struct {
		unsigned int before,
			after; /* ms that it is held until the packet comes, and from then on */
		bool lost;
	} held[] = { { 0, 9, false }, { 0, 11, true }, { 6, 9, false }, { 6, 11, true } };

	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		struct net net = net_new(state, IBV_QPT_RC);
		const struct simhca_packet packet = a_send(&net, 0, 0);

		run_until_idle(*state);
		assert_true(simhca_qp_begin_responder(object_of(&net)));
		simhca_engine_schedule(net.world->engine[0], &object_of(&net)->task);
		rounds(*state, 4);
		time_goes_on(&net, held[i].before * MSEC);
		comes(&net, ELSEWHERE, &packet, 0);
		rounds(*state, 4);
		time_goes_on(&net, held[i].after * MSEC);
		simhca_qp_end_responder(object_of(&net));
		run_until_idle(*state);
		if (held[i].lost)
			expect_none(net.side->recv_cq);
		else
			expect(net.side->recv_cq, 1, SUCCESS);
	}
}

/* Who is told sends less at a time, if it is his peer who says so. */
static void a_notification(void **state)
{
	static const struct {
		unsigned int from;
		uint64_t psns;
	} teller[] = { { STRANGER, 32 }, { ELSEWHERE, 16 } };

	for (size_t i = 0; i < ARRAY_SIZE(teller); i++) {
		struct net net = net_new(state, IBV_QPT_RC);
		const struct simhca_packet packet = { .op = SIMHCA_PKT_CNP,
						      .dest_qpn = net.side->qp->qpn };
		uint64_t sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);

		comes(&net, teller[i].from, &packet, 0);
		assert_int_equal(net_stat(&net, SIMHCA_STAT_CNP_HANDLED), i);
		post(net.side, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096,
		     .rkey = 1, SGES(sge(net.side->mr, 0, 40 * MTU)));
		run_until_idle(*state);
		assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, teller[i].psns);
	}
}

static struct simhca_congestion *congestion_of(const struct net *net)
{
	return &simhca_inbox_way(object_of(net)->wire.inbox)->congestion;
}

static void read_mtus(const struct net *net, uint64_t id, uint32_t count)
{
	post(net->side, .id = id, .opcode = SIMHCA_WR_RDMA_READ, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net->side->mr, 0, (uint64_t)count * MTU)));
	run_until_idle(net->world);
}

/* A read asks for what may be under way, and not beyond where a larger window's part would end. */
static void a_read_asks_for_less(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = { .op = SIMHCA_PKT_CNP, .dest_qpn = net.side->qp->qpn };

	read_mtus(&net, 2, 64);
	assert_int_equal(wire_net_last().dma_length, 32 * MTU);
	net = net_new(state, IBV_QPT_RC);
	packet.dest_qpn = net.side->qp->qpn;
	comes(&net, ELSEWHERE, &packet, 0);
	read_mtus(&net, 2, 64);
	assert_int_equal(wire_net_last().dma_length, 16 * MTU);
}

/* What comes marked is what it asked for. */
static void a_marked_response(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, MTU);

	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	read_mtus(&net, 2, 1);
	comes_marked(&net, &packet);
	run_until_idle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	read_mtus(&net, 3, 64);
	assert_int_equal(wire_net_last().dma_length, 16 * MTU);
}

/* A response of one MTU, the last of its request or not. */
static void responds(const struct net *net, uint32_t psn, bool first, bool last)
{
	struct simhca_packet packet = a_send(net, psn, MTU);

	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	packet.first = first;
	packet.last = last;
	comes(net, ELSEWHERE, &packet, 0);
	run_until_idle(net->world);
}

/* The window has fallen a moment ago: a loss is of the same time. */
static void loss_that_is_known(const struct net *net, uint32_t psn_after)
{
	congestion_of(net)->behind = 0;
	responds(net, psn_after, false, true);
}

/*
 * Nor for more than the last time, if the window has grown since then; nor if the first time was
 * long before, when it was larger: of that nothing may have come to the peer.
 */
static void a_read_asks_again_for_the_same(void **state)
{
	for (int before = 0; before < 2; before++) {
		struct net net = net_new(state, IBV_QPT_RC);
		struct simhca_congestion *congestion = congestion_of(&net);

		congestion->window = (before ? 16 : 3) * SIMHCA_WINDOW_PSN;
		read_mtus(&net, 2, 1);
		read_mtus(&net, 3, 8);
		if (before) {
			assert_int_equal(wire_net_last().dma_length, 8 * MTU);
			congestion->window = 3 * SIMHCA_WINDOW_PSN;
			loss_that_is_known(&net, 8);
		}
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 1);
		assert_int_equal(wire_net_last().dma_length, 2 * MTU);
		responds(&net, 0, true, true);
		expect(net.side->send_cq, 2, SUCCESS);
		loss_that_is_known(&net, 2);
		assert_int_equal(congestion->window, 4 * SIMHCA_WINDOW_PSN);
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 1);
		assert_int_equal(wire_net_last().dma_length, 2 * MTU);
		for (uint32_t psn = 1; psn < 3; psn++)
			responds(&net, psn, psn == 1, psn == 2);
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 3);
	}
}

/* So many packets of responses come, in requests of 32. */
static void respond_until(const struct net *net, uint32_t *psn, uint32_t end)
{
	for (; *psn < end; ++*psn)
		responds(net, *psn, *psn % 32 == 0, *psn % 32 == 31);
}

/*
 * As responses arrive the window grows, and more than one request of a long read is under way, so
 * that its speed is not one request a round trip; never more than the responder takes.
 */
static void a_long_read_is_several_requests(void **state)
{
	static const struct {
		uint8_t max_rd_atomic;
		uint32_t under_way;
	} with[] = { { 16, 4 }, { 2, 2 }, { 1, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(with); i++) {
		struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };
		uint32_t psn = 0;

		net.options.psn = FIRST_PSN;
		net.options.path_mtu = IBV_MTU_256;
		net.options.max_rd_atomic = with[i].max_rd_atomic;
		net.side = side_new(client_new(*state, 0), &net.options);
		qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
		read_mtus(&net, 2, 32 * 7);
		assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + 32);
		/* Half of the first one has come: a window of 48, of which 16 are under way. */
		respond_until(&net, &psn, 15);
		assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + 32);
		respond_until(&net, &psn, 16);
		assert_int_equal(requester_of(net.side->qp)->psn_send,
				 FIRST_PSN + (with[i].max_rd_atomic > 1 ? 64 : 32));
		respond_until(&net, &psn, 32 * 3);
		assert_int_equal(requester_of(net.side->qp)->psn_send,
				 FIRST_PSN + psn + 32 * with[i].under_way);
		assert_int_equal(wire_net_last().dma_length, 32 * MTU);
		/* One is lost, as that to the next one tells: what is left of the window is asked for. */
		if (with[i].under_way > 1) {
			responds(&net, psn + 32, true, false);
			assert_int_equal(wire_net_last().psn, FIRST_PSN + psn + 32);
		}
		respond_until(&net, &psn, 32 * 7);
		expect(net.side->send_cq, 2, SUCCESS);
	}
}

/*
 * That the last response of a read is lost is seen by what answers the request behind it (IBTA vol. 1,
 * 9.7.5.1.2), an acknowledgement or a response, and no time passes until it is asked for again.
 */
static void the_last_response_is_missed(void **state)
{
	for (int by_read = 0; by_read < 2; by_read++) {
		struct net net = net_new(state, IBV_QPT_RC);
		uint64_t before;

		read_mtus(&net, 2, 4);
		if (by_read)
			read_mtus(&net, 3, 1);
		else
			write_mtus(&net, 3, 1);
		for (uint32_t psn = 0; psn < 3; psn++)
			responds(&net, psn, psn == 0, false);
		before = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);
		for (int again = 0; again < 2; again++) {
			if (by_read)
				responds(&net, 4, true, true);
			else
				acknowledge(&net, 4);
			run_until_idle(*state);
			/* What follows is sent again as well. */
			if (!again) {
				assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS),
						 before + 2);
				assert_int_equal(wire_net_last().psn, FIRST_PSN + 4);
				responds(&net, 3, true, true);
				expect(net.side->send_cq, 2, SUCCESS);
			}
		}
		expect(net.side->send_cq, 3, SUCCESS);
		assert_int_equal(net_stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	}
}

/*
 * A request that a small window made shorter is answered before the next one goes, however the window has
 * grown: what is asked for again, as it may be from the middle of the first one on, lies within one.
 */
static void a_short_part_goes_alone(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_congestion *congestion = congestion_of(&net);

	congestion->window = 8 * SIMHCA_WINDOW_PSN;
	read_mtus(&net, 2, 96);
	assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + 8);
	congestion->window = 128 * SIMHCA_WINDOW_PSN;
	for (uint32_t psn = 0; psn < 7; psn++)
		responds(&net, psn, psn == 0, false);
	assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + 8);
	responds(&net, 7, false, true);
	/* To where a whole part begins, and that one and the next, too. */
	assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + 96);
}

/*
 * However large the window, each slice of some packets asks for an answer: if the window falls
 * after that, one comes.
 */
static void answers_are_asked_for_on_the_way(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	unsigned int asked;
	uint32_t psn = 0;

	for (uint32_t window = 32; window < 512; window *= 2) {
		write_mtus(&net, window, window);
		psn += window;
		acknowledge(&net, psn - 1);
		run_until_idle(*state);
		expect(net.side->send_cq, window, SUCCESS);
	}
	asked = wire_net_asked();
	write_mtus(&net, 1, 256);
	assert_int_equal(wire_net_asked() - asked, 256 / 64);
}

/* Who looks at the window does not change it: it falls once, when the requester goes on. */
static void a_look_at_the_window_leaves_it(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = { .op = SIMHCA_PKT_CNP, .dest_qpn = net.side->qp->qpn };
	struct simhca_qp *qp =
		simhca_object(net.side->client->context, SIMHCA_OBJ_QP, net.side->qp->handle, NULL);

	comes(&net, ELSEWHERE, &packet, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp->link->window_now(qp), SIMHCA_WINDOW_FIRST);
	write_mtus(&net, 2, 64);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp->link->window_now(qp), SIMHCA_WINDOW_FIRST / 2);
	/* What is under way is the smaller window. */
	assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + SIMHCA_WINDOW_FIRST / 2);
}

/* It is connected to an address of this daemon, or to another one elsewhere, while it is drained. */
static int go_to(const struct side *side, const struct options *options, unsigned int peer)
{
	struct simhca_modify_qp_req req = { .handle = side->qp->handle, .mask = SIMHCA_QP_AV };
	struct simhca_modify_qp_reply reply;

	req.attr = qp_attr_to(side->qp, peer, 0x123, options);
	return simhca_modify_qp(side->client->context, &req, &reply, NULL);
}

/* Who has left a way is no more among those that share it. */
static void a_way_is_left_for_a_local_peer(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC), other = net_new(state, IBV_QPT_RC);
	struct simhca_share *share[2];

	for (int i = 0; i < 2; i++) {
		const struct side *side = i ? other.side : net.side;
		const struct simhca_qp *qp =
			simhca_object(side->client->context, SIMHCA_OBJ_QP, side->qp->handle, NULL);

		share[i] = &simhca_inbox_way(qp->wire.inbox)->share;
	}
	write_mtus(&net, 1, 1);
	write_mtus(&other, 1, 1);
	assert_int_equal(simhca_share_count(share[1]), 2);
	assert_int_equal(qp_move(net.side->qp, IBV_QPS_SQD), 0);
	assert_int_equal(go_to(net.side, &net.options, 0), 0);
	assert_int_equal(simhca_share_count(share[1]), 1);
	assert_null(share[0]->way);
}

struct mover {
	struct net *net;
	atomic_bool stop;
};

static void *move_until_stopped(void *arg)
{
	struct mover *mover = arg;

	for (unsigned int i = 0; !atomic_load(&mover->stop); i++)
		go_to(mover->net->side, &mover->net->options, i & 1 ? STRANGER : ELSEWHERE);
	return NULL;
}

/*
 * A QP is connected to another address while an engine tells its peer of marks: it tells the one or
 * the other. (For ThreadSanitizer.)
 */
static void the_peer_changes_beside_marks(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct mover mover = { .net = &net };
	pthread_t thread;

	assert_int_equal(qp_move(net.side->qp, IBV_QPS_SQD), 0);
	run_until_idle(*state);
	assert_int_equal(pthread_create(&thread, NULL, move_until_stopped, &mover), 0);
	while (net_stat(&net, SIMHCA_STAT_CNP_SENT) < 100) {
		struct simhca_packet packet = a_read(&net, 0);

		comes_marked(&net, &packet);
		run_until_idle(*state);
		advance(*state, MSEC);
	}
	atomic_store(&mover.stop, true);
	pthread_join(thread, NULL);
}

/* With a quarter of a PSN as its window a packet leaves every four round trips, and not sooner. */
static void less_than_a_packet(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	uint64_t sent;

	write_mtus(&net, 1, 1);
	advance(*state, MSEC);
	acknowledge(&net, 0);
	run_until_idle(*state);
	congestion_of(&net)->window = SIMHCA_WINDOW_PSN / 4;
	congestion_of(&net)->ssthresh = 0;
	write_mtus(&net, 2, 1);
	acknowledge(&net, 1);
	run_until_idle(*state);
	expect(net.side->send_cq, 1, SUCCESS);
	expect(net.side->send_cq, 2, SUCCESS);
	congestion_of(&net)->window = SIMHCA_WINDOW_PSN / 4;
	sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);
	write_mtus(&net, 3, 1);
	advance(*state, 3 * MSEC);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent);
	advance(*state, 2 * MSEC);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent + 1);
}

/* By how much of a PSN a QP has grown with a window beside another one that is under way. */
static uint32_t growth_beside(void **state, unsigned int peer_of_other)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct net other = net_to(state, IBV_QPT_RC, peer_of_other);
	uint32_t window;

	write_mtus(&net, 1, 64);
	write_mtus(&other, 1, 64);
	simhca_congestion_marked(congestion_of(&net));
	window = congestion_of(&net)->window;
	acknowledge(&net, window / SIMHCA_WINDOW_PSN - 1);
	run_until_idle(*state);
	window = congestion_of(&net)->window - window;
	for (int i = 0; i < 2; i++) {
		const struct side *side = i ? other.side : net.side;

		assert_int_equal(0,
				 simhca_destroy_qp(side->client->context, side->qp->handle, NULL));
	}
	return window;
}

/* Those with one peer as one of them would; when one of them has gone, the other by itself. */
static void those_with_one_peer_share(void **state)
{
	assert_in_range(growth_beside(state, STRANGER), SIMHCA_WINDOW_PSN - 1, SIMHCA_WINDOW_PSN);
	assert_in_range(growth_beside(state, ELSEWHERE), SIMHCA_WINDOW_PSN / 2 - 1,
			SIMHCA_WINDOW_PSN / 2);
	assert_in_range(growth_beside(state, STRANGER), SIMHCA_WINDOW_PSN - 1, SIMHCA_WINDOW_PSN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_full_network),
		ON_THE_WIRE(a_full_network_for_who_is_busy),
		ON_THE_WIRE(a_response_of_who_is_busy),
		ON_THE_WIRE(a_packet_for_who_is_busy),
		ON_THE_WIRE(a_notification),
		ON_THE_WIRE(a_read_asks_for_less),
		ON_THE_WIRE(a_marked_response),
		ON_THE_WIRE(a_read_asks_again_for_the_same),
		ON_THE_WIRE(a_long_read_is_several_requests),
		ON_THE_WIRE(a_short_part_goes_alone),
		ON_THE_WIRE(the_last_response_is_missed),
		ON_THE_WIRE(answers_are_asked_for_on_the_way),
		ON_THE_WIRE(a_look_at_the_window_leaves_it),
		ON_THE_WIRE(a_way_is_left_for_a_local_peer),
		ON_THE_WIRE(the_peer_changes_beside_marks),
		ON_THE_WIRE(less_than_a_packet),
		ON_THE_WIRE(those_with_one_peer_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
