/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "privilege.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Whether the process is in our own user namespace. We may look at those of our own user; who hides
 * it from us is root.
 */
static bool same_user_namespace(pid_t pid, uid_t uid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (stat("/proc/self/ns/user", &ours))
		return false;
	if (stat(path, &theirs))
		return errno == EACCES && uid == 0;
	return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/*
 * The effective capabilities, of a process all of whose user ids are this one. A program that runs
 * with another's rights (set-user-id) may have been executed after the command was sent.
 */
static bool effective(pid_t pid, uid_t uid, uint64_t *capabilities)
{
	unsigned int real, eff, saved, fs;
	bool plain = false, found = false;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Uid: %u %u %u %u", &real, &eff, &saved, &fs) == 4)
			plain = real == uid && eff == uid && saved == uid && fs == uid;
		else if (sscanf(line, "CapEff: %" SCNx64, capabilities) == 1)
			found = true;
	}
	fclose(file);
	return plain && found;
}

int privilege_net_raw(pid_t pid, uid_t uid, struct simhca_why *why)
{
	uint64_t capabilities = 0;

	if (pid <= 0)
		return simhca_why(why, EPERM,
				  "CAP_NET_RAW is needed, and simhcad cannot see this process: it "
				  "is in another pid namespace");
	if (!effective(pid, uid, &capabilities) || !(capabilities >> CAP_NET_RAW & 1))
		return simhca_why(why, EPERM, "process %d has no CAP_NET_RAW", (int)pid);
	if (!same_user_namespace(pid, uid))
		return simhca_why(why, EPERM,
				  "process %d has CAP_NET_RAW in another user namespace than "
				  "simhcad's: start simhcad in there",
				  (int)pid);
	return 0;
}
