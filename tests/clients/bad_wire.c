/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * bad_wire NETNS NETNS INTERFACE SEED [WHAT=NUMBER]...
 *
 * An interface in each of two network namespaces, and a bad wire between them:
 *
 *	lose repeat delay damage mark	of 1000 datagrams of RoCE v2 so many are lost, carried
 *					twice, carried late, behind others, have a wrong bit,
 *					are marked
 *	far	ms that each datagram of RoCE v2 takes to the other end
 *	rate	Mb/s of all frames, each way, by a token bucket; then
 *	queue	so many frames wait for it, and the rest is lost
 *	early	so many wait unmarked: behind them what is ECN-capable is marked, and all else lost
 *
 * It prints a line when the interfaces are there, and at SIGTERM how many datagrams came from each
 * end. With a rate, also a line for each megabyte that has gone from the first end: the bytes in it
 * of each QP that they were for, repeated ones left out, and, of QP 0, of what is not RoCE.
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
#define QUEUE_MOST 256
#define FLOWS_MOST 128
#define REPORT_BYTES 1000000u
#define BURST_NS 2000000u /* what the bucket holds: of a moment in which we do not run */
#define HELD_MOST 1024	  /* two windows of a QP */
#define LATE_NS 3000000u
#define ROCE_PORT 4791
#define BTH 12
#define ETHERNET 14

static uint64_t state;
static volatile sig_atomic_t ending;

enum { LOSE, REPEAT, DELAY, DAMAGE, MARK, FAR, RATE, QUEUE, EARLY, WHATS };
static const char *const name_of[] = { "lose", "repeat", "delay", "damage", "mark",
				       "far",  "rate",	 "queue", "early" };
static uint32_t what[WHATS];

struct frame {
	struct way *way; /* of what is held */
	size_t length;
	uint8_t bytes[FRAME_MOST];
};

/* What is carried late. */
struct held {
	uint64_t due[HELD_MOST]; /* 0: free */
	struct frame frame[HELD_MOST];
};

/* In one direction; what waits for the bucket is from `first` on. */
struct way {
	int from, to;
	struct flow *flows; /* NULL: nobody asks */
	uint64_t free_at;   /* when what has left is through */
	uint32_t first, count;
	struct frame waiting[QUEUE_MOST];
};

/* What a QP has got: as it takes packets, in order. */
struct flow {
	bool known;
	uint32_t qpn, psn;
	uint64_t bytes;
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

/*
 * What a router does that is nearly full (RFC 3168); IPv4 has a checksum (RFC 1624). False: whoever
 * sent it does not look at marks.
 */
static bool mark_as_full(uint8_t *ip)
{
	uint32_t sum;

	if (ip[0] >> 4 == 6) {
		if (ip[1] & 0x30)
			ip[1] |= 0x30;
		return ip[1] & 0x30;
	}
	if (ip[0] >> 4 != 4 || !(ip[1] & 3))
		return false;
	sum = (~(uint32_t)(ip[10] << 8 | ip[11]) & 0xffff) +
	      (~(uint32_t)(ip[0] << 8 | ip[1]) & 0xffff);
	ip[1] |= 3;
	sum += (uint32_t)(ip[0] << 8 | ip[1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	return true;
}

static void count(struct flow *flow, const uint8_t *frame, size_t length)
{
	static uint64_t bytes;
	size_t at = roce_at(frame, length);
	const uint8_t *bth = frame + at;
	uint32_t qpn = 0, psn = 0;
	struct flow *end = flow + FLOWS_MOST;

	if (at) {
		qpn = (uint32_t)(bth[5] << 16 | bth[6] << 8 | bth[7]);
		psn = (uint32_t)(bth[9] << 16 | bth[10] << 8 | bth[11]);
	}
	bytes += length;
	for (struct flow *one = flow; one < end; one++) {
		if (one->known && one->qpn != qpn)
			continue;
		if (!one->known)
			*one = (struct flow){ .known = true, .qpn = qpn, .psn = psn };
		if (!at || one->psn == psn) {
			one->psn = (psn + 1) & 0xffffff;
			one->bytes += length;
		}
		break;
	}
	if (bytes < REPORT_BYTES)
		return;
	for (; flow < end && flow->known; flow++) {
		printf("%u:%lu ", flow->qpn, (unsigned long)flow->bytes);
		flow->bytes = 0;
	}
	puts("");
	fflush(stdout);
	bytes = 0;
}

static void write_to(const struct way *way, const uint8_t *frame, size_t length)
{
	/* What an interface does not take is lost there. */
	if (write(way->to, frame, length) < 0 && errno != EAGAIN && errno != EIO)
		complain("write");
	if (way->flows)
		count(way->flows, frame, length);
}

static void carry(struct way *way, uint8_t *frame, size_t length)
{
	struct frame *last;

	if (!what[RATE]) {
		write_to(way, frame, length);
		return;
	}
	if (way->count == what[QUEUE])
		return;
	if (way->count >= what[EARLY] && !mark_as_full(frame + ETHERNET))
		return;
	last = &way->waiting[(way->first + way->count++) % QUEUE_MOST];
	last->length = length;
	memcpy(last->bytes, frame, length);
}

/* Carries what the bucket lets through; when the next may go, or UINT64_MAX. */
static uint64_t carry_waiting(struct way *way)
{
	while (way->count) {
		const struct frame *frame = &way->waiting[way->first];
		uint64_t time = now();

		if (way->free_at > time)
			return way->free_at;
		if (way->free_at < time - BURST_NS)
			way->free_at = time - BURST_NS;
		way->free_at += frame->length * 8000 / what[RATE];
		write_to(way, frame->bytes, frame->length);
		way->first = (way->first + 1) % QUEUE_MOST;
		way->count--;
	}
	return UINT64_MAX;
}

static bool hold(struct held *held, struct way *way, const uint8_t *frame, size_t length,
		 uint64_t ns)
{
	for (int i = 0; i < HELD_MOST; i++) {
		if (held->due[i])
			continue;
		held->due[i] = now() + ns;
		held->frame[i].way = way;
		held->frame[i].length = length;
		memcpy(held->frame[i].bytes, frame, length);
		return true;
	}
	return false;
}

/* Carries what is due; when the next is, or UINT64_MAX. */
static uint64_t carry_held(struct held *held)
{
	uint64_t time = now();

	for (;;) {
		uint64_t due = UINT64_MAX;
		int next = 0;

		for (int i = 0; i < HELD_MOST; i++)
			if (held->due[i] && held->due[i] < due)
				due = held->due[next = i];
		if (due > time)
			return due;
		carry(held->frame[next].way, held->frame[next].bytes, held->frame[next].length);
		held->due[next] = 0;
	}
}

static void sleep_until(uint64_t time, struct pollfd *ends)
{
	uint64_t from = now(), ns = time > from ? time - from : 0;
	const struct timespec timeout = { .tv_sec = (time_t)(ns / 1000000000u),
					  .tv_nsec = (long)(ns % 1000000000u) };

	if (ppoll(ends, 2, time == UINT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
		complain("ppoll");
}

static void on_roce(struct way *way, struct held *held, uint8_t *frame, size_t length,
		    size_t payload)
{
	uint64_t late = what[FAR] * 1000000ull;

	if (below(1000) < what[LOSE])
		return;
	if (below(1000) < what[MARK])
		mark_as_full(frame + ETHERNET);
	if (below(1000) < what[REPEAT])
		carry(way, frame, length);
	if (below(1000) < what[DAMAGE])
		frame[payload + below((uint32_t)(length - payload))] ^= (uint8_t)(1u << below(8));
	if (below(1000) < what[DELAY])
		late += 1 + below(LATE_NS);
	if (!late || !hold(held, way, frame, length, late))
		carry(way, frame, length);
}

static bool set(const char *word)
{
	const char *equals = strchr(word, '=');

	for (int i = 0; equals && i < WHATS; i++) {
		size_t length = strlen(name_of[i]);

		if (word + length != equals || strncmp(word, name_of[i], length))
			continue;
		what[i] = (uint32_t)atoi(equals + 1);
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	static struct held held;
	static struct flow flows[FLOWS_MOST];
	static struct way ways[2];
	static uint8_t frame[FRAME_MOST];
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long came[2] = { 0 };
	struct pollfd ends[2];

	if (argc < 5)
		return 2;
	what[QUEUE] = what[EARLY] = QUEUE_MOST;
	for (int i = 5; i < argc; i++)
		if (!set(argv[i]))
			return 2;
	if (what[QUEUE] > QUEUE_MOST)
		return 2;
	for (int i = 0; i < 2; i++) {
		int fd = open_tap(argv[1 + i], argv[3]);

		ends[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
		ways[i].from = ways[!i].to = fd;
	}
	if (what[RATE])
		ways[0].flows = flows;
	state = strtoull(argv[4], NULL, 0) * 2 + 1;
	sigaction(SIGTERM, &action, NULL);
	puts("here");
	fflush(stdout);
	while (!ending) {
		uint64_t next = carry_held(&held);

		for (int i = 0; i < 2; i++) {
			uint64_t time = carry_waiting(&ways[i]);

			next = time < next ? time : next;
		}
		sleep_until(next, ends);
		for (int i = 0; i < 2; i++) {
			ssize_t length = read(ways[i].from, frame, sizeof(frame));
			size_t payload;

			if (length <= 0)
				continue;
			payload = roce_at(frame, (size_t)length);
			if (!payload) {
				carry(&ways[i], frame, (size_t)length);
				continue;
			}
			came[i]++;
			on_roce(&ways[i], &held, frame, (size_t)length, payload);
		}
	}
	printf("%lu %lu\n", came[0], came[1]);
	return EXIT_SUCCESS;
}
