/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Destroying waits until the program has acknowledged the events of the object. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "command.h"
#include "say.h"

void shca_await_acks(struct shca_context *ctx, const char *verb, uint32_t number,
		     pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged,
		     uint32_t events)
{
	SIMHCA_NOT_CANCELLED;
	char text[200] = "";
	struct timespec until;

	shca_ack_deadline(&until);
	pthread_mutex_lock(mutex);
	while (!shca_is_fatal(ctx) && *acknowledged != events) {
		if (text[0]) {
			pthread_cond_wait(cond, mutex);
			continue;
		}
		if (pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
			continue;
		snprintf(text, sizeof(text),
			 "%s of 0x%06x waits for ibv_ack_async_event(): the program got %u "
			 "event%s of it, and has acknowledged %u",
			 verb, number, events, events == 1 ? "" : "s", *acknowledged);
		pthread_mutex_unlock(mutex);
		shca_say_waits(ctx, text);
		pthread_mutex_lock(mutex);
	}
	pthread_mutex_unlock(mutex);
	if (text[0])
		shca_say_waits_no_more(ctx, text);
}
