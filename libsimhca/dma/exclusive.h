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
	atomic_bool yes;
	atomic_bool by_device; /* nobody else writes there */
	_Atomic(struct simhca_writers *) there;
	int fd;			  /* of that */
	_Atomic uint64_t used[4]; /* bit n: a QP has writer n */
	/* An atomic waits for programs since then, and was tried in vain last; 0: none waits. Under
	 * the atomicity's lock. */
	uint64_t busy_since_ns, tried_ns;
	_Atomic uint64_t worked_off_ns; /* when that is which writes have waited */
	pthread_mutex_t lock;		/* of what follows, and while a QP is given a writer */
	bool begun, told;
	struct simhca_steps_seen *seen; /* steps under way then: */
	uint64_t seen_ns;
};

void simhca_exclusive_init(struct simhca_exclusive *exclusive);
void simhca_exclusive_end(struct simhca_atomicity *atomicity);
/*
 * Whether an atomic may be tried. False: not yet; to be asked again, and steps that are under way
 * for a second then are not waited for. Never waits itself.
 */
bool simhca_is_exclusive(struct simhca_atomicity *atomicity);

/*
 * Around a write by the device, under the atomicity's lock, shared. It waits for a program in the
 * middle of an atomic as for memory that is not there; from who stays it takes that back, and then
 * *stays says so: once the lock is released, simhca_exclusive_take_back(). NULL: nobody but the
 * device writes there.
 */
struct simhca_writers *simhca_exclusive_write(struct simhca_atomicity *atomicity, bool *stays);
void simhca_exclusive_written(struct simhca_writers *there);
/*
 * Around an atomic by the device, under the lock. False: a program is at work there, and it is to
 * be tried again; *stays as above.
 */
bool simhca_exclusive_atomic(struct simhca_atomicity *atomicity, bool *stays);
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
