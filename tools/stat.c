/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca stat: what programs have done so far. simhca top: what they do. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "closest.h"
#include "command.h"
#include "reading.h"
#include "screen.h"
#include "table.h"
#include "tool.h"

/* Of the page of top in a terminal. */
static const char keys[] =
	"h ?   this page; any key leaves it      s >   sort by the next column\n"
	"p     queue pairs, or no longer         <     by the one before\n"
	"q     end                               r     the other way round\n"
	"\n"
	"MSG/S, BYTE/S  messages that were sent, written or read, and their bytes\n"
	"RECV/S         messages that took a receive\n"
	"RETRY          what was sent again\n"
	"RNR            NAKs of peers that had no receive\n"
	"ERROR          work requests that failed\n"
	"FAULT          page faults of on-demand memory\n"
	"P50, P99, MAX  time that messages took: of half of them, of 99 in 100, of all\n"
	"\n"
	"All but the times are for each second. Where the terminal is too narrow, columns\n"
	"that hold nothing are left out first.\n";

struct watch {
	const char *dir;
	struct filter filter;
	bool top, batch, histogram, as_json, prometheus;
	bool help; /* the page of keys is shown */
	struct reading_view view;
	double delay;
	long long count;
};

/* NULL after a complaint. */
static struct reading *take(const struct watch *watch, int control)
{
	char *refusal = NULL;
	struct reading *reading = reading_take(control, &watch->filter, &refusal);

	if (!reading)
		complain("the daemon in %s gave no report: %s", watch->dir,
			 refusal ? refusal : strerror(errno));
	free(refusal);
	return reading;
}

/* False: out of memory, after a complaint. */
static bool print(FILE *out, const struct watch *watch, const struct reading *now,
		  const struct reading *before)
{
	bool good = watch->histogram ? reading_print_histograms(out, now, &watch->view)
				     : reading_print(out, now, before, &watch->view);

	if (!good)
		complain("out of memory");
	return good;
}

static bool show(const struct watch *watch, const struct reading *now, const struct reading *before)
{
	bool good = true;
	json_t *json;

	if (watch->as_json) {
		json = reading_json(now, before, watch->histogram);
		json_dumpf(json, stdout, watch->top ? JSON_COMPACT : JSON_INDENT(2));
		putchar('\n');
		json_decref(json);
	} else if (watch->prometheus) {
		reading_prometheus(stdout, now);
	} else {
		good = print(stdout, watch, now, before);
		if (watch->top)
			putchar('\n');
	}
	return good;
}

static bool show_on_screen(struct watch *watch, struct screen *screen, const struct reading *now,
			   const struct reading *before)
{
	size_t size;
	char *text = NULL;
	FILE *page = open_memstream(&text, &size);
	bool good;

	if (!page)
		return false;
	watch->view.width = screen_width(screen);
	if (watch->help)
		fputs(keys, page);
	else
		fprintf(page, "sorted by %s%s; h for help, q to end\n", watch->view.sort,
			watch->view.reverse ? ", reversed" : "");
	good = watch->help || print(page, watch, now, before);
	fclose(page);
	if (good)
		screen_show(screen, text);
	free(text);
	return good;
}

/* Sorts by the one that is so many after the present one, round about. */
static void change_sort(struct watch *watch, size_t steps)
{
	size_t count = 0, present = 0;

	for (; reading_sorts[count]; count++)
		if (!strcmp(reading_sorts[count], watch->view.sort))
			present = count;
	watch->view.sort = reading_sorts[(present + count + steps) % count];
}

/* Of a key that changes what is shown. */
static void obey(struct watch *watch, enum screen_key key)
{
	if (watch->help) { /* any key leaves it */
		watch->help = false;
		return;
	}
	if (key == SCREEN_HELP)
		watch->help = true;
	else if (key == SCREEN_QPS)
		watch->view.qps = !watch->view.qps;
	else if (key == SCREEN_NEXT_SORT)
		change_sort(watch, 1);
	else if (key == SCREEN_LAST_SORT)
		change_sort(watch, (size_t)-1);
	else if (key == SCREEN_REVERSE)
		watch->view.reverse = !watch->view.reverse;
}

/* Until the next reading is due, drawing what is there anew for keys; false: it was told to end. */
static bool wait_for_next(struct watch *watch, struct screen *screen, int signals,
			  const struct reading *now, const struct reading *before)
{
	struct pollfd fds[2] = { { .fd = signals, .events = POLLIN },
				 { .fd = screen ? STDIN_FILENO : -1, .events = POLLIN } };
	long long until = now_ms() + (long long)(watch->delay * 1000), left;

	while ((left = until - now_ms()) > 0) {
		int ready = poll(fds, 2, (int)left);
		enum screen_key key;

		if ((ready < 0 && errno != EINTR) || (ready > 0 && fds[0].revents))
			return false;
		/* By a signal it hears of another size. */
		if (!screen || !ready)
			continue;
		key = screen_key(screen);
		if (key == SCREEN_QUIT || (key == SCREEN_NOTHING && ready > 0))
			return false;
		if (key == SCREEN_NOTHING)
			continue;
		if (key != SCREEN_RESIZED)
			obey(watch, key);
		if (!show_on_screen(watch, screen, now, before))
			return false;
	}
	return true;
}

/* Ends by a signal, a key, the count, or with the daemon. */
static bool go_on(struct watch *watch, struct screen *screen, int control, int signals)
{
	struct reading *before = NULL, *now = take(watch, control), *next;
	bool good = now != NULL;

	/* The first page comes at once, so that there is something to see. */
	if (good && screen)
		good = show_on_screen(watch, screen, now, NULL);
	for (long long shown = 0; good && (!watch->count || shown < watch->count); shown++) {
		if (!wait_for_next(watch, screen, signals, now, before))
			break;
		next = take(watch, control);
		good = next != NULL;
		if (!good)
			break;
		reading_free(before);
		before = now;
		now = next;
		good = screen ? show_on_screen(watch, screen, now, before)
			      : show(watch, now, before);
		good = good && flush_output();
	}
	reading_free(before);
	reading_free(now);
	return good;
}

static bool run_top(struct watch *watch, int control)
{
	struct screen *screen = NULL;
	sigset_t set;
	int signals;
	bool good;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* whoever reads us has had enough */
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0) {
		complain("signals: %s", strerror(errno));
		return false;
	}
	if (!watch->batch && !watch->as_json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		screen = screen_open();
		if (!screen)
			complain("the terminal %s is not known; --batch needs none",
				 getenv("TERM") ? getenv("TERM") : "");
		if (!screen)
			return false;
	}
	good = go_on(watch, screen, control, signals);
	screen_close(screen);
	close(signals);
	return good;
}

static bool run(struct watch *watch, int control)
{
	struct reading *reading;
	bool good;

	if (watch->top)
		return run_top(watch, control);
	reading = take(watch, control);
	if (!reading)
		return false;
	good = show(watch, reading, NULL);
	reading_free(reading);
	return flush_output() && good;
}

static struct watch asked_for = { .delay = 1 };

static bool take_delay(const char *text)
{
	double *delay = &asked_for.delay;
	char *end;

	*delay = strtod(text, &end);
	if (end != text && !*end && *delay >= 0.05 && *delay <= 86400)
		return true;
	complain("--delay %s: must be a number of seconds from 0.05 to 86400", text);
	return false;
}

static bool take_sort(const char *text)
{
	struct closest closest = closest_to(text);

	for (size_t i = 0; reading_sorts[i]; i++) {
		if (!strcasecmp(reading_sorts[i], text)) {
			asked_for.view.sort = reading_sorts[i];
			return true;
		}
		closest_try(&closest, reading_sorts[i]);
	}
	if (closest.best)
		complain("--sort %s: no such column; did you mean %s?", text, closest.best);
	else
		complain("--sort %s: must be msg, bytes, recv, retry, rnr, error, fault, p50, p99, "
			 "max, pid or program",
			 text);
	return false;
}

static int watch(struct watch *watch, const struct asked *asked)
{
	char *dir;
	int control;
	bool good;

	if (watch->prometheus && (watch->histogram || asked->json)) {
		complain("--prometheus has histograms, and a format of its own: it goes alone");
		return EXIT_USAGE;
	}
	watch->as_json = asked->json;
	watch->filter = asked->filter;
	watch->view.width = table_width(stdout);
	dir = runtime_dir(asked->runtime_dir);
	control = dir ? admin_reach(dir) : -1;
	watch->dir = dir;
	good = control >= 0 && run(watch, control);
	if (control >= 0)
		close(control);
	free(dir);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int stat_run(struct asked *asked, char **words)
{
	return watch(&asked_for, asked);
}

static int top_run(struct asked *asked, char **words)
{
	asked_for.top = true;
	if (!asked_for.view.sort)
		asked_for.view.sort = "msg";
	return watch(&asked_for, asked);
}

#define SORTS "msg bytes recv retry rnr error fault p50 p99 max pid program"
#define VIEW_OPTIONS                                                                               \
	{ "qps", .value = &asked_for.view.qps, .help = "a line for each queue pair, too" },        \
		{ "sort",                                                                          \
		  "COLUMN",                                                                        \
		  "msg, bytes, recv, retry, rnr, error, fault, p50, p99 or max, largest first; "   \
		  "or "                                                                            \
		  "program or pid",                                                                \
		  .letter = 's',                                                                   \
		  .kind = OPTION_CHECK,                                                            \
		  .check = take_sort,                                                              \
		  .completion = COMPLETE_WORDS,                                                    \
		  .words = SORTS },                                                                \
	{                                                                                          \
		"reverse", .letter = 'r', .value = &asked_for.view.reverse,                        \
			   .help = "the other way round"                                           \
	}

static const struct command_option stat_options[] = {
	{ "histogram", .value = &asked_for.histogram,
	  .help = "only how long messages took, as a histogram for each program, or with --qps for "
		  "each queue pair; with --json these too, as [nanoseconds at most, messages]" },
	{ "prometheus", .value = &asked_for.prometheus, .help = "in Prometheus' text format" },
	VIEW_OPTIONS,
	{ 0 },
};

const struct command stat_subcommand = {
	.name = "stat",
	.summary = "show what programs have done so far; for Prometheus, too",
	.usage = "[OPTION]...",
	.about = "Shows what each program has done so far: messages and bytes that it sent, wrote "
		 "or\n"
		 "read; messages that took a receive; what was sent again (RETRY), RNR NAKs of "
		 "peers\n"
		 "(RNR), failed work requests, page faults; and how long messages took, from when "
		 "the\n"
		 "device took them up (a sample of them). Then which queue pairs wait, and for "
		 "whom.\n",
	.status = "0 when a daemon runs; 1 if none does; 2 for wrong options.",
	.options = stat_options,
	.takes = TAKES_JSON | TAKES_FILTER,
	.run = stat_run,
};

static const struct command_option top_options[] = {
	{ "batch", .letter = 'b', .value = &asked_for.batch,
	  .help = "print tables, in a terminal as well" },
	{ "delay", "SECONDS", "between two readings; 1 by default", .letter = 'd',
	  .kind = OPTION_CHECK, .check = take_delay },
	{ "count", "N", "end after N tables", .letter = 'n', .kind = OPTION_NUMBER,
	  .value = &asked_for.count },
	VIEW_OPTIONS,
	{ 0 },
};

const struct command top_subcommand = {
	.name = "top",
	.summary = "show what they do, and who waits for whom",
	.usage = "[OPTION]...",
	.about =
		"Shows what programs do, and goes on: messages, bytes and receives for each "
		"second, what\n"
		"was sent again, RNR NAKs, errors and page faults, percentiles of the time that\n"
		"messages took, the CPU time of engines, and who waits for whom. In a terminal, h "
		"shows\n"
		"which keys there are, and q ends it; where that is too narrow, columns that hold\n"
		"nothing are left out first. Without a terminal it prints one table after the "
		"other;\n"
		"with --json each is one object in a line.\n",
	.status = "0 when it was ended; 1 if no daemon runs, or it has ended; 2 for wrong options.",
	.options = top_options,
	.takes = TAKES_JSON | TAKES_FILTER,
	.run = top_run,
};
