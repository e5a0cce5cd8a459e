/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of completion queues share. */
#ifndef LIBSIMHCA_CQ_IMPL_H
#define LIBSIMHCA_CQ_IMPL_H

#include "cq.h"
#include "queue/words.h"

#define MOVED_AT_A_TIME 8192 /* CQEs, while pushers wait and the main thread does nothing else */

/* Whether an event is due, as the CQ is armed for what waits in it. Under its lock. */
bool simhca_cq_disarm_for_waiting(struct simhca_cq *cq);
/* Ends the CQ's lock, and then raises the event that is due, if one is. */
void simhca_cq_unlock(struct simhca_cq *cq, bool due);
/*
 * The CQ lost a CQE: it is dead, and so are its QPs (IBTA vol. 1, 11.6.3.2 CQ error). Without its
 * lock, by who found out.
 */
void simhca_cq_tell_of_error(struct simhca_cq *cq, const char *why);

static inline void simhca_cqe_copy(const struct simhca_cqe *from, struct simhca_cqe *to)
{
	struct simhca_cqe cqe;

	simhca_words_get(&cqe, from, sizeof(cqe));
	simhca_words_put(to, &cqe, sizeof(cqe));
}

#endif
