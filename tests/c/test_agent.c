/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How long an agent is waited for: a process that is stopped has all the time, one that runs has
 * not. */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dma/dma.h"
#include "harness.h"

#define BOUNCE 4096u
#define LONGER_THAN_THE_LIMIT 6 /* seconds */

struct scene {
	struct simhca_fabric *fabric;
	struct simhca_agent *agent;
	pid_t pid;
	_Atomic int error; /* of the copy */
	double seconds;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

enum answers { RIGHT_ONES, NONE, OTHERS };

static void serve(int fd, enum answers answers)
{
	struct simhca_agent_req req;

	while (recv(fd, &req, sizeof(req), 0) == sizeof(req)) {
		struct simhca_agent_reply reply = { .seq = req.seq + (answers == OTHERS) };

		if (answers != NONE && send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

static struct scene make(enum answers answers)
{
	const struct simhca_ops ops = { 0 };
	struct scene scene = { .fabric = simhca_fabric_create(&ops), .error = -1 };
	int pair[2], bounce = memfd_create("bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(0, ftruncate(bounce, BOUNCE));
	assert_int_equal(0, fcntl(bounce, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	scene.pid = fork();
	if (!scene.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of one that is stopped */
		close(pair[0]);
		serve(pair[1], answers);
	}
	close(pair[1]);
	scene.agent = simhca_agent_create(scene.pid, pair[0], bounce, BOUNCE);
	assert_non_null(scene.agent);
	close(bounce);
	return scene;
}

static void *copy(void *arg)
{
	struct scene *scene = arg;
	char byte = 0;
	struct iovec remote = { .iov_base = &byte, .iov_len = 1 };
	double start = now();

	scene->error = simhca_agent_copy(scene->agent, true, &remote, 1, &byte, 1);
	scene->seconds = now() - start;
	return NULL;
}

static pthread_t begin(struct scene *scene)
{
	pthread_t thread;

	assert_int_equal(0, pthread_create(&thread, NULL, copy, scene));
	return thread;
}

static void end(struct scene *scene)
{
	simhca_agent_destroy(scene->fabric, scene->agent);
	simhca_fabric_destroy(scene->fabric);
	kill(scene->pid, SIGKILL);
	assert_int_equal(scene->pid, waitpid(scene->pid, NULL, 0));
}

static void suspend(const struct scene *scene)
{
	int status;

	assert_int_equal(0, kill(scene->pid, SIGSTOP));
	assert_int_equal(scene->pid, waitpid(scene->pid, &status, WUNTRACED));
	assert_true(WIFSTOPPED(status));
}

/* All at once, for each of them waits. */
static void how_long_it_is_waited_for(void **state)
{
	struct scene stopped = make(RIGHT_ONES), killed = make(RIGHT_ONES), idle = make(NONE);
	pthread_t waiting[3];

	suspend(&stopped);
	suspend(&killed);
	waiting[0] = begin(&stopped);
	waiting[1] = begin(&killed);
	waiting[2] = begin(&idle);
	sleep(LONGER_THAN_THE_LIMIT);
	assert_int_equal(stopped.error, -1);
	assert_int_equal(killed.error, -1);
	kill(stopped.pid, SIGCONT);
	kill(killed.pid, SIGKILL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(0, pthread_join(waiting[i], NULL));
	/* It goes on as if nothing had been. */
	assert_int_equal(stopped.error, 0);
	copy(&stopped);
	assert_int_equal(stopped.error, 0);
	assert_int_equal(killed.error, ESRCH);
	assert_int_equal(idle.error, ETIMEDOUT);
	assert_true(idle.seconds > 4);
	/* For good. */
	copy(&idle);
	assert_int_equal(idle.error, ETIMEDOUT);
	assert_true(idle.seconds < 1);
	end(&stopped);
	end(&killed);
	end(&idle);
}

/* They would keep the device waiting as long as they come. */
static void answers_to_something_else(void **state)
{
	struct scene scene = make(OTHERS);

	copy(&scene);
	assert_int_equal(scene.error, ESRCH);
	assert_true(scene.seconds < 4);
	end(&scene);
}

static void is_refused(int bounce, uint64_t size)
{
	int pair[2];

	assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	errno = 0;
	assert_null(simhca_agent_create(getpid(), pair[0], bounce, size));
	assert_int_equal(errno, EINVAL);
	close(pair[0]);
	close(pair[1]);
}

/* Where an access could be a signal: beyond the end, or in a hole that there is no page for. */
static void memory_that_is_refused(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const uint64_t size = 4u << 20;
	int bounce = memfd_create("bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_true(bounce >= 0);
	assert_int_equal(0, ftruncate(bounce, (off_t)size));
	is_refused(bounce, size); /* it is not sealed */
	assert_int_equal(0, fcntl(bounce, F_ADD_SEALS, F_SEAL_GROW));
	is_refused(bounce, size);
	assert_int_equal(0, fcntl(bounce, F_ADD_SEALS, seals));
	is_refused(bounce, size + 1);
	is_refused(bounce, 4095);
	close(bounce);
	/* Its owner can punch a hole there, and take all huge pages. */
	bounce = memfd_create("bounce",
			      MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
	if (bounce < 0)
		return; /* a kernel without huge pages of that size */
	assert_int_equal(0, ftruncate(bounce, (off_t)size));
	assert_int_equal(0, fcntl(bounce, F_ADD_SEALS, seals));
	is_refused(bounce, size);
	close(bounce);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_long_it_is_waited_for),
		cmocka_unit_test(answers_to_something_else),
		cmocka_unit_test(memory_that_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
