/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What an entry of the protection table allows (IBTA vol. 1, 10.6). The rules are functions of the entry
 * and of who asks, with neither lock nor device: engines (memory/key.h), who look up every kind of key, and
 * the fast path (message/step_memory.c), which looks up ordinary regions, judge by the same ones.
 */
#ifndef LIBSIMHCA_MPT_H
#define LIBSIMHCA_MPT_H

#include <stdbool.h>

#include "simhca-abi.h"

static inline bool simhca_is_window(uint32_t type)
{
	return type == SIMHCA_MPT_MW_1 || type == SIMHCA_MPT_MW_2A || type == SIMHCA_MPT_MW_2B;
}

/* Whether only the QP that has bound it may use it. */
static inline bool simhca_is_of_one_qp(uint32_t type)
{
	return type == SIMHCA_MPT_MW_2A || type == SIMHCA_MPT_MW_2B;
}

/* Whether [at, at + length) passes the end of the address space. */
static inline bool simhca_wraps(uint64_t at, uint64_t length)
{
	return length && at + length - 1 < at;
}

/* Who uses a key. */
struct simhca_key_user {
	uint32_t pd;  /* of the QP, or of the SRQ for its buffers */
	uint32_t qpn; /* of the QP */
	bool remote;  /* by an rkey */
};

/*
 * Whether an entry of this type is this key, and this user's to use. It needs no lock. Only if it is may the
 * rest of the entry be looked at.
 */
static inline enum simhca_reason simhca_mpt_check_user(const struct simhca_mpt *mpt, uint32_t type,
						       uint32_t key, struct simhca_key_user user)
{
	bool window = simhca_is_window(type);

	if (atomic_load_explicit(&mpt->key, memory_order_relaxed) != key)
		return SIMHCA_REASON_KEY_STALE;
	if (window && !user.remote)
		return SIMHCA_REASON_KEY_NOT_LOCAL;
	/* A window of type 2A knows its QP alone (IBTA vol. 1, 10.6.7.2). */
	if (type != SIMHCA_MPT_MW_2A &&
	    atomic_load_explicit(&mpt->pd, memory_order_relaxed) != user.pd)
		return SIMHCA_REASON_KEY_WRONG_PD;
	if (!atomic_load_explicit(&mpt->valid, memory_order_relaxed))
		return window ? SIMHCA_REASON_MW_NOT_BOUND : SIMHCA_REASON_MR_NOT_VALID;
	if (simhca_is_of_one_qp(type) &&
	    atomic_load_explicit(&mpt->qpn, memory_order_relaxed) != user.qpn)
		return SIMHCA_REASON_MW_OTHER_QP;
	return SIMHCA_REASON_NONE;
}

/* Whether [va, va + length) lies inside, and how far from the start. */
static inline enum simhca_reason simhca_mpt_check_range(const struct simhca_mpt *mpt, uint64_t va,
							uint64_t length, uint64_t *offset)
{
	if (simhca_wraps(va, length))
		return SIMHCA_REASON_KEY_WRAPS;
	if (va < mpt->iova)
		return SIMHCA_REASON_KEY_BELOW_START;
	*offset = va - mpt->iova;
	if (*offset > mpt->length || mpt->length - *offset < length)
		return SIMHCA_REASON_KEY_PAST_END;
	return SIMHCA_REASON_NONE;
}

/* Whether it grants these rights: enum simhca_access. If not, the reason names one that is missing. */
static inline enum simhca_reason simhca_mpt_check_rights(const struct simhca_mpt *mpt,
							 uint32_t type, uint32_t rights)
{
	uint32_t missing = rights & ~mpt->access;
	bool window = simhca_is_window(type);

	if (__builtin_expect(!missing, 1))
		return SIMHCA_REASON_NONE;
	if (missing & SIMHCA_ACCESS_LOCAL_WRITE)
		return SIMHCA_REASON_MR_NO_LOCAL_WRITE;
	if (missing & SIMHCA_ACCESS_REMOTE_WRITE)
		return window ? SIMHCA_REASON_MW_NO_REMOTE_WRITE : SIMHCA_REASON_MR_NO_REMOTE_WRITE;
	if (missing & SIMHCA_ACCESS_REMOTE_READ)
		return window ? SIMHCA_REASON_MW_NO_REMOTE_READ : SIMHCA_REASON_MR_NO_REMOTE_READ;
	if (missing & SIMHCA_ACCESS_FLUSH_GLOBAL)
		return SIMHCA_REASON_KEY_NO_FLUSH_GLOBAL;
	if (missing & SIMHCA_ACCESS_FLUSH_PERSISTENT)
		return SIMHCA_REASON_KEY_NO_FLUSH_PERSISTENT;
	return window ? SIMHCA_REASON_MW_NO_REMOTE_ATOMIC : SIMHCA_REASON_MR_NO_REMOTE_ATOMIC;
}

#endif
