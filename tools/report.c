/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Subcommands that print what the daemon answers to one request: status, qp, cq, srq, mr. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

const char *report_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && *text ? text : "-";
}

long long report_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* The daemon's answer; NULL after a complaint. */
static json_t *ask(const char *dir, const struct report *report)
{
	int fd = admin_reach(dir);
	char *refusal = NULL;
	json_t *answer;

	if (fd < 0)
		return NULL;
	answer = report->ask(fd, &refusal);
	if (!answer)
		complain("the daemon in %s gave no report: %s", dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	close(fd);
	return answer;
}

int report_main(int argc, char **argv, const struct report *report)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ 0 },
	};
	const char *given = NULL;
	bool as_json = false;
	enum option_code code;
	json_t *answer;
	char *dir;
	int index;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(report->help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_JSON:
			as_json = true;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	dir = runtime_dir(given);
	answer = dir ? ask(dir, report) : NULL;
	free(dir);
	if (!answer)
		return EXIT_FAILURE;
	if (as_json) {
		json_dumpf(answer, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		report->print(answer);
	}
	json_decref(answer);
	return flush_output() ? EXIT_SUCCESS : EXIT_FAILURE;
}
