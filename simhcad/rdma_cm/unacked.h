/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * rdma_destroy_id(), or rdma_migrate_id(), that does not return: librdmacm waits there, in a condition variable of the id,
 * until each event that was got of it is acknowledged. The device has nothing to do with that any
 * more, but knows the id's address, for librdmacm gives it as the id's user data; so a thread that
 * sleeps on a futex in there, a second after that, is one that waits for
 * rdma_ack_cm_event(). /proc/PID/task/TID/syscall says so, where the kernel lets the daemon read it.
 */
#ifndef SIMHCAD_UNACKED_H
#define SIMHCAD_UNACKED_H

#include <stdint.h>

#include "failures/failures.h"

struct daemon;
struct unacked;

/* NULL: out of memory. */
struct unacked *unacked_open(struct daemon *daemon);
void unacked_close(struct unacked *unacked);

/*
 * The program has destroyed or migrated its id at that address, of which it got so many events.
 * call: "rdma_destroy_id()", a constant.
 */
void unacked_expect(struct unacked *unacked, const struct failing_program *program,
		    const char *call, uint64_t uid, uint32_t events);

#endif
