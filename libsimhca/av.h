/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Address vectors: whether a port can send by one. */
#ifndef LIBSIMHCA_AV_H
#define LIBSIMHCA_AV_H

#include "simhca.h"

int simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
		    struct simhca_why *why);

/* Whether the GID that the vector sends from is there; without a GRH none is needed. */
bool simhca_av_has_source(struct simhca_device *device, const struct simhca_av *av);

#endif
