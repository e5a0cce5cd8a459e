/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca trace: what links carry, as a capture that Wireshark and tcpdump read. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capture.h"
#include "command.h"
#include "tool.h"

#define FILES 10

static int trace(int control, const struct capture_wishes *wishes)
{
	struct capture *capture;
	struct pollfd fds[2];
	sigset_t set;
	bool good;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	capture = capture_open(control, wishes);
	if (!capture)
		return EXIT_FAILURE;
	fds[0] = (struct pollfd){ .fd = capture_fd(capture), .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = signalfd(-1, &set, SFD_CLOEXEC), .events = POLLIN };
	if (fds[1].fd < 0) {
		complain("signals: %s", strerror(errno));
		capture_close(capture);
		return EXIT_FAILURE;
	}
	do
		poll(fds, 2, -1);
	while (capture_take(capture) && !(fds[1].revents & POLLIN));
	good = capture_close(capture);
	close(fds[1].fd);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static struct capture_wishes wishes = { .files = FILES };

static bool take_kinds(const char *text)
{
	wishes.kinds = capture_kinds(text);
	if (!wishes.kinds)
		complain("--opcode %s: must be of send, write, read, atomic, ack and other", text);
	return wishes.kinds;
}

static int run(struct asked *asked, char **words)
{
	int usage = *words ? EXIT_TOOL_FAILED : EXIT_USAGE, control, status;
	char *dir;

	wishes.pid = asked->filter.pid;
	wishes.qpn = asked->filter.qpn;
	wishes.device = asked->filter.device;
	if (!wishes.file) {
		complain("--write FILE is missing: the capture, or - for standard output");
		return usage;
	}
	if (wishes.file_size && !strcmp(wishes.file, "-")) {
		complain("--file-size is for files, and not for standard output");
		return usage;
	}
	dir = runtime_dir(asked->runtime_dir);
	if (!dir)
		return *words ? EXIT_TOOL_FAILED : EXIT_FAILURE;
	if (*words) {
		status = run_traced(dir, &wishes, words);
		free(dir);
		return status;
	}
	control = admin_reach(dir);
	free(dir);
	if (control < 0)
		return EXIT_FAILURE;
	status = trace(control, &wishes);
	close(control);
	return status;
}

static const struct command_option options[] = {
	{ "write", "FILE", "the capture; - is standard output, as for `tshark -i -`", .letter = 'w',
	  .kind = OPTION_TEXT, .value = &wishes.file, .completion = COMPLETE_FILE },
	{ "count", "N", "end after N packets", .kind = OPTION_NUMBER, .value = &wishes.count,
	  .letter = 'c' },
	{ "snaplen", "N", "the first N bytes of each packet", .kind = OPTION_NUMBER,
	  .value = &wishes.snaplen, .letter = 's' },
	{ "opcode", "KIND,..", "only these: send, write, read, atomic, ack, other",
	  .kind = OPTION_CHECK, .check = take_kinds, .completion = COMPLETE_WORDS,
	  .words = "send write read atomic ack other" },
	{ "file-size", "MB", "go on with the next file then: FILE.0, FILE.1, ..",
	  .kind = OPTION_NUMBER, .value = &wishes.file_size },
	{ "files", "N", "as many of them, the oldest of which is overwritten [10]",
	  .kind = OPTION_NUMBER, .value = &wishes.files },
	{ 0 },
};

const struct command trace_subcommand = {
	.name = "trace",
	.summary = "capture packets, for Wireshark",
	.usage = "[OPTION]... --write FILE\n[OPTION]... --write FILE -- COMMAND [ARGUMENT]...",
	.about = "Captures the packets of all links of the daemon in the runtime directory, as a "
		 "pcapng\n"
		 "file of RoCE v2 frames: those of a wire as they are, those within the daemon as "
		 "they\n"
		 "would be at their path MTU. Each program that sends is an interface of it. Ends "
		 "with\n"
		 "SIGINT or SIGTERM, after --count, or with the daemon, and says then how many "
		 "there\n"
		 "were, and how many were lost as they came too fast.\n"
		 "\n"
		 "With a COMMAND it runs that, as `simhca run` does, and captures meanwhile.\n",
	.status = "0 when that was done; 1 if no daemon runs, or FILE cannot be written; 2 for\n"
		  "wrong options. With a COMMAND: as of `simhca run`.",
	.options = options,
	.takes = TAKES_FILTER | TAKES_COMMAND,
	.completion = COMPLETE_COMMAND,
	.run = run,
};
