/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tag matching: messages find buffers by their tags. */
#ifndef LIBSIMHCA_TAG_MATCH_H
#define LIBSIMHCA_TAG_MATCH_H

#include "transport/packet.h"
#include "transport/wqe.h"

struct simhca_qp;
struct simhca_tags;
struct simhca_worker;

#define SIMHCA_TMH_BYTES 16u

static inline bool simhca_tm_matched(const struct simhca_tm_message *message)
{
	return message->kind == SIMHCA_TM_EAGER || message->kind == SIMHCA_TM_RNDV;
}

/* Tag matching (tag_match.c): NULL when out of memory; free() ends it. */
struct simhca_tags *simhca_tags_create(uint32_t max_tags);
/* Takes, for the message that this first packet begins, an entry of the list or a receive WQE. */
enum simhca_take simhca_tm_take(struct simhca_worker *worker, struct simhca_qp *qp,
				const struct simhca_packet *packet);
/* A receive's CQE becomes one of the QP's tag-matching SRQ. */
void simhca_tm_fill_cqe(const struct simhca_qp *qp, struct simhca_cqe *cqe);
/* The rendezvous that has just matched is to be fetched, by the QP's requester. Under resp_lock. */
void simhca_rndv_add(struct simhca_qp *qp);
/* Whether the oldest one has a step to make; what cannot be done ends here. Under req_lock. */
bool simhca_rndv_start(struct simhca_qp *qp);
/* That step, as a send WQE would ask for it. */
void simhca_rndv_load(struct simhca_qp *qp, struct simhca_send *send);
void simhca_rndv_complete(struct simhca_qp *qp, enum simhca_wc_status status,
			  enum simhca_reason reason);
/* Forgets all of them. Under both locks. */
void simhca_rndv_drop_all(struct simhca_qp *qp, bool flush);

#endif
