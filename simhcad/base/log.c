/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "printable.h"

#define LOG_LINE 1024 /* bytes; a longer message loses its end */

/* Set before the threads start, constant afterwards. */
static int log_fd = STDERR_FILENO;
static enum simhca_log_level log_threshold = SIMHCA_LOG_INFO;
static bool stderr_is_journal;
/* Until then whoever started us is told of what goes wrong, wherever the log is. */
static atomic_bool log_is_started;
static atomic_uint log_lost;

/* systemd.exec(5): it says of which device and inode the stream to the journal is. */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[64];
	struct stat st;

	if (!stream || fstat(fd, &st))
		return false;
	snprintf(ours, sizeof(ours), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return !strcmp(stream, ours);
}

int log_open(const char *path, enum simhca_log_level level)
{
	log_threshold = level;
	stderr_is_journal = is_journal(STDERR_FILENO);
	if (path) {
		int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);

		if (fd < 0)
			return -errno;
		log_fd = fd;
	}
	return 0;
}

void log_started(void)
{
	atomic_store_explicit(&log_is_started, true, memory_order_relaxed);
}

void log_close(void)
{
	if (log_fd != STDERR_FILENO)
		close(log_fd);
	log_fd = STDERR_FILENO;
}

static size_t put_prefix(char *line, size_t size, enum simhca_log_level level, bool to_file)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
	struct timespec now;
	struct tm tm;
	size_t used;

	/* The journal has the time, the program's name, and the level by this number (sd-daemon(3)). */
	if (!to_file && stderr_is_journal)
		return (size_t)snprintf(line, size, "<%d>", priorities[level]);
	if (!to_file)
		return (size_t)snprintf(line, size, "simhcad: %s: ", names[level]);

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	used = strftime(line, size, "%F %T", &tm);
	used += (size_t)snprintf(line + used, size - used, ".%03ld %s: ", now.tv_nsec / 1000000,
				 names[level]);
	return used;
}

/* A pipe that nobody reads, or a terminal that was stopped, must not stop the device. */
static bool has_room(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLOUT };

	return poll(&pollfd, 1, 0) == 1 && pollfd.revents & POLLOUT;
}

static void say_lost(int fd)
{
	unsigned int lost = atomic_exchange_explicit(&log_lost, 0, memory_order_relaxed);

	if (lost && dprintf(fd, "simhcad: warning: %u messages found no room here\n", lost) < 0)
		atomic_fetch_add_explicit(&log_lost, lost, memory_order_relaxed);
}

/* Whoever sees our stderr is told once that the file gets no more; what was lost is counted. */
static void lose_line(int fd)
{
	int error = errno;

	if (!atomic_fetch_add_explicit(&log_lost, 1, memory_order_relaxed) && fd != STDERR_FILENO &&
	    has_room(STDERR_FILENO))
		dprintf(STDERR_FILENO, "simhcad: error: the log file: %s\n", strerror(error));
}

/* A file that takes a part says why when it is given the rest. */
static bool write_line(int fd, const char *line, size_t length)
{
	ssize_t written = write(fd, line, length);

	if (written > 0 && (size_t)written < length) {
		length -= (size_t)written;
		written = write(fd, line + written, length);
	}
	return written == (ssize_t)length;
}

static void put_line(int fd, enum simhca_log_level level, const char *format, va_list args)
{
	char line[LOG_LINE];
	int saved = errno;
	size_t used = put_prefix(line, sizeof(line), level, fd != STDERR_FILENO);
	int length;

	errno = saved; /* for %m */
	length = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	if (length > 0)
		used += (size_t)length;
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used] = '\0';
	make_printable(line);
	line[used++] = '\n';
	if (fd == STDERR_FILENO && !has_room(fd)) {
		lose_line(fd);
		return;
	}
	say_lost(fd);
	if (!write_line(fd, line, used))
		lose_line(fd);
}

void log_message(enum simhca_log_level level, const char *format, ...)
{
	bool starting = !atomic_load_explicit(&log_is_started, memory_order_relaxed);
	va_list args, again;
	int saved = errno;

	if (level > log_threshold)
		return;
	va_start(args, format);
	va_copy(again, args);
	put_line(log_fd, level, format, args);
	if (starting && log_fd != STDERR_FILENO && level <= SIMHCA_LOG_WARNING) {
		errno = saved; /* for %m */
		put_line(STDERR_FILENO, level, format, again);
	}
	va_end(again);
	va_end(args);
	errno = saved;
}
