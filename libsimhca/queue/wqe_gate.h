/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The gate for what programs write in rings: work requests, and the indices of CQs and SRQs. As in
 * gate.h, the functions are pure, judge private copies, and rely on what no program can write: the
 * sizes of rings, and the limits of a QP. Their invariants are proven in tests/cbmc.
 *
 * wqe.c and recv.h are the only files that read WQEs, cqe_reservation.h that reads the indices and claims of
 * CQs, and srq_claim.h those of SRQs (scripts/check-rooms).
 */
#ifndef LIBSIMHCA_WQE_GATE_H
#define LIBSIMHCA_WQE_GATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "gate.h"
#include "simhca-abi.h"

/*
 * Copies what a program may be writing. What is judged is the copy, as the compiler cannot go back
 * to where it was read from: it has to take it that memory has changed behind the copy.
 */
static inline void simhca_copy_in(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	__asm__ volatile("" : : "r"(to) : "memory");
}

/* ------------------------------------------------------------------------------------ WQEs */

/*
 * How much of a send WQE's slot follows its header: inline data, or SGEs. NONE: *bytes is at most
 * max_inline with inline data, and num_sge is 0; else it is num_sge SGEs, at most max_sge. So it is
 * within the slot, whose stride was made for both limits.
 */
static inline enum simhca_reason simhca_gate_send_wqe(struct simhca_send_wqe *wqe, uint32_t max_sge,
						      uint32_t max_inline, uint32_t *bytes)
{
	if (wqe->flags & SIMHCA_WQE_INLINE) {
		wqe->num_sge = 0;
		*bytes = wqe->inline_len;
		return *bytes > max_inline ? SIMHCA_REASON_WQE_INLINE_TOO_LONG : SIMHCA_REASON_NONE;
	}
	*bytes = wqe->num_sge * (uint32_t)sizeof(struct simhca_sge);
	return wqe->num_sge > max_sge ? SIMHCA_REASON_WQE_TOO_MANY_SGE : SIMHCA_REASON_NONE;
}

/* Reads a send WQE's header from where it lies, and judges it so. */
static inline enum simhca_reason simhca_send_load(const char *slot, uint32_t max_sge,
						  uint32_t max_inline, struct simhca_send_wqe *wqe,
						  uint32_t *bytes)
{
	simhca_copy_in(wqe, slot, sizeof(*wqe));
	return simhca_gate_send_wqe(wqe, max_sge, max_inline, bytes);
}

/*
 * What is wrong with an operation, whatever memory it names. NONE: the QP's service has it (IBTA vol. 1, table
 * 38); a response's data do not go to the WQE; what max_rd_atomic counts may be under way at all; an atomic has 8
 * bytes.
 */
static inline enum simhca_reason simhca_gate_operation(const struct simhca_send_wqe *wqe,
						       uint32_t qp_type, uint64_t length,
						       uint32_t max_rd_atomic)
{
	const uint32_t has = simhca_opcode(wqe->opcode)->has;
	const uint32_t service = simhca_is_reliable(qp_type) ? SIMHCA_OP_RELIABLE
				 : qp_type == SIMHCA_QPT_UC  ? SIMHCA_OP_UC
							     : SIMHCA_OP_UNCONNECTED;

	if (!(has & service))
		return SIMHCA_REASON_WQE_BAD_OPCODE;
	if (!(has & SIMHCA_OP_READ_LIKE))
		return SIMHCA_REASON_NONE;
	if ((has & SIMHCA_OP_FETCHES) && (wqe->flags & SIMHCA_WQE_INLINE))
		return SIMHCA_REASON_WQE_BAD_OPCODE;
	if (!max_rd_atomic)
		return SIMHCA_REASON_READ_NOT_ENABLED;
	if (((has & SIMHCA_OP_ATOMIC) || wqe->opcode == SIMHCA_WR_ATOMIC_WRITE) && length != 8)
		return SIMHCA_REASON_ATOMIC_BAD_LENGTH;
	return SIMHCA_REASON_NONE;
}

/*
 * The same of a receive WQE. True: *bytes is num_sge SGEs, at most max_sge.
 */
static inline bool simhca_gate_recv_wqe(const struct simhca_recv_wqe *wqe, uint32_t max_sge,
					uint32_t *bytes)
{
	if (wqe->num_sge > max_sge)
		return false;
	*bytes = wqe->num_sge * (uint32_t)sizeof(struct simhca_sge);
	return true;
}

/* Bytes of up to SIMHCA_MAX_SGE SGEs; the sum of 32 lengths of 32 bits does not overflow. */
static inline uint64_t simhca_gate_length(const struct simhca_sge *sge, uint32_t num_sge)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < num_sge; i++)
		length += sge[i].length;
	return length;
}

/* ------------------------------------------------------------------------------------- CQs */

/*
 * CQEs that wait in a CQ: no more than it has slots, whatever the indices say. So whoever goes from
 * pi - waiting to pi comes to an end, and sees each slot once.
 */
static inline uint32_t simhca_gate_waiting(uint32_t pi, uint32_t ci, uint32_t entries)
{
	uint32_t waiting = pi - ci;

	return waiting < entries ? waiting : entries;
}

/*
 * CQEs [next, *end) that are moved to another ring now. Before next they are there already, or are
 * not wanted any more. True: pi - next <= waiting, of which no more than `most` lie before *end;
 * and all that wait fit in both rings.
 */
static inline bool simhca_gate_move(uint32_t pi, uint32_t ci, uint32_t entries, uint32_t cqe,
				    uint32_t most, uint32_t *next, uint32_t *end)
{
	uint32_t waiting = pi - ci;

	if (waiting > entries || waiting > cqe)
		return false;
	if (pi - *next > waiting) /* others have been taken meanwhile */
		*next = ci;
	*end = pi - *next < most ? pi : *next + most;
	return true;
}

/*
 * CQEs [next, *end) that are copied to other memory now, in the same order from ci on, which is the
 * client's own. True: that is all; else there is at least one. *end - ci <= cqe. If pi makes no
 * sense it ends with those that are there already.
 */
static inline bool simhca_gate_renew(uint32_t pi, uint32_t ci, uint32_t cqe, uint32_t most,
				     uint32_t next, uint32_t *end)
{
	uint32_t waiting = pi - ci, done = next - ci;

	*end = next;
	if (waiting > cqe || waiting <= done)
		return true;
	*end = waiting - done < most ? pi : next + most;
	return *end == pi;
}

/* ------------------------------------------------------------------------------------ SRQs */

/* Where the claim of a number, 1 to SIMHCA_SRQ_CLAIMANTS, is noted; of any other: somewhere. */
static inline uint32_t simhca_claimant_slot(uint32_t number)
{
	return (number - 1) % SIMHCA_SRQ_CLAIMANTS;
}

#endif
