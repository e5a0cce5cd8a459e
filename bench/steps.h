/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a program that is measured step by step prints, and how it waits to be looked at. */
#ifndef SIMHCA_BENCH_STEPS_H
#define SIMHCA_BENCH_STEPS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Prints how long it took; returns when the next one begins. */
static inline double step(const char *what, double since)
{
	printf("%s %.6f\n", what, seconds() - since);
	fflush(stdout);
	return seconds();
}

/* Until somebody closes our input. */
static inline void wait_for_end(void)
{
	char c;

	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

#endif
