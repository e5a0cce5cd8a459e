/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Advices: pages of on-demand regions that a program wants to be there before they are accessed. */
#ifndef LIBSIMHCA_ADVISE_H
#define LIBSIMHCA_ADVISE_H

#include "core/context.h"
#include "paging/line.h"

struct simhca_advice {
	struct simhca_page_work work;
	struct simhca_context *context;
	struct simhca_advice *next; /* in the context's list */
	uint64_t number;
	bool write, fault;
	bool wanted; /* somebody waits for the outcome */
	bool done;
	enum simhca_reason reason;
	uint32_t at;	 /* the range that is next, */
	uint64_t offset; /* and how much of it is done */
	struct simhca_page_range range[SIMHCA_ADVISE_MAX_SGE];
};

/* What is left of a context whose regions are gone. */
void simhca_advices_forget(struct simhca_context *context);

#endif
