/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Writes a file of the format pcapng (draft-ietf-opsawg-pcapng), which has names for interfaces;
 * libpcap reads it, but writes none. What cannot be written is an error of the FILE.
 */
#ifndef SIMHCA_PCAPNG_H
#define SIMHCA_PCAPNG_H

#include <stdint.h>
#include <stdio.h>

/* The head, first of all. */
uint32_t pcapng_begin(FILE *file, const char *application);

/* One more interface, of Ethernet frames; they are counted from 0. */
uint32_t pcapng_interface(FILE *file, const char *name, const char *description);

/* A frame of `length` bytes, of which the first `kept` are there. time: nanoseconds since 1970. */
uint32_t pcapng_frame(FILE *file, uint32_t interface, uint64_t time_ns, const void *bytes,
		      uint32_t kept, uint32_t length);

#endif
