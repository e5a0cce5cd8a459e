/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime_dir.h"

int runtime_dir_absolute(const char *wanted, char path[PATH_MAX])
{
	char cwd[PATH_MAX] = "";
	size_t length;
	int used;

	path[0] = '\0';
	if (wanted[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return -errno;
	used = snprintf(path, PATH_MAX, "%s%s%s", cwd, wanted[0] == '/' ? "" : "/", wanted);
	if (used < 0 || used >= PATH_MAX)
		return -ENAMETOOLONG;
	length = (size_t)used;
	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
	return length > RUNTIME_DIR_MAX ? -ENAMETOOLONG : 0;
}
