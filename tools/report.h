/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Subcommands that print what the daemon answers to one request: status, qp, cq, srq, mr, cm, wire. */
#ifndef SIMHCA_REPORT_H
#define SIMHCA_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "command.h"
#include "control_protocol.h"

/* A column of a report that is a list of objects. */
enum report_kind {
	REPORT_TEXT,
	REPORT_NUMBER,
	REPORT_BOOL,	/* yes or no */
	REPORT_QPN,	/* as verbs programs print it; none if it is 0 */
	REPORT_KEY,	/* of a region, likewise hexadecimal */
	REPORT_FLAGS,	/* hexadecimal */
	REPORT_NUMBERS, /* an object of numbers: those that are not 0, as name=number */
};
struct report_column {
	const char *head, *key; /* NULL ends a table of them */
	enum report_kind kind;
	bool extended; /* with --extended only */
};
struct listing {
	enum control_command command;
	json_t *(*ask)(int fd, char **refusal); /* instead of command; as admin_status() */
	/* Without --json: a row for each object of the answer, or print(). */
	const struct report_column *columns;
	void (*print)(const json_t *answer);
	/* What does not pass goes from the answer, which is no list. */
	void (*filter)(const struct filter *filter, json_t *answer);
};

/* Returns the exit status of the subcommand. */
int report_run(const struct listing *report, const struct asked *asked);
/* A member of an answer; "-" if it is missing or empty. */
const char *report_text(const json_t *object, const char *key);
long long report_number(const json_t *object, const char *key);

/* --extended of those with columns. */
extern const struct command_option report_columns_options[];
/* As --json and all that speaks JSON prints it: false if it has not arrived. */
void print_json(const json_t *json);

#endif
