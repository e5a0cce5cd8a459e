/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a call ends that a program has made. */
#ifndef SHCA_PROVIDER_RESULT_H
#define SHCA_PROVIDER_RESULT_H

#include <errno.h>
#include <stddef.h>

/*
 * How a verb ends that returns an error: errno has it too, as with a kernel device, for programs
 * use perror(). A verb whose last step is a command need not: that has set it.
 */
static inline int shca_result(int err)
{
	if (err)
		errno = err;
	return err;
}

/* For a verb that returns a pointer. */
static inline void *shca_null(int err)
{
	errno = err;
	return NULL;
}

#endif
