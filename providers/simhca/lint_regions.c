/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What lint knows of memory: the regions of this process, and who may write to them. */
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "command.h"
#include "dma/process_map.h"
#include "lint.h"
#include "say.h"

#define BUCKETS 256u
#define MOST_FILES 1000u /* registrations of which is looked what is mapped there */
/* A NIC may write to it, as the kernel sees it: reading alone is no reason to refuse. */
#define WRITES                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_MW_BIND)
#define MOST_ASKED 64 /* regions that peers may write to; of more the device is not asked */

/*
 * A region of ordinary memory. Its list is whole after each store, so that a forked child, whose
 * memory is another, can go past those of its parent.
 */
struct shca_lint_region {
	LIST_ENTRY(shca_lint_region) link;
	struct shca_context *ctx;
	uint32_t process; /* shca_process() */
	uint32_t lkey, handle, access;
	uint64_t addr, iova, length;
	bool watched;
	uint64_t from, to; /* around all that the device was asked to write here; to 0: nothing */
};

static struct shca_mutex mutex;
static LIST_HEAD(, shca_lint_region) regions[BUCKETS];
static bool unknown_writes; /* the device may have written anywhere */
static struct {
	uint32_t process;
	uint64_t bytes, regions; /* of those that a NIC would pin */
	bool reported;
} pinned;

void shca_lint_lock(void)
{
	shca_mutex_lock(&mutex);
}

void shca_lint_unlock(void)
{
	shca_mutex_unlock(&mutex);
}

static bool may_pin_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	return !syscall(SYS_capget, &header, data) && (data[0].effective & 1u << CAP_IPC_LOCK);
}

/* Under the mutex. A child has none of its parent's pages pinned, and its own count. */
static void pin(const struct shca_lint_region *region)
{
	if (pinned.process != shca_process()) {
		pinned.process = shca_process();
		pinned.bytes = pinned.regions = 0;
	}
	if (region->access & IBV_ACCESS_ON_DEMAND)
		return;
	pinned.bytes += region->length;
	pinned.regions++;
}

static void unpin(const struct shca_lint_region *region)
{
	if (region->process != shca_process() || (region->access & IBV_ACCESS_ON_DEMAND))
		return;
	pinned.bytes -= region->length;
	pinned.regions--;
}

/* Whether the kernel would refuse to pin all that is registered. */
static void look_at_limit(struct shca_context *ctx)
{
	struct rlimit limit;
	char text[160];

	if (pinned.reported || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || pinned.bytes <= limit.rlim_cur || may_pin_all())
		return;
	pinned.reported = true;
	snprintf(text, sizeof(text),
		 "%llu bytes were registered at once, in %llu region%s, and RLIMIT_MEMLOCK is %llu",
		 (unsigned long long)pinned.bytes, (unsigned long long)pinned.regions,
		 pinned.regions == 1 ? "" : "s", (unsigned long long)limit.rlim_cur);
	shca_say_lint(ctx, SIMHCA_SAY_MEMLOCK, text);
}

/* Whether a NIC, which writes to it behind the kernel's back, can have pages of the file. */
static bool can_be_pinned(const char *path)
{
	struct statfs fs;
	struct stat file;

	if (stat(path, &file) || !S_ISREG(file.st_mode) || statfs(path, &fs))
		return true; /* as far as is known: it is deleted, a memfd, or a device's */
	return fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC || fs.f_type == RAMFS_MAGIC;
}

/* path: room for PATH_MAX; false: it is the file of this mapping, which Linux refuses to pin. */
static bool look_at_mapping(const struct simhca_mapping *mapping, void *path)
{
	char link[64];
	ssize_t length = 0;

	snprintf(link, sizeof(link), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, mapping->start,
		 mapping->end);
	if (mapping->inode && mapping->writable && mapping->shared)
		length = readlink(link, path, PATH_MAX - 1);
	((char *)path)[length > 0 ? length : 0] = 0;
	if (length > 0 && !can_be_pinned(path))
		return false;
	((char *)path)[0] = 0;
	return true;
}

static void look_at_file(const struct shca_lint_region *region)
{
	static atomic_uint asked;
	char text[200], path[PATH_MAX] = "";
	int before = errno;

	if (!region->length || (region->access & IBV_ACCESS_ON_DEMAND) ||
	    !(region->access & WRITES) ||
	    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) >= MOST_FILES)
		return;
	simhca_process_mappings(0, region->addr, region->length, look_at_mapping, path);
	if (path[0]) {
		snprintf(text, sizeof(text),
			 "MR 0x%08x: its memory at 0x%" PRIx64
			 " is a shared mapping of the file %.120s",
			 region->lkey, region->addr, path);
		shca_say_lint(region->ctx, SIMHCA_SAY_FILE_MAPPING, text);
	}
	errno = before;
}

/* The kernel counts the pages that are to be pinned, and refuses none (ib_umem_get()). */
static void look_at_length(const struct shca_lint_region *region)
{
	char text[100];

	if (region->length || region->addr % (uint64_t)sysconf(_SC_PAGESIZE) ||
	    (region->access & IBV_ACCESS_ON_DEMAND))
		return;
	snprintf(text, sizeof(text),
		 "MR 0x%08x: it has 0 bytes, at 0x%" PRIx64 ", where a page begins", region->lkey,
		 region->addr);
	shca_say_lint(region->ctx, SIMHCA_SAY_EMPTY_REGION, text);
}

void shca_lint_region_remove(struct shca_mr *mr)
{
	if (!mr->lint)
		return;
	shca_lint_lock();
	LIST_REMOVE(mr->lint, link);
	unpin(mr->lint);
	shca_lint_unlock();
	free(mr->lint);
	mr->lint = NULL;
}

/* Under the keys and with the rights that it has now. */
static void insert(struct shca_lint_region *region, struct shca_mr *mr, uint32_t access)
{
	region->lkey = mr->vmr.ibv_mr.lkey;
	region->access = access;
	if (access & IBV_ACCESS_ZERO_BASED)
		region->iova = 0;
	LIST_INSERT_HEAD(&regions[region->lkey % BUCKETS], region, link);
	/* A window of it may be bound, whose rights the region does not tell. */
	unknown_writes |= !!(access & IBV_ACCESS_MW_BIND);
}

/* What was moved into a file is looked at when it is to be moved back. */
static void watch(struct shca_lint_region *region, const struct shca_mr *mr)
{
	int before = errno;

	region->watched = region->length && !(region->access & IBV_ACCESS_ON_DEMAND) && !mr->moved;
	if (region->watched)
		shca_odp_watch(region->ctx, region->handle, region->addr, region->length);
	errno = before;
}

bool shca_lint_watches(uint64_t addr, uint64_t length)
{
	const struct shca_lint_region *region;
	bool found = false;

	shca_lint_lock();
	for (uint32_t i = 0; i < BUCKETS && !found; i++)
		LIST_FOREACH(region, &regions[i], link)
	found |= region->watched && region->process == shca_process() &&
		 addr < region->addr + region->length && region->addr < addr + length;
	shca_lint_unlock();
	return found;
}

void shca_lint_region_add(struct shca_mr *mr, const struct simhca_reg_mr_req *req)
{
	struct shca_context *ctx = to_sctx(mr->vmr.ibv_mr.context);
	struct shca_lint_region *region;

	if (!ctx->lint || req->null_mr)
		return;
	region = calloc(1, sizeof(*region));
	if (!region)
		return;
	region->ctx = ctx;
	region->process = shca_process();
	region->handle = mr->vmr.ibv_mr.handle;
	region->addr = req->addr;
	region->iova = req->iova;
	region->length = req->length;
	mr->lint = region;
	shca_lint_lock();
	insert(region, mr, req->access);
	pin(region);
	look_at_limit(ctx);
	shca_lint_unlock();
	look_at_file(region);
	look_at_length(region);
	watch(region, mr);
}

void shca_lint_region_change(struct shca_mr *mr, const struct simhca_rereg_mr_req *req)
{
	struct shca_lint_region *region = mr->lint;

	if (!region)
		return;
	shca_lint_lock();
	LIST_REMOVE(region, link);
	unpin(region);
	if (req->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		region->addr = req->addr;
		region->iova = req->iova;
		region->length = req->length;
		region->from = region->to = 0;
	}
	insert(region, mr, (uint32_t)mr->vmr.access);
	pin(region);
	shca_lint_unlock();
	look_at_file(region);
	look_at_length(region);
	watch(region, mr);
}

void shca_lint_unknown_writes(struct shca_context *ctx)
{
	if (!ctx->lint)
		return;
	shca_lint_lock();
	unknown_writes = true;
	shca_lint_unlock();
}

static struct shca_lint_region *find(struct shca_context *ctx, const struct simhca_sge *sge)
{
	struct shca_lint_region *region;

	LIST_FOREACH(region, &regions[sge->lkey % BUCKETS], link)
	if (region->lkey == sge->lkey && region->ctx == ctx && region->process == shca_process())
		return sge->addr - region->iova <= region->length &&
				       sge->length <= region->length - (sge->addr - region->iova)
			       ? region
			       : NULL;
	return NULL;
}

uint64_t shca_lint_address(struct shca_context *ctx, const struct simhca_sge *sge)
{
	const struct shca_lint_region *region = sge->length ? find(ctx, sge) : NULL;

	return region ? region->addr + (sge->addr - region->iova) : 0;
}

void shca_lint_will_write(struct shca_context *ctx, const struct simhca_sge *sge, uint32_t num_sge)
{
	for (uint32_t i = 0; i < num_sge; i++) {
		struct shca_lint_region *region = find(ctx, &sge[i]);
		uint64_t addr;

		if (!sge[i].length)
			continue;
		if (!region) {
			unknown_writes = true;
			continue;
		}
		addr = region->addr + (sge[i].addr - region->iova);
		if (!region->to || addr < region->from)
			region->from = addr;
		if (addr + sge[i].length > region->to)
			region->to = addr + sge[i].length;
	}
}

/* Whether a peer has written to the region; true: it is not known. */
static bool was_written_by_peers(const struct shca_lint_region *region)
{
	struct simhca_handle req = { .handle = region->handle };
	struct simhca_query_mr_reply reply;

	return shca_call(region->ctx, SIMHCA_CMD_QUERY_MR, &req, &reply) ||
	       (reply.used & (SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_ATOMIC));
}

bool shca_lint_may_have_written(uint64_t addr, uint32_t length)
{
	const struct shca_lint_region *region;
	unsigned int asked = 0;

	for (uint32_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(region, &regions[i], link)
		{
			if (unknown_writes)
				return true;
			if (region->process != shca_process())
				continue;
			if (addr < region->to && region->from < addr + length)
				return true;
			if (!(region->access &
			      (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)))
				continue;
			/* A peer that writes to memory may have told by that what it has got. */
			if (asked++ == MOST_ASKED || was_written_by_peers(region))
				unknown_writes = true;
		}
	return unknown_writes;
}
