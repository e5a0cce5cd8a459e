/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The objects of programs one by one, for `simhca qp`, `cq`, `srq` and `mr`; admin.h has the
 * format. */
#ifndef SIMHCAD_RESOURCES_H
#define SIMHCAD_RESOURCES_H

#include <jansson.h>

#include "session/report.h"
#include "simhca-info.h"

struct simhca_usage_sum;

json_t *usage_json(const struct simhca_usage_sum *usage);

extern const struct report_kind qp_report, cq_report, srq_report, mr_report, wire_host_report;

#endif
