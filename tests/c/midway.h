/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * In the middle of a page fault, or of a copy. The worker's way into a process's memory is a system
 * call, which programs with this provide themselves: between the kernel's answer and the worker's
 * next step they do whatever the test wants done, on one thread, so each run is the same.
 */
#ifndef SIMHCA_TEST_MIDWAY_H
#define SIMHCA_TEST_MIDWAY_H

#include "harness.h"

/* Called once, by the next worker that has touched its pages. */
extern void (*midway)(void *arg);
extern unsigned int touched; /* times since in_the_middle() */
extern bool copies_fail;     /* into and out of other processes */
extern int map_query_error;  /* not 0: the kernel cannot be asked for one mapping, and says this */

void in_the_middle(void (*happens)(void *arg), void *arg);
/* A worker's turn; false: nothing is due. */
bool poll_fault(struct world *world);
/* By how many faults a QP is stopped. */
unsigned int pending(const struct side *side);
/* Two messages of a that fault, in both directions; b's memory is ordinary. */
struct pair *two_faults(struct world *world);
/* Another process, whose memory looks as ours does now. It goes with us. */
pid_t another_process(void);

struct prefetch {
	struct mr *mr;
	struct simhca_advise_mr_req req;
};

/* From the region's beginning. -EAGAIN: it is waited for, and outcome() tells. */
int advise(struct prefetch *prefetch, uint32_t advice, uint32_t flags, uint32_t length);
int outcome(struct prefetch *prefetch);

#endif
