/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QPs whose steps their program may run by itself (simhca-abi-fastpath.h). It has a guard like an
 * engine's thread, but in its memory: who unlinks something waits for it as well. It is believed
 * as far as it harms nobody but those that it is connected to: they wait in vain.
 */
#ifndef LIBSIMHCA_STEPS_H
#define LIBSIMHCA_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "simhca-abi.h"

struct simhca_atomicity;
struct simhca_context;
struct simhca_device;
struct simhca_fabric;

/* A QP as one who writes to the memory of a process on which atomics are done (dma/exclusive.h). */
struct simhca_steps_writer {
	struct simhca_atomicity *atomicity; /* NULL: none are done there */
	uint32_t number;
};

/* With whom: the peer's context, and whose memory is touched. */
struct simhca_steps_with {
	uint32_t context;
	pid_t pid, peer_pid;
	/* UD: whom, 0: it has one peer; the number by which it claims there; of which life of that
	 * queue (recover.h); and the claim that the device has recovered last */
	uint32_t qpn, claimant, life;
	_Atomic uint32_t recovered;
	/* By whom it writes to its own memory, and to the peer's. Control functions. */
	struct simhca_steps_writer writer, peer_writer;
};

struct simhca_steps {
	struct simhca_fastpath *mem; /* NULL: none */
	struct simhca_qpc *qpc;
	struct simhca_context *context;
	/* Under the fabric's lock; at most SIMHCA_MAX_DESTINATIONS. Most QPs never have one. */
	struct simhca_steps_with *with;
	uint32_t num_with;
	struct simhca_steps *next; /* in the fabric's list */
};

/*
 * From now on it may be with these: instead of those before, which does not fail, or on UD as well;
 * false: there are too many, or there is no memory.
 */
bool simhca_steps_add(struct simhca_fabric *fabric, struct simhca_steps *steps,
		      const struct simhca_steps_with *with);
/* UD: with whom it is there; *with: as it was added. False: with nobody of that number. */
bool simhca_steps_find(struct simhca_fabric *fabric, const struct simhca_steps *steps, uint32_t qpn,
		       struct simhca_steps_with *with);
/* UD: whether that claim was not recovered before; from now on it was. */
bool simhca_steps_recover(struct simhca_fabric *fabric, struct simhca_steps *steps, uint32_t qpn,
			  uint32_t claim);
/*
 * UD: the QP of that number goes, and no step of any other is with it. *was: one that was, of the QP
 * *sender, whose numbers are no more in use; false: there is none.
 */
bool simhca_steps_forget(struct simhca_fabric *fabric, uint32_t qpn, struct simhca_steps_with *was,
			 uint32_t *sender);
/*
 * The one after that, or the first, whose program has ended and which was with a QP of that
 * context; or NULL. Control functions.
 */
struct simhca_steps *simhca_steps_next_ended(struct simhca_fabric *fabric,
					     const struct simhca_steps *after, uint32_t context);
/* None is under way. What its program says that it has carried is the port's from now on. */
void simhca_steps_remove(struct simhca_fabric *fabric, struct simhca_steps *steps);
/* It was removed, or never added. */
void simhca_steps_free(struct simhca_steps *steps);
/* Whether the QP is of that context, or with a QP of it. Under the fabric's lock. */
bool simhca_steps_are_with(const struct simhca_steps *steps, uint32_t context);
/* None begins any more: of QPs of this context, or that are connected to such; 0: of all. */
void simhca_steps_end(struct simhca_fabric *fabric, uint32_t context);
/* Likewise of all that touch the memory of a process. */
void simhca_steps_end_with(struct simhca_fabric *fabric, pid_t pid);
/* Whether no program that lives is in a step. After they were ended it stays so. */
bool simhca_steps_are_over(struct simhca_fabric *fabric);
/* Those under way that touch the memory of a process, or (0) a file; to be freed. NULL: out of memory. */
struct simhca_steps_seen *simhca_steps_see(struct simhca_fabric *fabric, pid_t pid);
/* Whether they have ended since. Does not wait. */
bool simhca_steps_passed(struct simhca_fabric *fabric, const struct simhca_steps_seen *seen);
/* Adds what programs have carried. */
void simhca_steps_count(const struct simhca_device *device, uint64_t *stats);

#endif
