/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "midway.h"
#include "paging.h"

void (*midway)(void *arg);
static void *midway_arg;
unsigned int touched;
bool copies_fail;
int map_query_error;

void in_the_middle(void (*happens)(void *arg), void *arg)
{
	midway = happens;
	midway_arg = arg;
	touched = 0;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	ssize_t got = syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
	void (*happens)(void *arg) = midway;
	int error = errno;

	touched++;
	midway = NULL;
	if (happens)
		happens(midway_arg);
	if (copies_fail) {
		got = -1;
		error = EFAULT;
	}
	errno = error;
	return got;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
			  const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	if (copies_fail) {
		errno = EFAULT;
		return -1;
	}
	return syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	if (map_query_error) {
		errno = map_query_error;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

pid_t another_process(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

bool poll_fault(struct world *world)
{
	return simhca_faults_poll(world->fabric);
}

unsigned int pending(const struct side *side)
{
	struct simhca_qp_info now = info(side);
	unsigned int count = 0;

	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++)
		count += now.fault_pending[i];
	return count;
}

struct pair *two_faults(struct world *world)
{
	struct pair *pair = paging_pair(world, IBV_QPT_RC, 8);

	pair->b.mr = mr_new(pair->b.client, PAGE, ALL_ACCESS);
	rdma_write(&pair->a, 1, 0, 100, 0);
	rdma_read(&pair->a, 2, PAGE, 100, 0);
	run_until_idle(world);
	assert_int_equal(pending(&pair->a), 2);
	return pair;
}

int advise(struct prefetch *prefetch, uint32_t advice, uint32_t flags, uint32_t length)
{
	prefetch->req.pd = prefetch->mr->client->pd;
	prefetch->req.advice = advice;
	prefetch->req.flags = flags;
	prefetch->req.num_sge = 1;
	prefetch->req.sge[0] = sge(prefetch->mr, 0, length);
	return simhca_advise_mr(prefetch->mr->client->context, &prefetch->req, NULL);
}

int outcome(struct prefetch *prefetch)
{
	return simhca_advise_mr(prefetch->mr->client->context, &prefetch->req, NULL);
}
