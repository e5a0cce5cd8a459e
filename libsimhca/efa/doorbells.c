/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Doorbells that are plain stores, of which nothing tells. While messages come the engine looks at the
 * words. When none have come for a while it write-protects the pages in the program's memory, by the
 * program's userfaultfd: the next store there is a page fault, which the engine hears of like of any
 * other doorbell, and ends. So an idle program costs nothing.
 *
 * A store before the page was protected is seen when the engine looks once more, and one after that
 * waits for the fault to end. So none is overlooked.
 */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "core/lock.h"
#include "objects.h"
#include "paging/pager.h"

#define MESSAGES 16

static int protect(int fd, uint64_t address, bool on)
{
	struct uffdio_writeprotect protect = {
		.range = { .start = address, .len = EFA_PAGE },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &protect) ? errno : 0;
}

static int look_after(int fd, uint64_t address)
{
	struct uffdio_register page = {
		.range = { .start = address, .len = EFA_PAGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return ioctl(fd, UFFDIO_REGISTER, &page) ? errno : 0;
}

/*
 * The calls that follow take locks of the program's address space, and so can take as long as it
 * likes, as an access to its memory can.
 */
static void enter_memory(struct simhca_worker *worker, const struct simhca_efa *efa)
{
	simhca_guard_narrow(&worker->guard, efa->context->id, efa->context->id);
	simhca_mover_is_in(&worker->mover, efa->context->id);
}

static void leave_memory(struct simhca_worker *worker)
{
	simhca_mover_is_in(&worker->mover, 0);
	simhca_guard_widen(&worker->guard);
}

static void note_watch(struct efa_watch *watch, uint64_t address, enum efa_watch_state state)
{
	if (watch->state != EFA_WATCH_NONE && watch->address == address)
		watch->state = state;
}

/* Sets what is known of the page at that address, whichever object's. */
static void note(struct simhca_efa *efa, uint64_t address, enum efa_watch_state state)
{
	pthread_mutex_lock(&efa->watch_lock);
	for (uint32_t i = 0; i < atomic_load(&efa->qps.count); i++) {
		struct efa_qp *qp = atomic_load(&efa->qps.items[i]);

		if (qp)
			note_watch(&qp->watch, address, state);
	}
	for (uint32_t i = 0; i < atomic_load(&efa->notified_cqs.count); i++) {
		struct efa_cq *cq = atomic_load(&efa->notified_cqs.items[i]);

		if (cq)
			note_watch(&cq->watch, address, state);
	}
	pthread_mutex_unlock(&efa->watch_lock);
}

void efa_doorbells_open(struct simhca_worker *worker, struct simhca_efa *efa)
{
	struct uffd_msg messages[MESSAGES];
	int fd = atomic_load(&efa->userfaultfd);
	ssize_t got;

	if (fd < 0)
		return;
	got = simhca_userfaultfd_read(fd, messages, sizeof(messages));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(messages[0]); i++) {
		uint64_t address = messages[i].arg.pagefault.address & ~(uint64_t)(EFA_PAGE - 1);

		if (messages[i].event != UFFD_EVENT_PAGEFAULT)
			continue;
		note(efa, address, EFA_WATCH_OPEN);
		enter_memory(worker, efa);
		protect(fd, address, false);
		leave_memory(worker);
	}
}

/* Of a page that is not armed. False: it cannot be. */
static bool arm(struct simhca_worker *worker, struct simhca_efa *efa, const struct efa_watch *watch)
{
	const int fd = atomic_load(&efa->userfaultfd);
	struct efa_watch page;
	int error = 0;

	pthread_mutex_lock(&efa->watch_lock);
	page = *watch;
	pthread_mutex_unlock(&efa->watch_lock);
	if (page.state == EFA_WATCH_NONE || page.state == EFA_WATCH_ARMED)
		return page.state == EFA_WATCH_ARMED;
	/* Before it is: the fault can come, and be noted, at once. */
	note(efa, page.address, EFA_WATCH_ARMED);
	enter_memory(worker, efa);
	if (page.state == EFA_WATCH_NEW)
		error = look_after(fd, page.address);
	if (!error)
		error = protect(fd, page.address, true);
	leave_memory(worker);
	if (error)
		note(efa, page.address, EFA_WATCH_NONE); /* it has been unmapped, or cannot be */
	return !error;
}

bool efa_doorbells_arm(struct simhca_worker *worker, struct simhca_efa *efa)
{
	bool all = true;

	for (uint32_t i = 0; i < atomic_load(&efa->qps.count); i++) {
		const struct efa_qp *qp = atomic_load(&efa->qps.items[i]);

		if (qp && qp->sq_entries)
			all &= arm(worker, efa, &qp->watch);
	}
	for (uint32_t i = 0; i < atomic_load(&efa->notified_cqs.count); i++) {
		const struct efa_cq *cq = atomic_load(&efa->notified_cqs.items[i]);

		if (cq)
			all &= arm(worker, efa, &cq->watch);
	}
	return all;
}
