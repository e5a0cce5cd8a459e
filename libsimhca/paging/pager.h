/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Pagers: one for each process with on-demand regions. */
#ifndef LIBSIMHCA_PAGER_H
#define LIBSIMHCA_PAGER_H

#include "dma/dma.h"

struct simhca_fabric;
struct simhca_odp;
struct simhca_page_work;
struct uffd_msg;

struct simhca_pager {
	struct simhca_fabric *fabric;
	struct simhca_pager *next; /* in the fabric's list */
	pid_t pid;
	uint64_t program; /* shares workers with others of it; 0: with none */
	uint32_t users;	  /* address spaces, and the event thread; under fabric->pager_lock */
	bool gone;	  /* the process has ended; under fabric->pager_lock */
	uint64_t number;  /* names it to epoll */
	/* -1: none; changes once, and not back. What it names may be given up for another file. */
	_Atomic int userfaultfd;
	pthread_mutex_t lock;
	struct simhca_odp *regions;
	struct simhca_watch *watches;
	/* under faults.lock */
	struct simhca_page_work *line;
	uint32_t at_work; /* workers */
	bool waiting;	  /* in the line of pagers */
	struct simhca_pager *line_prev, *line_next;
	struct simhca_pager *busy_prev, *busy_next; /* of those that workers are at work for */
};

int simhca_pagers_init(struct simhca_fabric *fabric);
void simhca_pagers_end(struct simhca_fabric *fabric);
/* The pager of an address space's process; made if need be. NULL when out of memory. */
struct simhca_pager *simhca_pager_of(struct simhca_fabric *fabric, struct simhca_mm *mm);
void simhca_pager_put(struct simhca_pager *pager);
/* Whether events will tell when pages of [start, end) leave the process. May wait. */
bool simhca_pager_watch(struct simhca_pager *pager, const struct simhca_odp *odp, uint64_t start,
			uint64_t end);
/* What a program's userfaultfd has to tell, without waiting: bytes, or -1 and errno. */
ssize_t simhca_userfaultfd_read(int fd, struct uffd_msg *msg, size_t size);

#endif
