/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Engine threads: a pool of engines over which contexts are spread, and one of its own for each
 * context whose memory is behind an agent, because that engine may have to wait for the client. On
 * two CPUs an engine of the pool has a thread for each, of which one works at a time.
 *
 * A thread of the pool can get stuck all the same, in a client's memory that blocks (it can have a
 * userfaultfd there, or a file of a FUSE server). A watch notices and has another one work for it,
 * so that its other contexts go on. Whose memory that is it tells (engines.stuck), and when
 * nobody's is any more.
 */
#ifndef SIMHCAD_ENGINES_H
#define SIMHCAD_ENGINES_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

struct engine;

#define ENGINES_STUCK_MOST 256 /* threads that are told of */

struct engines {
	struct simhca_fabric *fabric;
	uint32_t spin_us;
	bool yields; /* who polls lets others go first */
	/* All that there are, if few: then each engine has a thread on each. Else num_cpus is 0. */
	uint32_t cpu[SIMHCA_MAX_ENGINE_CPUS];
	unsigned int num_cpus;
	struct engine **pool;
	unsigned int count;
	unsigned int next; /* in the pool, for the next context */
	struct ev_loop *loop;
	/* Ids of the contexts whose memory threads are stuck in, one for each thread. */
	void (*stuck)(void *arg, const uint32_t *contexts, unsigned int count);
	void *stuck_arg;
	bool any_stuck; /* was told last */
	ev_timer watch;
	void (*woken)(void *arg); /* by a thread of an engine: simhca_engines_doze() */
	void *woken_arg;
	bool abandoned; /* a thread could not be ended: the process has to end with it */
};

/* on_each_cpu: a thread on each CPU, if they are two. count and spin_us: 0 and UINT32_MAX stand for
 * what suits the CPUs that we may run on. */
int engines_start(struct engines *engines, struct simhca_fabric *fabric, struct ev_loop *loop,
		  uint32_t count, uint32_t spin_us, bool on_each_cpu);
/* Ends the threads: from then on nothing completes. */
void engines_halt(struct engines *engines);
void engines_stop(struct engines *engines); /* their contexts are gone */

/* simhca_engine_sleeps_at() of the pool's engine with that index. */
int engines_sleep_at(const struct engines *engines, unsigned int engine, uint32_t cpu_index);
/* Whether they are looked at. */
void engines_watch(struct engines *engines, bool watch);

struct simhca_engine *engines_pick(struct engines *engines);

/* An engine of one's own. NULL with errno set. */
struct engine *engine_start(struct engines *engines, bool may_block);
struct simhca_engine *engine_model(const struct engine *engine);
/* Seconds of CPU time that its threads have used. */
double engine_cpu(const struct engine *engine);
/* Ends its threads; false if one cannot be ended. */
bool engine_halt(struct engine *engine);
/* Likewise, without waiting for them: true once all have ended. */
bool engine_end(struct engine *engine);
/* Its contexts are gone. */
void engine_stop(struct engine *engine);

#endif
