/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "rundir.h"
#include "runtime_dir.h"
#include "simhca-runtime-dir.h"

/* 0 or -errno; EPERM: it is not ours; EXDEV: it is open to others. */
static int try_directory(const char *path, int *fd)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return -errno;
	if (fstat(*fd, &st)) {
		close(*fd);
		*fd = -1;
		return -EACCES;
	}
	if (st.st_uid == geteuid() && !(st.st_mode & 077) &&
	    !faccessat(*fd, ".", W_OK | X_OK, AT_EACCESS))
		return 0;
	close(*fd);
	*fd = -1;
	if (st.st_uid != geteuid())
		return -EPERM;
	return st.st_mode & 077 ? -EXDEV : -EACCES;
}

static void explain(const char *path, int error)
{
	switch (error) {
	case -EPERM:
		log_error("runtime directory %s: belongs to another user", path);
		break;
	case -EXDEV:
		log_error("runtime directory %s: is open to other users; chmod 700 it, or name "
			  "another "
			  "one with --runtime-dir",
			  path);
		break;
	case -ELOOP:
	case -ENOTDIR:
		log_error("runtime directory %s: is not a directory", path);
		break;
	case -EROFS:
		log_error("runtime directory %s: the file system is read-only; %s", path,
			  READ_ONLY_HINT);
		break;
	case -ENAMETOOLONG:
		log_error("runtime directory %s: the name is too long for the sockets in it, %zu "
			  "bytes "
			  "are possible",
			  path, RUNTIME_DIR_MAX);
		break;
	default:
		log_error("runtime directory %s: %s", path, strerror(-error));
	}
}

static int find_directory(struct rundir *rundir, const char *wanted)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	char name[PATH_MAX];
	int ret = -ENOENT;

	if (!wanted)
		wanted = getenv("SIMHCA_RUNTIME_DIR");
	if (wanted && wanted[0]) {
		ret = runtime_dir_absolute(wanted, rundir->path);
		if (!ret)
			ret = try_directory(rundir->path, &rundir->fd);
		if (ret)
			explain(rundir->path[0] ? rundir->path : wanted, ret);
		return ret;
	}

	for (int place = 0; place < SIMHCA_RUNTIME_PLACES; place++) {
		if (!simhca_runtime_dir(place, session, geteuid(), name, sizeof(name)))
			continue;
		ret = runtime_dir_absolute(name, rundir->path);
		if (!ret)
			ret = try_directory(rundir->path, &rundir->fd);
		if (!ret)
			return 0;
		/* What is ours but wrong is said; what is not for us is passed by. */
		if (ret == -EXDEV || ret == -ENAMETOOLONG)
			break;
	}
	explain(rundir->path, ret);
	return ret;
}

/* name may be anything; links are removed, not followed. */
static void remove_tree(int dir_fd, const char *name)
{
	struct dirent *entry;
	DIR *dir;
	int fd;

	if (!unlinkat(dir_fd, name, 0) || (errno != EISDIR && errno != EPERM))
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove_tree(fd, entry->d_name);
	closedir(dir);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static void clean(const struct rundir *rundir)
{
	remove_tree(rundir->fd, "control");
	remove_tree(rundir->fd, "tree");
	remove_tree(rundir->fd, "pid");
}

static int lock(struct rundir *rundir)
{
	char pid[16] = "";
	ssize_t length;
	int fd;

	rundir->lock_fd =
		openat(rundir->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (rundir->lock_fd < 0) {
		log_error("%s/lock: %m", rundir->path);
		return -1;
	}
	if (!flock(rundir->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK) {
		log_error("%s/lock: %m", rundir->path);
		return -1;
	}
	fd = openat(rundir->fd, "pid", O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, pid, sizeof(pid) - 1);
	if (fd >= 0)
		close(fd);
	pid[length > 0 ? length : 0] = '\0';
	pid[strcspn(pid, "\n")] = '\0';
	log_error("runtime directory %s: another simhcad%s%s%s serves it", rundir->path,
		  pid[0] ? " (pid " : "", pid, pid[0] ? ")" : "");
	return -1;
}

int rundir_open(struct rundir *rundir, const char *wanted)
{
	rundir->path[0] = '\0';
	rundir->fd = -1;
	rundir->lock_fd = -1;
	if (find_directory(rundir, wanted))
		return -1;
	if (lock(rundir)) {
		if (rundir->lock_fd >= 0)
			close(rundir->lock_fd);
		close(rundir->fd);
		return -1;
	}
	clean(rundir);
	return 0;
}

int rundir_write_pid(const struct rundir *rundir)
{
	int fd = openat(rundir->fd, "pid", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int ret;

	if (fd < 0) {
		log_error("%s/pid: %m", rundir->path);
		return -1;
	}
	ret = dprintf(fd, "%d\n", (int)getpid());
	if (ret < 0)
		log_error("%s/pid: %m", rundir->path);
	close(fd);
	return ret < 0 ? -1 : 0;
}

void rundir_close(struct rundir *rundir)
{
	clean(rundir);
	close(rundir->lock_fd);
	close(rundir->fd);
}
