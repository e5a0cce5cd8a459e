/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Lines about a QP, for the person who debugs a program: why something failed. A program that fails
 * in a loop shall not fill the disk, nor the log that others read: each program has a share of
 * lines, whatever contexts it has, and how many were left out is said.
 */
#ifndef LIBSIMHCA_QP_LOG_H
#define LIBSIMHCA_QP_LOG_H

#include <pthread.h>
#include <stdint.h>

struct simhca_context;
struct simhca_device;

/* Lines that may be written at once, and how fast they grow back. */
#define SIMHCA_LOG_SHARE 1000u
#define SIMHCA_LOG_SHARE_PER_S 100u

/* A program's, or that of all XRC targets of a device, which belong to no context. */
struct simhca_log_share {
	uint32_t users;	      /* contexts; control functions only */
	pthread_mutex_t lock; /* held for moments */
	uint32_t lines;	      /* that may still be written */
	uint32_t left_out;
	uint64_t grown_ns; /* when lines was last added to */
};

void simhca_log_share_init(struct simhca_log_share *share);
/* Of a context that shares with no other yet. NULL: out of memory. */
struct simhca_log_share *simhca_log_share_new(void);
void simhca_log_share_put(struct simhca_log_share *share);

/*
 * A line at level info: the QP's number, and right behind it the text. context NULL: of an XRC
 * target.
 */
void simhca_log_of_qp(struct simhca_device *device, struct simhca_context *context, uint32_t qpn,
		      const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
