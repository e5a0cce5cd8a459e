/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A library for LD_PRELOAD: what simhcad allocates is counted, in the file that SIMHCA_ALLOCATIONS names, a number of 8
 * bytes. In other programs it counts nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, which need no dlsym(), as that allocates. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t uncounted;
static _Atomic(_Atomic uint64_t *) counter = &uncounted;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SIMHCA_ALLOCATIONS");
	void *page = MAP_FAILED;
	int fd;

	if (!path || strcmp(program_invocation_short_name, "simhcad"))
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		abort();
	close(fd);
	counter = page;
}

static void count(void)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	count();
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	count();
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	count();
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
	count();
	*place = __libc_memalign(alignment, size);
	return *place ? 0 : ENOMEM;
}
