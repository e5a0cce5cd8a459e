/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One failure, as it is kept (failures.h), and as it is told. */
#ifndef SIMHCAD_FAILED_H
#define SIMHCAD_FAILED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "failures.h"
#include "simhca-info.h"

#define FAILED_TEXT 256 /* bytes, NUL included: longer than what commands answer */

enum failed_kind {
	FAILED_WORK,	   /* of work requests: what says more */
	FAILED_VERB,	   /* a command was refused: name, error */
	FAILED_SLEEP,	   /* no failure yet: name says how, text who sleeps on what */
	FAILED_EVENT,	   /* an asynchronous event: event, number */
	FAILED_CONNECTION, /* name says how it failed; error is what the peer answered */
};

struct failed {
	uint64_t id;
	uint64_t cause;	      /* another's id; 0: none is known */
	struct timespec time; /* of the day, for people */
	double since;	      /* the same by monotonic_s() */
	enum failed_kind kind;
	struct simhca_failure what; /* of other kinds: context, and an event's qpn */
	struct failing_program whose;
	struct failing_program empty;  /* whose the queue is that had no receive */
	struct failing_program sender; /* of a request, if it is known; pid 0: it is not */
	double next_after;	       /* seconds until it had one; 0: it has not been seen */
	const char *name;
	int error;	 /* errno; of a connection: a reason or status */
	uint32_t event;	 /* enum ibv_event_type */
	uint32_t number; /* of the QP, CQ, SRQ or port that it is of */
	char text[FAILED_TEXT];
	bool by_rule;	/* of an event: a rule of faults is why */
	bool looked_at; /* by mixups.h */
	char looks_like[FAILED_TEXT];
	bool first; /* of its run: it stays */
	bool taken; /* of a refused verb: a later one of the context succeeded */
	bool over;  /* of who slept and woke up: it is not told any more */
	struct failed *prev, *next;
};

bool failed_is_of_qp(uint32_t event);

/* As admin.h says; root: the id of the failure that all began with, 0: it is this one. NULL: out
   of memory. */
json_t *failed_json(const struct failed *failed, uint64_t root);

#endif
