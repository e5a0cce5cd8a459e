/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is known of an error before it happens: the dictionary of `simhca explain`. */
#ifndef SIMHCA_ADVICE_H
#define SIMHCA_ADVICE_H

#include <stdint.h>

struct advice {
	const char *rule;    /* where the specification, or who else, has it; "" if nobody */
	const char *usually; /* what mostly causes it */
	const char *remedy;  /* what to do */
};

/* Of a reason (vendor_err), NULL: there is no such reason. */
const struct advice *advice_on_reason(uint32_t reason);

/* Of a program that sleeps, and will not wake up, by how (admin.h); NULL: there is no such way. */
const struct advice *advice_on_sleep(const char *how);
/* Of why nobody answers, or takes a message, by the obstacle (admin.h); NULL: likewise. */
const struct advice *advice_on_obstacle(const char *obstacle);
/* Of an asynchronous event by its name; NULL: it tells of no failure. */
const struct advice *advice_on_event(const char *name);
/* Of a connection of rdma_cm that failed, by how (admin.h); NULL: there is no such way. */
const struct advice *advice_on_connection(const char *how);

struct status_advice {
	uint32_t status; /* enum simhca_wc_status */
	const char *text;
};
/* NULL: there is no such status. */
const struct status_advice *advice_on_status(uint32_t status);

/* Numbers by name, in either case, with or without IBV_WC_, IBV_EVENT_ or
 * SIMHCA_REASON_; or -1. */
int reason_by_name(const char *name);
int status_by_name(const char *name);
int event_by_name(const char *name); /* of those that tell of a failure */

#endif
