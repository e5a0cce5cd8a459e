/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attached.h"
#include "command.h"
#include "dma/bus_error.h"
#include "mapped.h"

#define LOOK_EACH 256u /* steps */

/*
 * What one QP has mapped. A region that is gone no step goes to: the device has waited for those under way. So any
 * thread can give its memory back, whatever the QP's does; the place of the mapping stays until that one looks.
 */
struct shca_mapping {
	struct shca_chain link;
	uint32_t process; /* shca_process() of who mapped it */
	const struct shca_context *ctx;
	uint32_t key, file; /* the region */
	char *addr;
	uint64_t size;
	bool is_empty; /* its memory was given back */
};

static struct shca_mutex mappings_lock;
static struct shca_chain mappings;

/* A child has its parent's mappings, and nothing to do with them. */
static void lock_mappings(void)
{
	if (shca_mutex_lock(&mappings_lock))
		atomic_store(&mappings.next, NULL);
}

static struct shca_mapping *add_mapping(const struct shca_mapping *what)
{
	struct shca_mapping *mapping = malloc(sizeof(*mapping));

	if (!mapping)
		return NULL;
	*mapping = *what;
	mapping->process = shca_process();
	lock_mappings();
	shca_chain_add(&mappings, &mapping->link);
	shca_mutex_unlock(&mappings_lock);
	return mapping;
}

static void remove_mapping(struct shca_mapping *mapping)
{
	lock_mappings();
	if (mapping->process == shca_process())
		shca_chain_remove(&mapping->link);
	shca_mutex_unlock(&mappings_lock);
	munmap(mapping->addr, mapping->size);
	free(mapping);
}

/* For good: a region that is only out of use for a moment has its file all the same, and no other ever gets that number. */
static bool has_left_file(const struct shca_mapping *mapping)
{
	const struct simhca_mpt *mpt = simhca_mpt_of(mapping->ctx->dev, mapping->key);

	return !mpt || __atomic_load_n(&mpt->file, __ATOMIC_ACQUIRE) != mapping->file;
}

void shca_mapped_forget(const struct shca_context *ctx)
{
	struct shca_chain *link, *next;

	lock_mappings();
	for (link = shca_chain_next(&mappings); link; link = next) {
		struct shca_mapping *mapping = SHCA_CONTAINER(struct shca_mapping, link, link);

		next = shca_chain_next(link);
		if (mapping->ctx != ctx)
			continue;
		shca_chain_remove(link);
		munmap(mapping->addr, mapping->size);
		free(mapping);
	}
	shca_mutex_unlock(&mappings_lock);
}

void shca_mapped_give_back(void)
{
	struct shca_chain *link;

	if (!shca_chain_next(&mappings))
		return;
	lock_mappings();
	for (link = shca_chain_next(&mappings); link; link = shca_chain_next(link)) {
		struct shca_mapping *mapping = SHCA_CONTAINER(struct shca_mapping, link, link);

		if (!mapping->is_empty && has_left_file(mapping))
			mapping->is_empty =
				mmap(mapping->addr, mapping->size, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				     0) != MAP_FAILED;
	}
	shca_mutex_unlock(&mappings_lock);
}

static void unmap(struct shca_mapped *mapped, uint32_t place)
{
	struct simhca_step_regions *step = &mapped->step;
	uint32_t last = --step->count;

	remove_mapping(mapped->region[place].mapping);
	step->one[place] = step->one[last];
	mapped->region[place] = mapped->region[last];
	step->may_fail = false;
	for (uint32_t i = 0; i < step->count; i++)
		step->may_fail |= mapped->region[i].may_fail;
}

void shca_mapped_end(struct shca_mapped *mapped)
{
	while (mapped->step.count)
		unmap(mapped, mapped->step.count - 1);
}

/* Whether a region is no more what it was. The device may change the entry meanwhile: no harm is done. */
static bool is_gone(const struct shca_mapping *mapping)
{
	const struct simhca_mpt *mpt = simhca_mpt_of(mapping->ctx->dev, mapping->key);

	return has_left_file(mapping) || atomic_load(&mpt->state) != SIMHCA_MPT_MR;
}

/* And those of which a missing page would be a signal that the program gets by now. */
static void drop_gone(struct shca_mapped *mapped)
{
	const bool unguarded = mapped->step.may_fail && !simhca_bus_errors_are_caught();

	for (uint32_t i = mapped->step.count; i-- > 0;)
		if (is_gone(mapped->region[i].mapping) || (unguarded && mapped->region[i].may_fail))
			unmap(mapped, i);
}

void shca_mapped_look(struct shca_mapped *mapped)
{
	if (!mapped->step.count || ++mapped->steps % LOOK_EACH)
		return;
	drop_gone(mapped);
}

/* Bytes of its pages, which hugetlbfs tells in this way; 0: that is not known. */
static uint64_t page_size(int fd)
{
	const uint64_t least = (uint64_t)sysconf(_SC_PAGESIZE);
	struct stat file;

	if (fstat(fd, &file))
		return 0;
	return (uint64_t)file.st_blksize > least ? (uint64_t)file.st_blksize : least;
}

/*
 * Of a program that has locked all that it maps (mlockall(2)) the kernel would allocate each page of the file, and fail
 * where there is none. So nothing of it can be touched before it is unlocked.
 */
static void *map_unlocked(int fd, uint64_t offset, uint64_t size, int prot)
{
	void *addr = shca_map_file(fd, offset, size, PROT_NONE);

	if (addr == MAP_FAILED)
		return addr;
	munlock(addr, size);
	if (!mprotect(addr, size, prot))
		return addr;
	munmap(addr, size);
	return MAP_FAILED;
}

/* Only what is registered, in whole pages. False: it cannot be mapped. */
static bool map(const struct shca_qp *qp, struct shca_mapped *mapped, uint32_t key,
		const struct simhca_map_region_reply *reply, int fd)
{
	const int prot = PROT_READ | (reply->access & SIMHCA_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	const uint64_t page = page_size(fd), lead = page ? reply->offset % page : 0;
	uint64_t size = lead + reply->length;
	struct shca_mapping *mapping;
	uint32_t place;
	char *addr;

	if (!page || size < reply->length || size + page < size ||
	    (reply->may_fail && !simhca_bus_errors_are_caught()))
		return false;
	size = (size + page - 1) / page * page;
	addr = map_unlocked(fd, reply->offset - lead, size, prot);
	if (addr == MAP_FAILED)
		return false;
	/* It is another program's: it is of no use in a dump of this one. */
	madvise(addr, size, MADV_DONTDUMP);
	mapping = add_mapping(&(struct shca_mapping){
		.ctx = qp->ctx, .key = key, .file = reply->file, .addr = addr, .size = size });
	if (!mapping) {
		munmap(addr, size);
		return false;
	}
	/* It may have gone before it was in the list. */
	if (has_left_file(mapping)) {
		remove_mapping(mapping);
		return false;
	}
	if (mapped->step.count == SIMHCA_STEP_REGIONS)
		unmap(mapped, mapped->oldest++ % SIMHCA_STEP_REGIONS);
	place = mapped->step.count++;
	mapped->step.one[place].file = reply->file;
	mapped->step.one[place].base = addr + lead;
	mapped->region[place].mapping = mapping;
	mapped->region[place].may_fail = reply->may_fail;
	mapped->step.may_fail |= reply->may_fail;
	return true;
}

void shca_mapped_want(struct shca_qp *qp, struct shca_mapped *mapped, const struct simhca_av *av,
		      uint32_t dest_qpn)
{
	struct simhca_map_region_req req = { .qp = qp->vqp.qp.handle,
					     .dest_qpn = dest_qpn,
					     .key = mapped->step.wanted.key,
					     .own = mapped->step.wanted.own };
	struct simhca_map_region_reply reply;
	bool replaces;
	int error, fd;

	mapped->step.wanted.key = 0;
	if ((mapped->next_try && --mapped->next_try))
		return;
	if (av)
		req.av = *av;
	drop_gone(mapped);
	replaces = mapped->step.count == SIMHCA_STEP_REGIONS;
	error = shca_execute(qp->ctx, &(struct shca_command){
					      .command = SIMHCA_CMD_MAP_REGION,
					      .req = &req,
					      .req_size = sizeof(req),
					      .reply = &reply,
					      .reply_size = sizeof(reply),
					      .reply_fds = &fd,
					      .num_reply_fds = 1,
				      });
	if (!error) {
		bool done = map(qp, mapped, req.key, &reply, fd);

		simhca_call_close(fd);
		if (done && !replaces) {
			mapped->tries = mapped->next_try = 0;
			return;
		}
	}
	/* A region that has gone meanwhile says nothing of the next one. */
	if (error == ENOENT)
		return;
	/* In vain, or there are more regions than places: that is not to cost a command each time. */
	if (!mapped->tries)
		mapped->tries = SHCA_FIRST_TRY;
	else if (mapped->tries < SHCA_LAST_TRY)
		mapped->tries *= 2;
	mapped->next_try = mapped->tries;
}
