/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Subcommands that print what the daemon answers to one request: status, qp, cq, srq, mr, cm, wire. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "report.h"
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
static json_t *ask(const char *dir, const struct listing *report)
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

static bool extended;

static void print_table(const struct report_column *columns, const json_t *list)
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

const struct command_option report_columns_options[] = {
	{ "extended", .letter = 'x', .value = &extended, .help = "all columns" },
	{ 0 },
};

void print_json(const json_t *json)
{
	json_dumpf(json, stdout, JSON_INDENT(2));
	putchar('\n');
}

int report_run(const struct listing *report, const struct asked *asked)
{
	char *dir = runtime_dir(asked->runtime_dir);
	json_t *answer = dir ? ask(dir, report) : NULL;

	free(dir);
	if (!answer)
		return EXIT_FAILURE;
	if (report->filter)
		report->filter(&asked->filter, answer);
	else
		filter_list(&asked->filter, answer);
	if (asked->json)
		print_json(answer);
	else if (report->columns)
		print_table(report->columns, answer);
	else
		report->print(answer);
	json_decref(answer);
	return flush_output() ? EXIT_SUCCESS : EXIT_FAILURE;
}
