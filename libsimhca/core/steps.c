/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "context.h"
#include "fabric.h"
#include "stats.h"
#include "steps.h"

static struct simhca_steps **find(struct simhca_fabric *fabric, const struct simhca_steps *steps)
{
	struct simhca_steps **link = &fabric->steps;

	while (*link && *link != steps)
		link = &(*link)->next;
	return link;
}

/* Where it is with that QP, or will be. */
static uint32_t place_of(const struct simhca_steps *steps, uint32_t qpn)
{
	uint32_t i = 0;

	while (i < steps->num_with && steps->with[i].qpn != qpn)
		i++;
	return i;
}

/* The claim may be recovered meanwhile. */
static void copy(struct simhca_steps_with *to, const struct simhca_steps_with *from)
{
	to->context = from->context;
	to->pid = from->pid;
	to->peer_pid = from->peer_pid;
	to->qpn = from->qpn;
	to->claimant = from->claimant;
	to->life = from->life;
	atomic_store(&to->recovered, atomic_load(&from->recovered));
	to->writer = from->writer;
	to->peer_writer = from->peer_writer;
}

/* Room for one more. */
static bool grow(struct simhca_steps *steps)
{
	struct simhca_steps_with *with;

	if (steps->num_with == SIMHCA_MAX_DESTINATIONS)
		return false;
	with = realloc(steps->with, (steps->num_with + 1) * sizeof(*with));
	if (!with)
		return false;
	steps->with = with;
	return true;
}

bool simhca_steps_add(struct simhca_fabric *fabric, struct simhca_steps *steps,
		      const struct simhca_steps_with *with)
{
	uint32_t place;
	bool fits;

	pthread_rwlock_wrlock(&fabric->lock);
	place = place_of(steps, with->qpn);
	fits = place < steps->num_with || grow(steps);
	if (fits) {
		copy(&steps->with[place], with);
		if (place == steps->num_with)
			steps->num_with++;
		if (!*find(fabric, steps)) {
			steps->next = fabric->steps;
			fabric->steps = steps;
		}
	}
	pthread_rwlock_unlock(&fabric->lock);
	return fits;
}

bool simhca_steps_find(struct simhca_fabric *fabric, const struct simhca_steps *steps, uint32_t qpn,
		       struct simhca_steps_with *with)
{
	uint32_t place;
	bool found;

	pthread_rwlock_rdlock(&fabric->lock);
	place = place_of(steps, qpn);
	found = place < steps->num_with;
	if (found)
		copy(with, &steps->with[place]);
	pthread_rwlock_unlock(&fabric->lock);
	return found;
}

bool simhca_steps_recover(struct simhca_fabric *fabric, struct simhca_steps *steps, uint32_t qpn,
			  uint32_t claim)
{
	uint32_t place;
	bool is_new;

	pthread_rwlock_rdlock(&fabric->lock);
	place = place_of(steps, qpn);
	is_new = place < steps->num_with &&
		 atomic_exchange(&steps->with[place].recovered, claim) != claim;
	pthread_rwlock_unlock(&fabric->lock);
	return is_new;
}

bool simhca_steps_forget(struct simhca_fabric *fabric, uint32_t qpn, struct simhca_steps_with *was,
			 uint32_t *sender)
{
	struct simhca_steps *steps;
	uint32_t place;

	pthread_rwlock_wrlock(&fabric->lock);
	for (steps = fabric->steps; steps; steps = steps->next) {
		place = place_of(steps, qpn);
		if (place == steps->num_with)
			continue;
		copy(was, &steps->with[place]);
		*sender = steps->qpc->qpn;
		copy(&steps->with[place], &steps->with[--steps->num_with]);
		break;
	}
	pthread_rwlock_unlock(&fabric->lock);
	return steps;
}

struct simhca_steps *simhca_steps_next_ended(struct simhca_fabric *fabric,
					     const struct simhca_steps *after, uint32_t context)
{
	struct simhca_steps *steps;

	pthread_rwlock_rdlock(&fabric->lock);
	steps = after ? after->next : fabric->steps;
	while (steps &&
	       !(atomic_load(&steps->context->dead) && simhca_steps_are_with(steps, context)))
		steps = steps->next;
	pthread_rwlock_unlock(&fabric->lock);
	return steps;
}

bool simhca_steps_are_with(const struct simhca_steps *steps, uint32_t context)
{
	bool are = steps->context->id == context;

	for (uint32_t i = 0; i < steps->num_with && !are; i++)
		are = steps->with[i].context == context;
	return are;
}

/* Whether they touch the memory of that process; 0: files, which any may have mapped. */
static bool touch(const struct simhca_steps *steps, pid_t pid)
{
	bool do_so = !pid;

	for (uint32_t i = 0; i < steps->num_with && !do_so; i++)
		do_so = steps->with[i].pid == pid || steps->with[i].peer_pid == pid;
	return do_so;
}

static void count(const struct simhca_steps *steps, uint64_t *stats)
{
	const struct simhca_fastpath *mem = steps->mem;
	/* relaxed: numbers by themselves. */
	uint64_t bytes = atomic_load_explicit(&mem->bytes, memory_order_relaxed);
	uint64_t packets = atomic_load_explicit(&mem->packets, memory_order_relaxed);

	/* Both QPs are this device's. */
	stats[SIMHCA_STAT_XMIT_BYTES] += bytes;
	stats[SIMHCA_STAT_RCV_BYTES] += bytes;
	stats[SIMHCA_STAT_XMIT_PACKETS] += packets;
	stats[SIMHCA_STAT_RCV_PACKETS] += packets;
	stats[SIMHCA_STAT_RX_WRITE] += atomic_load_explicit(&mem->writes, memory_order_relaxed);
	stats[SIMHCA_STAT_RX_READ] += atomic_load_explicit(&mem->reads, memory_order_relaxed);
	stats[SIMHCA_STAT_RX_ATOMIC] += atomic_load_explicit(&mem->atomics, memory_order_relaxed);
}

void simhca_steps_remove(struct simhca_fabric *fabric, struct simhca_steps *steps)
{
	struct simhca_stats_block *block = &steps->context->device->stats[SIMHCA_STATS_SHARED];
	uint64_t stats[SIMHCA_STATS] = { 0 };
	struct simhca_steps **link;

	pthread_rwlock_wrlock(&fabric->lock);
	link = find(fabric, steps);
	if (*link) {
		*link = steps->next;
		count(steps, stats);
	}
	for (int stat = 0; stat < SIMHCA_STATS; stat++)
		atomic_fetch_add_explicit(&block->count[stat], stats[stat], memory_order_relaxed);
	pthread_rwlock_unlock(&fabric->lock);
}

void simhca_steps_free(struct simhca_steps *steps)
{
	free(steps->with);
}

void simhca_steps_end(struct simhca_fabric *fabric, uint32_t context)
{
	struct simhca_steps *steps;

	pthread_rwlock_rdlock(&fabric->lock);
	for (steps = fabric->steps; steps; steps = steps->next)
		if (!context || simhca_steps_are_with(steps, context))
			/* seq_cst: before the guards are looked at, by who waits for steps. */
			atomic_store(&steps->qpc->fastpath_epoch, 0);
	pthread_rwlock_unlock(&fabric->lock);
}

void simhca_steps_end_with(struct simhca_fabric *fabric, pid_t pid)
{
	struct simhca_steps *steps;

	pthread_rwlock_rdlock(&fabric->lock);
	for (steps = fabric->steps; steps; steps = steps->next)
		if (touch(steps, pid))
			atomic_store(&steps->qpc->fastpath_epoch, 0); /* seq_cst, as above */
	pthread_rwlock_unlock(&fabric->lock);
}

/* ------------------------------------------------------------------- those under way */

bool simhca_steps_are_over(struct simhca_fabric *fabric)
{
	const struct simhca_steps *steps;

	pthread_rwlock_rdlock(&fabric->lock);
	/* seq_cst: after they were ended. */
	for (steps = fabric->steps; steps; steps = steps->next)
		if ((atomic_load(&steps->mem->guard) & 1) && !atomic_load(&steps->context->dead))
			break;
	pthread_rwlock_unlock(&fabric->lock);
	return !steps;
}

/* A step that was seen. */
struct one_seen {
	const struct simhca_steps *steps; /* to compare; it may be gone */
	uint32_t guard;
};

struct simhca_steps_seen {
	uint32_t count;
	struct one_seen one[]; /* in the order of their addresses */
};

static int compare_seen(const void *a, const void *b)
{
	uintptr_t steps_a = (uintptr_t)((const struct one_seen *)a)->steps;
	uintptr_t steps_b = (uintptr_t)((const struct one_seen *)b)->steps;

	return (steps_a > steps_b) - (steps_a < steps_b);
}

struct simhca_steps_seen *simhca_steps_see(struct simhca_fabric *fabric, pid_t pid)
{
	const struct simhca_steps *steps;
	struct simhca_steps_seen *seen;
	uint32_t most = 0;

	pthread_rwlock_rdlock(&fabric->lock);
	for (steps = fabric->steps; steps; steps = steps->next)
		most++;
	seen = calloc(1, sizeof(*seen) + most * sizeof(seen->one[0]));
	for (steps = fabric->steps; steps && seen; steps = steps->next) {
		/* seq_cst: after what such steps look for was told. */
		uint32_t guard = atomic_load(&steps->mem->guard);

		if (!(guard & 1) || !touch(steps, pid))
			continue;
		seen->one[seen->count].steps = steps;
		seen->one[seen->count++].guard = guard;
	}
	pthread_rwlock_unlock(&fabric->lock);
	if (seen)
		qsort(seen->one, seen->count, sizeof(seen->one[0]), compare_seen);
	return seen;
}

static bool is_under_way(const struct simhca_steps *steps, const struct simhca_steps_seen *seen)
{
	const struct one_seen key = { .steps = steps };
	const struct one_seen *one =
		bsearch(&key, seen->one, seen->count, sizeof(seen->one[0]), compare_seen);

	/* acquire: the step's accesses are over when we go on. */
	return one && !atomic_load(&steps->context->dead) &&
	       atomic_load_explicit(&steps->mem->guard, memory_order_acquire) == one->guard;
}

bool simhca_steps_passed(struct simhca_fabric *fabric, const struct simhca_steps_seen *seen)
{
	const struct simhca_steps *steps;
	bool passed = true;

	pthread_rwlock_rdlock(&fabric->lock);
	for (steps = fabric->steps; steps && passed; steps = steps->next)
		passed = !is_under_way(steps, seen);
	pthread_rwlock_unlock(&fabric->lock);
	return passed;
}

void simhca_steps_count(const struct simhca_device *device, uint64_t *stats)
{
	const struct simhca_steps *steps;

	pthread_rwlock_rdlock(&device->fabric->lock);
	for (steps = device->fabric->steps; steps; steps = steps->next)
		if (steps->context->device == device)
			count(steps, stats);
	pthread_rwlock_unlock(&device->fabric->lock);
}
