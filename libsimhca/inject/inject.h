/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Faults on demand: rules, and the one place that judges by them. Wherever something can go wrong
 * the device asks what is to go wrong there (struct simhca_inject_hit), and does it itself; nothing
 * here waits, or touches a QP.
 *
 * A rule counts the hits that it applies to, and fires at some of them: by number, each so
 * many, or by chance from its seed. So the same rules and the same order of events have the same
 * faults.
 */
#ifndef LIBSIMHCA_INJECT_H
#define LIBSIMHCA_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/fabric.h"
#include "simhca-inject.h"

struct simhca_context;
struct simhca_device;
struct simhca_rule;

enum simhca_point {
	SIMHCA_AT_WQE,	    /* a requester takes a work request up */
	SIMHCA_AT_REQUEST,  /* a request leaves a QP */
	SIMHCA_AT_ARRIVAL,  /* a responder has a request that is in sequence */
	SIMHCA_AT_RESPONSE, /* a response leaves a QP */
	SIMHCA_AT_ANSWER,   /* the same, as seen by who gets it */
	SIMHCA_AT_RECEIVE,  /* a message has taken a receive, and ends */
	SIMHCA_AT_EVENT,    /* a CQ's event is due */
	SIMHCA_AT_VERB,	    /* a program sends a command */
	SIMHCA_AT_CONNECT,  /* a connection is asked for */
};

/* What is unknown is 0, or NULL. */
struct simhca_inject_hit {
	enum simhca_point point;
	const struct simhca_device *device;
	const struct simhca_context *context; /* whose it is */
	uint32_t qpn, peer_qpn, qp_type;
	int opcode;	/* enum simhca_wr_opcode; -1: unknown */
	uint32_t verb;	/* enum simhca_cmd */
	uint64_t bytes; /* of payload, or that are asked for */
	bool datagram;
	uint32_t timeout; /* if what is lost is sent again after that alone: 4.096 us * 2^n */
};

/* What is to happen. All zero: nothing. */
struct simhca_inject_outcome {
	bool drop, duplicate, reorder, corrupt, not_ready, no_event;
	uint64_t random;   /* where to corrupt it */
	uint64_t delay_ns; /* it, or the answer */
	uint64_t fault_ns;
	uint32_t held; /* by this rule, while it stands; 0: by none */
	uint8_t nak;   /* enum simhca_syndrome */
	uint32_t status, error, event, reject;
};

/* Of a QP: what rules have decided on is not decided again when it is tried again. */
struct simhca_inject_past {
	bool request, answer, wqe, arrival;
	uint32_t request_psn, answer_psn, wqe_index, arrival_psn;
	uint32_t held;			      /* the answer: by this rule */
	struct simhca_inject_outcome outcome; /* on the request */
	void *overtaken; /* from malloc(): a datagram that waits for the next one */
};

static inline bool simhca_inject_is_on(const struct simhca_fabric *fabric)
{
	/* relaxed: it does not matter which hit is the first. */
	return __builtin_expect(atomic_load_explicit(&fabric->injects, memory_order_relaxed), 0);
}

/* False: nothing. Any thread; simhca_ops.injected hears of each rule that fires. */
bool simhca_inject_decide(struct simhca_fabric *fabric, const struct simhca_inject_hit *hit,
			  struct simhca_inject_outcome *outcome);
/* The hits that the rule counts. */
enum simhca_point simhca_rule_point(const struct simhca_rule *rule);
/* Whether this rule is there. */
bool simhca_inject_stands(struct simhca_fabric *fabric, uint32_t number);

/* How fabrics begin and end. 0 or -ENOMEM. */
int simhca_inject_init(struct simhca_fabric *fabric);
void simhca_inject_free(struct simhca_fabric *fabric);

#endif
