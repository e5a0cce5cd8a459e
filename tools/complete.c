/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a word of the command line can be. Shells ask by `simhca complete WORD...`: the words behind
 * "simhca", of which the last is the one that is typed. The first line of the answer is
 *
 *	words		one of those that follow, each with a tab and what it is behind it
 *	files		a file
 *	directories	a directory
 *	command N	word N (from 0) is another command, and what is behind it is that one's
 *
 * With the first, a word is whole: "--mtu=256", or the beginning of a rule with one more word.
 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "inject_rule.h"
#include "dictionary.h"
#include "report.h"
#include "tool.h"

struct line {
	const char *runtime_dir;
	const char *typed;    /* the last word */
	size_t before_length; /* of what stays of it: "--mtu=", or the rule so far */
};

/* One that it can be, if it begins like what was typed. */
static void offer(const struct line *line, const char *word, const char *what)
{
	const char *rest = line->typed + line->before_length;

	if (!strncmp(word, rest, strlen(rest)))
		printf("%.*s%s\t%s\n", (int)line->before_length, line->typed, word, what);
}

static void offer_name(void *arg, const char *word)
{
	offer(arg, word, "");
}

static void offer_list(const struct line *line, const char *list)
{
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((word = strsep(&rest, " ")))
		offer(line, word, "");
}

/* --------------------------------------------------------------------- what the daemon knows */

/* NULL: none runs, or it does not tell. */
static json_t *ask(const struct line *line, enum control_command command)
{
	char *dir = runtime_dir(line->runtime_dir);
	int fd = dir ? admin_connect(dir) : -1;
	json_t *report = fd >= 0 ? admin_report(fd, command, NULL) : NULL;

	if (fd >= 0)
		close(fd);
	free(dir);
	return report;
}

/* Devices; or the processes that have them open, by number or by name. */
enum known { KNOWN_DEVICES, KNOWN_PIDS, KNOWN_PROGRAMS };

static void offer_known(const struct line *line, enum known known)
{
	json_t *status = ask(line, CONTROL_STATUS), *device, *context;
	char pid[24];
	size_t i, j;

	json_array_foreach(json_object_get(status, "devices"), i, device)
	{
		if (known == KNOWN_DEVICES)
			offer(line, report_text(device, "name"), report_text(device, "link_layer"));
		json_array_foreach(json_object_get(device, "context"), j, context)
		{
			snprintf(pid, sizeof(pid), "%lld", report_number(context, "pid"));
			if (known == KNOWN_PIDS)
				offer(line, pid, report_text(context, "comm"));
			else if (known == KNOWN_PROGRAMS)
				offer(line, report_text(context, "comm"), pid);
		}
	}
	json_decref(status);
}

static void offer_qps(const struct line *line)
{
	json_t *qps = ask(line, CONTROL_QP), *qp;
	char number[24], what[128];
	size_t i;

	json_array_foreach(qps, i, qp)
	{
		snprintf(number, sizeof(number), "0x%06llx", report_number(qp, "lqpn"));
		snprintf(what, sizeof(what), "%s %s of %s[%lld]", report_text(qp, "type"),
			 report_text(qp, "state"), report_text(qp, "comm"),
			 report_number(qp, "pid"));
		offer(line, number, what);
	}
	json_decref(qps);
}

static void offer_rule_numbers(const struct line *line)
{
	json_t *rules = ask(line, CONTROL_INJECT), *rule;
	char number[24];
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		snprintf(number, sizeof(number), "%lld", report_number(rule, "number"));
		offer(line, number, report_text(rule, "rule"));
	}
	json_decref(rules);
}

/* -------------------------------------------------------------------------------------- values */

static void offer_netdevs(const struct line *line)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *one = all; one && one->if_name; one++)
		offer(line, one->if_name, "");
	if (all)
		if_freenameindex(all);
}

/* The next word of a rule, or the name of a file of rules. */
static void offer_rule(struct line *line)
{
	const char *rule = line->typed + line->before_length, *word = strrchr(rule, ' ');

	if (rule[0] == '.' || rule[0] == '/') {
		puts("files");
		return;
	}
	puts("words");
	word = word ? word + 1 : rule;
	line->before_length = (size_t)(word - line->typed);
	inject_rule_complete(rule, offer_name, line);
	line->before_length += strcspn(word, "=") + (strchr(word, '=') != NULL);
	if (!strncmp(word, "device=", 7))
		offer_known(line, KNOWN_DEVICES);
	else if (!strncmp(word, "program=", 8))
		offer_known(line, KNOWN_PROGRAMS);
	else if (!strncmp(word, "qp=", 3))
		offer_qps(line);
}

static void offer_inject(struct line *line, const char *verb)
{
	if (verb && !strcmp(verb, "add")) {
		offer_rule(line);
	} else if (verb && !strcmp(verb, "replay")) {
		puts("files");
	} else {
		puts("words");
		if (!verb)
			offer_list(line, "add list clear replay");
		else if (!strcmp(verb, "clear"))
			offer_rule_numbers(line);
	}
}

/* The value of an option, or a word. words: of COMPLETE_WORDS; verb: inject's, or NULL. */
static void offer_value(struct line *line, enum completion completion, const char *words,
			const char *verb)
{
	const char *comma = strrchr(line->typed, ',');

	if (completion == COMPLETE_RULE) {
		offer_rule(line);
		return;
	}
	if (completion == COMPLETE_INJECT) {
		offer_inject(line, verb);
		return;
	}
	puts(completion == COMPLETE_FILE	? "files"
	     : completion == COMPLETE_DIRECTORY ? "directories"
						: "words");
	switch (completion) {
	case COMPLETE_WORDS:
		if (comma)
			line->before_length = (size_t)(comma + 1 - line->typed);
		offer_list(line, words);
		break;
	case COMPLETE_NETDEV:
		offer_netdevs(line);
		break;
	case COMPLETE_PID:
		offer_known(line, KNOWN_PIDS);
		break;
	case COMPLETE_QP:
		offer_qps(line);
		break;
	case COMPLETE_DEVICE:
		offer_known(line, KNOWN_DEVICES);
		break;
	case COMPLETE_ERROR:
		dictionary_names(offer_name, line);
		break;
	default:
		break;
	}
}

static void offer_options(const struct line *line, const struct command_option *options,
			  size_t count)
{
	char word[64];

	puts("words");
	for (size_t i = 0; i < count; i++) {
		snprintf(word, sizeof(word), "--%s", options[i].name);
		if (options[i].help)
			offer(line, word, options[i].help);
	}
}

static void offer_commands(const struct line *line, const char *more)
{
	puts("words");
	for (const struct command *const *command = commands; *command; command++)
		offer(line, (*command)->name, (*command)->summary);
	offer_list(line, more);
}

/* ---------------------------------------------------------------------------------- the words */

/* The option that a word is, without its value; NULL: it is none. */
static const struct command_option *option_of(const char *word,
					      const struct command_option *options, size_t count)
{
	size_t length = strcspn(word, "=");

	for (size_t i = 0; i < count; i++)
		if (!strncmp(word, "--", 2) ? !strncmp(word + 2, options[i].name, length - 2) &&
						      !options[i].name[length - 2]
					    : options[i].letter == word[strlen(word) - 1])
			return &options[i];
	return NULL;
}

static void complete_subcommand(const struct command *command, int count, char **words)
{
	struct command_option options[COMMAND_OPTIONS_MOST];
	size_t num_options = command_options(command, options);
	struct line line = { .typed = words[count - 1] };
	const struct command_option *option = NULL; /* whose value the next word is */
	const char *verb = NULL, *equals = strchr(line.typed, '=');
	int i;

	for (i = 1; i < count - 1; i++) {
		if (option) {
			if (!strcmp(option->name, "runtime-dir"))
				line.runtime_dir = words[i];
			option = NULL;
		} else if (!strcmp(words[i], "--")) {
			i++;
			break;
		} else if (words[i][0] == '-') {
			option = option_of(words[i], options, num_options);
			if (option && !strncmp(words[i], "--runtime-dir=", 14))
				line.runtime_dir = words[i] + 14;
			if (!option || !option->argument || option->value_optional ||
			    strchr(words[i], '='))
				option = NULL;
		} else if (command->takes & TAKES_COMMAND) {
			break;
		} else if (!verb) {
			verb = words[i];
		}
	}
	if (!option && line.typed[0] == '-' && i == count - 1 &&
	    strcmp(words[count - 2], "--") != 0) {
		if (!strncmp(line.typed, "--", 2) && equals)
			option = option_of(line.typed, options, num_options);
		if (!option) {
			offer_options(&line, options, num_options);
			return;
		}
		line.before_length = (size_t)(equals + 1 - line.typed);
	}
	if (option)
		offer_value(&line, option->completion, option->words, NULL);
	else if (command->takes & TAKES_COMMAND)
		printf("command %d\n", i);
	else
		offer_value(&line, command->completion, NULL, verb);
}

int complete(int count, char **words)
{
	const struct line line = { .typed = count > 0 ? words[count - 1] : "" };
	const struct command *command = count > 1 ? command_find(words[0]) : NULL;

	if (command)
		complete_subcommand(command, count, words);
	else if (count <= 1)
		offer_commands(&line, "help --help --version");
	else if (count == 2 && !strcmp(words[0], "help"))
		offer_commands(&line, "exit-status environment files");
	return EXIT_SUCCESS;
}
