/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "paging.h"

#define WATCH_INTERVAL 0.04 /* seconds without an end until workers count as stuck */
#define IDLE_INTERVAL 0.2   /* while nobody has memory that is on demand */
#define END_SECONDS 2	    /* that the threads have to end */

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
	unsigned int wanted = simhca_faults_stuck(paging->fabric);
	ev_tstamp interval =
		simhca_faults_possible(paging->fabric) ? WATCH_INTERVAL : IDLE_INTERVAL;

	if (timer->repeat != interval) {
		timer->repeat = interval;
		ev_timer_again(loop, timer);
	}
	if (!wanted || paging->workers == PAGING_WORKERS_MOST)
		return;
	log_warning("the page-fault workers are stuck in clients' memory: others go on");
	while (wanted-- && paging->workers < PAGING_WORKERS_MOST)
		if (start_worker(paging)) {
			log_error("a page-fault worker: no thread could be started");
			break;
		}
}

int paging_start(struct paging *paging, struct simhca_fabric *fabric, struct ev_loop *loop,
		 unsigned int workers)
{
	int ret;

	memset(paging, 0, sizeof(*paging));
	paging->fabric = fabric;
	paging->loop = loop;
	ev_timer_init(&paging->watch, on_watch, IDLE_INTERVAL, IDLE_INTERVAL);
	paging->watch.data = paging;
	ret = start_thread(&paging->reader, read_events, paging, "simhca-pager");
	paging->reads = !ret;
	while (!ret && paging->workers < workers)
		ret = start_worker(paging);
	if (ret) {
		log_error("the threads of on-demand paging: %s", strerror(ret));
		return -1;
	}
	ev_timer_start(loop, &paging->watch);
	return 0;
}

bool paging_stop(struct paging *paging)
{
	struct timespec until;
	bool ended = true;

	if (!paging->fabric)
		return true;
	ev_timer_stop(paging->loop, &paging->watch);
	simhca_faults_stop(paging->fabric);
	simhca_pagers_stop(paging->fabric);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_SECONDS;
	for (unsigned int i = 0; i < paging->workers; i++)
		ended = !pthread_timedjoin_np(paging->worker[i], NULL, &until) && ended;
	if (paging->reads)
		ended = !pthread_timedjoin_np(paging->reader, NULL, &until) && ended;
	if (!ended)
		log_error("a page-fault worker is stuck in a client's memory");
	return ended;
}
