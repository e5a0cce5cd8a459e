/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Pages of a process: whether they are there, and how they come there. */
#ifndef LIBSIMHCA_PAGE_IN_H
#define LIBSIMHCA_PAGE_IN_H

#include "dma/dma.h"

/*
 * Whole pages of a process: are they there, with this right? Faults them in if asked. 0, or errno:
 * EFAULT not mapped, EACCES not writable, ESRCH, EPERM.
 */
int simhca_page_in(struct simhca_mm *mm, uint64_t addr, uint64_t pages, bool write);
/*
 * Which of up to 64 pages are in the process's page tables: bit n is page n. 0, too, if it cannot
 * be found out.
 */
uint64_t simhca_pages_resident(struct simhca_mm *mm, uint64_t addr, unsigned int pages);

#endif
