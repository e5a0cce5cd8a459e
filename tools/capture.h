/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A capture: what links carry, in a pcapng file, in which each program is an interface. */
#ifndef SIMHCA_CAPTURE_H
#define SIMHCA_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct capture;

/* What a packet is for, by the opcode of its BTH. */
enum capture_kind {
	CAPTURE_SEND,
	CAPTURE_WRITE,
	CAPTURE_READ, /* requests and responses */
	CAPTURE_ATOMIC,
	CAPTURE_ACK, /* and NAKs */
	CAPTURE_OTHER,
};
/* Bits of names with commas between; 0: one is unknown. */
uint32_t capture_kinds(const char *names);

struct capture_wishes {
	const char *file;    /* "-": standard output */
	long long count;     /* packets, and then it is full; 0: without end */
	long long snaplen;   /* bytes of each packet; 0: all */
	long long qpn;	     /* only from or to this QP; 0: all */
	uint32_t kinds;	     /* only these: bits by enum capture_kind; 0: all */
	long long file_size; /* MB; then the next one of the ring is written; 0: there is one */
	long long files;     /* of the ring: FILE.0, FILE.1, .. */
	/*
	 * Only what this process (0: any) sends by this device (NULL: any), and what comes to the
	 * QPs that have sent so.
	 */
	long long pid;
	const char *device;
};

/* control: a connection to the daemon (admin_connect()). NULL after a complaint. */
struct capture *capture_open(int control, const struct capture_wishes *wishes);
/* Becomes readable when capture_take() has something to do. */
int capture_fd(const struct capture *capture);
/* Writes what has come. False: it is full, or the daemon has gone, or nothing can be written. */
bool capture_take(struct capture *capture);
/* Says on stderr how much there was. False after a complaint: the file is not whole. */
bool capture_close(struct capture *capture);

#endif
