/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca inject: faults on demand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "closest.h"
#include "command.h"
#include "replay.h"
#include "report.h"
#include "rules.h"
#include "tool.h"

static int add(int control, const struct rules *rules)
{
	return rules_send(rules, control) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int list(int control, bool as_json)
{
	char *refusal;
	json_t *all = admin_report(control, CONTROL_INJECT, &refusal);
	const json_t *rule;
	size_t i;

	if (!all) {
		complain("the daemon gave no list: %s", refusal ? refusal : strerror(errno));
		free(refusal);
		return EXIT_FAILURE;
	}
	if (as_json)
		print_json(all);
	json_array_foreach(all, i, rule)
	{
		const char *why = rules_why(rule);

		if (as_json)
			break;
		printf("%lld: %s: met %lld times, fired %lld%s%s\n", report_number(rule, "number"),
		       report_text(rule, "rule"), report_number(rule, "met"),
		       report_number(rule, "fired"), *why ? "; " : "", why);
	}
	json_decref(all);
	return EXIT_SUCCESS;
}

static int clear_one(int control, long long number)
{
	char *refusal;
	json_t *answer = admin_inject(control, NULL, number, &refusal);

	if (!answer)
		complain("%lld: %s", number, refusal ? refusal : strerror(errno));
	free(refusal);
	json_decref(answer);
	return answer ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int clear(int control, char **words)
{
	long long number;
	int status = EXIT_SUCCESS;

	if (!*words)
		return clear_one(control, 0);
	for (; *words; words++)
		if (!option_number("clear", *words, &number))
			return EXIT_USAGE;
		else if (clear_one(control, number) != EXIT_SUCCESS)
			status = EXIT_FAILURE;
	return status;
}

/* A subcommand that there is not; often it is the rule, without "add". */
static void refuse(const char *verb)
{
	static const char *const known[] = { "add", "list", "clear", "replay" };
	struct closest closest = closest_to(verb);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		closest_try(&closest, known[i]);
	if (strchr(verb, ' '))
		complain("%s: did you mean add '%s'?", verb, verb);
	else if (closest.best && strcmp(closest.best, verb) != 0)
		complain("%s: did you mean %s?", verb, closest.best);
	else
		complain("%s: should be add RULE..., list, clear [NUMBER]..., or replay CAPTURE",
			 *verb ? verb : "nothing");
}

static int run(struct asked *asked, char **words)
{
	const char *verb = *words ? *words++ : "";
	struct rules rules = { 0 };
	int control, status = EXIT_USAGE;
	char *dir;

	if (!strcmp(verb, "replay") && words[0] && !words[1])
		return replay_rules(words[0], stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
	if (!strcmp(verb, "add")) {
		if (!*words) {
			complain("add: a rule is missing");
			return EXIT_USAGE;
		}
		for (char **word = words; *word; word++)
			if (!rules_take(&rules, *word))
				goto out;
	} else if (!strcmp(verb, "list") ? *words != NULL : strcmp(verb, "clear") != 0) {
		refuse(verb);
		return EXIT_USAGE;
	}
	status = EXIT_FAILURE;
	dir = runtime_dir(asked->runtime_dir);
	control = dir ? admin_reach(dir) : -1;
	free(dir);
	if (control < 0)
		goto out;
	if (!strcmp(verb, "add"))
		status = add(control, &rules);
	else if (!strcmp(verb, "list"))
		status = list(control, asked->json);
	else
		status = clear(control, words);
	close(control);
out:
	rules_free(&rules);
	return status;
}

const struct command inject_subcommand = {
	.name = "inject",
	.summary = "make faults, to see what programs do then",
	.usage = "[OPTION]... add RULE|FILE...\n"
		 "[OPTION]... list\n"
		 "[OPTION]... clear [NUMBER]...\n"
		 "replay CAPTURE",
	.about =
		"Has the devices of the daemon in the runtime directory make faults, to see what "
		"programs\n"
		"do then. `simhca run --inject` has rules for as long as a command runs.\n"
		"\n"
		"  add     rules; one is one word here (quote it), or the line of a file\n"
		"  list    rules, how often each was met, and how often it fired\n"
		"  clear   rules by their numbers, or all\n"
		"  replay  prints rules by which is lost what was lost in a capture, and what "
		"found no\n"
		"          receive there finds none\n"
		"\n"
		"A rule is WHAT [WHERE]... [WHEN]..., as 'drop program=server opcode=SEND nth=3':\n"
		"  WHAT    drop, duplicate, corrupt, delay TIME [direction=request|response]\n"
		"          reorder; slow RATE; rnr; fault TIME; doorbell TIME; hold [TIME]; "
		"no-event\n"
		"          nak sequence|invalid|access|operational\n"
		"          complete STATUS [side=send|receive]; async EVENT\n"
		"          verb COMMAND=ERRNO; reject [REASON]\n"
		"          port-down [TIME], gid-change TIME, fatal, kill [peer]; also with now\n"
		"  WHERE   device=NAME program=NAME|PID qp=N opcode=NAME,...\n"
		"  WHEN    nth=N|N-M|N- every=N times=N p=PROBABILITY seed=N\n",
	.status = "0 when that was done; 1 if no daemon runs, or it refuses; 2 for wrong\n"
		  "options, or a rule that makes no sense.",
	.takes = TAKES_JSON | TAKES_WORDS,
	.completion = COMPLETE_INJECT,
	.run = run,
};
