/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The line: pages that are to be brought in, for QPs that wait for them and for nobody in
 * particular, and the workers that do it. A pager has its work in the order of arrival, and
 * pagers take turns.
 */
#ifndef LIBSIMHCA_LINE_H
#define LIBSIMHCA_LINE_H

#include <pthread.h>

#include "odp.h"
#include "pager.h"

struct simhca_engine;
struct simhca_page_work;

struct simhca_page_range {
	struct simhca_odp *odp;
	uint64_t addr, length;
};

struct simhca_page_work_ops {
	/* Its turn has come; under faults.lock. May be NULL. */
	void (*begin)(struct simhca_page_work *work);
	/* Brings in some of it; true: it is over. Without locks, and may wait. */
	bool (*step)(struct simhca_page_work *work);
	/* It is over, and no region counts it any more; under faults.lock. */
	void (*ended)(struct simhca_page_work *work);
	/* Likewise, before its turn came: one of its regions goes. */
	void (*withdrawn)(struct simhca_page_work *work);
};

/* What a pager's line consists of. */
struct simhca_page_work {
	const struct simhca_page_work_ops *ops;
	struct simhca_pager *pager;
	const struct simhca_engine *clock;
	uint64_t due; /* not before: ns on that engine's clock */
	struct simhca_page_range *range;
	uint32_t num_ranges;
	struct simhca_page_work *prev, *next;
};

struct simhca_faults {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct simhca_pager *line; /* those with work, whose turn is next first */
	struct simhca_pager *busy; /* those that workers are at work for */
	uint32_t threads, idle;
	uint64_t ended, watched; /* pieces of work; at the last look of simhca_faults_stuck() */
	bool no_worker_reported; /* and not taken back since */
	bool stop;
};

struct simhca_faults *simhca_faults_create(void);
void simhca_faults_destroy(struct simhca_faults *faults);
/* Under faults.lock; its regions count it from then on, until it has ended or is taken out. */
void simhca_faults_enqueue(struct simhca_page_work *work);
void simhca_faults_dequeue(struct simhca_page_work *work);

#endif
