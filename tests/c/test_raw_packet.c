/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RAW_PACKET QPs: whole frames, from one port to whoever has a flow for them. */
#include "frames.h"

#define PORT_MTU 4096u

/* a on device 0 sends; b on device 1 gets all frames. */
struct scene {
	struct world *world;
	struct side *a, *b;
};

static struct scene make(void **state)
{
	struct scene scene = { .world = *state };
	struct simhca_create_flow_req flow;

	scene.a = raw_side(client_new(scene.world, 0));
	scene.b = raw_side(client_new(scene.world, 1));
	flow = flow_to(scene.b->qp);
	flow_new(scene.b->client, &flow);
	return scene;
}

static void a_frame_arrives_as_it_was_sent(void **state)
{
	struct scene scene = make(state);
	static const struct recipe recipes[] = {
		{ .ether_type = 0x88b5, .payload = 0 },
		{ .ether_type = 0x88b5, .payload = 1 },
		{ .ip = 4, .l4 = IPPROTO_UDP, .payload = 1000 },
		{ .dst_mac = OTHER_MAC, .ip = 6, .l4 = IPPROTO_TCP, .payload = 777 },
		{ .tags = 1, .ip = 4, .payload = 100 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
		struct simhca_cqe cqe;
		uint32_t length;

		recv_into(scene.b, i, 0, 5000);
		length = frame_go(scene.a, &recipes[i]);
		cqe = expect(scene.b->recv_cq, i, SUCCESS);
		assert_int_equal(cqe.opcode, SIMHCA_WC_RECV);
		assert_int_equal(cqe.byte_len, length);
		assert_int_equal(cqe.flow_tag, 0);
		assert_int_equal(cqe.cvlan, 0);
		assert_memory_equal(scene.b->mr->addr, scene.a->mr->addr, length);
	}
	expect_none(scene.a->recv_cq);
}

static void scattered_gathered_and_inline(void **state)
{
	struct scene scene = make(state);
	struct mr *from = scene.a->mr, *to = scene.b->mr;
	uint32_t length = frame_make(from->addr, &(struct recipe){ .ip = 4, .payload = 150 });

	post_recv(scene.b, 1, sge(to, 1000, 5), sge(to, 0, 100), sge(to, 2000, 3000));
	post(scene.a, .id = 1, .opcode = SIMHCA_WR_SEND,
	     SGES(sge(from, 0, 7), sge(from, 7, 50), sge(from, 57, length - 57)));
	expect(scene.a->send_cq, 1, SUCCESS);
	expect(scene.b->recv_cq, 1, SUCCESS);
	assert_memory_equal(to->addr + 1000, from->addr, 5);
	assert_memory_equal(to->addr, from->addr + 5, 100);
	assert_memory_equal(to->addr + 2000, from->addr + 105, length - 105);

	recv_into(scene.b, 2, 0, 5000);
	post(scene.a, .id = 2, .opcode = SIMHCA_WR_SEND, .also = SIMHCA_WQE_INLINE,
	     .inline_data = from->addr, .inline_len = length);
	expect(scene.a->send_cq, 2, SUCCESS);
	expect(scene.b->recv_cq, 2, SUCCESS);
	assert_memory_equal(to->addr, from->addr, length);
}

static void frames_have_a_least_and_a_greatest_length(void **state)
{
	const uint32_t most = PORT_MTU + SIMHCA_FRAME_OVERHEAD;
	const struct {
		uint32_t length;
		int reason;
	} cases[] = {
		{ 0, SIMHCA_REASON_FRAME_TOO_SHORT },
		{ SIMHCA_FRAME_MIN - 1, SIMHCA_REASON_FRAME_TOO_SHORT },
		{ SIMHCA_FRAME_MIN, -1 },
		{ most, -1 },
		{ most + 1, SIMHCA_REASON_FRAME_TOO_LONG },
		{ 60000, SIMHCA_REASON_FRAME_TOO_LONG },
	};
	struct scene scene = make(state);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct side *sender = raw_side(scene.a->client);

		recv_into(scene.b, i, 0, 8192);
		post(sender, .id = i, .opcode = SIMHCA_WR_SEND,
		     SGES(sge(sender->mr, 0, cases[i].length)));
		if (cases[i].reason < 0) {
			expect(sender->send_cq, i, SUCCESS);
			assert_int_equal(expect(scene.b->recv_cq, i, SUCCESS).byte_len,
					 cases[i].length);
			continue;
		}
		expect_(sender->send_cq, i, IBV_WC_LOC_LEN_ERR, cases[i].reason, __FILE__,
			__LINE__);
		assert_int_equal(qp_state(sender->qp), IBV_QPS_SQE);
		assert_int_equal(0, qp_move(sender->qp, IBV_QPS_RTS));
		expect_none(scene.b->recv_cq);
		send_from(sender, 50, 0, SIMHCA_FRAME_MIN);
		expect(sender->send_cq, 50, SUCCESS);
		expect(scene.b->recv_cq, i, SUCCESS);
	}
}

static void only_sends(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_SEND_WITH_IMM, SIMHCA_WR_SEND_WITH_INV,
					   SIMHCA_WR_RDMA_WRITE,    SIMHCA_WR_RDMA_READ,
					   SIMHCA_WR_LOCAL_INV,	    SIMHCA_WR_BIND_MW };
	struct scene scene = make(state);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct side *sender = raw_side(scene.a->client);

		post(sender, .id = i, .opcode = opcodes[i], SGES(sge(sender->mr, 0, 64)));
		expect_why(sender->send_cq, i, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
	}
}

/* As on a wire: the sender does not hear of it, and the next one is as good as ever. */
static void without_a_receive_a_frame_is_lost(void **state)
{
	struct scene scene = make(state);

	for (int i = 0; i < 5; i++)
		frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 10 });
	expect_none(scene.b->recv_cq);
	recv_into(scene.b, 1, 0, 5000);
	frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 20 });
	assert_int_equal(expect(scene.b->recv_cq, 1, SUCCESS).byte_len, 54);
}

static void a_buffer_that_is_too_short_fails_the_receiver(void **state)
{
	struct scene scene = make(state);

	recv_into(scene.b, 1, 0, 50);
	recv_into(scene.b, 2, 0, 50);
	frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 50 });
	expect_why(scene.b->recv_cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
	expect(scene.b->recv_cq, 2, WR_FLUSH_ERR);
	assert_int_equal(qp_state(scene.b->qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(scene.a->qp), IBV_QPS_RTS);
}

static void bad_buffers(void **state)
{
	struct scene scene = make(state);
	struct simhca_sge wrong = sge(scene.a->mr, 0, 64);

	recv_into(scene.b, 1, 0, 5000);
	wrong.lkey ^= 1;
	post(scene.a, .id = 1, .opcode = SIMHCA_WR_SEND, SGES(wrong));
	expect_why(scene.a->send_cq, 1, LOC_PROT_ERR, KEY_STALE);
	expect_none(scene.b->recv_cq);

	assert_int_equal(0, qp_move(scene.a->qp, IBV_QPS_RTS));
	wrong = sge(scene.b->mr, 0, 64);
	wrong.lkey ^= 1;
	expect_none(scene.b->recv_cq);
	frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 10 });
	expect(scene.b->recv_cq, 1, SUCCESS);
	post_recv(scene.b, 2, wrong);
	frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 10 });
	expect_why(scene.b->recv_cq, 2, LOC_PROT_ERR, KEY_STALE);
}

static void receivers_receive_from_rtr_on(void **state)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct scene scene = make(state);
	struct side *c = side_new(scene.b->client, &options);
	struct simhca_create_flow_req flow = flow_to(c->qp);

	flow_new(c->client, &flow);
	qp_up_to(c->qp, IBV_QPS_INIT, qp_attr_to(c->qp, 0, 0, &options));
	recv_into(c, 1, 0, 5000);
	frame_go(scene.a, &(struct recipe){ .ip = 4 });
	expect_none(c->recv_cq);
	assert_int_equal(0, qp_move(c->qp, IBV_QPS_RTR));
	frame_go(scene.a, &(struct recipe){ .ip = 4 });
	expect(c->recv_cq, 1, SUCCESS);
	/* and no more once it is in RESET, where the flow stays */
	recv_into(c, 2, 0, 5000);
	assert_int_equal(0, qp_move(c->qp, IBV_QPS_RESET));
	frame_go(scene.a, &(struct recipe){ .ip = 4 });
	expect_none(c->recv_cq);
}

static void attributes(void **state)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct world *world = *state;
	struct client *client = client_new(world, 0);
	struct side *side = side_new(client, &options);
	struct simhca_qp_attr attr = { .port_num = 1, .qp_state = IBV_QPS_INIT };

	assert_int_equal(-EINVAL, qp_modify(side->qp, SIMHCA_QP_STATE, attr));
	assert_int_equal(-EINVAL,
			 qp_modify(side->qp, SIMHCA_QP_STATE | SIMHCA_QP_PORT | SIMHCA_QP_QKEY,
				   attr));
	assert_int_equal(0, qp_modify(side->qp, SIMHCA_QP_STATE | SIMHCA_QP_PORT, attr));
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(-EINVAL, qp_modify(side->qp, SIMHCA_QP_STATE | SIMHCA_QP_AV, attr));
	assert_int_equal(0, qp_modify(side->qp, SIMHCA_QP_STATE, attr));
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(-EINVAL, qp_modify(side->qp, SIMHCA_QP_STATE | SIMHCA_QP_SQ_PSN, attr));
	assert_int_equal(0, qp_modify(side->qp, SIMHCA_QP_STATE, attr));
	assert_int_equal(0, qp_move(side->qp, IBV_QPS_SQD));
	assert_int_equal(0, qp_move(side->qp, IBV_QPS_RTS));
	assert_int_equal(0, qp_move(side->qp, IBV_QPS_ERR));
	assert_int_equal(0, qp_move(side->qp, IBV_QPS_RESET));
}

static void an_infiniband_port_has_none(void **state)
{
	struct world *world = *state;
	struct client *client = client_new(world, 0);
	struct cq *cq = cq_new(client, 16);
	struct simhca_create_qp_req req = { .type = SIMHCA_QPT_RAW_PACKET,
					    .pd = client->pd,
					    .send_cq = cq->handle,
					    .recv_cq = cq->handle };
	struct simhca_create_wq_req wq = { .pd = client->pd, .cq = cq->handle, .max_wr = 1 };
	struct simhca_create_qp_reply reply;

	assert_int_equal(-EOPNOTSUPP, simhca_create_qp(client->context, &req, &reply, NULL));
	assert_int_equal(-EOPNOTSUPP, simhca_create_wq(client->context, &wq, &reply, NULL));
}

/* A port that is down neither sends nor hears. */
static void ports_that_are_down(void **state)
{
	struct scene scene = make(state);

	for (unsigned int device = 0; device < 2; device++) {
		recv_into(scene.b, device, 0, 5000);
		simhca_device_set_port(scene.world->device[device], false);
		frame_go(scene.a, &(struct recipe){ .ip = 4 });
		expect_none(scene.b->recv_cq);
		simhca_device_set_port(scene.world->device[device], true);
		frame_go(scene.a, &(struct recipe){ .ip = 4 });
		expect(scene.b->recv_cq, device, SUCCESS);
	}
}

static void an_srq_takes_frames(void **state)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct scene scene = make(state);
	struct client *client = client_new(scene.world, 0);
	struct srq *srq = srq_new(client, 8, 1, 0);
	struct simhca_create_flow_req flow;
	struct simhca_sge buffer;
	struct simhca_cqe cqe;
	struct side c;

	side_make(&c, client, &options, srq);
	qp_connect(c.qp, 0, 0, &options);
	flow = flow_to(c.qp);
	flow_new(client, &flow);
	buffer = sge(c.mr, 0, 5000);
	srq_recv(srq, 7, &buffer, 1);
	frame_go(scene.a, &(struct recipe){ .ip = 4, .payload = 100 });
	cqe = expect(c.recv_cq, 7, SUCCESS);
	assert_true(cqe.flags & SIMHCA_CQE_SRQ);
	assert_memory_equal(c.mr->addr, scene.a->mr->addr, 134);
}

static void checksums_are_filled_in_on_request(void **state)
{
	struct scene scene = make(state);
	struct recipe recipe = { .ip = 4,
				 .src_ip = 0x0a000001,
				 .dst_ip = 0x0a000002,
				 .l4 = IPPROTO_UDP,
				 .payload = 333 };
	uint32_t length = frame_make(scene.a->mr->addr, &recipe);
	uint8_t *got = scene.b->mr->addr;

	put16(scene.a->mr->addr + 40, 0xbad);
	recv_into(scene.b, 1, 0, 5000);
	frame_send(scene.a, length, 0);
	assert_false(expect(scene.b->recv_cq, 1, SUCCESS).flags & SIMHCA_CQE_CSUM_OK);
	assert_memory_equal(got, scene.a->mr->addr, length);

	recv_into(scene.b, 2, 0, 5000);
	frame_send(scene.a, length, SIMHCA_WQE_IP_CSUM);
	assert_true(expect(scene.b->recv_cq, 2, SUCCESS).flags & SIMHCA_CQE_CSUM_OK);
	assert_int_not_equal(got[24] << 8 | got[25], 0);
	assert_int_not_equal(got[40] << 8 | got[41], 0xbad);
	/* The sender's own memory is not touched, and all else is as it was. */
	assert_int_equal(scene.a->mr->addr[40] << 8 | scene.a->mr->addr[41], 0xbad);
	put16(got + 24, 0);
	put16(got + 40, 0xbad);
	assert_memory_equal(got, scene.a->mr->addr, length);
}

static void vlan_tags_are_stripped_on_request(void **state)
{
	static const struct {
		struct recipe recipe;
		bool strips;
	} cases[] = {
		{ { .tags = 1, .vlan_tag = 0xa123, .ip = 4, .payload = 50 }, true },
		{ { .tags = 2, .vlan_tag = 0x0005, .ip = 4, .payload = 50 }, true },
		{ { .tags = 1, .tpid = 0x88a8, .vlan_tag = 5, .ip = 4, .payload = 50 }, false },
		{ { .ip = 4, .payload = 50 }, false },
	};
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct scene scene = make(state);
	struct simhca_create_flow_req flow;
	struct side *c;

	options.strip_cvlan = true;
	c = side_new(scene.b->client, &options);
	qp_connect(c->qp, 0, 0, &options);
	flow = flow_to(c->qp);
	flow_new(c->client, &flow);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const uint8_t *sent = scene.a->mr->addr;
		uint32_t gone = cases[i].strips ? 4 : 0, length;
		struct simhca_cqe cqe;

		recv_into(c, i, 0, 5000);
		recv_into(scene.b, i, 0, 5000);
		length = frame_go(scene.a, &cases[i].recipe);
		cqe = expect(c->recv_cq, i, SUCCESS);
		assert_int_equal(cqe.byte_len, length - gone);
		assert_int_equal(cqe.cvlan, cases[i].strips ? cases[i].recipe.vlan_tag : 0);
		assert_memory_equal(c->mr->addr, sent, 12);
		assert_memory_equal(c->mr->addr + 12, sent + 12 + gone, length - 12 - gone);
		/* The other QP has not asked for it. */
		assert_int_equal(expect(scene.b->recv_cq, i, SUCCESS).byte_len, length);
		assert_memory_equal(scene.b->mr->addr, sent, length);
	}
}

/* Only for RAW_PACKET. */
static void other_qps_do_not_strip(void **state)
{
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 16);
	struct simhca_create_qp_req req = { .type = SIMHCA_QPT_UD,
					    .pd = client->pd,
					    .send_cq = cq->handle,
					    .recv_cq = cq->handle,
					    .strip_cvlan = 1 };
	struct simhca_create_qp_reply reply;

	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &req, &reply, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_frame_arrives_as_it_was_sent),
		ON_ETHERNET(scattered_gathered_and_inline),
		ON_ETHERNET(frames_have_a_least_and_a_greatest_length),
		ON_ETHERNET(only_sends),
		ON_ETHERNET(without_a_receive_a_frame_is_lost),
		ON_ETHERNET(a_buffer_that_is_too_short_fails_the_receiver),
		ON_ETHERNET(bad_buffers),
		ON_ETHERNET(receivers_receive_from_rtr_on),
		ON_ETHERNET(attributes),
		ON_INFINIBAND(an_infiniband_port_has_none),
		ON_ETHERNET(ports_that_are_down),
		ON_ETHERNET(an_srq_takes_frames),
		ON_ETHERNET(checksums_are_filled_in_on_request),
		ON_ETHERNET(vlan_tags_are_stripped_on_request),
		ON_ETHERNET(other_qps_do_not_strip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
