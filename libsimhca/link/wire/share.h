/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The way to an address, which all QPs that are connected to it share. What they take of a network
 * is to be what one of them would: so each knows how many have something under way there.
 */
#ifndef LIBSIMHCA_SHARE_H
#define LIBSIMHCA_SHARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

/* The ways to all addresses. */
struct simhca_ways {
	pthread_mutex_t lock;
	struct simhca_way *first;
};

/* A QP's; zeros: it has none, and is alone. */
struct simhca_share {
	struct simhca_way *way;
	bool busy;
};

void simhca_ways_open(struct simhca_ways *ways);
void simhca_ways_close(struct simhca_ways *ways);

/* The QP is connected to an address, or to none any more. Under its locks, if others have it. */
void simhca_share_join(struct simhca_ways *ways, struct simhca_share *share,
		       const union simhca_gid *address);
void simhca_share_leave(struct simhca_ways *ways, struct simhca_share *share);

/*
 * The QP has something under way, or nothing any more; one that fails has it until it leaves. Under
 * its requester's lock.
 */
void simhca_share_set_busy(struct simhca_share *share, bool busy);
/* How many have, with this one. */
uint32_t simhca_share_count(const struct simhca_share *share);

#endif
