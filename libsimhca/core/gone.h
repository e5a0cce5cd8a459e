/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keys that are gone, or name something else since ibv_rereg_mr(), for who debugs a program whose peer
 * still uses one: what each was, until when, and which key the same memory has now. The last one of each place in a table of constant
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
	uint32_t access;
	bool window;  /* and no region */
	bool changed; /* it is alive, and was this before ibv_rereg_mr() */
};

/* NULL: out of memory. */
struct simhca_gone *simhca_gone_create(void);
void simhca_gone_free(struct simhca_gone *gone);

/* Of a region or window that is being deregistered or changed; or of a region that is registered now. Any thread. */
void simhca_gone_add(struct simhca_gone *gone, const struct simhca_gone_key *region);
void simhca_gone_follow(struct simhca_gone *gone, const struct simhca_gone_key *region);
/*
 * What the key of a failed access was, if it was one of its PD: one that is gone, or was changed so that the
 * access, which it granted, is refused. Any thread.
 */
void simhca_gone_facts(struct simhca_gone *gone, const struct simhca_failure *failure,
		       struct simhca_gone_facts *facts);

#endif
