/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca explain: what has failed of late, and why; and what an error means, without a daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diagram.h"
#include "dictionary.h"
#include "story.h"
#include "tool.h"

static const char help[] =
	"Usage: simhca explain [OPTION]...\n"
	"       simhca explain ERROR...\n"
	"\n"
	"Tells what has failed of late, newest last: each work request that completed with an\n"
	"error, with what both ends saw, why, what mostly causes that and what to do; "
	"asynchronous\n"
	"events of failures, verbs that were refused, connections that were rejected or not\n"
	"answered. What ended programs left is there too, until newer failures take its room.\n"
	"\n"
	"With an ERROR, tells what it means: a completion's status (REM_ACCESS_ERR, 10) with all\n"
	"reasons that it can have, a reason (a completion's vendor_err: KEY_PAST_END, 0x14), an\n"
	"asynchronous event (CQ_ERR), an event of rdma_cm (RDMA_CM_EVENT_REJECTED), an errno\n"
	"(ENOMEM, -12), or what a program has printed of one (\"remote access error\"). Needs no\n"
	"daemon.\n"
	"\n"
	"  --pid PID                 only what concerns this process\n"
	"  --qp N                    only what concerns the queue pair of this number\n"
	"  --follow                  go on, and tell what fails from now on\n"
	"  --lint                    tell also what is legal and probably wrong\n"
	"  --diagram                 draw failed work requests: both ends, time downwards\n"
	"  --mermaid                 likewise, as sequence diagrams of Mermaid\n"
	"  --svg FILE                likewise, as a picture\n"
	"  --json                    as one JSON object\n" HELP_COMMON "\n"
	"Exit status: 0 when that could be told; 1 if no daemon runs; 2 for wrong options, or an\n"
	"ERROR that is unknown.\n";

/* ------------------------------------------------------------------------------ dictionary */

static int define_all(char **words)
{
	for (char **word = words; *word; word++) {
		if (word != words)
			putchar('\n');
		if (!dictionary_define(*word)) {
			const char *closest = dictionary_closest(*word);

			if (closest) {
				complain("%s: no error is called that; did you mean %s?", *word,
					 closest);
				return EXIT_USAGE;
			}
			complain("%s: must be a completion's status, a reason (vendor_err), an "
				 "asynchronous event, an event of rdma_cm or an errno: its name, "
				 "its "
				 "number, or the text that programs print of it",
				 *word);
			return EXIT_USAGE;
		}
	}
	return EXIT_SUCCESS;
}

/* ----------------------------------------------------------------------------------- story */

#define FOLLOW_US 200000

struct explain {
	const char *dir;
	struct story_filter filter;
	bool follow, as_json, lint;
	bool as_diagram;
	enum diagram_format format; /* of that */
	const char *svg;	    /* file; NULL: standard output */
};

static void tell(const struct explain *explain, const json_t *report)
{
	if (explain->as_json) {
		json_dumpf(report, stdout, JSON_INDENT(2));
		putchar('\n');
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
	FILE *out = explain->svg ? fopen(explain->svg, "w") : stdout;
	bool written;

	if (!out) {
		complain("--svg %s: %s", explain->svg, strerror(errno));
		return false;
	}
	if (!diagram_print(out, report, &explain->filter, explain->format) && !explain->svg)
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
			json_object_set_new(report, "lint", admin_lint(fd, 0, NULL));
		/* An empty report is no news. */
		if (explain->as_diagram)
			drawn = draw(explain, report);
		else if (last == 0 || last_id(report, last) != last)
			tell(explain, report);
		last = last_id(report, last);
		json_decref(report);
		if (!explain->follow || explain->as_diagram || ferror(stdout))
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

int explain_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ "pid", required_argument, NULL, OPT_PID },
		{ "qp", required_argument, NULL, OPT_QP },
		{ "follow", no_argument, NULL, OPT_FOLLOW },
		{ "lint", no_argument, NULL, OPT_LINT },
		{ "diagram", no_argument, NULL, OPT_DIAGRAM },
		{ "mermaid", no_argument, NULL, OPT_MERMAID },
		{ "svg", required_argument, NULL, OPT_SVG },
		{ 0 },
	};
	struct explain explain = { 0 };
	const char *given = NULL;
	enum option_code code;
	int index, status;
	char *dir;

	/* "-12" is an ERROR. */
	while ((optind >= argc || !dictionary_is_negative(argv[optind])) &&
	       (code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_JSON:
			explain.as_json = true;
			break;
		case OPT_LINT:
			explain.lint = true;
			break;
		case OPT_FOLLOW:
			explain.follow = true;
			break;
		case OPT_DIAGRAM:
		case OPT_MERMAID:
		case OPT_SVG:
			explain.as_diagram = true;
			explain.format = code == OPT_DIAGRAM   ? DIAGRAM_TEXT
					 : code == OPT_MERMAID ? DIAGRAM_MERMAID
							       : DIAGRAM_SVG;
			if (code == OPT_SVG)
				explain.svg = optarg;
			break;
		case OPT_PID:
			if (!option_number("pid", optarg, &explain.filter.pid))
				return EXIT_USAGE;
			break;
		case OPT_QP:
			if (!option_number("qp", optarg, &explain.filter.qpn))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return define_all(argv + optind);
	if (explain.as_diagram && explain.as_json) {
		complain("--json has no diagram: it is the report that one is drawn from");
		return EXIT_USAGE;
	}
	dir = runtime_dir(given);
	if (!dir)
		return EXIT_FAILURE;
	explain.dir = dir;
	status = explain_from_daemon(&explain);
	free(dir);
	return status;
}
