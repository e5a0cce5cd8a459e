/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca start: a daemon that stays until it is stopped. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool.h"

static const char help[] =
	"Usage: simhca start [OPTION]...\n"
	"\n"
	"Starts a daemon that stays until `simhca stop`, and waits until it is ready. When one "
	"runs\n"
	"already and agrees with the options, nothing is done.\n"
	"\n" HELP_COMMON "\n" HELP_DAEMON "\n"
	"Without --log, the log is simhcad.log in the runtime directory.\n"
	"\n"
	"Exit status: 0 when a daemon runs; 1 if it could not be started; 2 for wrong options.\n";

/* A daemon that ran already: its status, after a word about it. */
static int join(const struct daemon *daemon)
{
	json_t *report = admin_status(daemon->control, NULL);
	bool captive = json_is_true(json_object_get(report, "captive"));

	json_decref(report);
	if (captive) {
		complain(
			"the daemon that runs in %s (pid %d) belongs to a simhca run and ends with "
			"it; use --runtime-dir for another daemon, or try again afterwards",
			daemon->dir, (int)daemon->pid);
		return EXIT_FAILURE;
	}
	complain("a daemon runs in %s already (pid %d)", daemon->dir, (int)daemon->pid);
	return EXIT_SUCCESS;
}

int start_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		OPTIONS_DAEMON,
		{ 0 },
	};
	struct daemon_options options = { 0 };
	struct daemon daemon = DAEMON_NONE;
	const char *given = NULL;
	enum option_code code;
	int index, status = EXIT_USAGE;
	char *dir = NULL;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			status = EXIT_SUCCESS;
			goto out;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_DAEMON:
		case OPT_DAEMON_ANY:
			if (!daemon_options_add(&options, &table[index], optarg))
				goto out;
			break;
		default:
			goto out;
		}
	}
	if (!no_more_words(argc, argv))
		goto out;

	status = EXIT_FAILURE;
	dir = runtime_dir(given);
	if (!dir)
		goto out;
	signal(SIGPIPE, SIG_IGN);
	switch (daemon_reach(&daemon, dir, &options, false, -1)) {
	case REACHED:
		status = daemon.started ? EXIT_SUCCESS : join(&daemon);
		break;
	case REACH_BAD_OPTIONS:
		status = EXIT_USAGE;
		break;
	default:
		break;
	}
	daemon_free(&daemon);
out:
	free(dir);
	daemon_options_free(&options);
	return status;
}
