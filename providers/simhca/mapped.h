/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions that lie in files, as a program on the fast path has them mapped: its peer's, and its own. A
 * step that meets one which is not mapped leaves the message to the device, or goes by its process's memory if
 * that was moved there; then the region is mapped, for the next one. All of it under the SQ's lock.
 */
#ifndef SIMHCA_PROVIDER_MAPPED_H
#define SIMHCA_PROVIDER_MAPPED_H

#include "provider.h"
#include "message/step.h"

struct shca_mapping;

struct shca_mapped {
	struct simhca_step_regions step; /* what steps look at */
	/* of the same */
	struct {
		struct shca_mapping *mapping;
		bool may_fail; /* a page of it may be missing */
	} region[SIMHCA_STEP_REGIONS];
	uint32_t oldest; /* that gives its place */
	uint32_t tries,
		next_try; /* times that one is wanted until it is asked for, and to the next */
	uint32_t steps;	  /* since regions that are gone were looked for */
};

/* Maps what a step of the QP's wanted, of whom the WQE's address names if it is a UD QP, if it can be. */
void shca_mapped_want(struct shca_qp *qp, struct shca_mapped *mapped, const struct simhca_av *av,
		      uint32_t dest_qpn);
/* After each step, so that the memory of a region that is gone does not stay for long. */
void shca_mapped_look(struct shca_mapped *mapped);
void shca_mapped_end(struct shca_mapped *mapped);
/* Of all QPs of the process: what lies in files of regions that are gone. Without any lock of theirs. */
void shca_mapped_give_back(void);
/* Of a context that goes, which its program may have left with QPs: nobody uses them any more. */
void shca_mapped_forget(const struct shca_context *ctx);

#endif
