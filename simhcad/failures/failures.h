/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The last failures of each program, for `simhca explain`: they stay when the program has ended,
 * until newer ones take their room. What follows from another failure names it as its cause.
 */
#ifndef SIMHCAD_FAILURES_H
#define SIMHCAD_FAILURES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "simhca-info.h"

#define FAILURES_KEPT 256      /* of all programs */
#define FAILURES_OF_PROGRAM 64 /* of one, if there are more */

struct failures;

/* Whose a failure is. */
struct failing_program {
	pid_t pid;
	pid_t program; /* program.h */
	pid_t run;     /* the `simhca run` that it was started by; 0: none */
	char comm[16];
	char device[64];
};

/* NULL: out of memory. */
struct failures *failures_open(void);
void failures_close(struct failures *failures);

/* From now on this context's failures are the program's; until it is forgotten. */
void failures_know(struct failures *failures, uint32_t context,
		   const struct failing_program *program);
void failures_forget(struct failures *failures, uint32_t context);

/* Whose context it is, as was said; pid 0: nobody's that is known. Any thread. */
struct failing_program failures_program(struct failures *failures, uint32_t context);

/* Any thread. */
void failures_add(struct failures *failures, const struct simhca_failure *failure);
/*
 * A command that was refused; verb is a constant. Refusals of a context that differ in numbers only
 * are told as one: programs that look for a limit try until one is taken.
 */
#define FAILURES_BY_RULE "a rule of simhca inject refuses it" /* the reason, if that is it */
void failures_add_verb(struct failures *failures, uint32_t context, const char *verb, int error,
		       const char *why);
/* The last one of that context and verb was followed by one that succeeded. */
void failures_verb_succeeds(struct failures *failures, uint32_t context, const char *verb);
/* Likewise a refusal, of a program that need not have a context. */
void failures_add_refusal(struct failures *failures, const struct failing_program *program,
			  const char *verb, int error, const char *why);
/*
 * An asynchronous event, of a QP, CQ, SRQ or port of this number; if it tells of a failure.
 * by_rule: a rule of faults did that to the port or device. One that a rule has raised, and that
 * tells of nothing, is known by what was added before it.
 */
void failures_add_event(struct failures *failures, uint32_t context, uint32_t type, uint32_t number,
			bool by_rule);
/*
 * A connection of rdma_cm that was rejected, or not answered: how is a constant that the tool has
 * advice on, status what the peer said.
 */
void failures_add_connection(struct failures *failures, const struct failing_program *program,
			     const char *how, int status, const char *text);
/* A program that sleeps, and will not wake up: how is a constant that the tool has advice on. */
void failures_add_sleep(struct failures *failures, uint32_t context, const char *how,
			const char *text);
/* Likewise, of a program that need not have a context; waiting: who waits for it, or NULL. */
void failures_add_sleep_of(struct failures *failures, const struct failing_program *program,
			   const struct failing_program *waiting, const char *how,
			   const char *text);
/* It did, the program with this context, or 0: what was said of it by that text is taken back. */
void failures_woke_up(struct failures *failures, uint32_t context, const char *text);

/* A queue that a message has found empty, and when it was given up. */
struct failures_empty {
	uint64_t id;
	uint32_t context, qpn, srqn;
	uint32_t posted; /* receives until then */
};

/* Those of the last so many seconds that have got no receive since; at most most of them. */
unsigned int failures_empty(struct failures *failures, double seconds, struct failures_empty *empty,
			    unsigned int most);
void failures_found_receive(struct failures *failures, uint64_t id);

/* A failure by a key, an address or a QP number, for mixups.h. */
struct failures_access {
	uint64_t id;
	uint32_t context; /* whose key was looked up; or that has sent, if nobody answered */
	uint32_t sender;  /* the context that has sent, of a remote access; 0: none of this host */
	uint32_t qpn, peer_qpn;
	bool is_connected; /* here, and peer_qpn is an attribute of the QP, not of a work request */
	bool is_unanswered; /* and no key matters */
	bool has_key;	    /* what follows says something */
	bool is_remote;
	bool is_atomic;	      /* that had been sent */
	bool is_null_mr;      /* the key is that of one */
	bool is_out_of_range; /* the key is good */
	uint32_t key;
	uint64_t va, entry_iova, entry_length;
};

/* Those that were not asked for before, at most most of them: the newest. */
unsigned int failures_accesses(struct failures *failures, struct failures_access *accesses,
			       unsigned int most);
/* What the failure looks like, as a sentence. */
void failures_looks_like(struct failures *failures, uint64_t id, const char *text);

/* The `simhca run` with this pid has ended. */
void failures_end_run(struct failures *failures, pid_t run);

/*
 * A copy of all of them, oldest first, so that engines wait no longer than for that; and how many
 * work requests of the run failed. NULL: out of memory.
 */
struct failed;
struct failed *failures_copy(struct failures *failures, pid_t run, unsigned int *count,
			     uint64_t *failed_of_run);

#endif
