/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Ethernet frames for tests, the sides that send and receive them, and flows. */
#ifndef SIMHCA_TEST_FRAMES_H
#define SIMHCA_TEST_FRAMES_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "harness.h"

#define GROUP_MAC "\x01\x00\x5e\x01\x02\x03"
#define SOME_MAC "\x02\x11\x22\x33\x44\x55"
#define OTHER_MAC "\x02\xaa\xbb\xcc\xdd\xee"

/* What a frame is made of; what is left out is 0, or not there. */
struct recipe {
	const char *dst_mac, *src_mac; /* NULL: GROUP_MAC, SOME_MAC */
	unsigned int tags;
	uint16_t tpid; /* of the first tag; 0: 0x8100 */
	uint16_t vlan_tag;
	uint16_t ether_type; /* without IP */
	unsigned int ip;     /* 4, 6 or 0 */
	uint32_t src_ip, dst_ip;
	uint8_t src_ip6[16], dst_ip6[16];
	uint8_t tos, ttl, proto;
	uint16_t fragment;   /* of IPv4: flags and offset */
	uint32_t flow_label; /* of IPv6 */
	unsigned int l4;     /* IPPROTO_TCP, IPPROTO_UDP or 0 */
	uint16_t src_port, dst_port;
	uint32_t payload; /* bytes */
};

static inline uint8_t *put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static inline uint8_t *put_l4(uint8_t *at, const struct recipe *recipe)
{
	uint8_t *begin = at;

	if (!recipe->l4)
		return at;
	put16(at, recipe->src_port);
	put16(at + 2, recipe->dst_port);
	if (recipe->l4 == IPPROTO_UDP) {
		put16(at + 4, 8 + recipe->payload);
		return begin + 8;
	}
	at[12] = 5 << 4;
	return begin + 20;
}

/* Writes the frame, payload and all, and returns its length. */
static inline uint32_t frame_make(uint8_t *frame, const struct recipe *recipe)
{
	uint32_t l4 = recipe->l4 == IPPROTO_TCP ? 20 : recipe->l4 == IPPROTO_UDP ? 8 : 0;
	uint8_t proto = recipe->l4 ? (uint8_t)recipe->l4 : recipe->proto;
	uint8_t *at = frame + 12;

	memset(frame, 0, 128);
	memcpy(frame, recipe->dst_mac ? recipe->dst_mac : GROUP_MAC, 6);
	memcpy(frame + 6, recipe->src_mac ? recipe->src_mac : SOME_MAC, 6);
	for (unsigned int i = 0; i < recipe->tags; i++) {
		at = put16(at, !i && recipe->tpid ? recipe->tpid : 0x8100);
		at = put16(at, recipe->vlan_tag + i);
	}
	at = put16(at, recipe->ip == 4 ? 0x0800 : recipe->ip == 6 ? 0x86dd : recipe->ether_type);
	if (recipe->ip == 4) {
		at[0] = 0x45;
		at[1] = recipe->tos;
		put16(at + 2, 20 + l4 + recipe->payload);
		put16(at + 6, recipe->fragment);
		at[8] = recipe->ttl;
		at[9] = proto;
		put16(at + 12, recipe->src_ip >> 16);
		put16(at + 14, recipe->src_ip);
		put16(at + 16, recipe->dst_ip >> 16);
		put16(at + 18, recipe->dst_ip);
		at += 20;
	} else if (recipe->ip == 6) {
		put16(at, 6u << 12 | (uint32_t)recipe->tos << 4 | recipe->flow_label >> 16);
		put16(at + 2, recipe->flow_label);
		put16(at + 4, l4 + recipe->payload);
		at[6] = proto;
		at[7] = recipe->ttl;
		memcpy(at + 8, recipe->src_ip6, 16);
		memcpy(at + 24, recipe->dst_ip6, 16);
		at += 40;
	}
	at = put_l4(at, recipe);
	fill(at, recipe->payload, recipe->payload + recipe->src_port);
	return (uint32_t)(at - frame) + recipe->payload;
}

/* A RAW_PACKET side in RTS. */
static inline struct side *raw_side(struct client *client)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct side *side = side_new(client, &options);

	qp_connect(side->qp, 0, 0, &options);
	return side;
}

/* A frame that lies at the start of the side's buffer goes out; its completion is a success. */
static inline void frame_send(struct side *side, uint32_t length, uint8_t also)
{
	post(side, .id = 99, .opcode = SIMHCA_WR_SEND, .also = also,
	     SGES(sge(side->mr, 0, length)));
	expect(side->send_cq, 99, SUCCESS);
}

static inline uint32_t frame_go(struct side *side, const struct recipe *recipe)
{
	uint32_t length = frame_make(side->mr->addr, recipe);

	frame_send(side, length, 0);
	return length;
}

/* A flow that takes all frames, to be made narrower. */
static inline struct simhca_create_flow_req flow_to(const struct qp *qp)
{
	return (struct simhca_create_flow_req){ .qp = qp->handle, .port = 1 };
}

/* The whole of a field has to be as given. */
#define FLOW_WANTS(req, field, ...)                                                                \
	do {                                                                                       \
		__typeof__((req)->value.field) value_ = __VA_ARGS__;                               \
                                                                                                   \
		memcpy(&(req)->value.field, &value_, sizeof(value_));                              \
		memset(&(req)->mask.field, 0xff, sizeof(value_));                                  \
	} while (0)
static inline void flow_wants_layer(struct simhca_create_flow_req *req, uint32_t layer)
{
	req->value.layers |= layer;
	req->mask.layers |= layer;
}

/* 0 or a negative errno. */
static inline int flow_try(struct client *client, const struct simhca_create_flow_req *req,
			   uint32_t *handle)
{
	struct simhca_handle reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = simhca_create_flow(client->context, req, &reply, &why);

	if (error && getenv("SIMHCA_TEST_LOG"))
		print_message("[      LOG ] create_flow: %s\n", why.text);
	if (handle)
		*handle = reply.handle;
	return error;
}

static inline uint32_t flow_new(struct client *client, const struct simhca_create_flow_req *req)
{
	uint32_t handle;

	assert_int_equal(0, flow_try(client, req, &handle));
	return handle;
}

static inline void flow_gone(struct client *client, uint32_t handle)
{
	assert_int_equal(0, simhca_destroy_flow(client->context, handle, NULL));
}

#endif
