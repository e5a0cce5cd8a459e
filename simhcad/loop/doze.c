/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <malloc.h>
#include <utlist.h>

#include "doze.h"
#include "engines.h"
#include "simhca-device.h"

/*
 * After so many looks the devices doze, one more than a program is looked at until something is said
 * of it; after one more look the timers have stopped.
 */
#define CALM_LOOKS 4

static void on_woken(struct ev_loop *loop, ev_async *woken, int events)
{
	doze_over(woken->data);
}

static void on_unheard(struct ev_loop *loop, ev_io *io, int events)
{
	doze_over(io->data);
}

static void listen(struct doze *doze)
{
	const struct engines *engines = doze->engines;

	doze->num_unheard = 0;
	for (unsigned int i = 0; i < engines->count && i < DOZE_ENGINES; i++)
		for (uint32_t cpu = 0; cpu < SIMHCA_MAX_ENGINE_CPUS; cpu++) {
			ev_io *io = &doze->unheard[doze->num_unheard];
			int fd = engines_sleep_at(engines, i, cpu);

			if (fd < 0)
				break;
			ev_io_init(io, on_unheard, fd, EV_READ);
			io->data = doze;
			ev_io_start(doze->loop, io);
			doze->num_unheard++;
		}
}

static void listen_no_more(struct doze *doze)
{
	while (doze->num_unheard)
		ev_io_stop(doze->loop, &doze->unheard[--doze->num_unheard]);
}

static void look(struct doze *doze, bool look)
{
	struct doze_looker *looker;

	engines_watch(doze->engines, look);
	DL_FOREACH (doze->lookers, looker)
		looker->look(looker, look);
}

void doze_over(struct doze *doze)
{
	const unsigned int calm = doze->calm;

	doze->calm = 0;
	if (calm < CALM_LOOKS)
		return;
	simhca_engines_attend(doze->engines->fabric);
	if (calm == CALM_LOOKS)
		return;
	listen_no_more(doze);
	look(doze, true);
}

void doze_woken(void *arg)
{
	struct doze *doze = arg;

	ev_async_send(doze->loop, &doze->woken);
}

void doze_looked(struct doze *doze, uint64_t found)
{
	if (found != doze->found || doze->engines->any_stuck) {
		doze->found = found;
		doze_over(doze);
		return;
	}
	if (++doze->calm < CALM_LOOKS)
		return;
	if (doze->calm == CALM_LOOKS) {
		if (!simhca_engines_doze(doze->engines->fabric))
			doze->calm = 0;
		return;
	}
	look(doze, false);
	listen(doze);
	/* Of what thousands of QPs had, the allocator keeps all: free pages below one that is used. */
	malloc_trim(0);
}

void doze_add(struct doze *doze, struct doze_looker *looker)
{
	DL_APPEND(doze->lookers, looker);
}

void doze_remove(struct doze *doze, struct doze_looker *looker)
{
	DL_DELETE(doze->lookers, looker);
}

void doze_init(struct doze *doze, struct ev_loop *loop, struct engines *engines)
{
	*doze = (struct doze){ .loop = loop, .engines = engines };
	ev_async_init(&doze->woken, on_woken);
	doze->woken.data = doze;
	ev_async_start(loop, &doze->woken);
	/* What wakes an engine shall be served before it is looked for. */
	ev_set_priority(&doze->woken, EV_MINPRI);
}

void doze_end(struct doze *doze)
{
	doze_over(doze);
	ev_async_stop(doze->loop, &doze->woken);
}
