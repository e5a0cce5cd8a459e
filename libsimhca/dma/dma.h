/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The one seam through which the device touches memory that is not its own.
 *
 *   mm    an address space: how its bytes are reached
 *   seg   a run of bytes in an mm
 *   sgl   the runs that make up a message, or a slice of one, in order
 *
 * simhca_dma_copy() moves bytes from one sgl to another whatever the two mms are. A page that
 * is not there, or not with this right, is an error with a reason, never a signal. Bytes
 * before the bad one may have been written, as on a wire; the caller reports the error.
 */
#ifndef LIBSIMHCA_DMA_H
#define LIBSIMHCA_DMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "exclusive.h"
#include "queue/atomic_op.h"
#include "simhca-abi.h"

/* The ways to reach an address space. */
enum simhca_mm_kind {
	SIMHCA_MM_OWN,	      /* our own memory: plain copies */
	SIMHCA_MM_PROCESS_VM, /* another process, where the kernel lets us (process_memory.c) */
	SIMHCA_MM_AGENT,      /* another process, through its agent (dma_agent.c) */
	SIMHCA_MM_NULL,	      /* the null MR: reads as zero, swallows what is written */
};

struct simhca_agent;
struct simhca_engine;
struct simhca_fabric;
struct simhca_mover;
struct simhca_odp;
struct simhca_pager;

/*
 * What makes atomics atomic: one for each process, whatever number of contexts it has, and one for
 * each file that regions lie in. Device writes hold the lock shared, atomics exclusively. It is
 * held while its process's memory is touched, so whoever waits for it waits for that process.
 */
struct simhca_atomicity {
	struct simhca_fabric *fabric;
	pid_t pid; /* 0: of the file that follows */
	dev_t dev;
	ino_t ino;
	uint32_t users;
	_Atomic uint32_t alive; /* mms whose process has not ended, as far as is known */
	uint32_t slot;		/* SIMHCA_MM_SLOT() */
	pthread_rwlock_t lock;
	struct simhca_exclusive exclusive;
	struct simhca_atomicity *next; /* in the fabric's list; control functions only */
};

struct simhca_mm {
	enum simhca_mm_kind kind;
	pid_t pid;
	uint64_t program; /* its context's */
	uint32_t number;  /* of a process: as struct simhca_mpt has it, not 0; of a file: 0 */
	uint32_t context; /* its id, if accesses can wait for its client */
	uint64_t base;	  /* added to addresses; 0 but for mapped files */
	uint64_t size;	  /* bytes mapped; 0: nothing to unmap */
	void *mapping;
	/*
	 * A mapping in the daemon that it can write to, of a file that programs map as well: an atomic is one
	 * instruction, for all of them. may_fail: a page may be missing, which is a signal (bus_error.h).
	 * Constant once the mm is used.
	 */
	bool by_instructions;
	bool may_fail;
	_Atomic uint64_t
		touched;   /* bytes of the mapping's pages, about, since they were let go of */
	atomic_bool gone;  /* the process has ended, or its context */
	atomic_bool ended; /* the process */
	uint32_t regions;  /* in it; control functions only */
	int pagemap;	   /* its /proc/PID/pagemap; -1: unknown. Constant once the mm is used */
	int mem;	   /* its /proc/PID/mem, likewise */
	struct simhca_engine *engine; /* AGENT: the engine that may wait for it */
	struct simhca_agent *agent;
	struct simhca_atomicity *atomicity;
	struct simhca_pager *pager; /* once it has an on-demand region */
	struct simhca_mm *next;	    /* in its context's list */
};

struct simhca_seg {
	struct simhca_mm *mm;
	uint64_t addr;
	uint64_t length;	/* bytes */
	struct simhca_odp *odp; /* the on-demand region that it lies in */
	bool pinned;		/* as if: what mprotect() did since registration does not count */
};

/* Most bytes of a message that one sgl describes, and one step moves. */
#define SIMHCA_LINK_SLICE (256u * 1024u)
/*
 * An SGE is one run, or with a page list one for each page that it touches, which is at most two
 * more than lie in it whole.
 */
#define SIMHCA_SGL_SEGS (2 * SIMHCA_MAX_SGE + (SIMHCA_LINK_SLICE >> SIMHCA_FAST_REG_MIN_PAGE_SHIFT))

/* Large: an initializer would clear all of it. */
struct simhca_sgl {
	uint32_t count;
	struct simhca_seg seg[SIMHCA_SGL_SEGS];
};

/* Which end of a copy failed. */
enum simhca_dma_result { SIMHCA_DMA_OK, SIMHCA_DMA_SOURCE, SIMHCA_DMA_TARGET };

/* What an errno says of an access to a process's memory; otherwise: if it is of the pages. */
enum simhca_reason simhca_dma_reason(int error, enum simhca_reason otherwise);

/*
 * Copies length bytes; both lists hold at least that many. On failure *reason says why.
 */
enum simhca_dma_result simhca_dma_copy(const struct simhca_sgl *target,
				       const struct simhca_sgl *source, uint64_t length,
				       struct simhca_mover *mover, enum simhca_reason *reason);

/*
 * Whether an atomic on the 8 bytes that seg begins with may be tried; otherwise it is to be asked again.
 * One instruction needs nobody to keep off: programs that have the file mapped have such as well.
 */
static inline bool simhca_dma_is_one_instruction(const struct simhca_seg *seg)
{
	return seg->mm->by_instructions && !(seg->addr & 7);
}

static inline bool simhca_dma_may_try_atomic(const struct simhca_seg *seg)
{
	return simhca_dma_is_one_instruction(seg) || simhca_is_exclusive(seg->mm->atomicity);
}

/*
 * These 8 bytes, changed in one go as seen by all device accesses; *old is what was there. False with
 * no reason: a program is at work there, and it is to be tried again.
 */
bool simhca_dma_atomic(struct simhca_mover *mover, const struct simhca_seg *seg,
		       const struct simhca_atomic_op *op, uint64_t *old,
		       enum simhca_reason *reason);

/* Its process is gone, as far as has been seen. */
static inline bool simhca_mm_known_gone(const struct simhca_mm *mm)
{
	return atomic_load_explicit(&mm->gone, memory_order_acquire);
}
/* process_memory.c: whether its process still is there; a system call. */
bool simhca_mm_is_there(struct simhca_mm *mm);
/* Asks the kernel; whoever waits to be told may hear of it later. */
bool simhca_process_has_ended(pid_t pid);
/*
 * Moves `length` bytes, which both lists hold, between memory of ours and that process's, never another's;
 * 0 or errno.
 */
int simhca_process_copy(struct simhca_mm *mm, bool pinned, bool write, const struct iovec *remote,
			unsigned int count, const struct iovec *local, unsigned int locals,
			size_t length);

struct simhca_mm *simhca_mm_create(struct simhca_fabric *fabric, pid_t pid);
/*
 * Bytes [offset, offset + length) of a file, mapped into this process, as addresses from 0. ours:
 * nobody can shrink it, and plain copies are safe. A client's file is reached by system calls on
 * our own address space: a page that has gone is an errno there and would be a signal otherwise.
 * length is not 0. NULL and errno.
 */
struct simhca_mm *simhca_mm_create_file(struct simhca_fabric *fabric, int fd, uint64_t offset,
					uint64_t length, bool writable, bool ours);
void simhca_mm_destroy(struct simhca_fabric *fabric, struct simhca_mm *mm);
/* Its process has ended: another one of that pid has another atomicity. */
void simhca_mm_ended(struct simhca_mm *mm);
/* One fewer uses it; it is freed with the last. */
void simhca_atomicity_put(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity);

/*
 * The number that a process has for another one, the asker, both by ours; 0: it is in another pid namespace
 * than the asker, which is not in ours.
 */
pid_t simhca_pid_seen_by(pid_t asker, pid_t pid);

/* dma_agent.c: moves bytes between memory of ours and the agent's process; waits, but not for ever.
 */
struct simhca_agent *simhca_agent_create(pid_t pid, int socket, int bounce_fd,
					 uint64_t bounce_size);
void simhca_agent_destroy(const struct simhca_fabric *fabric, struct simhca_agent *agent);
/* Ends a wait for the agent's answer, now and for good. */
void simhca_agent_abort(struct simhca_agent *agent);
/* Has the agent do something with memory of its process that moves no bytes; 0 or errno. */
int simhca_agent_ask(struct simhca_agent *agent, enum simhca_agent_op op, uint64_t addr,
		     uint64_t length);
int simhca_agent_copy(struct simhca_agent *agent, bool write, const struct iovec *remote,
		      unsigned int count, void *ours, size_t length);

#endif
