/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Telling whoever started the daemon how it is, each in the way that they asked for. */
#ifndef SIMHCAD_READY_H
#define SIMHCAD_READY_H

/* The service manager's protocol (sd_notify(3)): a line like "READY=1" to $NOTIFY_SOCKET, if set.
 */
void ready_notify(const char *state);
/* --ready-fd: one byte, then the end of the file. */
void ready_write(int fd);

/*
 * --daemonize: goes on in the background, in a child; the parent waits and exits with 0 when the
 * child calls background_ready(), or with the child's exit status. Before any thread is started.
 * Returns the descriptor for background_ready(), -1 on failure.
 */
int background_start(void);
/* Programs are served: lets go of the terminal and the working directory, and has the parent exit. */
void background_ready(int fd);

#endif
