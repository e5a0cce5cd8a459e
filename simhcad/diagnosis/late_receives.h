/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Receives that came too late: when the next one was posted to a queue that a message had found
 * empty until its RNR retries were used up. Posting tells nobody, so the daemon looks, every few
 * milliseconds, for two seconds.
 */
#ifndef SIMHCAD_LATE_RECEIVES_H
#define SIMHCAD_LATE_RECEIVES_H

#include <ev.h>

struct daemon;

struct late_receives {
	struct daemon *daemon;
	ev_async found_empty;
	ev_timer timer;
};

void late_receives_init(struct late_receives *late, struct daemon *daemon);
void late_receives_end(struct late_receives *late);

/* Such a message is among the daemon's failures. Any thread. */
void late_receives_expect(struct late_receives *late);

#endif
