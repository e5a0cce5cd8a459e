/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject_rule.h"
#include "rules.h"
#include "report.h"
#include "tool.h"

/* where: file and line, or NULL. */
static bool take_one(struct rules *rules, const char *text, const char *where)
{
	struct simhca_rule rule;
	char error[512];
	char **grown;

	if (!inject_rule_parse(text, &rule, error, sizeof(error))) {
		complain("%s%s%s", where ? where : "", where ? ": " : "", error);
		return false;
	}
	grown = realloc(rules->text, (rules->count + 1) * sizeof(*grown));
	if (grown) {
		rules->text = grown;
		grown[rules->count] = strdup(rule.text);
	}
	if (!grown || !grown[rules->count]) {
		complain("out of memory");
		return false;
	}
	rules->count++;
	return true;
}

static bool take_file(struct rules *rules, FILE *file, const char *name)
{
	char *line = NULL, where[512];
	size_t room = 0, before = rules->count;
	unsigned int number = 0;
	bool good = true;

	while (good && getline(&line, &room, file) >= 0) {
		line[strcspn(line, "#\n")] = 0;
		snprintf(where, sizeof(where), "%s:%u", name, ++number);
		if (line[strspn(line, " \t\r")])
			good = take_one(rules, line, where);
	}
	free(line);
	if (good && rules->count == before) {
		complain("%s: there is no rule in it", name);
		good = false;
	}
	return good;
}

bool rules_take(struct rules *rules, const char *given)
{
	FILE *file;
	bool good;

	if (access(given, F_OK)) {
		if (!strpbrk(given, " \t=") && strpbrk(given, "/.")) {
			complain("%s: %s", given, strerror(errno));
			return false;
		}
		return take_one(rules, given, NULL);
	}
	file = fopen(given, "r");
	if (!file) {
		complain("%s: %s", given, strerror(errno));
		return false;
	}
	good = take_file(rules, file, given);
	fclose(file);
	return good;
}

void rules_free(struct rules *rules)
{
	while (rules->count)
		free(rules->text[--rules->count]);
	free(rules->text);
	rules->text = NULL;
}

bool rules_send(const struct rules *rules, int control)
{
	for (size_t i = 0; i < rules->count; i++) {
		char *refusal;
		json_t *answer = admin_inject(control, rules->text[i], -1, &refusal);

		if (!answer) {
			complain("%s: %s", rules->text[i], refusal ? refusal : strerror(errno));
			free(refusal);
			return false;
		}
		json_decref(answer);
	}
	return true;
}

const char *rules_why(const json_t *rule)
{
	const char *why = json_string_value(json_object_get(rule, "why"));

	return why ? why : "";
}

void rules_report(int control)
{
	json_t *list = admin_report(control, CONTROL_INJECT, NULL);
	const json_t *rule;
	const char *why;
	long long met;
	size_t i;

	json_array_foreach(list, i, rule)
	{
		if (report_number(rule, "run") != getpid() || report_number(rule, "fired"))
			continue;
		met = report_number(rule, "met");
		why = rules_why(rule);
		if (met)
			complain("rule %lld never fired, of %lld time%s that it could: %s%s%s",
				 report_number(rule, "number"), met, met == 1 ? "" : "s",
				 report_text(rule, "rule"), *why ? ": " : "", why);
		else
			complain("rule %lld met nothing: %s%s%s", report_number(rule, "number"),
				 report_text(rule, "rule"), *why ? ": " : "", why);
	}
	json_decref(list);
}
