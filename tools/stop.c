/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca stop: ends the daemon, and returns when it is gone. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "tool.h"

#define GONE_MS 15000

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
	answer = admin_request(fd, CONTROL_STOP, &refusal);
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

static int run(struct asked *asked, char **words)
{
	char *dir = runtime_dir(asked->runtime_dir);
	int status = dir ? stop(dir) : EXIT_FAILURE;

	free(dir);
	return status;
}

const struct command stop_subcommand = {
	.name = "stop",
	.summary = "stop it",
	.usage = "[OPTION]...",
	.about = "Asks the daemon of the runtime directory to end, and waits until it is gone. "
		 "Programs\n"
		 "that use it lose their device.\n",
	.status = "0 when no daemon runs any more; 1 if it did not end; 2 for wrong options.",
	.run = run,
};
