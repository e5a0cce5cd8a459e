/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "exclusive.h"
#include "core/device.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/segments.h"
#include "core/steps.h"
#include "dma.h"
#include "simhca-clock.h"

/*
 * A program is done with a write or an atomic in a few microseconds, unless it has no CPU. So an atomic
 * is tried for TRY_NS, and later again. A program for which atomics have waited STAYS_NS is stuck, and
 * so is one for which a write has, which waits at once.
 */
#define TRY_NS (50u * 1000u)
#define STAYS_NS (1000u * 1000u * 1000u)
#define REST 64			/* a write that has waited is worked off in so many times as long */
#define BRIEF_NS (100u * 1000u) /* does not count: an atomic of a program that has a CPU */
/*
 * Tries that follow each other by less than AGAIN_NS are of one burst: on a wire an atomic is tried for a while
 * each time that it comes in, and it is sent again after a time-out of the sender's. A program that is
 * still where an earlier burst met it, RESENT_NS before at most, has stayed there in between; but as that may
 * be by chance it is stuck only if it outlasts BURST_NS of the later burst as well.
 */
#define AGAIN_NS (STAYS_NS / 10)
#define RESENT_NS (20ull * STAYS_NS)
#define BURST_NS (5u * 1000u * 1000u)
#define YIELDS 64 /* then it sleeps in between: */
#define PAUSE_NS (50 * 1000)

void simhca_exclusive_init(struct simhca_exclusive *exclusive)
{
	exclusive->fd = -1;
	simhca_mutex_init(&exclusive->lock, SIMHCA_LOCK_ALONE);
}

/* A slot can be that of several processes. */
static void announce(struct simhca_fabric *fabric, uint32_t slot, uint32_t by)
{
	pthread_rwlock_rdlock(&fabric->lock);
	atomic_fetch_add(&fabric->by_device[slot], by);
	for (struct simhca_device *device = fabric->devices; device; device = device->next)
		/* seq_cst: before the guards of programs on the fast path are looked at. */
		atomic_fetch_add(&device->mem->by_device[slot], by);
	pthread_rwlock_unlock(&fabric->lock);
}

void simhca_exclusive_end(struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	struct simhca_writers *writers = atomic_load(&exclusive->writers);

	if (exclusive->announced)
		announce(atomicity->fabric, atomicity->slot, UINT32_MAX);
	if (writers)
		munmap(writers, sizeof(*writers));
	if (exclusive->fd >= 0)
		close(exclusive->fd);
	free(exclusive->seen);
	pthread_mutex_destroy(&exclusive->lock);
}

/* What is shared; NULL: there is no memory, or no descriptor, for it. */
static struct simhca_writers *create(int *fd)
{
	void *base;

	if (!simhca_memory_file_mapped("simhca-writers", sizeof(struct simhca_writers), fd, &base))
		return base;
	*fd = -1;
	return NULL;
}

/*
 * No step that begins from now on writes there without looking. False: the device is just writing,
 * and does not look yet.
 */
static bool begin(struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	struct simhca_writers *writers;

	/*
	 * Programs that have a file mapped write there by plain stores, beside which no atomic is one that
	 * takes more than an instruction.
	 */
	if (!atomicity->pid)
		atomic_store(&exclusive->by_device, true);
	if (!exclusive->begun && !atomic_load(&exclusive->by_device)) {
		if (pthread_rwlock_trywrlock(&atomicity->lock))
			return false;
		writers = create(&exclusive->fd);
		/* seq_cst: before steps are ended; who attaches begins one before it looks here. */
		atomic_store(&exclusive->writers, writers);
		pthread_rwlock_unlock(&atomicity->lock);
		if (writers)
			simhca_steps_end_with(atomicity->fabric, atomicity->pid);
		else
			atomic_store(&exclusive->by_device, true);
	}
	exclusive->begun = true;
	if (!exclusive->announced && atomic_load(&exclusive->by_device)) {
		announce(atomicity->fabric, atomicity->slot, 1);
		exclusive->announced = true;
	}
	return true;
}

/*
 * Whether the steps seen have ended. A program that stays in one, or says so, holds nobody up for
 * longer than one that stays in an atomic: it can write there at any time, but so it could anyway.
 */
static bool have_ended(struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;

	if (simhca_steps_passed(atomicity->fabric, exclusive->seen))
		return true;
	if (simhca_now_ns() - exclusive->seen_ns <= STAYS_NS)
		return false;
	simhca_log(atomicity->fabric, SIMHCA_LOG_WARNING,
		   "a program has stayed in a step that writes to the memory of process %d, or (0) "
		   "to a file, for a second: atomics there do not wait for it, and are not atomic "
		   "if it goes on",
		   (int)atomicity->pid);
	return true;
}

bool simhca_is_exclusive(struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	bool ready;

	/* acquire: the accesses of those steps are over. */
	if (__builtin_expect(atomic_load_explicit(&exclusive->ready, memory_order_acquire), 1))
		return true;
	if (pthread_mutex_trylock(&exclusive->lock))
		return false;
	ready = atomic_load_explicit(&exclusive->ready, memory_order_relaxed);
	if (!ready && begin(atomicity) && !exclusive->seen) {
		exclusive->seen = simhca_steps_see(atomicity->fabric, atomicity->pid);
		exclusive->seen_ns = simhca_now_ns();
	}
	if (exclusive->seen && have_ended(atomicity)) {
		ready = true;
		free(exclusive->seen);
		exclusive->seen = NULL;
		/* release: pairs with who goes on without the lock. */
		atomic_store_explicit(&exclusive->ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&exclusive->lock);
	return ready;
}

void simhca_exclusive_take_back(struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;

	pthread_mutex_lock(&exclusive->lock);
	if (!exclusive->announced) {
		/* In this order: who finds that it is ours finds that steps are waited for. */
		atomic_store(&exclusive->ready, false);
		atomic_store(&exclusive->by_device, true);
		free(exclusive->seen);
		exclusive->seen = NULL;
		begin(atomicity);
		simhca_log(atomicity->fabric, SIMHCA_LOG_WARNING,
			   "a program has stayed in an atomic or a write to the memory of process "
			   "%d for a second: from now on only the device writes there",
			   (int)atomicity->pid);
	}
	pthread_mutex_unlock(&exclusive->lock);
}

/* ----------------------------------------------------------------------------- the device */

/* NULL: nobody but the device writes there. */
static struct simhca_writers *shared(const struct simhca_exclusive *exclusive)
{
	/* acquire: it is mapped; and what simhca_exclusive_take_back() has said before. */
	struct simhca_writers *writers =
		atomic_load_explicit(&exclusive->writers, memory_order_acquire);

	return writers && !atomic_load_explicit(&exclusive->by_device, memory_order_acquire)
		       ? writers
		       : NULL;
}

static void pause_after(uint32_t looks)
{
	const struct timespec moment = { .tv_nsec = PAUSE_NS };

	if (looks < YIELDS)
		sched_yield();
	else
		nanosleep(&moment, NULL);
}

/*
 * A program that holds writes up again and again, each time for less than a second, is stuck as well. So the
 * time that writes have waited is summed up, and the sum falls by a 64th (REST) of the time that
 * passes. Returns how long a write may wait: what the sum leaves of a second.
 */
static uint64_t may_wait(const struct simhca_exclusive *exclusive, uint64_t now)
{
	uint64_t worked_off = atomic_load(&exclusive->worked_off_ns);
	uint64_t sum = worked_off > now ? (worked_off - now) / REST : 0;

	return sum < STAYS_NS ? STAYS_NS - sum : 0;
}

static void has_waited(struct simhca_exclusive *exclusive, uint64_t since, uint64_t now)
{
	uint64_t worked_off = atomic_load(&exclusive->worked_off_ns), then;

	if (now - since < BRIEF_NS)
		return;
	do
		then = (worked_off > since ? worked_off : since) + (now - since) * REST;
	while (!atomic_compare_exchange_weak(&exclusive->worked_off_ns, &worked_off, then));
}

struct simhca_writers *simhca_exclusive_write(struct simhca_atomicity *atomicity, bool *stuck)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	struct simhca_writers *writers = shared(exclusive);
	uint64_t since = 0, now = 0;
	uint32_t holder;

	*stuck = false;
	if (!writers)
		return NULL;
	/* seq_cst, as simhca_writing_begin(). */
	atomic_fetch_add(&writers->device, 1);
	for (uint32_t looks = 0; (holder = atomic_load(&writers->holder)) && !*stuck; looks++) {
		now = simhca_now_ns();
		since = since ? since : now;
		*stuck = now - since > may_wait(exclusive, since);
		/* It was handed over for an atomic that is tried again later. */
		if (holder == SIMHCA_OWNER_DEVICE || *stuck)
			atomic_compare_exchange_strong(&writers->holder, &holder, 0);
		else
			pause_after(looks);
	}
	if (since)
		has_waited(exclusive, since, now);
	return writers;
}

void simhca_exclusive_written(struct simhca_writers *writers)
{
	if (writers)
		atomic_fetch_sub(&writers->device, 1);
}

static bool is_used(const struct simhca_exclusive *exclusive, uint32_t i)
{
	return atomic_load(&exclusive->used[i / 64]) >> i % 64 & 1;
}

/* The first writer that is at work, of those that QPs have; SIMHCA_WRITERS: none is. */
static uint32_t first_at_work(const struct simhca_exclusive *exclusive,
			      const struct simhca_writers *writers)
{
	uint32_t i = 0;

	while (i < SIMHCA_WRITERS &&
	       !(is_used(exclusive, i) && atomic_load(&writers->writer[i].at_work)))
		i++;
	return i;
}

/*
 * Programs believe whatever is written of writers, `count` and `device`, also what is not true. It is
 * corrected here, for writers that no QP has: under the atomicity's lock, so that no thread of the device
 * writes, and under our own, so that nobody is given a writer.
 */
static void correct_writers(struct simhca_exclusive *exclusive, struct simhca_writers *writers)
{
	uint32_t count = 0;

	if (pthread_mutex_trylock(&exclusive->lock))
		return; /* with the next atomic */
	for (uint32_t i = 0; i < SIMHCA_WRITERS; i++)
		if (is_used(exclusive, i))
			count = i + 1;
		else if (atomic_load(&writers->writer[i].at_work))
			atomic_store(&writers->writer[i].at_work, 0);
	if (atomic_load(&writers->count) != count)
		atomic_store(&writers->count, count);
	if (atomic_load(&writers->device))
		atomic_store(&writers->device, 0);
	pthread_mutex_unlock(&exclusive->lock);
}

/*
 * Makes the device the holder, or asks the program that holds it to hand it over after its atomic. True: the
 * device is the holder, now or since it was handed over.
 */
static bool acquire(struct simhca_writers *writers)
{
	uint32_t holder = 0;

	if (atomic_compare_exchange_strong(&writers->holder, &holder, SIMHCA_OWNER_DEVICE) ||
	    holder == SIMHCA_OWNER_DEVICE)
		return true;
	if (!(holder & SIMHCA_OWNER_WANTED))
		atomic_compare_exchange_strong(&writers->holder, &holder,
					       holder | SIMHCA_OWNER_WANTED);
	return false;
}

/*
 * Whether the program that keeps an atomic off now did so at the last try, and has all the time since.
 * found: the holder as this try found it.
 */
static bool is_same_stay(const struct simhca_exclusive *exclusive, uint64_t since, uint32_t found,
			 uint32_t writer)
{
	/* Who was asked to hand it over would have, had it finished its atomic. */
	if (found == exclusive->busy.holder && found & SIMHCA_OWNER_WANTED)
		return true;
	return writer < SIMHCA_WRITERS && writer == exclusive->busy.writer &&
	       since - exclusive->busy.tried_ns <= RESENT_NS;
}

/* An atomic was tried in vain, from since to now. Whether the program that keeps it off is stuck. */
static bool is_stuck(struct simhca_exclusive *exclusive, const struct simhca_writers *writers,
		     uint64_t since, uint64_t now, uint32_t found, uint32_t writer)
{
	if (since - exclusive->busy.tried_ns > AGAIN_NS) {
		if (!is_same_stay(exclusive, since, found, writer))
			exclusive->busy.since_ns = since;
		exclusive->busy.burst_ns = since;
	}
	exclusive->busy.tried_ns = now;
	exclusive->busy.holder = atomic_load(&writers->holder);
	exclusive->busy.writer = writer;
	return now - exclusive->busy.since_ns > STAYS_NS &&
	       now - exclusive->busy.burst_ns > BURST_NS;
}

bool simhca_exclusive_atomic(struct simhca_atomicity *atomicity, bool *stuck)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	uint32_t found = 0, writer = SIMHCA_WRITERS;
	struct simhca_writers *writers;
	uint64_t since = 0, now = 0;

	*stuck = false;
	while ((writers = shared(exclusive))) {
		if (!since)
			found = atomic_load(&writers->holder);
		writer = SIMHCA_WRITERS;
		if (acquire(writers) &&
		    (writer = first_at_work(exclusive, writers)) == SIMHCA_WRITERS) {
			exclusive->busy.tried_ns = 0;
			correct_writers(exclusive, writers);
			return true;
		}
		now = simhca_now_ns();
		since = since ? since : now;
		if (now - since > TRY_NS)
			break;
		sched_yield();
	}
	/*
	 * Nobody shares the memory with the device. If it was taken back since simhca_is_exclusive() was
	 * asked, that is to be asked again, until steps that were under way have ended.
	 */
	if (!writers)
		return atomic_load(&exclusive->ready) || !atomic_load(&exclusive->writers);
	*stuck = is_stuck(exclusive, writers, since, now, found, writer);
	if (*stuck)
		atomic_store(&writers->holder, 0);
	return false;
}

void simhca_exclusive_done(struct simhca_atomicity *atomicity)
{
	struct simhca_writers *writers = shared(&atomicity->exclusive);

	if (writers)
		simhca_writers_admit(writers, SIMHCA_OWNER_DEVICE);
}

/* ------------------------------------------------------------------- programs that write */

bool simhca_exclusive_add_writer(const struct simhca_mm *mm, struct simhca_steps_writer *writer)
{
	struct simhca_exclusive *exclusive = &mm->atomicity->exclusive;
	/* seq_cst: if there is none yet, the QP's epoch ends when there is. */
	struct simhca_writers *writers = atomic_load(&exclusive->writers);
	uint32_t i = 0;

	*writer = (struct simhca_steps_writer){ 0 };
	if (!writers || atomic_load(&exclusive->by_device))
		return true;
	while (i < SIMHCA_WRITERS && is_used(exclusive, i))
		i++;
	if (i == SIMHCA_WRITERS)
		return false;
	pthread_mutex_lock(&exclusive->lock);
	atomic_store(&writers->writer[i].at_work, 0);
	/* seq_cst: before anybody is told of it. */
	atomic_fetch_or(&exclusive->used[i / 64], 1ull << i % 64);
	if (atomic_load(&writers->count) <= i)
		atomic_store(&writers->count, i + 1);
	pthread_mutex_unlock(&exclusive->lock);
	mm->atomicity->users++;
	*writer = (struct simhca_steps_writer){ mm->atomicity, i };
	return true;
}

void simhca_exclusive_let_go(const struct simhca_steps_writer *writer, uint32_t name)
{
	struct simhca_writers *writers;

	if (!writer->atomicity)
		return;
	writers = atomic_load(&writer->atomicity->exclusive.writers);
	simhca_writers_admit(writers, name);
	atomic_store(&writers->writer[writer->number].at_work, 0);
}

void simhca_exclusive_remove_writer(struct simhca_fabric *fabric,
				    struct simhca_steps_writer *writer, uint32_t name)
{
	struct simhca_atomicity *atomicity = writer->atomicity;

	if (!atomicity)
		return;
	simhca_exclusive_let_go(writer, name);
	atomic_fetch_and(&atomicity->exclusive.used[writer->number / 64],
			 ~(1ull << writer->number % 64));
	writer->atomicity = NULL;
	simhca_atomicity_put(fabric, atomicity);
}

int simhca_exclusive_file(const struct simhca_steps_writer *writer)
{
	return writer->atomicity ? writer->atomicity->exclusive.fd : -1;
}
