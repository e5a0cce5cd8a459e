/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show of rdma_cm; admin.h has the formats. */
#ifndef SIMHCAD_CMA_REPORT_H
#define SIMHCAD_CMA_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct cma;

json_t *cma_report_ids(const struct cma *cma);
json_t *cma_report_counts(const struct cma *cma);
/* Whether a program has an event channel open. */
bool cma_in_use(const struct cma *cma);

#endif
