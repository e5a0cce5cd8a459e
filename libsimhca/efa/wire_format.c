/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <string.h>

#include "formats.h"
#include "simhca-abi-reason.h"
#include "simhca-device.h"
#include "wire_format.h"

static_assert(EFA_WIRE_PARCEL == SIMHCA_EFA_MTU, "a message is one parcel");

/* As it lies in a packet. */
struct layout {
	uint8_t kind, flags, status, reserved;
	uint32_t src_qpn;
	uint64_t flow;
	uint32_t number;
	uint16_t reason, unit;
	uint32_t length, offset, qkey, imm, total, rkey;
	uint64_t va;
};
static_assert(sizeof(struct layout) == EFA_WIRE_HEADER, "without holes");

#define HAS_IMM 0x01u
#define MARKED 0x02u

void efa_wire_encode(const struct efa_wire_header *header, uint8_t bytes[EFA_WIRE_HEADER])
{
	const struct layout layout = {
		.kind = (uint8_t)header->kind,
		.flags = (uint8_t)((header->has_imm ? HAS_IMM : 0) | (header->marked ? MARKED : 0)),
		.status = header->status,
		.src_qpn = htobe32(header->src_qpn),
		.flow = htobe64(header->flow),
		.number = htobe32(header->number),
		.reason = htobe16(header->reason),
		.unit = htobe16(header->unit),
		.length = htobe32(header->length),
		.offset = htobe32(header->offset),
		.qkey = htobe32(header->qkey),
		.imm = htobe32(header->imm),
		.total = htobe32(header->total),
		.rkey = htobe32(header->rkey),
		.va = htobe64(header->va),
	};

	memcpy(bytes, &layout, sizeof(layout));
}

/* The packet has what its place in the parcel says. */
static bool is_whole(const struct efa_wire_header *header, size_t data)
{
	uint32_t left;

	if (!efa_wire_has_data(header->kind))
		return !data && !header->offset;
	if (!header->unit || header->offset % header->unit ||
	    efa_wire_packets(header->length, header->unit) > EFA_WIRE_PACKETS ||
	    (header->length ? header->offset >= header->length : header->offset))
		return false;
	left = header->length - header->offset;
	return data == (left < header->unit ? left : header->unit);
}

/* What a receiver can say of a message; the other statuses are its sender's own. */
static bool is_answer(uint8_t status)
{
	return status == EFA_STATUS_OK ||
	       (status >= EFA_STATUS_BAD_ADDRESS && status <= EFA_STATUS_UNKNOWN_PEER &&
		status != EFA_STATUS_UNRESPONSIVE);
}

static bool is_reason(uint16_t reason)
{
	switch (reason) {
#define REASON(name, value, text) case SIMHCA_REASON_##name:
		SIMHCA_REASONS(REASON)
#undef REASON
		return true;
	}
	return false;
}

bool efa_wire_decode(const uint8_t *bytes, size_t payload, struct efa_wire_header *header)
{
	struct layout layout;

	if (payload < sizeof(layout))
		return false;
	memcpy(&layout, bytes, sizeof(layout));
	*header = (struct efa_wire_header){
		.kind = (enum efa_wire_kind)layout.kind,
		.has_imm = layout.flags & HAS_IMM,
		.marked = layout.flags & MARKED,
		.status = layout.status,
		.src_qpn = be32toh(layout.src_qpn),
		.flow = be64toh(layout.flow),
		.number = be32toh(layout.number),
		.reason = be16toh(layout.reason),
		.unit = be16toh(layout.unit),
		.length = be32toh(layout.length),
		.offset = be32toh(layout.offset),
		.qkey = be32toh(layout.qkey),
		.imm = be32toh(layout.imm),
		.total = be32toh(layout.total),
		.rkey = be32toh(layout.rkey),
		.va = be64toh(layout.va),
	};
	if (header->kind < EFA_WIRE_SEND || header->kind > EFA_WIRE_DATA ||
	    header->length > EFA_WIRE_PARCEL || header->src_qpn > UINT16_MAX ||
	    !is_answer(header->status))
		return false;
	if (header->kind == EFA_WIRE_WRITE &&
	    (header->total < header->length || header->total > SIMHCA_EFA_RDMA))
		return false;
	if (!is_reason(header->reason))
		header->reason = SIMHCA_REASON_NONE;
	return is_whole(header, payload - sizeof(layout));
}
