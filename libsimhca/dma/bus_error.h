/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Accesses to a mapping of a file that may have lost pages, which is a signal, SIGBUS (mmap(2)): it
 * ends the access instead, and nobody is told but who made it.
 *
 * The signal's handler is the program's: ours is there only once somebody wants to map such a file, and passes on
 * what is no access of ours.
 */
#ifndef LIBSIMHCA_BUS_ERROR_H
#define LIBSIMHCA_BUS_ERROR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "queue/atomic_op.h"

/*
 * Installs the handler, once per process. False: accesses cannot be guarded, as the program has installed a handler
 * since then, or this thread blocks the signal. Two system calls.
 */
bool simhca_bus_errors_are_caught(void);

/*
 * ThreadSanitizer holds a lock of its own while it makes an access that is atomic, and would keep it if that one
 * ended here. So it makes none of them, and is told of their order.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define SIMHCA_TSAN_ACQUIRE(addr) __tsan_acquire((void *)(uintptr_t)(addr))
#define SIMHCA_TSAN_RELEASE(addr) __tsan_release((void *)(uintptr_t)(addr))
#define SIMHCA_NOT_INSTRUMENTED __attribute__((no_sanitize("thread")))
#else
#define SIMHCA_TSAN_ACQUIRE(addr) ((void)(addr))
#define SIMHCA_TSAN_RELEASE(addr) ((void)(addr))
#define SIMHCA_NOT_INSTRUMENTED
#endif

struct simhca_guarded {
	void (*run)(void *arg); /* takes no lock, and leaves nothing half done that matters */
	void *arg;
	struct {
		const struct iovec *iov;
		int count;
	} memory[2]; /* that it touches: a signal of any other is not its */
};

/*
 * Runs the access. False: the thread blocks the signal, and it was not run; or it met a page that is not there, and
 * has gone no further.
 */
bool simhca_guard_access(const struct simhca_guarded *access);
/* Executes an atomic, as one instruction; if it may_fail, by simhca_guard_access(), and false as there. */
bool simhca_guarded_atomic(bool may_fail, const struct simhca_atomic_op *op, _Atomic uint64_t *at,
			   uint64_t *old);

#endif
