/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Page faults of QPs, from raising to resuming. A QP has no more than four, and raises the next
 * only when one has ended: so the line is fair between QPs, and bounded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp_log.h"
#include "engine/engine.h"
#include "fault.h"
#include "line.h"
#include "odp.h"
#include "simhca-info.h"

#define FRUITLESS_MOST 16	  /* copies that fail, in a row, though the fault was resolved */
#define OFF_NS (50 * 1000 * 1000) /* how long faults stay disabled while a change is tried */
#define OFF_RETRY_TIMER 14	  /* RNR NAK timer code: 1.28 ms */

static const char *const access_name[SIMHCA_OWN_ACCESSES] = {
	[SIMHCA_REQUESTER_READ] = "requester, read",
	[SIMHCA_REQUESTER_WRITE] = "requester, write",
	[SIMHCA_RESPONDER_READ] = "responder, read",
	[SIMHCA_RESPONDER_WRITE] = "responder, write",
};

static bool is_write(enum simhca_own_access access)
{
	return access == SIMHCA_REQUESTER_WRITE || access == SIMHCA_RESPONDER_WRITE;
}

/* An XRC_RECV QP has no context and no engine: any engine's clock will do. */
static const struct simhca_engine *clock_of(const struct simhca_qp_faults *of)
{
	return of->context ? of->context->engine : of->device->fabric->engines;
}

static uint64_t now_of(const struct simhca_qp_faults *of)
{
	return simhca_engine_now(clock_of(of));
}

/* The requester goes on, the peer's as well if it is told; and a flush that waits for this. */
static void wake_up(const struct simhca_fault *fault)
{
	struct simhca_qp_faults *of = fault->of;
	struct simhca_engine *engine;

	if (fault->access == SIMHCA_RESPONDER_READ || fault->access == SIMHCA_RESPONDER_WRITE)
		atomic_store(&of->tell_peer, true);
	/* An XRC_RECV QP has something to do only if packets of the wire wait for it. */
	engine = of->context ? of->context->engine : atomic_load(&of->device->fabric->first_engine);
	if (engine)
		simhca_engine_schedule(engine, of->task);
}

static struct simhca_faults *line_of(const struct simhca_qp_faults *of)
{
	return of->device->fabric->faults;
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

/* ---------------------------------------------------------------------------- workers */

/* Without locks; whatever the ranges need stays, for their users count us. */
static enum simhca_reason resolve(const struct simhca_fault *fault)
{
	const struct simhca_qp_faults *of = fault->of;
	enum simhca_reason reason = SIMHCA_REASON_NONE;

	for (uint32_t i = 0; i < fault->work.num_ranges && reason == SIMHCA_REASON_NONE; i++) {
		const struct simhca_page_range *range = &fault->range[i];
		uint64_t pages;

		reason = simhca_odp_bring_in(range->odp, range->addr, range->length,
					     is_write(fault->access), true, &pages);
		simhca_odp_add(range->odp, SIMHCA_ODP_FAULT_PAGES, pages);
		if (reason == SIMHCA_REASON_NONE)
			continue;
		simhca_odp_add(range->odp, SIMHCA_ODP_FAILURES, 1);
		simhca_log_of_qp(of->device, of->context, of->qpn,
				 ": page fault (%s) at 0x%" PRIx64 " + %" PRIu64 ": %s",
				 access_name[fault->access], range->addr, range->length,
				 simhca_reason_text(reason));
	}
	return reason;
}

static void fault_begins(struct simhca_page_work *work)
{
	set_state((struct simhca_fault *)work, SIMHCA_FAULT_RESOLVING);
}

static bool fault_step(struct simhca_page_work *work)
{
	struct simhca_fault *fault = (struct simhca_fault *)work;

	fault->reason = resolve(fault);
	return true;
}

/* From now on the QP may go. */
static void fault_ended(struct simhca_page_work *work)
{
	struct simhca_fault *fault = (struct simhca_fault *)work;

	set_state(fault,
		  fault->reason == SIMHCA_REASON_NONE ? SIMHCA_FAULT_RESUMED : SIMHCA_FAULT_FAILED);
	wake_up(fault);
}

/* The QP finds out that the key is gone. */
static void fault_withdrawn(struct simhca_page_work *work)
{
	struct simhca_fault *fault = (struct simhca_fault *)work;

	set_state(fault, SIMHCA_FAULT_IDLE);
	wake_up(fault);
}

static const struct simhca_page_work_ops fault_ops = {
	.begin = fault_begins,
	.step = fault_step,
	.ended = fault_ended,
	.withdrawn = fault_withdrawn,
};

/* ---------------------------------------------------------------- the side of the QP */

/* Whether what is absent now is part of what the fault was about. */
static bool covers(const struct simhca_fault *fault, const struct simhca_worker *worker)
{
	for (uint32_t i = 0; i < worker->num_absent; i++) {
		uint64_t from = worker->absent[i].addr, to = from + worker->absent[i].length - 1;
		uint32_t n;

		for (n = 0; n < fault->work.num_ranges; n++) {
			const struct simhca_page_range *range = &fault->range[n];

			if (range->odp == worker->absent[i].odp && range->addr <= from &&
			    to - range->addr < range->length)
				break;
		}
		if (n == fault->work.num_ranges)
			return false;
	}
	return true;
}

static struct simhca_fault *make_fault(struct simhca_qp_faults *of, enum simhca_own_access access)
{
	struct simhca_fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	fault->work.ops = &fault_ops;
	fault->work.range = fault->range;
	fault->of = of;
	fault->access = access;
	of->fault[access] = fault;
	return fault;
}

static enum simhca_reach raise_fault(struct simhca_worker *worker, struct simhca_qp_faults *of,
				     enum simhca_own_access access)
{
	struct simhca_faults *faults = line_of(of);
	struct simhca_fault *fault = of->fault[access];
	uint64_t latency_ns = of->device->config.fault_latency_us * 1000ull;

	/*
	 * Of a QP that is about to change. One that has changed is not heard of here: whoever
	 * takes it out of the working states holds both its locks, or waits for all steps, and
	 * disables its faults after that.
	 */
	if (now_of(of) < atomic_load(&of->off_until))
		return SIMHCA_REACH_LATER;
	if (!fault)
		fault = make_fault(of, access);
	if (!fault)
		return SIMHCA_REACHED; /* the copy finds the pages, or fails as an ordinary one */
	pthread_mutex_lock(&faults->lock);
	fault->work.num_ranges = worker->num_absent;
	for (uint32_t i = 0; i < worker->num_absent; i++) {
		struct simhca_odp *odp = worker->absent[i].odp;

		fault->range[i] = (struct simhca_page_range){ .odp = odp,
							      .addr = worker->absent[i].addr,
							      .length = worker->absent[i].length };
	}
	fault->work.pager = fault->range[0].odp->pager;
	fault->work.clock = clock_of(of);
	fault->work.due = latency_ns ? now_of(of) + latency_ns : 0;
	fault->naks = 0;
	set_state(fault, SIMHCA_FAULT_QUEUED);
	simhca_faults_enqueue(&fault->work);
	pthread_mutex_unlock(&faults->lock);
	simhca_odp_add(worker->absent[0].odp, SIMHCA_ODP_FAULTS, 1);
	atomic_fetch_add_explicit(&of->count[access], 1, memory_order_relaxed);
	return SIMHCA_REACH_LATER;
}

enum simhca_reach simhca_fault_check_absent(struct simhca_worker *worker,
					    struct simhca_qp_faults *of,
					    enum simhca_own_access access,
					    enum simhca_reason *reason)
{
	struct simhca_fault *fault = of->fault[access];

	switch (state_of(fault)) {
	case SIMHCA_FAULT_QUEUED:
	case SIMHCA_FAULT_RESOLVING:
		return SIMHCA_REACH_LATER;
	case SIMHCA_FAULT_RESUMED:
		/* Dropped again meanwhile, maybe. It goes on once, so that it gets on at all. */
		if (covers(fault, worker))
			return SIMHCA_REACHED;
		break;
	case SIMHCA_FAULT_FAILED:
		set_state(fault, SIMHCA_FAULT_IDLE);
		if (!covers(fault, worker))
			break;
		*reason = fault->reason;
		return SIMHCA_REACH_FAILED;
	}
	return raise_fault(worker, of, access);
}

enum simhca_reach simhca_fault_check_copy(struct simhca_worker *worker, struct simhca_qp_faults *of,
					  enum simhca_own_access access,
					  const struct simhca_sgl *sgl, enum simhca_reason *reason)
{
	struct simhca_fault *fault = of->fault[access];

	if (*reason != SIMHCA_REASON_NONE && *reason != SIMHCA_REASON_PAGE_NOT_MAPPED)
		return SIMHCA_REACH_FAILED;
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
		return SIMHCA_REACH_FAILED;
	switch (state_of(fault)) {
	case SIMHCA_FAULT_QUEUED:
	case SIMHCA_FAULT_RESOLVING:
		return SIMHCA_REACH_LATER;
	default:
		return raise_fault(worker, of, access);
	}
}

void simhca_fault_over(struct simhca_qp_faults *of, enum simhca_own_access access)
{
	struct simhca_fault *fault = of->fault[access];
	uint32_t state = state_of(fault);

	if (!fault)
		return;
	fault->fruitless = 0;
	if (state == SIMHCA_FAULT_RESUMED || state == SIMHCA_FAULT_FAILED)
		set_state(fault, SIMHCA_FAULT_IDLE);
}

bool simhca_fault_under_way(const struct simhca_qp_faults *of, enum simhca_own_access access)
{
	uint32_t state = state_of(of->fault[access]);

	return state == SIMHCA_FAULT_QUEUED || state == SIMHCA_FAULT_RESOLVING;
}

bool simhca_fault_raised(const struct simhca_qp_faults *of, enum simhca_own_access access)
{
	return state_of(of->fault[access]) != SIMHCA_FAULT_IDLE;
}

uint8_t simhca_fault_rnr_timer(struct simhca_qp_faults *of, enum simhca_own_access access)
{
	struct simhca_fault *fault = of->fault[access];
	uint32_t code;

	if (!fault || !simhca_fault_under_way(of, access))
		return OFF_RETRY_TIMER;
	/* 10 us, and about twice as long each time, up to 1.28 ms. */
	code = 1 + fault->naks * 2;
	if (code < OFF_RETRY_TIMER)
		fault->naks++;
	else
		code = OFF_RETRY_TIMER;
	return (uint8_t)code;
}

bool simhca_faults_disable(struct simhca_qp_faults *of)
{
	struct simhca_faults *faults = line_of(of);
	bool quiet = true, some = false;

	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++)
		some |= of->fault[i] != NULL;
	if (!some)
		return true;
	atomic_store(&of->off_until, now_of(of) + OFF_NS);
	pthread_mutex_lock(&faults->lock);
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		struct simhca_fault *fault = of->fault[i];

		switch (state_of(fault)) {
		case SIMHCA_FAULT_QUEUED:
			simhca_faults_dequeue(&fault->work);
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

void simhca_faults_free(struct simhca_qp_faults *of)
{
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++)
		free(of->fault[i]);
}
