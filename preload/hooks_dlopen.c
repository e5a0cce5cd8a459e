/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * dlopen() with RTLD_DEEPBIND, as valkey loads its modules: what such a load brings into the program
 * looks for its functions in its own libraries first, libc among them, and never comes to the hooks.
 * Who is there already stays bound as it is. So the libraries that talk to the device are loaded
 * beforehand, as any program loads them. What the module itself does is left alone.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "real.h"

static void load_rdma(void)
{
	static const char *const libraries[] = { "libibverbs.so.1", "librdmacm.so.1",
						 "libibumad.so.3" };
	static atomic_flag done = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&done))
		return;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		REAL(dlopen)(libraries[i], RTLD_LAZY);
	dlerror(); /* that one is not there is no error of the program's */
}

/*
 * dlopen() looks at where it returns to: the RUNPATH of that library counts. So this has to end in a
 * jump, as compilers make of such a return when they optimise.
 */
HOOK(void *, dlopen, const char *file, int mode)
{
	if (mode & RTLD_DEEPBIND)
		load_rdma();
	return REAL(dlopen)(file, mode);
}
