/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --pid, --qp and --device: which objects of a list are shown. */
#ifndef SIMHCA_FILTER_H
#define SIMHCA_FILTER_H

#include <jansson.h>
#include <stdbool.h>

struct filter {
	long long pid, qpn; /* 0: all */
	const char *device; /* NULL: all */
};

/* By the members pid, device, and lqpn or qpn; what it has none of does not pass. */
bool filter_passes(const struct filter *filter, const json_t *object);
/* Removes from an array what does not pass. */
void filter_list(const struct filter *filter, json_t *list);
/* From the report of "status": devices, and contexts, of which none is a QP. */
void filter_status(const struct filter *filter, json_t *status);

#endif
