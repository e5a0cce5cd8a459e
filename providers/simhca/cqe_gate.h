/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The gate for completions. A peer that carries messages by itself can write the CQ in which the
 * receives of its connection complete, so a CQE that names another QP, or a work request that was
 * not posted, may be there. These functions judge what a CQE gives back, by what the provider keeps
 * in memory of its own.
 *
 * They are pure, and include nothing, so that tests/cbmc can prove what is written above them.
 */
#ifndef SHCA_PROVIDER_CQE_GATE_H
#define SHCA_PROVIDER_CQE_GATE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A queue has posted the work requests before index `posted`, and those before `tail` were given
 * back. Whether the work request at `index` is one that was posted and not given back; true: with
 * *next, which is behind it, as the new tail, what is posted and not given back is fewer than before.
 */
static inline bool shca_gate_completed(uint32_t index, uint32_t tail, uint32_t posted,
				       uint32_t max_wr, uint32_t *next)
{
	*next = index + 1;
	return posted - tail <= max_wr && index - tail < posted - tail;
}

/*
 * Bytes of a receive's data that lie in its slot, which has room for `room`, and that its first
 * buffer holds: no more than either.
 */
static inline uint32_t shca_gate_slot_data(uint32_t byte_len, uint32_t room, uint32_t buffer)
{
	if (byte_len > room)
		byte_len = room;
	return byte_len < buffer ? byte_len : buffer;
}

#endif
