/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the kernel says of a process or a thread, by proc(5). */
#ifndef LIBSIMHCA_PROC_STAT_H
#define LIBSIMHCA_PROC_STAT_H

#define SIMHCA_PROC_STAT 512 /* bytes of text that are enough for all that is read of it */

/*
 * Reads such a file as /proc/PID/stat. Returns where in the text the field behind the name begins, which is
 * the state: a letter. NULL: it cannot be read, or the process has ended.
 */
const char *simhca_proc_stat(const char *path, char text[SIMHCA_PROC_STAT]);

#endif
