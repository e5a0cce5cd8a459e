/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The device's half of answers in a context's memory (struct simhca_answer_slot). */
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context.h"

bool simhca_context_answer(struct simhca_context *context, uint32_t number,
			   const struct iovec *parts, uint32_t count)
{
	struct simhca_answer_slot *slot;
	uint32_t bytes = 0;

	if (number >= SIMHCA_ANSWER_SLOTS)
		return false;
	slot = &context->mem->answer[number];
	for (uint32_t i = 0; i < count; i++) {
		if (parts[i].iov_len > SIMHCA_ANSWER_BYTES - bytes)
			return false;
		memcpy(slot->answer + bytes, parts[i].iov_base, parts[i].iov_len);
		bytes += (uint32_t)parts[i].iov_len;
	}
	slot->bytes = bytes;
	/*
	 * Release: the answer, for who sees that it is there. Acquire: SLEEPING, which its thread
	 * has stored before it went to sleep on the word; the kernel compares it once more. One thread
	 * waits for an answer: to wake as many as a program lets sleep there would take it milliseconds.
	 */
	if (atomic_exchange_explicit(&slot->state, SIMHCA_ANSWER_ANSWERED, memory_order_acq_rel) ==
	    SIMHCA_ANSWER_SLEEPING)
		syscall(SYS_futex, &slot->state, (long)FUTEX_WAKE, 1l, NULL, NULL, 0l);
	return true;
}
