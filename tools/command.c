/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "closest.h"
#include "command.h"
#include "option_table.h"
#include "report.h"
#include "tool.h"

static struct asked asked;
static bool help_wanted;

/* ------------------------------------------------------------------------------------- options */

static const struct command_option json_option = { "json", .letter = 'j', .value = &asked.json,
						   .help = "as JSON" };
static const struct command_option pid_option = { "pid",
						  "PID",
						  "only of this process",
						  .kind = OPTION_NUMBER,
						  .value = &asked.filter.pid,
						  .completion = COMPLETE_PID };
static const struct command_option qp_option = { "qp",
						 "N",
						 "only of the queue pair of this number",
						 .kind = OPTION_NUMBER,
						 .value = &asked.filter.qpn,
						 .completion = COMPLETE_QP };
static const struct command_option device_option = { "device",
						     "NAME",
						     "only of this device",
						     .kind = OPTION_TEXT,
						     .value = &asked.filter.device,
						     .completion = COMPLETE_DEVICE };
static const struct command_option common_options[] = {
	{ "runtime-dir", "DIR",
	  "where the daemon meets its programs; default $SIMHCA_RUNTIME_DIR, "
	  "$XDG_RUNTIME_DIR/simhca, /run/simhca or /tmp/simhca-UID, the first that can be used",
	  .kind = OPTION_TEXT, .value = &asked.runtime_dir, .completion = COMPLETE_DIRECTORY },
	{ "help", .letter = 'h', .value = &help_wanted, .help = "this text" },
};

static enum completion completion_of(const struct option_desc *desc)
{
	if (!strcmp(desc->name, "netdev"))
		return COMPLETE_NETDEV;
	if (desc->argument && !strcmp(desc->argument, "FILE"))
		return COMPLETE_FILE;
	return desc->type == TYPE_CHOICE ? COMPLETE_WORDS : COMPLETE_NOTHING;
}

/* "256 512 1024", in memory that stays. */
static const char *words_of(const struct option_desc *desc)
{
	static char text[2048], *end = text;
	char *words = end;

	for (const struct choice *choice = desc->choices; choice && choice->name; choice++)
		end += snprintf(end, (size_t)(text + sizeof(text) - end), "%s%s",
				choice == desc->choices ? "" : " ", choice->name);
	end++;
	return words;
}

static size_t add_daemon_options(struct command_option *options)
{
	size_t count = 0;

	for (size_t i = 0; i < option_count; i++) {
		const struct option_desc *desc = &option_table[i];
		struct command_option option = {
			.name = desc->name,
			.argument = desc->argument,
			.help = desc->help,
			.kind = OPTION_DAEMON,
			.completion = completion_of(desc),
			.value_optional = desc->type == TYPE_FLAG,
			.daemon_name = desc->name,
		};

		if (desc->scope & SCOPE_STARTER)
			continue;
		if (desc->type == TYPE_CHOICE)
			option.words = words_of(desc);
		options[count++] = option;
		option.name = desc->old_name;
		option.help = NULL;
		if (option.name)
			options[count++] = option;
	}
	options[count++] = (struct command_option){ .name = "device",
						    .argument = OPTION_DEVICE_ARGUMENT,
						    .help = OPTION_DEVICE_HELP,
						    .kind = OPTION_DAEMON,
						    .daemon_name = "device" };
	/* How options of the daemon were given that had no name here: --daemon-option mtu=256. */
	options[count++] = (struct command_option){ .name = "daemon-option",
						    .argument = "NAME=VALUE",
						    .kind = OPTION_DAEMON };
	return count;
}

size_t command_options(const struct command *command,
		       struct command_option options[COMMAND_OPTIONS_MOST])
{
	size_t count = 0;

	for (const struct command_option *own = command->options; own && own->name; own++)
		options[count++] = *own;
	if (command->takes & TAKES_JSON)
		options[count++] = json_option;
	if (command->takes & TAKES_PID)
		options[count++] = pid_option;
	if (command->takes & TAKES_QP)
		options[count++] = qp_option;
	if (command->takes & TAKES_DEVICE)
		options[count++] = device_option;
	for (size_t i = 0; i < sizeof(common_options) / sizeof(common_options[0]); i++)
		options[count++] = common_options[i];
	if (command->takes & TAKES_DAEMON_OPTIONS)
		count += add_daemon_options(options + count);
	return count;
}

/* ---------------------------------------------------------------------------------------- help */

static void print_option(FILE *out, const struct command_option *option)
{
	char left[128], letter[8] = "";

	if (!option->help)
		return;
	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, option->name,
		 option->argument ? " " : "", option->argument ? option->argument : "");
	option_print_help(out, left, option->help);
}

void command_help(FILE *out, const struct command *command)
{
	struct command_option options[COMMAND_OPTIONS_MOST];
	size_t count = command_options(command, options);
	char usage[512], *rest = usage, *line;

	snprintf(usage, sizeof(usage), "%s", command->usage);
	for (const char *word = "Usage:"; (line = strsep(&rest, "\n")); word = "      ")
		fprintf(out, "%s simhca %s %s\n", word, command->name, line);
	fprintf(out, "\n%s\n", command->about);
	for (size_t i = 0; i < count; i++)
		if (options[i].kind != OPTION_DAEMON)
			print_option(out, &options[i]);
	if (command->takes & TAKES_DAEMON_OPTIONS)
		fputs("\nOptions for a daemon that is started (one that runs already must have the "
		      "same):\n",
		      out);
	for (size_t i = 0; i < count; i++)
		if (options[i].kind == OPTION_DAEMON)
			print_option(out, &options[i]);
	fprintf(out, "%s%s\nExit status: %s\n", command->notes ? "\n" : "",
		command->notes ? command->notes : "", command->status);
}

/* ------------------------------------------------------------------------------------- parsing */

/* Of a word that begins with two dashes. */
static void complain_of_word(const char *subcommand, const char *word,
			     const struct command_option *options, size_t count)
{
	char name[64];
	struct closest closest = closest_to(name);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; i < count; i++)
		if (options[i].help)
			closest_try(&closest, options[i].name);
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
static void complain_of_option(char **argv, int refused, int before,
			       const struct command_option *options, size_t count)
{
	bool is_word = optind > before && !strncmp(argv[optind - 1], "--", 2);

	if (is_word && refused == '?')
		complain_of_word(argv[0], argv[optind - 1], options, count);
	else if (is_word)
		complain("%s needs a value; simhca %s --help has the options", argv[optind - 1],
			 argv[0]);
	else
		complain("-%c%s; simhca %s --help has the options", optopt,
			 refused == '?' ? ": no such option" : " needs a value", argv[0]);
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

static bool is_option_name(const char *text, const char *end)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	return text != end && *text != '-' && strspn(text, letters) == (size_t)(end - text);
}

/* One more argument of the daemon; value NULL: it has none. */
static bool add_daemon_option(const struct command_option *option, const char *value)
{
	struct daemon_options *options = &asked.daemon;
	const char *equals = option->daemon_name ? NULL : strchr(value, '=');
	char **grown, *argument;
	int length;

	if (!option->daemon_name && (!equals || !is_option_name(value, equals))) {
		complain("--daemon-option %s: must be NAME=VALUE, an option of simhcad without its "
			 "dashes",
			 value);
		return false;
	}
	grown = realloc(options->arguments, (options->count + 2) * sizeof(*grown));
	if (!grown)
		goto no_memory;
	options->arguments = grown;
	length = asprintf(&argument, "--%s%s%s", option->daemon_name ? option->daemon_name : value,
			  option->daemon_name && value ? "=" : "",
			  option->daemon_name && value ? value : "");
	if (length < 0)
		goto no_memory;
	options->arguments[options->count++] = argument;
	options->arguments[options->count] = NULL;
	return true;

no_memory:
	complain("out of memory");
	return false;
}

static bool take_option(const struct command_option *option, const char *value)
{
	switch (option->kind) {
	case OPTION_FLAG:
		*(bool *)option->value = true;
		return true;
	case OPTION_TEXT:
		*(const char **)option->value = value;
		return true;
	case OPTION_NUMBER:
		return option_number(option->name, value, option->value);
	case OPTION_CHECK:
		return option->check(value);
	case OPTION_DAEMON:
		return add_daemon_option(option, value);
	}
	return false;
}

#define LONG_OPTION 256 /* what getopt_long() says for the first of the list */

/* The tables of getopt_long(). '+': words are ours to find; ':': tell a missing value apart. */
static void make_tables(const struct command_option *options, size_t count, struct option *longs,
			char *letters)
{
	strcpy(letters, "+:");
	for (size_t i = 0; i < count; i++) {
		const struct command_option *option = &options[i];
		int has_arg = option->value_optional ? optional_argument
			      : option->argument     ? required_argument
						     : no_argument;

		longs[i] = (struct option){ option->name, has_arg, NULL, LONG_OPTION + (int)i };
		if (option->letter)
			sprintf(letters + strlen(letters), "%c%s", option->letter,
				option->argument ? ":" : "");
	}
	longs[count] = (struct option){ 0 };
}

/* A word that is no option: "-" and "-12" are none either. */
static bool is_word(const char *text)
{
	return text[0] != '-' || !text[1] || isdigit((unsigned char)text[1]);
}

/* Options into their values, and what else there is into words. False after a complaint. */
static bool parse(const struct command *command, int argc, char **argv, char **words)
{
	struct command_option options[COMMAND_OPTIONS_MOST];
	struct option longs[COMMAND_OPTIONS_MOST + 1];
	char letters[3 * COMMAND_OPTIONS_MOST];
	size_t count = command_options(command, options), num_words = 0, which;

	make_tables(options, count, longs, letters);
	opterr = 0;
	while (optind < argc) {
		int before = optind, code;

		if (command->takes & TAKES_WORDS && is_word(argv[optind])) {
			words[num_words++] = argv[optind++];
			continue;
		}
		code = getopt_long(argc, argv, letters, longs, NULL);
		if (code == -1)
			break;
		if (code == ':' || code == '?') {
			complain_of_option(argv, code, before, options, count);
			return false;
		}
		for (which = 0; which < count; which++)
			if (code == LONG_OPTION + (int)which || code == options[which].letter)
				break;
		if (!take_option(&options[which], optarg))
			return false;
		if (help_wanted)
			return true;
	}
	if (optind < argc && !(command->takes & (TAKES_WORDS | TAKES_COMMAND))) {
		complain("%s: it takes options only; simhca %s --help has them", argv[optind],
			 argv[0]);
		return false;
	}
	while (optind < argc)
		words[num_words++] = argv[optind++];
	words[num_words] = NULL;
	return true;
}

/* What fails with a command exits as env(1) and timeout(1) do, whose status is the command's. */
static int usage_status(const struct command *command, char **argv)
{
	bool has_command = command->takes & NEEDS_COMMAND;

	for (; command->takes & TAKES_COMMAND && *argv && !has_command; argv++)
		has_command = !strcmp(*argv, "--");
	return has_command ? EXIT_TOOL_FAILED : EXIT_USAGE;
}

static bool has_device(const json_t *devices, const char *name, char *names, size_t size)
{
	const json_t *device;
	size_t i, used = 0;

	names[0] = '\0';
	json_array_foreach((json_t *)devices, i, device)
	{
		const char *one = json_string_value(json_object_get(device, "name"));

		if (one && !strcmp(one, name))
			return true;
		if (one && used < size)
			used += (size_t)snprintf(names + used, size - used, "%s%s",
						 used ? ", " : "", one);
	}
	return false;
}

/*
 * Of no device nothing would be shown, as of one where nothing has happened. A daemon that cannot be
 * asked the subcommand complains of.
 */
static int check_device(void)
{
	char *dir = runtime_dir(asked.runtime_dir), *refusal = NULL, names[512];
	int fd = dir ? admin_connect(dir) : -1;
	json_t *status = fd >= 0 ? admin_status(fd, &refusal) : NULL;
	int result = dir ? EXIT_SUCCESS : EXIT_FAILURE;

	if (status && !has_device(json_object_get(status, "devices"), asked.filter.device, names,
				  sizeof(names))) {
		complain("--device %s: no such device; those of the daemon in %s: %s",
			 asked.filter.device, dir, names);
		result = EXIT_USAGE;
	}
	json_decref(status);
	free(refusal);
	if (fd >= 0)
		close(fd);
	free(dir);
	return result;
}

static int run_with_device(const struct command *command, char **words)
{
	int status = asked.filter.device && !words[0] ? check_device() : EXIT_SUCCESS;

	if (status != EXIT_SUCCESS)
		return status;
	return command->report ? report_run(command->report, &asked) : command->run(&asked, words);
}

int command_run(const struct command *command, int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	int status = usage_status(command, argv);

	if (!words) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	if (!parse(command, argc, argv, words)) {
		/* status is that */
	} else if (help_wanted) {
		command_help(stdout, command);
		status = EXIT_SUCCESS;
	} else if (command->takes & NEEDS_COMMAND && !words[0]) {
		complain("a command is missing: simhca %s [OPTION]... -- COMMAND", command->name);
	} else {
		status = run_with_device(command, words);
	}
	for (size_t i = 0; i < asked.daemon.count; i++)
		free(asked.daemon.arguments[i]);
	free(asked.daemon.arguments);
	free(words);
	return status;
}
