/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a client is privileged to do. Where a kernel would look at the caller's capabilities the
 * daemon has to look at the process that sent the command, and at nothing that it says.
 *
 * The measure is the daemon's own user namespace: a capability counts if a process has it there.
 * Root of a container or of `unshare --user` counts for a daemon that runs in the same one, and for
 * no other. A user without capabilities has none here either, also if the daemon is hers.
 */
#ifndef SIMHCAD_PRIVILEGE_H
#define SIMHCAD_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "simhca-device.h"

/*
 * 0 if the process has CAP_NET_RAW, or -EPERM and why not. pid and uid are those that the kernel
 * sent along; pid 0 is a process that cannot be seen from here.
 */
int privilege_net_raw(pid_t pid, uid_t uid, struct simhca_why *why);
/* Likewise CAP_NET_BIND_SERVICE. */
int privilege_net_bind_service(pid_t pid, uid_t uid, struct simhca_why *why);
/* Likewise CAP_NET_ADMIN. */
bool privilege_net_admin(pid_t pid, uid_t uid);
/* Whether the process is in our own namespace of this kind, one of the names in /proc/self/ns. */
bool privilege_same_namespace(pid_t pid, uid_t uid, const char *kind);

#endif
