/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Between two messages the device leaves the rest to the program, for a moment (attach.h). */
#include <stdatomic.h>

#include "attach.h"
#include "engine/engine.h"
#include "qp.h"
#include "queue/opcode.h"
#include "queue/progress.h"
#include "wqe.h"

/* How long what is posted is left to the program, which may post again meanwhile. */
#define LEFT_NS 20000
/* It was worth it if the program carried so many messages meanwhile, or so many bytes. */
#define WORTH_MESSAGES 8
#define WORTH_BYTES (1u << 16)

/* Whether a step can do anything with the next WQE at all. */
static bool is_for_fast_path(const struct simhca_qp *qp)
{
	struct simhca_send_wqe wqe;

	simhca_sq_header(qp, qp->req.oldest, &wqe);
	return simhca_op_has(wqe.opcode, SIMHCA_OP_FAST_PATH);
}

/* If the last time was in vain, it is tried more seldom. */
static bool is_worth_it(struct simhca_fastpath_yielding *leaving, const struct simhca_fastpath *mem)
{
	uint64_t messages = atomic_load_explicit(&mem->messages, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&mem->bytes, memory_order_relaxed);

	if (!simhca_spin_wanted(&leaving->worth))
		return false;
	simhca_spin_done(&leaving->worth, messages - leaving->messages >= WORTH_MESSAGES ||
						  bytes - leaving->bytes >= WORTH_BYTES);
	leaving->messages = messages;
	leaving->bytes = bytes;
	return true;
}

bool simhca_fastpath_is_wanted(const struct simhca_qp *qp)
{
	const struct simhca_fastpath *mem = qp->fastpath.steps.mem;

	return mem && atomic_load_explicit(&mem->wants, memory_order_relaxed) &&
	       atomic_load(&qp->qpc->fastpath_epoch);
}

bool simhca_fastpath_yield(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t posted;

	if (!simhca_fastpath_is_wanted(qp))
		return false;
	atomic_store_explicit(&mem->wants, 0, memory_order_relaxed);
	if (qp->req.wait != SIMHCA_WAIT_NOTHING ||
	    !simhca_progress_sends(qp->mem, qp->req.oldest, 0, qp->sq_entries, &posted) ||
	    !posted || !is_for_fast_path(qp) || !is_worth_it(&qp->fastpath.yielding, mem))
		return false;
	atomic_store_explicit(&mem->left, 1, memory_order_relaxed);
	atomic_store(&qp->fastpath.yielding.until, simhca_engine_arm_timer(&qp->task, LEFT_NS));
	return true;
}

bool simhca_fastpath_has_yielded(struct simhca_qp *qp)
{
	/* relaxed: who sees what was before runs the QP too early, or comes again.
	 */
	uint64_t until = atomic_load_explicit(&qp->fastpath.yielding.until, memory_order_relaxed);

	if (!until)
		return false;
	if (atomic_load_explicit(&qp->fastpath.steps.mem->left, memory_order_relaxed) &&
	    atomic_load(&qp->task.timer_fired) != until)
		return true;
	atomic_compare_exchange_strong(&qp->fastpath.yielding.until, &until, 0);
	return false;
}
