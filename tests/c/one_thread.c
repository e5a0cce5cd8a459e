/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* In the tests that ThreadSanitizer need not see (ONE_THREAD in CMakeLists.txt), pthread_create(). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	(void)thread;
	(void)attr;
	(void)start;
	(void)arg;
	fputs("this test has threads: its row is not ONE_THREAD in tests/c/CMakeLists.txt\n",
	      stderr);
	abort();
}
