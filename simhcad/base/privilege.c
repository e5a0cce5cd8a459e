/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "privilege.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* We may look at the namespaces of our own user; who hides them from us is root. */
bool privilege_same_namespace(pid_t pid, uid_t uid, const char *kind)
{
	struct stat ours, theirs;
	char path[64];

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &ours))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
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

/* A capability, and what it is called. */
static int check(pid_t pid, uid_t uid, int capability, const char *name, struct simhca_why *why)
{
	uint64_t capabilities = 0;

	if (pid <= 0)
		return simhca_why(why, EPERM,
				  "%s is needed, and simhcad cannot see this process: it is in "
				  "another pid namespace",
				  name);
	if (!effective(pid, uid, &capabilities) || !(capabilities >> capability & 1))
		return simhca_why(why, EPERM, "process %d has no %s", (int)pid, name);
	if (!privilege_same_namespace(pid, uid, "user"))
		return simhca_why(why, EPERM,
				  "process %d has %s in another user namespace than simhcad's: "
				  "start simhcad in there",
				  (int)pid, name);
	return 0;
}

int privilege_net_raw(pid_t pid, uid_t uid, struct simhca_why *why)
{
	return check(pid, uid, CAP_NET_RAW, "CAP_NET_RAW", why);
}

bool privilege_net_admin(pid_t pid, uid_t uid)
{
	return !check(pid, uid, CAP_NET_ADMIN, "CAP_NET_ADMIN", NULL);
}

int privilege_net_bind_service(pid_t pid, uid_t uid, struct simhca_why *why)
{
	return check(pid, uid, CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE", why);
}
