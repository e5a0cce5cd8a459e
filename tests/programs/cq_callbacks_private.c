/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion callbacks on a device of our own:
 *
 *	death SIGNAL	kill the daemon; what is outstanding is flushed, and all can be freed
 *	idle SECONDS	how much CPU time armed CQs without traffic cost us and the daemon
 */
#include <sys/socket.h>

#include "callbacks.h"

static pid_t daemon_of(const struct ibv_context *context)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	CHECK(!getsockopt(context->cmd_fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
	CHECK(peer.pid > 0);
	return peer.pid;
}

/* Nanoseconds that a process has run, threads that have ended included. */
static uint64_t cpu_time(pid_t pid)
{
	struct timespec ran;
	clockid_t clock;

	CHECK(!clock_getcpuclockid(pid, &clock));
	CHECK(!clock_gettime(clock, &ran));
	return (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
}

/* CQs of every kind on every vector, which have worked and are armed. */
static struct echo *armed_cqs(struct ibv_pd *pd, int *number)
{
	int vectors = pd->context->num_comp_vectors;
	struct echo *echoes = calloc((size_t)vectors * 3, sizeof(*echoes));

	CHECK(echoes);
	*number = 0;
	EACH_CONTEXT (ctx)
		for (int i = 0; i < vectors; i++) {
			echoes[*number] = new_echo_on(pd, i, ctx);
			works(&echoes[(*number)++]);
		}
	return echoes;
}

static void idle(int seconds)
{
	struct ibv_pd *pd = new_pd();
	static struct request received = { .cqe = { count } };
	pid_t peer = daemon_of(pd->context);
	uint64_t ours, its;
	int number;
	struct echo *echoes = armed_cqs(pd, &number);

	for (int i = 0; i < number; i++)
		CHECK(!try_recv(echoes[i].qp, &received));
	usleep(200000);
	ours = cpu_time(getpid());
	its = cpu_time(peer);
	sleep((unsigned int)seconds);
	printf("%.6f %.6f\n", (double)(cpu_time(getpid()) - ours) / 1e9,
	       (double)(cpu_time(peer) - its) / 1e9);
	/* They were armed all the time. */
	for (int i = 0; i < number; i++) {
		received.done = 0;
		CHECK(!try_send(echoes[i].qp, NULL, IBV_SEND_SIGNALED));
		AWAIT_WITH(&echoes[i], received.done == 1);
	}
	printf("done\n");
}

static void death(int signal)
{
	struct ibv_pd *pd = new_pd();
	static struct request sent[16], received[16][3];
	uint64_t before;
	int number;
	struct echo *echoes = armed_cqs(pd, &number);

	CHECK(number <= 16);
	for (int i = 0; i < number; i++) {
		sent[i].cqe.done = count;
		for (int j = 0; j < 3; j++) {
			received[i][j].cqe.done = count;
			CHECK(!try_recv(echoes[i].qp, &received[i][j]));
		}
	}
	CHECK(!kill(daemon_of(pd->context), signal));
	for (int i = 0; i < number; i++) {
		for (int j = 0; j < 3; j++) {
			AWAIT_WITH(&echoes[i], received[i][j].done == 1);
			CHECK(received[i][j].wc.status == IBV_WC_WR_FLUSH_ERR);
			CHECK_REASON(received[i][j].wc.vendor_err, SIMHCA_REASON_DEVICE_GONE);
		}
		CHECK(try_send(echoes[i].qp, &sent[i], IBV_SEND_SIGNALED) == EIO);
	}
	before = cpu_time(getpid());
	sleep(2);
	CHECK(cpu_time(getpid()) - before < 200000000); /* a tenth: they do not spin */
	for (int i = 0; i < number; i++) {
		for (int j = 0; j < 3; j++)
			CHECK(received[i][j].done == 1);
		CHECK(!sent[i].done);
		free_echo(&echoes[i]);
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker") &&
	      !threads_named("simhca-manager"));
	CHECK(!ibv_dealloc_pd(pd));
	free(echoes);
	printf("done\n");
}

TEST(idle)
{
	idle(atoi(getenv("SECONDS")));
}

TEST(death)
{
	death(atoi(getenv("SIGNAL")));
}
