/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "core/lock.h"
#include "failures/failures.h"
#include "inject.h"
#include "inject_rule.h"
#include "inject_why.h"
#include "session/daemon.h"
#include "session/session.h"

#define ACTS_MOST 256 /* that wait; what beyond that fires at once is lost, and logged */

/* What the main thread is to do. */
struct act {
	enum simhca_inject_action action;
	const struct simhca_device *device;
	uint32_t rule, context, peer_qpn;
	uint64_t ns;
	bool peer;
};

struct owned {
	uint32_t number;
	const void *owner;
	pid_t run;
	struct owned *next;
};

/* A port or addresses that come back. */
struct restore {
	ev_timer timer;
	struct injector *injector;
	struct device *device;
	bool port; /* else addresses */
	struct restore *prev, *next;
};

struct injector {
	struct daemon *daemon;
	struct owned *owned;
	struct restore *restores;
	ev_async wake;
	pthread_mutex_t lock; /* of what follows */
	struct act act[ACTS_MOST];
	unsigned int first, count;
};

/* ------------------------------------------------------------------------------------- acts */

static void end_restore(struct restore *restore)
{
	ev_timer_stop(restore->injector->daemon->loop, &restore->timer);
	DL_DELETE(restore->injector->restores, restore);
	free(restore);
}

static void on_restore(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct restore *restore = timer->data;
	struct device *device = restore->device;

	if (restore->port)
		device->down_by_rule = 0;
	else
		device->hides_gids = false;
	end_restore(restore);
	device_follow_interface(device);
}

/* Restores it after ns; with 0, never. The timer of an earlier rule is replaced. */
static void restore_after(struct injector *injector, struct device *device, bool port, uint64_t ns)
{
	struct restore *restore, *next;

	DL_FOREACH_SAFE (injector->restores, restore, next)
		if (restore->device == device && restore->port == port)
			end_restore(restore);
	if (!ns)
		return;
	restore = calloc(1, sizeof(*restore));
	if (!restore)
		return;
	restore->injector = injector;
	restore->device = device;
	restore->port = port;
	ev_timer_init(&restore->timer, on_restore, (double)ns * 1e-9, 0);
	restore->timer.data = restore;
	ev_timer_start(injector->daemon->loop, &restore->timer);
	DL_APPEND(injector->restores, restore);
}

static void port_down(struct injector *injector, struct device *device, const struct act *act)
{
	device->down_by_rule = act->rule ? act->rule : UINT32_MAX;
	device_follow_interface(device);
	restore_after(injector, device, true, act->ns);
}

static void gid_change(struct injector *injector, struct device *device, uint64_t ns)
{
	device->hides_gids = true;
	device_follow_interface(device);
	restore_after(injector, device, false, ns);
}

static struct session *session_of_qp(const struct daemon *daemon, uint32_t qpn)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		struct session *session = simhca_qp_arg(daemon->devices[i].model, qpn);

		if (session)
			return session;
	}
	return NULL;
}

/* False: its process cannot be seen from here, or has ended. */
static bool kill_program(struct daemon *daemon, const struct session *session)
{
	bool reachable;

	/* A process that is known still lives, so its number is no other one's. */
	if (session->pid <= 0 || !process_is_known(&daemon->processes, session->pid, &reachable)) {
		log_info("%s, process %d, is not killed by a rule: it %s", session->comm,
			 (int)session->pid,
			 session->pid > 0 ? "has ended, or the kernel has no pidfds"
					  : "is in another pid namespace");
		return false;
	}
	log_info("process %d (%s) is killed by a rule", (int)session->pid, session->comm);
	return !kill(session->pid, SIGKILL);
}

/* As far as can be told: programs whose process cannot be seen from here all have the number 0. */
static bool is_same_program(const struct session *session, const struct session *other)
{
	return session == other || (session->pid && session->pid == other->pid);
}

/* To this program the device has gone; it is there for who opens it anew. */
static void device_fatal(struct device *device, const struct session *program)
{
	struct session *session, *next;

	DL_FOREACH_SAFE (device->sessions, session, next)
		if (session->context && !session_is_closing(session) &&
		    is_same_program(session, program)) {
			failures_add_event(device->daemon->failures,
					   simhca_context_id(session->context),
					   IBV_EVENT_DEVICE_FATAL, 0, true);
			session_close(session);
		}
}

/* False: it was to kill a program, and could not. */
static bool do_act(struct injector *injector, const struct act *act)
{
	struct daemon *daemon = injector->daemon;
	struct device *device = device_of_model(daemon, act->device);
	const struct session *session = session_of(daemon, act->context);

	if (!device)
		return true;
	switch (act->action) {
	case SIMHCA_INJECT_PORT_DOWN:
		port_down(injector, device, act);
		break;
	case SIMHCA_INJECT_GID_CHANGE:
		gid_change(injector, device, act->ns);
		break;
	case SIMHCA_INJECT_FATAL:
		if (session)
			device_fatal(device, session);
		break;
	case SIMHCA_INJECT_KILL:
		if (act->peer)
			session = session_of_qp(daemon, act->peer_qpn);
		return !session || kill_program(daemon, session);
	default:
		break;
	}
	return true;
}

static bool take_act(struct injector *injector, struct act *act)
{
	bool taken;

	pthread_mutex_lock(&injector->lock);
	taken = injector->count;
	if (taken) {
		*act = injector->act[injector->first];
		injector->first = (injector->first + 1) % ACTS_MOST;
		injector->count--;
	}
	pthread_mutex_unlock(&injector->lock);
	return taken;
}

static void on_wake(struct ev_loop *loop, ev_async *wake, int events)
{
	struct injector *injector = wake->data;
	struct act act;

	while (take_act(injector, &act))
		do_act(injector, &act);
}

static void put_act(struct injector *injector, const struct simhca_injection *injection)
{
	bool room;

	pthread_mutex_lock(&injector->lock);
	room = injector->count < ACTS_MOST;
	if (room)
		injector->act[(injector->first + injector->count++) % ACTS_MOST] = (struct act){
			.action = injection->rule->action,
			.device = injection->device,
			.rule = injection->rule->number,
			.context = injection->context,
			.peer_qpn = injection->peer_qpn,
			.ns = injection->rule->ns,
			.peer = injection->rule->peer,
		};
	pthread_mutex_unlock(&injector->lock);
	if (room)
		ev_async_send(injector->daemon->loop, &injector->wake);
	else
		log_warning("rule %u: fires too often for what it does", injection->rule->number);
}

void injector_fired(struct injector *injector, const struct simhca_injection *injection)
{
	const struct simhca_rule *rule = injection->rule;
	struct failures *failures = injector->daemon->failures;
	char text[SIMHCA_CMD_MESSAGE];
	const struct simhca_failure failure = {
		.kind = SIMHCA_INJECTED,
		.context = injection->context,
		.qpn = injection->qpn,
		.peer_qpn = injection->peer_qpn,
		.qp_type = injection->qp_type,
		.reason = SIMHCA_REASON_INJECTED,
		.count = 1,
		.timeout = injection->timeout,
		.event = rule->action == SIMHCA_INJECT_ASYNC ? rule->value + 1 : 0,
		.text = text,
	};

	snprintf(text, sizeof(text), "rule %u: %.*s", rule->number, (int)sizeof(text) - 32,
		 rule->text);
	log_info("process %d, QP 0x%06x: %s",
		 (int)failures_program(failures, injection->context).pid, injection->qpn, text);
	failures_add(failures, &failure);
	switch (rule->action) {
	case SIMHCA_INJECT_PORT_DOWN:
	case SIMHCA_INJECT_GID_CHANGE:
	case SIMHCA_INJECT_FATAL:
	case SIMHCA_INJECT_KILL:
		put_act(injector, injection);
		break;
	default:
		break;
	}
}

/* -------------------------------------------------------------------------------------- now */

static bool rule_matches(const struct simhca_rule *rule, const struct session *session)
{
	return session->context && !session_is_closing(session) &&
	       (!rule->pid || rule->pid == session->pid) &&
	       (!rule->program[0] || !strcmp(rule->program, session->comm));
}

/* The next session of the device, behind `after` (NULL: from the first on), that the rule matches. */
static struct session *next_match(const struct device *device, const struct simhca_rule *rule,
				  const struct session *after)
{
	struct session *session;

	for (session = after ? after->next : device->sessions; session; session = session->next)
		if (rule_matches(rule, session))
			return session;
	return NULL;
}

/* What has come of a rule that was to happen now. */
struct outcome {
	unsigned int devices;	 /* whose name matches */
	unsigned int done;	 /* ports or programs to which it has happened */
	unsigned int not_killed; /* programs that could not be */
};

static void do_now_to_programs(struct injector *injector, const struct simhca_rule *rule,
			       struct device *device, struct outcome *outcome)
{
	struct act act = { .action = rule->action, .device = device->model };
	struct session *session = next_match(device, rule, NULL);

	while (session) {
		act.context = simhca_context_id(session->context);
		if (do_act(injector, &act))
			outcome->done++;
		else
			outcome->not_killed++;
		/*
		 * A program that loses the device loses it in all its sessions. These match no more,
		 * so the list is searched from its beginning. A session whose program is killed is
		 * in the list until that has ended, so the search goes on behind it.
		 */
		session = next_match(device, rule,
				     rule->action == SIMHCA_INJECT_FATAL ? NULL : session);
	}
}

static void do_now_at(struct injector *injector, const struct simhca_rule *rule,
		      struct device *device, struct outcome *outcome)
{
	const bool names_program = rule->pid || rule->program[0];
	const struct act act = { .action = rule->action, .device = device->model, .ns = rule->ns };

	outcome->devices++;
	if (rule->action == SIMHCA_INJECT_FATAL || rule->action == SIMHCA_INJECT_KILL) {
		do_now_to_programs(injector, rule, device, outcome);
	} else if (!names_program || next_match(device, rule, NULL)) {
		do_act(injector, &act);
		outcome->done++;
	}
}

static const char *why_nothing_was_done(const struct simhca_rule *rule,
					const struct outcome *outcome)
{
	if (outcome->not_killed)
		return "its process cannot be seen from here, as it is in another pid namespace, "
		       "or it has just ended";
	if (!outcome->devices)
		return "there is no such device";
	if (rule->pid || rule->program[0])
		return "no such program has the device open";
	return "no program has the device open";
}

static bool do_now(struct injector *injector, const struct simhca_rule *rule, char *error,
		   size_t size)
{
	struct daemon *daemon = injector->daemon;
	struct outcome outcome = { 0 };

	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		struct device *device = &daemon->devices[i];

		if (!rule->device[0] || !strcmp(rule->device, device->options->name))
			do_now_at(injector, rule, device, &outcome);
	}
	if (outcome.done)
		log_info("%s", rule->text);
	else
		snprintf(error, size, "%s: %s", rule->text, why_nothing_was_done(rule, &outcome));
	return outcome.done;
}

/* ------------------------------------------------------------------------------------ rules */

bool injector_add(struct injector *injector, const char *text, const void *owner, pid_t run,
		  uint32_t *number, char *error, size_t size)
{
	struct simhca_rule rule;
	struct owned *owned;
	int ret;

	*number = 0;
	if (!inject_rule_parse(text, &rule, error, size))
		return false;
	if (rule.now)
		return do_now(injector, &rule, error, size);
	owned = malloc(sizeof(*owned));
	ret = owned ? simhca_inject_add(injector->daemon->fabric, &rule, number) : -ENOMEM;
	if (ret) {
		free(owned);
		if (ret == -ENOSPC)
			snprintf(error, size, "there are %d rules already, which is the most",
				 SIMHCA_RULES_MOST);
		else
			snprintf(error, size, "%s", strerror(-ret));
		return false;
	}
	*owned = (struct owned){ .number = *number, .owner = owner, .run = run };
	LL_PREPEND(injector->owned, owned);
	return true;
}

static void remove_owned(struct injector *injector, struct owned *owned)
{
	struct daemon *daemon = injector->daemon;

	simhca_inject_remove(daemon->fabric, owned->number);
	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		struct device *device = &daemon->devices[i];
		bool returns = false;
		const struct restore *restore;

		if (device->down_by_rule != owned->number)
			continue;
		DL_FOREACH (injector->restores, restore)
			returns |= restore->device == device && restore->port;
		if (returns)
			continue;
		device->down_by_rule = 0;
		device_follow_interface(device);
	}
	LL_DELETE(injector->owned, owned);
	free(owned);
}

bool injector_remove(struct injector *injector, uint32_t number)
{
	struct owned *owned, *next;
	bool any = !number;

	LL_FOREACH_SAFE (injector->owned, owned, next) {
		if (number && owned->number != number)
			continue;
		any = true;
		remove_owned(injector, owned);
	}
	return any;
}

void injector_owner_gone(struct injector *injector, const void *owner)
{
	struct owned *owned, *next;

	LL_FOREACH_SAFE (injector->owned, owned, next)
		if (owned->owner == owner)
			remove_owned(injector, owned);
}

static pid_t run_of(const struct injector *injector, uint32_t number)
{
	const struct owned *owned;

	LL_FOREACH (injector->owned, owned)
		if (owned->number == number)
			return owned->run;
	return 0;
}

/* All of them: they are few (SIMHCA_RULES_MOST). */
static int step(struct report *report, void *state)
{
	struct injector *injector = report_daemon(report)->injector;
	struct simhca_rule rule = { .number = 0 };
	json_t *list = json_array();
	char why[SIMHCA_CMD_MESSAGE];

	while (simhca_inject_next(injector->daemon->fabric, rule.number, &rule)) {
		inject_why(&rule, why, sizeof(why));
		json_array_append_new(list, json_pack("{s:I, s:s, s:I, s:I, s:I, s:s}", "number",
						      (json_int_t)rule.number, "rule", rule.text,
						      "met", (json_int_t)rule.met, "fired",
						      (json_int_t)rule.fired, "run",
						      (json_int_t)run_of(injector, rule.number),
						      "why", why));
	}
	return report_put_json(report, list);
}

const struct report_kind injector_report = { .step = step };

/* ------------------------------------------------------------------------------------- life */

struct injector *injector_open(struct daemon *daemon)
{
	struct injector *injector = calloc(1, sizeof(*injector));

	if (!injector)
		return NULL;
	injector->daemon = daemon;
	simhca_mutex_init(&injector->lock, SIMHCA_LOCK_INJECTOR);
	ev_async_init(&injector->wake, on_wake);
	injector->wake.data = injector;
	ev_async_start(daemon->loop, &injector->wake);
	return injector;
}

void injector_close(struct injector *injector)
{
	struct owned *owned, *next;
	struct restore *restore, *after;

	if (!injector)
		return;
	LL_FOREACH_SAFE (injector->owned, owned, next)
		free(owned);
	DL_FOREACH_SAFE (injector->restores, restore, after)
		end_restore(restore);
	ev_async_stop(injector->daemon->loop, &injector->wake);
	pthread_mutex_destroy(&injector->lock);
	free(injector);
}
