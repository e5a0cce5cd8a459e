/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

static char prefix[32] = "simhca";
static struct sigaction old_file_size;

void set_subcommand(const char *name)
{
	snprintf(prefix, sizeof(prefix), "simhca %s", name);
}

void complain(const char *format, ...)
{
	char line[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", prefix, line);
}

bool flush_output(void)
{
	static bool told;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	if (!told && errno != EPIPE) /* that a reader has gone is no news */
		complain("standard output: %s", errno ? strerror(errno) : "not all was written");
	told = true;
	return false;
}

void let_file_size_fail_writes(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGXFSZ, &ignore, &old_file_size);
}

void let_file_size_end_us(void)
{
	sigaction(SIGXFSZ, &old_file_size, NULL);
}
