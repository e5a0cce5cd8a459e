/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhcadv_free_cq(): what it waits for, from where it may be called, and forked children. */

#include "callbacks.h"

/* While QPs use the CQ it is refused, and nothing has changed. */
TEST(busy)
{
	EACH_CONTEXT (ctx) {
		struct echo echo = new_echo(ctx);

		works(&echo);
		for (int i = 0; i < 20; i++) {
			CHECK(simhcadv_free_cq(echo.cq) == EBUSY);
			works(&echo);
		}
		free_echo(&echo);
		CHECK(simhcadv_free_cq(echo.cq) == EINVAL);
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker"));
}

/* -------------------------------------------------------------------- from other threads */

static sem_t go, go_on;
static atomic_bool entered, left;

static void slow(struct ibv_cq *cq, struct ibv_wc *wc)
{
	entered = true;
	wait_for(&go);
	usleep(30000);
	left = true;
	count(cq, wc);
}

static void *process(void *arg)
{
	struct echo *echo = arg;
	double end = now() + TIME_LIMIT;

	while (!simhcadv_process_cq_direct(echo->cq, 1))
		CHECK(now() < end);
	return NULL;
}

/* It returns when the callback under way has. */
TEST(waits_for_callbacks)
{
	EACH_CONTEXT (ctx) {
		struct request received = { .cqe = { slow } };
		struct echo echo = new_echo(ctx);
		pthread_t poller;

		CHECK(!sem_init(&go, 0, 0));
		entered = left = false;
		if (ctx == DIRECT)
			start_thread(&poller, process, &echo);
		message(&echo, NULL, &received);
		AWAIT(entered);
		CHECK(!ibv_destroy_qp(echo.qp));
		sem_post(&go);
		CHECK(!left);
		CHECK(!simhcadv_free_cq(echo.cq));
		CHECK(left);
		if (ctx == DIRECT)
			CHECK(!pthread_join(poller, NULL));
	}
}

struct freeing {
	struct ibv_cq *cq;
	int result;
	pthread_t thread;
};

static atomic_int already;

static void *free_in_thread(void *arg)
{
	struct freeing *freeing = arg;

	freeing->result = simhcadv_free_cq(freeing->cq);
	if (freeing->result == EALREADY && !already++)
		sem_post(&go);
	return NULL;
}

/* Of several who free it at once, one does; the others are told that it is being done. */
TEST(several_at_once)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct request received = { .cqe = { slow } };
		struct echo echo = new_echo(ctx);
		struct freeing freeing[3] = {};
		int freed = 0;

		CHECK(!sem_init(&go, 0, 0));
		entered = false;
		already = 0;
		message(&echo, NULL, &received);
		AWAIT(entered);
		CHECK(!ibv_destroy_qp(echo.qp));
		for (int i = 0; i < 3; i++) {
			freeing[i].cq = echo.cq;
			start_thread(&freeing[i].thread, free_in_thread, &freeing[i]);
		}
		for (int i = 0; i < 3; i++) {
			CHECK(!pthread_join(freeing[i].thread, NULL));
			freed += !freeing[i].result;
			CHECK(!freeing[i].result || freeing[i].result == EALREADY ||
			      freeing[i].result == EINVAL); /* it came late */
		}
		CHECK(freed == 1);
	}
}

/* What comes while the CQ is about to be freed is delivered if it is not freed after all. */
TEST(refused_while_completions_come)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct request received = { .cqe = { slow } }, next = { .cqe = { count } };
		struct echo echo = new_echo(ctx);
		struct freeing freeing = { .cq = echo.cq };

		CHECK(!sem_init(&go, 0, 0));
		entered = false;
		already = 1;
		message(&echo, NULL, &received);
		AWAIT(entered);
		start_thread(&freeing.thread, free_in_thread, &freeing);
		usleep(20000); /* so that it waits for the callback, most likely */
		message(&echo, NULL, &next);
		usleep(2000);
		sem_post(&go);
		CHECK(!pthread_join(freeing.thread, NULL));
		CHECK(freeing.result == EBUSY);
		AWAIT(next.done == 1);
		works(&echo);
		free_echo(&echo);
	}
}

/* ------------------------------------------------------------------------ from callbacks */

struct free_other {
	struct request request;
	struct ibv_cq *other;
	int result;
};

static void free_another(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct free_other *free_other = to_request(wc)->arg;

	free_other->result = simhcadv_free_cq(free_other->other);
	count(cq, wc);
}

static void init_free_other(struct free_other *free_other, struct ibv_cq *other)
{
	memset(free_other, 0, sizeof(*free_other));
	free_other->other = other;
	free_other->result = -1;
	free_other->request.cqe.done = free_another;
	free_other->request.arg = free_other;
}

/* A callback of a CQ of each kind frees one of each kind, of its own vector and of another one. */
TEST(callback_frees_another)
{
	struct ibv_pd *pd = new_pd();

	EACH_CONTEXT (ctx) {
		struct echo echo = new_echo_on(pd, 0, ctx);

		EACH_CONTEXT (other_ctx) {
			for (int vector = 0; vector < 2; vector++) {
				struct echo other = new_echo_on(pd, vector, other_ctx);
				struct request late = { .cqe = { count } };
				struct free_other free_other;

				works(&other);
				/* In both turns of the same round, if it is the same thread. */
				message(&other, NULL, &late);
				CHECK(!ibv_destroy_qp(other.qp));
				init_free_other(&free_other, other.cq);
				message(&echo, NULL, &free_other.request);
				AWAIT_WITH(&echo, free_other.request.done == 1);
				CHECK(!free_other.result);
				CHECK(simhcadv_free_cq(other.cq) == EINVAL);
				works(&echo);
			}
		}
		free_echo(&echo);
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker"));
}

static void wait_to_go_on(struct ibv_cq *cq, struct ibv_wc *wc)
{
	entered = true;
	wait_for(&go_on);
	count(cq, wc);
}

/* The CQ that is freed has been told of its event, and waits for its turn behind the one who frees.
 */
TEST(callback_frees_one_that_waits)
{
	struct ibv_pd *pd = new_pd();
	struct echo first = new_echo_on(pd, 0, SOFTIRQ), echo = new_echo_on(pd, 0, SOFTIRQ);

	CHECK(!sem_init(&go_on, 0, 0));
	for (int i = 0; i < 50; i++) {
		struct echo other = new_echo_on(pd, 0, SOFTIRQ);
		struct request blocks = { .cqe = { wait_to_go_on } }, late = { .cqe = { count } };
		struct free_other free_other;

		works(&echo);
		works(&other);
		init_free_other(&free_other, other.cq);
		entered = false;
		message(&first, NULL, &blocks);
		AWAIT(entered);
		/* Both events come while the thread is in that callback, in this order. */
		message(&echo, NULL, &free_other.request);
		message(&other, NULL, &late);
		usleep(2000);
		CHECK(!ibv_destroy_qp(other.qp));
		sem_post(&go_on);
		AWAIT(free_other.request.done == 1);
		CHECK(!free_other.result && !late.done);
		works(&echo);
	}
	free_echo(&first);
	free_echo(&echo);
}

/* Its own CQ: that can never be waited for. The CQ goes on. */
TEST(callback_frees_its_own)
{
	EACH_CONTEXT (ctx) {
		struct echo echo = new_echo(ctx);
		struct free_other free_other;

		init_free_other(&free_other, echo.cq);
		message(&echo, NULL, &free_other.request);
		AWAIT_WITH(&echo, free_other.request.done == 1);
		CHECK(free_other.result == EDEADLK);
		works(&echo);
		free_echo(&echo);
	}
}

static struct echo inner;
static struct free_other inner_free;

static void process_inner(struct ibv_cq *cq, struct ibv_wc *wc)
{
	AWAIT_WITH(&inner, inner_free.request.done == 1);
	count(cq, wc);
}

/* A callback that polls a DIRECT CQ, a callback of which frees the outer one. */
TEST(callback_frees_the_outer_one)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct request outer = { .cqe = { process_inner } };
		struct echo echo = new_echo(ctx);

		inner = new_echo_on(echo.pd, 0, DIRECT);
		init_free_other(&inner_free, echo.cq);
		message(&inner, NULL, &inner_free.request);
		message(&echo, NULL, &outer);
		AWAIT(outer.done == 1);
		CHECK(inner_free.result == EDEADLK);
		works(&echo);
		free_echo(&echo);
		free_echo(&inner);
	}
}

#define CIRCLE 4
static struct echo circle[CIRCLE];
static struct free_other circle_free[CIRCLE];
static atomic_int in_circle;
static atomic_bool qps_gone;

static void free_in_circle(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct free_other *free_other = to_request(wc)->arg;

	atomic_fetch_add(&in_circle, 1);
	AWAIT(qps_gone);
	free_other->result = simhcadv_free_cq(free_other->other);
	count(cq, wc);
}

/* Each of four callbacks frees the next one's CQ: the last to ask is refused, the others succeed.
 */
TEST(callbacks_free_in_a_circle)
{
	struct ibv_pd *pd = new_pd();

	for (int round = 0; round < 20; round++) {
		int refused = 0, freed = 0;

		in_circle = 0;
		qps_gone = false;
		/* Two on vectors of their own, two on the workqueue. */
		for (int i = 0; i < CIRCLE; i++)
			circle[i] = new_echo_on(pd, i, i % 2 ? SOFTIRQ : WORKQUEUE);
		for (int i = 0; i < CIRCLE; i++) {
			init_free_other(&circle_free[i], circle[(i + 1) % CIRCLE].cq);
			circle_free[i].request.cqe.done = free_in_circle;
			message(&circle[i], NULL, &circle_free[i].request);
		}
		AWAIT(in_circle == CIRCLE);
		for (int i = 0; i < CIRCLE; i++)
			CHECK(!ibv_destroy_qp(circle[i].qp));
		qps_gone = true;
		for (int i = 0; i < CIRCLE; i++) {
			AWAIT(circle_free[i].request.done == 1);
			CHECK(!circle_free[i].result || circle_free[i].result == EDEADLK);
			if (circle_free[i].result)
				refused = i;
			else
				freed++;
		}
		CHECK(freed == CIRCLE - 1);
		CHECK(!simhcadv_free_cq(circle_free[refused].other));
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker"));
}

/* --------------------------------------------------------------------------- under load */

struct load {
	struct echo echo;
	struct request received;
	atomic_bool stop;
	atomic_long flushed;
};

/* A send of a QP that is not to fail on its own. */
static void load_sent(struct ibv_cq *cq, struct ibv_wc *wc)
{
	(void)cq;
	if (wc->status && wc->status != IBV_WC_WR_FLUSH_ERR)
		fprintf(stderr, "%s (%s)\n", ibv_wc_status_str(wc->status),
			simhca_reason_text(wc->vendor_err));
	CHECK(!wc->status || wc->status == IBV_WC_WR_FLUSH_ERR);
}

static struct request load_send = { .cqe = { load_sent } };

/* Keeps itself going until the QP fails. */
static void keep_going(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct load *load = to_request(wc)->arg;

	(void)cq;
	if (wc->status) {
		CHECK(wc->status == IBV_WC_WR_FLUSH_ERR);
		atomic_fetch_add(&load->flushed, 1);
		return;
	}
	atomic_fetch_add(&load->received.done, 1);
	CHECK(!try_recv(load->echo.qp, &load->received));
	CHECK(!try_send(load->echo.qp, &load_send, IBV_SEND_SIGNALED));
}

static void start_load(struct load *load, struct echo echo)
{
	memset(load, 0, sizeof(*load));
	load->echo = echo;
	load->received.cqe.done = keep_going;
	load->received.arg = load;
	for (int i = 0; i < 8; i++)
		CHECK(!try_recv(load->echo.qp, &load->received));
	for (int i = 0; i < 4; i++)
		CHECK(!try_send(load->echo.qp, &load_send, IBV_SEND_SIGNALED));
}

/* It stands still: what the QP is at, and whether it is the completions that nobody takes. */
static void give_up(struct load *load, long received)
{
	struct ibv_cq *cq = load->echo.cq;
	enum ibv_qp_state state = state_of(load->echo.qp);
	struct ibv_wc wc = {};
	int polled = ibv_poll_cq(cq, 1, &wc);

	fprintf(stderr,
		"poll context %d: %ld receives, %ld before, %ld flushed, QP state %d, %u events, "
		"polled %d (%s)\n",
		load->echo.poll_ctx, (long)load->received.done, received, (long)load->flushed,
		state, cq->comp_events_completed, polled, ibv_wc_status_str(wc.status));
	exit(1);
}

static void end_load(struct load *load)
{
	long received = load->received.done;
	double end = now() + TIME_LIMIT;

	while (load->received.done <= received + 20) {
		if (now() > end)
			give_up(load, received);
		usleep(50);
	}
	to_state(load->echo.qp, IBV_QPS_ERR);
	AWAIT(load->flushed >= 8);
	free_echo(&load->echo);
}

struct churn {
	struct ibv_pd *pd;
	enum simhcadv_poll_context poll_ctx;
	pthread_t thread;
};

static void *churn(void *arg)
{
	struct churn *churn = arg;
	struct load load;
	int rounds = getenv("SIMHCA_SOAK") ? 1000 : 40;

	for (int i = 0; i < rounds; i++) {
		start_load(&load, new_echo_on(churn->pd, i % 2, churn->poll_ctx));
		end_load(&load);
	}
	return NULL;
}

/* CQs are freed and made while others on the same threads are busy, by several threads. */
TEST(under_load)
{
	struct ibv_pd *pd = new_pd();
	struct churn churns[4];
	struct load steady[2];

	start_load(&steady[0], new_echo_on(pd, 0, SOFTIRQ));
	start_load(&steady[1], new_echo_on(pd, 0, WORKQUEUE));
	for (int i = 0; i < 4; i++) {
		churns[i] = (struct churn){ .pd = pd, .poll_ctx = i % 2 ? SOFTIRQ : WORKQUEUE };
		start_thread(&churns[i].thread, churn, &churns[i]);
	}
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(churns[i].thread, NULL));
	end_load(&steady[0]);
	end_load(&steady[1]);
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker") &&
	      !threads_named("simhca-manager"));
}

/* Freed with completions that nobody has polled, and events that nobody has read. */
TEST(with_completions_and_events)
{
	struct ibv_pd *pd = new_pd();
	struct request received = { .cqe = { count } };

	for (int i = 0; i < 300; i++) {
		struct echo echo = new_echo_on(pd, 0, (enum simhcadv_poll_context)(i % 3));

		if (i % 2)
			works(&echo);
		for (int j = 0; j < 3; j++)
			message(&echo, NULL, &received);
		free_echo(&echo);
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker"));
}

/* --------------------------------------------------------------------------------- forks */

static void in_child(void (*work)(void *), void *arg)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		alarm(TIME_LIMIT);
		work(arg);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void free_all_and_work(void *arg)
{
	struct echo *inherited = arg, own;

	AWAIT(!threads_named("simhca-cq"));
	CHECK(simhcadv_process_cq_direct(inherited[DIRECT].cq, -1) == 0);
	EACH_CONTEXT (ctx) {
		/* The parent's QPs use them; the child has nothing to do with that. */
		CHECK(!simhcadv_free_cq(inherited[ctx].cq));
		CHECK(simhcadv_free_cq(inherited[ctx].cq) == EINVAL);
	}
	/* In the inherited context, on threads of its own. */
	EACH_CONTEXT (ctx) {
		own = new_echo_on(inherited[0].pd, 0, ctx);
		AWAIT(threads_named("simhca-cq") == (ctx != DIRECT));
		works(&own);
		free_echo(&own);
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker"));
}

static void nothing(void *arg)
{
	(void)arg;
}

/* CQs belong to the process that made them. A child that frees them forgets them. */
TEST(forked_child)
{
	struct ibv_pd *pd = new_pd();
	struct echo echoes[3];
	struct request received = { .cqe = { slow } };

	if (has_sanitizer())
		return;
	CHECK(!sem_init(&go, 0, 0));
	EACH_CONTEXT (ctx)
		echoes[ctx] = new_echo_on(pd, 0, ctx);
	for (int i = 0; i < 5; i++) {
		in_child(free_all_and_work, echoes);
		EACH_CONTEXT (ctx)
			works(&echoes[ctx]);
	}
	/* While a callback is under way, which the child can wait for in vain. */
	entered = false;
	message(&echoes[SOFTIRQ], NULL, &received);
	AWAIT(entered);
	in_child(free_all_and_work, echoes);
	sem_post(&go);
	AWAIT(received.done == 1);
	EACH_CONTEXT (ctx) {
		works(&echoes[ctx]);
		free_echo(&echoes[ctx]);
	}
}

/* Forks at any moment: no lock is held in the child that nobody lets go of. */
TEST(forks_under_load)
{
	struct ibv_pd *pd = new_pd();
	struct churn churns[2];
	struct echo echoes[3];

	if (has_sanitizer())
		return;
	EACH_CONTEXT (ctx)
		echoes[ctx] = new_echo_on(pd, 0, ctx);
	for (int i = 0; i < 2; i++) {
		churns[i] = (struct churn){ .pd = pd, .poll_ctx = i ? SOFTIRQ : WORKQUEUE };
		start_thread(&churns[i].thread, churn, &churns[i]);
	}
	for (int i = 0; i < 10; i++) {
		in_child(nothing, NULL);
		in_child(free_all_and_work, echoes);
	}
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(churns[i].thread, NULL));
	EACH_CONTEXT (ctx) {
		works(&echoes[ctx]);
		free_echo(&echoes[ctx]);
	}
}

static atomic_int child_status;
static pid_t parent;

static void only_in_parent(struct ibv_cq *cq, struct ibv_wc *wc)
{
	if (getpid() != parent)
		_exit(7);
	count(cq, wc);
}

static void fork_here(struct ibv_cq *cq, struct ibv_wc *wc)
{
	pid_t child = fork();
	int status = -1;

	CHECK(child >= 0);
	if (!child)
		return; /* which it should not */
	CHECK(waitpid(child, &status, 0) == child);
	child_status = status;
	count(cq, wc);
}

/*
 * A callback that forks, and goes on in the child as well: that ends, and takes nothing away. Not
 * even what was taken from the CQ together with the callback's own completion.
 */
TEST(callback_forks)
{
	if (has_sanitizer())
		return;
	parent = getpid();
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct request first = { .cqe = { wait_to_go_on } },
			       forks = { .cqe = { fork_here } };
		struct request received = { .cqe = { only_in_parent } };
		struct echo echo = new_echo(ctx);

		CHECK(!sem_init(&go_on, 0, 0));
		child_status = -1;
		entered = false;
		message(&echo, NULL, &first);
		AWAIT(entered);
		message(&echo, NULL, &forks);
		for (int i = 0; i < 100; i++)
			message(&echo, NULL, &received);
		usleep(20000); /* most of them are there by now */
		sem_post(&go_on);
		AWAIT(forks.done == 1 && received.done == 100);
		CHECK(!child_status);
		works(&echo);
		free_echo(&echo);
	}
}
