/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion callbacks: the calls of simhca/cq.h, and what one turn of a CQ is. */
#include <signal.h>
#include <stdlib.h>

#include "dispatch.h"

/* Completions taken at once. */
#define BATCH 16

/*
 * What the program wrote before it posted is there when the completion comes, by way of the device.
 * ThreadSanitizer does not see that one: the program tells it by __tsan_release() of its cqe.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
#define AFTER_POST_OF(cqe) __tsan_acquire(cqe)
#else
#define AFTER_POST_OF(cqe)
#endif

/*
 * The callbacks of at most `budget` completions (-1: of all), one after the other; how many. Ends
 * early if the CQ is being freed: what was polled is delivered, and no more is polled. In a child
 * that a callback has forked it returns at once: the rest belongs to the parent.
 */
static int deliver(struct shca_served *served, const struct shca_run *run, int budget)
{
	struct ibv_wc wc[BATCH];
	struct simhcadv_cqe *cqe;
	int asked, polled, i, done = 0;

	while (done != budget &&
	       !atomic_load_explicit(&served->users.closing, memory_order_relaxed)) {
		asked = budget < 0 || budget - done > BATCH ? BATCH : budget - done;
		polled = ibv_poll_cq(served->cq, asked, wc);
		if (polled < 0 && !done)
			return -EIO;
		for (i = 0; i < polled; i++) {
			cqe = (struct simhcadv_cqe *)(uintptr_t)wc[i].wr_id;
			done++;
			if (!cqe)
				continue;
			AFTER_POST_OF(cqe);
			cqe->done(served->cq, &wc[i]);
			if (run->process != shca_process())
				return done;
		}
		if (polled < asked)
			break;
	}
	return done;
}

/*
 * A turn of a CQ: polls it until it is empty, arms it, and polls it until it is empty again, as a completion may
 * have come before the arm; each one that comes later raises an event. The CQ is armed once in a turn, as its
 * thread reads one event for each turn: a completion that is polled after the arm has either raised that event, or
 * has left the CQ armed. True: the budget is used up, and there may be more to poll.
 */
bool shca_served_turn(struct shca_served *served, const struct shca_run *run)
{
	bool armed = false;
	int delivered, done = 0;

	for (;;) {
		delivered = deliver(served, run, SHCA_TURN_BUDGET - done);
		if (run->process != shca_process())
			return false;
		if (armed && !delivered)
			return false;
		done += delivered > 0 ? delivered : 0;
		if (done == SHCA_TURN_BUDGET)
			return true;
		if (!armed && ibv_req_notify_cq(served->cq, 0)) {
			shca_poller_lost(served->poller);
			return false;
		}
		if (delivered < 0)
			return false;
		armed = true;
	}
}

static struct shca_served *create(struct ibv_cq *cq, enum simhcadv_poll_context poll_ctx)
{
	struct shca_served *served = calloc(1, sizeof(*served));
	int err;

	if (!served)
		return shca_null(ENOMEM);
	err = shca_users_init(&served->users);
	if (err) {
		free(served);
		return shca_null(err);
	}
	served->cq = cq;
	served->process = shca_process();
	served->poll_ctx = poll_ctx;
	return served;
}

static void destroy(struct shca_served *served)
{
	shca_users_destroy(&served->users);
	free(served);
}

struct ibv_cq *simhcadv_alloc_cq(struct ibv_context *context, void *cq_context, int nr_cqe,
				 int comp_vector, enum simhcadv_poll_context poll_ctx)
{
	struct ibv_comp_channel *channel = NULL;
	struct shca_poller *poller = NULL;
	struct shca_served *served;
	struct ibv_cq *cq;
	int err;

	if (nr_cqe < 1 || comp_vector < 0 || comp_vector >= context->num_comp_vectors)
		return shca_null(EINVAL);
	switch (poll_ctx) {
	case SIMHCADV_POLL_DIRECT:
		break;
	case SIMHCADV_POLL_SOFTIRQ:
	case SIMHCADV_POLL_WORKQUEUE:
		poller = shca_poller_get(context, comp_vector, poll_ctx == SIMHCADV_POLL_WORKQUEUE);
		if (!poller)
			return NULL;
		channel = shca_poller_channel(poller);
		break;
	default:
		return shca_null(EINVAL);
	}

	cq = ibv_create_cq(context, nr_cqe, cq_context, channel, comp_vector);
	if (!cq)
		goto err_poller;
	served = create(cq, poll_ctx);
	if (!served)
		goto err_cq;
	served->poller = poller;
	shca_registry_add(served);
	if (poller)
		shca_poller_add(poller, served);
	return cq;

err_cq:
	err = errno;
	ibv_destroy_cq(cq);
	errno = err;
err_poller:
	err = errno;
	if (poller)
		shca_poller_put(poller);
	return shca_null(err);
}

/*
 * It and its threads are the parent's, who goes on using it; so the child only drops what it knows
 * of it.
 */
static int forget(struct shca_served *served)
{
	shca_registry_remove(served);
	destroy(served);
	return 0;
}

/* Whoever frees it is alone with it. */
static int destroy_served(struct shca_served *served)
{
	struct shca_poller *poller = served->poller;
	int err;

	if (poller)
		shca_poller_remove(poller, served);
	/* Before it is destroyed: another thread may then create a CQ at the same address. */
	shca_registry_remove(served);
	err = ibv_destroy_cq(served->cq);
	if (err)
		shca_registry_add(served);
	if (poller) {
		if (err)
			shca_poller_add(poller, served);
		shca_poller_gone(poller);
		if (!err)
			shca_poller_put(poller);
	}
	return err;
}

int simhcadv_free_cq(struct ibv_cq *cq)
{
	struct shca_served *served = shca_registry_find(cq);
	int err;

	if (!served)
		return shca_result(EINVAL);
	shca_users_adopt(&served->users);
	err = shca_users_close(served);
	shca_registry_unlock(cq);
	if (err)
		return shca_result(err);

	err = shca_users_wait(served);
	if (!err && served->process != shca_process())
		return forget(served);
	if (!err)
		err = destroy_served(served);
	if (!err) {
		destroy(served);
		return 0;
	}
	/* It goes on, with a turn now for those that it has missed. */
	shca_users_reopen(served);
	if (served->poller && served->process == shca_process()) {
		shca_rotation_want(served);
		shca_poller_kick(served->poller);
	}
	return shca_result(err);
}

int simhcadv_process_cq_direct(struct ibv_cq *cq, int budget)
{
	struct shca_served *served;
	struct shca_run run;
	bool entered;
	int done;

	if (budget < -1)
		return -EINVAL;
	served = shca_registry_find(cq);
	if (!served)
		return -EINVAL;
	shca_users_adopt(&served->users);
	entered = served->poll_ctx == SIMHCADV_POLL_DIRECT && shca_users_enter(served, &run);
	shca_registry_unlock(cq);
	if (!entered)
		return -EINVAL;
	done = deliver(served, &run, budget);
	shca_users_exit(&run);
	return done;
}

/* ------------------------------------------------------------------------------- threads */

int shca_start_thread(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	/* Those that a callback raises itself, by a fault, are its thread's own. */
	static const int faults[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
	sigset_t blocked, before;
	size_t i;
	int err;

	sigfillset(&blocked);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&blocked, faults[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_setname_np(*thread, name);
	return err;
}
