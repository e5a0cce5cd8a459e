/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "cma.h"
#include "cma_report.h"
#include "names.h"

static const char *state_name(const struct cma_id *id)
{
	static const char *const names[] = {
		[CMA_IDLE] = "IDLE",
		[CMA_BOUND] = "ADDR_BOUND",
		[CMA_LISTEN] = "LISTEN",
		[CMA_ADDR_QUERY] = "ADDR_QUERY",
		[CMA_ADDR_RESOLVED] = "ADDR_RESOLVED",
		[CMA_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
		[CMA_CONNECT] = "CONNECT",
		[CMA_DISCONNECT] = "DISCONNECT",
	};

	return names[id->state];
}

static json_t *id_json(const struct cma_id *id)
{
	char src[CMA_ADDR_TEXT], dst[CMA_ADDR_TEXT];
	json_t *json;

	json = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I}", "cm_idn",
			 (json_int_t)id->handle, "device",
			 id->device ? id->device->options->name : "", "ps", cma_ps_name(id->ps),
			 "type", name_of_qp_type(id->qp_type), "state", state_name(id), "src",
			 cma_addr_print(&id->src, src), "lqpn", (json_int_t)id->qp_num, "comm",
			 id->file->comm, "pid", (json_int_t)id->file->pid);
	if (!cma_addr_is_zero(&id->dst) || cma_addr_port(&id->dst))
		json_object_set_new(json, "dst", json_string(cma_addr_print(&id->dst, dst)));
	if (id->cm)
		json_object_set_new(json, "cm_state",
				    json_string(simhca_cm_state_name(simhca_cm_id_state(id->cm))));
	if (id->state == CMA_LISTEN) {
		json_object_set_new(json, "backlog", json_integer(id->backlog));
		json_object_set_new(json, "waiting", json_integer(id->waiting));
	}
	return json;
}

#define HANDLES_AT_ONCE 256u /* that name nothing */

struct ids {
	bool begun;
	uint32_t handle;
};

static int step(struct report *report, void *state)
{
	const struct cma *cma = report_daemon(report)->cma;
	struct ids *ids = state;

	if (!ids->begun) {
		ids->begun = true;
		return report_put(report, "[") ?: 1;
	}
	for (unsigned int i = 0; i < HANDLES_AT_ONCE; i++) {
		const struct cma_id *id;

		if (ids->handle >= cma->ids.room)
			return report_put(report, "]");
		id = cma_handle_get(&cma->ids, ids->handle++);
		if (id)
			return report_put_item(report, id_json(id)) ?: 1;
	}
	return 1;
}

const struct report_kind cma_report = { .step = step, .state_bytes = sizeof(struct ids) };

json_t *cma_report_counts(const struct cma *cma)
{
	struct simhca_cm_counts counts;

	simhca_cm_counts(cma->cm, &counts);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "channels", (json_int_t)cma->num_files,
			 "ids", (json_int_t)cma->num_ids, "listeners",
			 (json_int_t)cma->in_state[CMA_LISTEN], "connections",
			 (json_int_t)cma->in_state[CMA_CONNECT], "events",
			 (json_int_t)cma->num_events, "timewait", (json_int_t)counts.timewait);
}

bool cma_in_use(const struct cma *cma)
{
	return cma->files;
}

static uint8_t kernel_state(enum cma_state state)
{
	static const uint8_t states[] = {
		[CMA_IDLE] = 0,		  [CMA_ADDR_QUERY] = 1, [CMA_ADDR_RESOLVED] = 2,
		[CMA_ROUTE_RESOLVED] = 4, [CMA_CONNECT] = 5,	[CMA_DISCONNECT] = 6,
		[CMA_BOUND] = 7,	  [CMA_LISTEN] = 8,
	};

	return states[state];
}

bool cma_next_id(const struct cma *cma, const struct device *device, uint32_t *handle,
		 struct cma_id_info *info)
{
	const struct cma_id *id = NULL;

	for (; *handle < cma->ids.room; ++*handle) {
		id = cma_handle_get(&cma->ids, *handle);
		if (id && (id->device == device || (!id->device && id->state == CMA_LISTEN)))
			break;
	}
	if (*handle >= cma->ids.room)
		return false;
	*info = (struct cma_id_info){
		.port = id->device ? 1 : 0,
		.qp_num = id->qp_num,
		.qp_type = id->qp_type,
		.state = kernel_state(id->state),
		.ps = id->ps,
		.pid = id->file->pid,
		.src = id->src.sa.sa_family ? &id->src.storage : NULL,
		/* As with Linux, one that listens on all devices has none. */
		.dst = id->device && id->dst.sa.sa_family ? &id->dst.storage : NULL,
	};
	return true;
}
