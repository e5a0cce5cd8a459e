/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the subcommands have in common on the command line. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closest.h"
#include "tool.h"

/* Of a word that begins with two dashes. */
static void complain_of_word(const char *subcommand, const char *word, const struct option *table)
{
	char name[64];
	struct closest closest = closest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (const struct option *option = table; option->name; option++)
		closest_try(&closest, option->name);
	if (closest.best && closest.distance)
		complain("%s: no such option; did you mean --%s?", word, closest.best);
	else if (closest.best)
		complain("%s: --%s takes no value", word, closest.best);
	else
		complain("%s: no such option, or not complete; simhca %s --help has the options",
			 word, subcommand);
}

/*
 * What getopt_long() has refused by '?' or ':'. A letter is in optopt, and may be one of several in a
 * word, at which optind stays until the last of them; before is what optind was.
 */
static void complain_of_option(char **argv, int refused, int before, const struct option *table)
{
	bool is_word = optind > before && !strncmp(argv[optind - 1], "--", 2);

	if (is_word && refused == '?')
		complain_of_word(argv[0], argv[optind - 1], table);
	else if (is_word)
		complain("%s needs a value; simhca %s --help has the options", argv[optind - 1],
			 argv[0]);
	else
		complain("-%c%s; simhca %s --help has the options", optopt,
			 refused == '?' ? ": no such option" : " needs a value", argv[0]);
}

enum option_code next_option(int argc, char **argv, const struct option *table, int *index)
{
	/* '+': the words of a command after ours are its own; ':': tell a missing value apart. */
	char letters[24] = "+:h";
	size_t length = strlen(letters);
	int code, before = optind;

	for (const struct option *option = table; option->name; option++) {
		if (option->val >= OPT_USAGE_ERROR || length + 3 > sizeof(letters))
			continue;
		letters[length++] = (char)option->val;
		if (option->has_arg)
			letters[length++] = ':';
		letters[length] = 0;
	}
	*index = 0;
	opterr = 0;
	code = getopt_long(argc, argv, letters, table, index);
	if (code == 'h')
		return OPT_HELP;
	if (code == ':' || code == '?') {
		complain_of_option(argv, code, before, table);
		return OPT_USAGE_ERROR;
	}
	return (enum option_code)code;
}

bool option_number(const char *option, const char *text, long long *number)
{
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 0);
	if (!errno && end != text && !*end && *number > 0 && *number <= UINT32_MAX)
		return true;
	complain("--%s %s: must be a number from 1 to %u", option, text, UINT32_MAX);
	return false;
}

bool no_more_words(int argc, char **argv)
{
	if (optind == argc)
		return true;
	complain("%s: takes options only, and this is none", argv[optind]);
	return false;
}

/* simhcad names two of them otherwise. */
static const char *daemon_name(const char *name)
{
	if (!strcmp(name, "interface"))
		return "netdev";
	if (!strcmp(name, "log"))
		return "log-file";
	return name;
}

static bool is_option_name(const char *text, const char *end)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	return text != end && *text != '-' && strspn(text, letters) == (size_t)(end - text);
}

bool daemon_options_add(struct daemon_options *options, const struct option *option,
			const char *value)
{
	bool any = option->val == OPT_DAEMON_ANY;
	const char *equals = any ? strchr(value, '=') : NULL;
	char *argument;
	char **grown;
	int length;

	if (any && (!equals || !is_option_name(value, equals))) {
		complain("--daemon-option %s: must be NAME=VALUE, an option of simhcad without its "
			 "dashes",
			 value);
		return false;
	}
	grown = realloc(options->arguments, (options->count + 2) * sizeof(*grown));
	if (!grown)
		goto no_memory;
	options->arguments = grown;
	if (any || !value)
		length = asprintf(&argument, "--%s", any ? value : daemon_name(option->name));
	else
		length = asprintf(&argument, "--%s=%s", daemon_name(option->name), value);
	if (length < 0)
		goto no_memory;
	options->arguments[options->count++] = argument;
	options->arguments[options->count] = NULL;
	return true;

no_memory:
	complain("out of memory");
	return false;
}

void daemon_options_free(struct daemon_options *options)
{
	for (size_t i = 0; i < options->count; i++)
		free(options->arguments[i]);
	free(options->arguments);
	*options = (struct daemon_options){ 0 };
}
