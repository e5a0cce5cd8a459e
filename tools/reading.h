/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One reading of what programs do: taken of the daemon, added up by program, and printed as text,
 * JSON or in Prometheus' format. With an earlier one the text has what happened in between, for
 * each second.
 */
#ifndef SIMHCA_READING_H
#define SIMHCA_READING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "simhca.h"

enum usage_number {
	USAGE_MESSAGES,
	USAGE_BYTES,
	USAGE_READS,
	USAGE_READ_BYTES,
	USAGE_RECEIVED,
	USAGE_RECEIVED_BYTES,
	USAGE_RETRIES,
	USAGE_RNR_NAKS,
	USAGE_RNR_DELAY_NS,
	USAGE_NO_RECEIVE,
	USAGE_ERRORS,
	USAGE_FAULTS,	 /* page faults of on-demand memory */
	USAGE_BY_CALLER, /* of the messages and reads: those that the program carried by itself */
	USAGE_NUMBERS,
};

struct usage {
	uint64_t number[USAGE_NUMBERS];
	uint64_t latency[SIMHCA_LATENCIES];
};

/* The contexts of a process on a device. */
struct program {
	long long pid;	   /* 0: in a pid namespace that the daemon does not see; then: */
	long long context; /* the first one's id */
	char comm[32], device[64];
	unsigned int qps;
	struct usage usage;
};

struct queue_pair {
	size_t program; /* its index */
	long long qpn, rqpn, sends, recvs;
	char type[16], state[8], waits_for[16];
	struct usage usage;
};

struct reading {
	double time; /* CLOCK_MONOTONIC, seconds */
	long long uptime_s;
	struct program *program;
	size_t programs;
	struct queue_pair *qp;
	size_t qps;
	double *engine; /* seconds of CPU time */
	size_t engines;
};

/* NULL as admin_status(). */
struct reading *reading_take(int control, char **refusal);
void reading_free(struct reading *reading);

/* The time that so many of a thousand messages take at most; 0: none was measured. */
uint64_t latency_of(const uint64_t latency[SIMHCA_LATENCIES], unsigned int thousandths);

/* before may be NULL: then there are totals. */
void reading_print(FILE *out, const struct reading *now, const struct reading *before,
		   bool with_qps);
json_t *reading_json(const struct reading *now, const struct reading *before);
void reading_prometheus(FILE *out, const struct reading *reading);

#endif
