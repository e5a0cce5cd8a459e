/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "failed.h"
#include "names.h"
#include "simhca-abi-reason.h"

static const char *kind_name(const struct failed *failed)
{
	static const char *const names[] = {
		[SIMHCA_SEND_FAILED] = "send",
		[SIMHCA_RECV_FAILED] = "receive",
		[SIMHCA_REQUEST_REFUSED] = "refusal",
		[SIMHCA_NO_ANSWER] = "no answer",
		[SIMHCA_LOST] = "loss",
		[SIMHCA_FLUSHED] = "flush",
		[SIMHCA_INJECTED] = "injection",
	};

	switch (failed->kind) {
	case FAILED_VERB:
		return "verb";
	case FAILED_SLEEP:
		return "sleep";
	case FAILED_EVENT:
		return "event";
	case FAILED_CONNECTION:
		return "connection";
	default:
		return names[failed->what.kind];
	}
}

/* The reason, with the numbers that there are. */
static void say(const struct failed *failed, char *text, size_t size)
{
	const struct simhca_failure *what = &failed->what;
	uint64_t end = what->va + what->bytes, region_end = what->entry.iova + what->entry.length;

	if (failed->text[0] || failed->kind == FAILED_VERB)
		snprintf(text, size, "%s", failed->text);
	else if (what->entry.has_range && what->reason == SIMHCA_REASON_KEY_PAST_END &&
		 what->va >= region_end && region_end > what->entry.iova)
		snprintf(text, size, "the access begins %llu byte%s after the region's end",
			 (unsigned long long)(what->va - region_end),
			 what->va - region_end == 1 ? "" : "s");
	else if (what->entry.has_range && what->reason == SIMHCA_REASON_KEY_PAST_END &&
		 end > region_end)
		snprintf(text, size, "the access ends %llu byte%s after the region",
			 (unsigned long long)(end - region_end), end - region_end == 1 ? "" : "s");
	else if (what->entry.has_range && what->reason == SIMHCA_REASON_KEY_BELOW_START)
		snprintf(text, size, "the access begins %llu byte%s before the region",
			 (unsigned long long)(what->entry.iova - what->va),
			 what->entry.iova - what->va == 1 ? "" : "s");
	else
		snprintf(text, size, "%s", simhca_reason_text(what->reason));
}

/* Numbers of 64 bits, which JSON's integers are not: as text. */
static json_t *hex(uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)number);
	return json_string(text);
}

static json_t *entry_json(const struct simhca_key_facts *entry)
{
	static const char *const names[] = {
		[SIMHCA_MPT_MR] = "MR",
		[SIMHCA_MPT_NULL_MR] = "null MR",
		[SIMHCA_MPT_FAST_MR] = "fast-register MR",
		[SIMHCA_MPT_MW_1] = "type 1 window",
		[SIMHCA_MPT_MW_2A] = "type 2A window",
		[SIMHCA_MPT_MW_2B] = "type 2B window",
	};
	char access[NAMES_OF_ACCESS];
	json_t *json;

	if (entry->type == SIMHCA_MPT_FREE)
		return json_null();
	json = json_pack("{s:s, s:o, s:I, s:I}", "what",
			 entry->type < sizeof(names) / sizeof(names[0]) ? names[entry->type] : "?",
			 "key", hex(entry->key), "pdn", (json_int_t)entry->pd, "qpn",
			 (json_int_t)entry->qpn);
	if (!json || !entry->has_range)
		return json;
	names_of_access(entry->access, access);
	json_object_set_new(json, "address", hex(entry->iova));
	/* A null MR, and one of the whole address space, have no end. */
	if (entry->length <= INT64_MAX)
		json_object_set_new(json, "length", json_integer((json_int_t)entry->length));
	json_object_set_new(json, "access", json_string(access));
	return json;
}

static json_t *gone_json(const struct simhca_gone_facts *gone)
{
	json_t *json = json_pack("{s:o, s:I, s:f}", "address", hex(gone->iova), "length",
				 (json_int_t)gone->length, "ago_s", 1e-9 * (double)gone->ago_ns);

	if (gone->window)
		json_object_set_new(json, "window", json_true());
	if (gone->changed)
		json_object_set_new(json, "changed", json_true());
	if (gone->now_key)
		json_object_set_new(json, "now", hex(gone->now_key));
	return json;
}

static void add_work_request(json_t *json, const struct simhca_failure *what)
{
	json_object_set_new(json, "qpn", json_integer(what->qpn));
	json_object_set_new(json, "qp_type", json_string(name_of_qp_type(what->qp_type)));
	json_object_set_new(json, "pdn", json_integer(what->pd));
	json_object_set_new(json, "peer_qpn", json_integer(what->peer_qpn));
	json_object_set_new(json, "reason", json_string(name_of_reason(what->reason)));
	json_object_set_new(json, "vendor_err",
			    json_integer(what->vendor_err ? what->vendor_err : what->reason));
	if (what->obstacle)
		json_object_set_new(json, "obstacle", json_string(what->obstacle));
	if (what->kind == SIMHCA_FLUSHED || what->kind == SIMHCA_INJECTED) {
		json_object_set_new(json, "count", json_integer(what->count));
		if (what->timeout && what->kind == SIMHCA_INJECTED)
			json_object_set_new(json, "timeout", json_integer(what->timeout));
		return;
	}
	if (what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_REQUEST_REFUSED ||
	    what->kind == SIMHCA_LOST) {
		json_object_set_new(json, "opcode", json_string(name_of_opcode(what->opcode)));
		json_object_set_new(json, "psn", json_integer(what->psn));
		json_object_set_new(json, "length", json_integer((json_int_t)what->length));
	}
	if (what->kind == SIMHCA_REQUEST_REFUSED || what->kind == SIMHCA_LOST)
		json_object_set_new(json, "count", json_integer(what->count));
	if (what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_RECV_FAILED) {
		/* That of an EFA device's is known to its driver alone. */
		if (!what->vendor_err)
			json_object_set_new(json, "wr_id", hex(what->wr_id));
		json_object_set_new(json, "status", json_string(name_of_status(what->status)));
	}
	if (what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_NO_ANSWER) {
		json_object_set_new(json, "retry_cnt", json_integer(what->retry_cnt));
		json_object_set_new(json, "rnr_retry", json_integer(what->rnr_retry));
		json_object_set_new(json, "timeout", json_integer(what->timeout));
	}
	if (what->has_access || what->bytes) {
		json_object_set_new(json, "key", hex(what->key));
		json_object_set_new(json, "address", hex(what->va));
		json_object_set_new(json, "bytes", json_integer((json_int_t)what->bytes));
	}
	if (what->has_access)
		json_object_set_new(json, "entry", entry_json(&what->entry));
	if (what->gone.was)
		json_object_set_new(json, "was", gone_json(&what->gone));
}

/* The peer's, which had no receive. */
static void add_queue(json_t *json, const struct failed *failed)
{
	const struct simhca_empty_facts *empty = &failed->what.empty;
	json_t *queue;

	if (!empty->context)
		return;
	queue = json_pack("{s:I, s:I, s:s, s:I, s:I}", "context", (json_int_t)empty->context, "pid",
			  (json_int_t)failed->empty.pid, "comm", failed->empty.comm, "srqn",
			  (json_int_t)empty->srqn, "posted", (json_int_t)empty->posted);
	if (empty->dropped)
		json_object_set_new(queue, "dropped", json_integer(empty->dropped));
	if (empty->limit_spent)
		json_object_set_new(queue, "limit_spent", json_true());
	if (failed->next_after)
		json_object_set_new(queue, "next_after_s", json_real(failed->next_after));
	json_object_set_new(json, "queue", queue);
}

static void add_sender(json_t *json, const struct failing_program *sender)
{
	if (sender->pid)
		json_object_set_new(json, "sender",
				    json_pack("{s:I, s:s}", "pid", (json_int_t)sender->pid, "comm",
					      sender->comm));
}

bool failed_is_of_qp(uint32_t event)
{
	switch (event) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		return true;
	default:
		return false;
	}
}

static void add_event(json_t *json, const struct failed *failed)
{
	json_object_set_new(json, "event", json_string(name_of_event(failed->event)));
	json_object_set_new(json, failed_is_of_qp(failed->event) ? "qpn" : "number",
			    json_integer(failed->number));
	json_object_set_new(json, "count", json_integer(failed->what.count));
}

json_t *failed_json(const struct failed *failed, uint64_t root)
{
	char text[FAILED_TEXT];
	json_t *json;

	say(failed, text, sizeof(text));
	json = json_pack("{s:I, s:f, s:s, s:I, s:s, s:s, s:I, s:s}", "id", (json_int_t)failed->id,
			 "time", (double)failed->time.tv_sec + 1e-9 * (double)failed->time.tv_nsec,
			 "kind", kind_name(failed), "pid", (json_int_t)failed->whose.pid, "comm",
			 failed->whose.comm, "device", failed->whose.device, "context",
			 (json_int_t)failed->what.context, "text", text);
	if (!json)
		return NULL;
	if (failed->looks_like[0])
		json_object_set_new(json, "looks_like", json_string(failed->looks_like));
	if (root)
		json_object_set_new(json, "cause", json_integer((json_int_t)root));
	if (failed->by_rule) {
		json_object_set_new(json, "reason", json_string("INJECTED"));
		json_object_set_new(json, "vendor_err", json_integer(SIMHCA_REASON_INJECTED));
	}
	switch (failed->kind) {
	case FAILED_VERB:
		json_object_set_new(json, "verb", json_string(failed->name));
		json_object_set_new(json, "errno", json_integer(failed->error));
		json_object_set_new(json, "count", json_integer(failed->what.count));
		json_object_set_new(json, "succeeded_later", json_boolean(failed->taken));
		break;
	case FAILED_SLEEP:
		json_object_set_new(json, "how", json_string(failed->name));
		add_sender(json, &failed->sender);
		break;
	case FAILED_EVENT:
		add_event(json, failed);
		break;
	case FAILED_CONNECTION:
		json_object_set_new(json, "how", json_string(failed->name));
		json_object_set_new(json, "status", json_integer(failed->error));
		break;
	case FAILED_WORK:
		add_work_request(json, &failed->what);
		add_queue(json, failed);
		add_sender(json, &failed->sender);
	}
	return json;
}
