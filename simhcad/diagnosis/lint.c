/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lint.h"
#include "names.h"
#include "session/daemon.h"
#include "session/session.h"
#include "simhca-attach.h"
#include "simhca-info.h"

#define PROGRAMS 64	  /* that have ended */
#define MOST_OBJECTS 1024 /* of a kind and context, that are looked at when it ends */
#define MOST_CQS 16	  /* that are looked at when a QP is destroyed */
#define RNR_NS 1000000u
#define REGISTRATIONS 16 /* fewer are nothing to speak of */
#define FEW_CQES 16	 /* likewise */

/* A context that has ended. */
struct linted {
	pid_t pid, run;
	char comm[16], device[64];
	struct lint_notes notes;
	struct linted *prev, *next;
};

struct lint {
	lint_group *is_joined, *by_cm;
	struct linted *list; /* oldest first */
	unsigned int count;
	uint64_t ended; /* contexts so far */
};

struct lint *lint_open(lint_group *is_joined, lint_group *by_cm)
{
	struct lint *lint = calloc(1, sizeof(*lint));

	if (lint) {
		lint->is_joined = is_joined;
		lint->by_cm = by_cm;
	}
	return lint;
}

void lint_close(struct lint *lint)
{
	struct linted *linted, *next;

	if (!lint)
		return;
	DL_FOREACH_SAFE (lint->list, linted, next)
		free(linted);
	free(lint);
}

/* ----------------------------------------------------------------------------------- notes */

static void note(struct lint_notes *notes, enum lint_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void note(struct lint_notes *notes, enum lint_kind kind, const char *format, ...)
{
	struct lint_note *one = &notes->of[kind];
	va_list args;

	if (one->count++)
		return;
	va_start(args, format);
	vsnprintf(one->text, sizeof(one->text), format, args);
	va_end(args);
}

/* NULL: out of memory. */
static struct lint_notes *notes_of(struct session *session)
{
	if (!session->lint)
		session->lint = calloc(1, sizeof(*session->lint));
	return session->lint;
}

bool lint_say(struct session *session, uint32_t what, const char *text)
{
	static const struct {
		enum simhca_say what;
		enum lint_kind kind;
	} said[] = {
		{ SIMHCA_SAY_NO_FENCE, LINT_NO_FENCE },
		{ SIMHCA_SAY_OVERWRITTEN, LINT_OVERWRITTEN },
		{ SIMHCA_SAY_CHANGED, LINT_CHANGED },
		{ SIMHCA_SAY_OTHER_PD, LINT_OTHER_PD },
		{ SIMHCA_SAY_FORKED, LINT_FORKED },
		{ SIMHCA_SAY_MEMLOCK, LINT_MEMLOCK },
		{ SIMHCA_SAY_NO_SGE, LINT_NO_SGE },
		{ SIMHCA_SAY_MOVED_IN_USE, LINT_MOVED_IN_USE },
		{ SIMHCA_SAY_MOVED_AND_GONE, LINT_MOVED_AND_GONE },
		{ SIMHCA_SAY_EARLY_INLINE, LINT_EARLY_INLINE },
		{ SIMHCA_SAY_THREADS, LINT_THREADS },
		{ SIMHCA_SAY_FILE_MAPPING, LINT_FILE_MAPPING },
		{ SIMHCA_SAY_EMPTY_REGION, LINT_EMPTY_REGION },
		{ SIMHCA_SAY_PATH_MTU, LINT_PATH_MTU },
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (said[i].what == what) {
			if (notes_of(session))
				note(session->lint, said[i].kind, "%s", text);
			return true;
		}
	return false;
}

static bool has_notes(const struct lint_notes *notes)
{
	for (int i = 0; i < LINT_KINDS; i++)
		if (notes->of[i].count)
			return true;
	return false;
}

void lint_add(struct session *session, const struct lint_notes *notes)
{
	struct lint_notes *to = has_notes(notes) ? notes_of(session) : NULL;

	if (!to)
		return;
	for (int i = 0; i < LINT_KINDS; i++) {
		/* The same CQ, at the end of another of its QPs. */
		if (to->of[i].count && !strcmp(to->of[i].text, notes->of[i].text))
			continue;
		if (!to->of[i].count)
			memcpy(to->of[i].text, notes->of[i].text, sizeof(to->of[i].text));
		to->of[i].count += notes->of[i].count;
	}
}

/* --------------------------------------------------------------------------------- objects */

/* The ending of a word of which there are so many. */
static const char *plural(unsigned long long count)
{
	return count == 1 ? "" : "s";
}

static bool is_connected(const struct simhca_qp_info *qp)
{
	return (qp->type == SIMHCA_QPT_RC || qp->type == SIMHCA_QPT_UC ||
		qp->type == SIMHCA_QPT_XRC_SEND) &&
	       (qp->state == SIMHCA_QPS_RTR || qp->state == SIMHCA_QPS_RTS);
}

static void look_at_qp(const struct simhca_qp_info *qp, struct lint_notes *notes)
{
	const struct simhca_usage_sum *usage = &qp->usage;

	if (qp->too_early)
		note(notes, LINT_LATE_RECEIVE,
		     "QP 0x%06x: a message came before any receive was posted, %s", qp->qpn,
		     qp->type == SIMHCA_QPT_UD || qp->type == SIMHCA_QPT_UC
			     ? "and was lost; its sender's completion says SUCCESS"
			     : "and its sender had to wait");
	if (usage->rnr_delay_ns >= RNR_NS)
		note(notes, LINT_RNR,
		     "QP 0x%06x: %llu RNR NAK%s of its peer cost %llu us of waiting", qp->qpn,
		     (unsigned long long)usage->rnr_naks, plural(usage->rnr_naks),
		     (unsigned long long)usage->rnr_delay_ns / 1000);
	if (qp->max_send_wr && qp->most_unsignaled >= qp->max_send_wr)
		note(notes, LINT_UNSIGNALED,
		     "QP 0x%06x: %u send%s in a row had no completion, and its queue takes %u",
		     qp->qpn, qp->most_unsignaled, plural(qp->most_unsignaled), qp->max_send_wr);
	if (qp->unknown_access)
		note(notes, LINT_UNKNOWN_ACCESS,
		     "QP 0x%06x: bit %d of its qp_access_flags is no IBV_ACCESS flag", qp->qpn,
		     __builtin_ctz(qp->unknown_access));
	if (is_connected(qp) && !qp->handled &&
	    !(usage->messages + usage->reads + usage->errors + usage->received + qp->sends))
		note(notes, LINT_UNUSED_QP, "QP 0x%06x was in %s, and nobody used it", qp->qpn,
		     name_of_qp_state(qp->state));
}

static void look_whether_polled(const struct simhca_cq_info *cq, struct lint_notes *notes)
{
	if (cq->waiting && !cq->polled)
		note(notes, LINT_NEVER_POLLED,
		     "CQ %u: it holds %u completion%s, and was never polled", cq->number,
		     cq->waiting, plural(cq->waiting));
}

static void look_at_cq(const struct simhca_cq_info *cq, struct lint_notes *notes)
{
	look_whether_polled(cq, notes);
	if (cq->cqe >= FEW_CQES && cq->most_feeds > cq->cqe &&
	    cq->most_waiting >= cq->cqe - cq->cqe / 8)
		note(notes, LINT_CQ_SIZE,
		     "CQ %u: %u of its %u entries were in use at once, and its QPs may post %u",
		     cq->number, cq->most_waiting, cq->cqe, cq->most_feeds);
}

static void look_at_srq(const struct simhca_srq_info *srq, struct lint_notes *notes)
{
	if (srq->unused_limit)
		note(notes, LINT_SRQ_LIMIT,
		     "SRQ %u: ibv_create_srq() was given srq_limit %u and ignores it, and no limit "
		     "was set since",
		     srq->number, srq->unused_limit);
}

/* offered: programs carry messages by themselves, so what was not seen may have been. */
static void look_at_mr(const struct simhca_mr_info *mr, bool offered, struct lint_notes *notes)
{
	uint32_t remote = SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |
			  SIMHCA_ACCESS_REMOTE_ATOMIC;
	char names[NAMES_OF_ACCESS];

	if (mr->stale)
		note(notes, LINT_STALE_MEMORY,
		     "MR 0x%08x: its memory at 0x%llx was unmapped, moved or dropped while it was "
		     "registered, and used after that",
		     mr->key, (unsigned long long)mr->stale);
	remote &= mr->attr.access & ~mr->used;
	if (!remote || offered)
		return;
	names_of_access(remote, names);
	note(notes, LINT_UNUSED_ACCESS, "MR 0x%08x, %llu byte%s: %s was never used", mr->key,
	     (unsigned long long)mr->attr.length, plural(mr->attr.length), names);
}

/* What has failed is flushed. */
static void look_whether_done(const struct simhca_qp_info *qp, struct lint_notes *notes)
{
	if (qp->sends && (qp->state == SIMHCA_QPS_RTS || qp->state == SIMHCA_QPS_SQD))
		note(notes, LINT_REQUESTS_OF_QP,
		     "QP 0x%06x was destroyed with %u send request%s under way, which have no "
		     "completion now",
		     qp->qpn, qp->sends, plural(qp->sends));
}

void lint_qp(const struct session *session, uint32_t handle, struct lint_notes *notes)
{
	uint32_t found = handle, n = 0;
	struct simhca_qp_info qp;
	struct simhca_cq_info cq;

	if (simhca_next_qp(session->context, &found, &qp) && found == handle && !qp.further) {
		look_at_qp(&qp, notes);
		look_whether_done(&qp, notes);
	}
	/* Now, for the provider takes the completions of a QP that is destroyed out of its CQs. */
	for (found = 0; n < MOST_CQS && simhca_next_cq(session->context, &found, &cq); found++, n++)
		look_whether_polled(&cq, notes);
}

void lint_cq(const struct session *session, uint32_t handle, struct lint_notes *notes)
{
	uint32_t found = handle;
	struct simhca_cq_info cq;

	if (simhca_next_cq(session->context, &found, &cq) && found == handle)
		look_at_cq(&cq, notes);
}

void lint_srq(const struct session *session, uint32_t handle, struct lint_notes *notes)
{
	uint32_t found = handle;
	struct simhca_srq_info srq;

	if (simhca_next_srq(session->context, &found, &srq) && found == handle)
		look_at_srq(&srq, notes);
}

void lint_mr(const struct session *session, uint32_t handle, struct lint_notes *notes)
{
	uint32_t found = handle;
	struct simhca_mr_info mr;
	struct simhca_mr_sends sends;
	char wr_id[24];

	if (!simhca_next_mr(session->context, &found, &mr) || found != handle)
		return;
	look_at_mr(&mr, simhca_has_offered_memory(session->context), notes);
	simhca_find_mr_sends(session->context, handle, &sends);
	snprintf(wr_id, sizeof(wr_id), sends.wr_id < 1000000 ? "%llu" : "0x%llx",
		 (unsigned long long)sends.wr_id);
	if (sends.requests)
		note(notes, LINT_REQUESTS_OF_MR,
		     "MR 0x%08x was deregistered with %u send request%s under way, the first of QP "
		     "0x%06x, wr_id %s",
		     mr.key, sends.requests, plural(sends.requests), sends.qpn, wr_id);
}

void lint_connected(const struct session *session, uint32_t handle, struct lint_notes *notes)
{
	struct simhca_rd_atomic numbers;

	if (!simhca_qp_rd_atomic(session->context, handle, &numbers))
		return;
	if (numbers.requester == numbers.responder)
		note(notes, LINT_OWN_PEER,
		     "QP 0x%06x is connected to itself: dest_qp_num and the address are its own",
		     numbers.requester);
	if (numbers.max_rd_atomic > numbers.max_dest_rd_atomic)
		note(notes, LINT_RD_ATOMIC,
		     "QP 0x%06x: its max_rd_atomic is %u, and max_dest_rd_atomic of its peer, QP "
		     "0x%06x, is %u",
		     numbers.requester, numbers.max_rd_atomic, numbers.responder,
		     numbers.max_dest_rd_atomic);
}

void lint_attached(const struct session *session, uint32_t handle, const union simhca_gid *mgid,
		   struct lint_notes *notes)
{
	const struct daemon *daemon = session->device->daemon;
	const bool ethernet = !session->device->options->settings.infiniband;
	char text[INET6_ADDRSTRLEN];
	struct simhca_qp_info qp;
	uint32_t found = handle;

	if (!simhca_next_qp(session->context, &found, &qp) || found != handle ||
	    !inet_ntop(AF_INET6, mgid->raw, text, sizeof(text)))
		return;
	if (!daemon->lint->is_joined(daemon, mgid))
		note(notes, LINT_NOT_JOINED,
		     "QP 0x%06x is attached to the group %s, and no port has joined it", qp.qpn,
		     text);
	if (ethernet && mgid->raw[0] == 0xff && daemon->lint->by_cm(daemon, mgid))
		note(notes, LINT_IPV6_GROUP,
		     "QP 0x%06x is attached to %s, a group of IPv6 that rdma_cm has joined", qp.qpn,
		     text);
}

/* -------------------------------------------------------------------------------- contexts */

/* A context as far as it was looked at. */
struct lint_look {
	struct linted linted;
	enum { LOOK_QPS, LOOK_CQS, LOOK_SRQS, LOOK_MRS, LOOK_ENDS } at;
	uint32_t handle, objects;  /* of this kind */
	uint64_t messages, errors; /* that its QPs have had, with those that are gone */
};

static void look_begin(struct lint_look *look, const struct session *session)
{
	struct linted *linted = &look->linted;
	struct simhca_usage_sum past;

	memset(look, 0, sizeof(*look));
	linted->pid = session->pid;
	linted->run = session->run;
	memcpy(linted->comm, session->comm, sizeof(linted->comm));
	snprintf(linted->device, sizeof(linted->device), "%s", session->device->options->name);
	if (session->lint)
		linted->notes = *session->lint;
	simhca_context_past(session->context, &past);
	look->messages = past.messages + past.reads + past.received;
	look->errors = past.errors;
}

/* The next object of the kind that it is at; false: there is none. */
static bool look_at_next(struct lint_look *look, const struct session *session)
{
	struct lint_notes *notes = &look->linted.notes;
	struct simhca_qp_info qp;
	struct simhca_cq_info cq;
	struct simhca_srq_info srq;
	struct simhca_mr_info mr;

	switch (look->at) {
	case LOOK_QPS:
		if (!simhca_next_qp(session->context, &look->handle, &qp))
			return false;
		if (!qp.further) {
			look->messages += qp.usage.messages + qp.usage.reads + qp.usage.received;
			look->errors += qp.usage.errors;
			look_at_qp(&qp, notes);
		}
		return true;
	case LOOK_CQS:
		if (!simhca_next_cq(session->context, &look->handle, &cq))
			return false;
		look_at_cq(&cq, notes);
		return true;
	case LOOK_SRQS:
		if (!simhca_next_srq(session->context, &look->handle, &srq))
			return false;
		look_at_srq(&srq, notes);
		return true;
	case LOOK_MRS:
		if (!simhca_next_mr(session->context, &look->handle, &mr))
			return false;
		look_at_mr(&mr, simhca_has_offered_memory(session->context), notes);
		return true;
	case LOOK_ENDS:
		break;
	}
	return false;
}

/* A program whose work failed need not use all of its rights. */
static void look_ends(const struct session *session, struct lint_look *look)
{
	uint64_t registered = simhca_context_registered(session->context);

	if (look->messages >= REGISTRATIONS && registered >= REGISTRATIONS &&
	    registered >= look->messages / 2)
		note(&look->linted.notes, LINT_REGISTRATIONS,
		     "%llu regions were registered for %llu messages",
		     (unsigned long long)registered, (unsigned long long)look->messages);
	if (look->errors)
		look->linted.notes.of[LINT_UNUSED_ACCESS].count = 0;
}

/* One object more; false: all of it was looked at. */
static bool look_further(struct lint_look *look, const struct session *session)
{
	bool more = look->objects < MOST_OBJECTS && look_at_next(look, session);

	look->handle++;
	look->objects++;
	if (more)
		return true;
	look->handle = look->objects = 0;
	if (++look->at < LOOK_ENDS)
		return true;
	look_ends(session, look);
	return false;
}

static void look_at_remains(const struct session *session, struct lint_notes *notes)
{
	struct simhca_counts counts;
	char text[128] = "";
	size_t length = 0;

	simhca_context_counts(session->context, &counts);
	const struct {
		const char *name;
		uint32_t count;
	} kinds[] = {
		{ "QP", counts.qps }, { "CQ", counts.cqs }, { "SRQ", counts.srqs },
		{ "MR", counts.mrs }, { "MW", counts.mws }, { "AH", counts.ahs },
		{ "PD", counts.pds },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].count && length < sizeof(text))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s%u %s%s", length ? ", " : "", kinds[i].count,
						   kinds[i].name, plural(kinds[i].count));
	if (length)
		note(notes, LINT_NOT_DESTROYED, "at its end it had %s", text);
}

/* All of it was looked at. */
static void keep(struct lint *lint, const struct lint_look *look, const struct session *session)
{
	struct linted *linted = calloc(1, sizeof(*linted));

	if (!linted)
		return;
	*linted = look->linted;
	if (!look->errors) /* nor destroy what it has */
		look_at_remains(session, &linted->notes);
	if (!has_notes(&linted->notes)) {
		free(linted);
		return;
	}
	DL_APPEND(lint->list, linted);
	if (lint->count++ < PROGRAMS)
		return;
	lint->count--;
	linted = lint->list;
	DL_DELETE(lint->list, linted);
	free(linted);
}

bool lint_end(struct lint *lint, struct session *session)
{
	if (!session->look && session->context) {
		session->look = malloc(sizeof(*session->look));
		if (session->look)
			look_begin(session->look, session);
	} else if (session->look && !look_further(session->look, session)) {
		keep(lint, session->look, session);
		free(session->look);
		session->look = NULL;
	}
	if (session->look)
		return true;
	session->linted = ++lint->ended;
	free(session->lint);
	session->lint = NULL;
	return false;
}

/* --------------------------------------------------------------------------------- telling */

static int put(struct report *report, const struct linted *linted)
{
	static const char *const kinds[LINT_KINDS] = {
		[LINT_NEVER_POLLED] = "never_polled",
		[LINT_LATE_RECEIVE] = "late_receive",
		[LINT_RNR] = "rnr",
		[LINT_REGISTRATIONS] = "registrations",
		[LINT_CQ_SIZE] = "cq_size",
		[LINT_UNSIGNALED] = "unsignaled",
		[LINT_REQUESTS_OF_MR] = "requests_of_mr",
		[LINT_REQUESTS_OF_QP] = "requests_of_qp",
		[LINT_RD_ATOMIC] = "rd_atomic",
		[LINT_OWN_PEER] = "own_peer",
		[LINT_NOT_JOINED] = "not_joined",
		[LINT_IPV6_GROUP] = "ipv6_group",
		[LINT_NO_FENCE] = "no_fence",
		[LINT_EARLY_INLINE] = "early_inline",
		[LINT_OVERWRITTEN] = "overwritten",
		[LINT_CHANGED] = "changed",
		[LINT_OTHER_PD] = "other_pd",
		[LINT_NO_SGE] = "no_sge",
		[LINT_SRQ_LIMIT] = "srq_limit",
		[LINT_UNKNOWN_ACCESS] = "unknown_access",
		[LINT_PATH_MTU] = "path_mtu",
		[LINT_FORKED] = "forked",
		[LINT_THREADS] = "threads",
		[LINT_MEMLOCK] = "memlock",
		[LINT_FILE_MAPPING] = "file_mapping",
		[LINT_EMPTY_REGION] = "empty_region",
		[LINT_MOVED_IN_USE] = "moved_in_use",
		[LINT_MOVED_AND_GONE] = "moved_and_gone",
		[LINT_STALE_MEMORY] = "stale_memory",
		[LINT_UNUSED_ACCESS] = "unused_access",
		[LINT_UNUSED_QP] = "unused_qp",
		[LINT_NOT_DESTROYED] = "not_destroyed",
	};

	int ret = 0;

	for (int i = 0; i < LINT_KINDS && !ret; i++)
		if (linted->notes.of[i].count)
			ret = report_put_item(
				report, json_pack("{s:I, s:s, s:s, s:s, s:I, s:s}", "pid",
						  (json_int_t)linted->pid, "comm", linted->comm,
						  "device", linted->device, "kind", kinds[i],
						  "count", (json_int_t)linted->notes.of[i].count,
						  "text", linted->notes.of[i].text));
	return ret;
}

struct telling {
	bool begun;
	uint64_t ended; /* contexts before it was begun, whose notes it has */
	struct report_contexts contexts;
	bool in_context;
	struct lint_look look;
	json_int_t live;
};

/* Those that have ended: they are few (PROGRAMS). */
static int begin(struct report *report, struct telling *telling)
{
	const struct daemon *daemon = report_daemon(report);
	pid_t run = report_question(report)->run;
	const struct linted *ended;
	int ret;

	telling->begun = true;
	telling->ended = daemon->lint->ended;
	ret = report_list_contexts(daemon, NULL, &telling->contexts);
	ret = ret ?: report_put(report, "{\"notes\":[");
	DL_FOREACH (daemon->lint->list, ended)
		if (!ret && (!run || ended->run == run))
			ret = put(report, ended);
	return ret ?: 1;
}

static int finish(struct report *report, const struct telling *telling)
{
	char text[64];

	snprintf(text, sizeof(text), "],\"live\":%lld}", (long long)telling->live);
	return report_put(report, text);
}

static int step(struct report *report, void *state)
{
	pid_t run = report_question(report)->run;
	struct telling *telling = state;
	const struct session *session;
	bool is_asked_for;

	if (!telling->begun)
		return begin(report, telling);
	if (telling->contexts.at == telling->contexts.count)
		return finish(report, telling);
	session = report_session(report, &telling->contexts);
	is_asked_for = !session || !run || session->run == run;
	if (!session || session->linted || !is_asked_for) {
		/* Who has ended meanwhile is told of by the next report. */
		telling->live += is_asked_for && (!session || session->linted > telling->ended);
		telling->in_context = false;
		telling->contexts.at++;
		return 1;
	}
	if (!telling->in_context) {
		telling->in_context = true;
		look_begin(&telling->look, session);
		return 1;
	}
	if (look_further(&telling->look, session))
		return 1;
	telling->in_context = false;
	telling->contexts.at++;
	telling->live++;
	return put(report, &telling->look.linted) ?: 1;
}

static void end(void *state)
{
	free(((struct telling *)state)->contexts.ids);
}

const struct report_kind lint_report = { .step = step,
					 .state_bytes = sizeof(struct telling),
					 .end = end };
