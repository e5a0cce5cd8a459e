/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Preloaded: a program stops before it resolves its peer's address for the second time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>

typedef int resolve_addr(void *id, void *src, void *dst, int timeout_ms);

resolve_addr rdma_resolve_addr;

int rdma_resolve_addr(void *id, void *src, void *dst, int timeout_ms)
{
	static int calls;
	resolve_addr *real = (resolve_addr *)dlsym(RTLD_NEXT, "rdma_resolve_addr");

	if (++calls == 2)
		raise(SIGSTOP);
	return real(id, src, dst, timeout_ms);
}
