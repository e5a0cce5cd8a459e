/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which runtime directory: daemon, tool and programs must come to the same answer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime_dir.h"
#include "simhca-runtime-dir.h"
#include "tool.h"

/* From strdup(); NULL: what is wrong was complained about. */
static char *checked(const char *wanted)
{
	char path[PATH_MAX];
	int error = runtime_dir_absolute(wanted, path);
	char *copy;

	if (error == -ENAMETOOLONG) {
		complain(
			"runtime directory %s: %zu characters, and %zu is the most that a socket's "
			"address leaves room for; choose a shorter one with --runtime-dir",
			path, strlen(path), RUNTIME_DIR_MAX);
		return NULL;
	}
	if (error) {
		complain("runtime directory %s: no absolute path: %s", wanted, strerror(-error));
		return NULL;
	}
	copy = strdup(path);
	if (!copy)
		complain("out of memory");
	return copy;
}

/* Whether there is one, or one can be made, for this user. */
static bool is_usable(enum simhca_runtime_place place, const char *session)
{
	switch (place) {
	case SIMHCA_RUNTIME_SESSION:
		return !access(session, W_OK | X_OK);
	case SIMHCA_RUNTIME_RUN:
		return !access("/run/simhca", W_OK | X_OK) || !access("/run", W_OK | X_OK);
	default:
		return true;
	}
}

/* In /tmp anybody can make a directory with our name: it is used only if it is ours. */
static bool is_safe(enum simhca_runtime_place place, const char *path)
{
	struct stat st;

	return place != SIMHCA_RUNTIME_TMP || lstat(path, &st) ||
	       (S_ISDIR(st.st_mode) && st.st_uid == geteuid());
}

char *runtime_dir(const char *given)
{
	const char *env = getenv("SIMHCA_RUNTIME_DIR");
	const char *session = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];

	if (given && !*given) {
		complain("--runtime-dir: is empty; must be the path of a directory");
		return NULL;
	}
	if (given || (env && *env))
		return checked(given ? given : env);
	for (int place = 0; place < SIMHCA_RUNTIME_PLACES; place++)
		if (simhca_runtime_dir(place, session, geteuid(), path, sizeof(path)) &&
		    is_usable(place, session)) {
			if (is_safe(place, path))
				return checked(path);
			complain("%s: is not a directory of ours; choose another with "
				 "--runtime-dir",
				 path);
		}
	return NULL;
}

/* ----------------------------------------------------------------------------- --private */

#define PRIVATE_PREFIX "simhca-"
#define PRIVATE_TEMPLATE PRIVATE_PREFIX "XXXXXX"
/* Locked as long as the simhca run lives that has made the directory. */
#define PRIVATE_LOCK "private"

/* The lock on dir's file name, to be closed; -1: somebody has it, or there is none. */
static int take_lock(const char *dir, const char *name, int flags)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return -1;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	/* A file without a name is one that somebody has swept away before we had the lock. */
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Removes dir if it is of a simhca run --private of ours that was killed, its daemon gone too. */
static void sweep_one(const char *dir)
{
	struct stat st;
	int lock, daemon;

	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return;
	lock = take_lock(dir, PRIVATE_LOCK, 0);
	if (lock < 0)
		return;
	daemon = take_lock(dir, "lock", O_CREAT);
	if (daemon >= 0) {
		runtime_dir_remove(dir);
		close(daemon);
	}
	close(lock);
}

static void sweep(const char *parent)
{
	char path[RUNTIME_DIR_MAX + 1];
	struct dirent *entry;
	DIR *dir = opendir(parent);

	while (dir && (entry = readdir(dir)))
		if (strlen(entry->d_name) == strlen(PRIVATE_TEMPLATE) &&
		    !strncmp(entry->d_name, PRIVATE_PREFIX, strlen(PRIVATE_PREFIX)) &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name) <
			    sizeof(path))
			sweep_one(path);
	if (dir)
		closedir(dir);
}

/* A new directory in parent, locked until we end; NULL with errno. */
static char *make_private(const char *parent)
{
	char path[RUNTIME_DIR_MAX + 1];

	/* Who sweeps may come between a directory and its lock; hardly twice. */
	for (int attempt = 0; attempt < 10; attempt++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/" PRIVATE_TEMPLATE, parent) >=
		    sizeof(path)) {
			errno = ENAMETOOLONG;
			return NULL;
		}
		if (!mkdtemp(path))
			return NULL;
		if (take_lock(path, PRIVATE_LOCK, O_CREAT) >= 0)
			return strdup(path);
		runtime_dir_remove(path);
	}
	errno = EBUSY;
	return NULL;
}

char *runtime_dir_private(void)
{
	const char *candidates[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	char *path;

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		if (!candidates[i] || candidates[i][0] != '/')
			continue;
		sweep(candidates[i]);
		path = make_private(candidates[i]);
		if (path)
			return path;
	}
	complain("--private: no temporary directory can be made in $XDG_RUNTIME_DIR, $TMPDIR or "
		 "/tmp: %s%s",
		 strerror(errno), errno == EROFS ? "; " READ_ONLY_HINT : "");
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
