/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Flow steering: which frames a flow takes, who else gets them, and what is no flow. */
#include "core/device.h"
#include "frames.h"
#include "proto/qp.h"

enum { RECEIVERS = 4 };

/* The sender is on device 0, receivers alternate between the devices. */
struct scene {
	struct world *world;
	struct side *sender;
	struct side *receiver[RECEIVERS];
};

static struct scene make(void **state)
{
	struct scene scene = { .world = *state };

	scene.sender = raw_side(client_new(scene.world, 0));
	for (unsigned int i = 0; i < RECEIVERS; i++) {
		scene.receiver[i] = raw_side(client_new(scene.world, i % 2));
		for (uint64_t id = 0; id < 40; id++)
			recv_into(scene.receiver[i], id, 1500 * id, 1500);
	}
	return scene;
}

static unsigned int arrived(struct side *side)
{
	struct simhca_cqe cqe;
	unsigned int count = 0;

	for (; cq_poll(side->recv_cq, &cqe); count++) {
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		recv_into(side, cqe.wr_id, 1500 * cqe.wr_id, 1500);
	}
	return count;
}

/* Sends one frame and says who got it: bit i for receiver i. A second copy fails the test. */
static unsigned int who_gets(struct scene *scene, const struct recipe *recipe)
{
	unsigned int who = 0;

	frame_go(scene->sender, recipe);
	run_until_idle(scene->world);
	for (unsigned int i = 0; i < RECEIVERS; i++) {
		unsigned int count = arrived(scene->receiver[i]);

		assert_true(count <= 1);
		who |= count << i;
	}
	assert_int_equal(arrived(scene->sender), 0);
	return who;
}

static struct simhca_create_flow_req to(struct scene *scene, unsigned int receiver)
{
	return flow_to(scene->receiver[receiver]->qp);
}

static uint32_t add(struct scene *scene, unsigned int receiver,
		    const struct simhca_create_flow_req *req)
{
	return flow_new(scene->receiver[receiver]->client, req);
}

static uint32_t add_type(struct scene *scene, unsigned int receiver, uint32_t type)
{
	struct simhca_create_flow_req req = to(scene, receiver);

	req.type = type;
	return add(scene, receiver, &req);
}

static uint32_t add_priority(struct scene *scene, unsigned int receiver, uint32_t priority)
{
	struct simhca_create_flow_req req = to(scene, receiver);

	req.priority = priority;
	return add(scene, receiver, &req);
}

static const struct recipe udp = {
	.ip = 4,
	.src_ip = 0x01010101,
	.dst_ip = 0x02020202,
	.tos = 4,
	.ttl = 64,
	.l4 = IPPROTO_UDP,
	.src_port = 1234,
	.dst_port = 5678,
	.payload = 100,
};
static const struct recipe tcp6 = {
	.ip = 6,
	.src_ip6 = { 0xa0, 1 },
	.dst_ip6 = { 0xb0, 2 },
	.tos = 8,
	.ttl = 9,
	.flow_label = 0x12345,
	.l4 = IPPROTO_TCP,
	.src_port = 80,
	.dst_port = 443,
	.payload = 100,
};
static const struct recipe tagged = {
	.tags = 1, .vlan_tag = 0x2005, .ether_type = 0x88b5, .payload = 60
};

static void without_a_flow_nobody_gets_anything(void **state)
{
	struct scene scene = make(state);

	assert_int_equal(who_gets(&scene, &udp), 0);
	assert_int_equal(who_gets(&scene, &(struct recipe){ .dst_mac = OTHER_MAC }), 0);
}

/*
 * Each field: the frame that has this value is taken; the flow with a value that differs in one bit
 * does not take it, unless the mask lacks the bit.
 */
static void check_field(struct scene *scene, const struct recipe *recipe, uint32_t layers,
			size_t offset, const void *value, size_t size)
{
	for (size_t bit = 0; bit<size * 8; bit += size> 2 ? 7 : 1) {
		struct simhca_create_flow_req req = to(scene, 1);
		uint8_t *v = (uint8_t *)&req.value + offset, *m = (uint8_t *)&req.mask + offset;
		uint32_t flow;

		flow_wants_layer(&req, layers);
		memcpy(v, value, size);
		memset(m, 0xff, size);
		flow = add(scene, 1, &req);
		assert_int_equal(who_gets(scene, recipe), 1 << 1);
		flow_gone(scene->receiver[1]->client, flow);

		v[bit / 8] ^= (uint8_t)(1 << bit % 8);
		flow = add(scene, 1, &req);
		assert_int_equal(who_gets(scene, recipe), 0);
		flow_gone(scene->receiver[1]->client, flow);

		m[bit / 8] ^= (uint8_t)(1 << bit % 8);
		flow = add(scene, 1, &req);
		assert_int_equal(who_gets(scene, recipe), 1 << 1);
		flow_gone(scene->receiver[1]->client, flow);
	}
}
#define CHECK(recipe, layers, field, ...)                                                          \
	do {                                                                                       \
		__typeof__(((struct simhca_frame_fields *)0)->field) value_ = __VA_ARGS__;         \
                                                                                                   \
		check_field(&scene, &(recipe), layers,                                             \
			    offsetof(struct simhca_frame_fields, field), &value_, sizeof(value_)); \
	} while (0)

static void every_field_counts(void **state)
{
	struct scene scene = make(state);
	const uint32_t v4 = SIMHCA_LAYER_IPV4, v6 = SIMHCA_LAYER_IPV6;

	CHECK(udp, 0, dst_mac, { 0x01, 0x00, 0x5e, 0x01, 0x02, 0x03 });
	CHECK(udp, 0, src_mac, { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55 });
	CHECK(udp, 0, ether_type, htons(0x0800));
	CHECK(tagged, 0, ether_type, htons(0x88b5));
	CHECK(tagged, SIMHCA_LAYER_VLAN, vlan_tag, htons(0x2005));
	CHECK(udp, v4, src_ip, htonl(0x01010101));
	CHECK(udp, v4, dst_ip, htonl(0x02020202));
	CHECK(udp, v4, proto, IPPROTO_UDP);
	CHECK(udp, v4, tos, 4);
	CHECK(udp, v4, ttl, 64);
	CHECK(udp, v4, ip_flags, 0);
	CHECK(tcp6, v6, src_ip6, { 0xa0, 1 });
	CHECK(tcp6, v6, dst_ip6, { 0xb0, 2 });
	CHECK(tcp6, v6, flow_label, htonl(0x12345));
	CHECK(tcp6, v6, next_hdr, IPPROTO_TCP);
	CHECK(tcp6, v6, traffic_class, 8);
	CHECK(tcp6, v6, hop_limit, 9);
	CHECK(udp, SIMHCA_LAYER_UDP, dst_port, htons(5678));
	CHECK(udp, SIMHCA_LAYER_UDP, src_port, htons(1234));
	CHECK(tcp6, SIMHCA_LAYER_TCP, dst_port, htons(443));
	CHECK(tcp6, SIMHCA_LAYER_TCP, src_port, htons(80));
}

/* A header that a flow asks for has to be there, also if none of its fields is. */
static void layers_count(void **state)
{
	static const struct {
		uint32_t layer;
		bool udp, tcp6, tagged;
	} cases[] = {
		{ 0, true, true, true },
		{ SIMHCA_LAYER_VLAN, false, false, true },
		{ SIMHCA_LAYER_IPV4, true, false, false },
		{ SIMHCA_LAYER_IPV6, false, true, false },
		{ SIMHCA_LAYER_TCP, false, true, false },
		{ SIMHCA_LAYER_UDP, true, false, false },
		{ SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_TCP, false, false, false },
	};
	struct scene scene = make(state);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct simhca_create_flow_req req = to(&scene, 0);
		uint32_t flow;

		flow_wants_layer(&req, cases[i].layer);
		flow = add(&scene, 0, &req);
		assert_int_equal(who_gets(&scene, &udp), cases[i].udp);
		assert_int_equal(who_gets(&scene, &tcp6), cases[i].tcp6);
		assert_int_equal(who_gets(&scene, &tagged), cases[i].tagged);
		flow_gone(scene.receiver[0]->client, flow);
	}
}

/* At one port: receivers 0 and 2 are on device 0, 1 and 3 on device 1. */
static void the_lowest_priority_number_wins(void **state)
{
	struct scene scene = make(state);
	uint32_t first;

	add_priority(&scene, 2, 5);
	assert_int_equal(who_gets(&scene, &udp), 1 << 2);
	first = add_priority(&scene, 0, 4);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
	/* The other port has its own table. */
	add_priority(&scene, 1, 15);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 1);
	flow_gone(scene.receiver[0]->client, first);
	assert_int_equal(who_gets(&scene, &udp), 1 << 2 | 1 << 1);
}

static void of_one_priority_the_elder_wins(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 2);

	add_priority(&scene, 0, 3);
	req.priority = 3;
	flow_wants_layer(&req, SIMHCA_LAYER_IPV4);
	add(&scene, 2, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
}

static void equal_flows_share(void **state)
{
	struct scene scene = make(state);

	add_priority(&scene, 0, 3);
	add_priority(&scene, 2, 3);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 2);
	/* Values where the mask has no bits make no difference. */
	struct simhca_create_flow_req req = to(&scene, 0);

	req.priority = 3;
	req.value.ttl = 77;
	add(&scene, 0, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 2);
}

static void equal_flows_that_do_otherwise_are_refused(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 0);

	add(&scene, 0, &req);
	req.flags = SIMHCA_FLOW_TAG;
	req.tag = 5;
	assert_int_equal(-EEXIST, flow_try(scene.receiver[0]->client, &req, NULL));
	req = to(&scene, 2);
	req.flags = SIMHCA_FLOW_DROP;
	assert_int_equal(-EEXIST, flow_try(scene.receiver[2]->client, &req, NULL));
	req.priority = 1;
	add(&scene, 2, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
}

static void a_flow_may_let_frames_pass(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 0);

	req.flags = SIMHCA_FLOW_DONT_TRAP;
	add(&scene, 0, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
	add_priority(&scene, 2, 9);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 2);
}

static void dropped_frames_go_nowhere(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 0);

	add_type(&scene, 2, SIMHCA_FLOW_ALL_DEFAULT);
	req.flags = SIMHCA_FLOW_DROP;
	flow_wants_layer(&req, SIMHCA_LAYER_UDP);
	add(&scene, 0, &req);
	assert_int_equal(who_gets(&scene, &udp), 0);
	assert_int_equal(who_gets(&scene, &tcp6), 1 << 2);
}

static void defaults_get_what_nobody_takes(void **state)
{
	static const struct recipe unicast = { .dst_mac = OTHER_MAC, .ip = 4 };
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 1);

	add_type(&scene, 1, SIMHCA_FLOW_ALL_DEFAULT);
	add_type(&scene, 3, SIMHCA_FLOW_MC_DEFAULT);
	assert_int_equal(who_gets(&scene, &unicast), 1 << 1);
	assert_int_equal(who_gets(&scene, &udp), 1 << 1 | 1 << 3);
	req = to(&scene, 3);
	req.priority = 15;
	flow_wants_layer(&req, SIMHCA_LAYER_UDP);
	add(&scene, 3, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 3);
	assert_int_equal(who_gets(&scene, &tcp6), 1 << 1 | 1 << 3);
}

static void sniffers_get_everything_once(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 0);

	add_type(&scene, 1, SIMHCA_FLOW_SNIFFER);
	add_type(&scene, 2, SIMHCA_FLOW_SNIFFER);
	assert_int_equal(who_gets(&scene, &udp), 1 << 1 | 1 << 2);
	add(&scene, 0, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 1 | 1 << 2);
	/* Who takes it by two flows gets it once. */
	req = to(&scene, 1);
	add(&scene, 1, &req);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 1 | 1 << 2);
}

static void nobody_gets_its_own(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = flow_to(scene.sender->qp);

	for (uint64_t id = 0; id < 4; id++)
		recv_into(scene.sender, id, 10000 + 1500 * id, 1500);
	flow_new(scene.sender->client, &req);
	req.type = SIMHCA_FLOW_SNIFFER;
	flow_new(scene.sender->client, &req);
	assert_int_equal(who_gets(&scene, &udp), 0);
	add_type(&scene, 2, SIMHCA_FLOW_SNIFFER);
	assert_int_equal(who_gets(&scene, &udp), 1 << 2);
}

static void tags_come_with_the_frame(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 1);

	req.flags = SIMHCA_FLOW_TAG;
	req.tag = 0xabcdef;
	flow_wants_layer(&req, SIMHCA_LAYER_UDP);
	add(&scene, 1, &req);
	req = to(&scene, 1);
	req.type = SIMHCA_FLOW_SNIFFER;
	add(&scene, 1, &req);
	frame_go(scene.sender, &udp);
	assert_int_equal(expect(scene.receiver[1]->recv_cq, 0, SUCCESS).flow_tag, 0xabcdef);
	frame_go(scene.sender, &tcp6);
	assert_int_equal(expect(scene.receiver[1]->recv_cq, 1, SUCCESS).flow_tag, 0);
}

static void counters_count(void **state)
{
	struct scene scene = make(state);
	struct client *client = scene.receiver[1]->client;
	struct simhca_create_flow_req req = to(&scene, 1);
	struct simhca_read_counters_reply reply;
	struct simhca_handle counters;
	uint32_t flow, length;

	assert_int_equal(0, simhca_create_counters(client->context, &counters, NULL));
	req.flags = SIMHCA_FLOW_COUNT | SIMHCA_FLOW_DROP;
	req.counters = counters.handle;
	flow_wants_layer(&req, SIMHCA_LAYER_UDP);
	flow = add(&scene, 1, &req);
	for (int i = 0; i < 3; i++)
		length = frame_go(scene.sender, &udp);
	frame_go(scene.sender, &tcp6);
	assert_int_equal(0, simhca_read_counters(client->context, counters.handle, &reply, NULL));
	assert_int_equal(reply.packets, 3);
	assert_int_equal(reply.bytes, 3 * length);
	assert_int_equal(-EBUSY, simhca_destroy_counters(client->context, counters.handle, NULL));
	flow_gone(client, flow);
	assert_int_equal(0, simhca_destroy_counters(client->context, counters.handle, NULL));
	assert_int_equal(-ENOENT, flow_try(client, &req, NULL));
	assert_int_equal(-ENOENT,
			 simhca_read_counters(client->context, counters.handle, &reply, NULL));
}

static void what_is_no_flow(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct scene scene = make(state);
	struct client *client = scene.receiver[0]->client;
	struct side *ud = side_new(client, &options);
	struct simhca_create_flow_req good = to(&scene, 0), req;

#define REFUSED(error, ...)                                                                        \
	do {                                                                                       \
		req = good;                                                                        \
		__VA_ARGS__;                                                                       \
		assert_int_equal(-(error), flow_try(client, &req, NULL));                          \
	} while (0)
	REFUSED(ENOENT, req.qp = 12345);
	REFUSED(EINVAL, req.qp = ud->qp->handle);
	REFUSED(EINVAL, req.type = 4);
	REFUSED(ENOSPC, req.priority = SIMHCA_FLOW_PRIORITIES);
	REFUSED(EINVAL, req.port = 0);
	REFUSED(EINVAL, req.port = 2);
	REFUSED(EINVAL, req.flags = 1 << 4);
	REFUSED(EINVAL, req.flags = SIMHCA_FLOW_TAG, req.tag = 1 << 24);
	REFUSED(ENOENT, req.flags = SIMHCA_FLOW_COUNT, req.counters = 3);
	REFUSED(EINVAL, req.flags = SIMHCA_FLOW_DROP | SIMHCA_FLOW_DONT_TRAP);
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_IPV6));
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_TCP | SIMHCA_LAYER_UDP));
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_IPV4);
		FLOW_WANTS(&req, ether_type, htons(0x86dd)));
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_IPV6);
		FLOW_WANTS(&req, ether_type, htons(0x0800)));
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_TCP);
		FLOW_WANTS(&req, proto, IPPROTO_UDP));
	REFUSED(EINVAL, flow_wants_layer(&req, SIMHCA_LAYER_IPV6 | SIMHCA_LAYER_UDP);
		FLOW_WANTS(&req, next_hdr, IPPROTO_TCP));
	for (uint32_t type = 1; type < 4; type++) {
		REFUSED(EINVAL, req.type = type, req.flags = SIMHCA_FLOW_DROP);
		REFUSED(EINVAL, req.type = type, req.flags = SIMHCA_FLOW_DONT_TRAP);
		REFUSED(EINVAL, req.type = type; FLOW_WANTS(&req, tos, 1));
		if (type != SIMHCA_FLOW_SNIFFER)
			REFUSED(EINVAL, req.type = type, req.flags = SIMHCA_FLOW_TAG);
	}
#undef REFUSED
	assert_int_equal(-ENOENT, simhca_destroy_flow(client->context, 0, NULL));
	add(&scene, 0, &good);
}

static void a_qp_with_flows_is_not_destroyed(void **state)
{
	struct scene scene = make(state);
	struct client *client = scene.receiver[0]->client;
	struct simhca_create_flow_req req = to(&scene, 0);
	uint32_t handle = scene.receiver[0]->qp->handle, flow = add(&scene, 0, &req);

	assert_int_equal(-EBUSY, patiently(simhca_destroy_qp(client->context, handle, NULL)));
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
	flow_gone(client, flow);
	assert_int_equal(0, patiently(simhca_destroy_qp(client->context, handle, NULL)));
	assert_int_equal(who_gets(&scene, &udp), 0);
}

static void flows_go_with_their_client(void **state)
{
	struct scene scene = make(state);
	struct simhca_create_flow_req req = to(&scene, 0);

	add(&scene, 0, &req);
	add_priority(&scene, 2, 7);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0);
	client_gone(scene.receiver[0]->client);
	frame_go(scene.sender, &udp);
	run_until_idle(scene.world);
	assert_int_equal(arrived(scene.receiver[2]), 1);
}

/* Who fails does not keep it from the others. */
static void receivers_do_not_hold_up_each_other(void **state)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct scene scene = make(state);
	struct side *bad[2];

	for (int i = 0; i < 2; i++) {
		struct simhca_create_flow_req req;

		bad[i] = side_new(client_new(scene.world, 0), &options);
		qp_connect(bad[i]->qp, 0, 0, &options);
		req = flow_to(bad[i]->qp);
		req.type = SIMHCA_FLOW_SNIFFER;
		flow_new(bad[i]->client, &req);
	}
	recv_into(bad[1], 1, 0, 10); /* too short; bad[0] has none at all */
	for (unsigned int i = 0; i < RECEIVERS; i++)
		add_type(&scene, i, SIMHCA_FLOW_SNIFFER);
	assert_int_equal(who_gets(&scene, &udp), (1 << RECEIVERS) - 1);
	expect_why(bad[1]->recv_cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
}

static void a_frame_has_so_many_copies(void **state)
{
	struct scene scene = make(state);
	struct client *client = client_new(scene.world, 1);
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct cq *cq = cq_new(client, 1024);
	struct mr *mr = mr_new(client, 2000, ALL_ACCESS);
	struct simhca_cqe cqe;
	unsigned int got = 0;

	options.max_send_wr = options.max_recv_wr = 1;
	for (unsigned int i = 0; i < SIMHCA_MAX_FRAME_COPIES + 10; i++) {
		struct qp *qp = qp_new(client, &options, cq, cq, NULL);
		struct simhca_create_flow_req req = flow_to(qp);
		struct simhca_sge buffer = sge(mr, 0, 2000);

		qp_connect(qp, 0, 0, &options);
		qp_recv(qp, i, &buffer, 1);
		flow_new(client, &req);
	}
	frame_go(scene.sender, &udp);
	run_until_idle(scene.world);
	while (cq_poll(cq, &cqe))
		got++;
	assert_int_equal(got, SIMHCA_MAX_FRAME_COPIES);
}

/*
 * As when another engine works on a receiver: the others get the frame at once and only once, and
 * that one as soon as it can. The sender's completion comes when all have it.
 */
static void a_busy_receiver_gets_it_later(void **state)
{
	struct scene scene = make(state);
	struct client *client = scene.receiver[1]->client;
	struct simhca_create_flow_req req = to(&scene, 1);
	struct simhca_read_counters_reply reply;
	struct simhca_handle counters;
	struct simhca_qp *busy;

	assert_int_equal(0, simhca_create_counters(client->context, &counters, NULL));
	for (unsigned int i = 0; i < RECEIVERS; i += 2)
		add_type(&scene, i, SIMHCA_FLOW_SNIFFER);
	req.flags = SIMHCA_FLOW_COUNT;
	req.counters = counters.handle;
	add(&scene, 1, &req);
	busy = scene.world->device[1]->qps[SIMHCA_QPN_SLOT(scene.receiver[1]->qp->qpn)];
	for (int round = 0; round < 2; round++) {
		uint32_t length = frame_make(scene.sender->mr->addr, &udp);

		assert_true(simhca_qp_begin_responder(busy));
		post(scene.sender, .id = 5, .opcode = SIMHCA_WR_SEND,
		     SGES(sge(scene.sender->mr, 0, length)));
		for (int i = 0; i < 10; i++) {
			advance(scene.world, 100 * USEC);
			assert_int_equal(arrived(scene.receiver[0]), i == 0);
			assert_int_equal(arrived(scene.receiver[2]), i == 0);
			assert_int_equal(arrived(scene.receiver[1]), 0);
			expect_none(scene.sender->send_cq);
		}
		simhca_qp_end_responder(busy);
		advance(scene.world, 100 * USEC);
		expect(scene.sender->send_cq, 5, SUCCESS);
		for (unsigned int i = 0; i < RECEIVERS; i++)
			assert_int_equal(arrived(scene.receiver[i]), i == 1);
		assert_int_equal(0, simhca_read_counters(client->context, counters.handle, &reply,
							 NULL));
		assert_int_equal(reply.packets, round + 1);
	}
}

/* One that stays busy loses it after a while, and holds up nobody for good. */
static void a_receiver_that_stays_busy_loses_it(void **state)
{
	struct scene scene = make(state);
	struct simhca_qp *busy;

	add_type(&scene, 1, SIMHCA_FLOW_SNIFFER);
	add_type(&scene, 3, SIMHCA_FLOW_SNIFFER);
	busy = scene.world->device[1]->qps[SIMHCA_QPN_SLOT(scene.receiver[1]->qp->qpn)];
	assert_true(simhca_qp_begin_responder(busy));
	frame_make(scene.sender->mr->addr, &udp);
	send_from(scene.sender, 5, 0, 142);
	for (int i = 0; i < 600; i++)
		advance(scene.world, 100 * USEC);
	expect(scene.sender->send_cq, 5, SUCCESS);
	assert_int_equal(arrived(scene.receiver[3]), 1);
	simhca_qp_end_responder(busy);
	assert_int_equal(who_gets(&scene, &udp), 1 << 1 | 1 << 3);
}

/* Nor do many flows of one QP take the place of others. */
static void a_qp_counts_once_for_that(void **state)
{
	struct scene scene = make(state);

	for (unsigned int i = 0; i < SIMHCA_MAX_FRAME_COPIES + 10; i++)
		add_type(&scene, 0, SIMHCA_FLOW_SNIFFER);
	add_type(&scene, 2, SIMHCA_FLOW_SNIFFER);
	assert_int_equal(who_gets(&scene, &udp), 1 << 0 | 1 << 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(without_a_flow_nobody_gets_anything),
		ON_ETHERNET(every_field_counts),
		ON_ETHERNET(layers_count),
		ON_ETHERNET(the_lowest_priority_number_wins),
		ON_ETHERNET(of_one_priority_the_elder_wins),
		ON_ETHERNET(equal_flows_share),
		ON_ETHERNET(equal_flows_that_do_otherwise_are_refused),
		ON_ETHERNET(a_flow_may_let_frames_pass),
		ON_ETHERNET(dropped_frames_go_nowhere),
		ON_ETHERNET(defaults_get_what_nobody_takes),
		ON_ETHERNET(sniffers_get_everything_once),
		ON_ETHERNET(nobody_gets_its_own),
		ON_ETHERNET(tags_come_with_the_frame),
		ON_ETHERNET(counters_count),
		ON_ETHERNET(what_is_no_flow),
		ON_ETHERNET(a_qp_with_flows_is_not_destroyed),
		ON_ETHERNET(flows_go_with_their_client),
		ON_ETHERNET(receivers_do_not_hold_up_each_other),
		ON_ETHERNET(a_frame_has_so_many_copies),
		ON_ETHERNET(a_qp_counts_once_for_that),
		ON_ETHERNET(a_busy_receiver_gets_it_later),
		ON_ETHERNET(a_receiver_that_stays_busy_loses_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
