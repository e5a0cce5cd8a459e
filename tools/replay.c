/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the capture of a reliable connection tells: a request that is sent again was lost, unless an
 * RNR NAK said before that there was no receive. (Or its answer was lost, which is the same to the
 * programs: it is not carried out twice.) Rules count requests of their opcodes, one for each
 * message: that is how links within the daemon carry them.
 */
#include <pcap/pcap.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "replay.h"
#include "tool.h"

#define ETHERNET_HEAD 14
#define VLAN_TAG 4
#define IPV4_HEAD 20 /* without options */
#define IPV6_HEAD 40
#define UDP_HEAD 8
#define BTH_HEAD 12
#define ICRC 4
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_VLAN 0x8100	 /* IEEE 802.1Q */
#define TYPE_SERVICE_VLAN 0x88a8 /* IEEE 802.1ad: another tag follows */
#define PROTOCOL_UDP 17
#define FRAGMENT_OFFSET 0x1fff
#define ROCE_PORT 4791
#define PSNS (1u << 24)

enum request { SEND, WRITE, READ, ATOMIC, REQUESTS };

static const char *const opcodes[REQUESTS] = {
	[SEND] = "SEND,SEND_WITH_IMM,SEND_WITH_INV",
	[WRITE] = "RDMA_WRITE,RDMA_WRITE_WITH_IMM",
	[READ] = "RDMA_READ",
	[ATOMIC] = "ATOMIC_CMP_AND_SWP,ATOMIC_FETCH_AND_ADD",
};

/* One time that a message was sent. */
struct sending {
	enum request request;
	bool not_ready; /* it was answered by an RNR NAK */
	bool lost;
};

/* Where requests go. */
struct destination {
	uint8_t ip[16];
	uint32_t qpn;
};

struct flow {
	struct destination to;
	uint32_t next_psn;
	bool repeats; /* the packet before next_psn was sent again */
	size_t sending;
	UT_hash_handle hh;
};

struct packet {
	struct {
		struct destination to;
		uint32_t psn;
	} key;
	size_t sending; /* the last in which it was */
	UT_hash_handle hh;
};

/*
 * By PSN alone: an RNR NAK goes to the requester's QP, and does not name the responder's, by which flows
 * are known here.
 */
struct asked {
	uint32_t psn;
	size_t sending;
	UT_hash_handle hh;
};

struct replay {
	struct sending *sendings;
	size_t count, room;
	struct flow *flows;
	struct packet *packets;
	struct asked *asked;
	size_t of_roce; /* packets */
	bool no_memory;
};

/* What is used of a RoCE v2 packet's headers. */
struct headers {
	struct destination to;
	uint8_t opcode;
	uint32_t psn;
	uint8_t syndrome; /* the first byte behind the BTH: of an acknowledgement's AETH */
};

static uint32_t be24(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
}

static uint32_t be16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

/* Where the network layer's header is, behind VLAN tags if there are any. *type: its EtherType. */
static size_t find_ip(const uint8_t *frame, size_t length, uint32_t *type)
{
	size_t at = ETHERNET_HEAD;

	if (length < at)
		return length;
	*type = be16(frame + at - 2);
	while ((*type == TYPE_VLAN || *type == TYPE_SERVICE_VLAN) && length >= at + VLAN_TAG) {
		at += VLAN_TAG;
		*type = be16(frame + at - 2);
	}
	return at;
}

/* The length of the IP header in front of UDP; 0: it is none, or a fragment other than the first. */
static size_t ip_length(const uint8_t *ip, size_t length, uint32_t type)
{
	if (type == TYPE_IPV4 && length >= IPV4_HEAD)
		return ip[0] >> 4 == 4 && ip[9] == PROTOCOL_UDP && !(be16(ip + 6) & FRAGMENT_OFFSET)
			       ? (size_t)(ip[0] & 0xf) * 4
			       : 0;
	if (type == TYPE_IPV6 && length >= IPV6_HEAD)
		return ip[0] >> 4 == 6 && ip[6] == PROTOCOL_UDP ? IPV6_HEAD : 0;
	return 0;
}

/* Reads the headers of a frame. False: it is no packet of RoCE v2 (annex A17). */
static bool parse_frame(const uint8_t *frame, size_t length, struct headers *headers)
{
	uint32_t type = 0;
	const size_t at = find_ip(frame, length, &type);
	const uint8_t *ip = frame + at, *udp, *bth;
	const size_t ip_head = ip_length(ip, length - at, type);

	/* Behind the BTH there is an ICRC at least. */
	if (ip_head < IPV4_HEAD || length - at < ip_head + UDP_HEAD + BTH_HEAD + ICRC)
		return false;
	udp = ip + ip_head;
	if (be16(udp + 2) != ROCE_PORT)
		return false;
	bth = udp + UDP_HEAD;
	memset(headers, 0, sizeof(*headers));
	if (type == TYPE_IPV6)
		memcpy(headers->to.ip, ip + 24, 16);
	else
		memcpy(headers->to.ip, ip + 16, 4);
	headers->opcode = bth[0];
	headers->to.qpn = be24(bth + 5);
	headers->psn = be24(bth + 9);
	headers->syndrome = bth[BTH_HEAD];
	return true;
}

/* By table 38 of IBTA vol. 1. False: it is no request of RC. */
static bool is_request(uint8_t opcode, enum request *request, bool *begins)
{
	if (opcode <= 0x05 || opcode == 0x16 || opcode == 0x17)
		*request = SEND;
	else if (opcode <= 0x0b)
		*request = WRITE;
	else if (opcode == 0x0c)
		*request = READ;
	else if (opcode == 0x13 || opcode == 0x14)
		*request = ATOMIC;
	else
		return false;
	*begins = opcode == 0x00 || opcode == 0x04 || opcode == 0x05 || opcode == 0x17 ||
		  opcode == 0x06 || opcode == 0x0a || opcode == 0x0b || *request == READ ||
		  *request == ATOMIC;
	return true;
}

static void *room_for(struct replay *replay, size_t size)
{
	void *room = calloc(1, size);

	replay->no_memory |= !room;
	return room;
}

static bool begin_sending(struct replay *replay, enum request request)
{
	if (replay->count == replay->room) {
		size_t room = replay->room ? 2 * replay->room : 1024;
		struct sending *more = realloc(replay->sendings, room * sizeof(*more));

		replay->no_memory |= !more;
		if (!more)
			return false;
		replay->sendings = more;
		replay->room = room;
	}
	replay->sendings[replay->count++] = (struct sending){ .request = request };
	return true;
}

static struct flow *flow_to(struct replay *replay, const struct destination *to)
{
	struct flow *flow;

	HASH_FIND(hh, replay->flows, to, sizeof(*to), flow);
	if (flow)
		return flow;
	flow = room_for(replay, sizeof(*flow));
	if (!flow)
		return NULL;
	flow->to = *to;
	flow->next_psn = PSNS;
	HASH_ADD(hh, replay->flows, to, sizeof(flow->to), flow);
	return flow;
}

static void note_packet(struct replay *replay, const struct headers *headers, struct packet *packet,
			size_t sending)
{
	struct asked *asked;

	if (!packet) {
		packet = room_for(replay, sizeof(*packet));
		if (!packet)
			return;
		packet->key.to = headers->to;
		packet->key.psn = headers->psn;
		HASH_ADD(hh, replay->packets, key, sizeof(packet->key), packet);
	}
	packet->sending = sending;
	HASH_FIND(hh, replay->asked, &headers->psn, sizeof(headers->psn), asked);
	if (!asked) {
		asked = room_for(replay, sizeof(*asked));
		if (!asked)
			return;
		asked->psn = headers->psn;
		HASH_ADD(hh, replay->asked, psn, sizeof(asked->psn), asked);
	}
	asked->sending = sending;
}

static void take_request(struct replay *replay, const struct headers *headers, enum request request,
			 bool begins)
{
	struct flow *flow = flow_to(replay, &headers->to);
	struct packet *packet, key = { 0 };
	bool goes_on;

	if (!flow)
		return;
	key.key.to = headers->to;
	key.key.psn = headers->psn;
	HASH_FIND(hh, replay->packets, &key.key, sizeof(key.key), packet);
	goes_on = headers->psn == flow->next_psn;
	/*
	 * A requester sends the lost packet again, and all that follow it. So a packet that was seen before
	 * was lost, unless the one before it is sent again as well.
	 */
	if (packet && !(flow->repeats && goes_on)) {
		struct sending *before = &replay->sendings[packet->sending];

		before->lost |= !before->not_ready;
		begins = true;
	}
	if ((begins || flow->next_psn == PSNS) && !begin_sending(replay, request))
		return;
	if (begins || flow->next_psn == PSNS)
		flow->sending = replay->count - 1;
	flow->repeats = packet;
	flow->next_psn = (headers->psn + 1) % PSNS;
	note_packet(replay, headers, packet, flow->sending);
}

static void take_frame(struct replay *replay, const uint8_t *frame, size_t length)
{
	enum request request;
	struct asked *asked;
	struct headers headers;
	bool begins;

	if (!parse_frame(frame, length, &headers))
		return;
	replay->of_roce++;
	if (is_request(headers.opcode, &request, &begins)) {
		take_request(replay, &headers, request, begins);
	} else if (headers.opcode == 0x11 && headers.syndrome >> 5 == 1) {
		HASH_FIND(hh, replay->asked, &headers.psn, sizeof(headers.psn), asked);
		if (asked)
			replay->sendings[asked->sending].not_ready = true;
	}
}

static void print_rules(const struct replay *replay, FILE *out)
{
	size_t sent[REQUESTS] = { 0 }, arrived = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct sending *sending = &replay->sendings[i];

		sent[sending->request]++;
		arrived += sending->request == SEND && !sending->lost;
		if (sending->lost)
			fprintf(out, "drop opcode=%s nth=%zu\n", opcodes[sending->request],
				sent[sending->request]);
		else if (sending->not_ready && sending->request == SEND)
			fprintf(out, "rnr opcode=%s nth=%zu\n", opcodes[SEND], arrived);
	}
}

static void forget(struct replay *replay)
{
	struct packet *packet, *next_packet;
	struct asked *asked, *next_asked;
	struct flow *flow, *next_flow;

	HASH_ITER (hh, replay->flows, flow, next_flow) {
		HASH_DEL(replay->flows, flow);
		free(flow);
	}
	HASH_ITER (hh, replay->packets, packet, next_packet) {
		HASH_DEL(replay->packets, packet);
		free(packet);
	}
	HASH_ITER (hh, replay->asked, asked, next_asked) {
		HASH_DEL(replay->asked, asked);
		free(asked);
	}
	free(replay->sendings);
}

bool replay_rules(const char *file, FILE *out)
{
	char error[PCAP_ERRBUF_SIZE];
	pcap_t *capture = pcap_open_offline(file, error);
	struct replay replay = { 0 };
	struct pcap_pkthdr *header;
	const uint8_t *frame;
	bool good = false;
	int got;

	if (!capture) {
		complain("%s: %s", file, error);
		return false;
	}
	if (pcap_datalink(capture) != DLT_EN10MB) {
		complain("%s: its frames are not Ethernet's", file);
		goto out;
	}
	while ((got = pcap_next_ex(capture, &header, &frame)) > 0 && !replay.no_memory)
		take_frame(&replay, frame, header->caplen);
	if (got == PCAP_ERROR)
		complain("%s: %s", file, pcap_geterr(capture));
	else if (replay.no_memory)
		complain("out of memory");
	else if (!replay.of_roce)
		complain("%s: none of its frames is a packet of RoCE v2 (UDP port %d)", file,
			 ROCE_PORT);
	else
		good = true;
	if (good)
		print_rules(&replay, out);
out:
	forget(&replay);
	pcap_close(capture);
	return good;
}
