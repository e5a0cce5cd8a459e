/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "link/wire/bth.h"
#include "packet/bytes.h"

enum {
	RETH = 1 << 0,
	IMMDT = 1 << 1,
	IETH = 1 << 2,
	AETH = 1 << 3,
	ATOMIC_ETH = 1 << 4,
	ATOMIC_ACK_ETH = 1 << 5,
	FETH = 1 << 6,
	DATA = 1 << 7, /* it can have a payload */
};

/* The lower five bits of an opcode (IBTA vol. 1, table 38). */
struct operation {
	bool known;
	enum simhca_packet_op op;
	bool first, last;
	unsigned int has;
};

#define OPERATION(what, begins, ends, headers)                                                     \
	{                                                                                          \
		.known = true, .op = SIMHCA_PKT_##what, .first = begins, .last = ends,             \
		.has = headers                                                                     \
	}

static const struct operation operations[32] = {
	[0x00] = OPERATION(SEND, true, false, DATA),
	[0x01] = OPERATION(SEND, false, false, DATA),
	[0x02] = OPERATION(SEND, false, true, DATA),
	[0x03] = OPERATION(SEND, false, true, DATA | IMMDT),
	[0x04] = OPERATION(SEND, true, true, DATA),
	[0x05] = OPERATION(SEND, true, true, DATA | IMMDT),
	[0x06] = OPERATION(WRITE, true, false, DATA | RETH),
	[0x07] = OPERATION(WRITE, false, false, DATA),
	[0x08] = OPERATION(WRITE, false, true, DATA),
	[0x09] = OPERATION(WRITE, false, true, DATA | IMMDT),
	[0x0a] = OPERATION(WRITE, true, true, DATA | RETH),
	[0x0b] = OPERATION(WRITE, true, true, DATA | RETH | IMMDT),
	[0x0c] = OPERATION(READ, true, true, RETH),
	[0x0d] = OPERATION(READ_RESPONSE, true, false, DATA | AETH),
	[0x0e] = OPERATION(READ_RESPONSE, false, false, DATA),
	[0x0f] = OPERATION(READ_RESPONSE, false, true, DATA | AETH),
	[0x10] = OPERATION(READ_RESPONSE, true, true, DATA | AETH),
	[0x11] = OPERATION(ACK, true, true, AETH),
	[0x12] = OPERATION(ATOMIC_ACK, true, true, AETH | ATOMIC_ACK_ETH),
	[0x13] = OPERATION(COMPARE_SWAP, true, true, ATOMIC_ETH),
	[0x14] = OPERATION(FETCH_ADD, true, true, ATOMIC_ETH),
	[0x16] = OPERATION(SEND, false, true, DATA | IETH),
	[0x17] = OPERATION(SEND, true, true, DATA | IETH),
	[0x1c] = OPERATION(FLUSH, true, true, FETH | RETH),
	[0x1d] = OPERATION(ATOMIC_WRITE, true, true, DATA | RETH),
};

/* The upper three. */
enum service { SERVICE_RC = 0, SERVICE_UC = 1, SERVICE_UD = 3, SERVICE_XRC = 5 };

#define OPERATION_MASK 0x1fu
#define SERVICE_SHIFT 5

/* A congestion notification: one operation of a service of its own. */
#define CNP_OPCODE 0x81u
#define CNP_RESERVED 16
#define BECN 0x40u

/* Of those that are a manufacturer's (table 38: 11000000 to 11111111). */
#define EFA_OPCODE 0xc0u

#define SOLICITED 0x80u
#define PAD_SHIFT 4
#define VERSION_MASK 0x0fu
#define ACK_REQUEST 0x80u
#define PKEY_DEFAULT 0xffffu
#define PKEY_PARTITION 0x7fffu /* without the bit for full members */

#define FETH_PLACEMENT 0x0fu
#define FETH_SELECTIVITY_SHIFT 4
#define FETH_SELECTIVITY 0x3u

const char *simhca_wire_fault_name(enum simhca_wire_fault fault)
{
	static const char *const names[SIMHCA_WIRE_FAULTS] = {
		[SIMHCA_WIRE_OK] = "ok",
		[SIMHCA_WIRE_TOO_SHORT] = "too_short",
		[SIMHCA_WIRE_BAD_VERSION] = "version",
		[SIMHCA_WIRE_BAD_PKEY] = "pkey",
		[SIMHCA_WIRE_BAD_OPCODE] = "opcode",
		[SIMHCA_WIRE_BAD_LENGTH] = "length",
		[SIMHCA_WIRE_BAD_ICRC] = "icrc",
	};

	return (unsigned int)fault < SIMHCA_WIRE_FAULTS ? names[fault] : "unknown";
}

/* ---------------------------------------------------------------------------------- opcodes */

/* Bytes of extended headers. */
static size_t extended(unsigned int has, enum service service, bool response)
{
	size_t bytes = 0;

	bytes += service == SERVICE_UD ? 8 : 0;
	bytes += service == SERVICE_XRC && !response ? 4 : 0;
	bytes += has & FETH ? 4 : 0;
	bytes += has & RETH ? 16 : 0;
	bytes += has & ATOMIC_ETH ? 28 : 0;
	bytes += has & AETH ? 4 : 0;
	bytes += has & ATOMIC_ACK_ETH ? 8 : 0;
	bytes += has & (IMMDT | IETH) ? 4 : 0;
	return bytes;
}

static bool service_has(enum service service, const struct operation *operation)
{
	switch (service) {
	case SERVICE_RC:
	case SERVICE_XRC:
		return operation->known;
	case SERVICE_UC:
		return operation->known && !(operation->has & IETH) &&
		       (operation->op == SIMHCA_PKT_SEND || operation->op == SIMHCA_PKT_WRITE);
	case SERVICE_UD:
		return operation->known && !(operation->has & IETH) && operation->first &&
		       operation->last && operation->op == SIMHCA_PKT_SEND;
	}
	return false;
}

static bool find_service(enum simhca_qp_type transport, enum service *service)
{
	switch (transport) {
	case SIMHCA_QPT_RC:
		*service = SERVICE_RC;
		return true;
	case SIMHCA_QPT_UC:
		*service = SERVICE_UC;
		return true;
	case SIMHCA_QPT_UD:
		*service = SERVICE_UD;
		return true;
	case SIMHCA_QPT_XRC_SEND:
	case SIMHCA_QPT_XRC_RECV:
		*service = SERVICE_XRC;
		return true;
	default:
		return false;
	}
}

static enum simhca_qp_type transport_of(enum service service, bool response)
{
	switch (service) {
	case SERVICE_UC:
		return SIMHCA_QPT_UC;
	case SERVICE_UD:
		return SIMHCA_QPT_UD;
	case SERVICE_XRC:
		return response ? SIMHCA_QPT_XRC_RECV : SIMHCA_QPT_XRC_SEND;
	case SERVICE_RC:
		break;
	}
	return SIMHCA_QPT_RC;
}

static const struct operation *find_operation(const struct simhca_packet *packet)
{
	unsigned int immediate = (packet->has_imm ? IMMDT : 0) | (packet->has_inv ? IETH : 0);

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		const struct operation *operation = &operations[i];

		if (operation->known && operation->op == packet->op &&
		    operation->first == packet->first && operation->last == packet->last &&
		    (operation->has & (IMMDT | IETH)) == immediate)
			return operation;
	}
	return NULL;
}

/* --------------------------------------------------------------------------------- encoding */

/* Returns where it ends. */
static uint8_t *put_bth(uint8_t *at, uint8_t opcode, const struct simhca_packet *packet)
{
	at[0] = opcode;
	at[1] = (uint8_t)((packet->solicited ? SOLICITED : 0) | simhca_pad(packet->length)
									<< PAD_SHIFT);
	at[2] = (uint8_t)(PKEY_DEFAULT >> 8);
	at[3] = (uint8_t)PKEY_DEFAULT;
	at[4] = packet->op == SIMHCA_PKT_CNP ? BECN : 0;
	simhca_put24(at + 5, packet->dest_qpn);
	at[8] = packet->ack_req ? ACK_REQUEST : 0;
	simhca_put24(at + 9, packet->psn);
	return at + SIMHCA_BTH_BYTES;
}

static size_t encode_cnp(const struct simhca_packet *packet, uint8_t *at)
{
	memset(put_bth(at, CNP_OPCODE, packet), 0, CNP_RESERVED);
	return SIMHCA_BTH_BYTES + CNP_RESERVED;
}

static size_t encode_efa(const struct simhca_packet *packet, uint8_t *at)
{
	put_bth(at, EFA_OPCODE, packet);
	return SIMHCA_BTH_BYTES;
}

size_t simhca_bth_encode(const struct simhca_packet *packet, uint8_t headers[SIMHCA_HEADERS_MOST])
{
	const struct operation *operation = find_operation(packet);
	bool response = simhca_is_response(packet->op);
	enum service service;
	uint8_t *at = headers;

	if (packet->op == SIMHCA_PKT_CNP)
		return encode_cnp(packet, headers);
	if (packet->op == SIMHCA_PKT_EFA)
		return encode_efa(packet, headers);
	if (!operation || !find_service(packet->transport, &service) ||
	    !service_has(service, operation))
		return 0;
	at = put_bth(at,
		     (uint8_t)(service << SERVICE_SHIFT | (unsigned int)(operation - operations)),
		     packet);
	if (service == SERVICE_UD) {
		at = simhca_put32(at, packet->qkey);
		at = simhca_put32(at, packet->src_qpn & SIMHCA_QPN_MASK);
	}
	if (service == SERVICE_XRC && !response)
		at = simhca_put32(at, packet->srqn & SIMHCA_QPN_MASK);
	if (operation->has & FETH)
		at = simhca_put32(at, (packet->flush_placement & FETH_PLACEMENT) |
					      (packet->flush_selectivity & FETH_SELECTIVITY)
						      << FETH_SELECTIVITY_SHIFT);
	if (operation->has & (RETH | ATOMIC_ETH)) {
		at = simhca_put64(at, packet->va);
		at = simhca_put32(at, packet->rkey);
	}
	if (operation->has & RETH)
		at = simhca_put32(at, (uint32_t)packet->dma_length);
	if (operation->has & ATOMIC_ETH) {
		at = simhca_put64(at, packet->atomic.swap_add);
		at = simhca_put64(at, packet->atomic.compare_swap ? packet->atomic.compare : 0);
	}
	if (operation->has & AETH) {
		at[0] = packet->syndrome;
		simhca_put24(at + 1, packet->msn);
		at += 4;
	}
	if (operation->has & ATOMIC_ACK_ETH)
		at = simhca_put64(at, packet->atomic_old);
	if (operation->has & IMMDT) { /* as it lies in memory */
		memcpy(at, &packet->imm_or_rkey, 4);
		at += 4;
	}
	if (operation->has & IETH)
		at = simhca_put32(at, packet->imm_or_rkey);
	return (size_t)(at - headers);
}

/* --------------------------------------------------------------------------------- decoding */

/* All of them are there. */
static const uint8_t *decode_extended(const uint8_t *at, const struct operation *operation,
				      enum service service, struct simhca_packet *packet)
{
	if (service == SERVICE_UD) {
		packet->qkey = simhca_get32(at);
		packet->src_qpn = simhca_get24(at + 5);
		at += 8;
	}
	if (service == SERVICE_XRC && !simhca_is_response(packet->op)) {
		packet->srqn = simhca_get24(at + 1);
		at += 4;
	}
	if (operation->has & FETH) {
		uint32_t feth = simhca_get32(at);

		packet->flush_placement = feth & FETH_PLACEMENT;
		packet->flush_selectivity = feth >> FETH_SELECTIVITY_SHIFT & FETH_SELECTIVITY;
		at += 4;
	}
	if (operation->has & (RETH | ATOMIC_ETH)) {
		packet->va = simhca_get64(at);
		packet->rkey = simhca_get32(at + 8);
		at += 12;
	}
	if (operation->has & RETH) {
		packet->dma_length = simhca_get32(at);
		at += 4;
	}
	if (operation->has & ATOMIC_ETH) {
		packet->atomic.compare_swap = packet->op == SIMHCA_PKT_COMPARE_SWAP;
		packet->atomic.swap_add = simhca_get64(at);
		packet->atomic.compare = packet->atomic.compare_swap ? simhca_get64(at + 8) : 0;
		at += 16;
	}
	if (operation->has & AETH) {
		packet->syndrome = at[0];
		packet->msn = simhca_get24(at + 1);
		at += 4;
	}
	if (operation->has & ATOMIC_ACK_ETH) {
		packet->atomic_old = simhca_get64(at);
		at += 8;
	}
	if (operation->has & IMMDT) {
		memcpy(&packet->imm_or_rkey, at, 4);
		at += 4;
	}
	if (operation->has & IETH) {
		packet->imm_or_rkey = simhca_get32(at);
		at += 4;
	}
	return at;
}

/* Returns how many bytes are behind the payload: padding, and the ICRC. */
static size_t get_bth(const uint8_t *at, struct simhca_packet *packet)
{
	packet->solicited = at[1] & SOLICITED;
	packet->dest_qpn = simhca_get24(at + 5);
	packet->ack_req = at[8] & ACK_REQUEST;
	packet->psn = simhca_get24(at + 9);
	return (at[1] >> PAD_SHIFT & 3) + SIMHCA_ICRC_BYTES;
}

enum simhca_wire_fault simhca_bth_decode(const uint8_t *datagram, size_t length,
					 struct simhca_packet *packet, const uint8_t **payload)
{
	const struct operation *operation;
	enum service service;
	size_t headers, behind;
	bool response;

	memset(packet, 0, sizeof(*packet));
	if (length < SIMHCA_BTH_BYTES + SIMHCA_ICRC_BYTES)
		return SIMHCA_WIRE_TOO_SHORT;
	if (datagram[1] & VERSION_MASK)
		return SIMHCA_WIRE_BAD_VERSION;
	if ((((uint32_t)datagram[2] << 8 | datagram[3]) & PKEY_PARTITION) != PKEY_PARTITION)
		return SIMHCA_WIRE_BAD_PKEY;
	behind = get_bth(datagram, packet);
	if (datagram[0] == CNP_OPCODE) {
		packet->op = SIMHCA_PKT_CNP;
		packet->first = packet->last = true;
		*payload = datagram + SIMHCA_BTH_BYTES + CNP_RESERVED;
		return length == SIMHCA_BTH_BYTES + CNP_RESERVED + SIMHCA_ICRC_BYTES
			       ? SIMHCA_WIRE_OK
			       : SIMHCA_WIRE_BAD_LENGTH;
	}
	if (datagram[0] == EFA_OPCODE) {
		if (length < SIMHCA_BTH_BYTES + behind)
			return SIMHCA_WIRE_TOO_SHORT;
		packet->op = SIMHCA_PKT_EFA;
		packet->first = packet->last = true;
		packet->length = length - SIMHCA_BTH_BYTES - behind;
		*payload = datagram + SIMHCA_BTH_BYTES;
		return SIMHCA_WIRE_OK;
	}
	service = (enum service)(datagram[0] >> SERVICE_SHIFT);
	operation = &operations[datagram[0] & OPERATION_MASK];
	if (!service_has(service, operation))
		return SIMHCA_WIRE_BAD_OPCODE;
	response = simhca_is_response(operation->op);
	headers = SIMHCA_BTH_BYTES + extended(operation->has, service, response);
	if (length < headers + behind)
		return SIMHCA_WIRE_TOO_SHORT;

	packet->op = operation->op;
	packet->transport = transport_of(service, response);
	packet->first = operation->first;
	packet->last = operation->last;
	packet->has_imm = operation->has & IMMDT;
	packet->has_inv = operation->has & IETH;
	packet->length = length - headers - behind;
	*payload = decode_extended(datagram + SIMHCA_BTH_BYTES, operation, service, packet);
	if (packet->length && !(operation->has & DATA))
		return SIMHCA_WIRE_BAD_LENGTH;
	if (packet->op == SIMHCA_PKT_ATOMIC_WRITE &&
	    (packet->length != 8 || packet->dma_length != 8))
		return SIMHCA_WIRE_BAD_LENGTH;
	return SIMHCA_WIRE_OK;
}
