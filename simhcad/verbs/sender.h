/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which process has sent a request, and its memory. */
#ifndef SIMHCAD_SENDER_H
#define SIMHCAD_SENDER_H

#include <stdbool.h>

struct request;
struct session;
struct simhca_mm;
struct simhca_why;

/*
 * Whether the process that has sent this is known: 0, *reachable says whether its memory can be
 * reached, or a negative errno. -EINPROGRESS: somebody looks at it, and the request is served again.
 */
int sender_know(struct session *session, struct request *request, bool *reachable,
		struct simhca_why *why);
/* The memory of the request's sender. 0 or a negative errno, as above. */
int sender_memory(struct session *session, struct request *request, struct simhca_mm **mm,
		  struct simhca_why *why);
/* After process_memory() has failed, with its errno. */
int sender_has_no_memory(struct simhca_why *why);

#endif
