/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pagers: one for each process with on-demand regions. Its userfaultfd tells which pages the
 * program drops. Such an event holds up the program's own system call until it was read, so the
 * thread that reads them (simhca_pagers_run) does nothing else, and waits for nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "dma/dma.h"
#include "dma/file_kind.h"
#include "line.h"
#include "odp.h"
#include "page_map.h"
#include "pager.h"
#include "simhca-device.h"
#include "watch.h"

#define EVENTS 16
#define STOP 0u			  /* number of the eventfd that ends the thread */
#define CHUNK (UINT64_C(1) << 21) /* what is registered around a page: a huge page */

/* ------------------------------------------------------------------------------- life */

int simhca_pagers_init(struct simhca_fabric *fabric)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = STOP };

	fabric->faults = simhca_faults_create();
	fabric->pager_epoll = epoll_create1(EPOLL_CLOEXEC);
	fabric->pager_stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	simhca_mutex_init(&fabric->pager_lock, SIMHCA_LOCK_PAGERS);
	if (fabric->faults && fabric->pager_epoll >= 0 && fabric->pager_stop >= 0 &&
	    !epoll_ctl(fabric->pager_epoll, EPOLL_CTL_ADD, fabric->pager_stop, &event))
		return 0;
	simhca_pagers_end(fabric);
	return -1;
}

void simhca_pagers_end(struct simhca_fabric *fabric)
{
	if (fabric->pager_epoll >= 0)
		close(fabric->pager_epoll);
	if (fabric->pager_stop >= 0)
		close(fabric->pager_stop);
	pthread_mutex_destroy(&fabric->pager_lock);
	if (fabric->faults)
		simhca_faults_destroy(fabric->faults);
}

struct simhca_pager *simhca_pager_of(struct simhca_fabric *fabric, struct simhca_mm *mm)
{
	struct simhca_pager *pager = mm->pager;

	if (pager)
		return pager;
	pthread_mutex_lock(&fabric->pager_lock);
	/* pid 0 is a process that cannot be told from others. */
	for (pager = mm->pid ? fabric->pagers : NULL; pager; pager = pager->next)
		if (pager->pid == mm->pid && !pager->gone)
			break;
	if (!pager) {
		pager = calloc(1, sizeof(*pager));
		if (pager) {
			pager->fabric = fabric;
			pager->pid = mm->pid;
			pager->program = mm->program;
			pager->number = ++fabric->next_pager;
			atomic_init(&pager->userfaultfd, -1);
			simhca_mutex_init(&pager->lock, SIMHCA_LOCK_PAGER);
			pager->next = fabric->pagers;
			fabric->pagers = pager;
		}
	}
	if (pager)
		pager->users++;
	pthread_mutex_unlock(&fabric->pager_lock);
	mm->pager = pager;
	return pager;
}

/* Under pager_lock. */
static void put(struct simhca_pager *pager)
{
	struct simhca_pager **link = &pager->fabric->pagers;

	if (--pager->users)
		return;
	while (*link != pager)
		link = &(*link)->next;
	*link = pager->next;
	/* Which lets go of whoever waits for an event to be read. */
	simhca_release(pager->fabric, NULL, 0, pager->userfaultfd);
	pthread_mutex_destroy(&pager->lock);
	free(pager);
}

void simhca_pager_put(struct simhca_pager *pager)
{
	struct simhca_fabric *fabric;

	if (!pager)
		return;
	fabric = pager->fabric;
	pthread_mutex_lock(&fabric->pager_lock);
	put(pager);
	pthread_mutex_unlock(&fabric->pager_lock);
}

void simhca_mm_gone(struct simhca_mm *mm)
{
	struct simhca_pager *pager = mm->pager;

	atomic_store_explicit(&mm->gone, true, memory_order_release);
	simhca_agent_abort(mm->agent);
	if (!pager)
		return;
	pthread_mutex_lock(&pager->fabric->pager_lock);
	pager->gone = true;
	pthread_mutex_unlock(&pager->fabric->pager_lock);
}

/* ----------------------------------------------------------------------- registration */

int simhca_mm_set_userfaultfd(struct simhca_context *context, struct simhca_mm *mm, int fd,
			      struct simhca_why *why)
{
	struct simhca_fabric *fabric = context->device->fabric;
	struct simhca_pager *pager = simhca_pager_of(fabric, mm);
	struct epoll_event event = { .events = EPOLLIN };

	if (!pager || simhca_file_kind(fd) != SIMHCA_FILE_USERFAULTFD) {
		simhca_release(fabric, NULL, 0, fd);
		return pager ? simhca_why(why, EINVAL, "the descriptor is no userfaultfd")
			     : simhca_why(why, ENOMEM, "out of memory");
	}
	pthread_mutex_lock(&fabric->pager_lock);
	event.data.u64 = pager->number;
	if (pager->userfaultfd < 0 && !context->device->config.odp_checks &&
	    !epoll_ctl(fabric->pager_epoll, EPOLL_CTL_ADD, fd, &event)) {
		pager->userfaultfd = fd;
		fd = -1;
	}
	pthread_mutex_unlock(&fabric->pager_lock);
	simhca_release(fabric, NULL, 0, fd); /* there is one, or none is wanted */
	return 0;
}

static bool register_range(int fd, uint64_t start, uint64_t end)
{
	struct uffdio_register range = {
		.range = { .start = start, .len = end - start },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return start < end && !ioctl(fd, UFFDIO_REGISTER, &range);
}

bool simhca_pager_watch(struct simhca_pager *pager, const struct simhca_odp *odp, uint64_t start,
			uint64_t end)
{
	uint64_t chunk = start & ~(CHUNK - 1), chunk_end = (end + CHUNK - 1) & ~(CHUNK - 1);
	uint64_t last = odp->addr + odp->length - 1;
	uint64_t region_end = (last | (SIMHCA_PAGE_BYTES - 1)) + 1;
	int fd = pager->userfaultfd;

	if (fd < 0)
		return false;
	/*
	 * Anew at each fault, for what is mapped there may have changed. More than the pages at
	 * hand, so that a mapping is not cut into many; the whole chunk for huge pages; and if
	 * something in the chunk cannot be registered, the pages alone.
	 */
	return register_range(fd, chunk > odp->base ? chunk : odp->base,
			      region_end && chunk_end > region_end ? region_end : chunk_end) ||
	       register_range(fd, chunk, chunk_end) || register_range(fd, start, end);
}

/* ----------------------------------------------------------------------------- events */

/* Under the lock, as these: */
static void invalidate(struct simhca_pager *pager, uint64_t start, uint64_t end)
{
	struct simhca_odp *odp;

	DL_FOREACH (pager->regions, odp)
		simhca_odp_invalidate(odp, start, end);
}

/* It was unmapped, moved or dropped. */
static void has_left(struct simhca_pager *pager, uint64_t start, uint64_t end)
{
	struct simhca_watch *watch;

	DL_FOREACH (pager->watches, watch)
		simhca_watch_drop(watch, start, end);
	invalidate(pager, start, end);
}

static void on_event(struct simhca_pager *pager, const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_REMOVE:
	case UFFD_EVENT_UNMAP:
		has_left(pager, msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		/* What was mapped at the other end before has had an UNMAP. */
		has_left(pager, msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len);
		break;
	case UFFD_EVENT_FORK: /* the parent's pages are copied on write */
		invalidate(pager, 0, UINT64_MAX);
		break;
	}
}

/*
 * Never waits. The client may have made its copy of the descriptor blocking, so newer kernels are
 * asked not to wait in the call itself, and older ones by the flag.
 */
ssize_t simhca_userfaultfd_read(int fd, struct uffd_msg *msg, size_t size)
{
	struct iovec iov = { .iov_base = msg, .iov_len = size };
	ssize_t got = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	if (got >= 0 || errno != EOPNOTSUPP)
		return got;
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		return -1;
	return read(fd, msg, size);
}

/*
 * An event that cannot be read, because we have no descriptor left for a fork's, say, would hold up
 * the program for good: the userfaultfd is closed. Its number stays taken, for workers use it
 * meanwhile, and names a file with which nothing can be registered. From then on the regions' pages
 * are all as unsure as if there had never been events.
 */
static void give_up(struct simhca_fabric *fabric, struct simhca_pager *pager)
{
	int fd = pager->userfaultfd, file;

	simhca_log(fabric, SIMHCA_LOG_WARNING,
		   "process %d: its userfaultfd cannot be read (%s), and is done without",
		   (int)pager->pid, strerror(errno));
	/* Should the program have kept a copy, the file would be reported on and on. */
	epoll_ctl(fabric->pager_epoll, EPOLL_CTL_DEL, fd, NULL);
	file = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* dup3() would close it here */
	dup3(fabric->pager_epoll, fd, O_CLOEXEC);
	simhca_release(fabric, NULL, 0, file);
	pthread_mutex_lock(&pager->lock);
	invalidate(pager, 0, UINT64_MAX);
	pthread_mutex_unlock(&pager->lock);
}

/*
 * Takes the events that are there, in one go under the lock: the program goes on as soon as they were
 * read, and what it registers then at the same place must not lose what was there before. Returns
 * what simhca_userfaultfd_read() does.
 */
static ssize_t take_events(struct simhca_pager *pager)
{
	struct uffd_msg msg[EVENTS];
	ssize_t got;

	pthread_mutex_lock(&pager->lock);
	got = simhca_userfaultfd_read(pager->userfaultfd, msg, sizeof(msg));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(msg[0]); i++)
		on_event(pager, &msg[i]);
	pthread_mutex_unlock(&pager->lock);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(msg[0]); i++)
		if (msg[i].event == UFFD_EVENT_FORK) /* the child's memory is none of ours */
			simhca_release(pager->fabric, NULL, 0, (int)msg[i].arg.fork.ufd);
	return got;
}

static void serve(struct simhca_fabric *fabric, uint64_t number, bool error)
{
	struct simhca_pager *pager;

	/* `users` keeps the pager while its userfaultfd is read, which is done without the lock. */
	pthread_mutex_lock(&fabric->pager_lock);
	for (pager = fabric->pagers; pager && pager->number != number; pager = pager->next)
		;
	if (pager)
		pager->users++;
	pthread_mutex_unlock(&fabric->pager_lock);
	if (!pager)
		return;
	/* The program has taken O_NONBLOCK off: poll reports errors then instead of events. */
	if (error && !(fcntl(pager->userfaultfd, F_GETFL) & O_NONBLOCK)) {
		fcntl(pager->userfaultfd, F_SETFL, O_NONBLOCK);
		simhca_pager_put(pager);
		return;
	}
	if (take_events(pager) < 0 && errno != EAGAIN && errno != EINTR)
		give_up(fabric, pager);
	simhca_pager_put(pager);
}

void simhca_pagers_run(struct simhca_fabric *fabric)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(fabric->pager_epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == STOP)
				return;
			serve(fabric, events[i].data.u64, events[i].events & EPOLLERR);
		}
	}
}

void simhca_pagers_stop(struct simhca_fabric *fabric)
{
	uint64_t one = 1;
	ssize_t ignored = write(fabric->pager_stop, &one, sizeof(one));

	(void)ignored;
}
