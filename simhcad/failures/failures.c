/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>
#include <uthash.h>
#include <utlist.h>

#include "core/lock.h"
#include "base/monotonic.h"
#include "failed.h"
#include "failures.h"
#include "names.h"

#define LOOK_BACK 64 /* how many failures ago a cause may be */

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
		simhca_mutex_init(&failures->lock, SIMHCA_LOCK_FAILURES);
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

	return failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_REQUEST_REFUSED &&
	       !failed->cause && failed->what.qpn == send->peer_qpn &&
	       failed->what.peer_qpn == send->qpn &&
	       in_message <= ((send->last_psn - send->psn) & 0xffffff);
}

/* Whether a rule of faults fired at either end of it, and was the reason. */
static bool is_injection_for(const struct failed *failed, const struct simhca_failure *what)
{
	return failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_INJECTED &&
	       !failed->cause && failed->what.qpn && what->reason == SIMHCA_REASON_INJECTED &&
	       (failed->what.qpn == what->qpn || failed->what.qpn == what->peer_qpn);
}

/* Whether the failure is one by which this QP goes to ERR. */
static bool is_end_of(const struct failed *failed, uint32_t qpn)
{
	return failed->kind == FAILED_WORK && failed->what.qpn == qpn &&
	       (failed->what.kind == SIMHCA_SEND_FAILED ||
		failed->what.kind == SIMHCA_RECV_FAILED ||
		failed->what.kind == SIMHCA_REQUEST_REFUSED);
}

/* Work requests of both ends, and what was seen and done between them. */
static void relate_work(struct failed *failed, struct failed *new)
{
	const struct simhca_failure *what = &new->what;

	switch (what->kind) {
	case SIMHCA_SEND_FAILED:
		/* What the other end said, and what was seen of it, came before. */
		if (is_refusal_of(failed, what) || is_injection_for(failed, what) ||
		    (failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_NO_ANSWER &&
		     !failed->cause && failed->what.qpn == what->qpn &&
		     what->status == SIMHCA_WC_RETRY_EXC_ERR))
			failed->cause = new->id;
		else if (what->status == SIMHCA_WC_RETRY_EXC_ERR && !new->cause &&
			 is_end_of(failed, what->peer_qpn))
			new->cause = failed->id;
		break;
	case SIMHCA_RECV_FAILED:
		if (is_injection_for(failed, what))
			failed->cause = new->id;
		else if (!new->cause && failed->kind == FAILED_WORK &&
			 failed->what.kind == SIMHCA_REQUEST_REFUSED &&
			 failed->what.qpn == what->qpn && failed->what.reason == what->reason)
			new->cause = failed->id;
		break;
	case SIMHCA_FLUSHED:
		if (!new->cause && is_end_of(failed, what->qpn))
			new->cause = failed->id;
		break;
	default:
		break;
	}
}

/* What a rule has done to the communication manager itself, and not to a QP. */
static bool is_rejection(const struct failed *failed)
{
	return failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_INJECTED &&
	       !failed->cause && !failed->what.context && !failed->what.qpn;
}

/* What a rule has done to a context, and to none of its QPs: to a verb. */
static bool is_of_verb(const struct failed *failed)
{
	return failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_INJECTED &&
	       failed->what.context && !failed->what.qpn;
}

/* Whether that is it, and has no story yet. */
static bool is_rule_for(const struct failed *failed, const struct failed *verb)
{
	return is_of_verb(failed) && !failed->cause && failed->what.context == verb->what.context &&
	       !strcmp(verb->text, FAILURES_BY_RULE);
}

/*
 * Whether a rule has just raised this event. What rules do to ports and devices is known otherwise.
 */
static bool is_raised_by(const struct failed *failed, const struct failed *event)
{
	return failed->kind == FAILED_WORK && failed->what.kind == SIMHCA_INJECTED &&
	       !failed->cause && failed->what.context == event->what.context &&
	       failed->what.event == event->event + 1;
}

static void look_for_causes(struct failures *failures, struct failed *new)
{
	struct failed *failed = failures->list ? failures->list->prev : NULL;

	for (unsigned int i = 0; failed && i < LOOK_BACK; i++) {
		if (new->kind == FAILED_WORK) {
			relate_work(failed, new);
		} else if (new->kind == FAILED_EVENT && !new->by_rule &&
			   is_raised_by(failed, new)) {
			failed->cause = new->id;
			new->by_rule = true;
			snprintf(new->text, sizeof(new->text),
				 "a rule of `simhca inject` raised it, and nothing else has "
				 "happened");
		} else if (new->kind == FAILED_EVENT && !new->cause &&new->what.qpn &&
			   is_end_of(failed, new->what.qpn))
			new->cause = failed->id;
		else if (new->kind == FAILED_CONNECTION && is_rejection(failed)) {
			failed->cause = new->id;
			failed->whose.run = new->whose.run;
		} else if (new->kind == FAILED_VERB && is_rule_for(failed, new)) {
			failed->cause = new->id;
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

	if (!failed->whose.run || failed->cause || failed->kind != FAILED_WORK ||
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

/* A datagram that was not delivered: it is told with others that are like it. */
static bool is_dropped_datagram(const struct failed *failed)
{
	return failed->what.kind == SIMHCA_LOST || (failed->what.kind == SIMHCA_REQUEST_REFUSED &&
						    failed->what.qp_type == SIMHCA_QPT_UD);
}

/*
 * Flushes of a QP are told as one, under the failure that they follow from; and what a rule of
 * faults did to it, until that has a failure to stand under. So are datagrams of one QP that
 * another one drops for the same reason.
 */
static bool is_counted_already(struct failures *failures, const struct failed *new)
{
	enum simhca_failure_kind kind = new->what.kind;
	struct failed *failed;

	if (new->kind != FAILED_WORK ||
	    (kind != SIMHCA_FLUSHED && kind != SIMHCA_INJECTED && !is_dropped_datagram(new)))
		return false;
	DL_FOREACH (failures->list, failed)
		if (failed->kind == FAILED_WORK && failed->what.kind == kind &&
		    failed->what.qpn == new->what.qpn &&
		    (failed->cause == new->cause || is_of_verb(new) || new->what.event) &&
		    failed->what.context == new->what.context &&
		    (!is_dropped_datagram(new) || failed->what.peer_qpn == new->what.peer_qpn) &&
		    !strcmp(failed->text, new->text)) {
			failed->what.count += new->what.count;
			return true;
		}
	return false;
}

/* Takes a word off a text; whether it has a digit, as numbers, keys and addresses have. */
static bool take_word(const char **text, size_t *length)
{
	const char *word = *text;

	*length = strcspn(word, " ");
	*text += *length + strspn(word + *length, " ");
	return strcspn(word, "0123456789") < *length;
}

static bool is_but_for_numbers(const char *a, const char *b)
{
	while (*a && *b) {
		const char *word = a, *other = b;
		size_t length, of_other;
		bool has_digit = take_word(&a, &length);

		if (has_digit != take_word(&b, &of_other) ||
		    (!has_digit && (length != of_other || strncmp(word, other, length) != 0)))
			return false;
	}
	return *a == *b;
}

/* Whether a rule raises the same event for the same program once more. */
static bool is_event_again(const struct failed *failed, const struct failed *new)
{
	return new->kind == FAILED_EVENT && failed->kind == FAILED_EVENT && failed->by_rule &&
	       !failed->cause && failed->event == new->event && failed->number == new->number &&
	       failed->what.context == new->what.context;
}

/* Whether a connection fails in the same words once more. */
static bool is_connection_again(const struct failed *failed, const struct failed *new)
{
	return new->kind == FAILED_CONNECTION && failed->kind == FAILED_CONNECTION &&
	       failed->whose.pid == new->whose.pid && failed->error == new->error &&
	       !strcmp(failed->name, new->name) && !strcmp(failed->text, new->text);
}

/* One that a verb's refusal, an event by a rule, or a connection is told with; NULL: none. */
static struct failed *told_with(struct failures *failures, const struct failed *new)
{
	struct failed *failed;

	DL_FOREACH (failures->list, failed)
		if (is_event_again(failed, new) || is_connection_again(failed, new))
			return failed;
	if (new->kind != FAILED_VERB)
		return NULL;
	DL_FOREACH (failures->list, failed)
		if (failed->kind == FAILED_VERB && failed->what.context == new->what.context &&
		    failed->whose.pid == new->whose.pid && failed->error == new->error &&
		    !failed->cause && !strcmp(failed->name, new->name) &&
		    is_but_for_numbers(failed->text, new->text))
			return failed;
	return NULL;
}

static void add(struct failures *failures, struct failed *new)
{
	struct failed *failed, *same;

	clock_gettime(CLOCK_REALTIME, &new->time);
	new->since = monotonic_s();
	pthread_mutex_lock(&failures->lock);
	if (!new->whose.comm[0])
		new->whose = whose(failures, new->what.context);
	if (new->what.empty.context)
		new->empty = whose(failures, new->what.empty.context);
	if (new->what.peer_context)
		new->sender = whose(failures, new->what.peer_context);
	if (new->kind == FAILED_WORK &&new->what.kind == SIMHCA_INJECTED && !new->what.context &&
	    !new->what.qpn)
		strcpy(new->whose.comm, "rdma_cm");
	same = told_with(failures, new);
	new->id = same ? same->id : ++failures->last_id;
	look_for_causes(failures, new);
	if (same) {
		same->what.count++;
		pthread_mutex_unlock(&failures->lock);
		return;
	}
	/* Flushes are a failure's consequence. Of a QP that its program has moved to ERR they are
	   what it wants. */
	if ((new->kind != FAILED_WORK || new->what.kind != SIMHCA_FLUSHED || new->cause) &&
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
	struct failed new = { .kind = FAILED_VERB,
			      .name = verb,
			      .error = error,
			      .what = { .context = context, .count = 1 } };

	snprintf(new.text, sizeof(new.text), "%s", why);
	add(failures, &new);
}

void failures_verb_succeeds(struct failures *failures, uint32_t context, const char *verb)
{
	struct failed *failed;

	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed)
		if (failed->kind == FAILED_VERB && failed->what.context == context &&
		    !strcmp(failed->name, verb))
			failed->taken = true;
	pthread_mutex_unlock(&failures->lock);
}

void failures_add_refusal(struct failures *failures, const struct failing_program *program,
			  const char *verb, int error, const char *why)
{
	struct failed new = { .kind = FAILED_VERB,
			      .name = verb,
			      .error = error,
			      .what.count = 1,
			      .whose = *program };

	snprintf(new.text, sizeof(new.text), "%s", why);
	add(failures, &new);
}

void failures_add_sleep(struct failures *failures, uint32_t context, const char *how,
			const char *text)
{
	struct failed new = { .kind = FAILED_SLEEP, .name = how, .what.context = context };

	snprintf(new.text, sizeof(new.text), "%s", text);
	add(failures, &new);
}

void failures_add_sleep_of(struct failures *failures, const struct failing_program *program,
			   const struct failing_program *waiting, const char *how, const char *text)
{
	struct failed new = { .kind = FAILED_SLEEP, .name = how, .whose = *program };

	if (waiting)
		new.sender = *waiting;
	snprintf(new.text, sizeof(new.text), "%s", text);
	add(failures, &new);
}

void failures_woke_up(struct failures *failures, uint32_t context, const char *text)
{
	struct failed *failed;

	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed)
		failed->over = failed->over ||
			       (failed->kind == FAILED_SLEEP && failed->what.context == context &&
				!strcmp(failed->text, text));
	pthread_mutex_unlock(&failures->lock);
}

void failures_add_event(struct failures *failures, uint32_t context, uint32_t type, uint32_t number,
			bool by_rule)
{
	const char *text = text_of_event(type);
	struct failed new = {
		.kind = FAILED_EVENT,
		.event = type,
		.number = number,
		.by_rule = by_rule,
		.what = { .context = context, .count = 1 },
	};

	if (!text)
		return;
	if (failed_is_of_qp(type))
		new.what.qpn = number;
	snprintf(new.text, sizeof(new.text), "%s%s", text,
		 by_rule ? ", by a rule of `simhca inject`" : "");
	add(failures, &new);
}

void failures_add_connection(struct failures *failures, const struct failing_program *program,
			     const char *how, int status, const char *text)
{
	struct failed new = {
		.kind = FAILED_CONNECTION,
		.name = how,
		.error = status,
		.whose = *program,
		.what = { .count = 1 },
	};

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

static double seconds_since(const struct failed *failed)
{
	return monotonic_s() - failed->since;
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
		    seconds_since(failed) < seconds)
			empty[count++] = (struct failures_empty){ .id = failed->id,
								  .context = facts->context,
								  .qpn = failed->what.peer_qpn,
								  .srqn = facts->srqn,
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
			failed->next_after = seconds_since(failed);
	pthread_mutex_unlock(&failures->lock);
}

/* A work request that has failed before anything was sent, whomever the QP is connected to. */
static bool is_local(const struct simhca_failure *what)
{
	return what->status == SIMHCA_WC_LOC_PROT_ERR || what->status == SIMHCA_WC_LOC_LEN_ERR ||
	       what->status == SIMHCA_WC_LOC_QP_OP_ERR || what->status == SIMHCA_WC_MW_BIND_ERR;
}

/* False: no key, address or number of it can have been mixed up. */
static bool access_of(const struct failed *failed, struct failures_access *access)
{
	const struct simhca_failure *what = &failed->what;
	bool is_send = what->kind == SIMHCA_SEND_FAILED || what->kind == SIMHCA_LOST;

	if (failed->kind != FAILED_WORK || what->reason == SIMHCA_REASON_INJECTED ||
	    (!is_send && what->qpn == what->peer_qpn) || /* that is said of the send */
	    (!is_send && what->kind != SIMHCA_REQUEST_REFUSED && what->kind != SIMHCA_RECV_FAILED))
		return false;
	*access = (struct failures_access){
		.id = failed->id,
		.context = what->context,
		.sender = what->peer_context,
		.qpn = what->qpn,
		.peer_qpn = what->peer_qpn,
		.is_connected = is_send && !is_local(what) && what->qp_type != SIMHCA_QPT_UD &&
				what->qp_type != IBV_QPT_DRIVER && !what->by_wire,
		.is_unanswered = is_send && what->reason == SIMHCA_REASON_NO_RESPONSE,
		.has_key = what->has_access && what->reason >= SIMHCA_REASON_KEY_UNKNOWN &&
			   what->reason <= SIMHCA_REASON_MW_NO_REMOTE_ATOMIC,
		.is_remote = what->kind == SIMHCA_REQUEST_REFUSED,
		.is_atomic = what->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP ||
			     what->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		.is_null_mr = what->entry.type == SIMHCA_MPT_NULL_MR,
		.is_out_of_range =
			what->entry.has_range && (what->reason == SIMHCA_REASON_KEY_BELOW_START ||
						  what->reason == SIMHCA_REASON_KEY_PAST_END ||
						  what->reason == SIMHCA_REASON_KEY_WRAPS),
		.key = what->key,
		.va = what->va,
		.entry_iova = what->entry.iova,
		.entry_length = what->entry.length,
	};
	return access->has_key || access->is_unanswered ||
	       (access->is_connected && access->qpn == access->peer_qpn);
}

unsigned int failures_accesses(struct failures *failures, struct failures_access *accesses,
			       unsigned int most)
{
	struct failed *failed;
	unsigned int count = 0;

	pthread_mutex_lock(&failures->lock);
	failed = failures->list ? failures->list->prev : NULL;
	for (; failed && count < most; failed = failed == failures->list ? NULL : failed->prev) {
		if (!failed->looked_at && access_of(failed, &accesses[count]))
			count++;
		failed->looked_at = true;
	}
	pthread_mutex_unlock(&failures->lock);
	return count;
}

void failures_looks_like(struct failures *failures, uint64_t id, const char *text)
{
	struct failed *failed;

	pthread_mutex_lock(&failures->lock);
	DL_FOREACH (failures->list, failed)
		if (failed->id == id)
			snprintf(failed->looks_like, sizeof(failed->looks_like), "%s", text);
	pthread_mutex_unlock(&failures->lock);
}

struct failed *failures_copy(struct failures *failures, pid_t run, unsigned int *count,
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
