/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "link/wire/unsent.h"
#include "link/wire/wire_impl.h"
#include "simhca-clock.h"

void simhca_unsent_open(struct simhca_unsent *unsent)
{
	memset(unsent, 0, sizeof(*unsent));
	simhca_mutex_init(&unsent->lock, SIMHCA_LOCK_UNSENT);
}

void simhca_unsent_close(struct simhca_unsent *unsent)
{
	pthread_mutex_destroy(&unsent->lock);
}

/* The entry of the address, or the one that is to be given to it: the oldest. Under the lock. */
static struct simhca_unsent_address *entry_for(struct simhca_unsent *unsent,
					       const union simhca_gid *to)
{
	struct simhca_unsent_address *oldest = &unsent->address[0];

	for (unsigned int i = 0; i < SIMHCA_UNSENT_ADDRESSES; i++) {
		struct simhca_unsent_address *entry = &unsent->address[i];

		if (entry->error && !memcmp(&entry->to, to, sizeof(*to)))
			return entry;
		if (entry->at_ns < oldest->at_ns)
			oldest = entry;
	}
	return oldest;
}

void simhca_unsent_add(struct simhca_unsent *unsent, const union simhca_gid *to, int error)
{
	struct simhca_unsent_address *entry;

	pthread_mutex_lock(&unsent->lock);
	entry = entry_for(unsent, to);
	if (entry->error != error || memcmp(&entry->to, to, sizeof(*to)))
		*entry = (struct simhca_unsent_address){ .to = *to, .error = error };
	entry->at_ns = simhca_now_ns();
	pthread_mutex_unlock(&unsent->lock);
}

int simhca_unsent_error(struct simhca_unsent *unsent, const union simhca_gid *to, uint64_t ns)
{
	const struct simhca_unsent_address *entry;
	int error = 0;

	pthread_mutex_lock(&unsent->lock);
	entry = entry_for(unsent, to);
	if (entry->error && !memcmp(&entry->to, to, sizeof(*to)) &&
	    simhca_now_ns() - entry->at_ns <= ns)
		error = entry->error;
	pthread_mutex_unlock(&unsent->lock);
	return error;
}

enum simhca_reason simhca_unsent_reason(int error)
{
	switch (error) {
	case EMSGSIZE:
		return SIMHCA_REASON_WIRE_TOO_LONG;
	case ENETUNREACH:  /* no route */
	case EHOSTUNREACH: /* a route of type unreachable */
	case ENETDOWN:
		return SIMHCA_REASON_WIRE_NO_ROUTE;
	case EPERM:  /* a filter dropped it */
	case EACCES: /* a route of type prohibit */
		return SIMHCA_REASON_WIRE_FORBIDDEN;
	case EADDRNOTAVAIL: /* simhcad has no socket of the address that the QP sends from */
		return SIMHCA_REASON_WIRE_CLOSED;
	default:
		return SIMHCA_REASON_NONE;
	}
}

void simhca_wire_unsent(struct simhca_fabric *fabric, const union simhca_gid *to, int error)
{
	simhca_unsent_add(&fabric->wire->unsent, to, error);
}

int simhca_wire_send_error(struct simhca_fabric *fabric, const union simhca_gid *to, uint64_t ns)
{
	return fabric->wire ? simhca_unsent_error(&fabric->wire->unsent, to, ns) : 0;
}
