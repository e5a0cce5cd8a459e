/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "device/gid_table.h"
#include "rdma_cm/cma_report.h"
#include "resources.h"
#include "session/daemon.h"
#include "session/session.h"
#include "simhca-info.h"
#include "status.h"
#include "wire/wire.h"

/* The daemon's line has been put, and then that of each device with its contexts one by one. */
struct status {
	bool begun;
	unsigned int device; /* that it is at */
	bool in_device;
	struct report_contexts contexts; /* of this device */
	json_int_t num_contexts;
	struct simhca_counts sum;
	uint32_t qp,
		carried; /* of the context that it is at: QPs from there on were not asked yet */
};

static json_t *counts_json(const struct simhca_counts *counts)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pds",
			 (json_int_t)counts->pds, "mrs", (json_int_t)counts->mrs, "mws",
			 (json_int_t)counts->mws, "cqs", (json_int_t)counts->cqs, "qps",
			 (json_int_t)counts->qps, "carried", (json_int_t)counts->carried, "srqs",
			 (json_int_t)counts->srqs, "ahs", (json_int_t)counts->ahs, "xrcds",
			 (json_int_t)counts->xrcds, "dms", (json_int_t)counts->dms, "dm_bytes",
			 (json_int_t)counts->dm_bytes, "wqs", (json_int_t)counts->wqs, "flows",
			 (json_int_t)counts->flows);
}

static void add_counts(struct simhca_counts *sum, const struct simhca_counts *counts)
{
	sum->pds += counts->pds;
	sum->mrs += counts->mrs;
	sum->mws += counts->mws;
	sum->cqs += counts->cqs;
	sum->qps += counts->qps;
	sum->carried += counts->carried;
	sum->srqs += counts->srqs;
	sum->ahs += counts->ahs;
	sum->xrcds += counts->xrcds;
	sum->dms += counts->dms;
	sum->dm_bytes += counts->dm_bytes;
	sum->wqs += counts->wqs;
	sum->flows += counts->flows;
}

static json_t *context_json(const struct session *session, uint32_t carried,
			    struct simhca_counts *sum)
{
	struct simhca_counts counts;
	struct simhca_usage_sum past;
	json_t *json;

	simhca_context_counts(session->context, &counts);
	counts.carried = carried;
	add_counts(sum, &counts);
	simhca_context_past(session->context, &past);
	json = json_pack("{s:I, s:I, s:s, s:s, s:o, s:o}", "id",
			 (json_int_t)simhca_context_id(session->context), "pid",
			 (json_int_t)session->pid, "comm", session->comm, "memory",
			 session->own_engine ? "agent" : "process_vm", "counts",
			 counts_json(&counts), "past", usage_json(&past));
	if (session->not_attached)
		json_object_set_new(json, "not_attached",
				    json_string(strerror(session->not_attached)));
	return json;
}

static json_t *gids_json(const struct device *device)
{
	json_t *array = json_array();
	size_t used = 0;

	for (size_t i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		char text[GID_TEXT] = "";

		if (!gid_is_empty(&device->gids[i].gid)) {
			gid_print(&device->gids[i].gid, text);
			used = i + 1;
		}
		json_array_append_new(array, json_string(text));
	}
	while (json_array_size(array) > used)
		json_array_remove(array, json_array_size(array) - 1);
	return array;
}

static json_t *device_json(const struct device *device)
{
	const struct simhca_devmem *memory = simhca_device_memory(device->model);
	uint64_t guid = be64toh(memory->attr.node_guid);
	const struct settings *settings = &device->options->settings;
	char guid_text[24];

	snprintf(guid_text, sizeof(guid_text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:o}", "name", device->options->name,
			 "profile", profile_name(settings), "link_layer",
			 settings->efa		? "EFA"
			 : settings->infiniband ? "InfiniBand"
						: "Ethernet",
			 "netdev", settings->netdev, "state", device->up ? "ACTIVE" : "DOWN", "mtu",
			 (json_int_t)settings->mtu, "node_guid", guid_text, "gids",
			 gids_json(device));
}

/* Those of the pool, and of contexts that have one of their own. */
static json_t *engines_json(const struct daemon *daemon)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < daemon->engines.count; i++)
		json_array_append_new(array,
				      json_pack("{s:I, s:f}", "engine", (json_int_t)i, "cpu_s",
						engine_cpu(daemon->engines.pool[i])));
	return array;
}

static json_t *daemon_json(const struct daemon *daemon)
{
	return json_pack("{s:b, s:s, s:I, s:I, s:s, s:s, s:b, s:I, s:o, s:o, s:o}", "ok", 1,
			 "version", SIMHCA_VERSION, "pid", (json_int_t)getpid(), "uptime_s",
			 (json_int_t)(monotonic_s() - daemon->started), "runtime_dir",
			 daemon->rundir.path, "options", daemon->options->normalised, "captive",
			 (int)daemon->options->daemon.captive, "leases",
			 (json_int_t)daemon->programs.leases, "engines", engines_json(daemon),
			 "rdma_cm", cma_report_counts(daemon->cma), "wire",
			 daemon->wire ? wire_json(daemon->wire) : json_null());
}

/* Puts an object that more members follow. */
static int put_open(struct report *report, json_t *object, const char *more)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	int ret = -ENOMEM;

	json_decref(object);
	if (text) {
		text[strlen(text) - 1] = '\0';
		ret = report_put(report, text) ?: report_put(report, more);
	}
	free(text);
	return ret;
}

static int begin_device(struct report *report, struct status *status, const struct device *device)
{
	memset(&status->sum, 0, sizeof(status->sum));
	status->num_contexts = 0;
	status->in_device = true;
	free(status->contexts.ids);
	return report_list_contexts(report_daemon(report), device, &status->contexts) ?:
	       (status->device ? report_put(report, ",") : 0) ?:
	       put_open(report, device_json(device), ",\"context\":[");
}

static int end_device(struct report *report, struct status *status)
{
	json_t *counts = counts_json(&status->sum);
	int ret;

	ret = report_put(report, "],\"counts\":") ?: report_put_json(report, counts);
	ret = ret ?: report_put(report, ",\"contexts\":");
	ret = ret ?: report_put_json(report, json_integer(status->num_contexts));
	status->in_device = false;
	status->device++;
	return ret ?: report_put(report, "}");
}

static int step(struct report *report, void *state)
{
	const struct daemon *daemon = report_daemon(report);
	struct status *status = state;
	const struct session *session;
	uint32_t carried;

	if (!status->begun) {
		status->begun = true;
		return put_open(report, daemon_json(daemon), ",\"devices\":[") ?: 1;
	}
	if (status->device == daemon->num_devices)
		return report_put(report, "]}");
	if (!status->in_device)
		return begin_device(report, status, &daemon->devices[status->device]) ?: 1;
	if (status->contexts.at == status->contexts.count)
		return end_device(report, status) ?: 1;
	session = report_session(report, &status->contexts);
	if (session && simhca_context_carried(session->context, &status->qp, &status->carried))
		return 1;
	carried = status->carried;
	status->qp = status->carried = 0;
	status->contexts.at++;
	if (!session)
		return 1;
	status->num_contexts++;
	return report_put_item(report, context_json(session, carried, &status->sum)) ?: 1;
}

static void end(void *state)
{
	free(((struct status *)state)->contexts.ids);
}

const struct report_kind status_report = { .step = step,
					   .state_bytes = sizeof(struct status),
					   .end = end };
