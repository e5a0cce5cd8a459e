/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a provider tells of its program, and the device cannot see (SAY, simhca-abi-cmd.h). */
#ifndef SIMHCAD_SAID_H
#define SIMHCAD_SAID_H

#include <sys/types.h>

#include "simhca-device.h"

struct session;
struct simhca_say_req;
struct simhca_why;

/* All but the program's name; its text is printable, and ends. 0 or -errno, and why says. */
int said(struct session *session, const struct simhca_say_req *req, struct simhca_why *why);
/* Likewise, of a process that could not open the device. */
int said_unopened(const struct session *session, pid_t pid, const struct simhca_say_req *req,
		  struct simhca_why *why);

#endif
