/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"
#include "core/lock.h"
#include "core/steps.h"
#include "inject.h"
#include "queue/opcode.h"
#include "simhca-inject.h"

struct rule {
	struct simhca_rule rule;
	uint64_t random; /* the state of its generator */
	struct rule *next;
};

struct simhca_inject {
	pthread_mutex_t lock; /* held for moments; nothing but the upcall's is taken under it */
	struct rule *rules;   /* by number */
	unsigned int count;
	uint32_t last;
};

/* splitmix64: any seed will do. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* ------------------------------------------------------------------------------------ rules */

int simhca_inject_init(struct simhca_fabric *fabric)
{
	fabric->inject = calloc(1, sizeof(*fabric->inject));
	if (!fabric->inject)
		return -ENOMEM;
	simhca_mutex_init(&fabric->inject->lock, SIMHCA_LOCK_INJECT);
	return 0;
}

int simhca_inject_add(struct simhca_fabric *fabric, const struct simhca_rule *rule,
		      uint32_t *number)
{
	struct simhca_inject *inject = fabric->inject;
	struct rule *new, **link;

	if (inject->count == SIMHCA_RULES_MOST)
		return -ENOSPC;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->rule = *rule;
	new->rule.met = new->rule.fired = 0;
	memset(new->rule.missed, 0, sizeof(new->rule.missed));
	new->rule.opcodes_missed = 0;
	new->random = rule->seed;
	pthread_mutex_lock(&inject->lock);
	new->rule.number = *number = ++inject->last;
	for (link = &inject->rules; *link; link = &(*link)->next)
		;
	*link = new;
	inject->count++;
	pthread_mutex_unlock(&inject->lock);
	atomic_store(&fabric->injects, true);
	simhca_steps_end(fabric, 0);
	return 0;
}

bool simhca_inject_remove(struct simhca_fabric *fabric, uint32_t number)
{
	struct simhca_inject *inject = fabric->inject;
	struct rule **link, *rule = NULL;

	pthread_mutex_lock(&inject->lock);
	for (link = &inject->rules; *link && (*link)->rule.number != number; link = &(*link)->next)
		;
	rule = *link;
	if (rule) {
		*link = rule->next;
		inject->count--;
	}
	pthread_mutex_unlock(&inject->lock);
	if (!inject->rules)
		atomic_store(&fabric->injects, false);
	free(rule);
	return rule;
}

bool simhca_inject_next(struct simhca_fabric *fabric, uint32_t after, struct simhca_rule *rule)
{
	struct simhca_inject *inject = fabric->inject;
	const struct rule *found;

	pthread_mutex_lock(&inject->lock);
	for (found = inject->rules; found && found->rule.number <= after; found = found->next)
		;
	if (found)
		*rule = found->rule;
	pthread_mutex_unlock(&inject->lock);
	return found;
}

bool simhca_inject_stands(struct simhca_fabric *fabric, uint32_t number)
{
	struct simhca_rule rule;

	return number && simhca_inject_next(fabric, number - 1, &rule) && rule.number == number;
}

void simhca_inject_free(struct simhca_fabric *fabric)
{
	struct simhca_inject *inject = fabric->inject;
	struct rule *rule;

	while ((rule = inject->rules)) {
		inject->rules = rule->next;
		free(rule);
	}
	pthread_mutex_destroy(&inject->lock);
	free(inject);
}

/* ---------------------------------------------------------------------------------- judging */

enum simhca_point simhca_rule_point(const struct simhca_rule *rule)
{
	switch (rule->action) {
	case SIMHCA_INJECT_RNR:
	case SIMHCA_INJECT_NAK:
	case SIMHCA_INJECT_FAULT:
		return SIMHCA_AT_ARRIVAL;
	case SIMHCA_INJECT_COMPLETE:
		return rule->receives ? SIMHCA_AT_RECEIVE : SIMHCA_AT_WQE;
	case SIMHCA_INJECT_DOORBELL:
		return SIMHCA_AT_WQE;
	case SIMHCA_INJECT_HOLD:
		return SIMHCA_AT_ANSWER;
	case SIMHCA_INJECT_NO_EVENT:
		return SIMHCA_AT_EVENT;
	case SIMHCA_INJECT_VERB:
		return SIMHCA_AT_VERB;
	case SIMHCA_INJECT_REJECT:
		return SIMHCA_AT_CONNECT;
	default:
		return rule->responses ? SIMHCA_AT_RESPONSE : SIMHCA_AT_REQUEST;
	}
}

static bool has_name(const struct simhca_context *context, const char *name)
{
	return context && atomic_load_explicit(&context->named, memory_order_acquire) &&
	       !strcmp(context->name, name);
}

/* The first condition of the rule that it does not meet; SIMHCA_MISSES: it meets all. */
static enum simhca_miss find_miss(const struct simhca_rule *rule,
				  const struct simhca_inject_hit *hit)
{
	const struct simhca_context *context = hit->context;
	uint32_t opcodes = rule->opcodes;

	if ((rule->pid && (!context || rule->pid != context->pid)) ||
	    (rule->program[0] && !has_name(context, rule->program)))
		return SIMHCA_MISS_PROGRAM;
	if (rule->device[0] &&
	    (!hit->device || strcmp(rule->device, hit->device->config.name) != 0))
		return SIMHCA_MISS_DEVICE;
	if (rule->qpn && rule->qpn != hit->qpn)
		return SIMHCA_MISS_QP;
	if (rule->verb && rule->verb != hit->verb)
		return SIMHCA_MISS_VERB;
	if (rule->action == SIMHCA_INJECT_RNR && !opcodes)
		opcodes = simhca_opcodes_with(SIMHCA_OP_RECEIVE);
	if (opcodes && (hit->opcode < 0 || !(opcodes & 1u << hit->opcode)))
		return SIMHCA_MISS_OPCODE;
	if (rule->action == SIMHCA_INJECT_REORDER && !hit->datagram)
		return SIMHCA_MISS_DATAGRAM;
	if (rule->action == SIMHCA_INJECT_CORRUPT && !hit->bytes)
		return SIMHCA_MISS_PAYLOAD;
	return SIMHCA_MISSES;
}

/* False: it is no hit of the rule's, and is counted if it nearly was one. */
static bool applies(struct simhca_rule *rule, const struct simhca_inject_hit *hit)
{
	enum simhca_miss miss;

	if (rule->now || simhca_rule_point(rule) != hit->point)
		return false;
	miss = find_miss(rule, hit);
	if (miss == SIMHCA_MISSES)
		return true;
	rule->missed[miss]++;
	if (miss == SIMHCA_MISS_OPCODE)
		rule->opcodes_missed |=
			1u << (hit->opcode < 0 ? SIMHCA_OPCODE_UNKNOWN : (uint32_t)hit->opcode);
	return false;
}

/* Counts the hit, and draws by it whether the rule fires or not: so the next ones, too. */
static bool fires(struct rule *rule)
{
	const struct simhca_rule *r = &rule->rule;
	uint64_t n = ++rule->rule.met;
	bool by_chance = !r->chance || next_random(&rule->random) >> 32 < r->chance;

	if ((r->first && n < r->first) || (r->last && n > r->last) || (r->every && n % r->every) ||
	    (r->times && r->fired >= r->times) || !by_chance)
		return false;
	rule->rule.fired++;
	return true;
}

static void add_to(struct simhca_inject_outcome *outcome, struct rule *rule,
		   const struct simhca_inject_hit *hit)
{
	const struct simhca_rule *r = &rule->rule;

	switch (r->action) {
	case SIMHCA_INJECT_DROP:
		outcome->drop = true;
		break;
	case SIMHCA_INJECT_DELAY:
	case SIMHCA_INJECT_DOORBELL:
		outcome->delay_ns += r->ns;
		break;
	case SIMHCA_INJECT_DUPLICATE:
		outcome->duplicate = true;
		break;
	case SIMHCA_INJECT_REORDER:
		outcome->reorder = true;
		break;
	case SIMHCA_INJECT_CORRUPT:
		outcome->corrupt = true;
		outcome->random = next_random(&rule->random);
		break;
	case SIMHCA_INJECT_SLOW:
		outcome->delay_ns += (uint64_t)((double)hit->bytes * 1e9 / (double)r->rate);
		break;
	case SIMHCA_INJECT_RNR:
		outcome->not_ready = true;
		break;
	case SIMHCA_INJECT_NAK:
		outcome->nak = (uint8_t)r->value;
		break;
	case SIMHCA_INJECT_FAULT:
		outcome->fault_ns += r->ns;
		break;
	case SIMHCA_INJECT_COMPLETE:
		outcome->status = r->value;
		break;
	case SIMHCA_INJECT_HOLD:
		outcome->delay_ns += r->ns;
		if (!r->ns)
			outcome->held = r->number;
		break;
	case SIMHCA_INJECT_NO_EVENT:
		outcome->no_event = true;
		break;
	case SIMHCA_INJECT_VERB:
		outcome->error = r->value;
		break;
	case SIMHCA_INJECT_REJECT:
		outcome->reject = r->value;
		break;
	case SIMHCA_INJECT_ASYNC:
		outcome->event = r->value + 1;
		break;
	case SIMHCA_INJECT_PORT_DOWN:
	case SIMHCA_INJECT_GID_CHANGE:
	case SIMHCA_INJECT_FATAL:
	case SIMHCA_INJECT_KILL:
	case SIMHCA_INJECT_ACTIONS:
		break;
	}
}

static void tell(const struct simhca_fabric *fabric, const struct rule *rule,
		 const struct simhca_inject_hit *hit)
{
	const struct simhca_injection injection = {
		.rule = &rule->rule,
		.device = hit->device,
		.context = hit->context ? hit->context->id : 0,
		.qpn = hit->qpn,
		.peer_qpn = hit->peer_qpn,
		.qp_type = hit->qp_type,
		.opcode = hit->opcode,
		.timeout = rule->rule.action == SIMHCA_INJECT_DROP ? hit->timeout : 0,
	};

	if (fabric->ops.injected)
		fabric->ops.injected(fabric->ops.arg, &injection);
}

bool simhca_inject_decide(struct simhca_fabric *fabric, const struct simhca_inject_hit *hit,
			  struct simhca_inject_outcome *outcome)
{
	struct simhca_inject *inject = fabric->inject;
	bool any = false;

	*outcome = (struct simhca_inject_outcome){ 0 };
	pthread_mutex_lock(&inject->lock);
	for (struct rule *rule = inject->rules; rule; rule = rule->next) {
		if (!applies(&rule->rule, hit) || !fires(rule))
			continue;
		any = true;
		add_to(outcome, rule, hit);
		tell(fabric, rule, hit);
	}
	pthread_mutex_unlock(&inject->lock);
	return any;
}

int simhca_inject_verb(struct simhca_context *context, uint32_t verb)
{
	struct simhca_fabric *fabric = context->device->fabric;
	const struct simhca_inject_hit hit = { .point = SIMHCA_AT_VERB,
					       .device = context->device,
					       .context = context,
					       .verb = verb,
					       .opcode = -1 };
	struct simhca_inject_outcome outcome;

	if (!simhca_inject_is_on(fabric) || !simhca_inject_decide(fabric, &hit, &outcome))
		return 0;
	return -(int)outcome.error;
}

int simhca_inject_connect(struct simhca_device *device)
{
	const struct simhca_inject_hit hit = { .point = SIMHCA_AT_CONNECT,
					       .device = device,
					       .opcode = -1 };
	struct simhca_inject_outcome outcome;

	if (!simhca_inject_is_on(device->fabric) ||
	    !simhca_inject_decide(device->fabric, &hit, &outcome))
		return 0;
	return (int)outcome.reject;
}
