/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "advice.h"
#include "names.h"
#include "simhca-abi-reason.h"
#include "story.h"
#include "report.h"

static bool is(const json_t *failure, const char *kind)
{
	return !strcmp(report_text(failure, "kind"), kind);
}

static bool has(const json_t *failure, const char *key)
{
	return json_object_get(failure, key) != NULL;
}

const char *story_wr_id(const json_t *failure, char text[24])
{
	const char *hex = report_text(failure, "wr_id");
	unsigned long long number = strtoull(hex, NULL, 16);

	if (!has(failure, "wr_id"))
		return "unknown";
	snprintf(text, 24, number < 1000000 ? "%llu" : "0x%llx", number);
	return text;
}

void story_print_who(FILE *out, const json_t *failure)
{
	fprintf(out, "%s", report_text(failure, "comm"));
	if (report_number(failure, "pid"))
		fprintf(out, "[%lld]", report_number(failure, "pid"));
}

static void print_qp(FILE *out, const json_t *failure)
{
	fprintf(out, ", QP 0x%06llx (%s)", report_number(failure, "qpn"),
		report_text(failure, "qp_type"));
}

/* "RDMA_WRITE of 4096 bytes", with the memory of the peer's that it names. */
static void print_request(FILE *out, const json_t *failure)
{
	fprintf(out, "%s of %lld byte%s", report_text(failure, "opcode"),
		report_number(failure, "length"), report_number(failure, "length") == 1 ? "" : "s");
}

/* "3.1 ms" */
static void print_duration(FILE *out, double seconds)
{
	if (seconds < 1)
		fprintf(out, "%.3g ms", seconds * 1e3);
	else
		fprintf(out, "%.3g s", seconds);
}

/* The key is one that is gone, or a region's that was changed. */
static void print_was(FILE *out, const char *indent, const json_t *was)
{
	if (!was)
		return;
	if (has(was, "window"))
		fprintf(out, "%sthat was:   memory window, deallocated ", indent);
	else
		fprintf(out, "%sthat was:   MR of %lld bytes at %s, %s ", indent,
			report_number(was, "length"), report_text(was, "address"),
			has(was, "changed") ? "which ibv_rereg_mr() changed" : "deregistered");
	print_duration(out, json_real_value(json_object_get(was, "ago_s")));
	fputs(" before this", out);
	if (has(was, "now"))
		fprintf(out, "; the same memory has key %s now: an old key is in use",
			report_text(was, "now"));
	fputc('\n', out);
}

static void print_access(FILE *out, const char *indent, const json_t *failure)
{
	const json_t *entry = json_object_get(failure, "entry");

	if (!has(failure, "entry"))
		return;
	fprintf(out, "%sasked for:  %lld bytes at %s by key %s, PD %lld\n", indent,
		report_number(failure, "bytes"), report_text(failure, "address"),
		report_text(failure, "key"), report_number(failure, "pdn"));
	if (json_is_null(entry))
		fprintf(out, "%slooked at:  nothing has this key's index\n", indent);
	else if (!has(entry, "address"))
		fprintf(out, "%slooked at:  %s, key %s, PD %lld\n", indent,
			report_text(entry, "what"), report_text(entry, "key"),
			report_number(entry, "pdn"));
	else if (!has(entry, "length"))
		fprintf(out, "%slooked at:  %s, key %s: all addresses, %s, PD %lld\n", indent,
			report_text(entry, "what"), report_text(entry, "key"),
			report_text(entry, "access"), report_number(entry, "pdn"));
	else
		fprintf(out, "%slooked at:  %s, key %s: %lld bytes at %s, %s, PD %lld\n", indent,
			report_text(entry, "what"), report_text(entry, "key"),
			report_number(entry, "length"), report_text(entry, "address"),
			report_text(entry, "access"), report_number(entry, "pdn"));
	print_was(out, indent, json_object_get(failure, "was"));
}

/* What the program probably mixed up. */
static void print_looks(FILE *out, const json_t *failure)
{
	if (has(failure, "looks_like"))
		fprintf(out, "  looks like: %s\n", report_text(failure, "looks_like"));
}

/* In ms, of a QP's timeout (IBTA vol. 1, 9.7.6.1.3). */
static double time_of(long long timeout)
{
	return timeout ? 4.096e-3 * (double)(1ll << timeout) : 0.;
}

#define LONG_MS 8000 /* a time-out that whoever waits will hardly see the end of */

/* How long and how often a sender tried, where that is what ended; or where it goes on after a loss. */
static void print_tries(FILE *out, const json_t *failure)
{
	const char *status = report_text(failure, "status");
	long long timeout = report_number(failure, "timeout");

	if (is(failure, "injection") && timeout)
		fprintf(out,
			"  waited:     at least %.3g ms (timeout %lld) for an answer, each time, "
			"before it sent again\n",
			time_of(timeout), timeout);
	else if (is(failure, "no answer") && !timeout)
		fputs("  tries:      without end, as its timeout is 0\n", out);
	else if (is(failure, "no answer") && time_of(timeout) > LONG_MS)
		fprintf(out,
			"  waits:      %.0f s (timeout %lld) for an answer, each time, before it "
			"sends "
			"again\n",
			time_of(timeout) / 1000, timeout);
	else if (!strcmp(status, "RETRY_EXC_ERR"))
		fprintf(out,
			"  tried:      once and %lld more (retry_cnt), each for at least %.3g ms "
			"(timeout %lld)\n",
			report_number(failure, "retry_cnt"), time_of(timeout), timeout);
	else if (!strcmp(status, "RNR_RETRY_EXC_ERR"))
		fprintf(out, "  tried:      once and %lld more (rnr_retry)\n",
			report_number(failure, "rnr_retry"));
}

/* The queue that had no receive. */
static void print_queue(FILE *out, const json_t *failure)
{
	const json_t *queue = json_object_get(failure, "queue");
	long long posted = report_number(queue, "posted");

	if (!queue)
		return;
	fputs("  its queue:  ", out);
	story_print_who(out, queue);
	if (report_number(queue, "srqn"))
		fprintf(out, ", SRQ %lld", report_number(queue, "srqn"));
	else
		fprintf(out, ", QP 0x%06llx", report_number(failure, "peer_qpn"));
	fprintf(out, ": %lld receive%s posted until then", posted, posted == 1 ? " was" : "s were");
	if (has(queue, "dropped"))
		fprintf(out, ", and %lld before it went to RESET, which drops them",
			report_number(queue, "dropped"));
	if (has(queue, "posted_since"))
		fprintf(out, ", %lld since", report_number(queue, "posted_since"));
	if (json_is_true(json_object_get(queue, "limit_spent")))
		fputs("; its limit event came, and no limit was set since, so no further one comes",
		      out);
	if (has(queue, "next_after_s"))
		fprintf(out, "; the next one came after %.3g ms",
			1e3 * json_real_value(json_object_get(queue, "next_after_s")));
	fputc('\n', out);
}

static void print_time(FILE *out, const json_t *failure)
{
	double time = json_real_value(json_object_get(failure, "time"));
	time_t seconds = (time_t)time;
	struct tm tm;
	char text[32];

	localtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(out, "%s.%06d ", text, (int)((time - (double)seconds) * 1e6));
}

static void print_times(FILE *out, const json_t *failure)
{
	if (report_number(failure, "count") > 1)
		fprintf(out, ", %lld times", report_number(failure, "count"));
}

/* "IBV_EVENT_CQ_ERR, CQ 3" */
static void print_event(FILE *out, const json_t *failure)
{
	static const struct {
		const char *prefix, *what;
	} kinds[] = { { "CQ", "CQ" }, { "SRQ", "SRQ" }, { "PORT", "port" }, { "WQ", "WQ" } };
	const char *event = report_text(failure, "event");

	fprintf(out, ": IBV_EVENT_%s", event);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(event, kinds[i].prefix, strlen(kinds[i].prefix)))
			fprintf(out, ", %s %lld", kinds[i].what, report_number(failure, "number"));
	print_times(out, failure);
}

/* By how, what is said of those who could go on: if they looked elsewhere, or something came. */
static const char *may_go_on(const json_t *failure)
{
	static const struct {
		const char *how, *text;
	} kinds[] = {
		{ "event_unread", " sleeps while an event waits for it\n" },
		{ "plain_write",
		  " waits for a completion, which the last message does not give it\n" },
		{ "not_signaled", " waits for a completion that it has not asked for\n" },
		{ "no_receive", " waits for a receive of its peer\n" },
		{ "no_peer", " waits for a message of a peer that is not there\n" },
		{ "peer_in_error", " waits for a message of a peer that has failed\n" },
		{ "in_sqd", " waits for what its QP has not begun\n" },
		{ "nothing_posted", " waits for a completion, and has posted nothing\n" },
		{ "sends_dropped", " waits for what its QP has dropped\n" },
		{ "qp_destroyed", " waits for what went with its QP\n" },
		{ "not_sent", " waits for an answer to what was not sent\n" },
		{ "unanswered", " leaves a request to connect unanswered\n" },
		{ "accept_unanswered", " leaves a connection half-way\n" },
		{ "end_unanswered", " leaves the end of a connection unanswered\n" },
		{ "polls_none", " polls for no completions\n" },
		{ "wrong_cq", " waits for a completion at a CQ that has none\n" },
	};
	const char *how = report_text(failure, "how");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(how, kinds[i].how))
			return kinds[i].text;
	return NULL;
}

static const char *sleeps(const json_t *failure)
{
	const char *text = may_go_on(failure);

	return text ? text : " sleeps, and will not wake up\n";
}

/* The program may have looked for a limit, which is told in one line. */
static bool is_probe(const json_t *failure)
{
	return json_is_true(json_object_get(failure, "succeeded_later"));
}

/* The provider tells of its own posts a few times only. */
static void print_refused_verb(FILE *out, const json_t *failure)
{
	const char *verb = report_text(failure, "verb");

	fprintf(out, ": %s is refused: %s", verb, strerror((int)report_number(failure, "errno")));
	print_times(out, failure);
	if (report_number(failure, "count") > 1 && !strncmp(verb, "POST_", 5))
		fputs(" at least", out);
	if (is_probe(failure))
		fprintf(out, "; a later one succeeded%s%s",
			*report_text(failure, "text") ? ": " : "", report_text(failure, "text"));
	fputc('\n', out);
}

bool story_is_unreliable(const json_t *failure)
{
	const char *type = report_text(failure, "qp_type");

	return !strcmp(type, "UD") || !strcmp(type, "UC");
}

static const char *call_that_waits(const json_t *failure)
{
	const char *how = report_text(failure, "how");

	if (!strcmp(how, "accept_unanswered"))
		return "rdma_accept()";
	return strcmp(how, "end_unanswered") ? "rdma_connect()" : "rdma_disconnect()";
}

static void print_sender(FILE *out, const json_t *failure)
{
	const json_t *sender = json_object_get(failure, "sender");

	if (!sender)
		return;
	if (is(failure, "sleep")) {
		fputs("  waiting:    ", out);
		story_print_who(out, sender);
		fprintf(out, ", in or after %s\n", call_that_waits(failure));
		return;
	}
	fputs("  sent by:    ", out);
	story_print_who(out, sender);
	fprintf(out, ", QP 0x%06llx%s\n", report_number(failure, "peer_qpn"),
		story_is_unreliable(failure) ? ", whose completion says SUCCESS" : "");
}

static void print_headline(FILE *out, const json_t *failure)
{
	char id[24];

	print_time(out, failure);
	story_print_who(out, failure);
	if (is(failure, "connection")) {
		fputs(": a connection fails", out);
		print_times(out, failure);
		fputc('\n', out);
		return;
	}
	if (is(failure, "verb")) {
		print_refused_verb(out, failure);
		return;
	}
	if (is(failure, "sleep")) {
		fputs(sleeps(failure), out);
		return;
	}
	if (is(failure, "event")) {
		if (report_number(failure, "qpn"))
			fprintf(out, ", QP 0x%06llx", report_number(failure, "qpn"));
		print_event(out, failure);
		fputc('\n', out);
		return;
	}
	if (report_number(failure, "qpn"))
		print_qp(out, failure);
	if (is(failure, "send")) {
		fprintf(out, ": ");
		print_request(out, failure);
		fprintf(out, ", wr_id %s, to QP 0x%06llx: %s", story_wr_id(failure, id),
			report_number(failure, "peer_qpn"), report_text(failure, "status"));
	} else if (is(failure, "receive")) {
		fprintf(out, ": receive, wr_id %s: %s", story_wr_id(failure, id),
			report_text(failure, "status"));
	} else if (is(failure, "injection")) {
		fprintf(out, ": a fault by %s", report_text(failure, "text"));
		print_times(out, failure);
	} else if (is(failure, "loss")) {
		fputs(": ", out);
		print_request(out, failure);
		fprintf(out, " to QP 0x%06llx is lost", report_number(failure, "peer_qpn"));
		print_times(out, failure);
	} else if (is(failure, "refusal")) {
		fprintf(out, ": %s ", story_is_unreliable(failure) ? "drops" : "refuses");
		print_request(out, failure);
		fprintf(out, " of QP 0x%06llx", report_number(failure, "peer_qpn"));
		print_times(out, failure);
	} else {
		fprintf(out, ": no answer from QP 0x%06llx", report_number(failure, "peer_qpn"));
	}
	fputc('\n', out);
}

/* It is why that work request got no answer, and not another one that failed after it. */
static bool is_silence_of(const json_t *silence, const json_t *failure)
{
	return is(silence, "no answer") && has(silence, "cause") &&
	       report_number(silence, "cause") == report_number(failure, "id") &&
	       report_number(silence, "qpn") == report_number(failure, "qpn");
}

static void print_receive(FILE *out, const json_t *failure)
{
	char id[24];

	fprintf(out, ": the receive that it had taken, wr_id %s: %s\n", story_wr_id(failure, id),
		report_text(failure, "status"));
	print_access(out, "  ", failure);
	print_looks(out, failure);
}

/* What followed from it, or was the other end's view of it. */
static void print_consequence(FILE *out, const json_t *cause, const json_t *failure)
{
	char id[24];

	if (is(failure, "refusal")) {
		fprintf(out, "  refused by: ");
		story_print_who(out, failure);
		print_qp(out, failure);
		fputc('\n', out);
		print_access(out, "  ", failure);
		print_looks(out, failure);
		return;
	}
	if (is(failure, "injection")) {
		fprintf(out, "  injected:   %s", report_text(failure, "text"));
		print_times(out, failure);
		fprintf(out, ", at ");
		story_print_who(out, failure);
		if (report_number(failure, "qpn"))
			print_qp(out, failure);
		fputc('\n', out);
		return;
	}
	if (is(failure, "no answer")) {
		/* Of another QP, whose failure is told, it is what is told here already. */
		if (is_silence_of(failure, cause))
			fprintf(out, "  seen:       %s\n", report_text(failure, "text"));
		return;
	}
	fprintf(out, "  then:       ");
	story_print_who(out, failure);
	if (is(failure, "event")) {
		fprintf(out, ", QP 0x%06llx", report_number(failure, "qpn"));
		print_event(out, failure);
		fputc('\n', out);
		return;
	}
	print_qp(out, failure);
	if (is(failure, "flush"))
		fprintf(out, ": %lld work request%s flushed\n", report_number(failure, "count"),
			report_number(failure, "count") == 1 ? " is" : "s are");
	else if (is(failure, "receive"))
		print_receive(out, failure);
	else
		fprintf(out, ": %s, wr_id %s: %s\n", report_text(failure, "opcode"),
			story_wr_id(failure, id), report_text(failure, "status"));
}

/* What the responder says of it, if it refused; else the failure itself. */
static const json_t *refusal_or(const json_t *list, const json_t *failure)
{
	const json_t *other;
	size_t i;

	json_array_foreach(list, i, other) if (has(other, "cause") &&
					       report_number(other, "cause") ==
						       report_number(failure, "id") &&
					       is(other, "refusal")) return other;
	return failure;
}

/* Why there was no answer; NULL: that is not known. */
static const char *obstacle_of(const json_t *list, const json_t *failure)
{
	const json_t *other;
	size_t i;

	json_array_foreach(list, i,
			   other) if (has(other, "obstacle") &&
				      is_silence_of(other, failure)) return report_text(other,
											"obstacle");
	return has(failure, "obstacle") ? report_text(failure, "obstacle") : NULL;
}

/* Of an EFA device, vendor_err is another number. */
static uint32_t reason_of(const json_t *failure)
{
	const char *name = report_text(failure, "reason");

	for (uint32_t reason = 1; reason < 256; reason++)
		if (!strcmp(name, name_of_reason(reason)))
			return reason;
	return SIMHCA_REASON_NONE;
}

/* NULL: there is none. */
static const struct advice *advice_on(const json_t *list, const json_t *failure)
{
	const char *obstacle = obstacle_of(list, failure);

	if (!strcmp(report_text(failure, "reason"), name_of_reason(SIMHCA_REASON_INJECTED)))
		return advice_on_reason(SIMHCA_REASON_INJECTED);
	if (is(failure, "verb"))
		return NULL;
	if (is(failure, "sleep"))
		return advice_on_sleep(report_text(failure, "how"));
	if (is(failure, "event"))
		return advice_on_event(report_text(failure, "event"));
	if (is(failure, "connection"))
		return advice_on_connection(report_text(failure, "how"));
	if (obstacle)
		return advice_on_obstacle(obstacle);
	/* Of SRD, the sentence says it all; advice on this reason is for QPs that are connected. */
	if (reason_of(failure) == SIMHCA_REASON_NO_RESPONSE &&
	    !strcmp(report_text(failure, "qp_type"), "SRD"))
		return NULL;
	return advice_on_reason(reason_of(failure));
}

static void print_one(FILE *out, const json_t *list, const json_t *failure)
{
	const struct advice *advice = advice_on(list, failure);
	const char *because;
	const json_t *other;
	size_t i;

	print_headline(out, failure);
	if (is(failure, "injection")) {
		print_tries(out, failure);
		return;
	}
	/* The sentence that has the numbers. */
	because = report_text(refusal_or(list, failure), "text");
	if (has(failure, "verb") && (!*because || is_probe(failure))) {
		/* The headline has the error, and nothing more is known. */
		print_looks(out, failure);
		return;
	}
	fprintf(out, "  because:    %s", because);
	if (has(failure, "reason") && !is(failure, "loss"))
		fprintf(out, " (%s, vendor_err %lld)", report_text(failure, "reason"),
			report_number(failure, "vendor_err"));
	fputc('\n', out);
	if (is(failure, "loss"))
		fputs("  completion: SUCCESS, as of all that was sent\n", out);
	print_sender(out, failure);
	print_access(out, "  ", failure);
	print_looks(out, failure);
	print_tries(out, failure);
	print_queue(out, failure);
	json_array_foreach(list, i,
			   other) if (has(other, "cause") &&
				      report_number(other, "cause") == report_number(failure, "id"))
		print_consequence(out, failure, other);
	if (!advice)
		return;
	if (advice->rule[0])
		fprintf(out, "  rule:       %s\n", advice->rule);
	/*
	 * Where it is known what was mixed up, what else the reason can come of leads away from it.
	 */
	if (has(failure, "looks_like") || has(refusal_or(list, failure), "looks_like")) {
		fputs("  try:        Correct what the line `looks like:` names.\n", out);
		return;
	}
	fprintf(out, "  usually:    %s\n", advice->usually);
	fprintf(out, "  try:        %s\n", advice->remedy);
}

/* It, or what followed from it. */
static bool concerns(const struct filter *filter, const json_t *list, const json_t *failure)
{
	const json_t *other;
	size_t i;

	if (filter_passes(filter, failure))
		return true;
	json_array_foreach(list, i, other) if (has(other, "cause") &&
					       report_number(other, "cause") ==
						       report_number(failure, "id") &&
					       filter_passes(filter, other)) return true;
	return false;
}

/* Told with another one, which is still there. */
static bool is_told_elsewhere(const json_t *list, const json_t *failure)
{
	const json_t *other;
	size_t i;

	if (!has(failure, "cause"))
		return false;
	json_array_foreach(list, i, other) if (report_number(other, "id") ==
					       report_number(failure, "cause")) return true;
	return false;
}

bool story_is_told(const json_t *list, const json_t *failure, const struct filter *filter)
{
	return !is_told_elsewhere(list, failure) && concerns(filter, list, failure);
}

size_t story_print(FILE *out, const json_t *report, const struct filter *filter)
{
	const json_t *list = json_object_get(report, "failures");
	const json_t *failure;
	size_t i, told = 0;

	json_array_foreach(list, i, failure)
	{
		if (!story_is_told(list, failure, filter))
			continue;
		if (told++)
			fputc('\n', out);
		print_one(out, list, failure);
	}
	return told;
}

bool story_first(const json_t *report, char *line, size_t size)
{
	const json_t *list = json_object_get(report, "failures");
	const json_t *failure;
	char id[24];
	size_t i;

	json_array_foreach(list, i, failure)
	{
		if (has(failure, "cause") || (!is(failure, "send") && !is(failure, "receive")))
			continue;
		snprintf(line, size, "%s[%lld] %s wr_id %s: %s", report_text(failure, "comm"),
			 report_number(failure, "pid"),
			 is(failure, "send") ? report_text(failure, "opcode") : "receive",
			 story_wr_id(failure, id), report_text(refusal_or(list, failure), "text"));
		return true;
	}
	return false;
}

bool story_first_sleep(const json_t *report, char *line, size_t size)
{
	const json_t *list = json_object_get(report, "failures");
	const json_t *failure;
	size_t i;

	json_array_foreach(list, i, failure)
	{
		if (!is(failure, "sleep") || may_go_on(failure))
			continue;
		snprintf(line, size, "%s[%lld] slept, and would not wake up: %s",
			 report_text(failure, "comm"), report_number(failure, "pid"),
			 report_text(failure, "text"));
		return true;
	}
	return false;
}
