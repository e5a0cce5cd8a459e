/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs on the fast path (simhca-abi-fastpath.h) write to the memory of a process while the
 * device does, and so not between the two halves of an atomic. The first atomic on the memory of a
 * process ends that for good: device memory says that only the device writes there now, which
 * programs look at for each message, and the atomic waits for the steps that had begun before.
 */
#ifndef LIBSIMHCA_EXCLUSIVE_H
#define LIBSIMHCA_EXCLUSIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct simhca_atomicity;
struct simhca_fabric;
struct simhca_steps_seen;

struct simhca_exclusive {
	atomic_bool yes;
	pthread_mutex_t lock; /* of what follows; is tried only */
	bool told;
	struct simhca_steps_seen *seen; /* steps under way then */
};

void simhca_exclusive_init(struct simhca_exclusive *exclusive);
void simhca_exclusive_end(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity);
/* False: not yet; to be asked again. Never waits. */
bool simhca_is_exclusive(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity);

#endif
