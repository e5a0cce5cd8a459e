/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca explain: what has failed of late, and why; and what an error means, without a daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "diagram.h"
#include "dictionary.h"
#include "report.h"
#include "story.h"
#include "tool.h"

/* ------------------------------------------------------------------------------ dictionary */

/* False: after a complaint. */
static bool define(const char *word, json_t *list)
{
	const char *closest;
	char names[256];

	if (dictionary_define(word, list))
		return true;
	closest = dictionary_closest(word);
	if (closest)
		complain("%s: no error is called that; did you mean %s?", word, closest);
	else if (dictionary_holding(word, names, sizeof(names)))
		complain("%s: no error is called that; with it in their names there are: %s", word,
			 names);
	else
		complain("%s: must be a completion's status, a reason (vendor_err), an "
			 "asynchronous event, an event of rdma_cm or an errno: its name, its "
			 "number, or the text that programs print of it",
			 word);
	return false;
}

static int define_all(char **words, bool as_json)
{
	json_t *list = json_array();
	bool known = true;

	for (char **word = words; *word && known; word++)
		known = define(*word, list);
	if (as_json && known)
		print_json(list);
	else
		dictionary_print(list);
	json_decref(list);
	return known ? EXIT_SUCCESS : EXIT_USAGE;
}

/* ----------------------------------------------------------------------------------- story */

#define FOLLOW_US 200000

struct explain {
	const char *dir;
	struct filter filter;
	bool follow, as_json, lint;
	bool diagram, mermaid;
	const char *svg; /* file */
};

static bool draws(const struct explain *explain)
{
	return explain->diagram || explain->mermaid || explain->svg;
}

static void tell(const struct explain *explain, const json_t *report)
{
	if (explain->as_json) {
		print_json(report);
	} else {
		size_t told = story_print(stdout, report, &explain->filter);
		const json_t *lint = json_object_get(report, "lint");

		if (!told && !explain->follow)
			puts("Nothing has failed.");
		if (lint)
			putchar('\n');
		if (lint && !story_print_lint(stdout, lint, explain->filter.pid))
			puts("No lint.");
	}
	flush_output();
}

/* False: after a complaint. */
static bool draw(const struct explain *explain, const json_t *report)
{
	enum diagram_format format = explain->svg	? DIAGRAM_SVG
				     : explain->mermaid ? DIAGRAM_MERMAID
							: DIAGRAM_TEXT;
	FILE *out = explain->svg ? fopen(explain->svg, "w") : stdout;
	bool written;

	if (!out) {
		complain("--svg %s: %s", explain->svg, strerror(errno));
		return false;
	}
	if (!diagram_print(out, report, &explain->filter, format) && !explain->svg)
		puts("No work request has failed.");
	if (!explain->svg)
		return true;
	written = !ferror(out);
	if (fclose(out) || !written) {
		complain("--svg %s: %s", explain->svg, strerror(errno));
		return false;
	}
	return true;
}

static long long last_id(const json_t *report, long long last)
{
	const json_t *list = json_object_get(report, "failures");
	size_t count = json_array_size(list);

	return count ? report_number(json_array_get(list, count - 1), "id") : last;
}

static int explain_from_daemon(const struct explain *explain)
{
	int fd = admin_reach(explain->dir);
	char *refusal = NULL;
	long long last = 0;
	json_t *report;
	bool drawn = true;

	if (fd < 0)
		return EXIT_FAILURE;
	while ((report = admin_failures(fd, last, 0, &refusal))) {
		if (explain->lint && last == 0)
			json_object_set_new(report, "lint", admin_lint(fd, 0));
		/* An empty report is no news. */
		if (draws(explain))
			drawn = draw(explain, report);
		else if (last == 0 || last_id(report, last) != last)
			tell(explain, report);
		last = last_id(report, last);
		json_decref(report);
		if (!explain->follow || draws(explain) || ferror(stdout))
			break;
		usleep(FOLLOW_US);
	}
	if (!report)
		complain("the daemon in %s gave no report: %s", explain->dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	close(fd);
	return report && drawn && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static struct explain explain;

static int run(struct asked *asked, char **words)
{
	char *dir;
	int status;

	if (*words)
		return define_all(words, asked->json);
	if (draws(&explain) && asked->json) {
		complain("--json has no diagram: it is the report that one is drawn from");
		return EXIT_USAGE;
	}
	dir = runtime_dir(asked->runtime_dir);
	if (!dir)
		return EXIT_FAILURE;
	explain.dir = dir;
	explain.filter = asked->filter;
	explain.as_json = asked->json;
	status = explain_from_daemon(&explain);
	free(dir);
	return status;
}

static const struct command_option options[] = {
	{ "follow", .value = &explain.follow, .help = "go on, and tell what fails from now on" },
	{ "lint", .value = &explain.lint, .help = "tell also what is legal and probably wrong" },
	{ "diagram", .value = &explain.diagram,
	  .help = "draw failed work requests: both ends, time downwards" },
	{ "mermaid", .value = &explain.mermaid,
	  .help = "likewise, as sequence diagrams of Mermaid" },
	{ "svg", "FILE", "likewise, as a picture", .kind = OPTION_TEXT, .value = &explain.svg,
	  .completion = COMPLETE_FILE },
	{ 0 },
};

const struct command explain_subcommand = {
	.name = "explain",
	.summary = "tell what has failed, and why; what an error means",
	.usage = "[OPTION]...\nERROR...",
	.about = "Tells what has failed of late, newest last: each work request that completed "
		 "with an\n"
		 "error, with what both ends saw, why, what mostly causes that and what to do;\n"
		 "asynchronous events of failures, verbs that were refused, connections that were\n"
		 "rejected or not answered. What ended programs left is there too, until newer "
		 "failures\n"
		 "take its room.\n"
		 "\n"
		 "With an ERROR, tells what it means: a completion's status (REM_ACCESS_ERR, 10) "
		 "with all\n"
		 "reasons that it can have, a reason (a completion's vendor_err: KEY_PAST_END, "
		 "0x14), an\n"
		 "asynchronous event (CQ_ERR), an event of rdma_cm (RDMA_CM_EVENT_REJECTED), an "
		 "errno\n"
		 "(ENOMEM, -12), or what a program has printed of one (\"remote access error\"). "
		 "Needs no\n"
		 "daemon.\n",
	.status = "0 when that could be told; 1 if no daemon runs; 2 for wrong options, or an\n"
		  "ERROR that is unknown.",
	.options = options,
	.takes = TAKES_JSON | TAKES_FILTER | TAKES_WORDS,
	.completion = COMPLETE_ERROR,
	.run = run,
};
