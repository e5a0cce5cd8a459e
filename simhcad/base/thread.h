/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A thread that may not end when it is told to: in a client's memory, or for want of a CPU. Who
 * joins it waits until a time by CLOCK_MONOTONIC. pthread_timedjoin_np() goes by the time of the
 * day, and pthread_clockjoin_np() is unknown to the ThreadSanitizer of gcc 12.
 */
#ifndef SIMHCAD_THREAD_H
#define SIMHCAD_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct thread;

/* Without signals, which are the main thread's business. name: 15 characters. NULL with errno. */
struct thread *thread_start(void (*run)(void *arg), void *arg, const char *name);
/* True: it has ended by then (simhca_now_ns(); 0: now), and is freed. */
bool thread_join(struct thread *thread, uint64_t until);
pthread_t thread_id(const struct thread *thread);

#endif
