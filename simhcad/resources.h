/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The objects of programs one by one, for `simhca qp`, `cq`, `srq` and `mr`; admin.h has the
 * format. */
#ifndef SIMHCAD_RESOURCES_H
#define SIMHCAD_RESOURCES_H

#include <jansson.h>

struct device;
struct session;
struct simhca_usage_sum;

json_t *usage_json(const struct simhca_usage_sum *usage);

/* Of a session that has a context; see report_next in report.h. */
json_t *resources_next_qp(const struct device *device, const struct session *session,
			  uint32_t *handle);
json_t *resources_next_cq(const struct device *device, const struct session *session,
			  uint32_t *handle);
json_t *resources_next_srq(const struct device *device, const struct session *session,
			   uint32_t *handle);
json_t *resources_next_mr(const struct device *device, const struct session *session,
			  uint32_t *handle);

#endif
