/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Page faults of QPs, from raising to resuming, and the workers that resolve them.
 *
 * The line. A pager has its work in the order of arrival; as a QP has no more than four faults and
 * raises the next only when one has ended, that is fair between its QPs, and bounded. Pagers take
 * turns. An advice is worked off in pieces, and goes to the end of the line after each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "odp.h"

#define WORKERS_PER_PAGER 2
#define FRUITLESS_MOST 16	  /* copies that fail, in a row, though the fault was resolved */
#define OFF_NS (50 * 1000 * 1000) /* how long faults stay disabled while a change is tried */
#define OFF_RETRY_TIMER 14	  /* RNR NAK timer code: 1.28 ms */

static const char *const context_name[SIMHCA_FAULT_CONTEXTS] = {
	[SIMHCA_REQUESTER_READ] = "requester, read",
	[SIMHCA_REQUESTER_WRITE] = "requester, write",
	[SIMHCA_RESPONDER_READ] = "responder, read",
	[SIMHCA_RESPONDER_WRITE] = "responder, write",
};

static bool is_write(enum simhca_fault_context context)
{
	return context == SIMHCA_REQUESTER_WRITE || context == SIMHCA_RESPONDER_WRITE;
}

/* An XRC_RECV QP has no context and no engine: any engine's clock will do, and nobody waits. */
static uint64_t now_of_qp(const struct simhca_qp *qp)
{
	return simhca_engine_now(qp->context ? qp->context->engine : qp->device->fabric->engines);
}

static void wake_up(struct simhca_qp *qp)
{
	if (qp->context)
		simhca_engine_schedule(qp->context->engine, qp);
}

static struct simhca_faults *faults_of(const struct simhca_qp *qp)
{
	return qp->device->fabric->faults;
}

static uint32_t state_of(const struct simhca_fault *fault)
{
	/* acquire: RESUMED and FAILED are seen with what the worker did. */
	return fault ? atomic_load_explicit(&fault->state, memory_order_acquire)
		     : SIMHCA_FAULT_IDLE;
}

static void set_state(struct simhca_fault *fault, enum simhca_fault_state state)
{
	atomic_store_explicit(&fault->state, state, memory_order_release);
}

/* --------------------------------------------------------------------------- the line */

struct simhca_faults *simhca_faults_create(void)
{
	struct simhca_faults *faults = calloc(1, sizeof(*faults));
	pthread_condattr_t attr;

	if (!faults)
		return NULL;
	pthread_mutex_init(&faults->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&faults->cond, &attr);
	pthread_condattr_destroy(&attr);
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
	if (pager->waiting || !pager->line || pager->at_work >= WORKERS_PER_PAGER)
		return;
	pager->waiting = true;
	DL_APPEND2(faults->line, pager, line_prev, line_next);
	pthread_cond_signal(&faults->cond);
}

static void leave_line(struct simhca_faults *faults, struct simhca_pager *pager)
{
	if (!pager->waiting)
		return;
	pager->waiting = false;
	DL_DELETE2(faults->line, pager, line_prev, line_next);
}

void simhca_faults_enqueue(struct simhca_page_work *work)
{
	DL_APPEND(work->pager->line, work);
	join_line(work->pager->fabric->faults, work->pager);
}

void simhca_faults_dequeue(struct simhca_page_work *work)
{
	DL_DELETE(work->pager->line, work);
	if (!work->pager->line)
		leave_line(work->pager->fabric->faults, work->pager);
}

static uint64_t now_of(const struct simhca_page_work *work)
{
	if (work->is_fault)
		return now_of_qp(((const struct simhca_fault *)work)->qp);
	return simhca_engine_now(((const struct simhca_advice *)work)->context->engine);
}

/* The work whose turn it is, out of the line; *wait: until the next is due, if none is. */
static struct simhca_page_work *next_work(struct simhca_faults *faults, uint64_t *wait)
{
	struct simhca_pager *pager;

	*wait = UINT64_MAX;
	DL_FOREACH2(faults->line, pager, line_next)
	{
		struct simhca_page_work *work = pager->line;
		uint64_t now = now_of(work);

		if (work->due > now) {
			if (work->due - now < *wait)
				*wait = work->due - now;
			continue;
		}
		leave_line(faults, pager);
		DL_DELETE(pager->line, work);
		pager->at_work++;
		join_line(faults, pager);
		return work;
	}
	return NULL;
}

static void release_ranges(struct simhca_page_range *range, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		range[i].odp->users--;
}

/* ---------------------------------------------------------------------------- workers */

/* Without locks; whatever the ranges need stays, for their users count us. */
static enum simhca_reason resolve(const struct simhca_fault *fault)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;

	for (uint32_t i = 0; i < fault->num_ranges && reason == SIMHCA_REASON_NONE; i++) {
		const struct simhca_page_range *range = &fault->range[i];
		uint64_t pages;

		reason = simhca_odp_bring_in(range->odp, range->addr, range->length,
					     is_write(fault->context), true, &pages);
		simhca_odp_add(range->odp, SIMHCA_ODP_FAULT_PAGES, pages);
		if (reason == SIMHCA_REASON_NONE)
			continue;
		simhca_odp_add(range->odp, SIMHCA_ODP_FAILURES, 1);
		simhca_qp_log(fault->qp, ": page fault (%s) at 0x%" PRIx64 " + %" PRIu64 ": %s",
			      context_name[fault->context], range->addr, range->length,
			      simhca_reason_text(reason));
	}
	return reason;
}

/* Under the lock: from now on the QP may go. */
static void fault_ended(struct simhca_fault *fault, enum simhca_reason reason)
{
	struct simhca_qp *qp = fault->qp;

	release_ranges(fault->range, fault->num_ranges);
	fault->reason = reason;
	set_state(fault, reason == SIMHCA_REASON_NONE ? SIMHCA_FAULT_RESUMED : SIMHCA_FAULT_FAILED);
	/* The requester goes on; and a flush that waits for this. */
	wake_up(qp);
}

static void work_off(struct simhca_faults *faults, struct simhca_page_work *work)
{
	struct simhca_pager *pager = work->pager;

	if (work->is_fault) {
		struct simhca_fault *fault = (struct simhca_fault *)work;
		enum simhca_reason reason;

		set_state(fault, SIMHCA_FAULT_RESOLVING);
		pthread_mutex_unlock(&faults->lock);
		reason = resolve(fault);
		pthread_mutex_lock(&faults->lock);
		fault_ended(fault, reason);
	} else {
		struct simhca_advice *advice = (struct simhca_advice *)work;
		bool over;

		pthread_mutex_unlock(&faults->lock);
		over = simhca_advice_step(advice);
		pthread_mutex_lock(&faults->lock);
		if (over) {
			release_ranges(advice->range, advice->num_ranges);
			simhca_advice_ended(advice);
		} else {
			simhca_faults_enqueue(work);
		}
	}
	faults->ended++;
	pager->at_work--;
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
	pthread_cond_timedwait(&faults->cond, &faults->lock, &until);
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

bool simhca_faults_stuck(struct simhca_fabric *fabric)
{
	struct simhca_faults *faults = fabric->faults;
	bool stuck;

	pthread_mutex_lock(&faults->lock);
	stuck = faults->line && !faults->idle && faults->ended == faults->watched;
	faults->watched = faults->ended;
	pthread_mutex_unlock(&faults->lock);
	return stuck;
}

/* ---------------------------------------------------------------- the side of the QP */

/* Whether what is absent now is part of what the fault was about. */
static bool covers(const struct simhca_fault *fault, const struct simhca_worker *worker)
{
	for (uint32_t i = 0; i < worker->num_absent; i++) {
		uint64_t from = worker->absent[i].addr, to = from + worker->absent[i].length - 1;
		uint32_t n;

		for (n = 0; n < fault->num_ranges; n++) {
			const struct simhca_page_range *range = &fault->range[n];

			if (range->odp == worker->absent[i].odp && range->addr <= from &&
			    to - range->addr < range->length)
				break;
		}
		if (n == fault->num_ranges)
			return false;
	}
	return true;
}

static struct simhca_fault *make_fault(struct simhca_qp *qp, enum simhca_fault_context context)
{
	struct simhca_fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	fault->work.is_fault = true;
	fault->qp = qp;
	fault->context = context;
	qp->fault[context] = fault;
	return fault;
}

static enum simhca_fault_verdict raise_fault(struct simhca_worker *worker, struct simhca_qp *qp,
					     enum simhca_fault_context context)
{
	struct simhca_faults *faults = faults_of(qp);
	struct simhca_fault *fault = qp->fault[context];
	uint64_t latency_ns = qp->device->config.fault_latency_us * 1000ull;

	/*
	 * Of a QP that is about to change. One that has changed is not heard of here: whoever
	 * takes it out of the working states holds both its locks, or waits for all steps, and
	 * disables its faults after that.
	 */
	if (now_of_qp(qp) < atomic_load(&qp->faults_off_until))
		return SIMHCA_FAULT_WAIT;
	if (!fault)
		fault = make_fault(qp, context);
	if (!fault)
		return SIMHCA_FAULT_GO; /* the copy finds the pages, or fails as an ordinary one */
	pthread_mutex_lock(&faults->lock);
	fault->num_ranges = worker->num_absent;
	for (uint32_t i = 0; i < worker->num_absent; i++) {
		struct simhca_odp *odp = worker->absent[i].odp;

		fault->range[i] = (struct simhca_page_range){ .odp = odp,
							      .addr = worker->absent[i].addr,
							      .length = worker->absent[i].length };
		odp->users++;
	}
	fault->work.pager = fault->range[0].odp->pager;
	fault->work.due = latency_ns ? now_of_qp(qp) + latency_ns : 0;
	fault->naks = 0;
	set_state(fault, SIMHCA_FAULT_QUEUED);
	simhca_faults_enqueue(&fault->work);
	pthread_mutex_unlock(&faults->lock);
	simhca_odp_add(worker->absent[0].odp, SIMHCA_ODP_FAULTS, 1);
	atomic_fetch_add_explicit(&qp->fault_count[context], 1, memory_order_relaxed);
	return SIMHCA_FAULT_WAIT;
}

enum simhca_fault_verdict simhca_fault_take(struct simhca_worker *worker, struct simhca_qp *qp,
					    enum simhca_fault_context context,
					    enum simhca_reason *reason)
{
	struct simhca_fault *fault = qp->fault[context];

	if (!worker->num_absent)
		return SIMHCA_FAULT_GO;
	switch (state_of(fault)) {
	case SIMHCA_FAULT_QUEUED:
	case SIMHCA_FAULT_RESOLVING:
		return SIMHCA_FAULT_WAIT;
	case SIMHCA_FAULT_RESUMED:
		/* Dropped again meanwhile, maybe. It goes on once, so that it gets on at all. */
		if (covers(fault, worker))
			return SIMHCA_FAULT_GO;
		break;
	case SIMHCA_FAULT_FAILED:
		set_state(fault, SIMHCA_FAULT_IDLE);
		if (!covers(fault, worker))
			break;
		*reason = fault->reason;
		return SIMHCA_FAULT_ERROR;
	}
	return raise_fault(worker, qp, context);
}

enum simhca_fault_verdict simhca_fault_take_copy(struct simhca_worker *worker, struct simhca_qp *qp,
						 enum simhca_fault_context context,
						 const struct simhca_sgl *sgl,
						 enum simhca_reason *reason)
{
	struct simhca_fault *fault = qp->fault[context];

	if (*reason != SIMHCA_REASON_NONE && *reason != SIMHCA_REASON_PAGE_NOT_MAPPED)
		return SIMHCA_FAULT_ERROR;
	worker->num_absent = 0;
	for (uint32_t i = 0; i < sgl->count && worker->num_absent < SIMHCA_MAX_SGE; i++) {
		const struct simhca_seg *seg = &sgl->seg[i];

		if (!seg->odp)
			continue;
		worker->absent[worker->num_absent].odp = seg->odp;
		worker->absent[worker->num_absent].addr = seg->addr;
		worker->absent[worker->num_absent++].length = seg->length;
		if (*reason != SIMHCA_REASON_NONE) /* what the map says of it is not true */
			simhca_odp_invalidate(seg->odp, seg->addr, seg->addr + seg->length);
	}
	if (!worker->num_absent ||
	    (*reason != SIMHCA_REASON_NONE && fault && fault->fruitless++ >= FRUITLESS_MOST))
		return SIMHCA_FAULT_ERROR;
	switch (state_of(fault)) {
	case SIMHCA_FAULT_QUEUED:
	case SIMHCA_FAULT_RESOLVING:
		return SIMHCA_FAULT_WAIT;
	default:
		return raise_fault(worker, qp, context);
	}
}

void simhca_fault_over(struct simhca_qp *qp, enum simhca_fault_context context)
{
	struct simhca_fault *fault = qp->fault[context];
	uint32_t state = state_of(fault);

	if (!fault)
		return;
	fault->fruitless = 0;
	if (state == SIMHCA_FAULT_RESUMED || state == SIMHCA_FAULT_FAILED)
		set_state(fault, SIMHCA_FAULT_IDLE);
}

bool simhca_fault_under_way(const struct simhca_qp *qp, enum simhca_fault_context context)
{
	uint32_t state = state_of(qp->fault[context]);

	return state == SIMHCA_FAULT_QUEUED || state == SIMHCA_FAULT_RESOLVING;
}

bool simhca_fault_raised(const struct simhca_qp *qp, enum simhca_fault_context context)
{
	return state_of(qp->fault[context]) != SIMHCA_FAULT_IDLE;
}

uint8_t simhca_fault_rnr_timer(struct simhca_qp *qp, enum simhca_fault_context context)
{
	struct simhca_fault *fault = qp->fault[context];
	uint32_t code;

	if (!fault || !simhca_fault_under_way(qp, context))
		return OFF_RETRY_TIMER;
	/* 10 us, and about twice as long each time, up to 1.28 ms. */
	code = 1 + fault->naks * 2;
	if (code < OFF_RETRY_TIMER)
		fault->naks++;
	else
		code = OFF_RETRY_TIMER;
	return (uint8_t)code;
}

bool simhca_faults_disable(struct simhca_qp *qp)
{
	struct simhca_faults *faults = faults_of(qp);
	bool quiet = true, some = false;

	for (int i = 0; i < SIMHCA_FAULT_CONTEXTS; i++)
		some |= qp->fault[i] != NULL;
	if (!some)
		return true;
	atomic_store(&qp->faults_off_until, now_of_qp(qp) + OFF_NS);
	pthread_mutex_lock(&faults->lock);
	for (int i = 0; i < SIMHCA_FAULT_CONTEXTS; i++) {
		struct simhca_fault *fault = qp->fault[i];

		switch (state_of(fault)) {
		case SIMHCA_FAULT_QUEUED:
			simhca_faults_dequeue(&fault->work);
			release_ranges(fault->range, fault->num_ranges);
			set_state(fault, SIMHCA_FAULT_IDLE);
			break;
		case SIMHCA_FAULT_RESOLVING:
			quiet = false;
			break;
		case SIMHCA_FAULT_RESUMED:
		case SIMHCA_FAULT_FAILED: /* by the time it comes back, that may have changed */
			set_state(fault, SIMHCA_FAULT_IDLE);
			break;
		}
		if (fault)
			fault->fruitless = 0;
	}
	pthread_mutex_unlock(&faults->lock);
	/*
	 * Should it stay as it is after all, what it stood at is raised again: the end of the one
	 * that is being resolved schedules it.
	 */
	return quiet;
}

void simhca_faults_free(struct simhca_qp *qp)
{
	for (int i = 0; i < SIMHCA_FAULT_CONTEXTS; i++)
		free(qp->fault[i]);
}

/* ----------------------------------------------------------------------- the region's */

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
		struct simhca_fault *fault = (struct simhca_fault *)work;
		struct simhca_advice *advice = (struct simhca_advice *)work;
		struct simhca_page_range *range = work->is_fault ? fault->range : advice->range;
		uint32_t count = work->is_fault ? fault->num_ranges : advice->num_ranges, i = 0;

		while (i < count && range[i].odp != odp)
			i++;
		if (i == count)
			continue;
		simhca_faults_dequeue(work);
		release_ranges(range, count);
		if (work->is_fault) { /* the QP finds out that the key is gone */
			set_state(fault, SIMHCA_FAULT_IDLE);
			wake_up(fault->qp);
		} else {
			advice->reason = SIMHCA_REASON_KEY_UNKNOWN;
			simhca_advice_ended(advice);
		}
	}
	quiet = !odp->users;
	pthread_mutex_unlock(&faults->lock);
	return quiet;
}
