/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A count for each process, or for each program by the pid that stands for it (owner.program). */
#ifndef SIMHCAD_TALLY_H
#define SIMHCAD_TALLY_H

#include <stdbool.h>
#include <sys/types.h>

struct tally_entry;

/* All zero: empty. An entry goes when its count is 0. */
struct tally {
	struct tally_entry *by_pid; /* hash */
};

unsigned int tally_get(const struct tally *tally, pid_t key);
/* One more. False: out of memory. */
bool tally_add(struct tally *tally, pid_t key);
/* One less; nothing happens if there is none. */
void tally_sub(struct tally *tally, pid_t key);
/* Frees all entries. */
void tally_free(struct tally *tally);

#endif
