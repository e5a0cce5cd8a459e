/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that sleep where nothing wakes them up: a CQ with a channel holds completions of which
 * no event will come, or of which one waits unread, and for two seconds the program has neither
 * polled nor used any CPU time. Mostly it has forgotten to arm the CQ again, or has armed it too
 * late or for solicited completions, or its epoll is edge-triggered.
 *
 * Or the CQ is empty, and the program polls it or sleeps at its channel, while the last message to
 * one of its QPs was a plain RDMA WRITE, which gives no completion there, or the process of the
 * peer has ended and left its QP to a child; or it polls this CQ alone, and its last send was not
 * signaled, or a receive has completed in another one. Or a send waits for a receive of the peer's
 * without end.
 *
 * The daemon looks once in a second, at one session after another; if there are very many, for a
 * few milliseconds at a time. When nothing happens it looks no more (loop/doze.h).
 */
#ifndef SIMHCAD_SLEEPERS_H
#define SIMHCAD_SLEEPERS_H

struct daemon;
struct session;
struct sleepers;

/* NULL: out of memory. */
struct sleepers *sleepers_open(struct daemon *daemon);
void sleepers_close(struct sleepers *sleepers); /* may be NULL */

/* Its program has closed the device, or has ended: whether it went on since the last look. */
void sleepers_session_ends(struct session *session);

#endif
