/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Subcommands that print what the daemon answers to one request: status, qp, cq, srq, mr, cm, wire. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
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
	answer = report->ask ? report->ask(fd, &refusal)
			     : admin_report(fd, report->command, &refusal);
	if (!answer)
		complain("the daemon in %s gave no report: %s", dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	close(fd);
	return answer;
}

/* ------------------------------------------------------------------------------- as a table */

#define COLUMNS_MAX 24

/* "faults=3,prefetches=1" */
static void add_numbers(struct table *table, json_t *object)
{
	char text[512];
	size_t length = 0;
	const char *name;
	json_t *value;

	text[0] = 0;
	json_object_foreach(object, name, value)
	{
		if (json_integer_value(value) && length < sizeof(text))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s%s=%lld", length ? "," : "", name,
						   (long long)json_integer_value(value));
	}
	table_add(table, "%s", text);
}

static void add_cell(struct table *table, const struct report_column *column, const json_t *object)
{
	long long number = report_number(object, column->key);
	json_t *value = json_object_get(object, column->key);

	switch (value ? column->kind : REPORT_TEXT) {
	case REPORT_TEXT:
		table_add(table, "%s", report_text(object, column->key));
		break;
	case REPORT_NUMBER:
		table_add(table, "%lld", number);
		break;
	case REPORT_BOOL:
		table_add(table, "%s", json_is_true(value) ? "yes" : "no");
		break;
	case REPORT_QPN:
		table_add(table, number ? "0x%06llx" : "-", number);
		break;
	case REPORT_KEY:
		table_add(table, number ? "0x%llx" : "-", number);
		break;
	case REPORT_FLAGS:
		table_add(table, "0x%llx", number);
		break;
	case REPORT_NUMBERS:
		add_numbers(table, value);
		break;
	}
}

static void print_table(const struct report_column *columns, const json_t *list, bool extended)
{
	struct table_column heads[COLUMNS_MAX];
	const struct report_column *shown[COLUMNS_MAX];
	struct table *table;
	size_t count = 0, row;
	json_t *object;

	for (const struct report_column *column = columns; column->head; column++) {
		if (column->extended && !extended)
			continue;
		heads[count] = (struct table_column){ .head = column->head,
						      .right = column->kind == REPORT_NUMBER };
		shown[count++] = column;
	}
	table = table_new(heads, count);
	json_array_foreach(list, row, object)
	{
		for (size_t i = 0; table && i < count; i++)
			add_cell(table, shown[i], object);
	}
	if (!table || !table_print(stdout, table, 0))
		complain("out of memory");
	table_free(table);
}

/* ---------------------------------------------------------------------------- the subcommand */

int report_main(int argc, char **argv, const struct report *report)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ 0 },
	};
	static const struct option with_columns[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ "extended", no_argument, NULL, OPT_EXTENDED },
		{ 0 },
	};
	const struct option *options = report->columns ? with_columns : table;
	const char *given = NULL;
	bool as_json = false, extended = false;
	enum option_code code;
	json_t *answer;
	char *dir;
	int index;

	while ((code = next_option(argc, argv, options, &index)) != OPT_END) {
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
		case OPT_EXTENDED:
			extended = true;
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
	} else if (report->columns) {
		print_table(report->columns, answer, extended);
	} else {
		report->print(answer);
	}
	json_decref(answer);
	return flush_output() ? EXIT_SUCCESS : EXIT_FAILURE;
}
