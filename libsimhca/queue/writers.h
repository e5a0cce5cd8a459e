/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Writes and atomics in the memory of a process (simhca-abi-writers.h): how each keeps off the
 * others. Nothing here waits. tests/promela/atomic.pml has this in Promela.
 */
#ifndef LIBSIMHCA_WRITERS_H
#define LIBSIMHCA_WRITERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"
#include "store.h"

/* By whom a program writes to one process's memory. */
struct simhca_writing {
	struct simhca_writers *there; /* NULL: no atomics are done there */
	struct simhca_writer *mine;
};

/* False: an atomic is under way, and nothing may be written now. */
static inline bool simhca_writing_begin(const struct simhca_writing *writing)
{
	simhca_store();
	/* seq_cst: it is seen before the other side is looked at, as that of who does an atomic. */
	atomic_store(&writing->mine->at_work, 1);
	if (!atomic_load(&writing->there->holder))
		return true;
	simhca_store();
	atomic_store_explicit(&writing->mine->at_work, 0, memory_order_relaxed);
	return false;
}

static inline void simhca_writing_end(const struct simhca_writing *writing)
{
	simhca_store();
	/* release: all is written. */
	atomic_store_explicit(&writing->mine->at_work, 0, memory_order_release);
}

/* False: somebody else does an atomic there. */
static inline bool simhca_writers_exclude(struct simhca_writers *there, uint32_t name)
{
	uint32_t nobody = 0;

	simhca_store();
	/* seq_cst: see above. */
	return atomic_compare_exchange_strong(&there->holder, &nobody, name);
}

/* Whether they still are by who has that name: the device takes it back from who stays. */
static inline bool simhca_writers_are_excluded(const struct simhca_writers *there, uint32_t name)
{
	return (atomic_load_explicit(&there->holder, memory_order_relaxed) &
		~SIMHCA_OWNER_WANTED) == name;
}

/*
 * The atomic is done. If the device wants to do one it is handed over, as it would get it too late
 * among programs that do one after the other. If it was taken back, others have it by now.
 */
static inline void simhca_writers_admit(struct simhca_writers *there, uint32_t name)
{
	uint32_t holder = name;

	simhca_store();
	/* release: the atomic is done. */
	if (atomic_compare_exchange_strong_explicit(&there->holder, &holder, 0,
						    memory_order_release, memory_order_relaxed))
		return;
	holder = name | SIMHCA_OWNER_WANTED;
	simhca_store();
	atomic_compare_exchange_strong_explicit(&there->holder, &holder, SIMHCA_OWNER_DEVICE,
						memory_order_release, memory_order_relaxed);
}

/*
 * Once they are excluded: whether all were seen idle, in no more looks at those at work than that.
 * Who was, finds the holder when it begins again. Others can say that there are more, and that all
 * are at work: the looks are for all of them together.
 */
static inline bool simhca_writers_are_idle(const struct simhca_writers *there, uint32_t looks)
{
	/* seq_cst: see above; it acquires what was written. */
	uint32_t count = atomic_load(&there->count);

	while (looks && atomic_load(&there->device))
		looks--;
	for (uint32_t i = 0; i < count && i < SIMHCA_WRITERS; i++)
		while (looks && atomic_load(&there->writer[i].at_work))
			looks--;
	return looks;
}

#endif
