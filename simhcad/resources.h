/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The objects of programs one by one, for `simhca qp` and `simhca mr`; admin.h has the format. */
#ifndef SIMHCAD_RESOURCES_H
#define SIMHCAD_RESOURCES_H

#include <jansson.h>

struct daemon;

json_t *resources_qps(const struct daemon *daemon);
json_t *resources_mrs(const struct daemon *daemon);

#endif
