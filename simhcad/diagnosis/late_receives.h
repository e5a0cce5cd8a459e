/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Receives that came too late: when the next one was posted to a queue that a message had found
 * empty until its RNR retries were used up. Posting tells nobody, so the daemon looks, every few
 * milliseconds, for two seconds.
 */
#ifndef SIMHCAD_LATE_RECEIVES_H
#define SIMHCAD_LATE_RECEIVES_H

struct daemon;
struct late_receives;

/* NULL: out of memory. */
struct late_receives *late_receives_open(struct daemon *daemon);
void late_receives_close(struct late_receives *late); /* may be NULL */

/* Such a message is among the daemon's failures. Any thread. */
void late_receives_expect(struct late_receives *late);

#endif
