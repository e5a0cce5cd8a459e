/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion counters. The numbers lie in memory that is shared with the device, so that reading
 * and changing them is a load or an addition; only making, attaching and destroying are commands.
 */
#include <stdlib.h>
#include <string.h>

#include "command.h"

#if SIMHCA_PABI >= 65

struct shca_comp_cntr {
	struct ibv_comp_cntr ibv_comp_cntr;
	struct simhca_comp_cntr_mem *mem;
};

static struct simhca_comp_cntr_mem *mem_of(struct ibv_comp_cntr *counter)
{
	return SHCA_CONTAINER(struct shca_comp_cntr, ibv_comp_cntr, counter)->mem;
}

/* Who waits for a number of a device that is gone is to hear of it. */
static int ready(const struct ibv_comp_cntr *counter)
{
	return shca_is_fatal(to_sctx(counter->context)) ? shca_result(EIO) : 0;
}

int shca_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	const struct ibv_comp_cntr_caps all = {
		.max_value = UINT64_MAX,
		.max_counters = SIMHCA_MAX_COMP_CNTR,
		.supported_qp_attach_ops = (1u << SIMHCA_COUNTS_OPS) - 1,
	};

	(void)context;
	memset(caps, 0, caps_size);
	memcpy(caps, &all, caps_size < sizeof(all) ? caps_size : sizeof(all));
	return 0;
}

struct ibv_comp_cntr *shca_create_comp_cntr(struct ibv_context *context,
					    struct ibv_comp_cntr_init_attr *attr)
{
	struct simhca_create_comp_cntr_req req = { .type = (uint32_t)attr->type };
	struct simhca_create_comp_cntr_reply reply;
	struct shca_comp_cntr *counter;
	int err;

	if (attr->comp_mask || attr->flags)
		return shca_null(EINVAL);
	counter = calloc(1, sizeof(*counter));
	if (!counter)
		return shca_null(ENOMEM);
	err = shca_call(to_sctx(context), SIMHCA_CMD_CREATE_COMP_CNTR, &req, &reply);
	if (err)
		goto err_free;
	counter->mem = shca_map(to_sctx(context), NULL, &reply.state, sizeof(*counter->mem));
	if (!counter->mem) {
		err = errno;
		goto err_give_back;
	}
	counter->ibv_comp_cntr.context = context;
	counter->ibv_comp_cntr.handle = reply.handle;
	return &counter->ibv_comp_cntr;

err_give_back:
	shca_destroy(to_sctx(context), SIMHCA_CMD_DESTROY_COMP_CNTR, reply.handle, NULL);
err_free:
	free(counter);
	return shca_null(err);
}

/* EBUSY: QPs are counted by it. */
int shca_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	int err = shca_destroy(to_sctx(counter->context), SIMHCA_CMD_DESTROY_COMP_CNTR,
			       counter->handle, NULL);

	if (!err)
		free(SHCA_CONTAINER(struct shca_comp_cntr, ibv_comp_cntr, counter));
	return err;
}

int shca_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			     struct ibv_qp_attach_comp_cntr_attr *attr)
{
	struct simhca_attach_comp_cntr_req req = {
		.qp = qp->handle,
		.counter = counter->handle,
		.ops = attr->op_mask,
	};

	if (attr->comp_mask || counter->context != qp->context)
		return shca_result(EINVAL);
	return shca_command(to_sctx(qp->context), SIMHCA_CMD_ATTACH_COMP_CNTR, &req);
}

int shca_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	atomic_store_explicit(&mem_of(counter)->value, value, memory_order_relaxed);
	return ready(counter);
}

int shca_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
	atomic_store_explicit(&mem_of(counter)->errors, value, memory_order_relaxed);
	return ready(counter);
}

int shca_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(&mem_of(counter)->value, amount, memory_order_relaxed);
	return ready(counter);
}

int shca_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(&mem_of(counter)->errors, amount, memory_order_relaxed);
	return ready(counter);
}

/* Acquire: what was written before it was counted is there. */
int shca_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	*value = atomic_load_explicit(&mem_of(counter)->value, memory_order_acquire);
	return ready(counter);
}

int shca_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
	*value = atomic_load_explicit(&mem_of(counter)->errors, memory_order_acquire);
	return ready(counter);
}

#endif
