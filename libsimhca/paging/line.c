/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "engine/engine.h"
#include "line.h"
#include "odp.h"
#include "simhca-device.h"

#define WORKERS_PER_PAGER 2
#define WORKERS_PER_PROGRAM 16
#define LOOKS 256 /* pagers in the line, when workers are stuck */

struct simhca_faults *simhca_faults_create(void)
{
	struct simhca_faults *faults = calloc(1, sizeof(*faults));

	if (!faults)
		return NULL;
	simhca_mutex_init(&faults->lock, SIMHCA_LOCK_FAULTS);
	pthread_cond_init(&faults->cond, NULL);
	return faults;
}

void simhca_faults_destroy(struct simhca_faults *faults)
{
	pthread_cond_destroy(&faults->cond);
	pthread_mutex_destroy(&faults->lock);
	free(faults);
}

static void join_line(struct simhca_faults *faults, struct simhca_pager *pager)
{
	const struct simhca_ops *ops = &pager->fabric->ops;

	if (pager->waiting || !pager->line || pager->at_work >= WORKERS_PER_PAGER)
		return;
	pager->waiting = true;
	DL_APPEND2(faults->line, pager, line_prev, line_next);
	pthread_cond_signal(&faults->cond);
	if (faults->idle || faults->no_worker_reported || !ops->no_worker)
		return;
	faults->no_worker_reported = true;
	ops->no_worker(ops->arg);
}

static void leave_line(struct simhca_faults *faults, struct simhca_pager *pager)
{
	if (!pager->waiting)
		return;
	pager->waiting = false;
	DL_DELETE2(faults->line, pager, line_prev, line_next);
}

static void count_regions(struct simhca_page_work *work, int by)
{
	for (uint32_t i = 0; i < work->num_ranges; i++)
		work->range[i].odp->users += (uint32_t)by;
}

/* To the end of its pager's line. */
static void append(struct simhca_page_work *work)
{
	DL_APPEND(work->pager->line, work);
	join_line(work->pager->fabric->faults, work->pager);
}

void simhca_faults_enqueue(struct simhca_page_work *work)
{
	count_regions(work, 1);
	append(work);
}

void simhca_faults_dequeue(struct simhca_page_work *work)
{
	count_regions(work, -1);
	DL_DELETE(work->pager->line, work);
	if (!work->pager->line)
		leave_line(work->pager->fabric->faults, work->pager);
}

/* Workers that are at work for a pager's program. */
static uint32_t at_work_for(const struct simhca_faults *faults, const struct simhca_pager *pager)
{
	const struct simhca_pager *busy;
	uint32_t count = 0;

	DL_FOREACH2(faults->busy, busy, busy_next)
	if (busy == pager || (pager->program && busy->program == pager->program))
		count += busy->at_work;
	return count;
}

static void at_work(struct simhca_faults *faults, struct simhca_pager *pager, int by)
{
	if (!pager->at_work)
		DL_APPEND2(faults->busy, pager, busy_prev, busy_next);
	pager->at_work += (uint32_t)by;
	if (!pager->at_work)
		DL_DELETE2(faults->busy, pager, busy_prev, busy_next);
}

/* The work whose turn it is, out of the line; *wait: until the next is due, if none is. */
static struct simhca_page_work *next_work(struct simhca_faults *faults, uint64_t *wait)
{
	struct simhca_pager *pager;

	*wait = UINT64_MAX;
	DL_FOREACH2(faults->line, pager, line_next)
	{
		struct simhca_page_work *work = pager->line;
		uint64_t now = simhca_engine_now(work->clock);

		if (work->due > now) {
			if (work->due - now < *wait)
				*wait = work->due - now;
			continue;
		}
		if (at_work_for(faults, pager) >= WORKERS_PER_PROGRAM)
			continue; /* the end of a piece of its work wakes who may take this */
		leave_line(faults, pager);
		DL_DELETE(pager->line, work);
		at_work(faults, pager, 1);
		join_line(faults, pager);
		return work;
	}
	return NULL;
}

/* ---------------------------------------------------------------------------- workers */

static void work_off(struct simhca_faults *faults, struct simhca_page_work *work)
{
	struct simhca_pager *pager = work->pager;
	bool over;

	if (work->ops->begin)
		work->ops->begin(work);
	pthread_mutex_unlock(&faults->lock);
	over = work->ops->step(work);
	pthread_mutex_lock(&faults->lock);
	if (over) {
		count_regions(work, -1);
		work->ops->ended(work);
	} else {
		append(work);
	}
	faults->ended++;
	at_work(faults, pager, -1);
	join_line(faults, pager);
}

bool simhca_faults_poll(struct simhca_fabric *fabric)
{
	struct simhca_faults *faults = fabric->faults;
	struct simhca_page_work *work;
	uint64_t wait;

	pthread_mutex_lock(&faults->lock);
	work = next_work(faults, &wait);
	if (work)
		work_off(faults, work);
	pthread_mutex_unlock(&faults->lock);
	return work;
}

static void wait_for_work(struct simhca_faults *faults, uint64_t wait)
{
	struct timespec until;

	if (wait == UINT64_MAX) {
		pthread_cond_wait(&faults->cond, &faults->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	wait += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(wait / 1000000000u);
	until.tv_nsec = (long)(wait % 1000000000u);
	pthread_cond_clockwait(&faults->cond, &faults->lock, CLOCK_MONOTONIC, &until);
}

void simhca_faults_run(struct simhca_fabric *fabric)
{
	struct simhca_faults *faults = fabric->faults;

	pthread_mutex_lock(&faults->lock);
	faults->threads++;
	while (!faults->stop) {
		uint64_t wait;
		struct simhca_page_work *work = next_work(faults, &wait);

		if (work) {
			work_off(faults, work);
			continue;
		}
		faults->idle++;
		wait_for_work(faults, wait);
		faults->idle--;
	}
	faults->threads--;
	pthread_mutex_unlock(&faults->lock);
}

void simhca_faults_stop(struct simhca_fabric *fabric)
{
	pthread_mutex_lock(&fabric->faults->lock);
	fabric->faults->stop = true;
	pthread_cond_broadcast(&fabric->faults->cond);
	pthread_mutex_unlock(&fabric->faults->lock);
}

/* How many pagers in the line may have a worker. */
static unsigned int may_have_workers(const struct simhca_faults *faults)
{
	const struct simhca_pager *pager, *before;
	unsigned int count = 0, looks = 0;

	DL_FOREACH2(faults->line, pager, line_next)
	{
		uint32_t workers = at_work_for(faults, pager);

		for (before = faults->line; before != pager; before = before->line_next)
			workers += pager->program && before->program == pager->program;
		count += workers < WORKERS_PER_PROGRAM;
		if (++looks == LOOKS)
			break;
	}
	return count;
}

int simhca_faults_stuck(struct simhca_fabric *fabric)
{
	struct simhca_faults *faults = fabric->faults;
	int wanted = 0;

	pthread_mutex_lock(&faults->lock);
	if (faults->idle || !faults->line) {
		faults->no_worker_reported = false;
		wanted = -1;
	} else if (faults->ended == faults->watched) {
		wanted = (int)may_have_workers(faults);
	}
	faults->watched = faults->ended;
	pthread_mutex_unlock(&faults->lock);
	return wanted;
}

/* ---------------------------------------------------------------------------- regions */

bool simhca_odp_close(struct simhca_odp *odp)
{
	struct simhca_faults *faults;
	struct simhca_page_work *work, *next;
	bool quiet;

	if (!odp)
		return true;
	faults = odp->device->fabric->faults;
	pthread_mutex_lock(&faults->lock);
	DL_FOREACH_SAFE (odp->pager->line, work, next) {
		uint32_t i = 0;

		while (i < work->num_ranges && work->range[i].odp != odp)
			i++;
		if (i == work->num_ranges)
			continue;
		simhca_faults_dequeue(work);
		work->ops->withdrawn(work);
	}
	quiet = !odp->users;
	pthread_mutex_unlock(&faults->lock);
	return quiet;
}
