/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#include "bus_error.h"

#define PAGE 4096u /* bytes; of larger ones the address is exact */

/* Since Linux 4.7; libc's headers may not have it. */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

/* A handler may look at it in a thread that never has: memory for it must be there already. */
#define OF_THIS_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))

struct guarded {
	const struct simhca_guarded *access;
	sigjmp_buf end; /* where it goes on if it meets the signal */
};

OF_THIS_THREAD struct guarded *volatile under_way; /* NULL: the thread makes no access */
OF_THIS_THREAD bool signal_comes; /* the thread did not block the signal when it was looked */

OF_THIS_THREAD stack_t taken; /* what the thread had for signals when one ended its access */

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

/* A handler of the program's may have interrupted the access, and have touched something else. */
static bool touches(const struct simhca_guarded *access, uintptr_t addr)
{
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < access->memory[m].count; i++) {
			const struct iovec *iov = &access->memory[m].iov[i];
			/* Some machines say the page only. */
			const uintptr_t from = (uintptr_t)iov->iov_base & ~(uintptr_t)(PAGE - 1);

			if (addr >= from && addr < (uintptr_t)iov->iov_base + iov->iov_len)
				return true;
		}
	return false;
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	struct guarded *guarded = under_way;
	const ucontext_t *interrupted = context;

	if (!guarded || !is_of_an_access(info) ||
	    !touches(guarded->access, (uintptr_t)info->si_addr)) {
		pass_on(signal, info, context);
		return;
	}
	under_way = NULL;
	/* Who has called us may be a handler of the program's, or a sanitizer's, that blocks what it likes. */
	pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
	taken = interrupted->uc_stack;
	siglongjmp(guarded->end, 1);
}

static bool is_ours(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_bus_error;
}

static void install(void)
{
	/* SA_NODEFER: what it passes on by raise() arrives at once. */
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

bool simhca_guard_access(const struct simhca_guarded *access)
{
	struct guarded guarded = { .access = access };

	if (!signal_comes && !look_for_signal())
		return false;
	if (sigsetjmp(guarded.end, 0)) {
		/* The end of the handler would do so; not before the jump, as that stack is in use until then. */
		if ((unsigned int)taken.ss_flags & SS_AUTODISARM)
			sigaltstack(&taken, NULL);
		return false;
	}
	under_way = &guarded;
	access->run(access->arg);
	under_way = NULL;
	return true;
}

struct instruction {
	const struct simhca_atomic_op *op;
	_Atomic uint64_t *at;
	uint64_t *old;
};

/*
 * On memory that is mapped here: atomic for whoever else has it mapped, and for their CPUs. What was there is 0
 * for a store.
 */
SIMHCA_NOT_INSTRUMENTED static void execute(void *arg)
{
	const struct instruction *instruction = arg;
	const struct simhca_atomic_op *op = instruction->op;
	uint64_t old = op->compare;

	if (op->store) {
		atomic_store(instruction->at, op->swap_add);
		old = 0;
	} else if (op->compare_swap) {
		atomic_compare_exchange_strong(instruction->at, &old, op->swap_add);
	} else {
		old = atomic_fetch_add(instruction->at, op->swap_add);
	}
	*instruction->old = old;
}

bool simhca_guarded_atomic(bool may_fail, const struct simhca_atomic_op *op, _Atomic uint64_t *at,
			   uint64_t *old)
{
	struct instruction one = { op, at, old };
	const struct iovec word = { (void *)(uintptr_t)at, sizeof(*at) };
	const struct simhca_guarded access = { execute, &one, { { &word, 1 } } };

	bool done = true;

	SIMHCA_TSAN_RELEASE(at);
	if (may_fail)
		done = simhca_guard_access(&access);
	else
		execute(&one);
	SIMHCA_TSAN_ACQUIRE(at);
	return done;
}
