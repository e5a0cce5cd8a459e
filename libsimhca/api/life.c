/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How fabrics and contexts begin, and how they end: what has to know every room.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/qp_log.h"
#include "core/table.h"
#include "dma/dma.h"
#include "efa/efa.h"
#include "engine/engine.h"
#include "ethernet/ethernet.h"
#include "inject/inject.h"
#include "link/local.h"
#include "link/wire/wire.h"
#include "memory/advise.h"
#include "paging/pager.h"
#include "proto/attach.h"
#include "recv/tag_match.h"
#include "recv/xrc.h"
#include "simhca-clock.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "proto/recv_source.h"

#define FIRST_SEGMENT (1u << 20) /* bytes of context memory */

struct simhca_fabric *simhca_fabric_create(const struct simhca_ops *ops)
{
	struct simhca_fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return NULL;
	if (simhca_inject_init(fabric)) {
		free(fabric);
		return NULL;
	}
	if (simhca_pagers_init(fabric)) {
		simhca_inject_free(fabric);
		free(fabric);
		return NULL;
	}
	fabric->ops = *ops;
	fabric->next_context_id = 1;
	fabric->generation = 1;
	fabric->link = &simhca_local_link;
	fabric->frame_link = &simhca_ethernet_link;
	fabric->srq_kind[SIMHCA_SRQT_BASIC] = &simhca_basic_srqs;
	fabric->srq_kind[SIMHCA_SRQT_XRC] = &simhca_xrc_srqs;
	fabric->srq_kind[SIMHCA_SRQT_TM] = &simhca_tag_srqs;
	simhca_rwlock_init(&fabric->lock, NULL, SIMHCA_LOCK_FABRIC);
	return fabric;
}

void simhca_device_destroy(struct simhca_device *device)
{
	if (!device)
		return;
	simhca_device_unlink(device);
	simhca_wire_synchronize(device->fabric);
	simhca_device_free(device);
}

void simhca_fabric_destroy(struct simhca_fabric *fabric)
{
	if (!fabric)
		return;
	simhca_pagers_end(fabric);
	simhca_wire_free(fabric);
	simhca_inject_free(fabric);
	pthread_rwlock_destroy(&fabric->lock);
	free(fabric);
}

struct simhca_context *simhca_context_create(struct simhca_device *device,
					     struct simhca_engine *engine, void *ctx_arg,
					     struct simhca_why *why)
{
	struct simhca_context *context = calloc(1, sizeof(*context));
	struct simhca_mem_ref where;
	int ret;

	if (!context) {
		simhca_why(why, ENOMEM, "out of memory");
		return NULL;
	}
	context->device = device;
	context->engine = engine;
	context->arg = ctx_arg;
	context->rings_fd = -1;
	context->log_share = simhca_log_share_new();
	context->doorbell = simhca_table_alloc(SIMHCA_MAX_QP * sizeof(*context->doorbell));
	if (!context->log_share || !context->doorbell || simhca_doorbells_open(context)) {
		simhca_why(why, errno, "doorbell: %s", strerror(errno));
		goto fail;
	}
	if (simhca_context_add_segment(context, FIRST_SEGMENT, why))
		goto fail;
	context->mem = simhca_context_alloc(context, sizeof(*context->mem), &where, why);
	context->id = device->fabric->next_context_id++;
	context->mem->abi_version = SIMHCA_ABI_VERSION;
	context->mem->context_id = context->id;
	ret = simhca_engine_attach(engine, context);
	if (ret) {
		simhca_why(why, -ret, "doorbell: %s", strerror(-ret));
		goto fail;
	}
	DL_PREPEND(device->contexts, context);
	return context;
fail:
	simhca_context_drop_segments(context);
	simhca_doorbells_close(context);
	simhca_log_share_put(context->log_share);
	simhca_table_free(context->doorbell, SIMHCA_MAX_QP * sizeof(*context->doorbell));
	free(context);
	return NULL;
}

/* In the order in which they depend on each other. */
static const struct {
	enum simhca_object_type type;
	int (*destroy)(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
} destroys[] = {
	{ SIMHCA_OBJ_FLOW, simhca_destroy_flow },
	{ SIMHCA_OBJ_COUNTERS, simhca_destroy_counters },
	{ SIMHCA_OBJ_QP, simhca_destroy_qp },
	{ SIMHCA_OBJ_EFA_QP, simhca_efa_destroy_qp },
	{ SIMHCA_OBJ_COMP_CNTR, simhca_destroy_comp_cntr },
	{ SIMHCA_OBJ_RWQ_TABLE, simhca_destroy_rwq_table },
	{ SIMHCA_OBJ_WQ, simhca_destroy_wq },
	{ SIMHCA_OBJ_SRQ, simhca_destroy_srq },
	{ SIMHCA_OBJ_XRCD, simhca_close_xrcd },
	{ SIMHCA_OBJ_CQ, simhca_destroy_cq },
	{ SIMHCA_OBJ_EFA_CQ, simhca_efa_destroy_cq },
	{ SIMHCA_OBJ_AH, simhca_destroy_ah },
	{ SIMHCA_OBJ_EFA_AH, simhca_efa_destroy_ah },
	{ SIMHCA_OBJ_MW, simhca_dealloc_mw }, /* before what they are bound to */
	{ SIMHCA_OBJ_MR, simhca_dereg_mr },
	{ SIMHCA_OBJ_DM, simhca_free_dm },
	{ SIMHCA_OBJ_PD, simhca_dealloc_pd },
};
#define DESTROYS (sizeof(destroys) / sizeof(destroys[0]))

/* What refuses, because it is in use, is tried again in the next pass. False: the time is over. */
static bool destroy_some(struct simhca_context *context, uint64_t max_ns)
{
	uint64_t until = max_ns ? simhca_now_ns() + max_ns : UINT64_MAX;

	for (; context->dying < DESTROYS; context->dying++, context->dying_handle = 0) {
		const struct simhca_handles *handles =
			&context->handles[destroys[context->dying].type];

		while (handles->count && context->dying_handle < handles->room) {
			uint32_t handle = context->dying_handle++;

			if (!handles->slot[handle])
				continue;
			destroys[context->dying].destroy(context, handle, NULL);
			if (simhca_now_ns() >= until)
				return false;
		}
	}
	context->dying = 0;
	return true;
}

/* Takes the context out of every list, so that no step begins with it. */
void simhca_context_retire(struct simhca_context *context)
{
	if (atomic_exchange(&context->dead, true))
		return;
	atomic_store_explicit(&context->suspended, true, memory_order_relaxed);
	/* Before its keys go: who sees that they have sees this as well. */
	atomic_store(&context->mem->ends, 1);
	simhca_engine_detach(context->engine, context);
	simhca_fastpath_gone(context);
	DL_DELETE(context->device->contexts, context);
}

static void drop_mm(struct simhca_context *context, struct simhca_mm **link)
{
	struct simhca_mm *mm = *link;

	*link = mm->next;
	simhca_pager_put(mm->pager);
	simhca_mm_destroy(context->device->fabric, mm);
}

void simhca_context_process_gone(struct simhca_context *context, pid_t pid)
{
	for (struct simhca_mm *mm = context->mms; mm; mm = mm->next)
		if (mm->pid == pid)
			simhca_mm_ended(mm);
	if (context->pid == pid)
		atomic_store_explicit(&context->orphaned, true, memory_order_relaxed);
}

void simhca_context_drop_gone(struct simhca_context *context)
{
	struct simhca_mm **link = &context->mms;

	while (*link) {
		if (!(*link)->regions && atomic_load(&(*link)->gone))
			drop_mm(context, link);
		else
			link = &(*link)->next;
	}
}

enum simhca_destroyed simhca_context_destroy(struct simhca_context *context, uint64_t max_ns)
{
	if (!context)
		return SIMHCA_DESTROYED;
	simhca_context_retire(context);
	if (!destroy_some(context, max_ns))
		return SIMHCA_DESTROYED_PARTLY;
	for (int type = 0; type < SIMHCA_OBJ_TYPES; type++)
		if (context->handles[type].count)
			return SIMHCA_DESTROYED_NOT;
	if (!simhca_efa_quiesce(context) ||
	    !simhca_fabric_synchronize(context->device->fabric, context->id))
		return SIMHCA_DESTROYED_NOT;

	simhca_efa_close(context);
	simhca_advices_forget(context);
	while (context->mms)
		drop_mm(context, &context->mms);
	for (int type = 0; type < SIMHCA_OBJ_TYPES; type++)
		free(context->handles[type].slot);
	simhca_context_drop_segments(context);
	simhca_doorbells_close(context);
	simhca_log_share_put(context->log_share);
	simhca_table_free(context->doorbell, SIMHCA_MAX_QP * sizeof(*context->doorbell));
	free(context);
	return SIMHCA_DESTROYED;
}
