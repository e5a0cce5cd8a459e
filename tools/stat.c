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

#include "reading.h"
#include "screen.h"
#include "tool.h"

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
	"  --json                    as one JSON object\n"
	"  --prometheus              in Prometheus' text format\n" HELP_COMMON "\n"
	"Exit status: 0 when a daemon runs; 1 if none does; 2 for wrong options.\n";

static const char top_help[] =
	"Usage: simhca top [OPTION]...\n"
	"\n"
	"Shows what programs do, and goes on: messages, bytes and receives for each second, what "
	"was\n"
	"sent again, RNR NAKs, errors and page faults, percentiles of the time that messages "
	"took,\n"
	"the CPU time of engines, and who waits for whom. In a terminal, q ends it, and p shows\n"
	"queue pairs or leaves them out. Without one it prints one table after the other.\n"
	"\n"
	"  -b, --batch               print tables, in a terminal as well\n"
	"  -d, --delay SECONDS       between two readings; 1 by default\n"
	"  -n, --count N             end after N tables\n"
	"  --qps                     a line for each queue pair, too\n"
	"  --json                    each table as one JSON object in a line\n" HELP_COMMON "\n"
	"Exit status: 0 when it was ended; 1 if no daemon runs, or it has ended; 2 for wrong "
	"options.\n";

struct watch {
	const char *dir;
	bool top, batch, qps, as_json, prometheus;
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

static void show(const struct watch *watch, const struct reading *now, const struct reading *before)
{
	json_t *json;

	if (watch->as_json) {
		json = reading_json(now, before);
		json_dumpf(json, stdout, watch->top ? JSON_COMPACT : JSON_INDENT(2));
		putchar('\n');
		json_decref(json);
	} else if (watch->prometheus) {
		reading_prometheus(stdout, now);
	} else {
		reading_print(stdout, now, before, watch->qps);
		if (watch->top)
			putchar('\n');
	}
}

static bool show_on_screen(struct watch *watch, struct screen *screen, const struct reading *now,
			   const struct reading *before)
{
	size_t size;
	char *text = NULL;
	FILE *page = open_memstream(&text, &size);

	if (!page)
		return false;
	reading_print(page, now, before, watch->qps);
	fclose(page);
	screen_show(screen, text);
	free(text);
	return true;
}

/* Until the next reading is due; false: it was told to end. */
static bool wait_for_next(struct watch *watch, struct screen *screen, int signals)
{
	struct pollfd fds[2] = { { .fd = signals, .events = POLLIN },
				 { .fd = screen ? STDIN_FILENO : -1, .events = POLLIN } };
	long long until = now_ms() + (long long)(watch->delay * 1000), left;

	while ((left = until - now_ms()) > 0) {
		int ready = poll(fds, 2, (int)left);

		if ((ready < 0 && errno != EINTR) || (ready > 0 && fds[0].revents))
			return false;
		/* By a signal it hears of another size. */
		if (!screen || !ready)
			continue;
		switch (screen_key(screen)) {
		case SCREEN_QUIT:
			return false;
		case SCREEN_NOTHING:
			if (ready > 0)
				return false;
			break;
		case SCREEN_QPS:
			watch->qps = !watch->qps;
			return true;
		case SCREEN_OTHER:
			break;
		}
	}
	return true;
}

/* Ends by a signal, a key, the count, or with the daemon. */
static bool go_on(struct watch *watch, struct screen *screen, int control, int signals)
{
	struct reading *before = take(watch, control), *now;
	bool good = before != NULL;

	/* The first page comes at once, so that there is something to see. */
	if (good && screen)
		good = show_on_screen(watch, screen, before, NULL);
	for (long long shown = 0; good && (!watch->count || shown < watch->count); shown++) {
		if (!wait_for_next(watch, screen, signals))
			break;
		now = take(watch, control);
		good = now != NULL;
		if (good && screen)
			good = show_on_screen(watch, screen, now, before);
		else if (good)
			show(watch, now, before);
		good = good && flush_output();
		reading_free(before);
		before = now;
	}
	reading_free(before);
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

	if (watch->top)
		return run_top(watch, control);
	reading = take(watch, control);
	if (!reading)
		return false;
	show(watch, reading, NULL);
	reading_free(reading);
	return flush_output();
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

static int watch_main(int argc, char **argv, const struct option *table, const char *help, bool top)
{
	struct watch watch = { .top = top, .delay = 1 };
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
			watch.qps = true;
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
		{ "qps", no_argument, NULL, OPT_QPS },
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
		{ 0 },
	};

	return watch_main(argc, argv, table, top_help, true);
}
