/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "chores.h"
#include "base/log.h"
#include "releaser.h"
#include "base/tally.h"

#define UNMAP_BYTES (8u << 20) /* at a time: the address space is locked meanwhile */
#define BATCH 64	       /* that wait for the others of their batch */
#define BATCH_SECONDS 0.002
#define ENOUGH 96 /* descriptors of one process: more than a batch, which fills at full speed */

struct release {
	struct chore chore; /* first: chores point to it */
	struct releaser *releaser;
	void *base;
	uint64_t size;
	int fd;
};

/* But for what is constant, the main thread's. */
struct releaser {
	struct ev_loop *loop;  /* constant */
	struct chores *chores; /* constant */
	pthread_t main_thread; /* constant */
	struct release batch[BATCH];
	unsigned int batched;
	bool stopped;
	struct chore **gathered; /* where what is released goes instead; NULL: nowhere else */
	ev_timer flush;
	struct tally waiting; /* descriptors of each process that were not closed yet */
};

#ifdef __SANITIZE_THREAD__
/* gcc's runtime is a library of its own, and finds only what is exported. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

/*
 * libev does not take a descriptor out of the kernel's set when its watcher stops, but when it
 * hears of it again. That may be while another thread closes it here: then the kernel has forgotten
 * it already.
 */
const char *__tsan_default_suppressions(void)
{
	return "race:simhcad/loop/releaser.c\n";
}
#endif

static void let_go(struct chore *chore)
{
	struct release *release = (struct release *)chore;
	char *base = release->base;

	for (uint64_t at = 0; at < release->size; at += UNMAP_BYTES) {
		uint64_t left = release->size - at;

		/* Pieces of a mapping of huge pages that do not divide this: all at once, then. */
		if (munmap(base + at, left < UNMAP_BYTES ? left : UNMAP_BYTES)) {
			munmap(base + at, left);
			break;
		}
	}
	if (release->fd >= 0)
		close(release->fd);
	if (!chore->done)
		free(release);
}

static void has_closed(struct chore *chore)
{
	struct release *release = (struct release *)chore;

	tally_sub(&release->releaser->waiting, chore->owner.process);
	free(release);
}

static void append(struct releaser *releaser, struct chore **list, const struct release *what)
{
	struct release *release = malloc(sizeof(*release));

	if (!release) {
		log_error("out of memory: a client's descriptor stays open");
		if (what->chore.done)
			tally_sub(&releaser->waiting, what->chore.owner.process);
		return;
	}
	*release = *what;
	release->chore.work = let_go;
	release->releaser = releaser;
	DL_APPEND(*list, &release->chore);
}

static void flush(struct releaser *releaser)
{
	struct chore *list = NULL;

	ev_timer_stop(releaser->loop, &releaser->flush);
	for (unsigned int i = 0; i < releaser->batched; i++)
		append(releaser, &list, &releaser->batch[i]);
	releaser->batched = 0;
	if (list)
		chores_add(releaser->chores, list);
}

static void on_flush(struct ev_loop *loop, ev_timer *timer, int events)
{
	flush(timer->data);
}

bool releaser_has_enough(const struct releaser *releaser, const struct owner *owner)
{
	return tally_get(&releaser->waiting, owner->process) >= ENOUGH;
}

/* Every command can bring a descriptor, and end a queue: a thread is not woken for each. */
static void add_to_batch(struct releaser *releaser, const struct release *release)
{
	releaser->batch[releaser->batched++] = *release;
	if (releaser->batched == BATCH || releaser->stopped) {
		flush(releaser);
	} else if (!ev_is_active(&releaser->flush)) {
		ev_timer_set(&releaser->flush, BATCH_SECONDS, 0);
		ev_timer_start(releaser->loop, &releaser->flush);
	}
}

void releaser_take(struct releaser *releaser, void *base, uint64_t size, int fd)
{
	const struct release release = { .base = base, .size = size, .fd = fd };
	struct chore *list = NULL;

	if (!size && fd < 0)
		return;
	if (pthread_equal(pthread_self(), releaser->main_thread)) {
		if (releaser->gathered)
			append(releaser, releaser->gathered, &release);
		else
			add_to_batch(releaser, &release);
		return;
	}
	append(releaser, &list, &release);
	if (list)
		chores_add(releaser->chores, list);
}

void releaser_close(struct releaser *releaser, const struct owner *owner, int fd)
{
	tally_add(&releaser->waiting, owner->process);
	add_to_batch(releaser, &(struct release){
				       .chore = { .owner = *owner, .done = has_closed },
				       .fd = fd,
			       });
}

void releaser_gather(struct releaser *releaser, struct chore **list)
{
	releaser->gathered = list;
}

void releaser_let_go(struct chore *list)
{
	struct chore *chore, *next;

	DL_FOREACH_SAFE (list, chore, next)
		let_go(chore);
}

struct releaser *releaser_start(struct ev_loop *loop, struct chores *chores)
{
	struct releaser *releaser = calloc(1, sizeof(*releaser));

	if (!releaser)
		return NULL;
	releaser->loop = loop;
	releaser->chores = chores;
	releaser->main_thread = pthread_self();
	ev_timer_init(&releaser->flush, on_flush, 0, 0);
	releaser->flush.data = releaser;
	return releaser;
}

void releaser_stop(struct releaser *releaser)
{
	if (!releaser)
		return;
	releaser->stopped = true;
	flush(releaser);
}

void releaser_free(struct releaser *releaser)
{
	if (releaser)
		tally_free(&releaser->waiting);
	free(releaser);
}
