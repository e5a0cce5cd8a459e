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
#define ARMED_AT_A_TIME 256u /* two system calls each; the rest in later turns */

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

/* What is known of the page that it had at that address, unless the program has told of another. */
static void note(struct simhca_efa *efa, struct efa_watch *watch, uint64_t address,
		 enum efa_watch_state state)
{
	pthread_mutex_lock(&efa->watch_lock);
	if (watch->state != EFA_WATCH_NONE && watch->address == address)
		watch->state = state;
	pthread_mutex_unlock(&efa->watch_lock);
}

static void open_watch(struct efa_watch *watch, const uint64_t *address, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (watch->state != EFA_WATCH_NONE && watch->address == address[i])
			watch->state = EFA_WATCH_OPEN;
}

/* These pages are about to be opened, whichever objects' they are: one look at all objects. */
static void note_open(struct simhca_efa *efa, const uint64_t *address, unsigned int count)
{
	pthread_mutex_lock(&efa->watch_lock);
	for (uint32_t i = 0; i < atomic_load(&efa->qps.count); i++) {
		struct efa_qp *qp = atomic_load(&efa->qps.items[i]);

		if (qp)
			open_watch(&qp->watch, address, count);
	}
	for (uint32_t i = 0; i < atomic_load(&efa->notified_cqs.count); i++) {
		struct efa_cq *cq = atomic_load(&efa->notified_cqs.items[i]);

		if (cq)
			open_watch(&cq->watch, address, count);
	}
	pthread_mutex_unlock(&efa->watch_lock);
}

bool efa_doorbells_open(struct simhca_worker *worker, struct simhca_efa *efa)
{
	struct uffd_msg messages[MESSAGES];
	uint64_t address[MESSAGES];
	int fd = atomic_load(&efa->userfaultfd);
	unsigned int count = 0;
	ssize_t got;

	if (fd < 0)
		return false;
	got = simhca_userfaultfd_read(fd, messages, sizeof(messages));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(messages[0]); i++)
		if (messages[i].event == UFFD_EVENT_PAGEFAULT)
			address[count++] =
				messages[i].arg.pagefault.address & ~(uint64_t)(EFA_PAGE - 1);
	if (!count)
		return false;
	note_open(efa, address, count);
	for (unsigned int i = 0; i < count; i++) {
		enter_memory(worker, efa);
		protect(fd, address[i], false);
		leave_memory(worker);
	}
	return true;
}

/* False: it cannot be armed. *left: how many more pages may be, which takes system calls. */
static bool arm(struct simhca_worker *worker, struct simhca_efa *efa, struct efa_watch *watch,
		unsigned int *left)
{
	const int fd = atomic_load(&efa->userfaultfd);
	struct efa_watch page;
	int error = 0;

	pthread_mutex_lock(&efa->watch_lock);
	page = *watch;
	pthread_mutex_unlock(&efa->watch_lock);
	if (page.state == EFA_WATCH_NONE || page.state == EFA_WATCH_ARMED || !*left)
		return page.state != EFA_WATCH_NONE;
	--*left;
	/* Before it is: the fault can come, and be noted, at once. */
	note(efa, watch, page.address, EFA_WATCH_ARMED);
	enter_memory(worker, efa);
	if (page.state == EFA_WATCH_NEW)
		error = look_after(fd, page.address);
	if (!error)
		error = protect(fd, page.address, true);
	leave_memory(worker);
	if (error) /* it has been unmapped, or cannot be */
		note(efa, watch, page.address, EFA_WATCH_NONE);
	return !error;
}

bool efa_doorbells_arm(struct simhca_worker *worker, struct simhca_efa *efa, bool *more)
{
	unsigned int left = ARMED_AT_A_TIME;
	bool all = true;

	for (uint32_t i = 0; i < atomic_load(&efa->qps.count); i++) {
		struct efa_qp *qp = atomic_load(&efa->qps.items[i]);

		if (qp && qp->sq_entries)
			all &= arm(worker, efa, &qp->watch, &left);
	}
	for (uint32_t i = 0; i < atomic_load(&efa->notified_cqs.count); i++) {
		struct efa_cq *cq = atomic_load(&efa->notified_cqs.items[i]);

		if (cq)
			all &= arm(worker, efa, &cq->watch, &left);
	}
	*more = !left;
	return all;
}
