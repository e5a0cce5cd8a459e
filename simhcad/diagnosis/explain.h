/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What `simhca explain` shows: the failures, and which of them belong together; admin.h has the
 * format. */
#ifndef SIMHCAD_EXPLAIN_H
#define SIMHCAD_EXPLAIN_H

#include "session/report.h"

extern const struct report_kind explain_report;

#endif
