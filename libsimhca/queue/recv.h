/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Receive WQEs, and how one is taken of a queue from which several take: an SRQ, or the receives of a
 * UD QP that programs send to. Engines and the fast path do so by these functions.
 */
#ifndef LIBSIMHCA_RECV_H
#define LIBSIMHCA_RECV_H

#include "srq_claim.h"

/* A receive WQE, as it was read last: the client can change it at any time. */
struct simhca_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t record;
	uint64_t length; /* of all SGEs */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
};

/* What comes of a message's asking for a receive WQE. */
enum simhca_consume {
	SIMHCA_CONSUME_OK,
	SIMHCA_CONSUME_EMPTY,
	SIMHCA_CONSUME_SHORT,	/* the oldest is too short, and stays where it is */
	SIMHCA_CONSUME_CORRUPT, /* the QP's own memory, or that of its SRQ, makes no sense */
	SIMHCA_CONSUME_BROKEN,	/* so does what is not the QP's; its owner has been told */
};

/* Reads a receive WQE from where it lies; false: more SGEs than there may be. */
static inline bool simhca_recv_load(const char *slot, uint32_t max_sge, struct simhca_recv *recv)
{
	struct simhca_recv_wqe wqe;
	uint32_t bytes;

	simhca_copy_in(&wqe, slot, sizeof(wqe));
	if (!simhca_gate_recv_wqe(&wqe, max_sge, &bytes))
		return false;
	recv->wr_id = wqe.wr_id;
	recv->num_sge = wqe.num_sge;
	recv->record = wqe.record;
	simhca_copy_in(recv->sge, slot + sizeof(wqe), bytes);
	/* A receive buffer may be larger than any message: only the sum matters. */
	recv->length = simhca_gate_length(recv->sge, recv->num_sge);
	return true;
}

static inline void simhca_recv_save(char *copy, const struct simhca_recv *recv)
{
	struct simhca_recv_wqe wqe = { .wr_id = recv->wr_id,
				       .num_sge = recv->num_sge,
				       .record = recv->record };

	memcpy(copy, &wqe, sizeof(wqe));
	memcpy(copy + sizeof(wqe), recv->sge, recv->num_sge * sizeof(recv->sge[0]));
}

/*
 * Whether a message that has come whole may wait, in the receive's slot or beside the CQ, until the program
 * polls: it is short, and fits into the first SGE behind so many bytes.
 */
static inline bool simhca_recv_may_wait(const struct simhca_recv *recv, uint64_t behind,
					uint64_t length)
{
	return length && length <= SIMHCA_SLOT_DATA && behind + length <= recv->sge[0].length;
}

/* The oldest WQE is that of *head, which others may take meanwhile. */
static inline enum simhca_consume simhca_recv_look(const struct simhca_srq_view *queue,
						   uint64_t *head, struct simhca_recv *recv)
{
	int none = simhca_srq_look(queue, head);

	if (none)
		return none < 0 ? SIMHCA_CONSUME_EMPTY : SIMHCA_CONSUME_CORRUPT;
	return simhca_recv_load(simhca_srq_slot(queue, simhca_srq_ci(*head)), queue->max_sge, recv)
		       ? SIMHCA_CONSUME_OK
		       : SIMHCA_CONSUME_CORRUPT;
}

/* Takes it for the claimant of that number, or for 0; it lies in `copy` before. False: look again. */
static inline bool simhca_recv_take(const struct simhca_srq_view *queue, uint64_t head,
				    uint32_t number, char *copy, const struct simhca_recv *recv)
{
	simhca_store();
	simhca_recv_save(copy, recv);
	return simhca_srq_claim(queue, head, number);
}

#endif
