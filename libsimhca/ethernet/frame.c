/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "frame.h"
#include "packet/bytes.h"
#include "packet/checksum.h"

#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_CVLAN 0x8100
#define TYPE_SVLAN 0x88a8
#define MAX_TAGS 2
#define MAX_EXTENSIONS 8 /* IPv6 extension headers that are looked through */

#define IPV4_MIN 20u
#define IPV6_BYTES 40u
#define UDP_BYTES 8u
#define TCP_MIN 20u

/* ------------------------------------------------------------------------------- parsing */

static void parse_l4(const uint8_t *bytes, uint8_t proto, struct simhca_frame *frame)
{
	struct simhca_frame_fields *fields = &frame->fields;
	uint32_t left = frame->end - frame->l4;

	if (proto == IPPROTO_UDP && left >= UDP_BYTES)
		fields->layers |= SIMHCA_LAYER_UDP;
	else if (proto == IPPROTO_TCP && left >= TCP_MIN)
		fields->layers |= SIMHCA_LAYER_TCP;
	else
		return;
	memcpy(&fields->src_port, bytes + frame->l4, 2);
	memcpy(&fields->dst_port, bytes + frame->l4 + 2, 2);
}

/* Where an IP packet ends that says to have so many bytes from its header on. */
static void set_end(struct simhca_frame *frame, uint32_t frame_length, uint32_t ip_length)
{
	frame->truncated = ip_length > frame_length - frame->l3;
	frame->end = frame->truncated ? frame_length : frame->l3 + ip_length;
}

static void parse_ipv4(const uint8_t *bytes, uint32_t length, struct simhca_frame *frame)
{
	struct simhca_frame_fields *fields = &frame->fields;
	const uint8_t *ip = bytes + frame->l3;
	uint32_t left = length - frame->l3, header;
	uint16_t fragment;

	if (left < IPV4_MIN || ip[0] >> 4 != 4)
		return;
	header = (ip[0] & 15u) * 4;
	if (header < IPV4_MIN || header > left || simhca_get16(ip + 2) < header)
		return;
	fields->layers |= SIMHCA_LAYER_IPV4;
	fragment = simhca_get16(ip + 6);
	fields->tos = ip[1];
	fields->ttl = ip[8];
	fields->proto = ip[9];
	fields->ip_flags = (uint8_t)((fragment & 0x4000 ? 2 : 0) | (fragment & 0x2000 ? 4 : 0));
	memcpy(&fields->src_ip, ip + 12, 4);
	memcpy(&fields->dst_ip, ip + 16, 4);
	set_end(frame, length, simhca_get16(ip + 2));
	frame->l4 = frame->l3 + header;
	frame->fragment = fragment & 0x3fff;
	if (!(fragment & 0x1fff)) /* only the first one has the header that follows */
		parse_l4(bytes, fields->proto, frame);
}

static void parse_ipv6(const uint8_t *bytes, uint32_t length, struct simhca_frame *frame)
{
	struct simhca_frame_fields *fields = &frame->fields;
	const uint8_t *ip = bytes + frame->l3;
	uint32_t word;
	uint8_t next;

	if (length - frame->l3 < IPV6_BYTES || ip[0] >> 4 != 6)
		return;
	fields->layers |= SIMHCA_LAYER_IPV6;
	memcpy(&word, ip, 4);
	fields->flow_label = word & htonl(0xfffff);
	fields->traffic_class = (uint8_t)(ntohl(word) >> 20);
	fields->next_hdr = next = ip[6];
	fields->hop_limit = ip[7];
	memcpy(fields->src_ip6, ip + 8, 16);
	memcpy(fields->dst_ip6, ip + 24, 16);
	set_end(frame, length, IPV6_BYTES + simhca_get16(ip + 4));
	frame->l4 = frame->l3 + IPV6_BYTES;
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		const uint8_t *header = bytes + frame->l4;
		uint32_t left = frame->end - frame->l4, size = 8;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT) {
			parse_l4(bytes, next, frame);
			return;
		}
		if (left < size)
			return;
		if (next == IPPROTO_FRAGMENT) {
			frame->fragment = true;
			if (simhca_get16(header + 2) & 0xfff8) /* not the first one */
				return;
		} else {
			size = 8 + header[1] * 8u;
		}
		if (left < size)
			return;
		next = header[0];
		frame->l4 += size;
	}
}

void simhca_frame_parse(const uint8_t *bytes, uint32_t length, struct simhca_frame *frame)
{
	struct simhca_frame_fields *fields = &frame->fields;
	uint32_t at = SIMHCA_VLAN_OFFSET;
	uint16_t type = simhca_get16(bytes + at);

	memset(frame, 0, sizeof(*frame));
	memcpy(fields->dst_mac, bytes, 6);
	memcpy(fields->src_mac, bytes + 6, 6);
	for (int tags = 0; tags < MAX_TAGS && (type == TYPE_CVLAN || type == TYPE_SVLAN) &&
			   length >= at + SIMHCA_VLAN_BYTES + 2;
	     tags++) {
		if (!tags) {
			fields->layers |= SIMHCA_LAYER_VLAN;
			memcpy(&fields->vlan_tag, bytes + at + 2, 2);
			frame->cvlan = type == TYPE_CVLAN;
		}
		at += SIMHCA_VLAN_BYTES;
		type = simhca_get16(bytes + at);
	}
	fields->ether_type = htons(type);
	frame->l3 = at + 2;
	frame->end = length;
	if (type == TYPE_IPV4)
		parse_ipv4(bytes, length, frame);
	else if (type == TYPE_IPV6)
		parse_ipv6(bytes, length, frame);
}

/* ----------------------------------------------------------------------------- checksums */

static bool has(const struct simhca_frame *frame, uint32_t layer)
{
	return frame->fields.layers & layer;
}

/* Where TCP or UDP keeps its checksum; 0 if it is neither, or cannot be told. */
static uint32_t l4_checksum_at(const struct simhca_frame *frame)
{
	if (frame->fragment || frame->truncated)
		return 0;
	if (has(frame, SIMHCA_LAYER_TCP))
		return frame->l4 + 16;
	return has(frame, SIMHCA_LAYER_UDP) ? frame->l4 + 6 : 0;
}

/* Of the pseudo header (RFC 793, RFC 8200 8.1), the header and the data; 0 if all is right. */
static uint16_t l4_checksum(const uint8_t *bytes, const struct simhca_frame *frame)
{
	uint32_t length = frame->end - frame->l4;
	uint32_t sum = length + (has(frame, SIMHCA_LAYER_TCP) ? IPPROTO_TCP : IPPROTO_UDP);

	if (has(frame, SIMHCA_LAYER_IPV4))
		sum = simhca_checksum_add(sum, bytes + frame->l3 + 12, 8);
	else
		sum = simhca_checksum_add(sum, bytes + frame->l3 + 8, 32);
	return simhca_checksum_end(simhca_checksum_add(sum, bytes + frame->l4, length));
}

static uint16_t ipv4_checksum(const uint8_t *bytes, const struct simhca_frame *frame)
{
	return simhca_checksum_end(
		simhca_checksum_add(0, bytes + frame->l3, frame->l4 - frame->l3));
}

void simhca_frame_set_checksums(uint8_t *bytes, const struct simhca_frame *frame)
{
	uint32_t at = l4_checksum_at(frame);
	uint16_t sum;

	if (has(frame, SIMHCA_LAYER_IPV4)) {
		simhca_put16(bytes + frame->l3 + 10, 0);
		simhca_put16(bytes + frame->l3 + 10, ipv4_checksum(bytes, frame));
	}
	if (!at)
		return;
	simhca_put16(bytes + at, 0);
	sum = l4_checksum(bytes, frame);
	/* 0 stands for "none" in UDP, so the other 0 is sent (RFC 768). */
	simhca_put16(bytes + at, sum || has(frame, SIMHCA_LAYER_TCP) ? sum : 0xffff);
}

bool simhca_frame_checksums_ok(const uint8_t *bytes, const struct simhca_frame *frame)
{
	uint32_t at = l4_checksum_at(frame);

	if (!has(frame, SIMHCA_LAYER_IPV4) || !at || ipv4_checksum(bytes, frame))
		return false;
	if (has(frame, SIMHCA_LAYER_UDP) && !simhca_get16(bytes + at))
		return true;
	return !l4_checksum(bytes, frame);
}
