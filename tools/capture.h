/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A capture: what links carry, in a pcap file with fractions of nanoseconds. */
#ifndef SIMHCA_CAPTURE_H
#define SIMHCA_CAPTURE_H

#include <stdbool.h>

struct capture;

struct capture_wishes {
	const char *file;  /* "-": standard output */
	long long count;   /* packets, and then it is full; 0: without end */
	long long snaplen; /* bytes of each packet; 0: all */
	long long qpn;	   /* only from or to this QP; 0: all */
	long long pid; /* only what this process sends, and what comes to its QPs then; 0: all */
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
