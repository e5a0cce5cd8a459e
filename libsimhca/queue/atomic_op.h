/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* COMPARE AND SWAP, FETCH AND ADD, ATOMIC WRITE: what becomes of the eight bytes. */
#ifndef LIBSIMHCA_ATOMIC_OP_H
#define LIBSIMHCA_ATOMIC_OP_H

#include <stdbool.h>
#include <stdint.h>

struct simhca_atomic_op {
	bool compare_swap; /* else fetch and add, or */
	bool store;	   /* put swap_add there, whatever it was */
	uint64_t compare;
	uint64_t swap_add; /* the value to swap in, or to add */
};

/* Whether they change, and to what; *old: what is there, unless it is a store. */
static inline bool simhca_atomic_value(const struct simhca_atomic_op *op, uint64_t old,
				       uint64_t *value)
{
	if (op->compare_swap && old != op->compare)
		return false;
	*value = op->compare_swap || op->store ? op->swap_add : old + op->swap_add;
	return true;
}

#endif
