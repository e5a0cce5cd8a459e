/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "paths.h"
#include "real.h"
#include "simhca-calls.h"
#include "simhca-runtime-dir.h"

/* ------------------------------------------------------------------------ where the tree is */

#define TREE_MAX 256

static char candidates[SIMHCA_RUNTIME_PLACES][TREE_MAX];
static int in_tmp = -1; /* which of them, or none */
static uid_t own_uid;
static atomic_int candidates_state; /* 0: not there yet, 1: being written, 2: valid */

/*
 * Not getenv(): a shell has its own, which knows the shell's variables and may not be called as
 * early as this.
 */
static const char *environment(const char *name)
{
	size_t len = strlen(name);

	for (char **var = environ; var && *var; var++)
		if (!strncmp(*var, name, len) && (*var)[len] == '=')
			return *var + len + 1;
	return NULL;
}

static void add_candidate(int *count, const char *directory)
{
	if (directory[0] == '/' && strlen(directory) + sizeof("/tree") <= sizeof(candidates[0]))
		sprintf(candidates[(*count)++], "%s/tree", directory);
}

extern const char *gnu_get_libc_version(void) __attribute__((weak));

bool paths_of_this_libc(void)
{
	return gnu_get_libc_version;
}

static void find_candidates(void)
{
	bool trusted = !getauxval(AT_SECURE);
	const char *runtime_dir = trusted ? environment("SIMHCA_RUNTIME_DIR") : NULL;
	const char *session = trusted ? environment("XDG_RUNTIME_DIR") : NULL;
	char directory[TREE_MAX];
	int count = 0;

	if (!paths_of_this_libc())
		return;
	if (runtime_dir && *runtime_dir) {
		add_candidate(&count, runtime_dir);
		return;
	}
	own_uid = geteuid();
	for (int place = 0; place < SIMHCA_RUNTIME_PLACES; place++) {
		if (place == SIMHCA_RUNTIME_TMP) {
			if (!trusted)
				break;
			in_tmp = count;
		}
		if (simhca_runtime_dir(place, session, own_uid, directory, sizeof(directory)))
			add_candidate(&count, directory);
	}
}

/*
 * A constructor, since a program may overwrite its environment later (and what setproctitle()
 * writes over is exactly those strings). Another library's constructor may be earlier and come here
 * through a hook; threads do not exist then, but a signal may, and finds no tree until the end.
 */
__attribute__((constructor)) static void paths_init(void)
{
	int state = 0;

	if (!atomic_compare_exchange_strong_explicit(&candidates_state, &state, 1,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	find_candidates();
	/* Release: whoever sees 2 sees the candidates. */
	atomic_store_explicit(&candidates_state, 2, memory_order_release);
}

void paths_use(const char *runtime_dir)
{
	int count = 0;

	memset(candidates, 0, sizeof(candidates));
	in_tmp = -1;
	add_candidate(&count, runtime_dir);
	atomic_store_explicit(&candidates_state, 2, memory_order_release);
}

/* In /tmp anybody can make a directory of that name. */
static bool is_safe(int candidate)
{
	char directory[TREE_MAX];
	struct statx stx;

	if (candidate != in_tmp)
		return true;
	memcpy(directory, candidates[candidate], sizeof(directory));
	*strrchr(directory, '/') = '\0';
	return !REAL(statx)(AT_FDCWD, directory, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_UID,
			    &stx) &&
	       S_ISDIR(stx.stx_mode) && stx.stx_uid == own_uid;
}

const char *paths_tree(void)
{
	const char *tree = NULL;
	int saved = errno;

	if (atomic_load_explicit(&candidates_state, memory_order_acquire) != 2) {
		paths_init();
		if (atomic_load_explicit(&candidates_state, memory_order_acquire) != 2)
			return NULL;
	}
	for (int i = 0; !tree && i < SIMHCA_RUNTIME_PLACES && candidates[i][0]; i++)
		if (!REAL(access)(candidates[i], F_OK) && is_safe(i))
			tree = candidates[i];
	errno = saved;
	return tree;
}

__attribute__((format(printf, 2, 0))) static bool in_tree(struct path_buf *buf, const char *fmt,
							  va_list args)
{
	const char *tree = paths_tree();
	size_t len;
	int ret;

	if (!tree)
		return false;
	len = (size_t)sprintf(buf->text, "%s/", tree);
	ret = vsnprintf(buf->text + len, sizeof(buf->text) - len, fmt, args);
	return ret >= 0 && (size_t)ret < sizeof(buf->text) - len;
}

bool paths_in_tree(struct path_buf *buf, const char *fmt, ...)
{
	va_list args;
	bool fits;

	va_start(args, fmt);
	fits = in_tree(buf, fmt, args);
	va_end(args);
	return fits;
}

int paths_read(char *text, size_t size, const char *fmt, ...)
{
	int saved = errno;
	struct path_buf buf;
	va_list args;
	ssize_t len = -ENOENT;
	int fd = -1;

	va_start(args, fmt);
	if (in_tree(&buf, fmt, args)) {
		fd = simhca_call_open(buf.text, O_RDONLY | O_CLOEXEC);
		len = -errno;
	}
	va_end(args);
	if (fd >= 0) {
		do
			len = simhca_call_read(fd, text, size - 1);
		while (len < 0 && errno == EINTR);
		if (len < 0)
			len = -errno;
		simhca_call_close(fd);
	}
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len >= 0)
		text[len] = '\0';
	errno = saved;
	return (int)len;
}

/* --------------------------------------------------------------------------- mapping a name */

/*
 * The directories that exist both here and there, down to those whose contents are the tree's.
 * Only these are walked by their names alone: none of them is a symbolic link, so `..` after one
 * is its parent. All other directories are the kernel's to walk.
 */
enum place {
	ROOT,
	SYS,
	CLASS,
	MISC,
	PCI_BUS,
	BUS,
	BUS_PCI,
	PCI_DEVICES,
	DEVICES,
	DEV,
	PROC,
	PROC_SYS,
	PROC_NET,
	FIRST_IN_TREE
};

static const struct {
	enum place parent;
	const char *name;
	const char *path;
	/* All names that begin so, some of them links; path is that of the directory they are in. */
	bool is_prefix;
} places[] = {
	[ROOT] = { ROOT, "", "", false },
	[SYS] = { ROOT, "sys", "/sys", false },
	[CLASS] = { SYS, "class", "/sys/class", false },
	[MISC] = { CLASS, "misc", "/sys/class/misc", false },
	[PCI_BUS] = { CLASS, "pci_bus", "/sys/class/pci_bus", false },
	[BUS] = { SYS, "bus", "/sys/bus", false },
	[BUS_PCI] = { BUS, "pci", "/sys/bus/pci", false },
	[PCI_DEVICES] = { BUS_PCI, "devices", "/sys/bus/pci/devices", false },
	[DEVICES] = { SYS, "devices", "/sys/devices", false },
	[DEV] = { ROOT, "dev", "/dev", false },
	[PROC] = { ROOT, "proc", "/proc", false },
	[PROC_SYS] = { PROC, "sys", "/proc/sys", false },
	[PROC_NET] = { PROC_SYS, "net", "/proc/sys/net", false },
	[FIRST_IN_TREE] = { CLASS, "infiniband", "/sys/class/infiniband", false },
	{ CLASS, "infiniband_verbs", "/sys/class/infiniband_verbs", false },
	{ CLASS, "infiniband_mad", "/sys/class/infiniband_mad", false },
	{ CLASS, "infiniband_cm", "/sys/class/infiniband_cm", false },
	{ MISC, "rdma_cm", "/sys/class/misc/rdma_cm", false },
	{ DEVICES, "simhca", "/sys/devices/simhca", false },
	/* With a profile (simhcad/device/device_tree.c). */
	{ DEVICES, "pci5343:", "/sys/devices", true },
	{ PCI_BUS, "5343:", "/sys/class/pci_bus", true },
	{ PCI_DEVICES, "5343:", "/sys/bus/pci/devices", true },
	{ DEV, "infiniband", "/dev/infiniband", false },
	{ PROC_NET, "rdma_ucm", "/proc/sys/net/rdma_ucm", false },
};
#define NUM_PLACES ((int)(sizeof(places) / sizeof(*places)))

struct component {
	const char *start;
	size_t len;
};

static struct component next_component(const char *path)
{
	struct component c;

	while (*path == '/')
		path++;
	c.start = path;
	c.len = (size_t)(strchrnul(path, '/') - path);
	return c;
}

static bool component_is(struct component c, const char *name)
{
	return !strncmp(c.start, name, c.len) && !name[c.len];
}

static bool component_begins(struct component c, const char *name)
{
	size_t length = strlen(name);

	return length <= c.len && !strncmp(c.start, name, length);
}

/* The place of that name in another one, or ROOT. */
static int find_place(int parent, struct component c)
{
	for (int i = SYS; i < NUM_PLACES; i++)
		if ((int)places[i].parent == parent && places[i].name[0] == c.start[0] &&
		    (component_is(c, places[i].name) ||
		     (places[i].is_prefix && component_begins(c, places[i].name))))
			return i;
	return ROOT;
}

/*
 * Where rest, the part of a name below a directory, leaves that directory by `..`; or NULL. Below
 * another name it does not: that may be a symbolic link.
 */
static const char *find_way_out(const char *rest)
{
	struct component c = next_component(rest);

	while (component_is(c, "."))
		c = next_component(c.start + c.len);
	return component_is(c, "..") ? c.start + c.len : NULL;
}

static const char *join(struct path_buf *buf, const char *a, const char *b, const char *c)
{
	size_t la = strlen(a), lb = strlen(b), lc = strlen(c);

	if (la + lb + lc < sizeof(buf->text)) {
		memcpy(buf->text, a, la);
		memcpy(buf->text + la, b, lb);
		memcpy(buf->text + la + lb, c, lc + 1);
	} else {
		/* Longer than a file's name can be on Linux: the kernel returns ENAMETOOLONG. */
		memset(buf->text, 'x', sizeof(buf->text) - 1);
		buf->text[sizeof(buf->text) - 1] = '\0';
	}
	return buf->text;
}

const char *paths_map_absolute(struct path_buf *buf, const char *path)
{
	const char *tree = NULL;
	const char *rest = path;
	int place = ROOT, next;

	for (;;) {
		struct component c = next_component(rest);
		const char *end = c.start + c.len;

		if (component_is(c, ".")) {
			rest = end;
			continue;
		}
		if (component_is(c, "..")) {
			place = (int)places[place].parent;
			rest = end;
			continue;
		}
		next = c.len ? find_place(place, c) : ROOT;
		if (next == ROOT) {
			/* Out of the tree again, or never in it: the rest is the kernel's. */
			return tree ? join(buf, places[place].path, "/", c.start) : path;
		}
		place = next;
		rest = end;
		if (place < FIRST_IN_TREE)
			continue;

		if (!tree && !(tree = paths_tree()))
			return path;
		if (places[place].is_prefix)
			return join(buf, tree, places[place].path, c.start - 1);
		rest = find_way_out(end);
		if (!rest)
			return join(buf, tree, places[place].path, end);
		place = (int)places[place].parent;
	}
}

void paths_unmap(char *path)
{
	char canonical[PATH_MAX];
	const char *tree;
	int saved = errno;
	size_t len;

	if (!strstr(path, "/tree/"))
		return;
	tree = paths_tree();
	if (tree && REAL(realpath)(tree, canonical)) {
		len = strlen(canonical);
		if (!strncmp(path, canonical, len) &&
		    (!strncmp(path + len, "/sys/", 5) || !strncmp(path + len, "/dev/", 5) ||
		     !strncmp(path + len, "/proc/", 6)))
			memmove(path, path + len, strlen(path + len) + 1);
	}
	errno = saved;
}
