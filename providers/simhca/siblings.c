/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ibverbs-provider-abi.h"
#include "siblings.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

/* self: the path of this file. */
static bool try(const char *self, const char *place, int first_release)
{
	char path[PATH_MAX];
	const bool *fits;
	void *handle;
	int length = snprintf(path, sizeof(path),
			      "%.*s%s/libsimhca-rdmav" STRING(SIMHCA_PABI_VERSION) "-%d.so",
			      (int)(strrchr(self, '/') - self), self, place, first_release);

	if (length < 0 || length >= (int)sizeof(path))
		return false;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
	fits = dlsym(handle, SHCA_SIBLING_FITS);
	if (fits && *fits)
		return true; /* it stays loaded */
	dlclose(handle);
	return false;
}

/* Beside this file, as it is built and in containers; or installed, where a program is linked with it or libibverbs loads it. */
bool shca_load_sibling(void)
{
	static const char *const places[] = { "", "/simhca", "/../simhca" };
	static const int first_releases[] = { 39, 44, 45, 59, 62 };
	Dl_info info;

	/* As it was named: in a container the links lead elsewhere. */
	if (!dladdr((void *)shca_load_sibling, &info) || !strchr(info.dli_fname, '/'))
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (size_t j = 0; j < sizeof(first_releases) / sizeof(first_releases[0]); j++)
			if (try(info.dli_fname, places[i], first_releases[j]))
				return true;
	return false;
}
