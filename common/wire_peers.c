/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/av.h"
#include "wire_peers.h"

#define IPV4_PREFIX 96 /* bits of a GID before an IPv4 address */
#define GID_BITS 128
#define IPV4_SOURCE 12 /* offsets in IP headers */
#define IPV6_SOURCE 8

/* One address, or one network. */
static int parse_net(const char *text, size_t length, struct wire_net *net)
{
	char word[INET6_ADDRSTRLEN + sizeof("/128")], *slash, *end = NULL;
	unsigned long bits;

	memset(net, 0, sizeof(*net));
	if (length >= sizeof(word))
		return -1;
	memcpy(word, text, length);
	word[length] = '\0';
	slash = strchr(word, '/');
	if (slash)
		*slash++ = '\0';
	net->bits = 0;
	if (inet_pton(AF_INET, word, net->gid.raw + 12) == 1) {
		memset(net->gid.raw + 10, 0xff, 2);
		net->bits = IPV4_PREFIX;
	} else if (inet_pton(AF_INET6, word, net->gid.raw) != 1) {
		return -1;
	}
	bits = GID_BITS - net->bits;
	if (slash) {
		unsigned long most = bits;

		bits = strtoul(slash, &end, 10);
		if (*slash < '0' || *slash > '9' || *end || bits > most)
			return -1;
	}
	net->bits += (unsigned int)bits;
	return 0;
}

int wire_peers_parse(const char *text, struct wire_peers *peers)
{
	peers->count = 0;
	if (!text)
		return 0;
	for (;; text++) {
		size_t length = strcspn(text, ",");

		if (peers->count == WIRE_PEERS_MOST ||
		    parse_net(text, length, &peers->net[peers->count++]))
			return -1;
		text += length;
		if (!*text)
			return 0;
	}
}

/* ------------------------------------------------------------------------------ the filter */

/* Per network: for each word of the address three instructions, and what it comes to. */
#define PER_NET (4 * 3 + 1)

/* Appends "if the source is of this network, take the packet". */
static unsigned int add_net(struct sock_filter *code, const struct wire_net *net, bool ipv4)
{
	unsigned int first = ipv4 ? IPV4_PREFIX / 32 : 0, words = 0, n = 0;

	for (unsigned int word = first; word < GID_BITS / 32 && net->bits > word * 32; word++)
		words++;
	for (unsigned int i = 0; i < words; i++) {
		unsigned int bits = net->bits - (first + i) * 32;
		uint32_t mask = bits >= 32 ? UINT32_MAX : ~(UINT32_MAX >> bits), value;

		memcpy(&value, net->gid.raw + (first + i) * 4, sizeof(value));
		code[n++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS,
			(uint32_t)SKF_NET_OFF + (ipv4 ? IPV4_SOURCE : IPV6_SOURCE) + i * 4);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask);
		/* Another one: past the words that are left, and past what takes it. */
		code[n++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(value) & mask,
						     0, (uint8_t)((words - 1 - i) * 3 + 1));
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	return n;
}

int wire_peers_filter(const struct wire_peers *peers, int fd, bool ipv4)
{
	struct sock_filter code[WIRE_PEERS_MOST * PER_NET + 1];
	struct sock_fprog program = { .filter = code };
	unsigned int n = 0;

	if (!peers->count)
		return 0;
	for (unsigned int i = 0; i < peers->count; i++)
		if (simhca_gid_is_ipv4(&peers->net[i].gid) == ipv4)
			n += add_net(code + n, &peers->net[i], ipv4);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	program.len = (unsigned short)n;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}
