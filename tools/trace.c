/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca trace: what links carry, as a capture that Wireshark and tcpdump read. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capture.h"
#include "tool.h"

static const char help[] =
	"Usage: simhca trace [OPTION]... --write FILE\n"
	"       simhca trace [OPTION]... --write FILE -- COMMAND\n"
	"\n"
	"Captures the packets of all links of the daemon in the runtime directory, as a pcapng "
	"file\n"
	"of RoCE v2 frames: those of a wire as they are, those within the daemon as they would be\n"
	"at their path MTU. Each program that sends is an interface of it. Ends with SIGINT or\n"
	"SIGTERM, after --count, or with the daemon, and says then how many there were, and how\n"
	"many were lost as they came too fast.\n"
	"\n"
	"With a COMMAND it runs that, as `simhca run` does, and captures meanwhile.\n"
	"\n"
	"  --write FILE              the capture; - is standard output, as for `tshark -i -`\n"
	"  --count N                 end after N packets\n"
	"  --snaplen N               the first N bytes of each packet\n"
	"  --opcode KIND,..          only these: send, write, read, atomic, ack, other\n"
	"  --file-size MB            go on with the next file then: FILE.0, FILE.1, ..\n"
	"  --files N                 as many of them, the oldest of which is overwritten [10]\n"
	"  --qp N                    only from or to the queue pair of this number\n"
	"  --pid PID                 only what this process sends, or is sent in "
	"answer\n" HELP_COMMON "\n"
	"Exit status: 0 when that was done; 1 if no daemon runs, or FILE cannot be written; 2 for\n"
	"wrong options. With a COMMAND: as of `simhca run`.\n";

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
	do
		poll(fds, 2, -1);
	while (capture_take(capture) && !(fds[1].revents & POLLIN));
	good = capture_close(capture);
	close(fds[1].fd);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int trace_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "write", required_argument, NULL, OPT_WRITE },
		{ "count", required_argument, NULL, OPT_COUNT },
		{ "snaplen", required_argument, NULL, OPT_SNAPLEN },
		{ "qp", required_argument, NULL, OPT_QP },
		{ "pid", required_argument, NULL, OPT_PID },
		{ "opcode", required_argument, NULL, OPT_OPCODE },
		{ "file-size", required_argument, NULL, OPT_FILE_SIZE },
		{ "files", required_argument, NULL, OPT_FILES },
		{ 0 },
	};
	struct capture_wishes wishes = { .files = FILES };
	const char *given = NULL;
	enum option_code code;
	int index, control, status;
	char *dir;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_WRITE:
			wishes.file = optarg;
			break;
		case OPT_COUNT:
			if (!option_number("count", optarg, &wishes.count))
				return EXIT_USAGE;
			break;
		case OPT_SNAPLEN:
			if (!option_number("snaplen", optarg, &wishes.snaplen))
				return EXIT_USAGE;
			break;
		case OPT_QP:
			if (!option_number("qp", optarg, &wishes.qpn))
				return EXIT_USAGE;
			break;
		case OPT_OPCODE:
			wishes.kinds = capture_kinds(optarg);
			if (wishes.kinds)
				break;
			complain("--opcode %s: must be of send, write, read, atomic, ack and other",
				 optarg);
			return EXIT_USAGE;
		case OPT_FILE_SIZE:
			if (!option_number("file-size", optarg, &wishes.file_size))
				return EXIT_USAGE;
			break;
		case OPT_FILES:
			if (!option_number("files", optarg, &wishes.files))
				return EXIT_USAGE;
			break;
		case OPT_PID:
			if (!option_number("pid", optarg, &wishes.pid))
				return EXIT_USAGE;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!wishes.file) {
		complain("--write FILE is missing: the capture, or - for standard output");
		return EXIT_USAGE;
	}
	if (wishes.file_size && !strcmp(wishes.file, "-")) {
		complain("--file-size is for files, and not for standard output");
		return EXIT_USAGE;
	}
	dir = runtime_dir(given);
	if (!dir)
		return EXIT_FAILURE;
	if (optind < argc) {
		status = run_traced(dir, &wishes, argv + optind);
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
