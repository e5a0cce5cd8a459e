/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion counters: making them, and which operation of which QP they count. */
#include <errno.h>
#include <stdlib.h>

#include "comp_cntr.h"
#include "core/context.h"
#include "qp.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

int simhca_create_comp_cntr(struct simhca_context *context,
			    const struct simhca_create_comp_cntr_req *req,
			    struct simhca_create_comp_cntr_reply *reply, struct simhca_why *why)
{
	struct simhca_comp_cntr *counter;
	int ret;

	if (req->type > SIMHCA_COMP_CNTR_BYTES)
		return simhca_why(why, EINVAL, "type = %u: WRS or BYTES", req->type);
	counter = calloc(1, sizeof(*counter));
	if (!counter)
		return simhca_why(why, ENOMEM, "out of memory");
	counter->type = req->type;
	counter->mem = simhca_context_alloc(context, sizeof(*counter->mem), &counter->mem_ref, why);
	if (!counter->mem) {
		free(counter);
		return -ENOMEM;
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_COMP_CNTR, counter, &reply->handle, why);
	if (ret) {
		simhca_context_free(context, &counter->mem_ref, sizeof(*counter->mem));
		free(counter);
		return ret;
	}
	reply->state = counter->mem_ref;
	return 0;
}

int simhca_destroy_comp_cntr(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why)
{
	struct simhca_comp_cntr *counter =
		simhca_object(context, SIMHCA_OBJ_COMP_CNTR, handle, why);

	if (!counter)
		return -ENOENT;
	if (counter->users)
		return simhca_why(why, EBUSY,
				  "%u operations of QPs are counted by it: destroy the "
				  "QPs first",
				  counter->users);
	simhca_object_remove(context, SIMHCA_OBJ_COMP_CNTR, handle);
	simhca_context_free(context, &counter->mem_ref, sizeof(*counter->mem));
	free(counter);
	return 0;
}

static int attach(struct simhca_qp *qp, struct simhca_comp_cntr *counter, uint32_t ops,
		  struct simhca_why *why)
{
	uint32_t state = simhca_qp_state(qp);

	if (state != SIMHCA_QPS_RESET && state != SIMHCA_QPS_INIT)
		return simhca_why(why, EINVAL, "a counter is attached in RESET or INIT only");
	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++)
		if (ops & 1u << op && qp->comp_cntr[op])
			return simhca_why(why, EBUSY, "ops = 0x%x: the QP has a counter of 0x%x",
					  ops, 1u << op);
	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++) {
		if (!(ops & 1u << op))
			continue;
		qp->comp_cntr[op] = counter;
		counter->users++;
	}
	return 0;
}

int simhca_attach_comp_cntr(struct simhca_context *context,
			    const struct simhca_attach_comp_cntr_req *req, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	struct simhca_comp_cntr *counter =
		qp ? simhca_object(context, SIMHCA_OBJ_COMP_CNTR, req->counter, why) : NULL;
	int ret;

	if (!counter)
		return -ENOENT;
	if (!req->ops)
		return simhca_why(why, EINVAL, "ops = 0: there is nothing to count");
	if (req->ops & ~((1u << SIMHCA_COUNTS_OPS) - 1))
		return simhca_why(why, EOPNOTSUPP, "ops = 0x%x: 0x%x is not counted", req->ops,
				  req->ops & ~((1u << SIMHCA_COUNTS_OPS) - 1));
	/* An XRC target outlives the context that has the counter; an RSS QP completes nothing. */
	if (qp->type == SIMHCA_QPT_XRC_RECV || qp->ethernet.rss)
		return simhca_why(why, EOPNOTSUPP, "this QP's completions are not its own");
	simhca_fastpath_end(qp);
	ret = simhca_qp_begin_both(qp, true);
	if (ret)
		return ret;
	ret = attach(qp, counter, req->ops, why);
	simhca_qp_end_both(qp);
	return ret;
}

void simhca_comp_cntr_detach(struct simhca_qp *qp)
{
	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++)
		if (qp->comp_cntr[op])
			qp->comp_cntr[op]->users--;
}

void simhca_count_send(const struct simhca_qp *qp, uint8_t opcode, bool success, uint64_t bytes)
{
	enum simhca_comp_cntr_op op;

	switch (simhca_opcode(opcode)->wc) {
	case SIMHCA_WC_SEND:
		op = SIMHCA_COUNTS_SEND;
		break;
	case SIMHCA_WC_RDMA_WRITE:
		op = SIMHCA_COUNTS_WRITE;
		break;
	case SIMHCA_WC_RDMA_READ:
		op = SIMHCA_COUNTS_READ;
		break;
	default:
		return;
	}
	if (success)
		simhca_count(qp, op, 1, bytes);
	else
		simhca_count_error(qp, op);
}
