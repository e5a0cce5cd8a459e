/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains. */
#ifndef LIBSIMHCA_PD_H
#define LIBSIMHCA_PD_H

#include <stdint.h>

struct simhca_pd {
	uint32_t number; /* in the device */
	uint32_t users;
};

#endif
