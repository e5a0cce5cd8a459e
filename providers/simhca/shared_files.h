/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory that is a shared mapping of a file in memory already (simhcad's --shared-memory): a file of /dev/shm or
 * of hugetlbfs, a memfd of which there is a descriptor, and with CAP_CHECKPOINT_RESTORE others as well, such as
 * segments of System V. A region of it lies in that file, so that programs on the fast path map it, too.
 */
#ifndef SHCA_PROVIDER_SHARED_FILES_H
#define SHCA_PROVIDER_SHARED_FILES_H

#include "provider.h"

/* Registers a region. 0; SHCA_STAYS: its memory is no such mapping; or an errno. */
int shca_shared_file_register(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			      struct simhca_reg_mr_reply *reply);

#endif
