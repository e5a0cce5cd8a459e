/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Resolves an address, and destroys the id before it acknowledges that event, or takes it to another
 * channel ("migrate"); with "late", another thread acknowledges it at SIGUSR1. With "held_up" it comes to
 * wait for that two seconds after the kernel has answered. With "ends_late" it runs for less than a second
 * when it is told to end.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <time.h>

#include "helper.h"

static sigset_t usr1;
static int held_up;

static void end_late(int number)
{
	struct timespec begin, now;

	(void)number;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 900);
	_exit(1);
}

/* librdmacm's, too. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int (*next)(pthread_cond_t * cond, pthread_mutex_t * mutex) =
		dlsym(RTLD_NEXT, "pthread_cond_wait");

	if (held_up)
		sleep(2);
	return next(cond, mutex);
}

static void *acknowledge(void *event)
{
	int got;

	CHECK(!sigwait(&usr1, &got));
	CHECK(!rdma_ack_cm_event(event));
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(7471),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &usr1, NULL));
	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
	CHECK(!rdma_get_cm_event(channel, &event) && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	if (argc > 1 && !strcmp(argv[1], "late"))
		CHECK(!pthread_create(&thread, NULL, acknowledge, event));
	if (argc > 1 && !strcmp(argv[1], "ends_late"))
		CHECK(signal(SIGTERM, end_late) != SIG_ERR);
	held_up = argc > 1 && !strcmp(argv[1], "held_up");
	if (argc > 1 && !strcmp(argv[1], "migrate"))
		CHECK(!rdma_migrate_id(id, rdma_create_event_channel()));
	else
		CHECK(!rdma_destroy_id(id));
	pause();
	return 0;
}
