/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* fork() while another thread is inside of libibverbs. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "dv.h"

static sem_t held;

/* As long as libibverbs would hold it if the thread lost its CPU there. */
static void *hold_mutex(void *arg)
{
	struct ibv_context *context = arg;

	pthread_mutex_lock(&context->mutex);
	sem_post(&held);
	usleep(100000);
	pthread_mutex_unlock(&context->mutex);
	return NULL;
}

static void use(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq;

	CHECK(channel);
	cq = ibv_create_cq(context, 10, NULL, channel, 0);
	CHECK(cq && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
}

/* The child does not inherit the mutex of a context in the state of being held; nor of two. */
TEST(inherited_contexts)
{
	struct ibv_context *context[2] = { open_device(), open_device() };
	pthread_t thread;
	pid_t child;
	int status;

	CHECK(!sem_init(&held, 0, 0));
	for (int i = 0; i < 2; i++) {
		CHECK(!pthread_create(&thread, NULL, hold_mutex, context[i]));
		sem_wait(&held);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			alarm(20);
			use(context[i]);
			use(context[!i]);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
		CHECK(!pthread_join(thread, NULL));
		use(context[i]);
	}
	/* One that is closed is left alone. */
	CHECK(!ibv_close_device(context[0]));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child && !status);
	use(context[1]);
}
