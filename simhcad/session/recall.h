/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that have mapped regions of files (MAP_REGION) are recalled from those that have gone: one that sleeps would
 * have them mapped for ever. A program gets a byte on its connection, gives back what is gone, and reads the byte then.
 */
#ifndef SIMHCAD_RECALL_H
#define SIMHCAD_RECALL_H

#include <stdbool.h>
#include <stdint.h>

#define RECALL_PEERS 64u

struct daemon;

/* Those that a command waits for. */
struct recall {
	unsigned int count;
	struct {
		int fd; /* a copy of its connection */
		uint32_t context;
		bool late;
	} peer[RECALL_PEERS];
};

/* Within milliseconds; of many regions that go at once programs hear once. */
void recall_later(struct daemon *daemon);
/* At once, if a recall is due. Whoever gets `recall` filled waits for it in a chore, and ends it. */
void recall_now(struct daemon *daemon, struct recall *recall);
/*
 * In a chore: until all have read their bytes, for a tenth of a second at most. A program that has not read what it got
 * before, or was late a short time ago, is not waited for.
 */
void recall_await(struct recall *recall);
/* Afterwards, in the main thread. */
void recall_end(struct daemon *daemon, const struct recall *recall);

#endif
