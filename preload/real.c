/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Looking up the functions behind the hooks. */
#include <dlfcn.h>
#include <errno.h>

#include "real.h"

void *_Atomic real_addresses[REAL_COUNT];

#define REAL_NAME(ret, name, args) #name,
static const char *const real_names[] = { REAL_FUNCTIONS(REAL_NAME) };
#undef REAL_NAME

/*
 * libc keeps the __xstat functions for programs that were linked before glibc 2.33 under the
 * version that its port began with, where dlsym() does not see them.
 */
static const char *const oldest_versions[] = { "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.27" };

/* musl has none, and no such functions either. */
extern __typeof__(dlvsym) dlvsym __attribute__((weak));

/* Every function that a libc can lack returns int. */
static int not_there(void)
{
	errno = ENOSYS;
	return -1;
}

void *real_lookup(enum real_index index)
{
	int saved = errno;
	void *address = dlsym(RTLD_NEXT, real_names[index]);

	for (size_t i = 0;
	     !address && dlvsym && i < sizeof(oldest_versions) / sizeof(*oldest_versions); i++)
		address = dlvsym(RTLD_NEXT, real_names[index], oldest_versions[i]);
	if (!address)
		address = (void *)(uintptr_t)not_there;
	atomic_store_explicit(&real_addresses[index], address, memory_order_relaxed);
	errno = saved;
	return address;
}

/*
 * dlsym() takes locks, and many of the hooked functions may be called from signal handlers and in
 * the child of a threaded program's fork(): so not on the first call but now.
 */
__attribute__((constructor)) static void real_init(void)
{
	for (int i = 0; i < REAL_COUNT; i++)
		real_address((enum real_index)i);
}
