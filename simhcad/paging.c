/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "paging.h"

#define STUCK_SECONDS 0.03 /* in which nothing ends, while work waits */
#define END_SECONDS 2	   /* that the threads have to end */

static void *work(void *arg)
{
	simhca_faults_run(arg);
	return NULL;
}

static void *read_events(void *arg)
{
	simhca_pagers_run(arg);
	return NULL;
}

/* Without signals, which are the main thread's business. */
static int start_thread(pthread_t *thread, void *(*run)(void *), struct paging *paging,
			const char *name)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, run, paging->fabric);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!ret)
		pthread_setname_np(*thread, name);
	return ret;
}

static int start_worker(struct paging *paging)
{
	int ret = start_thread(&paging->worker[paging->workers], work, paging, "simhca-fault");

	if (!ret)
		paging->workers++;
	return ret;
}

static void on_watch(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct paging *paging = timer->data;
	int wanted = simhca_faults_stuck(paging->fabric);

	if (wanted < 0)
		ev_timer_stop(loop, timer);
	if (wanted <= 0 || paging->workers == PAGING_WORKERS_MOST)
		return;
	log_warning("the page-fault workers are stuck in clients' memory: others go on");
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
	ret = start_thread(&paging->reader, read_events, paging, "simhca-pager");
	paging->reads = !ret;
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
	struct timespec until;
	bool ended = true;

	if (!paging->fabric)
		return true;
	ev_timer_stop(paging->loop, &paging->watch);
	ev_async_stop(paging->loop, &paging->shortage);
	simhca_faults_stop(paging->fabric);
	simhca_pagers_stop(paging->fabric);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_SECONDS;
	for (unsigned int i = 0; i < paging->workers; i++)
		ended = !pthread_timedjoin_np(paging->worker[i], NULL, &until) && ended;
	if (paging->reads)
		ended = !pthread_timedjoin_np(paging->reader, NULL, &until) && ended;
	if (!ended)
		log_error("a page-fault worker has not ended within %d s: it waits for a client's "
			  "memory, or for a CPU",
			  END_SECONDS);
	return ended;
}
