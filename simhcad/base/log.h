/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The daemon's log: one line a message, to a file (with the time in front) or to standard error.
 * Every line is one write(2), so lines of different threads never mix.
 */
#ifndef SIMHCAD_LOG_H
#define SIMHCAD_LOG_H

#include "simhca-device.h"

/* Before any thread is started. path NULL: standard error. 0, or -errno when path cannot be opened.
 */
int log_open(const char *path, enum simhca_log_level level);
/* Clients are served. Before that, errors and warnings also go to standard error. */
void log_started(void);
void log_close(void);

void log_message(enum simhca_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_message(SIMHCA_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(SIMHCA_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_message(SIMHCA_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(SIMHCA_LOG_DEBUG, __VA_ARGS__)

#endif
