/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "closest.h"
#include "inject_rule.h"
#include "names.h"
#include "printable.h"
#include "simhca-abi.h"
#include "packet/packet.h"

#define ERRNOS 134 /* of Linux */

struct parser {
	struct simhca_rule *rule;
	char *error;
	size_t size;
};

static bool wrong(const struct parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static bool wrong(const struct parser *parser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(parser->error, parser->size, format, args);
	va_end(args);
	return false;
}

/* ----------------------------------------------------------------------------------- values */

static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	return isdigit((unsigned char)*text) && !*end && !errno && *number <= most;
}

/* With a unit, of which the first is the smallest. */
static bool parse_units(const char *text, const char *const *unit, const double *size,
			double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (!isdigit((unsigned char)*text) || end == text || *value <= 0)
		return false;
	for (; *unit; unit++, size++)
		if (!strcmp(end, *unit)) {
			*value *= *size;
			return *value < 1e18;
		}
	return false;
}

static bool parse_time(const char *text, uint64_t *ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s", NULL };
	static const double sizes[] = { 1, 1e3, 1e6, 1e9 };
	double value;

	if (!parse_units(text, units, sizes, &value))
		return false;
	*ns = (uint64_t)value;
	return *ns;
}

static bool parse_rate(const char *text, uint64_t *rate)
{
	static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", NULL };
	static const double sizes[] = { 1, 1e3, 1e6, 1e9 };
	double value;

	if (!parse_units(text, units, sizes, &value) || value < 1)
		return false;
	*rate = (uint64_t)value;
	return true;
}

static const char *without(const char *text, const char *prefix)
{
	return strncasecmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix);
}

/* The number below `count` whose name it is; or count. */
static uint32_t number_of(const char *text, const char *prefix, uint32_t count,
			  const char *(*name)(uint32_t number))
{
	uint32_t number = 0;

	text = without(text, prefix);
	while (number < count && (strcasecmp(name(number), text) != 0 || !strcmp(text, "?")))
		number++;
	return number;
}

static const char *errno_name(uint32_t number)
{
	const char *name = number ? strerrorname_np((int)number) : NULL;

	return name ? name : "?";
}

static const char *nak_name(uint32_t syndrome)
{
	switch (syndrome) {
	case SIMHCA_SYNDROME_NAK_PSN:
		return "sequence";
	case SIMHCA_SYNDROME_NAK_INVALID:
		return "invalid";
	case SIMHCA_SYNDROME_NAK_ACCESS:
		return "access";
	case SIMHCA_SYNDROME_NAK_OPERATIONAL:
		return "operational";
	default:
		return "?";
	}
}

/* ---------------------------------------------------------------------------------- actions */

static bool take_time(const struct parser *parser, const char *text)
{
	return parse_time(text, &parser->rule->ns) ||
	       wrong(parser, "%s: should be a time, as 500us, 10ms or 2s", text);
}

static bool take_rate(const struct parser *parser, const char *text)
{
	return parse_rate(text, &parser->rule->rate) ||
	       wrong(parser, "%s: should be bytes in a second, as 100kB/s or 5MB/s", text);
}

static bool take_nak(const struct parser *parser, const char *text)
{
	parser->rule->value = number_of(text, "", 256, nak_name);
	return parser->rule->value < 256 ||
	       wrong(parser, "%s: a NAK is sequence, invalid, access or operational", text);
}

static bool take_status(const struct parser *parser, const char *text)
{
	parser->rule->value = number_of(text, "IBV_WC_", 64, name_of_status);
	if (parser->rule->value == SIMHCA_WC_SUCCESS ||
	    parser->rule->value == SIMHCA_WC_WR_FLUSH_ERR)
		return wrong(parser, "%s: is no error that a work request begins with", text);
	return parser->rule->value < 64 ||
	       wrong(parser, "%s: should be the status of a completion, as RETRY_EXC_ERR", text);
}

static bool take_verb(const struct parser *parser, const char *text)
{
	char name[64];
	size_t length = strcspn(text, "=");

	if (!text[length] || length >= sizeof(name))
		return wrong(parser, "%s: should be COMMAND=ERRNO, as REG_MR=ENOMEM", text);
	memcpy(name, text, length);
	name[length] = 0;
	parser->rule->verb = number_of(name, "", SIMHCA_CMD_COUNT, name_of_command);
	if (parser->rule->verb == SIMHCA_CMD_COUNT)
		return wrong(parser,
			     "%s: is no command of the device, as REG_MR, CREATE_QP or MODIFY_QP",
			     name);
	parser->rule->value = number_of(text + length + 1, "", ERRNOS, errno_name);
	return parser->rule->value < ERRNOS ||
	       wrong(parser, "%s: should be an errno, as ENOMEM", text + length + 1);
}

static bool take_reason(const struct parser *parser, const char *text)
{
	uint64_t reason;

	if (!parse_number(text, 0xffff, &reason) || !reason)
		return wrong(parser, "%s: should be the number of a reason of a REJ, as 28", text);
	parser->rule->value = (uint32_t)reason;
	return true;
}

static bool take_event(const struct parser *parser, const char *text)
{
	parser->rule->value = number_of(text, "IBV_EVENT_", 64, name_of_event);
	/* A WQ sends nothing that a rule could fire at. */
	return (parser->rule->value < 64 && parser->rule->value != IBV_EVENT_WQ_FATAL) ||
	       wrong(parser, "%s: should be an asynchronous event, as QP_FATAL or PORT_ERR", text);
}

static bool take_peer(const struct parser *parser, const char *text)
{
	parser->rule->peer = true;
	return !strcmp(text, "peer") || wrong(parser, "%s: kill, or kill peer", text);
}

#define REJ_CONSUMER 28

static const struct action {
	const char *name;
	enum simhca_inject_action action;
	bool (*take)(const struct parser *parser, const char *text); /* its argument */
	bool needs;
	bool no_qp;	/* it happens at none: no qp, no opcode */
	bool both_ways; /* requests, or responses */
	bool may_now;
} actions[] = {
	{ "drop", SIMHCA_INJECT_DROP, .both_ways = true },
	{ "delay", SIMHCA_INJECT_DELAY, take_time, .needs = true, .both_ways = true },
	{ "duplicate", SIMHCA_INJECT_DUPLICATE, .both_ways = true },
	{ "reorder", SIMHCA_INJECT_REORDER, .take = NULL },
	{ "corrupt", SIMHCA_INJECT_CORRUPT, .both_ways = true },
	{ "slow", SIMHCA_INJECT_SLOW, take_rate, .needs = true },
	{ "rnr", SIMHCA_INJECT_RNR, .take = NULL },
	{ "nak", SIMHCA_INJECT_NAK, take_nak, .needs = true },
	{ "fault", SIMHCA_INJECT_FAULT, take_time, .needs = true },
	{ "complete", SIMHCA_INJECT_COMPLETE, take_status, .needs = true },
	{ "hold", SIMHCA_INJECT_HOLD, take_time, .needs = false },
	{ "doorbell", SIMHCA_INJECT_DOORBELL, take_time, .needs = true },
	{ "no-event", SIMHCA_INJECT_NO_EVENT, .no_qp = true },
	{ "verb", SIMHCA_INJECT_VERB, take_verb, .needs = true, .no_qp = true },
	{ "reject", SIMHCA_INJECT_REJECT, take_reason, .no_qp = true },
	{ "async", SIMHCA_INJECT_ASYNC, take_event, .needs = true },
	{ "port-down", SIMHCA_INJECT_PORT_DOWN, take_time, .may_now = true },
	{ "gid-change", SIMHCA_INJECT_GID_CHANGE, take_time, .needs = true, .may_now = true },
	{ "fatal", SIMHCA_INJECT_FATAL, .may_now = true },
	{ "kill", SIMHCA_INJECT_KILL, take_peer, .may_now = true },
};
#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

const char *inject_rule_actions(void)
{
	static char list[256];

	if (!list[0])
		for (size_t i = 0; i < ACTIONS; i++) {
			strcat(list, i ? ", " : "");
			strcat(list, actions[i].name);
		}
	return list;
}

static bool wrong_action(const struct parser *parser, const char *word)
{
	struct closest closest = closest_to(word);

	for (size_t i = 0; i < ACTIONS; i++)
		closest_try(&closest, actions[i].name);
	if (closest.best)
		return wrong(parser, "%s: no rule begins so; did you mean %s?", word, closest.best);
	return wrong(parser, "%s: a rule begins with %s", word, inject_rule_actions());
}

/* -------------------------------------------------------------------------- where, and when */

static bool take_program(const struct parser *parser, const char *text)
{
	uint64_t pid;

	if (parse_number(text, INT32_MAX, &pid) && pid) {
		parser->rule->pid = (pid_t)pid;
		return true;
	}
	if (!*text || strlen(text) >= sizeof(parser->rule->program))
		return wrong(parser,
			     "program=%s: should be a process's number, or its name, of which the "
			     "kernel has 15 characters",
			     text);
	strcpy(parser->rule->program, text);
	make_ascii(parser->rule->program); /* as programs are known by */
	return true;
}

static bool take_device(const struct parser *parser, const char *text)
{
	if (!*text || strlen(text) >= sizeof(parser->rule->device))
		return wrong(parser, "device=%s: should be the name of a device", text);
	strcpy(parser->rule->device, text);
	return true;
}

static bool take_qp(const struct parser *parser, const char *text)
{
	uint64_t qpn;

	if (!parse_number(text, 0xffffff, &qpn) || !qpn)
		return wrong(parser, "qp=%s: should be a QP's number", text);
	parser->rule->qpn = (uint32_t)qpn;
	return true;
}

static bool wrong_opcode(const struct parser *parser, const char *word, const char *text)
{
	struct closest closest = closest_to(word);

	for (uint32_t opcode = 0; opcode < 32; opcode++)
		if (strcmp(name_of_opcode(opcode), "?") != 0) /* what none has */
			closest_try(&closest, name_of_opcode(opcode));
	if (closest.best)
		return wrong(parser, "opcode=%s: there is no %s; did you mean %s?", text, word,
			     closest.best);
	return wrong(parser, "opcode=%s: should be opcodes of work requests, as SEND,RDMA_WRITE",
		     text);
}

static bool take_opcodes(const struct parser *parser, const char *text)
{
	char copy[128], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		uint32_t opcode = number_of(word, "IBV_WR_", 32, name_of_opcode);

		if (opcode == 32)
			return wrong_opcode(parser, word, text);
		parser->rule->opcodes |= 1u << opcode;
	}
	return true;
}

static bool take_direction(const struct parser *parser, const char *text)
{
	parser->rule->responses = !strcmp(text, "response");
	return parser->rule->responses || !strcmp(text, "request") ||
	       wrong(parser, "direction=%s: is request or response", text);
}

static bool take_side(const struct parser *parser, const char *text)
{
	parser->rule->receives = !strcmp(text, "receive");
	return parser->rule->receives || !strcmp(text, "send") ||
	       wrong(parser, "side=%s: is send or receive", text);
}

static bool take_nth(const struct parser *parser, const char *text)
{
	struct simhca_rule *rule = parser->rule;
	char copy[64], *to;

	snprintf(copy, sizeof(copy), "%s", text);
	to = strchr(copy, '-');
	if (to)
		*to++ = 0;
	if (!parse_number(copy, INT64_MAX, &rule->first) || !rule->first ||
	    (to && *to && (!parse_number(to, INT64_MAX, &rule->last) || rule->last < rule->first)))
		return wrong(parser, "nth=%s: should be N, N-M or N- , counted from 1", text);
	if (!to)
		rule->last = rule->first;
	return true;
}

static bool take_every(const struct parser *parser, const char *text)
{
	return (parse_number(text, INT64_MAX, &parser->rule->every) && parser->rule->every) ||
	       wrong(parser, "every=%s: should be a number from 1 on", text);
}

static bool take_times(const struct parser *parser, const char *text)
{
	return (parse_number(text, INT64_MAX, &parser->rule->times) && parser->rule->times) ||
	       wrong(parser, "times=%s: should be a number from 1 on", text);
}

static bool take_chance(const struct parser *parser, const char *text)
{
	char *end;
	double p = strtod(text, &end);

	if (end == text || *end || !(p > 0) || p > 1)
		return wrong(parser, "p=%s: should be a probability, more than 0 and up to 1",
			     text);
	parser->rule->chance = (uint64_t)(p * 4294967296.);
	if (!parser->rule->chance)
		parser->rule->chance = 1;
	return true;
}

static bool take_seed(const struct parser *parser, const char *text)
{
	return parse_number(text, UINT64_MAX, &parser->rule->seed) ||
	       wrong(parser, "seed=%s: should be a number", text);
}

static const struct key {
	const char *name;
	bool (*take)(const struct parser *parser, const char *text);
	enum { ANY, OF_QP, OF_PACKET, OF_COMPLETION } kind;
} keys[] = {
	{ "device", take_device, ANY },
	{ "program", take_program, ANY },
	{ "qp", take_qp, OF_QP },
	{ "opcode", take_opcodes, OF_QP },
	{ "direction", take_direction, OF_PACKET },
	{ "side", take_side, OF_COMPLETION },
	{ "nth", take_nth, ANY },
	{ "every", take_every, ANY },
	{ "times", take_times, ANY },
	{ "p", take_chance, ANY },
	{ "seed", take_seed, ANY },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static bool goes_with(const struct key *key, const struct action *action)
{
	return (!action->no_qp || key->kind == ANY) &&
	       (key->kind != OF_PACKET || action->both_ways) &&
	       (key->kind != OF_COMPLETION || action->action == SIMHCA_INJECT_COMPLETE);
}

static bool wrong_pair(const struct parser *parser, const char *word, size_t length)
{
	char name[24];
	struct closest closest = closest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	for (size_t i = 0; i < KEYS; i++)
		closest_try(&closest, keys[i].name);
	if (word[length] && closest.best)
		return wrong(parser, "%s: there is no %s=; did you mean %s=?", word, name,
			     closest.best);
	return wrong(parser,
		     "%s: should be device=, program=, qp=, opcode=, direction=, side=, nth=, "
		     "every=, times=, p= or seed=",
		     word);
}

static bool take_pair(const struct parser *parser, const struct action *action, const char *word,
		      bool *seen)
{
	size_t length = strcspn(word, "="), i = 0;

	while (i < KEYS && (strlen(keys[i].name) != length || strncmp(keys[i].name, word, length)))
		i++;
	if (!word[length] || i == KEYS)
		return wrong_pair(parser, word, length);
	if (seen[i])
		return wrong(parser, "%s: is there twice", keys[i].name);
	seen[i] = true;
	if (!goes_with(&keys[i], action))
		return wrong(parser, "%s: does not go with %s", keys[i].name, action->name);
	return keys[i].take(parser, word + length + 1);
}

static const struct action *find_action(const char *word)
{
	for (size_t i = 0; i < ACTIONS; i++)
		if (!strcmp(actions[i].name, word))
			return &actions[i];
	return NULL;
}

static bool is_pair_of_where(const char *word)
{
	for (size_t i = 0; i < KEYS; i++) {
		size_t length = strlen(keys[i].name);

		if (!strncmp(word, keys[i].name, length) && word[length] == '=')
			return true;
	}
	return false;
}

static bool check(const struct parser *parser, const struct action *action)
{
	const struct simhca_rule *rule = parser->rule;
	bool counts = rule->first || rule->every || rule->times || rule->chance;

	if (rule->seed && !rule->chance && rule->action != SIMHCA_INJECT_CORRUPT)
		return wrong(parser, "seed: goes with p, or corrupt");
	if (rule->now && !action->may_now)
		return wrong(parser,
			     "now: goes with port-down, gid-change, fatal and kill; %s waits for "
			     "its hit",
			     action->name);
	if (rule->now && counts)
		return wrong(parser, "now: is one time; there is nothing to count");
	if (rule->now && (rule->qpn || rule->opcodes || rule->peer))
		return wrong(parser, "now: is at no QP; say which program= or device=");
	if (rule->now && rule->action == SIMHCA_INJECT_PORT_DOWN && !rule->ns)
		return wrong(parser, "now: say for how long, as port-down 100ms now");
	if (rule->action == SIMHCA_INJECT_REJECT && (rule->pid || rule->program[0]))
		return wrong(parser, "program: does not go with reject; device does");
	return true;
}

bool inject_rule_parse(const char *text, struct simhca_rule *rule, char *error, size_t size)
{
	const struct parser parser = { .rule = rule, .error = error, .size = size };
	char copy[SIMHCA_RULE_TEXT], *rest = copy, *word;
	const struct action *action = NULL;
	bool seen[KEYS] = { false }, has_argument = false;

	*rule = (struct simhca_rule){ 0 };
	text += strspn(text, " \t");
	if (strlen(text) >= sizeof(copy))
		return wrong(&parser, "a rule has up to %zu characters", sizeof(copy) - 1);
	strcpy(copy, text);
	while ((word = strsep(&rest, " \t\r\n"))) {
		if (!*word)
			continue;
		if (rule->text[0])
			strcat(rule->text, " ");
		strcat(rule->text, word);
		if (!action) {
			action = find_action(word);
			if (!action)
				return wrong_action(&parser, word);
			rule->action = action->action;
			if (rule->action == SIMHCA_INJECT_REJECT)
				rule->value = REJ_CONSUMER;
		} else if (!strcmp(word, "now")) {
			rule->now = true;
		} else if (is_pair_of_where(word) || has_argument || !action->take) {
			if (!take_pair(&parser, action, word, seen))
				return false;
		} else {
			has_argument = true;
			if (!action->take(&parser, word))
				return false;
		}
	}
	if (!action)
		return wrong(&parser, "a rule is missing; it begins with %s",
			     inject_rule_actions());
	if (action->needs && !has_argument) {
		/* What is wrong with none says what it should be. */
		action->take(&parser, "nothing");
		return wrong(&parser, "%s: needs an argument; %s", action->name,
			     strstr(strdupa(error), ": ") + 2);
	}
	return check(&parser, action);
}

/* ------------------------------------------------------------------------------- completion */

#define NAMES_MOST 256 /* numbers that may have names */

/* Names that an argument accepts, behind what is before it. */
static void offer_names(bool (*take)(const struct parser *parser, const char *text),
			const char *before, void (*offer)(void *arg, const char *word), void *arg)
{
	static const struct {
		bool (*take)(const struct parser *parser, const char *text);
		const char *(*name)(uint32_t number);
	} names[] = { { take_nak, nak_name },
		      { take_status, name_of_status },
		      { take_event, name_of_event },
		      { take_verb, name_of_command },
		      { take_opcodes, name_of_opcode } };
	char error[SIMHCA_RULE_TEXT], word[128];
	struct simhca_rule rule;
	const struct parser parser = { .rule = &rule, .error = error, .size = sizeof(error) };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (uint32_t number = 0; names[i].take == take && number < NAMES_MOST; number++) {
			const char *name = names[i].name(number);

			if (!strcmp(name, "?"))
				continue;
			snprintf(word, sizeof(word), "%s%s%s", before, name,
				 take == take_verb ? "=ENOMEM" : "");
			if (take(&parser, word + strlen(before)))
				offer(arg, word);
		}
	if (take == take_peer)
		offer(arg, "peer");
	if (take == take_direction) {
		offer(arg, "direction=request");
		offer(arg, "direction=response");
	}
	if (take == take_side) {
		offer(arg, "side=send");
		offer(arg, "side=receive");
	}
}

void inject_rule_complete(const char *text, void (*offer)(void *arg, const char *word), void *arg)
{
	char copy[SIMHCA_RULE_TEXT], *word, pair[64];
	const struct action *action;
	size_t length;

	text += strspn(text, " ");
	snprintf(copy, sizeof(copy), "%s", text);
	word = strrchr(copy, ' ');
	if (!word) {
		for (size_t i = 0; i < ACTIONS; i++)
			offer(arg, actions[i].name);
		return;
	}
	*word++ = 0;
	length = strcspn(word, "=");
	action = find_action(strtok(copy, " "));
	if (!action)
		return;
	if (!strtok(NULL, " ") && action->take) /* it is the second word */
		offer_names(action->take, "", offer, arg);
	for (size_t i = 0; i < KEYS; i++) {
		if (!goes_with(&keys[i], action))
			continue;
		snprintf(pair, sizeof(pair), "%s=", keys[i].name);
		if (!word[length])
			offer(arg, pair);
		else if (!strncmp(word, pair, length + 1))
			offer_names(keys[i].take, pair, offer, arg);
	}
	if (action->may_now)
		offer(arg, "now");
}
