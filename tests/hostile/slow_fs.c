/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A file system with one file, /slow, that can be opened, and then no question about it is
 * answered: who asks for its attributes, or closes it, sleeps until this program ends. Opened with
 * O_SYNC it is not cached.
 *
 *	slow_fs MOUNTPOINT
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SLOW 2

static void attributes(fuse_ino_t ino, struct stat *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->st_ino = ino;
	attr->st_mode = ino == SLOW ? S_IFREG | 0666 : S_IFDIR | 0755;
	attr->st_nlink = 1;
	attr->st_size = 1 << 20;
}

static void lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	/* Its attributes are out of date at once, so that everybody has to ask. */
	struct fuse_entry_param entry = { .ino = SLOW, .entry_timeout = 3600 };

	if (parent != FUSE_ROOT_ID || strcmp(name, "slow")) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	attributes(SLOW, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct stat attr;

	if (ino == SLOW)
		return;
	attributes(ino, &attr);
	fuse_reply_attr(req, &attr, 3600);
}

static void open_file(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	file->direct_io = !!(file->flags & O_SYNC);
	fuse_reply_open(req, file);
}

/* The program that asks for the name has to find the file system there. */
static void ready(void *data, struct fuse_conn_info *connection)
{
	printf("ready\n");
	fflush(stdout);
}

static void no_answer(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
}

static void no_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
		    struct fuse_file_info *file)
{
}

static void no_statfs(fuse_req_t req, fuse_ino_t ino)
{
}

int main(int argc, char **argv)
{
	static const struct fuse_lowlevel_ops ops = {
		.init = ready,
		.lookup = lookup,
		.getattr = getattr,
		.open = open_file,
		.read = no_read,
		.flush = no_answer,
		.release = no_answer,
		.statfs = no_statfs,
	};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session;
	int status = 1;

	if (argc != 2)
		return 2;
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (session && !fuse_set_signal_handlers(session) &&
	    !fuse_session_mount(session, argv[1])) {
		status = fuse_session_loop(session) < 0;
		fuse_session_unmount(session);
	}
	return status;
}
