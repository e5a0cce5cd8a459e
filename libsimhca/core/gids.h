/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A port's GIDs as engines read them: without a lock, while a control function may change them.
 * There are two copies. The generation's low bit says which one counts; a change writes the other
 * copy and publishes it. So a reader waits for nobody; it reads again if a change was published
 * meanwhile, for the next change may be writing to the copy that it had.
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
/* The entry, whole; all zeros: it is empty. */
union simhca_gid simhca_gids_get(const struct simhca_gids *gids, uint32_t index);
/* Whether one of them is this. */
bool simhca_gids_have(const struct simhca_gids *gids, const union simhca_gid *gid);

#endif
