/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a context has, and its end. */
#include <errno.h>
#include <stdlib.h>

#include "core/lock.h"
#include "wire.h"

static void free_efa(struct simhca_efa *efa)
{
	free(efa->bounce);
	free(efa->qps.items);
	free(efa->notified_cqs.items);
	free(efa);
}

int simhca_efa_open(struct simhca_context *context, struct simhca_why *why)
{
	struct simhca_efa *efa;

	if (context->efa)
		return 0;
	efa = calloc(1, sizeof(*efa));
	if (!efa)
		return efa_out_of_memory(why);
	efa->bounce = malloc(SIMHCA_GRH_BYTES + SIMHCA_EFA_MTU);
	efa->qps.items = calloc(context->device->config.max_qp, sizeof(*efa->qps.items));
	efa->notified_cqs.items =
		calloc(context->device->config.max_cq, sizeof(*efa->notified_cqs.items));
	if (!efa->bounce || !efa->qps.items || !efa->notified_cqs.items) {
		free_efa(efa);
		return efa_out_of_memory(why);
	}
	efa->context = context;
	efa->task.run = efa_work;
	efa->task.engine = context->engine;
	atomic_init(&efa->userfaultfd, -1);
	simhca_mutex_init(&efa->work, SIMHCA_LOCK_EFA_WORK);
	simhca_mutex_init(&efa->watch_lock, SIMHCA_LOCK_EFA);
	simhca_mutex_init(&efa->ah_lock, SIMHCA_LOCK_EFA);
	simhca_mutex_init(&efa->hosts_lock, SIMHCA_LOCK_EFA);
	simhca_mutex_init(&efa->inbox_lock, SIMHCA_LOCK_INBOX);
	efa->inbox_end = &efa->inbox;
	if (context->device->config.wire)
		atomic_store(&context->device->efa_take, efa_wire_take);
	context->efa = efa;
	simhca_engine_rings(context, &efa->task);
	return 0;
}

void simhca_efa_close(struct simhca_context *context)
{
	struct simhca_efa *efa = context->efa;

	if (!efa)
		return;
	if (efa->userfaultfd >= 0)
		simhca_release(context->device->fabric, NULL, 0, efa->userfaultfd);
	pthread_mutex_destroy(&efa->work);
	pthread_mutex_destroy(&efa->watch_lock);
	pthread_mutex_destroy(&efa->ah_lock);
	pthread_mutex_destroy(&efa->hosts_lock);
	efa_wire_close(efa);
	pthread_mutex_destroy(&efa->inbox_lock);
	free_efa(efa);
	context->efa = NULL;
}

bool simhca_efa_quiesce(struct simhca_context *context)
{
	struct simhca_efa *efa = context->efa;

	if (!efa)
		return true;
	atomic_store(&efa->task.dead, true);
	/* A step that was under way may have put it back once. */
	for (int i = 0; i < 2; i++) {
		simhca_engine_forget(&efa->task);
		simhca_engine_cancel_timer(&efa->task);
		if (!simhca_fabric_synchronize(context->device->fabric, context->id))
			return false;
	}
	return true;
}

int simhca_efa_find_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	return simhca_object(context, SIMHCA_OBJ_MR, handle, why) ? 0 : -ENOENT;
}
