/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the device reads in a frame's headers, and the checksums that it makes and judges. */
#include "ethernet/frame.h"
#include "frames.h"
#include "packet/checksum.h"

static struct simhca_frame parse(const struct recipe *recipe, uint8_t *bytes, uint32_t *length)
{
	struct simhca_frame frame;

	*length = frame_make(bytes, recipe);
	simhca_frame_parse(bytes, *length, &frame);
	return frame;
}

static void layers_are_found(void **state)
{
	static const struct {
		struct recipe recipe;
		uint32_t layers;
	} cases[] = {
		{ { .ether_type = 0x88b5, .payload = 50 }, 0 },
		{ { .ip = 4, .payload = 50 }, SIMHCA_LAYER_IPV4 },
		{ { .ip = 4, .l4 = IPPROTO_UDP }, SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_UDP },
		{ { .ip = 4, .l4 = IPPROTO_TCP }, SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_TCP },
		{ { .ip = 6, .l4 = IPPROTO_UDP }, SIMHCA_LAYER_IPV6 | SIMHCA_LAYER_UDP },
		{ { .ip = 6, .l4 = IPPROTO_TCP }, SIMHCA_LAYER_IPV6 | SIMHCA_LAYER_TCP },
		{ { .tags = 1, .ip = 4, .l4 = IPPROTO_TCP },
		  SIMHCA_LAYER_VLAN | SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_TCP },
		{ { .tags = 2, .tpid = 0x88a8, .ip = 6 }, SIMHCA_LAYER_VLAN | SIMHCA_LAYER_IPV6 },
		/* the first fragment has a UDP header, the others have not */
		{ { .ip = 4, .l4 = IPPROTO_UDP, .fragment = 0x2000 },
		  SIMHCA_LAYER_IPV4 | SIMHCA_LAYER_UDP },
		{ { .ip = 4, .l4 = IPPROTO_UDP, .fragment = 0x2001 }, SIMHCA_LAYER_IPV4 },
		{ { .ip = 4, .l4 = IPPROTO_UDP, .fragment = 0x0001 }, SIMHCA_LAYER_IPV4 },
	};
	uint8_t bytes[256];
	uint32_t length;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(parse(&cases[i].recipe, bytes, &length).fields.layers,
				 cases[i].layers);
}

static void fields_are_those_of_the_frame(void **state)
{
	struct recipe recipe = {
		.tags = 1,
		.vlan_tag = 0xbc0c,
		.ip = 4,
		.src_ip = 0x01020304,
		.dst_ip = 0x05060708,
		.tos = 0x22,
		.ttl = 63,
		.l4 = IPPROTO_UDP,
		.src_port = 1234,
		.dst_port = 5678,
		.fragment = 0x4000,
	};
	struct simhca_frame frame;
	uint8_t bytes[256];
	uint32_t length;

	frame = parse(&recipe, bytes, &length);
	assert_memory_equal(frame.fields.dst_mac, GROUP_MAC, 6);
	assert_memory_equal(frame.fields.src_mac, SOME_MAC, 6);
	assert_int_equal(frame.fields.ether_type, htons(0x0800));
	assert_int_equal(frame.fields.vlan_tag, htons(0xbc0c));
	assert_int_equal(frame.fields.src_ip, htonl(0x01020304));
	assert_int_equal(frame.fields.dst_ip, htonl(0x05060708));
	assert_int_equal(frame.fields.tos, 0x22);
	assert_int_equal(frame.fields.ttl, 63);
	assert_int_equal(frame.fields.proto, IPPROTO_UDP);
	assert_int_equal(frame.fields.ip_flags, 2);
	assert_int_equal(frame.fields.src_port, htons(1234));
	assert_int_equal(frame.fields.dst_port, htons(5678));
	recipe.fragment = 0x2000;
	assert_int_equal(parse(&recipe, bytes, &length).fields.ip_flags, 4);

	recipe.ip = 6;
	recipe.flow_label = 0xabcde;
	memset(recipe.src_ip6, 0x11, 16);
	memset(recipe.dst_ip6, 0x22, 16);
	frame = parse(&recipe, bytes, &length);
	assert_int_equal(frame.fields.ether_type, htons(0x86dd));
	assert_int_equal(frame.fields.flow_label, htonl(0xabcde));
	assert_int_equal(frame.fields.traffic_class, 0x22);
	assert_int_equal(frame.fields.hop_limit, 63);
	assert_int_equal(frame.fields.next_hdr, IPPROTO_UDP);
	assert_memory_equal(frame.fields.src_ip6, recipe.src_ip6, 16);
	assert_memory_equal(frame.fields.dst_ip6, recipe.dst_ip6, 16);
	assert_int_equal(frame.fields.dst_port, htons(5678));
	assert_int_equal(frame.fields.src_ip, 0);
}

/* UDP behind hop-by-hop options of 16 bytes and a routing header of 8. */
static void extension_headers_are_looked_through(void **state)
{
	struct recipe recipe = { .ip = 6, .proto = IPPROTO_HOPOPTS, .payload = 16 + 8 + 8 + 20 };
	struct simhca_frame frame;
	uint8_t bytes[256];
	uint32_t length;

	length = frame_make(bytes, &recipe);
	memset(bytes + 54, 0, 32);
	bytes[54] = IPPROTO_ROUTING;
	bytes[55] = 1;
	bytes[70] = IPPROTO_UDP;
	put16(bytes + 78, 7);
	simhca_frame_parse(bytes, length, &frame);
	assert_int_equal(frame.fields.layers, SIMHCA_LAYER_IPV6 | SIMHCA_LAYER_UDP);
	assert_int_equal(frame.fields.next_hdr, IPPROTO_HOPOPTS);
	assert_int_equal(frame.fields.src_port, htons(7));

	bytes[55] = 200; /* longer than the frame */
	simhca_frame_parse(bytes, length, &frame);
	assert_int_equal(frame.fields.layers, SIMHCA_LAYER_IPV6);

	bytes[54] = IPPROTO_UDP;
	bytes[20] = IPPROTO_FRAGMENT;
	put16(bytes + 56, 1); /* more to come, offset 0 */
	simhca_frame_parse(bytes, length, &frame);
	assert_int_equal(frame.fields.layers, SIMHCA_LAYER_IPV6 | SIMHCA_LAYER_UDP);
	assert_true(frame.fragment);
	put16(bytes + 56, 8); /* offset 1 */
	simhca_frame_parse(bytes, length, &frame);
	assert_int_equal(frame.fields.layers, SIMHCA_LAYER_IPV6);
}

/* Cut anywhere, and filled with anything: the sanitizers see what is read beyond the end. */
static void no_byte_beyond_the_frame_is_read(void **state)
{
	static const struct recipe recipe[] = {
		{ .tags = 2, .ip = 4, .l4 = IPPROTO_TCP, .payload = 40 },
		{ .tags = 1, .ip = 6, .l4 = IPPROTO_UDP, .payload = 40 },
		{ .ip = 6, .proto = IPPROTO_HOPOPTS, .payload = 40 },
		{ .ip = 6, .proto = IPPROTO_FRAGMENT, .payload = 40 },
	};
	uint64_t seed = 5;

	for (unsigned int round = 0; round < 20000; round++) {
		uint8_t bytes[256], *exact;
		struct simhca_frame frame;
		uint32_t length = frame_make(bytes, &recipe[round & 3]);

		for (unsigned int i = 0; round > 400 && i < 1 + round % 8; i++)
			bytes[12 + test_random(&seed) % (length - 12)] =
				(uint8_t)test_random(&seed);
		length = SIMHCA_FRAME_MIN + test_random(&seed) % (length - SIMHCA_FRAME_MIN + 1);
		exact = malloc(length);
		memcpy(exact, bytes, length);
		simhca_frame_parse(exact, length, &frame);
		assert_true(frame.end <= length);
		simhca_frame_checksums_ok(exact, &frame);
		simhca_frame_set_checksums(exact, &frame);
		free(exact);
	}
}

/* The header of an example that is in every text about it: its checksum is 0xb861. */
static void a_known_ipv4_header(void **state)
{
	static const uint8_t header[] = { 0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40,
					  0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
					  0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7 };

	assert_int_equal(simhca_checksum_end(simhca_checksum_add(0, header, sizeof(header))),
			 0xb861);
}

static void checksums_are_made_and_judged(void **state)
{
	static const unsigned int l4[] = { IPPROTO_TCP, IPPROTO_UDP };

	for (size_t i = 0; i < ARRAY_SIZE(l4); i++) {
		for (uint32_t payload = 0; payload < 70; payload++) {
			struct recipe recipe = { .ip = 4,
						 .src_ip = 0xc0a80001,
						 .dst_ip = 0xc0a800c7,
						 .ttl = 64,
						 .l4 = l4[i],
						 .src_port = 5,
						 .payload = payload };
			struct simhca_frame frame;
			uint8_t bytes[256];
			uint32_t length;

			frame = parse(&recipe, bytes, &length);
			assert_false(simhca_frame_checksums_ok(bytes, &frame));
			simhca_frame_set_checksums(bytes, &frame);
			assert_true(simhca_frame_checksums_ok(bytes, &frame));
			for (uint32_t at = 14; at < length; at++) {
				/* Neither the length of the packet nor what makes it a packet. */
				if (at == 14 || at == 16 || at == 17 || at == 20 || at == 21 ||
				    at == 23)
					continue;
				bytes[at] ^= 0x10;
				simhca_frame_parse(bytes, length, &frame);
				assert_false(simhca_frame_checksums_ok(bytes, &frame));
				bytes[at] ^= 0x10;
			}
		}
	}
}

static void what_cannot_be_judged_is_not_right(void **state)
{
	static const struct recipe recipes[] = {
		{ .ip = 6, .l4 = IPPROTO_UDP, .payload = 9 },
		{ .ip = 4, .proto = IPPROTO_ICMP, .payload = 9 },
		{ .ip = 4, .l4 = IPPROTO_UDP, .payload = 9, .fragment = 0x2000 },
		{ .ether_type = 0x88b5, .payload = 9 },
	};
	struct simhca_frame frame;
	uint8_t bytes[256];
	uint32_t length;

	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
		frame = parse(&recipes[i], bytes, &length);
		simhca_frame_set_checksums(bytes, &frame);
		assert_false(simhca_frame_checksums_ok(bytes, &frame));
	}
}

/* UDP without a checksum is right; one that comes to 0 is sent as 0xffff, for 0 is none. */
static void udp_and_zero(void **state)
{
	struct recipe recipe = {
		.ip = 4, .src_ip = 1, .dst_ip = 2, .l4 = IPPROTO_UDP, .payload = 2
	};
	struct simhca_frame frame;
	uint8_t bytes[256], *udp = bytes + 34;
	uint32_t length;

	frame = parse(&recipe, bytes, &length);
	simhca_frame_set_checksums(bytes, &frame);
	put16(udp + 6, 0);
	assert_true(simhca_frame_checksums_ok(bytes, &frame));
	/* 1 + 2 + 17 + 10 + 10: the payload that makes the sum 0xffff */
	put16(udp + 8, 0xffff - 40);
	simhca_frame_set_checksums(bytes, &frame);
	assert_int_equal(udp[6] << 8 | udp[7], 0xffff);
	assert_true(simhca_frame_checksums_ok(bytes, &frame));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_are_found),
		cmocka_unit_test(fields_are_those_of_the_frame),
		cmocka_unit_test(extension_headers_are_looked_through),
		cmocka_unit_test(no_byte_beyond_the_frame_is_read),
		cmocka_unit_test(a_known_ipv4_header),
		cmocka_unit_test(checksums_are_made_and_judged),
		cmocka_unit_test(what_cannot_be_judged_is_not_right),
		cmocka_unit_test(udp_and_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
