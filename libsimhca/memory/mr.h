/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rights of regions. */
#ifndef LIBSIMHCA_MR_H
#define LIBSIMHCA_MR_H

#include "simhca-device.h"

uint32_t simhca_unknown_access(uint32_t access);		  /* what of it is no access flag */
int simhca_check_access(uint32_t access, struct simhca_why *why); /* of a region */

#define SIMHCA_ACCESS_REMOTE_CHANGE (SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_ATOMIC)
#define SIMHCA_ACCESS_REMOTE_ALL (SIMHCA_ACCESS_REMOTE_CHANGE | SIMHCA_ACCESS_REMOTE_READ)
#define SIMHCA_ACCESS_FLUSH_ALL (SIMHCA_ACCESS_FLUSH_GLOBAL | SIMHCA_ACCESS_FLUSH_PERSISTENT)
#define SIMHCA_ACCESS_OPTIONAL 0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */

#endif
