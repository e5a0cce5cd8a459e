/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * bad_wire NETNS NETNS INTERFACE SEED LOSE REPEAT DELAY DAMAGE
 *
 * An interface in each of two network namespaces, and a bad wire between them. Of 1000 datagrams of
 * RoCE v2 it loses so many, carries so many twice, so many late, behind others, and changes a bit
 * of so many; all else arrives as it was sent. It prints a line when the interfaces are there, and
 * at SIGTERM how many datagrams came from each end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MOST 9216
#define HELD_MOST 256
#define LATE_NS 3000000u
#define ROCE_PORT 4791
#define BTH 12
#define ETHERNET 14

static uint64_t state;
static volatile sig_atomic_t ending;

struct held {
	uint64_t due; /* 0: free */
	int to;
	size_t length;
	uint8_t frame[FRAME_MOST];
};

static void complain(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void on_signal(int number)
{
	(void)number;
	ending = 1;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* xorshift64* (Vigna, 2016). */
static uint32_t below(uint32_t limit)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)(state * 0x2545f4914f6cdd1dull >> 32) % limit;
}

static int open_tap(const char *netns, const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int ns = open(netns, O_RDONLY | O_CLOEXEC), fd;

	if (ns < 0 || setns(ns, CLONE_NEWNET))
		complain(netns);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		complain("/dev/net/tun");
	return fd;
}

/* Where the UDP payload of RoCE v2 begins; 0: it is something else. */
static size_t roce_at(const uint8_t *frame, size_t length)
{
	size_t udp = 0;

	if (length > 14 + 40 + 8 && frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == 17)
		udp = 14 + 40;
	else if (length > 14 + 20 + 8 && frame[12] == 0x08 && frame[13] == 0 && frame[23] == 17)
		udp = 14 + 20;
	if (!udp || (frame[udp + 2] << 8 | frame[udp + 3]) != ROCE_PORT || length < udp + 8 + BTH)
		return 0;
	return udp + 8;
}

/* What a router does that is nearly full (RFC 3168); IPv4 has a checksum (RFC 1624). */
static void mark_as_full(uint8_t *ip)
{
	uint32_t sum;

	if (ip[0] >> 4 == 6) {
		if (ip[1] & 0x30)
			ip[1] |= 0x30;
		return;
	}
	if (!(ip[1] & 3))
		return;
	sum = (~(uint32_t)(ip[10] << 8 | ip[11]) & 0xffff) +
	      (~(uint32_t)(ip[0] << 8 | ip[1]) & 0xffff);
	ip[1] |= 3;
	sum += (uint32_t)(ip[0] << 8 | ip[1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void carry(int to, const uint8_t *frame, size_t length)
{
	/* What an interface does not take is lost there. */
	if (write(to, frame, length) < 0 && errno != EAGAIN && errno != EIO)
		complain("write");
}

static bool hold(struct held *held, int to, const uint8_t *frame, size_t length)
{
	for (int i = 0; i < HELD_MOST; i++) {
		if (held[i].due)
			continue;
		held[i].due = now() + 1 + below(LATE_NS);
		held[i].to = to;
		held[i].length = length;
		memcpy(held[i].frame, frame, length);
		return true;
	}
	return false;
}

/* Carries what is due; how long until the next is, in ms, or -1. */
static int carry_held(struct held *held)
{
	uint64_t time = now();
	int next = -1;

	for (int i = 0; i < HELD_MOST; i++) {
		if (held[i].due && held[i].due <= time) {
			carry(held[i].to, held[i].frame, held[i].length);
			held[i].due = 0;
		} else if (held[i].due) {
			next = 1;
		}
	}
	return next;
}

int main(int argc, char **argv)
{
	static struct held held[HELD_MOST];
	static uint8_t frame[FRAME_MOST];
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long came[2] = { 0 };
	uint32_t lose, repeat, delay, damage, mark;
	struct pollfd ends[2];

	if (argc != 10)
		return 2;
	for (int i = 0; i < 2; i++)
		ends[i] = (struct pollfd){ .fd = open_tap(argv[1 + i], argv[3]), .events = POLLIN };
	state = strtoull(argv[4], NULL, 0) * 2 + 1;
	lose = (uint32_t)atoi(argv[5]);
	repeat = (uint32_t)atoi(argv[6]);
	delay = (uint32_t)atoi(argv[7]);
	damage = (uint32_t)atoi(argv[8]);
	mark = (uint32_t)atoi(argv[9]);
	sigaction(SIGTERM, &action, NULL);
	puts("here");
	fflush(stdout);
	while (!ending) {
		if (poll(ends, 2, carry_held(held)) < 0 && errno != EINTR)
			complain("poll");
		for (int i = 0; i < 2; i++) {
			int to = ends[!i].fd;
			ssize_t length = read(ends[i].fd, frame, sizeof(frame));
			size_t payload;

			if (length <= 0)
				continue;
			payload = roce_at(frame, (size_t)length);
			if (!payload) {
				carry(to, frame, (size_t)length);
				continue;
			}
			came[i]++;
			if (below(1000) < lose)
				continue;
			if (below(1000) < mark)
				mark_as_full(frame + ETHERNET);
			if (below(1000) < repeat)
				carry(to, frame, (size_t)length);
			if (below(1000) < damage)
				frame[payload + below((uint32_t)((size_t)length - payload))] ^=
					(uint8_t)(1u << below(8));
			if (below(1000) >= delay || !hold(held, to, frame, (size_t)length))
				carry(to, frame, (size_t)length);
		}
	}
	printf("%lu %lu\n", came[0], came[1]);
	return EXIT_SUCCESS;
}
