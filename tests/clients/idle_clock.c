// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * gettimeofday() for perftest's programs, preloaded: one that calls it again and again from one place
 * sleeps in between. They begin with a fifth of a second of that to measure the clock of the CPU,
 * which is most of the CPU time of a short run. The time is read last, so that what they measure is as good.
 */
#include <sys/time.h>
#include <time.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static __thread void *last;
	void *caller = __builtin_return_address(0);
	struct timespec now;

	(void)tz;
	if (caller == last) {
		static const struct timespec nap = { .tv_nsec = 50000 };

		nanosleep(&nap, NULL);
	}
	last = caller;
	clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec;
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}
