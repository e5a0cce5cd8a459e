/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The threads behind on-demand paging: workers that resolve page faults, and one that reads the
 * events of the programs' userfaultfds, which hold up those programs until they are read.
 *
 * A worker may be stuck in the memory of a program. While faults wait for one, a watch starts
 * another when all are.
 */
#ifndef SIMHCAD_PAGING_H
#define SIMHCAD_PAGING_H

#include <ev.h>
#include <stdbool.h>

#define PAGING_WORKERS_MOST 64

struct paging {
	struct simhca_fabric *fabric;
	struct ev_loop *loop;
	ev_async shortage; /* work waits, and nobody is idle: */
	ev_timer watch;
	struct thread *reader; /* NULL: it was not started */
	struct thread *worker[PAGING_WORKERS_MOST];
	unsigned int workers;
};

/* 0; or -1, which has been logged. paging_stop() is due either way. */
int paging_start(struct paging *paging, struct simhca_fabric *fabric, struct ev_loop *loop,
		 unsigned int workers);
/* simhca_ops.no_worker. Any thread. */
void paging_is_short(struct paging *paging);
/*
 * Once, also if nothing was started. False: a worker cannot be ended, and the process has to end
 * with it.
 */
bool paging_stop(struct paging *paging);

#endif
