/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Descriptors are what programs share first of all: how many of the daemon's one of them may have.
 */
#ifndef SIMHCAD_SHARE_H
#define SIMHCAD_SHARE_H

/* Connections of one process: a quarter of all descriptors. Of one program: half of them. */
unsigned int share_connections(void);
unsigned int share_program_connections(void);
/* Descriptors that the daemon holds for one connection: an eighth of all. For a program: a quarter.
 */
unsigned int share_descriptors(void);
unsigned int share_program_descriptors(void);
/* For files that programs map as regions (the fast path): an eighth. */
unsigned int share_files(void);
/* For queues with memory of their own (the fast path): a quarter, or 16,384. */
unsigned int share_queues(void);

#endif
