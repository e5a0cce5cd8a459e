/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains. */
#ifndef LIBSIMHCA_PD_H
#define LIBSIMHCA_PD_H

#include <stdint.h>

#include "context.h"

struct simhca_pd {
	uint32_t number;		  /* in the device */
	uint32_t users[SIMHCA_OBJ_TYPES]; /* that were made in it, of each type */
};

uint32_t simhca_pd_users(const struct simhca_pd *pd);

#endif
