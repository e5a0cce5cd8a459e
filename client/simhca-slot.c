/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "simhca-calls.h"
#include "simhca-clock.h"
#include "simhca-slot.h"
#include "simhca-sockets.h"
#include "simhca-spin.h"

#define SPIN_NS 50000
#define LOOKS 32	  /* between two looks at the clock */
#define SLEEP_NS 20000000 /* until it is seen whether the daemon is still there */

static struct simhca_spin spin;

void simhca_slot_begin(struct simhca_answer_slot *slot)
{
	atomic_store_explicit(&slot->state, SIMHCA_ANSWER_PENDING, memory_order_relaxed);
}

void simhca_slot_end(struct simhca_answer_slot *slot)
{
	atomic_store_explicit(&slot->state, SIMHCA_ANSWER_NONE, memory_order_relaxed);
}

bool simhca_slot_is_pending(const struct simhca_answer_slot *slot)
{
	uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	return state == SIMHCA_ANSWER_PENDING || state == SIMHCA_ANSWER_SLEEPING;
}

/* Acquire: the answer, once it is there. */
static bool is_answered(struct simhca_answer_slot *slot)
{
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SIMHCA_ANSWER_ANSWERED;
}

static bool look_for_a_while(struct simhca_answer_slot *slot)
{
	const uint64_t end = simhca_now_ns() + SPIN_NS;

	do {
		for (int i = 0; i < LOOKS; i++)
			if (is_answered(slot))
				return true;
	} while (simhca_now_ns() < end);
	return false;
}

/* Until it is woken, or for a moment. */
static void sleep_once(struct simhca_answer_slot *slot)
{
	const struct timespec time = { .tv_nsec = SLEEP_NS };
	uint32_t pending = SIMHCA_ANSWER_PENDING;

	atomic_compare_exchange_strong(&slot->state, &pending, SIMHCA_ANSWER_SLEEPING);
	syscall(SYS_futex, &slot->state, (long)FUTEX_WAIT, (long)SIMHCA_ANSWER_SLEEPING, &time,
		NULL, 0l);
}

/*
 * 0, or why no answer comes: EBADF if the program has closed it, and has something else by its
 * number.
 */
static int look_at_connection(int device_fd, uint64_t connection)
{
	struct pollfd pfd = { .fd = device_fd, .events = 0 };

	if (connection && simhca_connection(device_fd) != connection)
		return EBADF;
	return simhca_call_poll(&pfd, 1, 0) > 0 ? ENOTCONN : 0;
}

int simhca_slot_wait(struct simhca_answer_slot *slot, int device_fd, uint64_t connection)
{
	bool answered = is_answered(slot);
	int error = 0;

	if (!answered && simhca_spin_wanted(&spin)) {
		answered = look_for_a_while(slot);
		simhca_spin_done(&spin, answered);
	}
	while (!answered) {
		/* What it has answered before its end is there. */
		if (error)
			return error;
		sleep_once(slot);
		error = is_answered(slot) ? 0 : look_at_connection(device_fd, connection);
		answered = is_answered(slot);
	}
	return 0;
}

int simhca_slot_read(const struct simhca_answer_slot *slot, struct simhca_reply_hdr *hdr,
		     void *body, size_t room, size_t *size)
{
	const size_t bytes = slot->bytes;

	if (bytes < sizeof(*hdr) || bytes > sizeof(slot->answer))
		return EPROTO;
	memcpy(hdr, slot->answer, sizeof(*hdr));
	if (hdr->magic != SIMHCA_CMD_MAGIC || hdr->status > INT16_MAX)
		return EPROTO;
	hdr->message[sizeof(hdr->message) - 1] = '\0';
	*size = bytes - sizeof(*hdr);
	if (room > *size)
		room = *size;
	if (room)
		memcpy(body, slot->answer + sizeof(*hdr), room);
	return 0;
}
