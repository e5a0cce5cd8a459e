/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Advice of Linux 5.14, which the headers of the build's libc may not have yet. */
#ifndef SIMHCA_MADVISE_H
#define SIMHCA_MADVISE_H

#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#endif
