/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who writes to the memory of a process on which atomics are done: a file of 16 KiB for each such
 * process, which the device and the programs on the fast path (simhca-abi-fastpath.h) that write
 * there have mapped.
 *
 * Each QP has a writer of its own there. It says in `at_work` that it writes, and then looks at
 * `holder`; who does an atomic puts its name in `holder`, and then looks at all the writers. So one
 * of the two sees the other: the writer comes again later, and the atomic waits. Atomics exclude
 * each other by `holder`, writers do not. The device counts itself among the writers before the
 * atomic that is under way is over, and no new one begins then; for an atomic of its own it adds
 * SIMHCA_OWNER_WANTED to the holder, who hands it over in the end.
 *
 * Those who have it mapped can write what they like there, and spoil what is atomic in that
 * process's memory, which they could write to anyway. The device takes it back from who stays, and
 * puts `device`, `count` and writers that no QP has right while it does an atomic.
 */
#ifndef SIMHCA_ABI_WRITERS_H
#define SIMHCA_ABI_WRITERS_H

#define SIMHCA_WRITERS 255u

struct simhca_writer {
	_Atomic uint32_t at_work; /* 1: it writes, or is about to look whether it may */
	uint32_t reserved[15];	  /* a line of the cache for each */
};

struct simhca_writers {
	_Atomic uint32_t holder; /* as in struct simhca_owner: who does an atomic; 0: nobody */
	_Atomic uint32_t device; /* threads of the device that write, or are about to */
	_Atomic uint32_t count;	 /* of the writers below, those that a QP can have had so far */
	uint32_t reserved[13];
	struct simhca_writer writer[SIMHCA_WRITERS];
};
SIMHCA_ABI_SIZE(struct simhca_writers, 16384);

#endif
