/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is known of a context, and told of it. */
#include <stdio.h>
#include <utlist.h>

#include "context.h"
#include "fabric.h"
#include "simhca-device.h"
#include "simhca-info.h"

void simhca_context_name(struct simhca_context *context, pid_t pid, const char *name)
{
	if (context->named)
		return;
	context->pid = pid;
	snprintf(context->name, sizeof(context->name), "%s", name);
	/* release: engines that see it read the name. */
	atomic_store_explicit(&context->named, name[0], memory_order_release);
}

void simhca_context_share(struct simhca_context *context, uint64_t program)
{
	const struct simhca_context *other;

	context->program = program;
	DL_FOREACH (context->device->contexts, other) {
		if (other == context || other->program != program)
			continue;
		simhca_log_share_put(context->log_share);
		context->log_share = other->log_share;
		context->log_share->users++;
		return;
	}
}

void simhca_context_suspend(struct simhca_context *context, bool suspend)
{
	if (!atomic_load(&context->dead))
		atomic_store_explicit(&context->suspended, suspend, memory_order_relaxed);
}

uint32_t simhca_context_id(const struct simhca_context *context)
{
	return context->id;
}

void simhca_context_counts(const struct simhca_context *context, struct simhca_counts *counts)
{
	*counts = (struct simhca_counts){
		.pds = context->handles[SIMHCA_OBJ_PD].count,
		.mrs = context->handles[SIMHCA_OBJ_MR].count,
		.mws = context->handles[SIMHCA_OBJ_MW].count,
		.cqs = context->handles[SIMHCA_OBJ_CQ].count +
		       context->handles[SIMHCA_OBJ_EFA_CQ].count,
		.qps = context->handles[SIMHCA_OBJ_QP].count +
		       context->handles[SIMHCA_OBJ_EFA_QP].count,
		.srqs = context->handles[SIMHCA_OBJ_SRQ].count,
		.ahs = context->handles[SIMHCA_OBJ_AH].count +
		       context->handles[SIMHCA_OBJ_EFA_AH].count,
		.xrcds = context->handles[SIMHCA_OBJ_XRCD].count,
		.dms = context->handles[SIMHCA_OBJ_DM].count,
		.dm_bytes = (uint32_t)context->dm_used,
		.wqs = context->handles[SIMHCA_OBJ_WQ].count,
		.flows = context->handles[SIMHCA_OBJ_FLOW].count,
	};
}

void simhca_async_event(struct simhca_context *context, struct simhca_user_handle user,
			uint32_t number, uint32_t type)
{
	const struct simhca_ops *ops = &context->device->fabric->ops;

	if (ops->async_event && !atomic_load(&context->dead))
		ops->async_event(context->arg, user, number, type);
}
