/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What kind of file a client has handed over, told without asking the file itself.
 *
 * Nearly every call on a stranger's descriptor can sleep for as long as the stranger likes: fstat()
 * and fstatfs() ask the server of a FUSE file, setsockopt() and send() wait for a TCP socket's
 * lock. The kind is found by calls that look at the kernel's own objects only, and says what may be
 * done.
 */
#ifndef LIBSIMHCA_FILE_KIND_H
#define LIBSIMHCA_FILE_KIND_H

#include <stdbool.h>

enum simhca_file_kind {
	SIMHCA_FILE_OTHER,	 /* nothing may be done with it but to have it closed */
	SIMHCA_FILE_UNIX_SOCKET, /* with a connection: sendmsg() with MSG_DONTWAIT, shutdown() */
	SIMHCA_FILE_MEMORY,	 /* memfd, tmpfs, hugetlbfs: fstat(), mmap() */
	SIMHCA_FILE_DMABUF,	 /* fstat(), lseek(), mmap() */
	SIMHCA_FILE_USERFAULTFD,
};

enum simhca_file_kind simhca_file_kind(int fd);

/*
 * Of a file that lies in memory: whether its pages are ordinary ones. A hole in a file of huge pages, which
 * its owner can make whatever is sealed, needs one when it is accessed; there may be none, and that is
 * a signal.
 */
bool simhca_file_has_ordinary_pages(int fd);

/*
 * Whether no access to a mapping of it can be a signal, whatever its owner does from now on: a memfd of
 * ordinary pages that cannot shrink. Where the kernel overcommits no memory
 * (vm.overcommit_memory=2), there may be no page for any hole.
 */
bool simhca_file_never_fails(int fd);

#endif
