/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What kinds of regions have in common: their rights, how they begin and end. */
#ifndef LIBSIMHCA_MR_H
#define LIBSIMHCA_MR_H

#include "simhca-device.h"

struct simhca_key;

uint32_t simhca_unknown_access(uint32_t access);		  /* what of it is no access flag */
int simhca_check_access(uint32_t access, struct simhca_why *why); /* of a region */

/* A region of a process's memory is complete, and will be published: what was there before is told as this one. */
void simhca_region_registered(struct simhca_context *context, const struct simhca_key *region);
/* A region of a file that is out of use lies nowhere then. */
void simhca_region_leave_file(struct simhca_context *context, struct simhca_key *region);

#define SIMHCA_ACCESS_REMOTE_CHANGE (SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_ATOMIC)
#define SIMHCA_ACCESS_REMOTE_ALL (SIMHCA_ACCESS_REMOTE_CHANGE | SIMHCA_ACCESS_REMOTE_READ)
#define SIMHCA_ACCESS_FLUSH_ALL (SIMHCA_ACCESS_FLUSH_GLOBAL | SIMHCA_ACCESS_FLUSH_PERSISTENT)
#define SIMHCA_ACCESS_OPTIONAL 0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */

/*
 * Whether a region or window may grant these rights to memory of which its owner has registered those: who may
 * change it remotely can do so only where it is LOCAL_WRITE.
 */
static inline bool simhca_may_grant(uint32_t access, uint32_t of_memory)
{
	return !(access & SIMHCA_ACCESS_REMOTE_CHANGE) || (of_memory & SIMHCA_ACCESS_LOCAL_WRITE);
}

/* The address by which requests name its first byte. */
static inline uint64_t simhca_first_iova(uint32_t access, uint64_t iova)
{
	return access & SIMHCA_ACCESS_ZERO_BASED ? 0 : iova;
}

#endif
