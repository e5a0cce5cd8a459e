/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tracers: who asked for the frames that links carry, over the control socket. Each gets the end of
 * an AF_UNIX SOCK_SEQPACKET socket, with a frame in a message (trace_frame.h); frames for which there is no room in
 * it are lost, and counted. A tracer that shuts down its side hears how many, in a last message
 * without a frame; it can also just close the socket.
 */
#ifndef SIMHCAD_TRACE_H
#define SIMHCAD_TRACE_H

#include "simhca-device.h"

#include <stdint.h>

struct ev_loop;
struct failing_program;
struct simhca_fabric;
struct simhca_frame_facts;
struct tracers;

/* NULL: out of memory. */
struct tracers *tracers_open(struct ev_loop *loop);
/* After this nobody is told any more; engines have ended, or simhca_fabric_tap() is off. */
void tracers_close(struct tracers *tracers);

/*
 * One more, who wants at most `most` bytes of a frame (0: all). Its end of the socket, or a
 * negative errno: -EUSERS if there are enough.
 */
int tracers_add(struct tracers *tracers, struct simhca_fabric *fabric, uint32_t most);

/* Any thread. sender's pid is 0 if it is not known. */
void tracers_tell(struct tracers *tracers, const struct simhca_frame_facts *facts,
		  const struct failing_program *sender, const uint8_t *bytes, uint32_t length);

#endif
