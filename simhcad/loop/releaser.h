/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Letting go of what came from clients.
 *
 * The last close() of a file can take as long as its owner likes (a FUSE server that does not
 * answer, a TCP socket that lingers), that of a Unix socket as well, for such files may wait in its
 * queue; and unmapping gigabytes takes a second. So all of that is a chore (chores.h).
 */
#ifndef SIMHCAD_RELEASER_H
#define SIMHCAD_RELEASER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/program.h"

struct chore;
struct chores;
struct releaser;

/* NULL: out of memory. */
struct releaser *releaser_start(struct ev_loop *loop, struct chores *chores);
/* Before the chores are stopped, which may still do what waits. */
void releaser_stop(struct releaser *releaser);
/* After that. */
void releaser_free(struct releaser *releaser);

/*
 * Unmaps size bytes at base (0: none) and closes fd (-1: none), in some milliseconds. From any
 * thread. base and fd are the releaser's from here on.
 */
void releaser_take(struct releaser *releaser, void *base, uint64_t size, int fd);
/*
 * The same for a descriptor that the owner sent; main thread only.
 */
void releaser_close(struct releaser *releaser, const struct owner *owner, int fd);
/*
 * What releaser_take() is given by the main thread from here on is put into this list; NULL: no longer. Who has the
 * list lets go of it in a chore of its own. Main thread only.
 */
void releaser_gather(struct releaser *releaser, struct chore **list);
void releaser_let_go(struct chore *list);
/*
 * So many descriptors of that process wait to be closed that it shall be asked for no more now: it
 * could have all that the daemon may hold. Main thread only.
 */
bool releaser_has_enough(const struct releaser *releaser, const struct owner *owner);

#endif
