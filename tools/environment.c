/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The variables that show the device to an unmodified program: where the daemon is, the
 * preload library, and the provider if libibverbs would not find it by itself.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define PRELOAD_NAME "libsimhca-preload.so"
#define STRING_(x) #x
#define STRING(x) STRING_(x)
/* libibverbs appends this to the absolute path of a driver. */
#define PROVIDER_SUFFIX "-rdmav" STRING(SIMHCA_PABI_VERSION) ".so"
#define SYSTEM_DRIVER_FILE "/etc/libibverbs.d/simhca.driver"

const char *executable_dir(void)
{
	static char path[PATH_MAX];
	ssize_t length;

	if (!path[0]) {
		length = readlink("/proc/self/exe", path, sizeof(path) - 1);
		if (length <= 0) {
			path[0] = '\0';
			complain("/proc/self/exe: %s", strerror(errno));
			return NULL;
		}
		path[length] = '\0';
		*strrchr(path, '/') = '\0';
	}
	return path;
}

/*
 * The first of places, relative to our executable, with a file called name. NULL: none. The path
 * ends in that name, also where it is a link, for libibverbs completes it.
 */
static char *find_library(const char *const *places, const char *name)
{
	char *directory, *resolved, *path;

	for (; *places; places++) {
		if (asprintf(&directory, "%s/%s", executable_dir(), *places) < 0)
			return NULL;
		resolved = realpath(directory, NULL);
		free(directory);
		if (!resolved)
			continue;
		if (asprintf(&path, "%s/%s", resolved, name) < 0)
			path = NULL;
		free(resolved);
		if (!path || !access(path, F_OK))
			return path;
		free(path);
	}
	return NULL;
}

static bool is_listed(const char *list, const char *separators, const char *entry)
{
	size_t entry_length = strlen(entry);

	for (list += strspn(list, separators); *list; list += strspn(list, separators)) {
		size_t length = strcspn(list, separators);

		if (length == entry_length && !strncmp(list, entry, length))
			return true;
		list += length;
	}
	return false;
}

/* list with entry put in front of it unless it is there already; NULL: out of memory. */
static char *prepend(const char *list, const char *separators, const char *entry)
{
	char *value;

	if (!list || !*list)
		return strdup(entry);
	if (is_listed(list, separators, entry))
		return strdup(list);
	return asprintf(&value, "%s%c%s", entry, separators[0], list) < 0 ? NULL : value;
}

/* library NULL: without it. */
static char *preload_value(const char *library, const char *present, const char *first)
{
	char *value = library ? prepend(present, ": ", library) : strdup(present ? present : "");
	char *with_first;

	if (!value || !first || !*first || is_listed(value, ": ", first))
		return value;
	/* A sanitizer's runtime, which refuses any other place. */
	with_first = prepend(value, ": ", first);
	free(value);
	return with_first;
}

char *find_preload(void)
{
	static const char *const places[] = { "../lib", SIMHCA_LIB_FROM_BIN "/simhca", NULL };
	char *path = find_library(places, PRELOAD_NAME);

	if (!path)
		complain("%s: is neither in %s/../lib nor in %s/%s/simhca", PRELOAD_NAME,
			 executable_dir(), executable_dir(), SIMHCA_LIB_FROM_BIN);
	return path;
}

char *find_provider_file(void)
{
	static const char *const places[] = { "../lib", "../" SIMHCA_LIB_FROM_BIN "/libibverbs",
					      SIMHCA_LIB_FROM_BIN "/libibverbs",
					      SIMHCA_LIB_FROM_BIN, NULL };
	char *path = find_library(places, "libsimhca" PROVIDER_SUFFIX);

	if (!path)
		complain("libsimhca%s: the provider is neither in %s/../lib nor in %s/%s/"
			 "libibverbs",
			 PROVIDER_SUFFIX, executable_dir(), executable_dir(), SIMHCA_LIB_FROM_BIN);
	return path;
}

char *find_container_file(const char *name)
{
	static const char *const places[] = { "../lib/container",
					      SIMHCA_LIB_FROM_BIN "/simhca/container", NULL };
	char *path = find_library(places, name);

	if (!path)
		complain("%s: is neither in %s/../lib/container nor in %s/%s/simhca/container",
			 name, executable_dir(), executable_dir(), SIMHCA_LIB_FROM_BIN);
	return path;
}

/* IBV_DRIVERS' form of the provider's path: without libibverbs' suffix. */
static char *find_provider(void)
{
	char *path = find_provider_file();

	if (path)
		path[strlen(path) - strlen(PROVIDER_SUFFIX)] = '\0';
	return path;
}

/* Installed where libibverbs looks, the provider needs no variable. */
static bool provider_is_known(void)
{
	return !strcmp(executable_dir(), SIMHCA_INSTALL_BINDIR) &&
	       !access(SYSTEM_DRIVER_FILE, R_OK);
}

/* Characters that end a path in the lists that these variables are. */
static bool fits_lists(const char *path)
{
	if (!strpbrk(path, " :;"))
		return true;
	complain("%s: has a space, colon or semicolon in its path, which LD_PRELOAD and "
		 "IBV_DRIVERS cannot carry; move simhca",
		 path);
	return false;
}

void environment_free(struct variable variables[ENVIRONMENT_MAX])
{
	for (int i = 0; i < ENVIRONMENT_MAX; i++)
		free(variables[i].value);
	memset(variables, 0, ENVIRONMENT_MAX * sizeof(*variables));
}

bool environment_make(struct variable variables[ENVIRONMENT_MAX], const char *dir, bool on_top,
		      bool preloads)
{
	const char *preloaded = on_top ? getenv("LD_PRELOAD") : NULL;
	const char *first = on_top ? getenv("SIMHCA_PRELOAD_FIRST") : NULL;
	char *preload, *provider = NULL;
	bool made = false;
	int n = 0;

	memset(variables, 0, ENVIRONMENT_MAX * sizeof(*variables));
	if (!executable_dir())
		return false;
	preload = find_preload();
	if (!preload)
		return false;
	if (!provider_is_known()) {
		provider = find_provider();
		if (!provider)
			goto out;
	}
	if (!fits_lists(preload) || (provider && !fits_lists(provider)))
		goto out;

	variables[n++] = (struct variable){ "SIMHCA_RUNTIME_DIR", strdup(dir) };
	if (provider) {
		/* libibverbs reads one of the two: RDMAV_DRIVERS when it is set. */
		const char *older = on_top ? getenv("RDMAV_DRIVERS") : NULL;
		const char *drivers = on_top ? getenv("IBV_DRIVERS") : NULL;

		variables[n++] =
			(struct variable){ "IBV_DRIVERS", prepend(drivers, ":;", provider) };
		if (older)
			variables[n++] = (struct variable){ "RDMAV_DRIVERS",
							    prepend(older, ":;", provider) };
	}
	variables[n++] = (struct variable){ "LD_PRELOAD", preload_value(preloads ? preload : NULL,
									preloaded, first) };
	made = true;
	for (int i = 0; i < n; i++)
		made = made && variables[i].value;
	if (!made) {
		complain("out of memory");
		environment_free(variables);
	}
out:
	free(preload);
	free(provider);
	return made;
}

void environment_without_preload(void)
{
	const char *list = getenv("LD_PRELOAD");
	char *kept, *entry, *rest, *copy;
	size_t length = 0;

	if (!list || !strstr(list, PRELOAD_NAME))
		return;
	copy = rest = strdup(list);
	kept = calloc(1, strlen(list) + 2);
	while (copy && kept && (entry = strsep(&rest, ": "))) {
		if (*entry && !strstr(entry, PRELOAD_NAME))
			length += (size_t)sprintf(kept + length, "%s%s", length ? ":" : "", entry);
	}
	if (length)
		setenv("LD_PRELOAD", kept, 1);
	else
		unsetenv("LD_PRELOAD");
	free(kept);
	free(copy);
}
