/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The system calls that the provider makes for a command, counted where it makes them: by the C
 * library's syscall() and getpid(), which this program has in their place. Prints, for each kind of
 * command, how many of each there were in so many commands. Commands of threads and of a forked
 * child go beside them: each gets its own answer.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMANDS 400
#define THREADS 24 /* more than there are slots for answers */

static atomic_ulong calls[1024], pids;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

long syscall(long number, ...)
{
	long arg[6], ret;
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	atomic_fetch_add(&calls[number & 1023], 1);
	ret = call(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	if (ret >= 0 || ret < -4095)
		return ret;
	errno = (int)-ret;
	return -1;
}

pid_t getpid(void)
{
	atomic_fetch_add(&pids, 1);
	return (pid_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static void begin(void)
{
	for (int i = 0; i < 1024; i++)
		atomic_store(&calls[i], 0);
	atomic_store(&pids, 0);
}

static void end(const char *what)
{
	printf("%s: commands=%d sendmsg=%lu recvmsg=%lu statx=%lu getpid=%lu futex=%lu\n", what,
	       COMMANDS, calls[SYS_sendmsg], calls[SYS_recvmsg], calls[SYS_statx], pids,
	       calls[SYS_futex]);
}

static void must(int right, const char *what)
{
	if (right)
		return;
	perror(what);
	exit(1);
}

static struct ibv_ah_attr address(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };

	must(!ibv_query_gid(context, 1, 0, &attr.grh.dgid), "ibv_query_gid");
	return attr;
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &attr);
}

/* Regions of different lengths and keys: an answer of another's would be seen. */
static void *work(void *arg __attribute__((unused)))
{
	char memory[64];

	for (int i = 0; i < 50; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
		struct ibv_qp *qp = new_qp();

		must(mr && qp, "ibv_create_qp");
		must(qp->qp_num && mr->lkey && mr->lkey == mr->rkey,
		     "an answer of another command");
		must(!ibv_destroy_qp(qp), "ibv_destroy_qp");
		must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		must(!pthread_create(&thread[i], NULL, work, NULL), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_ah *ah[COMMANDS];
	struct ibv_ah_attr attr;
	struct ibv_qp *qp;
	pid_t child;
	int status;

	context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	must(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	must(pd && cq, "ibv_create_cq");
	attr = address();
	qp = new_qp(); /* the queues of the next one are not the first in their memory */
	must(qp != NULL, "ibv_create_qp");

	begin();
	for (int i = 0; i < COMMANDS; i++)
		must((ah[i] = ibv_create_ah(pd, &attr)) != NULL, "ibv_create_ah");
	end("create_ah");
	begin();
	for (int i = 0; i < COMMANDS; i++)
		must(!ibv_destroy_ah(ah[i]), "ibv_destroy_ah");
	end("destroy_ah");

	child = fork();
	must(child >= 0, "fork");
	run_threads();
	if (!child)
		_exit(0);
	must(waitpid(child, &status, 0) == child && !status, "the child");
	puts("threads and a child: well");
	return 0;
}
