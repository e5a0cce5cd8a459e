/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs on the fast path (simhca-abi-fastpath.h) write to the memory of a process while the
 * device does, and so not between the two halves of an atomic. Before the first atomic on the
 * memory of a process nobody has to keep off. That one ends all steps that touch it, and waits for
 * those under way; from then on all who write there go by what they share (simhca-abi-writers.h).
 *
 * If it cannot be shared, or a program stays in the middle of an atomic or a write, the memory is
 * the device's alone to write to, for good: device memory says so, which programs look at for each
 * message.
 */
#ifndef LIBSIMHCA_EXCLUSIVE_H
#define LIBSIMHCA_EXCLUSIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/steps.h"
#include "queue/writers.h"

struct simhca_atomicity;
struct simhca_fabric;
struct simhca_mm;

struct simhca_exclusive {
	atomic_bool ready; /* atomics may be tried: no step is under way that does not look first */
	atomic_bool by_device; /* nobody but the device writes there */
	_Atomic(struct simhca_writers *)
		writers;	  /* shared with programs; NULL: not yet, or it cannot be */
	int fd;			  /* of that memory */
	_Atomic uint64_t used[4]; /* bit n: a QP has writer n */
	/* Of an atomic that was tried in vain, under the atomicity's lock. */
	struct {
		uint64_t since_ns; /* the program that keeps it off has been there since then */
		uint64_t burst_ns; /* the first try of the burst (exclusive.c) */
		uint64_t tried_ns; /* the last try; 0: the last one was not in vain */
		uint32_t holder;   /* as that try has left it */
		uint32_t writer; /* that was at work then; SIMHCA_WRITERS: the holder kept it off */
	} busy;
	_Atomic uint64_t worked_off_ns; /* when the time that writes have waited is worked off */
	pthread_mutex_t lock;		/* of what follows, and while a QP is given a writer */
	bool begun;			/* steps were ended that write there without looking */
	bool announced;			/* by_device, in device memory */
	struct simhca_steps_seen *seen; /* steps that were under way then; NULL: they are over */
	uint64_t seen_ns;
};

void simhca_exclusive_init(struct simhca_exclusive *exclusive);
void simhca_exclusive_end(struct simhca_atomicity *atomicity);
/*
 * Whether an atomic may be tried. False: steps are under way that would not see it; it is to be asked
 * again, and after a second these are not waited for any more. Never waits itself.
 */
bool simhca_is_exclusive(struct simhca_atomicity *atomicity);

/*
 * Around a write by the device, under the atomicity's lock, shared. It waits for a program that is in the
 * middle of an atomic, as it would for memory that is not there. If that is *stuck, the write goes on
 * without it, and the caller has to call simhca_exclusive_take_back() once the lock is released. Returns
 * what simhca_exclusive_written() takes; NULL: nobody but the device writes there.
 */
struct simhca_writers *simhca_exclusive_write(struct simhca_atomicity *atomicity, bool *stuck);
void simhca_exclusive_written(struct simhca_writers *writers);
/*
 * Around an atomic by the device, under the lock, exclusively. True: it may be done, and then
 * simhca_exclusive_done() has to be called. False: a program is at work there, and the atomic is to be
 * tried again later. Until then that program's successors keep off, unless the device writes there; nothing
 * is left to be undone if it is not tried again. *stuck: as above.
 */
bool simhca_exclusive_atomic(struct simhca_atomicity *atomicity, bool *stuck);
void simhca_exclusive_done(struct simhca_atomicity *atomicity);
void simhca_exclusive_take_back(struct simhca_atomicity *atomicity);

/* ------------------------------------------------------------------- programs that write */

/* Control functions. After the QP's epoch was set. False: there are too many. */
bool simhca_exclusive_add_writer(const struct simhca_mm *mm, struct simhca_steps_writer *writer);
/* No step of that name is under way, or it has ended in one. */
void simhca_exclusive_remove_writer(struct simhca_fabric *fabric,
				    struct simhca_steps_writer *writer, uint32_t name);
/* The program of that name has ended, perhaps while it wrote, or did an atomic. */
void simhca_exclusive_let_go(const struct simhca_steps_writer *writer, uint32_t name);
/* Its file; -1: it needs none. */
int simhca_exclusive_file(const struct simhca_steps_writer *writer);

#endif
