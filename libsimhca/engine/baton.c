/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The baton: which thread of an engine works. An engine has a thread for each lane, asleep on its
 * CPU, and the one that a doorbell wakes works for all; the others sleep on. So work goes
 * on where the program is that asked for it, and is done by one thread at a time, as by one engine
 * without lanes: completions keep their order.
 *
 * What somebody leaves to the holder is published before he looks for one; the holder puts the
 * baton down before it looks a last time and sleeps. One of the two sees the other.
 *
 * A program that has a CPU's time to itself and posts again and again is slowed down by an engine
 * that works on that very CPU, while another may be idle. Whether it is nobody tells; so the engine
 * tries. When one lane has been woken several times in a row, each soon after it fell asleep, the
 * thread of another one is invited: it polls for longer, for the program is not in its way. Each
 * attempt waits for twice as many wake-ups as the last, until one was good: the thread found work
 * several times without sleeping. A thread that works on and on is left to the kernel to place.
 */
#include "engine.h"
#include "engine_impl.h"

#define SOON_NS 50000u	    /* from falling asleep to waking up: somebody posts again and again */
#define LONG_SPIN_NS 10000u /* an invited thread polls for so long, and one that found a lot */
#define WAIT_NS 50000u	    /* for the holder to hand the baton over */
#define GOOD 8u		    /* times that a thread finds work without sleeping: it is well placed */
#define LEAST_STREAK 8u	    /* wake-ups of one lane before another is invited */
#define MOST_STREAK 1024u
#define ROAM_NS 1000000u  /* who has worked for so long without sleeping may run on any CPU */
#define LOOK_AT_CLOCK 32u /* times that it found work */

static bool pass(_Atomic(struct simhca_worker *) *place, struct simhca_worker *from,
		 struct simhca_worker *to)
{
	return atomic_compare_exchange_strong_explicit(place, &from, to, memory_order_seq_cst,
						       memory_order_seq_cst);
}

bool simhca_baton_is_held(const struct simhca_worker *worker)
{
	/* acquire: what the holder before us left in the engine. */
	return atomic_load_explicit(&worker->engine->baton.holder, memory_order_acquire) == worker;
}

/* The thread woke up, and is the one to work. */
static void begin(struct simhca_worker *worker, bool guest)
{
	struct simhca_baton *baton = &worker->engine->baton;

	if (worker->engine->lanes == 1 || !worker->slept)
		return;
	worker->slept = false;
	worker->awake_ns = simhca_engine_now(worker->engine);
	worker->guest = guest;
	worker->finds = 0;
	if (baton->last_lane == worker->lane && worker->awake_ns - baton->released_ns < SOON_NS)
		baton->streak++;
	else
		baton->streak = 0;
	baton->last_lane = worker->lane;
}

/* Stands for an heir who is being made the holder. */
static struct simhca_worker claimed;

/* Waits for the holder to finish its round. */
static bool inherit(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_baton *baton = &engine->baton;
	uint64_t end = simhca_engine_now(engine) + WAIT_NS;

	if (!pass(&baton->heir, NULL, worker))
		return false;
	while (!simhca_baton_is_held(worker) && !pass(&baton->holder, NULL, worker))
		if (simhca_engine_now(engine) > end)
			break;
	/* Whoever has claimed us is about to make us the holder; or finds that it is not any more.
	 */
	while (!pass(&baton->heir, worker, NULL) && atomic_load(&baton->heir) == &claimed)
		;
	return simhca_baton_is_held(worker);
}

bool simhca_baton_take(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_baton *baton = &engine->baton;
	struct simhca_worker *heir;
	uint32_t invited;

	if (simhca_baton_is_held(worker)) {
		heir = atomic_load_explicit(&baton->heir, memory_order_relaxed);
		/* Claimed, it waits for nothing else; and it looks at all there is. */
		if (!heir || heir == &claimed || !pass(&baton->heir, heir, &claimed))
			return true;
		/* We can have lost the baton just now. */
		atomic_store(&baton->heir, pass(&baton->holder, worker, heir) ? NULL : heir);
		return false;
	}
	invited = worker->lane + 1;
	if (engine->lanes > 1 && atomic_compare_exchange_strong(&baton->invited, &invited, 0) &&
	    inherit(worker)) {
		begin(worker, true);
		return true;
	}
	if (!pass(&baton->holder, NULL, worker))
		return false;
	begin(worker, false);
	return true;
}

void simhca_baton_init(struct simhca_engine *engine)
{
	engine->baton.invite_after = LEAST_STREAK;
}

void simhca_baton_release(struct simhca_worker *worker)
{
	pass(&worker->engine->baton.holder, worker, NULL);
}

void simhca_baton_found(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;

	if (engine->lanes == 1 || ++worker->finds % LOOK_AT_CLOCK || worker->roams)
		return;
	if (simhca_engine_now(engine) - worker->awake_ns > ROAM_NS)
		simhca_worker_roam(worker);
}

uint64_t simhca_baton_spin_ns(const struct simhca_worker *worker)
{
	const struct simhca_engine *engine = worker->engine;

	if (engine->lanes > 1 && (worker->guest || worker->finds >= GOOD))
		return LONG_SPIN_NS;
	return engine->config.spin_us * 1000ull;
}

void simhca_baton_consider(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_baton *baton = &engine->baton;

	/* It can have lost the baton, being taken for stuck. */
	if (engine->lanes == 1 || !simhca_baton_is_held(worker))
		return;
	if (worker->guest && worker->finds >= GOOD)
		baton->invite_after = LEAST_STREAK;
	if (!worker->guest && baton->streak >= baton->invite_after) {
		uint32_t lane = (worker->lane + 1) % engine->lanes;

		baton->streak = 0;
		if (baton->invite_after < MOST_STREAK)
			baton->invite_after *= 2;
		atomic_store(&baton->invited, lane + 1);
		simhca_lane_rouse(engine, lane);
	}
	baton->released_ns = simhca_engine_now(engine);
}
