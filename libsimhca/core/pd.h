/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains. */
#ifndef LIBSIMHCA_PD_H
#define LIBSIMHCA_PD_H

#include <stdint.h>

struct simhca_pd {
	uint32_t number; /* no other PD of the device has it; keys and QPs go by it */
	uint32_t users[SIMHCA_OBJ_TYPES]; /* objects that refer to it, by type */
};

uint32_t simhca_pd_users(const struct simhca_pd *pd);

#endif
