/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What tools that watch a program cannot see of a device which is another process, and are told:
 *
 *	valgrind	that registered memory can have been written
 *	ThreadSanitizer	that what comes after a completion comes after what was posted before it
 *
 * Without them both cost next to nothing: a few instructions for each region, a comparison for each
 * work request.
 */
#ifndef SIMHCA_PROVIDER_CHECKERS_H
#define SIMHCA_PROVIDER_CHECKERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef SIMHCA_HAVE_VALGRIND
#include <valgrind/memcheck.h>
#endif

/*
 * The device may write this memory from now on, if rights allow it to. When it does is known to
 * nobody here, so valgrind takes all of it for written; it will not find what a program reads of it
 * before anything has arrived. All of the address space (implicit on-demand paging) stays as it is.
 */
static inline void shca_memory_may_change(const void *addr, size_t length)
{
#ifdef SIMHCA_HAVE_VALGRIND
	if (length != SIZE_MAX)
		(void)VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(addr, length);
#endif
}

/*
 * Of ThreadSanitizer's runtime, in programs that have it. One cookie for all queues: what a QP has
 * received was posted at another one, so that queues alone do not tell what comes before what.
 */
extern void __tsan_acquire(void *cookie) __attribute__((weak));
extern void __tsan_release(void *cookie) __attribute__((weak));
extern char shca_tsan_cookie;

static inline void shca_posts(void)
{
	if (__builtin_expect(__tsan_release != NULL, 0))
		__tsan_release(&shca_tsan_cookie);
}

static inline void shca_has_polled(void)
{
	if (__builtin_expect(__tsan_acquire != NULL, 0))
		__tsan_acquire(&shca_tsan_cookie);
}

#endif
