/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>
#include <utlist.h>

#include "failures.h"
#include "names.h"
#include "simhca-abi-reason.h"

#define LOOK_BACK 64 /* how many failures ago a cause may be */

struct failed {
	uint64_t id;
	uint64_t cause; /* another's id; 0: none is known */
	struct timespec time;
	struct simhca_failure what;
	struct failing_program whose;
	struct failing_program empty; /* whose the queue is that had no receive */
	double next_after;	      /* seconds until it had one; 0: it has not been seen */
	bool sleep;		      /* it is no failure yet: text says who sleeps on what */
	const char *verb;	      /* NULL: it is no command */
	int error;
	char text[SIMHCA_CMD_MESSAGE];
	bool first; /* of its run: it stays */
	struct failed *prev, *next;
};

/* A `simhca run`, of which something has failed. */
struct failed_run {
	pid_t pid;
	uint64_t count; /* of work requests that no other failure explains */
	UT_hash_handle hh;
};

struct known {
	uint32_t context;
	struct failing_program program;
	UT_hash_handle hh;
};

struct failures {
	pthread_mutex_t lock; /* held for moments: engines wait for it */
	struct failed room[FAILURES_KEPT];
	unsigned int used;
	struct failed *list; /* oldest first */
	struct known *known;
	struct failed_run *runs;
	uint64_t last_id;
};

struct failures *failures_open(void)
{
	struct failures *failures = calloc(1, sizeof(*failures));

	if (failures)
		pthread_mutex_init(&failures->lock, NULL);
	return failures;
}

void failures_close(struct failures *failures)
{
	struct known *known, *next_known;
	struct failed_run *run, *next_run;

	if (!failures)
		return;
	HASH_ITER (hh, failures->known, known, next_known) {
		HASH_DEL(failures->known, known);
		free(known);
	}
	HASH_ITER (hh, failures->runs, run, next_run) {
		HASH_DEL(failures->runs, run);
		free(run);
	}
	pthread_mutex_destroy(&failures->lock);
	free(failures);
}

/* ------------------------------------------------------------------------------------ whose */

void failures_know(struct failures *failures, uint32_t context,
		   const struct failing_program *program)
{
	struct known *known = malloc(sizeof(*known));

	if (!known)
		return;
	known->context = context;
	known->program = *program;
	pthread_mutex_lock(&failures->lock);
	HASH_ADD_INT(failures->known, context, known);
	pthread_mutex_unlock(&failures->lock);
}

void failures_forget(struct failures *failures, uint32_t context)
{
	struct known *known;

	pthread_mutex_lock(&failures->lock);
	HASH_FIND_INT(failures->known, &context, known);
	if (known)
		HASH_DEL(failures->known, known);
	pthread_mutex_unlock(&failures->lock);
	free(known);
}

static struct failing_program whose(struct failures *failures, uint32_t context)
{
	struct known *known;

	HASH_FIND_INT(failures->known, &context, known);
	return known ? known->program : (struct failing_program){ .comm = "XRC target" };
}

struct failing_program failures_program(struct failures *failures, uint32_t context)
{
	struct failing_program program;

	pthread_mutex_lock(&failures->lock);
	program = whose(failures, context);
	pthread_mutex_unlock(&failures->lock);
	return program;
}

/* ------------------------------------------------------------------------------------- room */

static unsigned int count_of(const struct failures *failures, pid_t program)
{
	const struct failed *failed;
	unsigned int count = 0;

	DL_FOREACH (failures->list, failed)
		count += failed->whose.program == program;
	return count;
}

/* The program whose oldest failure has to go. */
static pid_t who_has_most(const struct failures *failures)
{
	const struct failed *failed;
	unsigned int most = 0;
	pid_t program = 0;

	DL_FOREACH (failures->list, failed) {
		unsigned int count = count_of(failures, failed->whose.program);

		if (count > most) {
			most = count;
			program = failed->whose.program;
		}
	}
	return program;
}

/* The first failure of each run stays for its end, as far as that leaves any room. */
static struct failed *oldest_of(struct failures *failures, pid_t program)
{
	struct failed *failed, *oldest = NULL;

	DL_FOREACH (failures->list, failed) {
		if (failed->whose.program != program)
			continue;
		if (!failed->first)
			return failed;
		if (!oldest)
			oldest = failed;
	}
	return oldest;
}

static struct failed *take_room(struct failures *failures, pid_t program)
{
	struct failed *failed;

	if (count_of(failures, program) >= FAILURES_OF_PROGRAM)
		failed = oldest_of(failures, program);
	else if (failures->used < FAILURES_KEPT)
		return &failures->room[failures->used++];
	else
		failed = oldest_of(failures, who_has_most(failures));
	DL_DELETE(failures->list, failed);
	return failed;
}

/* ----------------------------------------------------------------------------------- causes */

static bool is_refusal_of(const struct failed *failed, const struct simhca_failure *send)
{
	/* PSNs are 24 bits. */
	uint32_t in_message = (failed->what.psn - send->psn) & 0xffffff;

	return failed->what.kind == SIMHCA_REQUEST_REFUSED && !failed->cause &&
	       failed->what.qpn == send->peer_qpn && failed->what.peer_qpn == send->qpn &&
	       in_message <= ((send->last_psn - send->psn) & 0xffffff);
}

/* Whether a rule of faults fired at either end of it, and was the reason. */
static bool is_injection_for(const struct failed *failed, const struct simhca_failure *what)
{
	return failed->what.kind == SIMHCA_INJECTED && !failed->cause && failed->what.qpn &&
	       what->reason == SIMHCA_REASON_INJECTED &&
	       (failed->what.qpn == what->qpn || failed->what.qpn == what->peer_qpn);
}

/* Whether the failure is one by which this QP goes to ERR. */
static bool is_end_of(const struct failed *failed, uint32_t qpn)
{
	return !failed->verb && failed->what.qpn == qpn &&
	       (failed->what.kind == SIMHCA_SEND_FAILED ||
		failed->what.kind == SIMHCA_RECV_FAILED ||
		failed->what.kind == SIMHCA_REQUEST_REFUSED);
}

static void look_for_causes(struct failures *failures, struct failed *new)
{
	const struct simhca_failure *what = &new->what;
	struct failed *failed = failures->list ? failures->list->prev : NULL;

	for (unsigned int i = 0; failed && i < LOOK_BACK; i++) {
		switch (what->kind) {
		case SIMHCA_SEND_FAILED:
			/* What the other end said, and what was seen of it, came before. */
			if (is_refusal_of(failed, what) || is_injection_for(failed, what) ||
			    (failed->what.kind == SIMHCA_NO_ANSWER && !failed->cause &&
			     failed->what.qpn == what->qpn &&
			     what->status == SIMHCA_WC_RETRY_EXC_ERR))
				failed->cause = new->id;
			else if (what->status == SIMHCA_WC_RETRY_EXC_ERR && !new->cause &&
				 is_end_of(failed, what->peer_qpn))
				new->cause = failed->id;
			break;
		case SIMHCA_RECV_FAILED:
			if (is_injection_for(failed, what))
				failed->cause = new->id;
			else if (!new->cause && failed->what.kind == SIMHCA_REQUEST_REFUSED &&
				 failed->what.qpn == what->qpn &&
				 failed->what.reason == what->reason)
				new->cause = failed->id;
			break;
		case SIMHCA_FLUSHED:
			if (!new->cause && is_end_of(failed, what->qpn))
				new->cause = failed->id;
			break;
		default:
			return;
		}
		if (failed == failures->list)
			return;
		failed = failed->prev;
	}
}

/* ----------------------------------------------------------------------------------- adding */

static void count_for_run(struct failures *failures, struct failed *failed)
{
	struct failed_run *run;

	if (!failed->whose.run || failed->cause || failed->verb ||
	    (failed->what.kind != SIMHCA_SEND_FAILED && failed->what.kind != SIMHCA_RECV_FAILED))
		return;
	HASH_FIND_INT(failures->runs, &failed->whose.run, run);
	if (!run) {
		run = calloc(1, sizeof(*run));
		if (!run)
			return;
		run->pid = failed->whose.run;
		HASH_ADD_INT(failures->runs, pid, run);
		failed->first = true;
	}
	run->count++;
}

/*
 * Flushes of a QP are told as one, under the failure that they follow from; and what a rule of
 * faults did to it, until that has a failure to stand under.
 */
static bool is_counted_already(struct failures *failures, const struct failed *new)
{
	enum simhca_failure_kind kind = new->what.kind;
	struct failed *failed;

	if (new->verb || (kind != SIMHCA_FLUSHED && kind != SIMHCA_INJECTED))
		return false;
	DL_FOREACH (failures->list, failed)
		if (!failed->verb && failed->what.kind == kind &&
		    failed->what.qpn == new->what.qpn && failed->cause == new->cause &&
		    failed->what.context == new->what.context && !strcmp(failed->text, new->text)) {
			failed->what.count += new->what.count;
			return true;
		}
	return false;
}

static void add(struct failures *failures, struct failed *new)
{
	struct failed *failed;

	clock_gettime(CLOCK_REALTIME, &new->time);
	pthread_mutex_lock(&failures->lock);
	new->whose = whose(failures, new->what.context);
	if (new->what.empty.context)
		new->empty = whose(failures, new->what.empty.context);
	if (new->what.kind == SIMHCA_INJECTED && !new->what.context && !new->what.qpn)
		strcpy(new->whose.comm, "rdma_cm");
	new->id = ++failures->last_id;
	if (!new->verb)
		look_for_causes(failures, new);
	/* Flushes are a failure's consequence. Of a QP that its program has moved to ERR they are
	   what it wants. */
	if ((new->what.kind != SIMHCA_FLUSHED || new->cause) &&
	    !is_counted_already(failures, new)) {
		count_for_run(failures, new);
		failed = take_room(failures, new->whose.program);
		*failed = *new;
		DL_APPEND(failures->list, failed);
	}
	pthread_mutex_unlock(&failures->lock);
}

void failures_add(struct failures *failures, const struct simhca_failure *failure)
{
	struct failed new = { .what = *failure };

	if (failure->text)
		snprintf(new.text, sizeof(new.text), "%s", failure->text);
	new.what.text = NULL;
	add(failures, &new);
}

void failures_add_verb(struct failures *failures, uint32_t context, const char *verb, int error,
		       const char *why)
{
	struct failed new = { .verb = verb, .error = error, .what.context = context };

	snprintf(new.text, sizeof(new.text), "%s", why);
	add(failures, &new);
}

void failures_add_sleep(struct failures *failures, uint32_t context, const char *text)
{
	struct failed new = { .sleep = true, .verb = "", .what.context = context };

	snprintf(new.text, sizeof(new.text), "%s", text);
	add(failures, &new);
}

void failures_end_run(struct failures *failures, pid_t pid)
{
	struct failed_run *run;
	struct failed *failed;

	pthread_mutex_lock(&failures->lock);
	HASH_FIND_INT(failures->runs, &pid, run);
	if (run)
		HASH_DEL(failures->runs, run);
	DL_FOREACH (failures->list, failed)
		if (failed->whose.run == pid)
			failed->first = false;
	pthread_mutex_unlock(&failures->lock);
	free(run);
}

/* ---------------------------------------------------------------------------------- telling */

static const struct failed *find(const struct failed *all, unsigned int count, uint64_t id)
{
	for (unsigned int i = 0; i < count; i++)
		if (all[i].id == id)
			return &all[i];
	return NULL;
}

/* The failure that all began with; 0: this one. */
static uint64_t root_of(const struct failed *all, unsigned int count, const struct failed *failed)
{
	const struct failed *cause = failed;

	/* Each step leads to another one, and there are no more than so many. */
	for (unsigned int i = 0; i < count && cause->cause; i++) {
		const struct failed *next = find(all, count, cause->cause);

		if (!next)
			break;
		cause = next;
	}
	return cause == failed ? 0 : cause->id;
}

static const char *kind_name(const struct failed *failed)
{
	static const char *const names[] = {
		[SIMHCA_SEND_FAILED] = "send",	      [SIMHCA_RECV_FAILED] = "receive",
		[SIMHCA_REQUEST_REFUSED] = "refusal", [SIMHCA_NO_ANSWER] = "no answer",
		[SIMHCA_FLUSHED] = "flush",	      [SIMHCA_INJECTED] = "injection",
	};

	if (failed->sleep)
		return "sleep";
	return failed->verb ? "verb" : names[failed->what.kind];
}

/* The reason, with the numbers that there are. */
static void say(const struct failed *failed, char *text, size_t size)
{
	const struct simhca_failure *what = &failed->what;
	uint64_t end = what->va + what->bytes, region_end = what->entry.iova + what->entry.length;

	if (failed->text[0])
		snprintf(text, size, "%s", failed->text);
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
	json_object_set_new(json, "length", json_integer((json_int_t)entry->length));
	json_object_set_new(json, "access", json_string(access));
	return json;
}

static json_t *gone_json(const struct simhca_gone_facts *gone)
{
	json_t *json = json_pack("{s:o, s:I, s:f}", "address", hex(gone->iova), "length",
				 (json_int_t)gone->length, "ago_s", 1e-9 * (double)gone->ago_ns);

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
	json_object_set_new(json, "vendor_err", json_integer(what->reason));
	if (what->kind == SIMHCA_FLUSHED || what->kind == SIMHCA_INJECTED) {
		json_object_set_new(json, "count", json_integer(what->count));
		return;
	}
	if (what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_REQUEST_REFUSED) {
		json_object_set_new(json, "opcode", json_string(name_of_opcode(what->opcode)));
		json_object_set_new(json, "psn", json_integer(what->psn));
		json_object_set_new(json, "length", json_integer((json_int_t)what->length));
	}
	if (what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_RECV_FAILED) {
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

/* A process names itself, with any bytes; JSON wants UTF-8. */
static json_t *name_json(const struct failing_program *program)
{
	char comm[sizeof(program->comm)];

	memcpy(comm, program->comm, sizeof(comm));
	for (char *c = comm; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return json_string(comm);
}

/* The peer's, which had no receive. */
static void add_queue(json_t *json, const struct failed *failed)
{
	const struct simhca_empty_facts *empty = &failed->what.empty;
	json_t *queue;

	if (!empty->context)
		return;
	queue = json_pack("{s:I, s:I, s:o, s:I, s:I}", "context", (json_int_t)empty->context, "pid",
			  (json_int_t)failed->empty.pid, "comm", name_json(&failed->empty), "srqn",
			  (json_int_t)empty->srqn, "posted", (json_int_t)empty->posted);
	if (failed->next_after)
		json_object_set_new(queue, "next_after_s", json_real(failed->next_after));
	json_object_set_new(json, "queue", queue);
}

static json_t *failed_json(const struct failed *all, unsigned int count,
			   const struct failed *failed)
{
	uint64_t root = root_of(all, count, failed);
	char text[SIMHCA_CMD_MESSAGE];
	json_t *json;

	say(failed, text, sizeof(text));
	json = json_pack("{s:I, s:f, s:s, s:I, s:o, s:s, s:I, s:s}", "id", (json_int_t)failed->id,
			 "time", (double)failed->time.tv_sec + 1e-9 * (double)failed->time.tv_nsec,
			 "kind", kind_name(failed), "pid", (json_int_t)failed->whose.pid, "comm",
			 name_json(&failed->whose), "device", failed->whose.device, "context",
			 (json_int_t)failed->what.context, "text", text);
	if (!json)
		return NULL;
	if (root)
		json_object_set_new(json, "cause", json_integer((json_int_t)root));
	if (failed->sleep)
		return json;
	if (failed->verb) {
		json_object_set_new(json, "verb", json_string(failed->verb));
		json_object_set_new(json, "errno", json_integer(failed->error));
	} else {
		add_work_request(json, &failed->what);
		add_queue(json, failed);
	}
	return json;
}

static double seconds_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)(now.tv_sec - then->tv_sec) + 1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

unsigned int failures_empty(struct failures *failures, double seconds, struct failures_empty *empty,
			    unsigned int most)
{
	const struct failed *failed;
	unsigned int count = 0;

	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed) {
		const struct simhca_empty_facts *facts = &failed->what.empty;

		if (facts->context && !failed->next_after && count < most &&
		    seconds_since(&failed->time) < seconds)
			empty[count++] = (struct failures_empty){ .id = failed->id,
								  .context = facts->context,
								  .qpn = failed->what.peer_qpn,
								  .posted = facts->posted };
	}
	pthread_mutex_unlock(&failures->lock);
	return count;
}

void failures_found_receive(struct failures *failures, uint64_t id)
{
	struct failed *failed;

	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed)
		if (failed->id == id)
			failed->next_after = seconds_since(&failed->time);
	pthread_mutex_unlock(&failures->lock);
}

/* A copy of all of them, so that engines wait no longer than for that. NULL: out of memory. */
static struct failed *copy(struct failures *failures, pid_t run, unsigned int *count,
			   uint64_t *failed_of_run)
{
	struct failed *all = calloc(FAILURES_KEPT, sizeof(*all));
	const struct failed *failed;
	struct failed_run *of_run;

	*count = 0;
	*failed_of_run = 0;
	if (!all)
		return NULL;
	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed)
		all[(*count)++] = *failed;
	HASH_FIND_INT(failures->runs, &run, of_run);
	if (of_run)
		*failed_of_run = of_run->count;
	pthread_mutex_unlock(&failures->lock);
	return all;
}

json_t *failures_json(struct failures *failures, uint64_t since, pid_t run)
{
	uint64_t failed_of_run;
	unsigned int count;
	struct failed *all = copy(failures, run, &count, &failed_of_run);
	json_t *json, *list = json_array();

	for (unsigned int i = 0; i < count; i++)
		if (all[i].id > since && (!run || all[i].whose.run == run))
			json_array_append_new(list, failed_json(all, count, &all[i]));
	free(all);
	json = json_pack("{s:o, s:I}", "failures", list, "failed_work_requests",
			 (json_int_t)failed_of_run);
	return json;
}
