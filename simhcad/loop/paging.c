/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "paging.h"
#include "base/thread.h"
#include "simhca-clock.h"

#define STUCK_SECONDS 0.03 /* in which nothing ends, while work waits */
#define END_SECONDS 2	   /* that the threads have to end */

static void work(void *arg)
{
	simhca_faults_run(arg);
}

static void read_events(void *arg)
{
	simhca_pagers_run(arg);
}

/* 0 or an errno. */
static int start_worker(struct paging *paging)
{
	struct thread *worker = thread_start(work, paging->fabric, "simhca-fault");

	if (!worker)
		return errno;
	paging->worker[paging->workers++] = worker;
	return 0;
}

static void on_watch(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct paging *paging = timer->data;
	int wanted = simhca_faults_stuck(paging->fabric);

	if (wanted < 0)
		ev_timer_stop(loop, timer);
	if (wanted <= 0 || paging->workers == PAGING_WORKERS_MOST)
		return;
	log_warning(
		"page faults wait, and no page-fault worker has come to an end of its work within "
		"%.0f ms: others go on",
		1e3 * STUCK_SECONDS);
	while (wanted-- && paging->workers < PAGING_WORKERS_MOST)
		if (start_worker(paging)) {
			log_error("a page-fault worker: no thread could be started");
			break;
		}
}

static void on_short(struct ev_loop *loop, ev_async *async, int events)
{
	struct paging *paging = async->data;

	/* What has ended by now does not count. */
	if (simhca_faults_stuck(paging->fabric) >= 0)
		ev_timer_again(loop, &paging->watch);
}

void paging_is_short(struct paging *paging)
{
	ev_async_send(paging->loop, &paging->shortage);
}

int paging_start(struct paging *paging, struct simhca_fabric *fabric, struct ev_loop *loop,
		 unsigned int workers)
{
	int ret;

	memset(paging, 0, sizeof(*paging));
	paging->fabric = fabric;
	paging->loop = loop;
	ev_timer_init(&paging->watch, on_watch, STUCK_SECONDS, STUCK_SECONDS);
	paging->watch.data = paging;
	ev_async_init(&paging->shortage, on_short);
	paging->shortage.data = paging;
	paging->reader = thread_start(read_events, fabric, "simhca-pager");
	ret = paging->reader ? 0 : errno;
	while (!ret && paging->workers < workers)
		ret = start_worker(paging);
	if (ret) {
		log_error("the threads of on-demand paging: %s", strerror(ret));
		return -1;
	}
	ev_async_start(loop, &paging->shortage);
	return 0;
}

bool paging_stop(struct paging *paging)
{
	uint64_t until = simhca_now_ns() + END_SECONDS * 1000000000ull;
	bool ended = true;

	if (!paging->fabric)
		return true;
	ev_timer_stop(paging->loop, &paging->watch);
	ev_async_stop(paging->loop, &paging->shortage);
	simhca_faults_stop(paging->fabric);
	simhca_pagers_stop(paging->fabric);
	for (unsigned int i = 0; i < paging->workers; i++)
		ended = thread_join(paging->worker[i], until) && ended;
	if (paging->reader)
		ended = thread_join(paging->reader, until) && ended;
	if (!ended)
		log_error("a page-fault worker has not ended within %d s: it waits for a client's "
			  "memory, or for a CPU",
			  END_SECONDS);
	return ended;
}
