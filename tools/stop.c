/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca stop: ends the daemon, and returns when it is gone. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define GONE_MS 15000

static const char help[] =
	"Usage: simhca stop [OPTION]...\n"
	"\n"
	"Asks the daemon of the runtime directory to end, and waits until it is gone. Programs "
	"that\n"
	"use it lose their device.\n"
	"\n" HELP_COMMON "\n"
	"Exit status: 0 when no daemon runs any more; 1 if it did not end; 2 for wrong options.\n";

static int stop(const char *dir)
{
	int fd = admin_connect(dir);
	char *refusal = NULL;
	json_t *answer;
	pid_t pid;

	if (fd < 0 && admin_nobody(errno)) {
		complain("no daemon runs in %s", dir);
		return EXIT_SUCCESS;
	}
	if (fd < 0) {
		complain("the daemon in %s cannot be reached: %s", dir, strerror(errno));
		return EXIT_FAILURE;
	}
	pid = admin_peer(fd);
	answer = admin_request(fd, "stop", NULL, &refusal);
	close(fd);
	if (!answer && refusal) {
		complain("the daemon in %s (pid %d) refused: %s", dir, (int)pid, refusal);
		free(refusal);
		return EXIT_FAILURE;
	}
	if (!answer && errno == ETIMEDOUT) {
		complain(
			"the daemon in %s (pid %d) does not answer within %d s; kill -9 %d ends it",
			dir, (int)pid, ADMIN_TIMEOUT_MS / 1000, (int)pid);
		return EXIT_FAILURE;
	}
	/* No answer otherwise means that it ends already. */
	json_decref(answer);
	if (!daemon_wait_gone(dir, GONE_MS)) {
		complain("the daemon in %s (pid %d) was asked to end, and still runs after %d s; "
			 "kill -9 %d ends it",
			 dir, (int)pid, GONE_MS / 1000, (int)pid);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int stop_main(int argc, char **argv)
{
	static const struct option table[] = { OPTIONS_COMMON, { 0 } };
	const char *given = NULL;
	enum option_code code;
	int index, status;
	char *dir;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	dir = runtime_dir(given);
	if (!dir)
		return EXIT_FAILURE;
	status = stop(dir);
	free(dir);
	return status;
}
