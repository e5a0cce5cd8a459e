/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The path of a runtime directory, as the daemon and the tool take it. */
#ifndef SIMHCA_COMMON_RUNTIME_DIR_H
#define SIMHCA_COMMON_RUNTIME_DIR_H

#include <limits.h>
#include <sys/un.h>

#define READ_ONLY_HINT                                                                             \
	"a container has a place for it with --tmpfs /tmp; elsewhere, name one with --runtime-dir"

/* Sockets live in it, and a socket's address is short. This is the longest of them. */
#define RUNTIME_DIR_MAX                                                                            \
	(sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/tree/dev/infiniband/uverbs99"))

/* Absolute, without slashes at its end. 0 or -errno; -ENAMETOOLONG: path has it even so. */
int runtime_dir_absolute(const char *wanted, char path[PATH_MAX]);

#endif
