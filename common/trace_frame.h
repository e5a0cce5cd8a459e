/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the daemon sends to who asked for the frames that links carry. */
#ifndef SIMHCA_TRACE_FRAME_H
#define SIMHCA_TRACE_FRAME_H

#include <stdint.h>

/*
 * A message begins with it; behind it are `length` bytes of the frame, from its Ethernet header on. A change of it
 * raises CONTROL_VERSION (control_protocol.h).
 */
struct trace_frame {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t lost;	  /* frames so far, of this tracer's */
	uint32_t qpn, peer_qpn;
	uint32_t pid;	 /* of the program that sends it; 0: unknown */
	uint32_t length; /* bytes of the whole frame, of which some may be left out; 0: the last */
	char comm[16];	 /* the program's name */
	char device[64]; /* by which it sends; empty as pid is 0 */
};

#endif
