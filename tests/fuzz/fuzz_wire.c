/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams of strangers: what decodes lies inside of what came, and encodes to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "efa/wire_format.h"
#include "link/wire/bth.h"
#include "link/wire/icrc.h"

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_icrc(const struct simhca_packet *packet, uint8_t *bytes, size_t size)
{
	struct simhca_wire_path path = { .source_port = (uint16_t)packet->psn };

	path.destination.raw[10] = path.destination.raw[11] = packet->ack_req ? 0xff : 0;
	path.source = path.destination;
	path.ip_id = packet->ack_req ? (uint16_t)packet->dest_qpn : 0;
	simhca_icrc_put(&path, bytes, size - SIMHCA_ICRC_BYTES);
	path.ip_id = 0;
	REQUIRE(simhca_icrc_check(&path, bytes, size));
	REQUIRE(path.ip_id == (packet->ack_req ? (uint16_t)packet->dest_qpn : 0));
}

/* What EFA devices tell each other: what is let through has its place in a parcel. */
static void check_efa(const uint8_t *payload, uint64_t length)
{
	struct efa_wire_header header;
	uint8_t again[EFA_WIRE_HEADER];
	uint64_t data;

	if (!efa_wire_decode(payload, length, &header))
		return;
	data = length - EFA_WIRE_HEADER;
	REQUIRE(header.offset + data <= EFA_WIRE_PARCEL);
	REQUIRE(!data || header.offset / header.unit < EFA_WIRE_PACKETS);
	efa_wire_encode(&header, again);
	REQUIRE(efa_wire_decode(again, length, &header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct simhca_wire_path path = { .source_port = SIMHCA_WIRE_PORT };
	uint8_t headers[SIMHCA_HEADERS_MOST];
	struct simhca_packet packet, again;
	const uint8_t *payload;
	uint8_t *copy;
	size_t length;

	simhca_icrc_check(&path, data, size);
	if (simhca_bth_decode(data, size, &packet, &payload) != SIMHCA_WIRE_OK)
		return 0;
	REQUIRE(payload >= data + SIMHCA_BTH_BYTES && packet.length <= size);
	REQUIRE(payload + packet.length + SIMHCA_ICRC_BYTES <= data + size);
	if (packet.op == SIMHCA_PKT_EFA)
		check_efa(payload, packet.length);
	length = simhca_bth_encode(&packet, headers);
	REQUIRE(length == (size_t)(payload - data));
	REQUIRE(headers[0] == data[0]);

	copy = malloc(size);
	REQUIRE(copy);
	memcpy(copy, data, size);
	check_icrc(&packet, copy, size);
	/* Whose padding is what it should be comes back as it was. */
	memcpy(copy, headers, length);
	if (size == length + packet.length + simhca_pad(packet.length) + SIMHCA_ICRC_BYTES) {
		REQUIRE(simhca_bth_decode(copy, size, &again, &payload) == SIMHCA_WIRE_OK);
		REQUIRE(!memcmp(&again, &packet, sizeof(packet)));
	}
	free(copy);
	return 0;
}
