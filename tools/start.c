/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca start: a daemon that stays until it is stopped. */
#include <signal.h>
#include <stdlib.h>

#include "command.h"
#include "tool.h"

/* A daemon that ran already: its status, after a word about it. */
static int join(const struct leased_daemon *daemon)
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

static int start(struct asked *asked, char **words)
{
	struct leased_daemon daemon = DAEMON_NONE;
	char *dir = runtime_dir(asked->runtime_dir);
	int status = EXIT_FAILURE;

	if (!dir)
		return EXIT_FAILURE;
	signal(SIGPIPE, SIG_IGN);
	switch (daemon_reach(&daemon, dir, &asked->daemon, false, -1)) {
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
	free(dir);
	return status;
}

const struct command start_subcommand = {
	.name = "start",
	.summary = "start a daemon that stays",
	.usage = "[OPTION]...",
	.about = "Starts a daemon that stays until `simhca stop`, and waits until it is ready. "
		 "When one\n"
		 "runs already and agrees with the options, nothing is done.\n",
	.status = "0 when a daemon runs; 1 if it could not be started; 2 for wrong options.",
	.takes = TAKES_DAEMON_OPTIONS,
	.run = start,
};
