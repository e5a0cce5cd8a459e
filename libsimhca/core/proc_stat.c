/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proc_stat.h"

const char *simhca_proc_stat(const char *path, char text[SIMHCA_PROC_STAT])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *name_end;
	ssize_t length;

	if (fd < 0)
		return NULL;
	length = read(fd, text, SIMHCA_PROC_STAT - 1);
	close(fd);
	if (length <= 0)
		return NULL;
	text[length] = '\0';
	/* The name is in parentheses, and may have any character, these as well. */
	name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}
