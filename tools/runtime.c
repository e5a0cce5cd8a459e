/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which runtime directory: daemon, tool and programs must come to the same answer. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tool.h"

/* Sockets live in the directory, and a socket's address is short. This is the longest of them. */
#define DIR_MAX                                                                                    \
	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/tree/dev/infiniband/uverbs99"))

/* Takes path over. */
static char *checked(char *path)
{
	char *absolute = NULL;

	if (!path) {
		complain("out of memory");
		return NULL;
	}
	if (path[0] != '/') {
		char *cwd = getcwd(NULL, 0);

		if (!cwd || asprintf(&absolute, "%s/%s", cwd, path) < 0) {
			complain("runtime directory %s: no absolute path: %s", path,
				 strerror(errno));
			free(cwd);
			free(path);
			return NULL;
		}
		free(cwd);
		free(path);
		path = absolute;
	}
	for (size_t length = strlen(path); length > 1 && path[length - 1] == '/';)
		path[--length] = '\0';
	if (strlen(path) > DIR_MAX) {
		complain(
			"runtime directory %s: %zu characters, and %zu is the most that a socket's "
			"address leaves room for; choose a shorter one with --runtime-dir",
			path, strlen(path), DIR_MAX);
		free(path);
		return NULL;
	}
	return path;
}

/* In /tmp anybody can make a directory with our name: use it only if it is ours. */
static char *in_tmp(void)
{
	struct stat st;
	char *path;

	if (asprintf(&path, "/tmp/simhca-%u", (unsigned int)getuid()) < 0)
		return NULL;
	if (!lstat(path, &st) && (!S_ISDIR(st.st_mode) || st.st_uid != getuid())) {
		complain("%s: is not a directory of ours; choose another with --runtime-dir", path);
		free(path);
		return NULL;
	}
	return path;
}

char *runtime_dir(const char *given)
{
	const char *env = getenv("SIMHCA_RUNTIME_DIR");
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (given) {
		if (!*given) {
			complain("--runtime-dir: is empty; must be the path of a directory");
			return NULL;
		}
		return checked(strdup(given));
	}
	if (env && *env)
		return checked(strdup(env));
	if (xdg && xdg[0] == '/' && !access(xdg, W_OK | X_OK))
		return checked(asprintf(&path, "%s/simhca", xdg) < 0 ? NULL : path);
	if (!access("/run/simhca", W_OK | X_OK) || !access("/run", W_OK | X_OK))
		return checked(strdup("/run/simhca"));
	path = in_tmp();
	return path ? checked(path) : NULL;
}

char *runtime_dir_private(void)
{
	const char *candidates[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	char path[DIR_MAX + 1];

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		int length;

		if (!candidates[i] || candidates[i][0] != '/')
			continue;
		length = snprintf(path, sizeof(path), "%s/simhca-XXXXXX", candidates[i]);
		if ((size_t)length < sizeof(path) && mkdtemp(path))
			return strdup(path);
	}
	complain("--private: no temporary directory can be made in $XDG_RUNTIME_DIR, $TMPDIR or "
		 "/tmp: %s",
		 strerror(errno));
	return NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	remove(path);
	return 0;
}

void runtime_dir_remove(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
