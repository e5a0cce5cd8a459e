/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The parts of the daemon: the order in which they are opened, and closed again. */
#ifndef SIMHCAD_PARTS_H
#define SIMHCAD_PARTS_H

struct daemon;

/* Returns the exit status: 0 if all are open, and what is wrong has been logged otherwise. */
int parts_open(struct daemon *daemon);
/* Those that are open, and what there is of one that could not be opened. */
void parts_close(struct daemon *daemon);

#endif
