/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of an engine share: the loop, how it wakes, and who runs it. */
#ifndef LIBSIMHCA_ENGINE_IMPL_H
#define LIBSIMHCA_ENGINE_IMPL_H

#include "engine.h"

/* ------------------------------------------------------------------- wake.c */

#define SIMHCA_WAKE_TAG 0u /* epoll tag of wake_fd; contexts' ids begin at 1 */

int simhca_engine_cpus_open(struct simhca_engine *engine); /* 0 or -errno */
void simhca_engine_cpus_close(struct simhca_engine *engine);
/* Wakes one thread if none is the poller. What it is to find is published. */
void simhca_engine_wake(struct simhca_engine *engine);
void simhca_engine_wake_cpu(struct simhca_engine *engine, uint32_t cpu_index);
/* Wakes at least one thread of each CPU. */
void simhca_engine_wake_all(struct simhca_engine *engine);

/* -------------------------------------------------------------- run_queue.c */

/* Takes the first task off the queue; NULL: there is none. */
struct simhca_task *simhca_next_task(struct simhca_engine *engine);
/* True: some were due. */
bool simhca_fire_timers(struct simhca_engine *engine);
/* Nanoseconds until there is work: 0 if a task is queued, UINT64_MAX if there are no timers. */
uint64_t simhca_time_to_work(struct simhca_engine *engine);

/* -------------------------------------------------------------- doorbells.c */

/*
 * Waits up to timeout_ns for doorbells at armed contexts, and polls those that rang; and for what
 * comes at other descriptors. worker: who may become the poller by that; or NULL.
 */
void simhca_engine_wait(struct simhca_engine *engine, uint32_t cpu_index, uint64_t timeout_ns,
			struct simhca_worker *worker);
/* Schedules the QPs that rang at the contexts which are polled. True if one has. */
bool simhca_doorbells_poll(struct simhca_engine *engine);
/* Arms every context; false if one has work after all. */
bool simhca_doorbells_arm(struct simhca_engine *engine);

/* ----------------------------------------------------------------- worker.c */

/* The memory that it works with; false: there is none, and end() is still due. */
bool simhca_worker_init(struct simhca_worker *worker);
void simhca_worker_end(struct simhca_worker *worker);
/* The calling thread becomes one of the engine's. NULL: no memory. */
struct simhca_worker *simhca_worker_join(struct simhca_engine *engine, uint32_t cpu_index);
void simhca_worker_leave(struct simhca_worker *worker);
/* From now on the calling thread runs on its CPU alone; or on all of the engine's. */
void simhca_worker_pin(struct simhca_worker *worker);
void simhca_worker_unpin(struct simhca_worker *worker);
/* Another thread stood in while this one was stuck: one of the two has to go. */
bool simhca_worker_superfluous(const struct simhca_worker *worker);

/* ------------------------------------------------------------------ poller.c */

void simhca_poller_init(struct simhca_engine *engine);
/* Whether the thread is the one that works; it can be replaced, being taken for stuck. */
bool simhca_is_poller(const struct simhca_worker *worker);
/* Whether the thread is the one that works, or has become it. */
bool simhca_poller_become(struct simhca_worker *worker);
/* Lets go of it if this thread has it. Who does so to sleep looks once more before it sleeps. */
void simhca_poller_resign(struct simhca_worker *worker);
/* Before the holder sleeps: invites another CPU's thread if the engine may be better off there. */
void simhca_poller_consider(struct simhca_worker *worker);
/* Whether a thread of that CPU has been, and has not come yet. */
bool simhca_poller_has_invited(const struct simhca_engine *engine, uint32_t cpu_index);
/* How long the holder polls before it sleeps. */
uint64_t simhca_poller_spin_ns(const struct simhca_worker *worker);
/* The holder found work. */
void simhca_poller_found(struct simhca_worker *worker);

#endif
