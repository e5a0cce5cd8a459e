/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keys that are gone, for who debugs a program whose peer still uses one: what each was, when it
 * went, and which key the same memory has now. The last one of each place in a table of constant
 * size, which is enough: indices are given out in turn.
 */
#ifndef LIBSIMHCA_GONE_H
#define LIBSIMHCA_GONE_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-info.h"

struct simhca_gone;

struct simhca_gone_key {
	uint32_t key, pd;
	uint64_t addr, iova, length;
	bool window; /* and no region */
};

/* NULL: out of memory. */
struct simhca_gone *simhca_gone_create(void);
void simhca_gone_free(struct simhca_gone *gone);

/* Of a region or window that is being deregistered; or of a region that is registered now. Any thread. */
void simhca_gone_add(struct simhca_gone *gone, const struct simhca_gone_key *region);
void simhca_gone_follow(struct simhca_gone *gone, const struct simhca_gone_key *region);
/* What the key was, if it was one of this PD. Any thread. */
void simhca_gone_facts(struct simhca_gone *gone, uint32_t pd, uint32_t key,
		       struct simhca_gone_facts *facts);

#endif
