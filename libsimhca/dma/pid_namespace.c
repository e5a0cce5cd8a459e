/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Numbers of processes in pid namespaces other than ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dma.h"

static bool namespace_of(pid_t pid, struct stat *found)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return !stat(path, found);
}

static bool same(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* Its number in its own namespace: the last of the line that has one for each, from ours inwards (proc(5)). */
static pid_t innermost(pid_t pid)
{
	char line[256], path[48];
	pid_t found = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, "NSpid:\t", 7))
			found = (pid_t)strtol(strrchr(line, '\t') + 1, NULL, 10);
	fclose(status);
	return found;
}

pid_t simhca_pid_seen_by(pid_t asker, pid_t pid)
{
	struct stat ours, askers, its;

	/* Where nothing can be learnt, ours is as good as any: what it leads to is compared with a secret. */
	if (stat("/proc/self/ns/pid", &ours) || !namespace_of(asker, &askers) ||
	    same(&ours, &askers))
		return pid;
	return namespace_of(pid, &its) && same(&askers, &its) ? innermost(pid) : 0;
}
