/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The libibverbs provider of simhca: its objects, and who offers what.
 *
 * A context is one connection to the daemon (control path, command.h) and a few memory
 * segments shared with it (data path): doorbells, the rings and the run state of each queue.
 * Posting writes a WQE into a ring and rings the doorbell; polling reads CQEs from a ring.
 * Neither makes a system call unless the device sleeps.
 *
 * Locks: each send queue, receive queue and CQ has one (lock.h). A thread takes at most one
 * CQ's lock and, inside of it, at most the context's qp_lock. Posting never takes a CQ's lock:
 * the poller frees slots by moving the tail, which is atomic.
 *
 * When the daemon dies the context becomes fatal and stays so: posting and commands fail with
 * EIO, polling completes in software what is outstanding (flushed.c), destroying succeeds.
 */
#ifndef SHCA_PROVIDER_H
#define SHCA_PROVIDER_H

#include "objects.h"
#include "queues.h"
#include "verbs.h"

#endif
