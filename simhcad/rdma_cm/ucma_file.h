/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Open files of rdma_cm; see cma.h. */
#ifndef SIMHCAD_UCMA_FILE_H
#define SIMHCAD_UCMA_FILE_H

#include <stdint.h>

struct cma;
struct cma_file;

/* Takes the connection. */
void ucma_file_open(struct cma *cma, int fd, uint64_t number);
/* At the end of the daemon. Before, a file whose holders are gone ends beside others (session.h). */
void ucma_file_close_now(struct cma_file *file);

#endif
