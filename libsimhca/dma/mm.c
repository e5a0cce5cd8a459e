/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The memory of the processes that use a context. */
#include <errno.h>
#include <string.h>

#include "core/context.h"
#include "core/fabric.h"
#include "dma.h"
#include "engine/engine.h"
#include "simhca-device.h"

#define NUMBERS (UINT32_MAX / SIMHCA_MM_SLOTS)

/*
 * Its number in the MPT says the slot, too. Those below SIMHCA_MM_SLOTS are of files, so none is 0. They come again
 * after eight million, of which hardly two are of one context; the PD tells those of others apart.
 */
static uint32_t new_number(struct simhca_fabric *fabric, uint32_t slot)
{
	fabric->next_mm = fabric->next_mm % NUMBERS + 1;
	return fabric->next_mm * SIMHCA_MM_SLOTS + slot;
}

struct simhca_mm *simhca_context_mm(struct simhca_context *context, pid_t pid)
{
	struct simhca_mm *mm;

	for (mm = context->mms; mm; mm = mm->next)
		if (mm->pid == pid && !atomic_load(&mm->gone)) /* pids are used again */
			return mm;
	mm = simhca_mm_create(context->device->fabric, pid);
	if (!mm)
		return NULL;
	mm->engine = context->engine;
	if (context->engine->config.may_block)
		mm->kind = SIMHCA_MM_AGENT;
	mm->context = context->id;
	mm->number = new_number(context->device->fabric, mm->atomicity->slot);
	mm->program = context->program;
	mm->next = context->mms;
	context->mms = mm;
	return mm;
}

int simhca_mm_set_agent(struct simhca_context *context, struct simhca_mm *mm, int socket,
			int bounce_fd, uint64_t bounce_size, struct simhca_why *why)
{
	const struct simhca_fabric *fabric = context->device->fabric;
	struct simhca_agent *agent = NULL;
	int error = EINVAL;

	if (mm->kind == SIMHCA_MM_AGENT && !mm->agent) {
		agent = simhca_agent_create(mm->pid, socket, bounce_fd, bounce_size);
		error = errno;
	}
	simhca_release(fabric, NULL, 0, bounce_fd);
	if (!agent) {
		simhca_release(fabric, NULL, 0, socket);
		return simhca_why(why, error, "the memory agent was refused: %s", strerror(error));
	}
	/* No region of this mm exists before the client has our answer. */
	mm->agent = agent;
	return 0;
}
