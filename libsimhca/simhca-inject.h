/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rules of faults, as `simhca inject` has them (Documentation/faults.md). */
#ifndef LIBSIMHCA_SIMHCA_INJECT_H
#define LIBSIMHCA_SIMHCA_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct simhca_context;
struct simhca_device;
struct simhca_fabric;

/*
 * A rule of `simhca inject`: where a fault is to happen, when, and what. 0, "" or -1 where nothing
 * is asked for.
 */
enum simhca_inject_action {
	SIMHCA_INJECT_DROP,
	SIMHCA_INJECT_DELAY,
	SIMHCA_INJECT_DUPLICATE,
	SIMHCA_INJECT_REORDER,
	SIMHCA_INJECT_CORRUPT,
	SIMHCA_INJECT_SLOW,	/* rate */
	SIMHCA_INJECT_RNR,	/* a NAK: the receiver is not ready */
	SIMHCA_INJECT_NAK,	/* value: enum simhca_syndrome */
	SIMHCA_INJECT_FAULT,	/* ns: a page fault of the responder's */
	SIMHCA_INJECT_COMPLETE, /* value: enum simhca_wc_status */
	SIMHCA_INJECT_HOLD,	/* ns: a send's completion; 0: while the rule stands */
	SIMHCA_INJECT_DOORBELL, /* ns */
	SIMHCA_INJECT_NO_EVENT,
	SIMHCA_INJECT_VERB,   /* verb, value: errno */
	SIMHCA_INJECT_REJECT, /* value: the reason of a REJ */
	/* What the model does, */
	SIMHCA_INJECT_ASYNC, /* value: enum ibv_event_type */
	/* and what it leaves to who hears of it. */
	SIMHCA_INJECT_PORT_DOWN,  /* ns: and up again; 0: while the rule stands */
	SIMHCA_INJECT_GID_CHANGE, /* ns: until the addresses are back */
	SIMHCA_INJECT_FATAL,
	SIMHCA_INJECT_KILL, /* peer: the program at the other end */
	SIMHCA_INJECT_ACTIONS,
};
#define SIMHCA_RULE_TEXT 256
/* The conditions of a rule, in the order in which they are looked at. */
enum simhca_miss {
	SIMHCA_MISS_PROGRAM,
	SIMHCA_MISS_DEVICE,
	SIMHCA_MISS_QP,
	SIMHCA_MISS_VERB,
	SIMHCA_MISS_OPCODE,
	SIMHCA_MISS_DATAGRAM, /* REORDER is for those only */
	SIMHCA_MISS_PAYLOAD,  /* CORRUPT needs one */
	SIMHCA_MISSES,
};
#define SIMHCA_OPCODE_UNKNOWN 31u /* of an answer that came over a wire */
struct simhca_rule {
	enum simhca_inject_action action;
	char text[SIMHCA_RULE_TEXT]; /* as it was written */
	/* where */
	char device[64];
	char program[16]; /* its name, as the kernel has it */
	pid_t pid;
	uint32_t qpn;
	bool responses;	  /* else requests */
	bool receives;	  /* else sends */
	uint32_t opcodes; /* bit n: enum simhca_wr_opcode */
	uint32_t verb;	  /* enum simhca_cmd */
	/* when: from the first to the last hit, counted from 1, each so many, so many times */
	uint64_t first, last, every, times;
	uint64_t chance; /* of 2^32 */
	uint64_t seed;
	bool now; /* at no hit: the caller does it */
	/* what */
	uint64_t ns;
	uint64_t rate; /* bytes in a second */
	uint32_t value;
	bool peer;
	/* What has come of it; filled in. */
	uint32_t number; /* from 1 on, never used again */
	uint64_t met, fired;
	/* What it could have met, but for this condition, which is the first that was not met. */
	uint64_t missed[SIMHCA_MISSES];
	uint32_t opcodes_missed; /* bit n: enum simhca_wr_opcode; of SIMHCA_MISS_OPCODE */
};

/* That a rule has fired. */
struct simhca_injection {
	const struct simhca_rule *rule;
	const struct simhca_device *device; /* NULL: unknown */
	uint32_t context;		    /* id; 0: of no program */
	uint32_t qpn, peer_qpn, qp_type;    /* 0: of no QP */
	int opcode;			    /* -1: of no work request */
	uint32_t timeout; /* of the QP, which waits so long for an answer to what is lost; or 0 */
};

/*
 * Rules of faults. While there are any, no program begins steps of its own. add: *number is the
 * rule's; -ENOSPC: there are SIMHCA_RULES_MOST.
 */
#define SIMHCA_RULES_MOST 64
int simhca_inject_add(struct simhca_fabric *fabric, const struct simhca_rule *rule,
		      uint32_t *number);
/* False: there is none such. */
bool simhca_inject_remove(struct simhca_fabric *fabric, uint32_t number);
/* The first one whose number is larger; false: there is none. */
bool simhca_inject_next(struct simhca_fabric *fabric, uint32_t after, struct simhca_rule *rule);
/* For commands, and for who asks for a connection (context NULL). 0, or what is to come of it. */
int simhca_inject_verb(struct simhca_context *context, uint32_t verb);
int simhca_inject_connect(struct simhca_device *device);

#endif
