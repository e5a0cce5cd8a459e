/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sessions by the ids of their contexts. */
#include "daemon.h"
#include "session.h"

void session_has_context(struct session *session, struct simhca_context *context)
{
	struct daemon *daemon = session->device->daemon;

	session->context = context;
	session->context_id = simhca_context_id(context);
	HASH_ADD(hh, daemon->contexts, context_id, sizeof(session->context_id), session);
}

struct session *session_of(const struct daemon *daemon, uint32_t context)
{
	struct session *session;

	HASH_FIND(hh, daemon->contexts, &context, sizeof(context), session);
	return session;
}
