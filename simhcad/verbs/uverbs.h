/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The kernel's write commands, for drivers that know only those. What each command means is the same
 * for all drivers (uverbs.c), and is done by the commands that the project's own provider has, where
 * there is such a one. What a driver and its device tell each other beside that is the business of
 * the kind of device (uverbs_efa.c).
 */
#ifndef SIMHCAD_UVERBS_H
#define SIMHCAD_UVERBS_H

#include "session/session.h"

/* The provider's commands, which are above. */
typedef const struct command *uverbs_find(unsigned int number);

/* A command: what came in, and what goes out. All sizes have been checked. */
struct uverbs_call {
	struct session *session;
	struct request *request;
	struct reply *reply; /* for descriptors */
	struct simhca_why *why;
	uverbs_find *find;
	const uint8_t *in[SIMHCA_UVERBS_PARTS];
	uint16_t in_size[SIMHCA_UVERBS_PARTS];
	struct simhca_uverbs_write_reply *answer;
};

/* uverbs_call.c: copies a part that came in; what the driver did not say is 0. */
void uverbs_in(const struct uverbs_call *call, enum simhca_uverbs_part part, void *to, size_t size);
/* Appends a part of the answer: the core's first, once each. */
void uverbs_out(struct uverbs_call *call, enum simhca_uverbs_part part, const void *from,
		size_t size);
/* Runs a command of the provider's in its place. */
int uverbs_run(struct uverbs_call *call, unsigned int command, void *body, struct reply *reply);

/* A command of the kind of device; NULL: it has none such. */
typedef int uverbs_function(struct uverbs_call *call);
uverbs_function *uverbs_efa_find(uint32_t command);

/* Handlers of commands. */
int uverbs_write(struct session *session, struct request *request, struct reply *reply,
		 struct simhca_why *why, uverbs_find *find);
command_handler uverbs_map, uverbs_watch;

#endif
