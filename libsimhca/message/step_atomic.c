/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Writes that keep off atomics, and atomics (simhca-abi-writers.h): a read, a decision and a write,
 * while nobody else writes to that process's memory; or in a region that the program has mapped, which
 * the device has as well, one instruction.
 *
 * The result of an atomic goes to the program's own memory once the peer's responder has it, and by
 * a plain store: so it is never in the way of an atomic on that memory for longer than a store is.
 * If an atomic there is, the rest is the device's: the responder remembers what was found.
 */
#include <string.h>

#include "dma/bus_error.h"
#include "simhca-calls.h"
#include "step_impl.h"

/* Looks at an atomic that is under way: for longer than it takes, if its program has a CPU. */
#define LOOKS 4000

bool simhca_step_writing_begin(const struct simhca_writing *writing)
{
	for (int i = 0; i < LOOKS; i++)
		if (!atomic_load_explicit(&writing->there->holder, memory_order_relaxed) &&
		    simhca_writing_begin(writing))
			return true;
	return false;
}

static bool exclude(struct simhca_writers *there, uint32_t name)
{
	for (int i = 0; i < LOOKS; i++)
		if (!atomic_load_explicit(&there->holder, memory_order_relaxed) &&
		    !atomic_load_explicit(&there->device, memory_order_relaxed) &&
		    simhca_writers_exclude(there, name))
			return true;
	return false;
}

static struct simhca_atomic_op operation(const struct simhca_step_message *msg)
{
	const struct simhca_send_wqe *wqe = &msg->wqe;
	struct simhca_atomic_op op = { .compare = wqe->rdma.compare_add };
	char *to = (char *)&op.swap_add;

	op.compare_swap = msg->packet.op == SIMHCA_PKT_COMPARE_SWAP;
	op.store = msg->packet.op == SIMHCA_PKT_ATOMIC_WRITE;
	op.swap_add = op.compare_swap ? wqe->rdma.swap : wqe->rdma.compare_add;
	/* As a message that is posted inline is copied. */
	for (int i = 0; op.store && i < msg->own.count; to += msg->own.iov[i++].iov_len)
		memcpy(to, msg->own.iov[i].iov_base, msg->own.iov[i].iov_len);
	return op;
}

/* While the others are excluded. */
static bool change(const struct simhca_step *step, uint32_t name,
		   const struct simhca_step_message *msg, uint64_t *old)
{
	const struct simhca_atomic_op op = operation(msg);
	off_t at = (off_t)(uintptr_t)msg->there.iov[0].iov_base;
	int memory = step->peer.memory;
	uint64_t value;

	if (!op.store && simhca_call_pread(memory, old, sizeof(*old), at) != sizeof(*old))
		return false;
	simhca_store();
	/* A program that was stopped here for long has it no more. */
	if (!simhca_writers_are_excluded(step->peer.writing.there, name))
		return false;
	return !simhca_atomic_value(&op, *old, &value) ||
	       simhca_call_pwrite(memory, &value, sizeof(value), at) == sizeof(value);
}

bool simhca_step_atomic(const struct simhca_step *step, uint32_t name,
			struct simhca_step_message *msg)
{
	struct simhca_writers *there = step->peer.writing.there;
	bool done;

	if (msg->there.mapped) {
		const struct simhca_atomic_op op = operation(msg);

		simhca_store();
		return simhca_guarded_atomic(step->regions->may_fail, &op,
					     msg->there.iov[0].iov_base, &msg->old);
	}
	if (!exclude(there, name))
		return false;
	done = simhca_writers_are_idle(there, LOOKS) && change(step, name, msg, &msg->old);
	simhca_writers_admit(there, name);
	return done;
}

bool simhca_step_place_result(const struct simhca_step *step, const struct simhca_step_message *msg)
{
	const char *from = (const char *)&msg->old;

	if (msg->packet.op == SIMHCA_PKT_ATOMIC_WRITE)
		return true;
	if (step->writing.there && !simhca_step_writing_begin(&step->writing))
		return false;
	for (int i = 0; i < msg->own.count; from += msg->own.iov[i++].iov_len)
		memcpy(msg->own.iov[i].iov_base, from, msg->own.iov[i].iov_len);
	if (step->writing.there)
		simhca_writing_end(&step->writing);
	return true;
}
