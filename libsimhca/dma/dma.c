/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "bus_error.h"
#include "dma.h"
#include "engine/worker.h"

#define MIN_PAGE 4096u	     /* bytes */
#define RESIDENT (64u << 20) /* bytes of a client's file that may count as our memory */

/* A place in an sgl. */
struct cursor {
	const struct simhca_sgl *sgl;
	uint32_t index;
	uint64_t offset; /* into the segment */
};

/* Of a cursor that has no segment with as much in it. */
static uint64_t take_runs(struct cursor *cursor, uint64_t limit, struct iovec *iov,
			  unsigned int *count, const struct simhca_seg **first)
{
	uint64_t total = 0;

	*count = 0;
	*first = NULL;
	while (total < limit && cursor->index < cursor->sgl->count) {
		const struct simhca_seg *seg = &cursor->sgl->seg[cursor->index];
		uint64_t left = seg->length - cursor->offset;
		uint64_t bytes = left < limit - total ? left : limit - total;

		if (bytes) {
			if (!*count)
				*first = seg;
			else if (seg->mm != (*first)->mm || seg->pinned != (*first)->pinned)
				break;
			iov[*count].iov_base = (void *)(uintptr_t)(seg->addr + cursor->offset);
			iov[*count].iov_len = bytes;
			(*count)++;
			total += bytes;
		}
		if (bytes == left) {
			cursor->index++;
			cursor->offset = 0;
		} else {
			cursor->offset += bytes;
		}
	}
	return total;
}

/*
 * Takes the next run of at most limit bytes that lies in one address space, as an iovec list,
 * and moves the cursor past it. Returns the run's length, and the first of its segments.
 */
static inline uint64_t take(struct cursor *cursor, uint64_t limit, struct iovec *iov,
			    unsigned int *count, const struct simhca_seg **first)
{
	const struct simhca_seg *seg = &cursor->sgl->seg[cursor->index];

	if (cursor->index >= cursor->sgl->count || seg->length - cursor->offset < limit)
		return take_runs(cursor, limit, iov, count, first);
	*iov = (struct iovec){ (void *)(uintptr_t)(seg->addr + cursor->offset), limit };
	*count = 1;
	*first = seg;
	cursor->offset += limit;
	return limit;
}

static int copy_own(bool write, const struct iovec *remote, unsigned int count, char *ours)
{
	for (unsigned int i = 0; i < count; i++) {
		if (write)
			memcpy(remote[i].iov_base, ours, remote[i].iov_len);
		else
			memcpy(ours, remote[i].iov_base, remote[i].iov_len);
		ours += remote[i].iov_len;
	}
	return 0;
}

/*
 * Moves a run that begins with this segment from or to memory of ours, which is one piece unless the run
 * is by_process_vm(); 0 or errno.
 */
static int move(const struct simhca_seg *seg, bool write, const struct iovec *remote,
		unsigned int count, const struct iovec *local, unsigned int locals, size_t length)
{
	struct simhca_mm *mm = seg->mm;
	void *ours = local->iov_base;

	if (simhca_mm_known_gone(mm))
		return ESRCH;
	switch (mm->kind) {
	case SIMHCA_MM_NULL:
		if (!write)
			memset(ours, 0, length);
		return 0;
	case SIMHCA_MM_OWN:
		return copy_own(write, remote, count, ours);
	case SIMHCA_MM_PROCESS_VM:
		return simhca_process_copy(mm, seg->pinned, write, remote, count, local, locals,
					   length);
	case SIMHCA_MM_AGENT:
		if (!mm->agent)
			return EPERM;
		return simhca_agent_copy(mm->agent, write, remote, count, ours, length);
	}
	return EINVAL;
}

/*
 * Pages of a file that we have touched count as ours while they are mapped here, and whoever runs
 * out of memory is ended by what counts as its own. The file keeps what is in them.
 */
static void let_go_of_pages(struct simhca_mm *mm, unsigned int count, size_t length)
{
	uint64_t touched = length + 2ull * MIN_PAGE * count;

	if (!mm->mapping || mm->kind == SIMHCA_MM_OWN)
		return;
	if (atomic_fetch_add_explicit(&mm->touched, touched, memory_order_relaxed) < RESIDENT)
		return;
	atomic_store_explicit(&mm->touched, 0, memory_order_relaxed);
	madvise(mm->mapping, mm->size, MADV_DONTNEED);
}

static int transfer(struct simhca_mover *mover, const struct simhca_seg *seg, bool write,
		    const struct iovec *remote, unsigned int count, const struct iovec *local,
		    unsigned int locals, size_t length)
{
	struct simhca_mm *mm = seg->mm;
	struct simhca_writers *there = NULL;
	bool stuck = false;
	int error;

	simhca_mover_is_in(mover, mm->context);
	let_go_of_pages(mm, count, length);
	if (write) {
		pthread_rwlock_rdlock(&mm->atomicity->lock);
		there = simhca_exclusive_write(mm->atomicity, &stuck);
	}
	error = move(seg, write, remote, count, local, locals, length);
	if (write) {
		simhca_exclusive_written(there);
		pthread_rwlock_unlock(&mm->atomicity->lock);
	}
	simhca_mover_is_in(mover, 0);
	if (stuck)
		simhca_exclusive_take_back(mm->atomicity);
	return error;
}

enum simhca_reason simhca_dma_reason(int error, enum simhca_reason otherwise)
{
	switch (error) {
	case ESRCH:
		return SIMHCA_REASON_PROCESS_GONE;
	case EPERM:
	case ENOSYS:
		return SIMHCA_REASON_MEMORY_REFUSED;
	case ETIMEDOUT:
		return SIMHCA_REASON_AGENT_TIMEOUT;
	default:
		return otherwise;
	}
}

static enum simhca_reason reason_of(int error)
{
	return simhca_dma_reason(error, SIMHCA_REASON_PAGE_NOT_MAPPED);
}

static bool by_process_vm(const struct simhca_seg *seg)
{
	return seg->mm && seg->mm->kind == SIMHCA_MM_PROCESS_VM;
}

/*
 * Moves `length` bytes between a process's memory and pieces of ours in one go, if that is what the next
 * run of the source, which iov has, and that of the target are. False: they are not.
 */
static bool move_directly(struct simhca_mover *mover, const struct simhca_seg *source,
			  const struct iovec *iov, unsigned int count, struct cursor *to,
			  uint64_t length, int *error)
{
	struct iovec target_iov[SIMHCA_SGL_SEGS];
	struct cursor ahead = *to;
	const struct simhca_seg *target = &to->sgl->seg[to->index];
	unsigned int targets;

	if (to->index >= to->sgl->count)
		return false;
	if (source->mm ? !by_process_vm(source) || target->mm : !by_process_vm(target))
		return false;
	if (take(&ahead, length, target_iov, &targets, &target) != length ||
	    (source->mm ? target->mm != NULL : !by_process_vm(target)))
		return false;
	*to = ahead;
	*error = source->mm
			 ? transfer(mover, source, false, iov, count, target_iov, targets, length)
			 : transfer(mover, target, true, target_iov, targets, iov, count, length);
	return true;
}

enum simhca_dma_result simhca_dma_copy(const struct simhca_sgl *target,
				       const struct simhca_sgl *source, uint64_t length,
				       struct simhca_mover *mover, enum simhca_reason *reason)
{
	struct cursor from = { .sgl = source }, to = { .sgl = target };
	struct iovec iov[SIMHCA_SGL_SEGS];
	const struct simhca_seg *seg;
	unsigned int count;

	while (length) {
		uint64_t want = length < SIMHCA_DMA_SCRATCH ? length : SIMHCA_DMA_SCRATCH;
		uint64_t got = take(&from, want, iov, &count, &seg);
		struct iovec data = { .iov_base = mover->scratch, .iov_len = got };
		int error = 0;

		if (!got) {
			*reason = SIMHCA_REASON_PAGE_NOT_MAPPED;
			return SIMHCA_DMA_SOURCE;
		}
		length -= got;
		if (move_directly(mover, seg, iov, count, &to, got, &error)) {
			if (!error)
				continue;
			*reason = reason_of(error);
			return seg->mm ? SIMHCA_DMA_SOURCE : SIMHCA_DMA_TARGET;
		}
		if (!seg->mm && count == 1) {
			data = iov[0]; /* the device's own copy: no need for another */
		} else if (!seg->mm) {
			copy_own(false, iov, count, data.iov_base);
		} else {
			error = transfer(mover, seg, false, iov, count, &data, 1, got);
			if (error) {
				*reason = reason_of(error);
				return SIMHCA_DMA_SOURCE;
			}
		}
		while (got) {
			data.iov_len = take(&to, got, iov, &count, &seg);
			if (!data.iov_len) {
				*reason = SIMHCA_REASON_PAGE_NOT_MAPPED;
				return SIMHCA_DMA_TARGET;
			}
			error = seg->mm ? transfer(mover, seg, true, iov, count, &data, 1,
						   data.iov_len)
					: copy_own(true, iov, count, data.iov_base);
			if (error) {
				*reason = reason_of(error);
				return SIMHCA_DMA_TARGET;
			}
			got -= data.iov_len;
			data.iov_base = (char *)data.iov_base + data.iov_len;
		}
	}
	return SIMHCA_DMA_OK;
}

/* Under the lock, and when nobody else is at work there; 0 or errno. */
static int change(const struct simhca_seg *seg, const struct simhca_atomic_op *op, uint64_t *old)
{
	struct iovec remote = { (void *)(uintptr_t)seg->addr, sizeof(*old) };
	struct iovec before = { old, sizeof(*old) }, after;
	uint64_t value;
	int error;

	if (simhca_dma_is_one_instruction(seg)) {
		_Atomic uint64_t *at = (_Atomic uint64_t *)(uintptr_t)seg->addr;

		return simhca_guarded_atomic(seg->mm->may_fail, op, at, old) ? 0 : EFAULT;
	}
	error = op->store ? 0 : move(seg, false, &remote, 1, &before, 1, sizeof(*old));
	if (error || !simhca_atomic_value(op, *old, &value))
		return error;
	after = (struct iovec){ &value, sizeof(value) };
	return move(seg, true, &remote, 1, &after, 1, sizeof(value));
}

bool simhca_dma_atomic(struct simhca_mover *mover, const struct simhca_seg *seg,
		       const struct simhca_atomic_op *op, uint64_t *old, enum simhca_reason *reason)
{
	struct simhca_atomicity *atomicity = seg->mm->atomicity;
	bool stuck, alone;
	int error = 0;

	simhca_mover_is_in(mover, seg->mm->context);
	pthread_rwlock_wrlock(&atomicity->lock);
	alone = simhca_exclusive_atomic(atomicity, &stuck);
	if (alone) {
		error = change(seg, op, old);
		simhca_exclusive_done(atomicity);
	}
	pthread_rwlock_unlock(&atomicity->lock);
	simhca_mover_is_in(mover, 0);
	if (stuck)
		simhca_exclusive_take_back(atomicity);
	*reason = error ? reason_of(error) : SIMHCA_REASON_NONE;
	return alone && !error;
}

/* file is NULL for a process. */
static struct simhca_atomicity *get_atomicity(struct simhca_fabric *fabric, pid_t pid,
					      const struct stat *file)
{
	struct simhca_atomicity **list = &fabric->atomicities;
	dev_t dev = file ? file->st_dev : 0;
	ino_t ino = file ? file->st_ino : 0;
	struct simhca_atomicity *atomicity;

	/* Programs that wrote to a process keep what they shared with it, and pids are used again. */
	for (atomicity = *list; atomicity; atomicity = atomicity->next)
		if (atomicity->pid == pid && atomicity->dev == dev && atomicity->ino == ino &&
		    atomic_load(&atomicity->alive))
			break;
	if (!atomicity) {
		atomicity = calloc(1, sizeof(*atomicity));
		if (!atomicity)
			return NULL;
		atomicity->fabric = fabric;
		atomicity->pid = pid;
		atomicity->dev = dev;
		atomicity->ino = ino;
		atomicity->slot = fabric->next_mm_slot++ % SIMHCA_MM_SLOTS;
		simhca_rwlock_init(&atomicity->lock, NULL, SIMHCA_LOCK_ATOMICITY);
		simhca_exclusive_init(&atomicity->exclusive);
		atomicity->next = *list;
		*list = atomicity;
	}
	atomicity->users++;
	atomic_fetch_add(&atomicity->alive, 1);
	return atomicity;
}

void simhca_mm_ended(struct simhca_mm *mm)
{
	if (!atomic_exchange(&mm->ended, true))
		atomic_fetch_sub(&mm->atomicity->alive, 1);
}

void simhca_atomicity_put(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity)
{
	struct simhca_atomicity **list = &fabric->atomicities;

	if (--atomicity->users)
		return;
	while (*list != atomicity)
		list = &(*list)->next;
	*list = atomicity->next;
	simhca_exclusive_end(atomicity);
	pthread_rwlock_destroy(&atomicity->lock);
	free(atomicity);
}

static struct simhca_mm *create_mm(struct simhca_fabric *fabric, pid_t pid, const struct stat *file)
{
	struct simhca_mm *mm = calloc(1, sizeof(*mm));

	if (!mm)
		return NULL;
	mm->atomicity = get_atomicity(fabric, file ? 0 : pid, file);
	if (!mm->atomicity) {
		free(mm);
		return NULL;
	}
	mm->pid = pid;
	mm->pagemap = mm->mem = -1;
	mm->kind = pid == getpid() ? SIMHCA_MM_OWN : SIMHCA_MM_PROCESS_VM;
	atomic_init(&mm->gone, false);
	return mm;
}

struct simhca_mm *simhca_mm_create(struct simhca_fabric *fabric, pid_t pid)
{
	return create_mm(fabric, pid, NULL);
}

struct simhca_mm *simhca_mm_create_file(struct simhca_fabric *fabric, int fd, uint64_t offset,
					uint64_t length, bool writable, bool ours)
{
	uint64_t unit, start, end;
	struct simhca_mm *mm;
	struct stat file;

	if (fstat(fd, &file))
		return NULL;
	/* hugetlbfs maps whole pages of its own size, and says so here. */
	unit = (uint64_t)file.st_blksize;
	if (unit < MIN_PAGE)
		unit = MIN_PAGE;
	start = offset / unit * unit;
	end = (offset + length + unit - 1) / unit * unit;
	mm = create_mm(fabric, getpid(), &file);
	if (!mm) {
		errno = ENOMEM;
		return NULL;
	}
	mm->size = end - start;
	mm->mapping = mmap(NULL, mm->size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
			   MAP_SHARED, fd, (off_t)start);
	if (mm->mapping == MAP_FAILED) {
		int error = errno;

		mm->size = 0;
		simhca_mm_destroy(fabric, mm);
		errno = error;
		return NULL;
	}
	mm->kind = ours ? SIMHCA_MM_OWN : SIMHCA_MM_PROCESS_VM;
	mm->by_instructions = ours && writable;
	mm->base = (uintptr_t)mm->mapping + (offset - start);
	return mm;
}

void simhca_mm_destroy(struct simhca_fabric *fabric, struct simhca_mm *mm)
{
	if (!mm)
		return;
	simhca_agent_destroy(fabric, mm->agent);
	if (mm->pagemap >= 0)
		close(mm->pagemap);
	if (mm->mem >= 0)
		close(mm->mem);
	simhca_mm_ended(mm);
	simhca_atomicity_put(fabric, mm->atomicity);
	if (mm->size)
		simhca_release(fabric, mm->mapping, mm->size, -1);
	free(mm);
}
