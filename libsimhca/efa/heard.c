/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which parcels of other hosts' flows are done. A flow is forgotten once nothing of it came for a while, and
 * not before, so there are limits: of the flows of a context, and, so that no host leaves the others
 * without, of those that come from one host.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "wire.h"

#define FORGOTTEN_NS UINT64_C(10000000000) /* since a flow was used */

/* To the end of the lists, as it is used now. */
static void append(struct simhca_efa *efa, struct efa_heard *heard)
{
	DL_APPEND(efa->heard, heard);
	DL_APPEND2(heard->host->oldest, heard, host_prev, host_next);
}

static void take_out(struct simhca_efa *efa, struct efa_heard *heard)
{
	DL_DELETE(efa->heard, heard);
	DL_DELETE2(heard->host->oldest, heard, host_prev, host_next);
}

static void forget(struct efa_heard *heard)
{
	struct simhca_efa *efa = heard->qp->context->efa;
	struct efa_host *host = heard->host;

	take_out(efa, heard);
	HASH_DEL(heard->qp->heard, heard);
	atomic_fetch_sub(&host->flows, 1);
	efa_host_release(efa, host);
	efa->flows--;
	free(heard);
}

void efa_heard_forget(struct efa_qp *qp)
{
	while (qp->heard)
		forget(qp->heard);
}

/* Whether there is room for another flow of the host: one may have to go. */
static bool make_room(struct simhca_efa *efa, const union simhca_gid *gid, uint64_t now)
{
	const struct efa_host *host = efa_host_find(efa, gid);
	struct efa_heard *oldest;

	if (host && atomic_load(&host->flows) >= EFA_FLOWS_OF_HOST)
		oldest = host->oldest;
	else if (efa->flows >= EFA_FLOWS)
		oldest = efa->heard;
	else
		return true;
	if (now - oldest->used_ns < FORGOTTEN_NS)
		return false;
	forget(oldest);
	return true;
}

/* NULL: there is no room. */
static struct efa_heard *add(struct efa_qp *qp, const struct efa_sender *from, uint64_t now)
{
	struct simhca_efa *efa = qp->context->efa;
	struct efa_heard *heard;

	if (!make_room(efa, &from->gid, now))
		return NULL;
	heard = calloc(1, sizeof(*heard));
	if (!heard)
		return NULL;
	heard->host = efa_host_join(efa, &from->gid);
	if (!heard->host) {
		free(heard);
		return NULL;
	}
	heard->from = *from;
	heard->qp = qp;
	atomic_fetch_add(&heard->host->flows, 1);
	efa->flows++;
	append(efa, heard);
	HASH_ADD(hh, qp->heard, from, sizeof(heard->from), heard);
	return heard;
}

enum efa_number efa_heard_judge(struct efa_qp *qp, const struct efa_sender *from,
				const struct efa_wire_header *header, uint64_t now,
				struct efa_heard **heard, enum efa_status *status)
{
	struct simhca_efa *efa = qp->context->efa;
	const uint32_t number = header->number;
	struct efa_heard *found;
	int32_t ahead;

	HASH_FIND(hh, qp->heard, from, sizeof(*from), found);
	/* Its sender's clock may have been set back: what is on its way still is not as old as that. */
	if (found && header->flow < found->flow && now - found->used_ns < FORGOTTEN_NS)
		return EFA_NUMBER_STALE;
	if (!found || header->flow != found->flow) {
		if (number >= EFA_WINDOW)
			return EFA_NUMBER_UNKNOWN;
		if (!found)
			found = add(qp, from, now);
		if (!found)
			return EFA_NUMBER_STALE;
		found->flow = header->flow;
		found->highest = 0;
		memset(found->done, 0, sizeof(found->done));
	}
	found->used_ns = now;
	take_out(efa, found);
	append(efa, found);
	*heard = found;
	ahead = (int32_t)(number - found->highest);
	if (ahead <= -(int32_t)EFA_WINDOW)
		return EFA_NUMBER_STALE;
	/* None of those before is under way any more: their sender has given up some. */
	if (ahead > (int32_t)EFA_WINDOW) {
		memset(found->done, 0, sizeof(found->done));
		found->highest = number;
		return EFA_NUMBER_NEW;
	}
	for (; ahead > 0; ahead--)
		found->done[++found->highest % EFA_WINDOW] = 0;
	if (!found->done[number % EFA_WINDOW])
		return EFA_NUMBER_NEW;
	*status = (enum efa_status)(found->done[number % EFA_WINDOW] - 1);
	return EFA_NUMBER_DONE;
}
