/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The one call of libibverbs where the descriptor of a dead device cannot say what the kernel's
 * would: a completion channel. Reading the socket fails with ECONNRESET and then finds its end,
 * where the kernel's read() fails with EIO; libibverbs returns -1 for all, and leaves errno alone.
 */
#include <dlfcn.h>
#include <errno.h>

#include "real.h"

typedef int get_cq_event_fn(void *channel, void **cq, void **cq_context);

/* libibverbs' own, whose copy may be known to the caller's library alone; NULL: there is none. */
static get_cq_event_fn *find(const char *name, const void *caller)
{
	void *address = dlsym(RTLD_NEXT, name), *library;
	Dl_info info;

	if (!address && dladdr(caller, &info)) {
		library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		address = library ? dlsym(library, name) : NULL;
		if (library)
			dlclose(library); /* the caller keeps it */
	}
	return (get_cq_event_fn *)(uintptr_t)address;
}

HOOK(int, ibv_get_cq_event, void *channel, void **cq, void **cq_context)
{
	static get_cq_event_fn *_Atomic found;
	get_cq_event_fn *get = atomic_load_explicit(&found, memory_order_relaxed);
	int saved = errno, ret;

	if (!get) {
		get = find("ibv_get_cq_event", __builtin_return_address(0));
		/* Relaxed: whoever looks finds the same function. */
		atomic_store_explicit(&found, get, memory_order_relaxed);
	}
	if (!get) {
		errno = ENOSYS;
		return -1;
	}
	errno = 0;
	ret = get(channel, cq, cq_context);
	if (!ret)
		errno = saved;
	else if (!errno || errno == ECONNRESET)
		errno = EIO;
	return ret;
}
