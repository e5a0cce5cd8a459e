/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attached.h"
#include "command.h"
#include "dma/bus_error.h"
#include "mapped.h"

#define LOOK_EACH 256u /* steps */

static void unmap(struct shca_mapped *mapped, uint32_t place)
{
	struct simhca_step_regions *step = &mapped->step;
	uint32_t last = --step->count;

	munmap(mapped->region[place].addr, mapped->region[place].size);
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
static bool is_gone(const struct shca_qp *qp, uint32_t key, uint32_t file)
{
	const struct simhca_mpt *mpt = simhca_mpt_of(qp->ctx->dev, key);

	return !mpt || atomic_load(&mpt->state) != SIMHCA_MPT_MR ||
	       __atomic_load_n(&mpt->file, __ATOMIC_RELAXED) != file;
}

/* And those of which a missing page would be a signal that the program gets by now. */
static void drop_gone(const struct shca_qp *qp, struct shca_mapped *mapped)
{
	const bool unguarded = mapped->step.may_fail && !simhca_bus_errors_are_caught();

	for (uint32_t i = mapped->step.count; i-- > 0;)
		if (is_gone(qp, mapped->region[i].key, mapped->step.one[i].file) ||
		    (unguarded && mapped->region[i].may_fail))
			unmap(mapped, i);
}

void shca_mapped_look(const struct shca_qp *qp, struct shca_mapped *mapped)
{
	if (!mapped->step.count || ++mapped->steps % LOOK_EACH)
		return;
	drop_gone(qp, mapped);
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
static bool map(struct shca_mapped *mapped, uint32_t key,
		const struct simhca_map_region_reply *reply, int fd)
{
	const int prot = PROT_READ | (reply->access & SIMHCA_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	const uint64_t page = page_size(fd), lead = page ? reply->offset % page : 0;
	uint64_t size = lead + reply->length;
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
	if (mapped->step.count == SIMHCA_STEP_REGIONS)
		unmap(mapped, mapped->oldest++ % SIMHCA_STEP_REGIONS);
	place = mapped->step.count++;
	mapped->step.one[place].file = reply->file;
	mapped->step.one[place].base = addr + lead;
	mapped->region[place].key = key;
	mapped->region[place].addr = addr;
	mapped->region[place].size = size;
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
	drop_gone(qp, mapped);
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
		bool done = map(mapped, req.key, &reply, fd);

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
