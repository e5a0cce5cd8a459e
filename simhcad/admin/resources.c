/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "device/gid_table.h"
#include "efa/efa.h"
#include "link/wire/wire.h"
#include "names.h"
#include "resources.h"
#include "session/daemon.h"
#include "session/session.h"
#include "simhca-info.h"

/* Whose an object is. */
static json_t *owner_json(const struct device *device, const struct session *session)
{
	return json_pack("{s:s, s:I, s:I, s:s}", "device", device->options->name, "context",
			 (json_int_t)simhca_context_id(session->context), "pid",
			 (json_int_t)session->pid, "comm", session->comm);
}

/* What it has exchanged by the wire; NULL: nothing, and it cannot. */
static json_t *wire_json(const struct session *session, uint32_t handle)
{
	struct simhca_wire_traffic traffic;
	char peer[GID_TEXT];

	if (!simhca_wire_traffic(session->context, handle, &traffic))
		return NULL;
	gid_print(&traffic.peer, peer);
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:i}", "peer", peer, "sent",
			 (json_int_t)traffic.sent, "repeated", (json_int_t)traffic.repeated,
			 "received", (json_int_t)traffic.received, "lost", (json_int_t)traffic.lost,
			 "window", (json_int_t)traffic.window, "holes", traffic.hole);
}

/* What programs carried by themselves, and why they did not. */
static json_t *fast_path_json(const struct simhca_qp_info *info)
{
	static const char *const reasons[SIMHCA_SLOW_REASONS] = {
		[SIMHCA_SLOW_OWNER] = "owner",	 [SIMHCA_SLOW_STATE] = "state",
		[SIMHCA_SLOW_WAITS] = "waits",	 [SIMHCA_SLOW_REQUEST] = "request",
		[SIMHCA_SLOW_MEMORY] = "memory", [SIMHCA_SLOW_RECEIVE] = "receive",
		[SIMHCA_SLOW_CQ] = "cq",	 [SIMHCA_SLOW_EVENT] = "event",
		[SIMHCA_SLOW_COPY] = "copy",	 [SIMHCA_SLOW_ADDRESS] = "address",
	};
	json_t *fast_path = json_object();

	json_object_set_new(fast_path, "messages", json_integer((json_int_t)info->by_fast_path));
	json_object_set_new(fast_path, "events", json_integer((json_int_t)info->events_raised));
	for (int i = 0; i < SIMHCA_SLOW_REASONS; i++)
		json_object_set_new(fast_path, reasons[i],
				    json_integer((json_int_t)info->handed[i]));
	return fast_path;
}

json_t *usage_json(const struct simhca_usage_sum *usage)
{
	json_t *latency = json_array();

	for (uint32_t i = 0; i < SIMHCA_LATENCIES; i++)
		if (usage->latency[i])
			json_array_append_new(latency,
					      json_pack("[I, I]", (json_int_t)simhca_latency_ns(i),
							(json_int_t)usage->latency[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "messages",
			 (json_int_t)usage->messages, "bytes", (json_int_t)usage->bytes, "reads",
			 (json_int_t)usage->reads, "read_bytes", (json_int_t)usage->read_bytes,
			 "received", (json_int_t)usage->received, "received_bytes",
			 (json_int_t)usage->received_bytes, "retries", (json_int_t)usage->retries,
			 "rnr_naks", (json_int_t)usage->rnr_naks, "rnr_delay_ns",
			 (json_int_t)usage->rnr_delay_ns, "no_receive",
			 (json_int_t)usage->no_receive, "errors", (json_int_t)usage->errors,
			 "latency", latency);
}

static json_t *next_qp(const struct device *device, const struct session *session, uint32_t *handle)
{
	static const char *const contexts[SIMHCA_OWN_ACCESSES] = {
		[SIMHCA_REQUESTER_READ] = "requester_read",
		[SIMHCA_REQUESTER_WRITE] = "requester_write",
		[SIMHCA_RESPONDER_READ] = "responder_read",
		[SIMHCA_RESPONDER_WRITE] = "responder_write",
	};
	struct simhca_qp_info info;
	json_t *qp, *faults, *wire;
	int pending = 0;

	if (!simhca_next_qp(session->context, handle, &info))
		return NULL;
	qp = owner_json(device, session);
	wire = wire_json(session, (*handle)++);
	if (wire)
		json_object_set_new(qp, "wire", wire);
	faults = json_object();
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		json_object_set_new(faults, contexts[i], json_integer((json_int_t)info.faults[i]));
		pending += info.fault_pending[i];
	}
	json_object_set_new(qp, "lqpn", json_integer(info.qpn));
	json_object_set_new(qp, "rqpn", json_integer(info.dest_qpn));
	json_object_set_new(qp, "type", json_string(name_of_qp_type(info.type)));
	json_object_set_new(qp, "state", json_string(name_of_qp_state(info.state)));
	json_object_set_new(qp, "pdn", json_integer(info.pd));
	json_object_set_new(qp, "sends", json_integer(info.sends));
	json_object_set_new(qp, "recvs", json_integer(info.recvs));
	json_object_set_new(qp, "waits_for", json_string(name_of_wait(info.wait)));
	if (info.peer_device)
		json_object_set_new(
			qp, "peer_device",
			json_string(
				device_of_model(device->daemon, info.peer_device)->options->name));
	json_object_set_new(qp, "faults", faults);
	json_object_set_new(qp, "by_device",
			    json_integer((json_int_t)(info.usage.messages + info.usage.reads +
						      info.usage.errors - info.by_fast_path)));
	json_object_set_new(qp, "usage", usage_json(&info.usage));
	if (info.fast_path)
		json_object_set_new(qp, "fast_path", fast_path_json(&info));
	json_object_set_new(qp, "faults_pending", json_integer(pending));
	return qp;
}

static json_t *next_cq(const struct device *device, const struct session *session, uint32_t *handle)
{
	static const char *const arms[] = {
		[SIMHCA_ARM_NONE] = "no",
		[SIMHCA_ARM_SOLICITED] = "solicited",
		[SIMHCA_ARM_NEXT] = "next",
		[SIMHCA_ARM_BITS] = "next",
	};
	struct simhca_cq_info info;
	json_t *cq;

	if (!simhca_next_cq(session->context, handle, &info))
		return NULL;
	(*handle)++;
	cq = owner_json(device, session);
	json_object_set_new(cq, "cqn", json_integer(info.number));
	json_object_set_new(cq, "cqe", json_integer(info.cqe));
	json_object_set_new(cq, "waiting", json_integer(info.waiting));
	json_object_set_new(cq, "armed", json_string(arms[info.arm]));
	json_object_set_new(cq, "channel", json_integer((json_int_t)info.channel));
	json_object_set_new(cq, "overrun", json_boolean(info.overrun));
	json_object_set_new(cq, "users", json_integer(info.users));
	return cq;
}

static json_t *next_srq(const struct device *device, const struct session *session,
			uint32_t *handle)
{
	struct simhca_srq_info info;
	json_t *srq;

	if (!simhca_next_srq(session->context, handle, &info))
		return NULL;
	(*handle)++;
	srq = owner_json(device, session);
	json_object_set_new(srq, "srqn", json_integer(info.number));
	json_object_set_new(srq, "type", json_string(name_of_srq_type(info.type)));
	json_object_set_new(srq, "pdn", json_integer(info.pd));
	json_object_set_new(srq, "max_wr", json_integer(info.max_wr));
	json_object_set_new(srq, "posted", json_integer(info.posted));
	json_object_set_new(srq, "limit", json_integer(info.limit));
	json_object_set_new(srq, "users", json_integer(info.users));
	if (info.cq)
		json_object_set_new(srq, "cqn", json_integer(info.cq));
	return srq;
}

/* Of an EFA device, whose QPs are connected to nobody. */
static json_t *next_wire_host(const struct device *device, const struct session *session,
			      uint32_t *index)
{
	struct simhca_efa_traffic traffic;
	char peer[GID_TEXT];
	json_t *host;

	if (!simhca_efa_traffic(session->context, *index, &traffic))
		return NULL;
	(*index)++;
	gid_print(&traffic.peer, peer);
	host = owner_json(device, session);
	json_object_set_new(host, "pairs",
			    json_integer(traffic.routes > traffic.flows ? traffic.routes
									: traffic.flows));
	json_object_set_new(host, "wire",
			    json_pack("{s:s, s:I, s:I, s:I, s:I}", "peer", peer, "sent",
				      (json_int_t)traffic.sent, "repeated",
				      (json_int_t)traffic.repeated, "received",
				      (json_int_t)traffic.received, "lost",
				      (json_int_t)traffic.lost));
	return host;
}

static json_t *next_mr(const struct device *device, const struct session *session, uint32_t *handle)
{
	struct simhca_mr_info info;
	const struct simhca_query_mr_reply *attr = &info.attr;
	const struct simhca_odp_counters *odp = &attr->odp;
	json_t *mr;

	if (!simhca_next_mr(session->context, handle, &info))
		return NULL;
	(*handle)++;
	mr = owner_json(device, session);

	json_object_set_new(mr, "lkey", json_integer(attr->lkey));
	json_object_set_new(mr, "rkey", json_integer(attr->rkey));
	/* A whole address space has more bytes than a JSON integer can say. */
	json_object_set_new(mr, "mrlen",
			    json_integer(attr->length > INT64_MAX ? INT64_MAX
								  : (json_int_t)attr->length));
	json_object_set_new(mr, "pdn", json_integer(info.pd));
	json_object_set_new(mr, "access", json_integer(attr->access));
	json_object_set_new(mr, "windows", json_integer(attr->windows));
	json_object_set_new(mr, "mappable", json_boolean(info.mappable));
	if (attr->access & SIMHCA_ACCESS_ON_DEMAND)
		json_object_set_new(mr, "odp",
				    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
					      "present_pages", (json_int_t)attr->present_pages,
					      "faults", (json_int_t)odp->faults, "fault_pages",
					      (json_int_t)odp->fault_pages, "failures",
					      (json_int_t)odp->failures, "invalidations",
					      (json_int_t)odp->invalidations, "invalidated_pages",
					      (json_int_t)odp->invalidated_pages, "prefetches",
					      (json_int_t)odp->prefetches, "prefetched_pages",
					      (json_int_t)odp->prefetched_pages, "watched_pages",
					      (json_int_t)odp->watched_pages, "checked_pages",
					      (json_int_t)odp->checked_pages));
	return mr;
}

/* ---------------------------------------------------------------------------------- reports */

struct objects {
	bool begun;
	struct report_contexts contexts;
	uint32_t handle; /* of the context that it is at */
};

/*
 * The next object of the session from *handle on, which becomes the one behind it; NULL: there is
 * none, or no memory.
 */
typedef json_t *next_object(const struct device *device, const struct session *session,
			    uint32_t *handle);

static int step(struct report *report, struct objects *objects, next_object *next)
{
	const struct session *session;
	json_t *object = NULL;

	if (!objects->begun) {
		objects->begun = true;
		return report_list_contexts(report_daemon(report), NULL, &objects->contexts) ?:
		       report_put(report, "[") ?:
		       1;
	}
	if (objects->contexts.at == objects->contexts.count)
		return report_put(report, "]");
	session = report_session(report, &objects->contexts);
	if (session)
		object = next(session->device, session, &objects->handle);
	if (object)
		return report_put_item(report, object) ?: 1;
	objects->contexts.at++;
	objects->handle = 0;
	return 1;
}

static void end(void *state)
{
	free(((struct objects *)state)->contexts.ids);
}

#define REPORT(object)                                                                             \
	static int step_##object(struct report *report, void *state)                               \
	{                                                                                          \
		return step(report, state, next_##object);                                         \
	}                                                                                          \
	const struct report_kind object##_report = { .step = step_##object,                        \
						     .state_bytes = sizeof(struct objects),        \
						     .end = end }

REPORT(qp);
REPORT(cq);
REPORT(srq);
REPORT(wire_host);
REPORT(mr);
