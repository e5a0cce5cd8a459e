/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/device.h"
#include "preload/netlink.h"
#include "preload/paths.h"
#include "preload/rdma_cm.h"
#include "preload/umad.h"
#include "preload/uverbs.h"
#include "supervised_call.h"
#include "supervised_socket.h"

#define PAGE 4096

/* --------------------------------------------------------------------------------- the names */

/* No further than its page, as what follows need not be there. False: the kernel sees to it. */
static bool read_name(const struct call *call, uint64_t at, char name[PATH_MAX])
{
	size_t length = 0;

	while (at && length < PATH_MAX) {
		size_t some = PAGE - (at + length) % PAGE;

		if (some > PATH_MAX - length)
			some = PATH_MAX - length;
		if (!call_read(call, name + length, at + length, some))
			return false;
		if (memchr(name + length, '\0', some))
			return true;
		length += some;
	}
	return false;
}

/* The part of a name below the tree; NULL: it is not there. */
static const char *below_tree(const char *name)
{
	const char *tree = paths_tree();
	size_t length = tree ? strlen(tree) : 0;

	return tree && !strncmp(name, tree, length) && name[length] == '/' ? name + length + 1
									   : NULL;
}

/* A name and what it is looked up in, which it does not leave. */
struct tree_name {
	char root[64]; /* the caller's own root; empty: the tree */
	char text[2 * PATH_MAX];
};

/* A name that has left the tree by `..`, to where there are no links out of /sys. */
static bool is_beside_tree(const char *name)
{
	return !strncmp(name, "/sys/", strlen("/sys/")) || !strcmp(name, "/dev/");
}

static bool has_any(const char *name, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

/* What is relative to a directory that the program has opened, in the tree or beside it. */
static bool find_relative(const struct call *call, int directory, const char *name,
			  struct tree_name *found)
{
	/* Nodes; all other files of a directory in the tree are found there without us. */
	static const char *const nodes[] = { "uverbs", "rdma_cm", "umad", "issm" };
	/* By which names lead from directories of the host into the tree; others cost nothing. */
	static const char *const places[] = { "infiniband", "rdma_", "simhca", "5343:" };
	bool is_node = has_any(name, nodes, sizeof(nodes) / sizeof(nodes[0]));
	char path[64], of_directory[PATH_MAX], whole[2 * PATH_MAX];
	struct path_buf buf;
	const char *below;
	ssize_t length;

	if (!is_node && !has_any(name, places, sizeof(places) / sizeof(places[0])))
		return false;
	if (directory == AT_FDCWD)
		snprintf(path, sizeof(path), "/proc/%u/cwd", (unsigned int)call->notif->pid);
	else
		snprintf(path, sizeof(path), "/proc/%u/fd/%d", (unsigned int)call->notif->pid,
			 directory);
	length = readlink(path, of_directory, sizeof(of_directory) - 1);
	if (length <= 0)
		return false;
	of_directory[length] = '\0';
	below = below_tree(of_directory);
	if (!below) {
		snprintf(whole, sizeof(whole), "%s/%s", of_directory, name);
		below = below_tree(paths_map(&buf, whole));
		return below && (size_t)snprintf(found->text, sizeof(found->text), "%s", below) <
					sizeof(found->text);
	}
	return is_node && (size_t)snprintf(found->text, sizeof(found->text), "%s/%s", below, name) <
				  sizeof(found->text);
}

/* False: the name is not ours. */
static bool find_name(const struct call *call, int directory, uint64_t at, struct tree_name *found)
{
	char name[PATH_MAX];
	struct path_buf buf;
	struct thread thread;
	const char *mapped, *below;

	found->root[0] = '\0';
	if (!read_name(call, at, name) || !name[0])
		return false;
	if (name[0] == '/') {
		mapped = paths_map(&buf, name);
		if (mapped == name)
			return false;
		below = below_tree(mapped);
		if (!below && !is_beside_tree(mapped))
			return false;
		snprintf(found->text, sizeof(found->text), "%s", below ? below : mapped);
		if (!below)
			snprintf(found->root, sizeof(found->root), "/proc/%u/root",
				 (unsigned int)call->notif->pid);
	} else if (!find_relative(call, directory, name, found)) {
		return false;
	}
	if (!call_is_served(call, &thread))
		return false;
	if (!found->root[0])
		__atomic_fetch_add(&call->supervised->tally->looked, 1, __ATOMIC_RELAXED);
	return true;
}

/* openat2(), or -errno. */
static int open_in_tree(const struct tree_name *name, const struct open_how *how)
{
	const char *tree = name->root[0] ? name->root : paths_tree();
	int root, fd;

	if (!tree)
		return -ENOENT;
	root = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, name->text, how, sizeof(*how));
	if (fd < 0)
		fd = -errno;
	close(root);
	return fd;
}

/* A descriptor that only names the file. */
static int find_in_tree(const struct tree_name *name, bool follows)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return open_in_tree(name, &how);
}

/* ------------------------------------------------------------------------------------ open() */

/* What the kernel would not open as it is a socket, as in the preload library. */
static int open_device(const struct tree_name *name, int flags)
{
	int fd = find_in_tree(name, true), device = -ENXIO;
	struct device_name found;
	struct device_id id;
	struct stat st;

	if (fd < 0)
		return fd;
	if (!fstat(fd, &st) && S_ISSOCK(st.st_mode) &&
	    device_of_path(name->text, st.st_dev, st.st_ino, &found, &id))
		device = device_connect(&found, flags | O_CLOEXEC);
	if (device < 0 && device != -ENXIO)
		device = -errno;
	close(fd);
	return device;
}

/* Flags that openat2() knows; open() ignores others. */
#define OPEN_FLAGS                                                                                 \
	(O_ACCMODE | O_APPEND | O_ASYNC | O_CLOEXEC | O_CREAT | O_DIRECT | O_DIRECTORY | O_DSYNC | \
	 O_EXCL | O_LARGEFILE | O_NOATIME | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK | O_PATH | O_SYNC | \
	 O_TRUNC)
#define READ_FLAGS (O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW) /* besides O_RDONLY, which is 0 */

static enum supervised_outcome open_file(struct call *call, int directory, uint64_t at,
					 const struct open_how *wanted)
{
	struct open_how how = { .flags = wanted->flags & OPEN_FLAGS };
	struct tree_name name;
	bool is_device;
	int fd;

	/* Where the program says how names are followed, it says that absolute ones are not. */
	if ((wanted->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) ||
	    !find_name(call, directory, at, &name))
		return CALL_CONTINUES;
	/* No O_PATH descriptor can be handed over, so the program gets one that is open for reading. */
	if (how.flags & O_PATH)
		how.flags &= READ_FLAGS;
	if (how.flags & O_CREAT)
		how.mode = wanted->mode & 07777;
	how.flags |= O_CLOEXEC;
	how.resolve = wanted->resolve | RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
	fd = open_in_tree(&name, &how);
	is_device = fd == -ENXIO;
	if (is_device)
		fd = open_device(&name, (int)wanted->flags);
	if (fd < 0)
		return call_answer(call, fd);
	if (is_device)
		__atomic_fetch_add(&call->supervised->tally->opened, 1, __ATOMIC_RELAXED);
	return call_answer_with_fd(call, fd, is_device ? CALL_FD_DEVICE : CALL_FD_FILE, 0,
				   wanted->flags & O_CLOEXEC);
}

static enum supervised_outcome open_how(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	struct open_how how;

	/* A longer one has what we do not know. */
	if (args[3] != sizeof(how) || !call_read(call, &how, args[2], sizeof(how)))
		return CALL_CONTINUES;
	return open_file(call, (int)args[0], args[1], &how);
}

/* ------------------------------------------------------------------- what is said about files */

/* The node that the descriptor of a file or of an open device stands for. */
static bool is_node(const struct tree_name *name, int fd, const struct stat *st,
		    struct device_id *id)
{
	struct device_name device;

	if (!S_ISSOCK(st->st_mode))
		return false;
	if (name)
		return device_of_path(name->text, st->st_dev, st->st_ino, &device, id);
	return device_of_fd(fd, &device) && device_identify(&device, id);
}

/* fd is of the file of that name, or of an open device, then name is NULL. It is closed. */
static enum supervised_outcome answer_stat(struct call *call, const struct tree_name *name, int fd,
					   uint64_t to)
{
	struct device_id id;
	struct stat st;
	int ret = fstat(fd, &st) ? -errno : 0;
	bool found = !ret && is_node(name, fd, &st, &id);

	close(fd);
	if (!name && !found)
		return CALL_CONTINUES;
	if (ret)
		return call_answer(call, ret);
	if (found)
		device_show_stat(&id, &st);
	return call_answer_with(call, to, &st, sizeof(st), 0);
}

static enum supervised_outcome answer_statx(struct call *call, const struct tree_name *name, int fd,
					    uint64_t to)
{
	const __u64 *args = call->notif->data.args;
	struct device_id id;
	struct statx stx;
	struct stat st;
	int flags = ((int)args[2] & AT_STATX_SYNC_TYPE) | AT_EMPTY_PATH;
	int ret = fstat(fd, &st) || statx(fd, "", flags, (unsigned int)args[3], &stx) ? -errno : 0;
	bool found = !ret && is_node(name, fd, &st, &id);

	close(fd);
	if (!name && !found)
		return CALL_CONTINUES;
	if (ret)
		return call_answer(call, ret);
	if (found)
		device_show_statx(&id, &stx);
	return call_answer_with(call, to, &stx, sizeof(stx), 0);
}

typedef enum supervised_outcome answer_fn(struct call *call, const struct tree_name *name, int fd,
					  uint64_t to);

static enum supervised_outcome stat_fd(struct call *call, int number, uint64_t to, answer_fn *tell)
{
	int fd = call_borrow(&call->caller, number);

	return fd < 0 ? CALL_CONTINUES : tell(call, NULL, fd, to);
}

static enum supervised_outcome stat_name(struct call *call, int directory, uint64_t at, int flags,
					 uint64_t to, answer_fn *tell)
{
	struct tree_name name;
	int fd;

	if (find_name(call, directory, at, &name)) {
		fd = find_in_tree(&name, !(flags & AT_SYMLINK_NOFOLLOW));
		return fd < 0 ? call_answer(call, fd) : tell(call, &name, fd, to);
	}
	return flags & AT_EMPTY_PATH ? stat_fd(call, directory, to, tell) : CALL_CONTINUES;
}

static enum supervised_outcome read_link(struct call *call, int directory, uint64_t at, uint64_t to,
					 int size)
{
	struct tree_name name;
	char target[PATH_MAX];
	ssize_t length;
	int fd, error;

	if (!find_name(call, directory, at, &name))
		return CALL_CONTINUES;
	if (size <= 0)
		return call_answer(call, -EINVAL);
	fd = find_in_tree(&name, false);
	if (fd < 0)
		return call_answer(call, fd);
	length = readlinkat(fd, "", target, sizeof(target));
	error = errno == ENOENT ? EINVAL : errno; /* what it says of an empty name */
	close(fd);
	if (length < 0)
		return call_answer(call, -error);
	if (length > size)
		length = size;
	return call_answer_with(call, to, target, (size_t)length, length);
}

static enum supervised_outcome check_access(struct call *call, int directory, uint64_t at, int mode,
					    int flags)
{
	struct tree_name name;
	long ret;
	int fd;

	if (!find_name(call, directory, at, &name))
		return CALL_CONTINUES;
	fd = find_in_tree(&name, !(flags & AT_SYMLINK_NOFOLLOW));
	if (fd < 0)
		return call_answer(call, fd);
	ret = syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH);
	if (ret)
		ret = -errno;
	close(fd);
	return call_answer(call, ret);
}

/* Extended attributes, which sysfs has none of. */
static enum supervised_outcome refuse_attributes(struct call *call)
{
	struct tree_name name;

	if (!find_name(call, AT_FDCWD, call->notif->data.args[0], &name))
		return CALL_CONTINUES;
	return call_answer(call, -EOPNOTSUPP);
}

/* ------------------------------------------------------------------------------ open devices */

/* The first argument, to be closed, if it is a device, and one of those; else negative. */
static int borrow_device(struct call *call, struct device_name *device,
			 bool (*is_one)(const struct device_name *device))
{
	int fd = call_borrow(&call->caller, (int)call->notif->data.args[0]);

	if (fd < 0 || (device_of_fd(fd, device) && (!is_one || is_one(device))))
		return fd;
	close(fd);
	return -1;
}

static enum supervised_outcome control(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	void *argument = (void *)(uintptr_t)args[2];
	struct device_name device;
	int fd = borrow_device(call, &device, NULL);
	enum supervised_outcome outcome = CALL_CONTINUES;

	if (fd < 0)
		return CALL_CONTINUES;
	if (!device_is_rdma_cm(&device) && device_is_umad(&device) == umad_is_ioctl(args[1]))
		outcome = call_answer(
			call, device_is_umad(&device)
				      ? umad_ioctl(&call->caller, fd, args[1], argument)
				      : -uverbs_ioctl(&call->caller, fd, &device, argument));
	close(fd);
	return outcome;
}

static bool would_wait(int fd, ssize_t ret)
{
	return ret == -EAGAIN && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Of umad. */
static enum supervised_outcome read_message(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	struct device_name device;
	int fd = borrow_device(call, &device, device_is_umad);
	ssize_t ret;

	if (fd < 0)
		return CALL_CONTINUES;
	ret = umad_read(&call->caller, fd, (void *)(uintptr_t)args[1], args[2]);
	if (would_wait(fd, ret))
		return call_wait(call, fd);
	close(fd);
	return call_answer(call, ret);
}

static enum supervised_outcome write_command(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	struct device_name device;
	int fd = borrow_device(call, &device, device_has_write);
	ssize_t ret;

	if (fd < 0)
		return CALL_CONTINUES;
	ret = device_is_umad(&device)
		      ? umad_write(&call->caller, fd, (const void *)(uintptr_t)args[1], args[2])
		      : rdma_cm_write(&call->caller, fd, (const void *)(uintptr_t)args[1], args[2]);
	if (device_is_rdma_cm(&device) && would_wait(fd, ret))
		return call_wait(call, fd);
	close(fd);
	return call_answer(call, ret);
}

/* dup(), and fcntl() as it: the other number is to be told from those of files, too. */
static enum supervised_outcome duplicate(struct call *call, unsigned int least, bool close_on_exec)
{
	int fd = call_borrow(&call->caller, (int)call->notif->data.args[0]);
	struct device_name device;

	if (fd < 0)
		return CALL_CONTINUES;
	if (device_of_fd(fd, &device))
		return call_answer_with_fd(call, fd, CALL_FD_DEVICE, least, close_on_exec);
	if (netlink_of_fd(fd))
		return call_answer_with_fd(call, fd, CALL_FD_SOCKET, least, close_on_exec);
	close(fd);
	return CALL_CONTINUES;
}

static enum supervised_outcome change_fd(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	int what = (int)args[1];

	if (what != F_DUPFD && what != F_DUPFD_CLOEXEC)
		return CALL_CONTINUES;
	/* Behind all of ours it is the program that has chosen. */
	return args[2] >= call->supervised->range.end
		       ? CALL_CONTINUES
		       : duplicate(call, (unsigned int)args[2], what == F_DUPFD_CLOEXEC);
}

/* ----------------------------------------------------------------------------------- the call */

static enum supervised_outcome dispatch(struct call *call)
{
	const __u64 *args = call->notif->data.args;
	struct open_how how = { .flags = 0 };

	switch (call->notif->data.nr) {
#ifdef SYS_open
	case SYS_open:
		how.flags = args[1];
		how.mode = args[2];
		return open_file(call, AT_FDCWD, args[0], &how);
	case SYS_stat:
		return stat_name(call, AT_FDCWD, args[0], 0, args[1], answer_stat);
	case SYS_lstat:
		return stat_name(call, AT_FDCWD, args[0], AT_SYMLINK_NOFOLLOW, args[1],
				 answer_stat);
	case SYS_access:
		return check_access(call, AT_FDCWD, args[0], (int)args[1], 0);
	case SYS_readlink:
		return read_link(call, AT_FDCWD, args[0], args[1], (int)args[2]);
#endif
	case SYS_openat:
		how.flags = args[2];
		how.mode = args[3];
		return open_file(call, (int)args[0], args[1], &how);
	case SYS_openat2:
		return open_how(call);
	case SYS_newfstatat:
		return stat_name(call, (int)args[0], args[1], (int)args[3], args[2], answer_stat);
	case SYS_statx:
		return stat_name(call, (int)args[0], args[1], (int)args[2], args[4], answer_statx);
	case SYS_readlinkat:
		return read_link(call, (int)args[0], args[1], args[2], (int)args[3]);
	case SYS_faccessat:
		return check_access(call, (int)args[0], args[1], (int)args[2], 0);
	case SYS_faccessat2:
		return check_access(call, (int)args[0], args[1], (int)args[2], (int)args[3]);
	case SYS_getxattr:
	case SYS_lgetxattr:
	case SYS_listxattr:
	case SYS_llistxattr:
		return refuse_attributes(call);
	case SYS_fstat:
		return stat_fd(call, (int)args[0], args[1], answer_stat);
	case SYS_ioctl:
		return control(call);
	case SYS_read:
		return read_message(call);
	case SYS_write:
		return write_command(call);
	case SYS_dup:
		return duplicate(call, 0, false);
	case SYS_fcntl:
		return change_fd(call);
	case SYS_socket:
	case SYS_bind:
	case SYS_getsockname:
	case SYS_setsockopt:
	case SYS_recvfrom:
	case SYS_recvmsg:
		return supervised_socket_call(call);
	default:
		return CALL_CONTINUES;
	}
}

enum supervised_outcome supervised_call(const struct supervised *supervised,
					const struct seccomp_notif *notif, int64_t *value, int *fd)
{
	struct call call = {
		.caller = { .pid = (pid_t)notif->pid, .give = call_give, .borrow = call_borrow },
		.supervised = supervised,
		.notif = notif,
	};
	enum supervised_outcome outcome;

	outcome = notif->pid ? dispatch(&call) : CALL_CONTINUES;
	*value = call.value;
	*fd = call.wait_fd;
	return outcome;
}
