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

#include "simhca-abi.h"
#include "filter.h"

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
	USAGE_FAULTS,	    /* page faults of on-demand memory */
	USAGE_BY_FAST_PATH, /* of the messages and reads: those that the program carried by itself */
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
	char type[16], state[8], waits_for[16], peer_device[64];
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

/* Of what passes; NULL as admin_status(). */
struct reading *reading_take(int control, const struct filter *filter, char **refusal);
void reading_free(struct reading *reading);

/* The time that so many of a thousand messages take at most; 0: none was measured. */
uint64_t latency_of(const uint64_t latency[SIMHCA_LATENCIES], unsigned int thousandths);

/*
 * What was done between two readings, of programs and queue pairs of `now`. before may be NULL, here
 * and below: then it is all that was done so far.
 */
struct usage reading_program_usage(const struct program *program, const struct reading *before);
struct usage reading_qp_usage(const struct reading *now, const struct queue_pair *qp,
			      const struct reading *before);
double reading_seconds(const struct reading *now, const struct reading *before); /* 1: no before */
const struct program *reading_program(const struct reading *reading, const struct queue_pair *qp);
/* Whether its requester waits, and what for: "a receive of b[13], QP 0x000012". */
bool reading_qp_waits(const struct queue_pair *qp);
void reading_waits_for(const struct reading *reading, const struct queue_pair *qp, char *text,
		       size_t size);

/* histograms: with those of times, too. */
json_t *reading_json(const struct reading *now, const struct reading *before, bool histograms);
void reading_prometheus(FILE *out, const struct reading *reading);

/* ------------------------------------------------------------------------- reading_text.c */

struct reading_view {
	bool qps;	  /* a row for each queue pair, too; or a histogram for each */
	int width;	  /* of the terminal; 0: as wide as it gets */
	const char *sort; /* one of reading_sorts; NULL: as they were opened */
	bool reverse;	  /* smallest first, but for names */
};

/* What rows can be sorted by, up to NULL. */
extern const char *const reading_sorts[];

/* These two return false when there was no memory for a table. */
bool reading_print(FILE *out, const struct reading *now, const struct reading *before,
		   const struct reading_view *view);
/* A histogram of the times of messages for each program, or for each queue pair. */
bool reading_print_histograms(FILE *out, const struct reading *reading,
			      const struct reading_view *view);

#endif
