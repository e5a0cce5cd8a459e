/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-demand paging.
 *
 *   odp     what an ON_DEMAND region has beyond an ordinary one: a page map, and counters
 *   fault   an access of a QP to pages that are not in the map: the QP stops there until a worker
 *           has brought them in. A QP has four, one for each of {requester, responder} x {read,
 *           write}, and each has a life: IDLE, QUEUED, RESOLVING, then RESUMED or FAILED, until the
 *           QP has taken notice.
 *   advice  a prefetch: the same work, for nobody in particular
 *   pager   of a process: the line of its faults and advices, and the userfaultfd that tells which
 *           pages the program drops
 *
 * The page map decides when an access faults. It does not decide which bytes an access finds: they
 * come through the process's own page tables, as with every region. So a page that has left the
 * process without our knowing costs no wrong data; at worst the copy fails, and that is a fault
 * like any other, whose handler finds out whether the address still means something.
 *
 * A worker may wait for a program's memory for as long as that program likes. It holds no lock
 * then; a pager's work occupies two workers at most, so other programs' faults are served on; and
 * whoever wants a QP or region out of the way gets -EAGAIN while a fault of it is being resolved.
 *
 * Locks: faults.lock (the line, states, users); then an engine's lock. pager->lock (its regions)
 * and fabric->pager_lock (the pagers, their descriptors). None is held while a program's memory is
 * waited for.
 */
#ifndef LIBSIMHCA_ODP_H
#define LIBSIMHCA_ODP_H

#include "model.h"
#include "page_map.h"

enum simhca_odp_count {
	SIMHCA_ODP_FAULTS,
	SIMHCA_ODP_FAULT_PAGES,
	SIMHCA_ODP_FAILURES,
	SIMHCA_ODP_INVALIDATIONS,
	SIMHCA_ODP_INVALIDATED_PAGES,
	SIMHCA_ODP_PREFETCHES,
	SIMHCA_ODP_PREFETCHED_PAGES,
	SIMHCA_ODP_WATCHED_PAGES,
	SIMHCA_ODP_CHECKED_PAGES,
	SIMHCA_ODP_COUNTS,
};

/* ------------------------------------------------------------------------------ regions */

struct simhca_odp {
	struct simhca_device *device;
	struct simhca_mm *mm;
	struct simhca_pager *pager;
	struct simhca_page_map *map;
	uint64_t addr, length; /* of the region, in the owner's memory */
	uint64_t base;	       /* of page 0 */
	bool writable;
	/* Goes up before pages leave the map: who adds some looks whether it still is what it was.
	 */
	_Atomic uint64_t epoch;
	uint32_t users; /* faults and advices queued or under way; under faults.lock */
	struct simhca_odp *prev, *next; /* in the pager's list, under its lock */
	_Atomic uint64_t count[SIMHCA_ODP_COUNTS];
};

/* For a region of mm, not yet in use. NULL: why says. */
struct simhca_odp *simhca_odp_create(struct simhca_device *device, struct simhca_mm *mm,
				     uint64_t addr, uint64_t length, uint32_t access,
				     struct simhca_why *why);
/*
 * The region is withdrawn, and no step uses it any more. Takes its work out of the line, and
 * returns whether none is under way; then it may be destroyed.
 */
bool simhca_odp_close(struct simhca_odp *odp);
void simhca_odp_destroy(struct simhca_odp *odp);

void simhca_odp_add(struct simhca_odp *odp, enum simhca_odp_count which, uint64_t n);
/* The pages that [addr, addr + length) touches. */
static inline uint64_t simhca_odp_pages(const struct simhca_odp *odp, uint64_t addr,
					uint64_t length, uint64_t *first)
{
	*first = (addr - odp->base) >> SIMHCA_PAGE_SHIFT;
	return ((addr + length - 1 - odp->base) >> SIMHCA_PAGE_SHIFT) - *first + 1;
}

/* Pages that the program has dropped leave the map. */
void simhca_odp_invalidate(struct simhca_odp *odp, uint64_t start, uint64_t end);
/*
 * Brings [addr, addr + length) in: 0, or the reason. For a page-fault worker, which may wait here.
 * fault false: only what is in the process's page tables already. *pages: how many were new.
 */
enum simhca_reason simhca_odp_bring_in(struct simhca_odp *odp, uint64_t addr, uint64_t length,
				       bool write, bool fault, uint64_t *pages);
/*
 * Whether all on-demand memory of the list is still in the process's page tables, where no event
 * would have told otherwise. What is not leaves the map. May wait for the program's memory, as a
 * copy may.
 */
bool simhca_odp_verify(const struct simhca_sgl *sgl);

/* ------------------------------------------------------------------------------- pagers */

struct simhca_pager {
	struct simhca_fabric *fabric;
	struct simhca_pager *next; /* in the fabric's list */
	pid_t pid;
	uint32_t users;	 /* address spaces, and the event thread; under fabric->pager_lock */
	bool gone;	 /* the process has ended; under fabric->pager_lock */
	uint64_t number; /* names it to epoll */
	/* -1: none; changes once, and not back. What it names may be given up for another file. */
	_Atomic int userfaultfd;
	pthread_mutex_t lock;
	struct simhca_odp *regions;
	/* under faults.lock */
	struct simhca_page_work *line;
	uint32_t at_work; /* workers */
	bool waiting;	  /* in the line of pagers */
	struct simhca_pager *line_prev, *line_next;
};

int simhca_pagers_init(struct simhca_fabric *fabric);
void simhca_pagers_end(struct simhca_fabric *fabric);
/* The pager of an address space's process; made if need be. NULL when out of memory. */
struct simhca_pager *simhca_pager_of(struct simhca_fabric *fabric, struct simhca_mm *mm);
void simhca_pager_put(struct simhca_pager *pager);
void simhca_pager_gone(struct simhca_pager *pager);
/* Whether events will tell when pages of [start, end) leave the process. May wait. */
bool simhca_pager_watch(struct simhca_pager *pager, const struct simhca_odp *odp, uint64_t start,
			uint64_t end);

/* --------------------------------------------------------------- bringing in (page_in.c) */

/*
 * Whole pages of a process: are they there, with this right? Faults them in if asked. 0, or errno:
 * EFAULT not mapped, EACCES not writable, ESRCH, EPERM.
 */
int simhca_page_in(struct simhca_mm *mm, uint64_t addr, uint64_t pages, bool write);
/*
 * Which of up to 64 pages are in the process's page tables: bit n is page n. 0, too, if it cannot
 * be found out.
 */
uint64_t simhca_pages_resident(struct simhca_mm *mm, uint64_t addr, unsigned int pages);

/* ------------------------------------------------------------------------------- faults */

struct simhca_page_range {
	struct simhca_odp *odp;
	uint64_t addr, length;
};

/* What a pager's line consists of. */
struct simhca_page_work {
	struct simhca_pager *pager;
	bool is_fault;
	uint64_t due; /* not before: ns on its engine's clock */
	struct simhca_page_work *prev, *next;
};

enum simhca_fault_state {
	SIMHCA_FAULT_IDLE,
	SIMHCA_FAULT_QUEUED,
	SIMHCA_FAULT_RESOLVING,
	SIMHCA_FAULT_RESUMED,
	SIMHCA_FAULT_FAILED,
};

struct simhca_fault {
	struct simhca_page_work work;
	struct simhca_qp *qp;
	_Atomic uint32_t state; /* enum simhca_fault_state; changes under faults.lock */
	enum simhca_fault_context context;
	enum simhca_reason reason; /* FAILED */
	uint32_t naks;		   /* given since it was raised */
	uint32_t fruitless;	   /* times in a row that a copy failed after it was resolved */
	uint32_t num_ranges;
	struct simhca_page_range range[SIMHCA_MAX_SGE];
};

struct simhca_advice {
	struct simhca_page_work work;
	struct simhca_context *context;
	struct simhca_advice *next; /* in the context's list */
	uint64_t number;
	bool write, fault;
	bool wanted; /* somebody waits for the outcome */
	bool done;
	enum simhca_reason reason;
	uint32_t num_ranges, at; /* the range that is next, and how much of it is done */
	uint64_t offset;
	struct simhca_page_range range[SIMHCA_ADVISE_MAX_SGE];
};

struct simhca_faults {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct simhca_pager *line; /* those with work, whose turn is next first */
	uint32_t threads, idle;
	uint64_t ended, watched; /* pieces of work; at the last look of simhca_faults_stuck() */
	bool stop;
};

struct simhca_faults *simhca_faults_create(void);
void simhca_faults_destroy(struct simhca_faults *faults);
/* Under faults.lock. */
void simhca_faults_enqueue(struct simhca_page_work *work);
void simhca_faults_dequeue(struct simhca_page_work *work);
/* Takes an advice a step further; true when it is over. Without locks; and what follows then. */
bool simhca_advice_step(struct simhca_advice *advice);
void simhca_advice_ended(struct simhca_advice *advice);
/* What is left of a context whose regions are gone. */
void simhca_advices_forget(struct simhca_context *context);

enum simhca_fault_verdict {
	SIMHCA_FAULT_GO,   /* all that the access needs is there */
	SIMHCA_FAULT_WAIT, /* not now: a fault is under way */
	SIMHCA_FAULT_ERROR,
};
/*
 * After a packet's memory was translated: the pages that were absent (worker->absent) become the
 * QP's fault in that context. Under the lock of that side of the QP. ERROR: *reason says why.
 */
enum simhca_fault_verdict simhca_fault_take(struct simhca_worker *worker, struct simhca_qp *qp,
					    enum simhca_fault_context context,
					    enum simhca_reason *reason);
/*
 * A copy to or from the list failed for *reason, or verification did (NONE). If on-demand memory
 * may be why, that is a fault.
 */
enum simhca_fault_verdict simhca_fault_take_copy(struct simhca_worker *worker, struct simhca_qp *qp,
						 enum simhca_fault_context context,
						 const struct simhca_sgl *sgl,
						 enum simhca_reason *reason);
/* Where a request's own memory can fault. */
static inline enum simhca_fault_context simhca_requester_context(const struct simhca_packet *packet)
{
	return packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE ||
			       packet->op == SIMHCA_PKT_ATOMIC_WRITE ||
			       packet->op == SIMHCA_PKT_FLUSH
		       ? SIMHCA_REQUESTER_READ
		       : SIMHCA_REQUESTER_WRITE;
}
/* requester_wait.c: it waits for a fault of its own, or fails by it. Under req_lock. */
enum simhca_next simhca_wait_fault(struct simhca_worker *worker, struct simhca_qp *qp,
				   enum simhca_fault_context context,
				   enum simhca_fault_verdict verdict, enum simhca_reason reason);
/* The access that was resumed has got through. */
void simhca_fault_over(struct simhca_qp *qp, enum simhca_fault_context context);
/* Whether the access was stopped, and now may go on whatever the map says. */
static inline bool simhca_fault_resumed(const struct simhca_qp *qp,
					enum simhca_fault_context context)
{
	const struct simhca_fault *fault = qp->fault[context];

	return fault &&
	       atomic_load_explicit(&fault->state, memory_order_acquire) == SIMHCA_FAULT_RESUMED;
}
/* Whether a fault of the context is queued or being resolved; or that, or has ended unnoticed. */
bool simhca_fault_under_way(const struct simhca_qp *qp, enum simhca_fault_context context);
bool simhca_fault_raised(const struct simhca_qp *qp, enum simhca_fault_context context);
/* The RNR NAK timer code for a request that has to wait for a fault. */
uint8_t simhca_fault_rnr_timer(struct simhca_qp *qp, enum simhca_fault_context context);
/*
 * No fault is scheduled for a moment, what is queued is taken back, and what has ended is
 * forgotten: what comes next is to change the QP. True: none is under way. With both locks of the
 * QP, or when no step finds it any more.
 */
bool simhca_faults_disable(struct simhca_qp *qp);
void simhca_faults_free(struct simhca_qp *qp);

#endif
