/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "core/device.h"
#include "dma/file_kind.h"
#include "pager.h"
#include "watch.h"

struct simhca_watch *simhca_watch_create(struct simhca_device *device, struct simhca_mm *mm,
					 uint64_t addr, uint64_t length, int *fd,
					 struct simhca_why *why)
{
	struct simhca_pager *pager = simhca_pager_of(device->fabric, mm);
	struct simhca_watch *watch = calloc(1, sizeof(*watch));
	int file = pager ? atomic_load(&pager->userfaultfd) : -1;

	/* What it names may be given up for another file: the copy is looked at, and stays. */
	*fd = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
	if (!watch || *fd < 0 || simhca_file_kind(*fd) != SIMHCA_FILE_USERFAULTFD) {
		if (*fd >= 0)
			close(*fd);
		free(watch);
		simhca_why(why, ENOENT, "no events tell what leaves the process's memory");
		return NULL;
	}
	watch->pager = pager;
	watch->addr = addr;
	watch->length = length;
	pthread_mutex_lock(&pager->lock);
	DL_APPEND(pager->watches, watch);
	pthread_mutex_unlock(&pager->lock);
	return watch;
}

void simhca_watch_destroy(struct simhca_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->pager->lock);
	DL_DELETE(watch->pager->watches, watch);
	pthread_mutex_unlock(&watch->pager->lock);
	free(watch);
}

void simhca_watch_drop(struct simhca_watch *watch, uint64_t start, uint64_t end)
{
	uint32_t ranges = atomic_load_explicit(&watch->ranges, memory_order_relaxed);

	if (start < watch->addr)
		start = watch->addr;
	if (end > watch->addr + watch->length)
		end = watch->addr + watch->length;
	if (start >= end || ranges == SIMHCA_WATCH_RANGES)
		return;
	watch->left[ranges].start = start;
	watch->left[ranges].end = end;
	atomic_store_explicit(&watch->ranges, ranges + 1, memory_order_release);
}
