/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A port's GIDs as engines read them: without a lock, while a control function may change them.
 * There are two copies of the table. The generation's low bit is the index of the current one. A
 * change writes the other copy, and then publishes it by the next generation. A reader waits for
 * nobody: it reads the current copy, and once more if the generation has changed meanwhile, as
 * the next change writes to the copy that it has read.
 *
 * The table in device memory is for programs (step_ud.c), and says when it is whole by
 * `fastpath_epoch`.
 */
#ifndef LIBSIMHCA_GIDS_H
#define LIBSIMHCA_GIDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

struct simhca_gids {
	_Atomic uint32_t generation;
	_Atomic uint64_t half[2][SIMHCA_GID_ENTRIES][2];
};

/* By one control function at a time. */
void simhca_gids_set(struct simhca_gids *gids,
		     const struct simhca_gid_entry entries[SIMHCA_GID_ENTRIES]);
/* The entry, as it was at one time; all zeros: it is empty. */
union simhca_gid simhca_gids_get(const struct simhca_gids *gids, uint32_t index);
/* Whether an entry is this GID. Not for one that is all zeros, which is no address. */
bool simhca_gids_have(const struct simhca_gids *gids, const union simhca_gid *gid);

#endif
