/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Loads a module as valkey does, with RTLD_DEEPBIND, from a directory that its own RUNPATH names. Nothing
 * RDMA is in the link of the client itself.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *module = dlopen("preload-deepbind.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	int (*count)(void) = NULL;

	if (module)
		*(void **)&count = dlsym(module, "count_devices");
	if (!count) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	printf("%d\n", count());
	return 0;
}
