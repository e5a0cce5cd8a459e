/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the host did not send: which addresses, and the errno of the last attempt. A packet that the
 * host refuses is lost, like one that the network loses; but of this one the reason is known.
 */
#ifndef LIBSIMHCA_UNSENT_H
#define LIBSIMHCA_UNSENT_H

#include <pthread.h>
#include <stdint.h>

#include "simhca-abi-reason.h"
#include "simhca-abi.h"

#define SIMHCA_UNSENT_ADDRESSES 16 /* the newest ones */

struct simhca_unsent {
	pthread_mutex_t lock;
	struct simhca_unsent_address {
		union simhca_gid to;
		int error;	/* 0: the entry is free */
		uint64_t at_ns; /* CLOCK_MONOTONIC, of the last one */
	} address[SIMHCA_UNSENT_ADDRESSES];
};

void simhca_unsent_open(struct simhca_unsent *unsent);
void simhca_unsent_close(struct simhca_unsent *unsent);

/* An attempt to send to that address has failed. By any thread. */
void simhca_unsent_add(struct simhca_unsent *unsent, const union simhca_gid *to, int error);
/* The errno of the last attempt that failed within the last `ns`; 0: none has. */
int simhca_unsent_error(struct simhca_unsent *unsent, const union simhca_gid *to, uint64_t ns);
/* What a completion says of such an error; NONE: it may pass, as when buffers are full. */
enum simhca_reason simhca_unsent_reason(int error);

#endif
