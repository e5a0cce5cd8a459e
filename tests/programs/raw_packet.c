/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RAW_PACKET QPs, flows, counters, WQs and RSS, as libibverbs has them. The argument says what is
 * looked at. Without an Ethernet port or CAP_NET_RAW there is a refusal of its own to see.
 */
#include <arpa/inet.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "helper.h"

#define BUFFER 2048
#define FRAME 200
#define KEY_BYTES 40

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[16 * BUFFER];
static const uint8_t group[6] = { 0x01, 0, 0x5e, 1, 2, 3 };

#define FAILS(error, call)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(!(call));                                                                    \
		CHECK(errno == (error));                                                           \
	} while (0)

static struct ibv_qp *raw_qp(struct ibv_cq *recv_cq, uint32_t create_flags, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = recv_cq,
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.create_flags = create_flags,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(context, &attr);
}

static void raw_start(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

/* IPv4 and UDP, behind a VLAN tag if it is not 0; without checksums. Returns its length. */
static uint32_t make_frame(uint16_t vlan, uint32_t src_ip)
{
	uint8_t *at = memory;

	memset(memory, 0x5a, FRAME);
	memcpy(at, group, 6);
	memcpy(at + 6, "\x02\x11\x22\x33\x44\x55", 6);
	at += 12;
	if (vlan) {
		memcpy(at, "\x81\x00", 2);
		at[2] = (uint8_t)(vlan >> 8);
		at[3] = (uint8_t)vlan;
		at += 4;
	}
	memcpy(at, "\x08\x00\x45\x00\x00\x64\x00\x00\x00\x00\x40\x11\x00\x00", 14);
	src_ip = htonl(src_ip);
	memcpy(at + 14, &src_ip, 4);
	memcpy(at + 18, "\x02\x02\x02\x02\x04\xd2\x16\x2e\x00\x50\x00\x00", 12);
	return (uint32_t)(at - memory) + 114;
}

static void send_frame(struct ibv_qp *qp, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = length, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
	};

	CHECK(!post_send(qp, &wr));
	poll_success(cq);
}

/* ---------------------------------------------------------------------------------- flows */

/* A flow and room for specs, which are packed behind it. */
struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
};

static struct rule rule_new(void)
{
	return (struct rule){ .attr = { .type = IBV_FLOW_ATTR_NORMAL, .port = 1 } };
}

static void rule_add(struct rule *rule, const void *spec, size_t size)
{
	uint8_t *at = rule->specs;

	for (unsigned int i = 0; i < rule->attr.num_of_specs; i++)
		at += ((struct ibv_flow_spec *)(void *)at)->hdr.size;
	memcpy(at, spec, size);
	rule->attr.num_of_specs++;
	rule->attr.size = (uint16_t)(sizeof(rule->attr) + (size_t)(at - rule->specs) + size);
}
#define ADD(rule, ...)                                                                             \
	do {                                                                                       \
		__VA_ARGS__;                                                                       \
                                                                                                   \
		rule_add(rule, &spec, spec.size);                                                  \
	} while (0)
#define UDP_SPEC                                                                                   \
	struct ibv_flow_spec_tcp_udp spec = { .type = IBV_FLOW_SPEC_UDP, .size = sizeof(spec) }
#define TAG_SPEC(tag)                                                                              \
	struct ibv_flow_spec_action_tag spec = { .type = IBV_FLOW_SPEC_ACTION_TAG,                 \
						 .size = sizeof(spec),                             \
						 .tag_id = (tag) }

static struct ibv_flow *flow_new(struct ibv_qp *qp, struct rule *rule)
{
	struct ibv_flow *flow = ibv_create_flow(qp, &rule->attr);

	CHECK(flow);
	return flow;
}

static void refused_flows(struct ibv_qp *qp)
{
	static const uint32_t elsewhere[] = { IBV_FLOW_SPEC_ESP,
					      IBV_FLOW_SPEC_VXLAN_TUNNEL,
					      IBV_FLOW_SPEC_GRE,
					      IBV_FLOW_SPEC_MPLS,
					      IBV_FLOW_SPEC_ACTION_HANDLE,
					      IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ETH,
					      IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_UDP };
	struct rule rule = rule_new();

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		struct ibv_flow_spec_eth spec = { .size = sizeof(spec) };

		spec.type = (enum ibv_flow_spec_type)elsewhere[i];
		rule = rule_new();
		rule_add(&rule, &spec, sizeof(spec));
		FAILS(EOPNOTSUPP, ibv_create_flow(qp, &rule.attr));
	}
	rule = rule_new();
	ADD(&rule, struct ibv_flow_spec_eth spec = { .type = 0x77, .size = sizeof(spec) });
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	ADD(&rule, UDP_SPEC; spec.size--);
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	ADD(&rule, UDP_SPEC);
	ADD(&rule, UDP_SPEC);
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	ADD(&rule,
	    struct ibv_flow_spec_ipv4 spec = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof(spec) });
	ADD(&rule, struct ibv_flow_spec_ipv4_ext spec = { .type = IBV_FLOW_SPEC_IPV4_EXT,
							  .size = sizeof(spec) });
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	for (int i = 0; i < 11; i++)
		ADD(&rule, struct ibv_flow_spec_action_drop spec = {
				   .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(spec) });
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	ADD(&rule, TAG_SPEC(1 << 24));
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	ADD(&rule, struct ibv_flow_spec_counter_action spec = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
								.size = sizeof(spec) });
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));

	rule = rule_new();
	rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	FAILS(EOPNOTSUPP, ibv_create_flow(qp, &rule.attr));
	rule.attr.flags = 1;
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	rule.attr.comp_mask = 1;
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	rule.attr.port = 2;
	FAILS(EINVAL, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	rule.attr.priority = 16;
	FAILS(ENOSPC, ibv_create_flow(qp, &rule.attr));
	rule = rule_new();
	FAILS(EINVAL, ibv_create_flow(make_qp(pd, cq, IBV_QPT_UD), &rule.attr));
}

static void counted(struct ibv_counters *counters, uint64_t packets, uint64_t bytes)
{
	uint64_t values[4] = { 9, 9, 9, 9 };

	CHECK(!ibv_read_counters(counters, values, 4, IBV_READ_COUNTERS_ATTR_PREFER_CACHED));
	CHECK(values[0] == packets && values[1] == 0 && values[2] == bytes && values[3] == 0);
}

static void counting(struct ibv_qp *sender, struct ibv_qp *receiver)
{
	struct ibv_counters_init_attr init = { .comp_mask = 1 };
	struct ibv_counter_attach_attr attach = { .counter_desc = IBV_COUNTER_PACKETS };
	struct rule rule = rule_new();
	struct ibv_counters *counters;
	struct ibv_flow *flow;
	uint64_t values[4];
	uint32_t length;

	FAILS(EOPNOTSUPP, ibv_create_counters(context, &init));
	init.comp_mask = 0;
	counters = ibv_create_counters(context, &init);
	CHECK(counters);
	CHECK(!ibv_attach_counters_point_flow(counters, &attach, NULL));
	attach = (struct ibv_counter_attach_attr){ .counter_desc = IBV_COUNTER_BYTES, .index = 2 };
	CHECK(!ibv_attach_counters_point_flow(counters, &attach, NULL));
	attach.counter_desc = 7;
	CHECK(ibv_attach_counters_point_flow(counters, &attach, NULL) == EOPNOTSUPP);
	counted(counters, 0, 0);
	ADD(&rule, UDP_SPEC);
	ADD(&rule, struct ibv_flow_spec_counter_action spec = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
								.size = sizeof(spec),
								.counters = counters });
	flow = flow_new(receiver, &rule);
	attach.counter_desc = IBV_COUNTER_BYTES;
	CHECK(ibv_attach_counters_point_flow(counters, &attach, flow) == EOPNOTSUPP);
	CHECK(ibv_attach_counters_point_flow(counters, &attach, NULL) == EBUSY);
	for (uint64_t i = 1; i <= 3; i++) {
		CHECK(!post_recv(receiver, i, mr, i * BUFFER, BUFFER));
		length = make_frame(0, 1);
		send_frame(sender, length, 0);
		CHECK(poll_success(receiver->recv_cq).wr_id == i);
		counted(counters, i, i * length);
	}
	CHECK(ibv_read_counters(counters, values, 2, 0) == EINVAL);
	CHECK(ibv_read_counters(counters, values, 4, 4) == EINVAL);
	CHECK(ibv_destroy_counters(counters) == EBUSY);
	CHECK(!ibv_destroy_flow(flow));
	CHECK(!ibv_destroy_counters(counters));
}

static void flows(void)
{
	struct ibv_cq *recv_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *sender = raw_qp(cq, 0, 0), *receiver = raw_qp(recv_cq, 0, 0);
	struct rule rule = rule_new();
	struct ibv_flow *flow;

	CHECK(recv_cq && sender && receiver);
	raw_start(sender);
	raw_start(receiver);
	refused_flows(receiver);
	counting(sender, receiver);
	flow = flow_new(receiver, &rule);
	CHECK(flow->context == context && !flow->comp_mask);
	CHECK(ibv_destroy_qp(receiver) == EBUSY);
	CHECK(!ibv_destroy_flow(flow));
	CHECK(!ibv_destroy_qp(receiver));
	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_cq(recv_cq));
}

/* ------------------------------------------------------------- ibv_wr_*(), extended polling */

static struct ibv_cq_ex *start_poll(struct ibv_cq_ex *cq_ex)
{
	struct ibv_poll_cq_attr attr = {};
	double end = now() + 10;

	while (ibv_start_poll(cq_ex, &attr))
		CHECK(now() < end);
	CHECK(cq_ex->status == IBV_WC_SUCCESS);
	return cq_ex;
}

static void extended(void)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_CVLAN |
			    IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_QP_NUM,
	};
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(context, &cq_attr);
	struct rule rule = rule_new();
	struct ibv_qp *sender, *receiver;
	struct ibv_flow *flow;
	struct ibv_qp_ex *ex;
	uint32_t length;

	CHECK(cq_ex);
	FAILS(EOPNOTSUPP, raw_qp(cq, 0, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO));
	FAILS(EOPNOTSUPP, raw_qp(cq, 0, IBV_QP_EX_WITH_SEND_WITH_IMM));
	FAILS(EOPNOTSUPP, raw_qp(cq, IBV_QP_CREATE_SCATTER_FCS, 0));
	sender = raw_qp(cq, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, IBV_QP_EX_WITH_SEND);
	receiver = raw_qp(ibv_cq_ex_to_cq(cq_ex), IBV_QP_CREATE_CVLAN_STRIPPING, 0);
	CHECK(sender && receiver);
	raw_start(sender);
	raw_start(receiver);
	ADD(&rule, UDP_SPEC);
	ADD(&rule, TAG_SPEC(0xabcde));
	flow = flow_new(receiver, &rule);

	for (int vlan = 0; vlan < 2; vlan++) {
		for (int checksums = 0; checksums < 2; checksums++) {
			CHECK(!post_recv(receiver, 5, mr, BUFFER, BUFFER));
			length = make_frame(vlan ? 0x6123 : 0, 0x01020304);
			ex = ibv_qp_to_qp_ex(sender);
			ibv_wr_start(ex);
			ex->wr_id = 4;
			ex->wr_flags = IBV_SEND_SIGNALED | (checksums ? IBV_SEND_IP_CSUM : 0);
			ibv_wr_send(ex);
			if (vlan)
				ibv_wr_set_inline_data(ex, memory, length);
			else
				ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, length);
			CHECK(!ibv_wr_complete(ex));
			CHECK(poll_success(cq).wr_id == 4);

			start_poll(cq_ex);
			CHECK(cq_ex->wr_id == 5);
			CHECK(ibv_wc_read_opcode(cq_ex) == IBV_WC_RECV);
			CHECK(ibv_wc_read_qp_num(cq_ex) == receiver->qp_num);
			CHECK(ibv_wc_read_byte_len(cq_ex) == length - (vlan ? 4 : 0));
			CHECK(ibv_wc_read_cvlan(cq_ex) == (vlan ? 0x6123 : 0));
			CHECK(ibv_wc_read_flow_tag(cq_ex) == 0xabcde);
			CHECK(!!(ibv_wc_read_wc_flags(cq_ex) & IBV_WC_IP_CSUM_OK) == checksums);
			ibv_end_poll(cq_ex);
			CHECK(!memcmp(memory + BUFFER, memory, 12));
			CHECK(!memcmp(memory + BUFFER + 12, "\x08\x00", 2));
		}
	}
	CHECK(!ibv_destroy_flow(flow));
	CHECK(!ibv_destroy_qp(receiver));
	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
}

/* ------------------------------------------------------------------------------------- RSS */

static struct ibv_qp *rss_qp(struct ibv_rwq_ind_table *table, uint64_t fields, uint8_t key_length)
{
	static uint8_t key[KEY_BYTES] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2,
					  0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
					  0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4,
					  0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
					  0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = key_length,
				  .rx_hash_key = key,
				  .rx_hash_fields_mask = fields },
	};

	return ibv_create_qp_ex(context, &attr);
}

static int wq_recv(struct ibv_wq *wq, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + (id & 15) * BUFFER,
			       .length = BUFFER,
			       .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_wq_recv(wq, &wr, &bad);
}

static int wq_go(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	return ibv_modify_wq(wq, &attr);
}

enum { WQS = 4, WQ_DEPTH = 8 };

static void wq_states(struct ibv_wq *wq, struct ibv_cq *wq_cq)
{
	struct ibv_wq_attr flags = { .attr_mask = IBV_WQ_ATTR_FLAGS,
				     .flags_mask = IBV_WQ_FLAGS_SCATTER_FCS };

	CHECK(wq->state == IBV_WQS_RESET && wq->context == context && wq->pd == pd);
	CHECK(wq_recv(wq, 1) == EINVAL);
	CHECK(wq_go(wq, IBV_WQS_ERR) == EINVAL);
	CHECK(ibv_modify_wq(wq, &flags) == EOPNOTSUPP);
	flags.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	CHECK(!ibv_modify_wq(wq, &flags));
	CHECK(!wq_go(wq, IBV_WQS_RDY));
	CHECK(wq->state == IBV_WQS_RDY);
	for (uint64_t i = 0; i < WQ_DEPTH; i++)
		CHECK(!wq_recv(wq, i));
	CHECK(wq_recv(wq, 99) == ENOMEM);
	CHECK(!wq_go(wq, IBV_WQS_ERR));
	for (uint64_t i = 0; i < WQ_DEPTH; i++) {
		struct ibv_wc wc = poll_one(wq_cq);

		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i);
		CHECK(wc.qp_num == wq->wq_num);
	}
	CHECK(!wq_recv(wq, 7)); /* posted in ERR: flushed at once */
	CHECK(poll_one(wq_cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!wq_recv(wq, 8));
	/* RESET takes the completions that were not polled, and all slots are free again. */
	CHECK(!wq_go(wq, IBV_WQS_RESET));
	CHECK(!ibv_poll_cq(wq_cq, 1, &(struct ibv_wc){}));
	CHECK(!wq_go(wq, IBV_WQS_RDY));
	for (uint64_t i = 0; i < WQ_DEPTH; i++)
		CHECK(!wq_recv(wq, i));
}

static void rss(void)
{
	struct ibv_cq *wq_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = WQ_DEPTH, .max_sge = 1, .pd = pd, .cq = wq_cq
	};
	struct ibv_rwq_ind_table_init_attr table_attr = { .log_ind_tbl_size = 2 };
	const uint64_t ipv4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_rwq_ind_table *table;
	struct rule rule = rule_new();
	unsigned int hit[WQS] = {};
	struct ibv_qp *qp, *sender;
	struct ibv_wq *wqs[WQS];
	struct ibv_flow *flow;

	CHECK(wq_cq);
	attr.comp_mask = 2;
	FAILS(EOPNOTSUPP, ibv_create_wq(context, &attr));
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	FAILS(EOPNOTSUPP, ibv_create_wq(context, &attr));
	attr.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	for (int i = 0; i < WQS; i++) {
		wqs[i] = ibv_create_wq(context, &attr);
		CHECK(wqs[i]);
		wq_states(wqs[i], wq_cq);
	}
	table_attr.ind_tbl = wqs;
	table_attr.comp_mask = 1;
	FAILS(EOPNOTSUPP, ibv_create_rwq_ind_table(context, &table_attr));
	table_attr.comp_mask = 0;
	table_attr.log_ind_tbl_size = 7;
	FAILS(EINVAL, ibv_create_rwq_ind_table(context, &table_attr));
	table_attr.log_ind_tbl_size = 2;
	table = ibv_create_rwq_ind_table(context, &table_attr);
	CHECK(table && table->context == context);

	FAILS(EINVAL, rss_qp(table, ipv4, 39));
	FAILS(EINVAL, rss_qp(table, ipv4 | IBV_RX_HASH_SRC_IPV6, KEY_BYTES));
	FAILS(EOPNOTSUPP, rss_qp(table, ipv4 | IBV_RX_HASH_INNER, KEY_BYTES));
	qp = rss_qp(table, ipv4, KEY_BYTES);
	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PORT) == ENOSYS);
	CHECK(ibv_query_qp(qp, &state, IBV_QP_STATE, &init) == ENOSYS);
	CHECK(post_recv(qp, 1, mr, 0, 1) == EINVAL);
	sender = raw_qp(cq, 0, 0);
	raw_start(sender);
	flow = flow_new(qp, &rule);
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t length = make_frame(0, 0x0a000000 + i);
		struct ibv_wc wc;

		send_frame(sender, length, 0);
		wc = poll_success(wq_cq);
		CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == length);
		for (int w = 0; w < WQS; w++) {
			if (wqs[w]->wq_num != wc.qp_num)
				continue;
			hit[w]++;
			CHECK(!wq_recv(wqs[w], wc.wr_id));
		}
	}
	for (int w = 0; w < WQS; w++)
		CHECK(hit[w] > 4);

	CHECK(ibv_destroy_rwq_ind_table(table) == EBUSY);
	CHECK(ibv_destroy_wq(wqs[0]) == EBUSY);
	CHECK(ibv_destroy_cq(wq_cq) == EBUSY);
	CHECK(!ibv_destroy_flow(flow));
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_rwq_ind_table(table));
	for (int i = 0; i < WQS; i++)
		CHECK(!ibv_destroy_wq(wqs[i]));
	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_cq(wq_cq));
}

/* ---------------------------------------------------------------------------- who may do it */

static void set_net_raw(bool on)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	CHECK(!syscall(SYS_capget, &header, data));
	data[0].effective &= ~(1u << CAP_NET_RAW);
	data[0].effective |= on ? 1u << CAP_NET_RAW : 0;
	CHECK(!syscall(SYS_capset, &header, data));
}

/* The capability counts at the time of the call, and not for what there is already. */
static void dropped(void)
{
	struct ibv_qp *qp = raw_qp(cq, 0, 0);
	struct rule rule = rule_new();

	CHECK(qp);
	set_net_raw(false);
	FAILS(EPERM, raw_qp(cq, 0, 0));
	FAILS(EPERM, ibv_create_flow(qp, &rule.attr));
	raw_start(qp);
	make_frame(0, 1);
	send_frame(qp, 100, 0);
	set_net_raw(true);
	CHECK(!ibv_destroy_flow(flow_new(qp, &rule)));
	CHECK(!ibv_destroy_qp(qp));
}

/* As in a set-user-ID program: whose capabilities these are cannot be told. */
static void set_uid(void)
{
	CHECK(!setresuid(65534, 0, 0));
	FAILS(EPERM, raw_qp(cq, 0, 0));
	CHECK(!setresuid(0, 0, 0));
	CHECK(raw_qp(cq, 0, 0));
}

static void denied(void)
{
	FAILS(EPERM, raw_qp(cq, 0, 0));
	FAILS(EPERM, rss_qp(&(struct ibv_rwq_ind_table){}, 1, KEY_BYTES));
}

static void capabilities(void)
{
	const uint32_t raw = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM;
	bool ethernet = is_ethernet(context);
	struct ibv_device_attr_ex attr;

	CHECK(!ibv_query_device_ex(context, NULL, &attr));
	CHECK(attr.raw_packet_caps == (ethernet ? raw : 0));
	CHECK(!attr.tso_caps.max_tso);
	CHECK(attr.max_wq_type_rq == (ethernet ? 16384 : 0));
	CHECK(attr.rss_caps.supported_qpts == (ethernet ? 1u << IBV_QPT_RAW_PACKET : 0));
	CHECK(attr.rss_caps.max_rwq_indirection_table_size == (ethernet ? 64 : 0));
	CHECK(!!attr.rss_caps.rx_hash_function == ethernet);
	CHECK(!!(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING) == ethernet);
	CHECK(!!(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM) == ethernet);
}

/* On InfiniBand, for whoever may ask. */
static void no_ethernet(void)
{
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq
	};

	FAILS(EOPNOTSUPP, raw_qp(cq, 0, 0));
	FAILS(EOPNOTSUPP, ibv_create_wq(context, &wq));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} what[] = {
		{ "flows", flows },
		{ "extended", extended },
		{ "rss", rss },
		{ "dropped", dropped },
		{ "denied", denied },
		{ "capabilities", capabilities },
		{ "no_ethernet", no_ethernet },
		{ "set_uid", set_uid },
	};

	CHECK(argc == 2);
	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(cq);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		if (strcmp(what[i].name, argv[1]))
			continue;
		what[i].run();
		return 0;
	}
	CHECK(!"a known name");
}
