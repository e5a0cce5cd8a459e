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
#include "reading.h"
#include "screen.h"
#include "table.h"
#include "tool.h"

#define HELP_SORT                                                                                  \
	"  -s, --sort COLUMN         msg, bytes, recv, retry, rnr, error, fault, p50, p99 or "     \
	"max,\n"                                                                                   \
	"                            largest first; or program or pid\n"                           \
	"  -r, --reverse             the other way round\n"

static const char stat_help[] =
	"Usage: simhca stat [OPTION]...\n"
	"\n"
	"Shows what each program has done so far: messages and bytes that it sent, wrote or read;\n"
	"messages that took a receive; what was sent again (RETRY), RNR NAKs of peers (RNR), "
	"failed\n"
	"work requests, page faults; and how long messages took, from when the device took them "
	"up\n"
	"(a sample of them). Then which queue pairs wait, and for whom.\n"
	"\n"
	"  --qps                     a line for each queue pair, too\n"
	"  --histogram               only how long messages took, as a histogram for each "
	"program,\n"
	"                            or with --qps for each queue pair\n"
	"  --json                    as one JSON object; with --histogram there are the\n"
	"                            histograms, too, as [nanoseconds at most, messages]\n"
	"  --prometheus              in Prometheus' text format\n" HELP_SORT HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char top_help[] =
	"Usage: simhca top [OPTION]...\n"
	"\n"
	"Shows what programs do, and goes on: messages, bytes and receives for each second, what "
	"was\n"
	"sent again, RNR NAKs, errors and page faults, percentiles of the time that messages "
	"took,\n"
	"the CPU time of engines, and who waits for whom. In a terminal, h shows which keys there\n"
	"are, and q ends it; where that is too narrow, columns that hold nothing are left out\n"
	"first. Without a terminal it prints one table after the other.\n"
	"\n"
	"  -b, --batch               print tables, in a terminal as well\n"
	"  -d, --delay SECONDS       between two readings; 1 by default\n"
	"  -n, --count N             end after N tables\n"
	"  --qps                     a line for each queue pair, too\n"
	"  --json                    each table as one JSON object in a line\n" HELP_SORT
		HELP_COMMON "\n"
	"Exit status: 0 when it was ended; 1 if no daemon runs, or it has ended; 2 for wrong "
	"options.\n";

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
	struct reading *reading = reading_take(control, &refusal);

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

static bool read_delay(const char *text, double *delay)
{
	char *end;

	*delay = strtod(text, &end);
	if (end != text && !*end && *delay >= 0.05 && *delay <= 86400)
		return true;
	complain("--delay %s: must be a number of seconds from 0.05 to 86400", text);
	return false;
}

static bool read_sort(const char *text, const char **sort)
{
	struct closest closest = closest_to(text);

	for (size_t i = 0; reading_sorts[i]; i++) {
		if (!strcasecmp(reading_sorts[i], text)) {
			*sort = reading_sorts[i];
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

static int watch_main(int argc, char **argv, const struct option *table, const char *help, bool top)
{
	struct watch watch = { .top = top, .delay = 1, .view.sort = top ? "msg" : NULL };
	const char *given = NULL;
	enum option_code code;
	int index, control;
	char *dir;
	bool good;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_JSON:
			watch.as_json = true;
			break;
		case OPT_PROMETHEUS:
			watch.prometheus = true;
			break;
		case OPT_QPS:
			watch.view.qps = true;
			break;
		case OPT_HISTOGRAM:
			watch.histogram = true;
			break;
		case OPT_SORT:
			if (!read_sort(optarg, &watch.view.sort))
				return EXIT_USAGE;
			break;
		case OPT_REVERSE:
			watch.view.reverse = true;
			break;
		case OPT_BATCH:
			watch.batch = true;
			break;
		case OPT_DELAY:
			if (!read_delay(optarg, &watch.delay))
				return EXIT_USAGE;
			break;
		case OPT_TIMES:
			if (!option_number("count", optarg, &watch.count))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	if (watch.prometheus && (watch.histogram || watch.as_json)) {
		complain("--prometheus has histograms, and a format of its own: it goes alone");
		return EXIT_USAGE;
	}
	watch.view.width = table_width(stdout);
	dir = runtime_dir(given);
	control = dir ? admin_reach(dir) : -1;
	watch.dir = dir;
	good = control >= 0 && run(&watch, control);
	if (control >= 0)
		close(control);
	free(dir);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int stat_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "json", no_argument, NULL, OPT_JSON },
		{ "prometheus", no_argument, NULL, OPT_PROMETHEUS },
		{ "histogram", no_argument, NULL, OPT_HISTOGRAM },
		{ "qps", no_argument, NULL, OPT_QPS },
		{ "sort", required_argument, NULL, OPT_SORT },
		{ "reverse", no_argument, NULL, OPT_REVERSE },
		{ 0 },
	};

	return watch_main(argc, argv, table, stat_help, false);
}

int top_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "batch", no_argument, NULL, OPT_BATCH },
		{ "delay", required_argument, NULL, OPT_DELAY },
		{ "count", required_argument, NULL, OPT_TIMES },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "qps", no_argument, NULL, OPT_QPS },
		{ "sort", required_argument, NULL, OPT_SORT },
		{ "reverse", no_argument, NULL, OPT_REVERSE },
		{ 0 },
	};

	return watch_main(argc, argv, table, top_help, true);
}
