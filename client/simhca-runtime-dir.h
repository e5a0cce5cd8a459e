/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The runtime directory, where programs, the tool and the daemon meet: what --runtime-dir or
 * SIMHCA_RUNTIME_DIR names, or else the first of these places that the user may use.
 */
#ifndef SIMHCA_RUNTIME_DIR_H
#define SIMHCA_RUNTIME_DIR_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum simhca_runtime_place {
	SIMHCA_RUNTIME_SESSION, /* in $XDG_RUNTIME_DIR */
	SIMHCA_RUNTIME_RUN,
	SIMHCA_RUNTIME_TMP, /* where anybody can have made a directory of that name */
	SIMHCA_RUNTIME_PLACES,
};

/* As snprintf(); 0: there is no such place. session is XDG_RUNTIME_DIR's value, or NULL. */
static inline int simhca_runtime_dir(enum simhca_runtime_place place, const char *session,
				     uid_t user, char *path, size_t size)
{
	switch (place) {
	case SIMHCA_RUNTIME_SESSION:
		return session && session[0] == '/' ? snprintf(path, size, "%s/simhca", session)
						    : 0;
	case SIMHCA_RUNTIME_RUN:
		return snprintf(path, size, "/run/simhca");
	default:
		return snprintf(path, size, "/tmp/simhca-%u", (unsigned int)user);
	}
}

#endif
