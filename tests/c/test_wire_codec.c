/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The codec of RoCE v2: what Linux's rxe has sent decodes, its ICRC is right, and it encodes to the
 * same bytes again; what is damaged or makes no sense is refused, with the reason.
 */
#include <dirent.h>
#include <endian.h>
#include <pcap/pcap.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/av.h"
#include "link/wire/bth.h"
#include "link/wire/icrc.h"

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES 8

/* A datagram of a capture, and where it came from. */
struct datagram {
	struct simhca_wire_path path; /* ip_id as it was */
	const uint8_t *bytes;
	size_t length;
};

static const char *captures(void)
{
	const char *directory = getenv("SIMHCA_CAPTURES");

	return directory ? directory : SIMHCA_CAPTURES_DIR;
}

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void take_apart(const uint8_t *frame, struct datagram *datagram)
{
	const uint8_t *ip = frame + ETHERNET_BYTES, *udp;

	memset(datagram, 0, sizeof(*datagram));
	if (ip[0] >> 4 == 4) {
		memset(datagram->path.source.raw + 10, 0xff, 2);
		memset(datagram->path.destination.raw + 10, 0xff, 2);
		memcpy(datagram->path.source.raw + 12, ip + 12, 4);
		memcpy(datagram->path.destination.raw + 12, ip + 16, 4);
		datagram->path.ip_id = get16(ip + 4);
		udp = ip + IPV4_BYTES;
	} else {
		memcpy(datagram->path.source.raw, ip + 8, 16);
		memcpy(datagram->path.destination.raw, ip + 24, 16);
		udp = ip + IPV6_BYTES;
	}
	datagram->path.source_port = get16(udp);
	datagram->bytes = udp + UDP_BYTES;
	datagram->length = get16(udp + 4) - UDP_BYTES;
}

static pcap_t *open_capture(const char *path)
{
	char error[PCAP_ERRBUF_SIZE];
	struct bpf_program filter;
	pcap_t *pcap = pcap_open_offline(path, error);

	if (!pcap)
		fail_msg("%s: %s", path, error);
	assert_int_equal(pcap_datalink(pcap), DLT_EN10MB);
	assert_int_equal(pcap_compile(pcap, &filter, "udp dst port 4791", 1, 0), 0);
	assert_int_equal(pcap_setfilter(pcap, &filter), 0);
	pcap_freecode(&filter);
	return pcap;
}

/* Has each see every datagram of every capture; how many there were. */
static unsigned int for_each(void (*each)(const char *name, unsigned int number,
					  const struct datagram *datagram))
{
	DIR *directory = opendir(captures());
	struct dirent *entry;
	unsigned int seen = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		struct pcap_pkthdr *header;
		const uint8_t *frame;
		char path[512];
		unsigned int number = 0;
		pcap_t *pcap;

		if (!strstr(entry->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", captures(), entry->d_name);
		pcap = open_capture(path);
		while (pcap_next_ex(pcap, &header, &frame) == 1) {
			struct datagram datagram;

			assert_int_equal(header->caplen, header->len);
			take_apart(frame, &datagram);
			each(entry->d_name, ++number, &datagram);
			seen++;
		}
		pcap_close(pcap);
	}
	closedir(directory);
	return seen;
}

/* One that a test is about. */
static void find(const char *name, unsigned int number, struct datagram *datagram)
{
	static uint8_t bytes[65536];
	char path[512];
	struct pcap_pkthdr *header;
	const uint8_t *frame;
	pcap_t *pcap;

	snprintf(path, sizeof(path), "%s/%s.pcap", captures(), name);
	pcap = open_capture(path);
	while (number--)
		assert_int_equal(pcap_next_ex(pcap, &header, &frame), 1);
	memcpy(bytes, frame, header->len);
	take_apart(bytes, datagram);
	pcap_close(pcap);
}

static struct simhca_packet decoded(const char *name, unsigned int number, const uint8_t **payload)
{
	struct simhca_packet packet;
	struct datagram datagram;

	find(name, number, &datagram);
	assert_int_equal(simhca_bth_decode(datagram.bytes, datagram.length, &packet, payload),
			 SIMHCA_WIRE_OK);
	return packet;
}

/* ------------------------------------------------------------------------------ captures */

/* Those that are not to be taken. */
static enum simhca_wire_fault fault_of(const char *name, unsigned int number)
{
	if (!strstr(name, "hand_made"))
		return SIMHCA_WIRE_OK;
	switch (number) {
	case 5:
		return SIMHCA_WIRE_BAD_PKEY;
	case 7:
		return SIMHCA_WIRE_BAD_VERSION;
	case 12: /* RESYNC */
		return SIMHCA_WIRE_BAD_OPCODE;
	default:
		return SIMHCA_WIRE_OK;
	}
}

static void decodes_and_encodes(const char *name, unsigned int number,
				const struct datagram *datagram)
{
	uint8_t again[65536], original[65536];
	const uint8_t *payload;
	struct simhca_packet packet;
	enum simhca_wire_fault fault =
		simhca_bth_decode(datagram->bytes, datagram->length, &packet, &payload);
	enum simhca_wire_fault expected = fault_of(name, number);
	size_t length;

	if (fault != expected)
		fail_msg("%s #%u: %s", name, number, simhca_wire_fault_name(fault));
	if (fault != SIMHCA_WIRE_OK)
		return;
	length = simhca_bth_encode(&packet, again);
	assert_int_equal(length, payload - datagram->bytes);
	memcpy(again + length, payload, packet.length);
	length += packet.length;
	memset(again + length, 0, simhca_pad(packet.length));
	length += simhca_pad(packet.length);
	assert_int_equal(length + SIMHCA_ICRC_BYTES, datagram->length);
	memcpy(original, datagram->bytes, length);
	if (strstr(name, "hand_made")) { /* bits that rxe does not set, and nobody looks at */
		original[1] &= (uint8_t)~0x40;
		original[2] |= 0x80;
		original[4] = packet.op == SIMHCA_PKT_CNP ? 0x40 : 0;
		original[8] &= 0x80;
	} else if (packet.transport == SIMHCA_QPT_UD) {
		assert_int_equal(packet.last, true);
	}
	if (memcmp(again, original, length))
		fail_msg("%s #%u: encodes to other bytes", name, number);
}

static void what_rxe_sent(void **state)
{
	assert_true(for_each(decodes_and_encodes) > 200);
}

/* rxe's own ICRC of FLUSH */
static bool icrc_is_wrong(const char *name, const struct datagram *datagram)
{
	return strstr(name, "atomic_write_flush") && datagram->bytes[0] == 0x1c;
}

static void has_its_icrc(const char *name, unsigned int number, const struct datagram *datagram)
{
	struct simhca_wire_path path = datagram->path;
	uint8_t bytes[65536];

	path.ip_id = 0xdead;
	if (simhca_icrc_check(&path, datagram->bytes, datagram->length) ==
	    icrc_is_wrong(name, datagram))
		fail_msg("%s #%u: ICRC", name, number);
	memcpy(bytes, datagram->bytes, datagram->length - SIMHCA_ICRC_BYTES);
	if (icrc_is_wrong(name, datagram)) {
		assert_true(simhca_icrc_check_rxe_flush(&path, datagram->bytes, datagram->length));
		simhca_icrc_put_rxe_flush(&datagram->path, bytes,
					  datagram->length - SIMHCA_ICRC_BYTES);
	} else {
		simhca_icrc_put(&datagram->path, bytes, datagram->length - SIMHCA_ICRC_BYTES);
	}
	assert_int_equal(path.ip_id, datagram->path.ip_id);
	assert_memory_equal(bytes, datagram->bytes, datagram->length);
}

static void icrcs(void **state)
{
	assert_true(for_each(has_its_icrc) > 200);
}

/* -------------------------------------------------------------------------------- fields */

static void fields_of_a_write(void **state)
{
	const uint8_t *payload;
	struct simhca_packet packet = decoded("rc_write", 12, &payload);

	assert_int_equal(packet.op, SIMHCA_PKT_WRITE);
	assert_int_equal(packet.transport, SIMHCA_QPT_RC);
	assert_true(packet.first && packet.last && packet.has_imm && !packet.has_inv);
	assert_true(packet.ack_req);
	assert_int_equal(packet.length, packet.dma_length);
}

static void fields_of_an_atomic(void **state)
{
	const uint8_t *payload;
	struct simhca_packet packet = decoded("rc_atomic", 1, &payload);

	assert_int_equal(packet.op, SIMHCA_PKT_COMPARE_SWAP);
	assert_int_equal(packet.dest_qpn, 0xb6);
	assert_int_equal(packet.psn, 0x1000);
	assert_int_equal(packet.va, 0x7f76a4105040);
	assert_int_equal(packet.rkey, 0xaa76);
	assert_true(packet.atomic.compare_swap);
	assert_int_equal(packet.atomic.swap_add, 0xaabbccdd00112233);
	assert_int_equal(packet.atomic.compare, 0x1122334455667788);
	packet = decoded("rc_atomic", 2, &payload);
	assert_int_equal(packet.op, SIMHCA_PKT_ATOMIC_ACK);
	assert_int_equal(packet.syndrome, SIMHCA_SYNDROME_ACK);
	assert_int_equal(packet.msn, 1);
	assert_int_equal(packet.atomic_old, 0x1122334455667788);
	packet = decoded("rc_atomic", 5, &payload);
	assert_int_equal(packet.op, SIMHCA_PKT_FETCH_ADD);
	assert_false(packet.atomic.compare_swap);
	assert_int_equal(packet.atomic.swap_add, 0x100000001);
}

static void fields_of_a_datagram(void **state)
{
	const uint8_t imm[] = { 1, 2, 3, 4 };
	const uint8_t *payload;
	struct simhca_packet packet = decoded("ud", 4, &payload);

	assert_int_equal(packet.transport, SIMHCA_QPT_UD);
	assert_int_equal(packet.dest_qpn, 0xc2);
	assert_int_equal(packet.qkey, 0x11111111);
	assert_int_equal(packet.src_qpn, 0x82);
	assert_int_equal(packet.psn, 3);
	assert_true(packet.has_imm && packet.solicited && !packet.ack_req);
	assert_memory_equal(&packet.imm_or_rkey, imm, 4);
	assert_int_equal(packet.length, 6);
}

static void fields_of_a_flush(void **state)
{
	const uint8_t *payload;
	struct simhca_packet packet = decoded("k6_12_rc_atomic_write_flush", 7, &payload);

	assert_int_equal(packet.op, SIMHCA_PKT_FLUSH);
	assert_int_equal(packet.flush_placement, 1);
	assert_int_equal(packet.flush_selectivity, 0);
	packet = decoded("k6_12_rc_atomic_write_flush", 9, &payload);
	assert_int_equal(packet.flush_selectivity, 1);
	packet = decoded("k6_12_rc_atomic_write_flush", 1, &payload);
	assert_int_equal(packet.op, SIMHCA_PKT_ATOMIC_WRITE);
	assert_int_equal(packet.length, 8);
}

/* rxe has no XRC: there and back has to do. */
static void xrc(void **state)
{
	struct simhca_packet packet = { .op = SIMHCA_PKT_SEND,
					.transport = SIMHCA_QPT_XRC_SEND,
					.first = true,
					.dest_qpn = 0x123456,
					.psn = 0xfedcba,
					.srqn = 0xabcdef,
					.length = 5 },
			     again;
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(5)] = { 0 };
	const uint8_t *payload;
	size_t length = simhca_bth_encode(&packet, bytes);

	assert_int_equal(length, 16);
	assert_int_equal(bytes[0], 0xa0);
	length += 5 + simhca_pad(5) + SIMHCA_ICRC_BYTES;
	assert_int_equal(simhca_bth_decode(bytes, length, &again, &payload), SIMHCA_WIRE_OK);
	assert_int_equal(again.transport, SIMHCA_QPT_XRC_SEND);
	assert_int_equal(again.srqn, 0xabcdef);
	assert_int_equal(again.length, 5);
	assert_int_equal(payload - bytes, 16);

	packet = (struct simhca_packet){
		.op = SIMHCA_PKT_ACK, .transport = SIMHCA_QPT_XRC_RECV, .first = true, .last = true
	};
	length = simhca_bth_encode(&packet, bytes);
	assert_int_equal(length, 16); /* an AETH, and no XRCETH */
	assert_int_equal(simhca_bth_decode(bytes, length + SIMHCA_ICRC_BYTES, &again, &payload),
			 SIMHCA_WIRE_OK);
	assert_int_equal(again.transport, SIMHCA_QPT_XRC_RECV);
}

/* ------------------------------------------------------------------------------- refused */

static enum simhca_wire_fault decode_changed(const char *name, unsigned int number, size_t at,
					     uint8_t value)
{
	const uint8_t *payload;
	struct simhca_packet packet;
	struct datagram datagram;
	uint8_t bytes[65536];

	find(name, number, &datagram);
	memcpy(bytes, datagram.bytes, datagram.length);
	bytes[at] = value;
	return simhca_bth_decode(bytes, datagram.length, &packet, &payload);
}

static void opcodes_of_other_services(void **state)
{
	/* RD, of CNP's service, reserved; UC: READ, ATOMIC, SEND with invalidate; UD: WRITE, SEND
	 * first. */
	static const uint8_t wrong[] = { 0x44, 0x80, 0xe4, 0x15, 0x1f, 0x2c,
					 0x33, 0x37, 0x6a, 0x60, 0x77 };

	for (size_t i = 0; i < sizeof(wrong); i++)
		assert_int_equal(decode_changed("rc_write", 7, 0, wrong[i]),
				 SIMHCA_WIRE_BAD_OPCODE);
}

static void partitions_and_versions(void **state)
{
	assert_int_equal(decode_changed("rc_write", 7, 2, 0x7f), SIMHCA_WIRE_OK);
	assert_int_equal(decode_changed("rc_write", 7, 3, 0xfe), SIMHCA_WIRE_BAD_PKEY);
	assert_int_equal(decode_changed("rc_write", 7, 1, 0x01), SIMHCA_WIRE_BAD_VERSION);
}

/* An acknowledgement, a READ request or an atomic with bytes behind its headers. */
static void payload_where_none_is(void **state)
{
	static const struct {
		const char *name;
		unsigned int number;
	} packets[] = {
		{ "rc_write", 2 }, { "rc_read", 1 }, { "rc_atomic", 1 }, { "rc_atomic", 2 }
	};

	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		const uint8_t *payload;
		struct simhca_packet packet;
		struct datagram datagram;
		uint8_t bytes[256] = { 0 };

		find(packets[i].name, packets[i].number, &datagram);
		memcpy(bytes, datagram.bytes, datagram.length);
		assert_int_equal(simhca_bth_decode(bytes, datagram.length, &packet, &payload),
				 SIMHCA_WIRE_OK);
		assert_int_equal(simhca_bth_decode(bytes, datagram.length + 4, &packet, &payload),
				 SIMHCA_WIRE_BAD_LENGTH);
	}
	/* ATOMIC WRITE has 8 bytes, and its RETH says so. */
	assert_int_equal(decode_changed("k6_12_rc_atomic_write_flush", 1, 27, 7),
			 SIMHCA_WIRE_BAD_LENGTH);
	assert_int_equal(decode_changed("k6_12_rc_atomic_write_flush", 1, 1, 0x10),
			 SIMHCA_WIRE_BAD_LENGTH);
}

/*
 * Whatever is cut off: it is refused, or its payload is shorter; and no byte behind its end is
 * looked at, for there a page ends.
 */
static void is_cut(const char *name, unsigned int number, const struct datagram *datagram)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (datagram->length + page) / page * page;
	static uint8_t *area;
	static size_t area_bytes = 65536;

	if (!area) {
		area = mmap(NULL, area_bytes + page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(area != MAP_FAILED);
		assert_int_equal(mprotect(area + area_bytes, page, PROT_NONE), 0);
	}
	assert_true(room <= area_bytes);
	for (size_t length = 0; length < datagram->length && length < 64; length++) {
		uint8_t *bytes = area + area_bytes - length;
		struct simhca_wire_path path = datagram->path;
		struct simhca_packet packet;
		const uint8_t *payload;
		enum simhca_wire_fault fault;

		memcpy(bytes, datagram->bytes, length);
		fault = simhca_bth_decode(bytes, length, &packet, &payload);
		if (length < SIMHCA_BTH_BYTES + SIMHCA_ICRC_BYTES)
			assert_int_equal(fault, SIMHCA_WIRE_TOO_SHORT);
		if (fault == SIMHCA_WIRE_OK) {
			assert_true(payload >= bytes + SIMHCA_BTH_BYTES);
			assert_true(payload + packet.length <= bytes + length - SIMHCA_ICRC_BYTES);
		}
		/* Of IPv4 one in 65,536 passes. */
		if (simhca_icrc_check(&path, bytes, length))
			assert_true(simhca_gid_is_ipv4(&path.source));
	}
}

static void cut_short(void **state)
{
	assert_true(for_each(is_cut) > 200);
}

/*
 * Each bit of a packet, but for those that may change on the way: over IPv6 each error is seen;
 * over IPv4 unless it looks like another identification, and no single bit does.
 */
static void damaged(const char *name, unsigned int number)
{
	struct datagram datagram;
	uint8_t bytes[65536];

	find(name, number, &datagram);
	for (size_t bit = 0; bit < datagram.length * 8; bit++) {
		struct simhca_wire_path path = datagram.path;

		memcpy(bytes, datagram.bytes, datagram.length);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (simhca_icrc_check(&path, bytes, datagram.length) != (bit / 8 == 4))
			fail_msg("%s #%u: bit %zu", name, number, bit);
	}
}

static void bits_that_flip(void **state)
{
	damaged("rc_ipv6", 1);
	damaged("rc_read", 1);
	damaged("rc_write", 12);
}

/* The addresses are covered as well. */
static void from_elsewhere(void **state)
{
	struct simhca_wire_path path;
	struct datagram datagram;

	find("rc_ipv6", 1, &datagram);
	path = datagram.path;
	assert_true(simhca_icrc_check(&path, datagram.bytes, datagram.length));
	path.source.raw[15] ^= 1;
	assert_false(simhca_icrc_check(&path, datagram.bytes, datagram.length));
	path = datagram.path;
	path.destination.raw[0] ^= 1;
	assert_false(simhca_icrc_check(&path, datagram.bytes, datagram.length));
	path = datagram.path;
	path.source_port ^= 1;
	assert_false(simhca_icrc_check(&path, datagram.bytes, datagram.length));
}

/* What no opcode says is not sent. */
static void not_to_be_encoded(void **state)
{
	struct simhca_packet packet = { .op = SIMHCA_PKT_READ, .transport = SIMHCA_QPT_RC };
	uint8_t bytes[SIMHCA_HEADERS_MOST];

	assert_int_equal(simhca_bth_encode(&packet, bytes), 0); /* a part of a request */
	packet.first = packet.last = true;
	assert_int_equal(simhca_bth_encode(&packet, bytes), 28);
	packet.transport = SIMHCA_QPT_UC;
	assert_int_equal(simhca_bth_encode(&packet, bytes), 0);
	packet.op = SIMHCA_PKT_SEND;
	packet.transport = SIMHCA_QPT_RAW_PACKET;
	assert_int_equal(simhca_bth_encode(&packet, bytes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rxe_sent),
		cmocka_unit_test(icrcs),
		cmocka_unit_test(fields_of_a_write),
		cmocka_unit_test(fields_of_an_atomic),
		cmocka_unit_test(fields_of_a_datagram),
		cmocka_unit_test(fields_of_a_flush),
		cmocka_unit_test(xrc),
		cmocka_unit_test(opcodes_of_other_services),
		cmocka_unit_test(partitions_and_versions),
		cmocka_unit_test(payload_where_none_is),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(bits_that_flip),
		cmocka_unit_test(from_elsewhere),
		cmocka_unit_test(not_to_be_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
