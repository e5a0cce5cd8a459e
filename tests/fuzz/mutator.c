/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Inputs changed step by step: libFuzzer alone would have to find the formats first. */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"
#include "simhca-abi-rdma-cm.h"
#include "simhca-abi-umad.h"
#include "steps.h"
#include "verbs/commands.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

static uint64_t state;

static uint32_t below(uint32_t limit)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state >> 33) % limit;
}

static bool one_in(uint32_t n)
{
	return !below(n);
}

struct list {
	struct step step[STEPS];
	uint8_t bytes[STEPS][STEP_BYTES];
	unsigned int count;
};

static void parse(struct list *list, const uint8_t *data, size_t size)
{
	list->count = 0;
	while (list->count < STEPS && size >= sizeof(struct step)) {
		struct step *step = &list->step[list->count];

		memcpy(step, data, sizeof(*step));
		data += sizeof(*step);
		size -= sizeof(*step);
		if (step->length > size || step->length > STEP_BYTES)
			break;
		memcpy(list->bytes[list->count++], data, step->length);
		data += step->length;
		size -= step->length;
	}
}

static size_t unparse(const struct list *list, uint8_t *data, size_t size)
{
	size_t used = 0;

	for (unsigned int i = 0; i < list->count; i++) {
		const struct step *step = &list->step[i];

		if (used + sizeof(*step) + step->length > size)
			break;
		memcpy(data + used, step, sizeof(*step));
		memcpy(data + used + sizeof(*step), list->bytes[i], step->length);
		used += sizeof(*step) + step->length;
	}
	return used;
}

/* ------------------------------------------------------------------------------- new steps */

static uint32_t any_handle(void);

/* Handles are small and numbers often round: what commands are mostly made of. */
static uint32_t word(void)
{
	static const uint32_t usual[] = {
		0,	    1,		2,	   3,	       4,	   7,
		16,	    64,		4096,	   0xffff,     1u << 20,   CLIENT_MEMORY,
		0x7fffffff, 0xffffffff, MAGIC_QPN, MAGIC_LKEY, MAGIC_RKEY, MAGIC_CHANNEL,
		FUZZ_PORT,
	};

	if (one_in(3))
		return any_handle();
	return one_in(3) ? below(256) : usual[below(sizeof(usual) / sizeof(usual[0]))];
}

static void fill(uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at + 4 <= length; at += 4) {
		uint32_t value = one_in(2) ? 0 : word();

		memcpy(bytes + at, &value, sizeof(value));
	}
}

/* What a command has given. */
static uint32_t handle(enum simhca_cmd command)
{
	return one_in(16) ? below(4) : MAGIC_HANDLE + command;
}

/* What a command may be about. */
static uint32_t any_handle(void)
{
	return MAGIC_HANDLE + below(SIMHCA_CMD_COUNT);
}

#define PUT(bytes, ...)                                                                            \
	do {                                                                                       \
		const __VA_ARGS__;                                                                 \
		memcpy((bytes) + sizeof(uint16_t), &request, sizeof(request));                     \
	} while (0)

static const uint32_t qp_types[] = {
	SIMHCA_QPT_RC,	     SIMHCA_QPT_UC,	  SIMHCA_QPT_UD,
	SIMHCA_QPT_XRC_SEND, SIMHCA_QPT_XRC_RECV, SIMHCA_QPT_RAW_PACKET
};

static struct simhca_qp_attr qp_attr(uint32_t to)
{
	return (struct simhca_qp_attr){
		.qp_state = to,
		.path_mtu = 1 + below(5),
		.qkey = 1,
		.dest_qp_num = MAGIC_QPN,
		.qp_access_flags = 0xf,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 8,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.av = { .is_global = 1,
			.port_num = 1,
			.sgid_index = 1,
			.dgid.raw = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
	};
}

/* The ways of a QP from one state to the next. */
static const struct {
	uint32_t to, mask;
} modifications[] = {
	{ 1, SIMHCA_QP_STATE | SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_ACCESS_FLAGS },
	{ 2, SIMHCA_QP_STATE | SIMHCA_QP_AV | SIMHCA_QP_PATH_MTU | SIMHCA_QP_DEST_QPN |
		     SIMHCA_QP_RQ_PSN | SIMHCA_QP_MAX_DEST_RD_ATOMIC | SIMHCA_QP_MIN_RNR_TIMER },
	{ 3, SIMHCA_QP_STATE | SIMHCA_QP_SQ_PSN | SIMHCA_QP_TIMEOUT | SIMHCA_QP_RETRY_CNT |
		     SIMHCA_QP_RNR_RETRY | SIMHCA_QP_MAX_QP_RD_ATOMIC },
	{ 1, SIMHCA_QP_STATE | SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_QKEY },
	{ 2, SIMHCA_QP_STATE },
	{ 3, SIMHCA_QP_STATE | SIMHCA_QP_SQ_PSN },
	{ 2, SIMHCA_QP_STATE | SIMHCA_QP_AV | SIMHCA_QP_PATH_MTU | SIMHCA_QP_DEST_QPN |
		     SIMHCA_QP_RQ_PSN },
	{ 4, SIMHCA_QP_STATE },
	{ 6, SIMHCA_QP_STATE },
	{ 0, SIMHCA_QP_STATE },
};
#define MODIFICATIONS (sizeof(modifications) / sizeof(modifications[0]))

/* Where memory was before it was moved into a file: there, or anywhere that its owner may say. */
static uint64_t moved_from(uint32_t offset)
{
	static const uint64_t lies[] = {
		0,	    1,		CLIENT_MEMORY + 8, CLIENT_MEMORY + CLIENT_BYTES - 4096,
		1ull << 46, 1ull << 63, UINT64_MAX - 4095, UINT64_MAX - CLIENT_BYTES + 1,
	};

	return one_in(2) ? CLIENT_MEMORY + offset : lies[below(sizeof(lies) / sizeof(lies[0]))];
}

/* The descriptor that goes with a command: mostly the right one. */
static uint8_t flags_of(const uint8_t *command)
{
	uint16_t number;

	memcpy(&number, command, sizeof(number));
	return number == SIMHCA_CMD_REG_DMABUF_MR && !one_in(8)
		       ? (uint8_t)(1 << 1 | (one_in(4) ? 0 : STEP_SEALED))
		       : 0;
}

/* Commands as programs give them, which others need to find something to work on. */
static size_t usual_command(uint8_t *bytes, uint16_t number, unsigned int modification)
{
	uint32_t half = below(2) * CLIENT_BYTES / 2;

	memset(bytes, 0, STEP_BYTES);
	memcpy(bytes, &number, sizeof(number));
	switch (number) {
	case SIMHCA_CMD_CREATE_CQ:
		PUT(bytes, struct simhca_create_cq_req request = {
				   .cqe = 1 + below(300),
				   .channel = one_in(4) ? MAGIC_CHANNEL : 0,
				   .flags = below(4) });
		break;
	case SIMHCA_CMD_CREATE_QP:
		PUT(bytes, struct simhca_create_qp_req request = {
				   .type = qp_types[below(one_in(2) ? 6 : 1)],
				   .pd = handle(SIMHCA_CMD_ALLOC_PD),
				   .send_cq = handle(SIMHCA_CMD_CREATE_CQ),
				   .recv_cq = handle(SIMHCA_CMD_CREATE_CQ),
				   .srq = handle(SIMHCA_CMD_CREATE_SRQ),
				   .xrcd = handle(SIMHCA_CMD_OPEN_XRCD),
				   .has_srq = one_in(4),
				   .max_send_wr = 1 + below(64),
				   .max_recv_wr = 1 + below(64),
				   .max_send_sge = 1 + below(4),
				   .max_recv_sge = 1 + below(4),
				   .max_inline = below(128),
				   .sq_sig_all = below(2) });
		break;
	case SIMHCA_CMD_CREATE_SRQ:
		PUT(bytes,
		    struct simhca_create_srq_req request = { .type = below(3),
							     .pd = handle(SIMHCA_CMD_ALLOC_PD),
							     .cq = handle(SIMHCA_CMD_CREATE_CQ),
							     .xrcd = handle(SIMHCA_CMD_OPEN_XRCD),
							     .max_tags = below(64),
							     .max_wr = 1 + below(64),
							     .max_sge = 1 + below(4) });
		break;
	case SIMHCA_CMD_REG_MR:
		PUT(bytes, struct simhca_reg_mr_req request = {
				   .addr = CLIENT_MEMORY + half,
				   .length = 1 + below(CLIENT_BYTES / 2),
				   .iova = CLIENT_MEMORY + half,
				   .pd = handle(SIMHCA_CMD_ALLOC_PD),
				   .access = one_in(2) ? 0x1f : below(1 << 10) });
		break;
	case SIMHCA_CMD_REG_DMABUF_MR:
		PUT(bytes, struct simhca_reg_dmabuf_mr_req request = {
				   .offset = half,
				   .length = 1 + below(CLIENT_BYTES / 2),
				   .iova = CLIENT_MEMORY + half,
				   .addr = moved_from(half),
				   .pd = handle(SIMHCA_CMD_ALLOC_PD),
				   .access = one_in(4) ? below(1 << 10) : 0xf });
		break;
	case SIMHCA_CMD_CREATE_FLOW:
		PUT(bytes,
		    struct simhca_create_flow_req request = { .qp = handle(SIMHCA_CMD_CREATE_QP),
							      .type = below(4),
							      .port = 1,
							      .flags = below(16) });
		break;
	case SIMHCA_CMD_OPEN_XRCD:
		PUT(bytes, struct simhca_open_xrcd_req request = { .flags = below(4) });
		break;
	case SIMHCA_CMD_MODIFY_QP:
		PUT(bytes, struct simhca_modify_qp_req request = {
				   .handle = handle(SIMHCA_CMD_CREATE_QP),
				   .mask = modifications[modification].mask,
				   .attr = qp_attr(modifications[modification].to) });
		break;
	}
	return sizeof(number) + command_find(number)->request_size;
}

static size_t new_command(uint8_t *bytes)
{
	static const uint16_t usual[] = { SIMHCA_CMD_ALLOC_PD,	  SIMHCA_CMD_CREATE_CHANNEL,
					  SIMHCA_CMD_CREATE_CQ,	  SIMHCA_CMD_CREATE_QP,
					  SIMHCA_CMD_CREATE_SRQ,  SIMHCA_CMD_REG_MR,
					  SIMHCA_CMD_CREATE_FLOW, SIMHCA_CMD_OPEN_XRCD,
					  SIMHCA_CMD_MODIFY_QP,	  SIMHCA_CMD_REG_DMABUF_MR };
	uint16_t number = (uint16_t)below(SIMHCA_CMD_COUNT + 1);
	const struct command *command = command_find(number);

	if (one_in(2))
		return usual_command(bytes, usual[below(sizeof(usual) / sizeof(usual[0]))],
				     below(MODIFICATIONS));
	memcpy(bytes, &number, sizeof(number));
	if (!command)
		return sizeof(number);
	fill(bytes + sizeof(number), command->request_size);
	return sizeof(number) + command->request_size;
}

static void put_address(uint8_t *at, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (one_in(4))
		in.sin_addr.s_addr = htonl(one_in(2) ? INADDR_ANY : 0xef010203);
	memcpy(at, &in, sizeof(in));
}

#define IN(command, type) [RDMA_USER_CM_CMD_##command] = sizeof(struct rdma_ucm_##type)

/* strange: with other contents than programs give it */
static size_t usual_write(uint8_t *bytes, uint32_t cmd, uint32_t id, bool strange)
{
	static const uint16_t sizes[SIMHCA_UCMA_COUNT] = {
		IN(CREATE_ID, create_id),
		IN(DESTROY_ID, destroy_id),
		IN(BIND_IP, bind_ip),
		IN(RESOLVE_IP, resolve_ip),
		IN(RESOLVE_ROUTE, resolve_route),
		IN(QUERY_ROUTE, query),
		IN(CONNECT, connect),
		IN(LISTEN, listen),
		IN(ACCEPT, accept),
		IN(REJECT, reject),
		IN(DISCONNECT, disconnect),
		IN(INIT_QP_ATTR, init_qp_attr),
		IN(GET_EVENT, get_event),
		IN(SET_OPTION, set_option),
		IN(NOTIFY, notify),
		IN(JOIN_IP_MCAST, join_ip_mcast),
		IN(LEAVE_MCAST, destroy_id),
		IN(MIGRATE_ID, migrate_id),
		IN(QUERY, query),
		IN(BIND, bind),
		IN(RESOLVE_ADDR, resolve_addr),
		IN(JOIN_MCAST, join_mcast),
		[SIMHCA_UCMA_WRITE_CM_EVENT] = sizeof(struct simhca_ucma_write_cm_event),
	};
	static const uint16_t spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB };
	struct rdma_ucm_cmd_hdr hdr = { .cmd = cmd,
					.in = sizes[cmd],
					.out = SIMHCA_UCMA_MAX_RESPONSE };
	uint8_t *body = bytes + sizeof(hdr);

	memset(body, 0, hdr.in);
	if (strange) {
		fill(body, hdr.in);
	} else {
		switch (hdr.cmd) {
		case RDMA_USER_CM_CMD_CREATE_ID:
			body[0] = 1;
			memcpy(body + 16, &spaces[one_in(2) ? below(4) : 0], 2);
			body[18] = (uint8_t)qp_types[below(3)];
			break;
		case RDMA_USER_CM_CMD_BIND_IP:
			put_address(body + 8, FUZZ_PORT);
			memcpy(body + 36, &id, 4);
			break;
		case RDMA_USER_CM_CMD_RESOLVE_IP:
			put_address(body + 28, FUZZ_PORT);
			memcpy(body + 56, &id, 4);
			break;
		case RDMA_USER_CM_CMD_BIND:
			memcpy(body, &id, 4);
			body[4] = 16;
			put_address(body + 8, FUZZ_PORT);
			break;
		case RDMA_USER_CM_CMD_RESOLVE_ADDR:
			memcpy(body, &id, 4);
			body[4] = 1;
			body[10] = 16;
			put_address(body + 144, FUZZ_PORT);
			break;
		case RDMA_USER_CM_CMD_JOIN_MCAST:
			body[8] = 1;
			memcpy(body + 16, &id, 4);
			body[20] = 16;
			put_address(body + 24, 0);
			break;
		case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
			put_address(body + 16, 0);
			memcpy(body + 44, &id, 4);
			break;
		case RDMA_USER_CM_CMD_CONNECT:
			memcpy(body, &(uint32_t){ below(1000) }, 4);
			body[271] = 1;
			memcpy(body + 272, &id, 4);
			break;
		case RDMA_USER_CM_CMD_ACCEPT:
			body[0] = 1;
			memcpy(body + 8, &(uint32_t){ below(1000) }, 4);
			body[279] = (uint8_t)below(2);
			memcpy(body + 280, &id, 4);
			break;
		case RDMA_USER_CM_CMD_LISTEN:
		case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		case RDMA_USER_CM_CMD_REJECT:
		case RDMA_USER_CM_CMD_DISCONNECT:
		case RDMA_USER_CM_CMD_NOTIFY:
		case SIMHCA_UCMA_WRITE_CM_EVENT:
			fill(body, hdr.in < 32 ? hdr.in : 32);
			memcpy(body, &id, 4);
			break;
		default: /* a response, and then the id */
			fill(body, hdr.in);
			memcpy(body + 8, &id, 4);
		}
	}
	memcpy(bytes, &hdr, sizeof(hdr));
	return sizeof(hdr) + hdr.in;
}

static size_t new_write(uint8_t *bytes)
{
	return usual_write(bytes, below(SIMHCA_UCMA_COUNT), below(4), one_in(4));
}

static size_t new_netlink(uint8_t *bytes)
{
	struct nlmsghdr header = {
		.nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, below(40)),
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (one_in(2) ? NLM_F_DUMP : 0) |
					  (one_in(4) ? NLM_F_ACK : 0)),
		.nlmsg_len = sizeof(header),
	};

	for (unsigned int i = below(4); i; i--) {
		struct nlattr attr = { .nla_len = sizeof(attr) + 4,
				       .nla_type = (uint16_t)below(90) };
		uint32_t value = below(4);

		memcpy(bytes + header.nlmsg_len, &attr, sizeof(attr));
		memcpy(bytes + header.nlmsg_len + sizeof(attr), &value, sizeof(value));
		header.nlmsg_len += attr.nla_len;
	}
	memcpy(bytes, &header, sizeof(header));
	return header.nlmsg_len;
}

static size_t new_control(uint8_t *bytes)
{
	static const char *const texts[] = { "{\"cmd\":\"status\"}", "{\"cmd\":\"qp\"}",
					     "{\"cmd\":\"mr\"}",     "{\"cmd\":\"cm\"}",
					     "{\"cmd\":\"lease\"}",  "{\"lease\":true}",
					     "{\"cmd\":[{}, 1e9]}" };
	const char *text = texts[below(sizeof(texts) / sizeof(texts[0]))];

	memcpy(bytes, text, strlen(text));
	return strlen(text);
}

/* A message of the communication manager: by what it answers, or to a service. */
static size_t new_mad(uint8_t *bytes)
{
	uint64_t service =
		htobe64((one_in(3) ? (uint64_t)RDMA_PS_UDP : RDMA_PS_TCP) << 16 | FUZZ_PORT);

	memset(bytes, 0, 233);
	fill(bytes + 1, 140);
	bytes[0] = (uint8_t)below(10);
	memcpy(bytes + 1 + 8, &service, sizeof(service));
	return 233;
}

static size_t new_memory(uint8_t *bytes, enum memory_place place)
{
	struct memory_step step = { .place = (uint8_t)place,
				    .ring = (uint8_t)below(2),
				    .offset = (uint16_t)(4 * below(64)) };
	struct simhca_send_wqe wqe = { .opcode = (uint8_t)below(27),
				       .flags = (uint8_t)below(32),
				       .num_sge = (uint8_t)below(3),
				       .imm_or_rkey = MAGIC_RKEY,
				       .rdma = { .remote_addr = CLIENT_MEMORY + below(CLIENT_BYTES),
						 .rkey = MAGIC_RKEY } };
	struct simhca_sge sge = { CLIENT_MEMORY + below(CLIENT_BYTES), below(10000), MAGIC_LKEY };
	size_t size = 4 + 4 * below(16);
	uint8_t *at = bytes + sizeof(step);

	fill(at, size);
	if (step.place == PLACE_SEND_RING) {
		step.offset = 0;
		memcpy(at, &wqe, sizeof(wqe));
		memcpy(at + sizeof(wqe), &sge, sizeof(sge));
		size = sizeof(wqe) + sizeof(sge);
	}
	if (step.place == PLACE_QP && one_in(2)) {
		step.offset = 0;
		memcpy(at, &(uint32_t){ below(8) }, 4);
	}
	memcpy(bytes, &step, sizeof(step));
	return sizeof(step) + size;
}

/* A request to umad. Agents have small numbers: with luck the program has registered that one. */
static size_t new_umad(uint8_t *bytes)
{
	static const uint8_t classes[] = { 0x01, 0x81, 0x03, 0x04, 0x32 };
	static const uint8_t versions[] = { 1, 1, 2, 1, 1 };
	static const uint8_t methods[] = { 0x01, 0x02, 0x05, 0x12, 0x15, 0x81 };
	uint32_t which = below(sizeof(classes));
	struct ib_user_mad_reg_req2 req = {
		.qpn = which > 1,
		.mgmt_class = classes[which],
		.mgmt_class_version = versions[which],
		.method_mask = { one_in(2) ? 6 : 0 },
		.oui = 0x1405,
		.rmpp_version = classes[which] == 0x03,
	};
	struct ib_user_mad_hdr_old hdr = { .id = below(3), .lid = htons((uint16_t)below(4)) };
	uint8_t *mad = bytes + 1 + sizeof(hdr);

	bytes[0] = one_in(3) ? (uint8_t)(1 + below(5)) : SIMHCA_UMAD_WRITE;
	if (bytes[0] != SIMHCA_UMAD_WRITE) {
		memcpy(bytes + 1, &req, sizeof(req));
		return 1 + (bytes[0] == SIMHCA_UMAD_REGISTER2	 ? sizeof(req)
			    : bytes[0] == SIMHCA_UMAD_REGISTER	 ? 28
			    : bytes[0] == SIMHCA_UMAD_UNREGISTER ? 4
								 : 0);
	}
	hdr.timeout_ms = below(3);
	hdr.retries = below(3);
	memcpy(bytes + 1, &hdr, sizeof(hdr));
	for (unsigned int i = 0; i < 256; i++)
		mad[i] = one_in(8) ? (uint8_t)below(256) : 0;
	mad[0] = 1;
	mad[1] = classes[which];
	mad[2] = versions[which];
	mad[3] = methods[below(sizeof(methods))];
	mad[7] = (uint8_t)below(4); /* hops */
	mad[16] = 0;
	mad[17] = (uint8_t)(one_in(2) ? 0x10 + below(0x30) : below(4));
	memset(mad + 32, one_in(2) ? 0xff : 0, 4);
	mad[129] = mad[130] = 1;
	return 1 + sizeof(hdr) + 256;
}

static void make(struct step *step, uint8_t *bytes)
{
	size_t length;

	step->kind = (uint8_t)below(STEP_KINDS);
	if (one_in(2))
		step->kind = one_in(3) ? STEP_RDMA_CM : STEP_COMMAND;
	step->flags = one_in(4) ? (uint8_t)below(256) : 0;
	switch (step->kind) {
	case STEP_COMMAND:
	case STEP_RAW:
		length = new_command(bytes);
		step->flags = step->flags ? step->flags : flags_of(bytes);
		break;
	case STEP_RDMA_CM:
		length = new_write(bytes);
		break;
	case STEP_NETLINK:
		length = new_netlink(bytes);
		break;
	case STEP_CONTROL:
		length = new_control(bytes);
		break;
	case STEP_MAD:
		step->flags |= one_in(2) ? STEP_REPLY : 0;
		length = new_mad(bytes);
		break;
	case STEP_MEMORY:
		length = new_memory(bytes, below(PLACES));
		break;
	case STEP_UMAD:
		length = new_umad(bytes);
		break;
	default:
		bytes[0] = (uint8_t)below(5);
		length = 1;
	}
	step->length = (uint16_t)length;
}

/* A QP that is connected to itself and has something to send. */
static void verbs_scene(struct list *list)
{
	static const uint16_t commands[] = { SIMHCA_CMD_CREATE_CHANNEL, SIMHCA_CMD_ALLOC_PD,
					     SIMHCA_CMD_CREATE_CQ,	SIMHCA_CMD_CREATE_SRQ,
					     SIMHCA_CMD_REG_MR,		SIMHCA_CMD_CREATE_QP,
					     SIMHCA_CMD_MODIFY_QP,	SIMHCA_CMD_MODIFY_QP,
					     SIMHCA_CMD_MODIFY_QP };
	static const enum memory_place places[] = { PLACE_RECEIVE_RING, PLACE_SEND_RING, PLACE_QP };
	unsigned int modification = 0;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const bool moved = commands[i] == SIMHCA_CMD_REG_MR && one_in(2);
		const uint16_t number = moved ? SIMHCA_CMD_REG_DMABUF_MR : commands[i];
		struct step *step = &list->step[list->count];
		uint8_t *bytes = list->bytes[list->count++];

		*step = (struct step){ .kind = STEP_COMMAND };
		step->length = (uint16_t)usual_command(bytes, number, modification);
		step->flags = flags_of(bytes);
		modification += number == SIMHCA_CMD_MODIFY_QP;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct step *step = &list->step[list->count];

		*step = (struct step){ .kind = STEP_MEMORY };
		step->length = (uint16_t)new_memory(list->bytes[list->count++], places[i]);
	}
}

/* A listener, and a connection to it as far as it comes. */
static void rdma_cm_scene(struct list *list)
{
	static const struct {
		uint8_t cmd, id;
	} writes[] = {
		{ RDMA_USER_CM_CMD_CREATE_ID, 0 },     { RDMA_USER_CM_CMD_BIND, 0 },
		{ RDMA_USER_CM_CMD_LISTEN, 0 },	       { RDMA_USER_CM_CMD_CREATE_ID, 1 },
		{ RDMA_USER_CM_CMD_RESOLVE_ADDR, 1 },  { RDMA_USER_CM_CMD_GET_EVENT, 0 },
		{ RDMA_USER_CM_CMD_RESOLVE_ROUTE, 1 }, { RDMA_USER_CM_CMD_GET_EVENT, 0 },
		{ RDMA_USER_CM_CMD_CONNECT, 1 },       { RDMA_USER_CM_CMD_GET_EVENT, 0 },
		{ RDMA_USER_CM_CMD_ACCEPT, 2 },	       { RDMA_USER_CM_CMD_GET_EVENT, 0 },
		{ RDMA_USER_CM_CMD_ACCEPT, 1 },	       { RDMA_USER_CM_CMD_GET_EVENT, 0 },
		{ RDMA_USER_CM_CMD_INIT_QP_ATTR, 1 },  { RDMA_USER_CM_CMD_DISCONNECT, 1 },
		{ RDMA_USER_CM_CMD_GET_EVENT, 0 },
	};

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct step *step = &list->step[list->count];

		*step = (struct step){ .kind = STEP_RDMA_CM };
		step->length = (uint16_t)usual_write(list->bytes[list->count++], writes[i].cmd,
						     writes[i].id, false);
	}
}

/* -------------------------------------------------------------------------------- mutating */

static void insert(struct list *list, unsigned int at)
{
	if (list->count == STEPS)
		list->count--;
	memmove(&list->step[at + 1], &list->step[at], (list->count - at) * sizeof(list->step[0]));
	memmove(list->bytes[at + 1], list->bytes[at], (list->count - at) * STEP_BYTES);
	list->count++;
	make(&list->step[at], list->bytes[at]);
}

static void delete (struct list *list, unsigned int at)
{
	list->count--;
	memmove(&list->step[at], &list->step[at + 1], (list->count - at) * sizeof(list->step[0]));
	memmove(list->bytes[at], list->bytes[at + 1], (list->count - at) * STEP_BYTES);
}

static void change(struct step *step, uint8_t *bytes)
{
	uint32_t value = word();

	if (one_in(16))
		step->flags = (uint8_t)below(256);
	else if (step->length >= 8 && one_in(2))
		memcpy(bytes + (step->kind == STEP_COMMAND ? 2 : 0) +
			       4 * below((step->length - 2u) / 4),
		       &value, sizeof(value));
	else if (one_in(10))
		step->length = (uint16_t)LLVMFuzzerMutate(bytes, step->length, STEP_BYTES);
	else if (step->length)
		LLVMFuzzerMutate(bytes, step->length, step->length);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	static struct list list;

	state = seed;
	parse(&list, data, size);
	if (!list.count || one_in(20)) {
		list.count = 0;
		if (one_in(2))
			verbs_scene(&list);
		if (!list.count || one_in(4))
			rdma_cm_scene(&list);
	}
	do {
		uint32_t what = below(10), at = list.count ? below(list.count) : 0;

		if (!list.count || what < 5)
			insert(&list, below(list.count < STEPS ? list.count + 1 : STEPS - 1));
		else if (what == 5)
			delete (&list, at);
		else
			change(&list.step[at], list.bytes[at]);
	} while (one_in(2));
	return unparse(&list, data, max_size);
}
