/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "bus_error.h"

/* A handler may look at it in a thread that never has: memory for it must be there already. */
#define OF_THIS_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))

/* Where the thread's access goes on if it meets the signal; NULL: it makes none. */
OF_THIS_THREAD sigjmp_buf *volatile landing;
OF_THIS_THREAD bool signal_comes; /* the thread did not block the signal when it was looked */

static struct sigaction others; /* what was there before ours; constant once ours is there */

/* The kernel sends it, of an access that this thread has made; nobody has called kill() or the like. */
static bool is_of_an_access(const siginfo_t *info)
{
	return info->si_code > 0;
}

/* As if ours were not there: without a handler the access is made again, and ends the program. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
	if (others.sa_flags & SA_SIGINFO) {
		others.sa_sigaction(signal, info, context);
	} else if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN) {
		others.sa_handler(signal);
	} else if (is_of_an_access(info) || others.sa_handler == SIG_DFL) {
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
		if (!is_of_an_access(info))
			raise(signal);
	}
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	sigjmp_buf *to = landing;

	if (!to || !is_of_an_access(info)) {
		pass_on(signal, info, context);
		return;
	}
	landing = NULL;
	siglongjmp(*to, 1);
}

static bool is_ours(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_bus_error;
}

static void install(void)
{
	/* SA_NODEFER: the jump out of the handler leaves the thread's mask as it was. */
	struct sigaction ours = { .sa_sigaction = on_bus_error,
				  .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART };

	sigemptyset(&ours.sa_mask);
	/* Known before ours can run, which needs it. */
	sigaction(SIGBUS, NULL, &others);
	sigaction(SIGBUS, &ours, NULL);
}

static bool look_for_signal(void)
{
	sigset_t blocked;

	signal_comes =
		!pthread_sigmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, SIGBUS) == 0;
	return signal_comes;
}

bool simhca_bus_errors_are_caught(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sigaction now;

	pthread_once(&once, install);
	return look_for_signal() && !sigaction(SIGBUS, NULL, &now) && is_ours(&now);
}

bool simhca_guard_access(void (*access)(void *arg), void *arg)
{
	sigjmp_buf here;

	if (!signal_comes && !look_for_signal())
		return false;
	if (sigsetjmp(here, 0))
		return false;
	landing = &here;
	access(arg);
	landing = NULL;
	return true;
}

struct instruction {
	const struct simhca_atomic_op *op;
	_Atomic uint64_t *at;
	uint64_t *old;
};

static void execute(void *arg)
{
	const struct instruction *instruction = arg;

	*instruction->old = simhca_atomic_execute(instruction->op, instruction->at);
}

bool simhca_guarded_atomic(bool may_fail, const struct simhca_atomic_op *op, _Atomic uint64_t *at,
			   uint64_t *old)
{
	struct instruction one = { op, at, old };

	if (may_fail)
		return simhca_guard_access(execute, &one);
	execute(&one);
	return true;
}
