/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How many of something each process has, or each program by the process that stands for it. */
#ifndef SIMHCAD_TALLY_H
#define SIMHCAD_TALLY_H

#include <stdbool.h>
#include <sys/types.h>

struct tally_entry;

/* Zeroed at first. Of who has none of it nothing is kept. */
struct tally {
	struct tally_entry *by_pid; /* hash */
};

unsigned int tally_get(const struct tally *tally, pid_t pid);
/* One more. False: out of memory. */
bool tally_add(struct tally *tally, pid_t pid);
/* One less, of one that has any. */
void tally_sub(struct tally *tally, pid_t pid);
/* Whoever has any. */
void tally_free(struct tally *tally);

#endif
