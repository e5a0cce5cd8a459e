/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sockets for answers that open files of rdma_cm keep (simhca-abi-rdma-cm.h). They are the
 * programs', who can hold on to what they pass: so they are not in the event loop's own set, out of
 * which it takes a descriptor only by closing it, but in one beside it.
 */
#ifndef SIMHCAD_UCMA_ANSWERS_H
#define SIMHCAD_UCMA_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

struct cma;
struct cma_file;

/* False: what is wrong was logged. */
bool ucma_answers_open(struct cma *cma);
void ucma_answers_close(struct cma *cma);
/* Takes the socket, which has the number from now on that it returns; 0: it is not kept. */
uint32_t ucma_answers_keep(struct cma_file *file, int fd);
/* -1: the file has none of this number. */
int ucma_answers_find(const struct cma_file *file, uint32_t number);
/* All of a file's. */
void ucma_answers_forget(struct cma_file *file);

#endif
