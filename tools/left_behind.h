/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs that a command of `simhca run` has left running, as one that makes a daemon of itself. */
#ifndef SIMHCA_LEFT_BEHIND_H
#define SIMHCA_LEFT_BEHIND_H

#include "tool.h"

/* Whoever loses its parent below us becomes our child, and so stays one of this run's programs. */
void left_behind_adopt(void);
/* Nobody else waits for those. The command's status, and the daemon's, are left. */
void left_behind_reap(pid_t command, pid_t daemon);
/*
 * The command has ended. Says in one line which programs of ours still have the device open half a second
 * later, if the device ends with us.
 */
void left_behind_tell(const struct leased_daemon *daemon);

#endif
