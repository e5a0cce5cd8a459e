/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One table for each message says where its fields are; writing and reading walk through it. A
 * position is a byte, counted from the end of the MAD header, and a bit of it, counted from the
 * most significant one, as the specification draws them.
 */
#include <errno.h>
#include <string.h>

#include "mad.h"

#define HEADER 24 /* bytes */
#define BASE_VERSION 1
#define CM_CLASS 7
#define CM_CLASS_VERSION 2
#define METHOD_SEND 3

struct field {
	uint16_t byte;
	uint8_t bit;
	uint8_t width;	 /* bits; 0: bytes, copied as they are */
	uint16_t member; /* its place in struct simhca_cm_mad */
	uint16_t size;	 /* bytes there */
};

#define PLACE(member)                                                                              \
	offsetof(struct simhca_cm_mad, member), sizeof(((struct simhca_cm_mad *)0)->member)
#define BITS(byte, bit, width, member)                                                             \
	{                                                                                          \
		byte, bit, width, PLACE(member)                                                    \
	}
#define BYTES(byte, member)                                                                        \
	{                                                                                          \
		byte, 0, 0, PLACE(member)                                                          \
	}
#define END                                                                                        \
	{                                                                                          \
		0, 0, 0, 0, 0                                                                      \
	}

/* Of all messages, counted from the first byte of the MAD. */
static const struct field header_fields[] = {
	BITS(8, 0, 64, tid),
	BITS(16, 0, 16, attribute),
	BITS(20, 0, 32, attr_mod),
	END,
};

#define PATH(at, path)                                                                             \
	BITS(at, 0, 16, path.local_lid), BITS((at) + 2, 0, 16, path.remote_lid),                   \
		BYTES((at) + 4, path.local_gid), BYTES((at) + 20, path.remote_gid),                \
		BITS((at) + 36, 0, 20, path.flow_label), BITS((at) + 39, 2, 6, path.rate),         \
		BITS((at) + 40, 0, 8, path.traffic_class), BITS((at) + 41, 0, 8, path.hop_limit),  \
		BITS((at) + 42, 0, 4, path.sl), BITS((at) + 42, 4, 1, path.subnet_local),          \
		BITS((at) + 43, 0, 5, path.ack_timeout)

static const struct field req_fields[] = {
	BITS(0, 0, 32, req.local_comm_id),
	BITS(5, 0, 24, req.vendor_id),
	BITS(8, 0, 64, req.service_id),
	BITS(16, 0, 64, req.ca_guid),
	BITS(28, 0, 32, req.qkey),
	BITS(32, 0, 24, req.qpn),
	BITS(35, 0, 8, req.responder_resources),
	BITS(39, 0, 8, req.initiator_depth),
	BITS(43, 0, 5, req.remote_cm_timeout),
	BITS(43, 5, 2, req.service_type),
	BITS(43, 7, 1, req.flow_control),
	BITS(44, 0, 24, req.starting_psn),
	BITS(47, 0, 5, req.local_cm_timeout),
	BITS(47, 5, 3, req.retry_count),
	BITS(48, 0, 16, req.pkey),
	BITS(50, 0, 4, req.mtu),
	BITS(50, 4, 1, req.rdc_exists),
	BITS(50, 5, 3, req.rnr_retry),
	BITS(51, 0, 4, req.max_cm_retries),
	BITS(51, 4, 1, req.srq),
	BITS(51, 5, 3, req.ext_type),
	PATH(52, req.primary),
	PATH(96, req.alternate),
	BYTES(140, req.private_data),
	END,
};

static const struct field mra_fields[] = {
	BITS(0, 0, 32, mra.local_comm_id), BITS(4, 0, 32, mra.remote_comm_id),
	BITS(8, 0, 2, mra.message),	   BITS(9, 0, 5, mra.service_timeout),
	BYTES(10, mra.private_data),	   END,
};

static const struct field rej_fields[] = {
	BITS(0, 0, 32, rej.local_comm_id), BITS(4, 0, 32, rej.remote_comm_id),
	BITS(8, 0, 2, rej.message),	   BITS(9, 0, 7, rej.info_length),
	BITS(10, 0, 16, rej.reason),	   BYTES(12, rej.ari),
	BYTES(84, rej.private_data),	   END,
};

static const struct field rep_fields[] = {
	BITS(0, 0, 32, rep.local_comm_id),
	BITS(4, 0, 32, rep.remote_comm_id),
	BITS(8, 0, 32, rep.qkey),
	BITS(12, 0, 24, rep.qpn),
	BITS(15, 0, 8, rep.vendor_id_h),
	BITS(19, 0, 8, rep.vendor_id_m),
	BITS(20, 0, 24, rep.starting_psn),
	BITS(23, 0, 8, rep.vendor_id_l),
	BITS(24, 0, 8, rep.responder_resources),
	BITS(25, 0, 8, rep.initiator_depth),
	BITS(26, 0, 5, rep.target_ack_delay),
	BITS(26, 5, 2, rep.failover),
	BITS(26, 7, 1, rep.flow_control),
	BITS(27, 0, 3, rep.rnr_retry),
	BITS(27, 3, 1, rep.srq),
	BITS(28, 0, 64, rep.ca_guid),
	BYTES(36, rep.private_data),
	END,
};

static const struct field rtu_fields[] = {
	BITS(0, 0, 32, rtu.local_comm_id),
	BITS(4, 0, 32, rtu.remote_comm_id),
	BYTES(8, rtu.private_data),
	END,
};

static const struct field dreq_fields[] = {
	BITS(0, 0, 32, dreq.local_comm_id),
	BITS(4, 0, 32, dreq.remote_comm_id),
	BITS(8, 0, 24, dreq.remote_qpn),
	BYTES(12, dreq.private_data),
	END,
};

static const struct field drep_fields[] = {
	BITS(0, 0, 32, drep.local_comm_id),
	BITS(4, 0, 32, drep.remote_comm_id),
	BYTES(8, drep.private_data),
	END,
};

static const struct field sidr_req_fields[] = {
	BITS(0, 0, 32, sidr_req.request_id),
	BITS(4, 0, 16, sidr_req.pkey),
	BITS(8, 0, 64, sidr_req.service_id),
	BYTES(16, sidr_req.private_data),
	END,
};

static const struct field sidr_rep_fields[] = {
	BITS(0, 0, 32, sidr_rep.request_id),
	BITS(4, 0, 8, sidr_rep.status),
	BITS(5, 0, 8, sidr_rep.info_length),
	BITS(6, 0, 16, sidr_rep.vendor_id_h),
	BITS(8, 0, 24, sidr_rep.qpn),
	BITS(11, 0, 8, sidr_rep.vendor_id_l),
	BITS(12, 0, 64, sidr_rep.service_id),
	BITS(20, 0, 32, sidr_rep.qkey),
	BYTES(24, sidr_rep.ari),
	BYTES(96, sidr_rep.private_data),
	END,
};

/* NULL: it is no message of the communication manager. */
static const struct field *fields_of(unsigned int attribute)
{
	static const struct field *const fields[] = {
		[SIMHCA_CM_REQ] = req_fields,		[SIMHCA_CM_MRA] = mra_fields,
		[SIMHCA_CM_REJ] = rej_fields,		[SIMHCA_CM_REP] = rep_fields,
		[SIMHCA_CM_RTU] = rtu_fields,		[SIMHCA_CM_DREQ] = dreq_fields,
		[SIMHCA_CM_DREP] = drep_fields,		[SIMHCA_CM_SIDR_REQ] = sidr_req_fields,
		[SIMHCA_CM_SIDR_REP] = sidr_rep_fields,
	};

	return attribute < sizeof(fields) / sizeof(fields[0]) ? fields[attribute] : NULL;
}

/* ---------------------------------------------------------------------------------- numbers */

static uint64_t member_get(const void *mad, const struct field *field)
{
	const uint8_t *from = (const uint8_t *)mad + field->member;

	switch (field->size) {
	case 1:
		return *from;
	case 2:
		return *(const uint16_t *)(const void *)from;
	case 4:
		return *(const uint32_t *)(const void *)from;
	default:
		return *(const uint64_t *)(const void *)from;
	}
}

static void member_set(void *mad, const struct field *field, uint64_t value)
{
	uint8_t *to = (uint8_t *)mad + field->member;

	switch (field->size) {
	case 1:
		*to = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)(void *)to = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)(void *)to = (uint32_t)value;
		break;
	default:
		*(uint64_t *)(void *)to = value;
	}
}

/* The byte in which bit number n of a field lies, and that bit's mask. */
static unsigned int bit_of(const struct field *field, unsigned int n, uint8_t *mask)
{
	unsigned int bit = field->bit + n;

	*mask = (uint8_t)(0x80 >> bit % 8);
	return field->byte + bit / 8;
}

static void put_field(const struct field *field, const void *mad, uint8_t *body)
{
	uint64_t value;
	uint8_t mask;

	if (!field->width) {
		memcpy(body + field->byte, (const uint8_t *)mad + field->member, field->size);
		return;
	}
	value = member_get(mad, field);
	for (unsigned int n = 0; n < field->width; n++) {
		unsigned int byte = bit_of(field, n, &mask);

		if (value >> (field->width - 1 - n) & 1)
			body[byte] |= mask;
	}
}

static void get_field(const struct field *field, void *mad, const uint8_t *body)
{
	uint64_t value = 0;
	uint8_t mask;

	if (!field->width) {
		memcpy((uint8_t *)mad + field->member, body + field->byte, field->size);
		return;
	}
	for (unsigned int n = 0; n < field->width; n++) {
		unsigned int byte = bit_of(field, n, &mask);

		value = value << 1 | !!(body[byte] & mask);
	}
	member_set(mad, field, value);
}

int simhca_cm_encode(const struct simhca_cm_mad *mad, uint8_t bytes[SIMHCA_MAD_BYTES])
{
	const struct field *fields = fields_of(mad->attribute);

	if (!fields)
		return -EINVAL;
	memset(bytes, 0, SIMHCA_MAD_BYTES);
	bytes[0] = BASE_VERSION;
	bytes[1] = CM_CLASS;
	bytes[2] = CM_CLASS_VERSION;
	bytes[3] = METHOD_SEND;
	for (const struct field *field = header_fields; field->size; field++)
		put_field(field, mad, bytes);
	for (; fields->size; fields++)
		put_field(fields, mad, bytes + HEADER);
	return 0;
}

int simhca_cm_decode(const uint8_t *bytes, size_t length, struct simhca_cm_mad *mad)
{
	const struct field *fields;

	memset(mad, 0, sizeof(*mad));
	if (length < SIMHCA_MAD_BYTES || bytes[0] != BASE_VERSION || bytes[1] != CM_CLASS ||
	    bytes[2] != CM_CLASS_VERSION || bytes[3] != METHOD_SEND)
		return -EINVAL;
	for (const struct field *field = header_fields; field->size; field++)
		get_field(field, mad, bytes);
	fields = fields_of(mad->attribute);
	if (!fields)
		return -EINVAL;
	for (; fields->size; fields++)
		get_field(fields, mad, bytes + HEADER);
	return 0;
}

/* --------------------------------------------------------------------------------- annex A11 */

void simhca_cm_ip_encode(const struct simhca_cm_ip *ip, uint8_t bytes[SIMHCA_CM_IP_BYTES])
{
	bytes[0] = 0; /* version 0.0 of the header */
	bytes[1] = (uint8_t)(ip->version << 4);
	bytes[2] = (uint8_t)(ip->port >> 8);
	bytes[3] = (uint8_t)ip->port;
	memcpy(bytes + 4, ip->src, sizeof(ip->src));
	memcpy(bytes + 20, ip->dst, sizeof(ip->dst));
}

void simhca_cm_ip_decode(const uint8_t bytes[SIMHCA_CM_IP_BYTES], struct simhca_cm_ip *ip)
{
	memset(ip, 0, sizeof(*ip));
	if (bytes[0] || (bytes[1] >> 4 != 4 && bytes[1] >> 4 != 6))
		return;
	ip->version = bytes[1] >> 4;
	ip->port = (uint16_t)(bytes[2] << 8 | bytes[3]);
	memcpy(ip->src, bytes + 4, sizeof(ip->src));
	memcpy(ip->dst, bytes + 20, sizeof(ip->dst));
}
