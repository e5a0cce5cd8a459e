/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What `simhca status` shows; admin.h has the format. */
#ifndef SIMHCAD_STATUS_H
#define SIMHCAD_STATUS_H

#include "session/report.h"

extern const struct report_kind status_report;

#endif
