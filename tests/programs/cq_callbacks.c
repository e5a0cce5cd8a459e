/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion callbacks: arguments, what is delivered and where, budgets, fairness, blocking. */
#include "callbacks.h"

#define BUDGET 64  /* of one turn, as the man page says */
#define WORKERS 64 /* of the workqueue, likewise */

static struct ibv_qp *plain_sender;
static struct ibv_cq *plain_cq;

/* A QP with its sends on a CQ of the program's own. */
static struct ibv_qp *with_plain_sends(struct ibv_pd *pd, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr init = { .recv_cq = recv_cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { SLOTS, SLOTS, 1, 1, 0 } };

	init.send_cq = plain_cq = ibv_create_cq(pd->context, SLOTS, NULL, NULL, 0);
	plain_sender = plain_cq ? ibv_create_qp(pd, &init) : NULL;
	CHECK(plain_sender);
	start_qp_within(plain_sender, plain_sender->qp_num, 18, 7);
	return plain_sender;
}

TEST(arguments)
{
	struct ibv_context *context = new_pd()->context;
	struct ibv_cq *plain = ibv_create_cq(context, 10, NULL, NULL, 0), *cq;
	const struct {
		int nr_cqe, vector, poll_ctx;
	} wrong[] = { { 0, 0, SOFTIRQ },
		      { -1, 0, DIRECT },
		      { 10, -1, SOFTIRQ },
		      { 10, context->num_comp_vectors, SOFTIRQ },
		      { 10, context->num_comp_vectors, DIRECT },
		      { 1 << 30, 0, WORKQUEUE },
		      { 10, 0, WORKQUEUE + 1 },
		      { 10, 0, -1 } };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		CHECK(!simhcadv_alloc_cq(context, NULL, wrong[i].nr_cqe, wrong[i].vector,
					 (enum simhcadv_poll_context)wrong[i].poll_ctx) &&
		      errno == EINVAL);
	}
	/* None of these has left a thread. */
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-worker") &&
	      !threads_named("simhca-manager"));

	CHECK(simhcadv_free_cq(plain) == EINVAL);
	CHECK(simhcadv_process_cq_direct(plain, 1) == -EINVAL);
	EACH_CONTEXT (ctx) {
		cq = simhcadv_alloc_cq(context, &plain, 100, 1, ctx);
		CHECK(cq && cq->cq_context == &plain && cq->context == context && cq->cqe >= 100);
		CHECK(!cq->channel == (ctx == DIRECT));
		CHECK(simhcadv_process_cq_direct(cq, 1) == (ctx == DIRECT ? 0 : -EINVAL));
		CHECK(simhcadv_process_cq_direct(cq, -2) == -EINVAL);
		CHECK(!simhcadv_free_cq(cq));
		CHECK(simhcadv_process_cq_direct(cq, 1) == -EINVAL);
	}
	CHECK(!ibv_destroy_cq(plain));
}

static struct request *order[2 * SLOTS];
static int order_length;

static void note_order(struct ibv_cq *cq, struct ibv_wc *wc)
{
	CHECK(order_length < 2 * SLOTS);
	order[order_length++] = to_request(wc);
	count(cq, wc);
}

TEST(direct_budget)
{
	static struct request requests[100];
	struct echo echo = new_echo(DIRECT);
	int delivered = 0;

	for (int i = 0; i < 100; i++) {
		requests[i].cqe.done = note_order;
		CHECK(!try_recv(echo.qp, &requests[i]));
		CHECK(!try_send(echo.qp, NULL, 0));
	}
	while (delivered < 70) {
		static const int budgets[] = { 1, 3, 0, 16, 17, 33 };

		for (int i = 0; i < 6; i++) {
			int done = simhcadv_process_cq_direct(echo.cq, budgets[i]);

			CHECK(done >= 0 && done <= budgets[i]);
			delivered += done;
			CHECK(order_length == delivered);
		}
	}
	AWAIT_WITH(&echo, order_length == 100);
	for (int i = 0; i < 100; i++)
		CHECK(order[i] == &requests[i] && requests[i].wc.opcode == IBV_WC_RECV &&
		      requests[i].wc.qp_num == echo.qp->qp_num);
	CHECK(!simhcadv_process_cq_direct(echo.cq, -1));
	free_echo(&echo);
}

/* As many as there are, but no more than the budget. */
TEST(direct_budget_is_used)
{
	static struct request requests[100];
	struct ibv_pd *pd = new_pd();
	struct ibv_cq *cq = new_cq_on(pd->context, 0, DIRECT);
	struct ibv_qp *qp = with_plain_sends(pd, cq);

	for (int i = 0; i < 100; i++) {
		requests[i].cqe.done = note_order;
		CHECK(!try_recv(qp, &requests[i]));
		CHECK(!try_send(qp, NULL, i == 99 ? IBV_SEND_SIGNALED : 0));
	}
	poll_success(plain_cq); /* RC: all receives are complete by now */
	CHECK(simhcadv_process_cq_direct(cq, 5) == 5);
	CHECK(simhcadv_process_cq_direct(cq, 16) == 16);
	CHECK(simhcadv_process_cq_direct(cq, 40) == 40);
	CHECK(simhcadv_process_cq_direct(cq, 0) == 0);
	CHECK(simhcadv_process_cq_direct(cq, -1) == 39);
	CHECK(order_length == 100);
}

/* A wr_id of 0 is dropped, and counts. */
TEST(no_callback)
{
	EACH_CONTEXT (ctx) {
		struct echo echo = new_echo(ctx);
		struct request received = { .cqe = { count } };

		for (int i = 0; i < 20; i++) {
			CHECK(!try_recv(echo.qp, NULL));
			CHECK(!try_send(echo.qp, NULL, IBV_SEND_SIGNALED));
		}
		message(&echo, NULL, &received);
		AWAIT_WITH(&echo, received.done == 1);
		works(&echo);
		free_echo(&echo);
	}
}

static atomic_int inside;
static struct ibv_cq *expected_cq;

static void alone(struct ibv_cq *cq, struct ibv_wc *wc)
{
	CHECK(cq == expected_cq);
	CHECK(atomic_fetch_add(&inside, 1) == 0);
	if (!(order_length % 50))
		sched_yield();
	note_order(cq, wc);
	CHECK(atomic_fetch_sub(&inside, 1) == 1);
}

/* Each completion once, in the order of the queue, one callback at a time. */
TEST(in_order_and_alone)
{
	EACH_CONTEXT (ctx) {
		static struct request requests[SLOTS];
		struct echo echo = new_echo(ctx);

		expected_cq = echo.cq;
		order_length = 0;
		memset(requests, 0, sizeof(requests));
		for (int i = 0; i < SLOTS; i++) {
			requests[i].cqe.done = alone;
			message(&echo, NULL, &requests[i]);
		}
		AWAIT_WITH(&echo, requests[SLOTS - 1].done);
		AWAIT(!inside); /* the last callback may not be over yet */
		CHECK(order_length == SLOTS);
		for (int i = 0; i < SLOTS; i++)
			CHECK(order[i] == &requests[i] && requests[i].done == 1);
		free_echo(&echo);
	}
}

/* A queue pair that keeps itself busy. */
struct chain {
	struct echo echo;
	struct request received, sent;
	long rounds;
	const atomic_bool *may_begin; /* NULL: at once */
};

static void next_round(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct chain *chain = to_request(wc)->arg;

	CHECK(wc->status == IBV_WC_SUCCESS);
	while (chain->may_begin && !*chain->may_begin)
		usleep(100);
	if (chain->received.done + 1 < chain->rounds)
		message(&chain->echo, NULL, &chain->received);
	count(cq, wc);
}

static void start_chain_when(struct chain *chain, struct echo echo, long rounds,
			     const atomic_bool *may_begin)
{
	*chain = (struct chain){ .echo = echo, .rounds = rounds, .may_begin = may_begin };
	chain->received.cqe.done = next_round;
	chain->received.arg = chain;
	message(&chain->echo, NULL, &chain->received);
}

static void start_chain(struct chain *chain, struct echo echo, long rounds)
{
	start_chain_when(chain, echo, rounds, NULL);
}

TEST(callbacks_post)
{
	EACH_CONTEXT (ctx) {
		struct chain chain;

		start_chain(&chain, new_echo(ctx), 2000);
		AWAIT_WITH(&chain.echo, chain.received.done == 2000);
		free_echo(&chain.echo);
	}
}

static struct request missed = { .cqe = { count } };

/* A message that goes through while a callback runs. */
static void and_another_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	CHECK(!try_recv(plain_sender, &missed));
	CHECK(!try_send(plain_sender, NULL, IBV_SEND_SIGNALED));
	poll_success(plain_cq); /* RC: the receive is complete before the send is */
	count(cq, wc);
}

/*
 * The CQ is not armed while its callbacks run, and is not empty when it is armed: no event will say
 * so, but the hint does, or the poll after the arm.
 */
TEST(missed_before_the_arm)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct ibv_pd *pd = new_pd();
		struct ibv_cq *cq = new_cq_on(pd->context, 0, ctx);
		struct request received = { .cqe = { and_another_one } };
		struct ibv_qp *qp = with_plain_sends(pd, cq);

		missed.done = 0;
		for (int i = 0; i < 100; i++) {
			CHECK(!try_recv(qp, &received));
			CHECK(!try_send(qp, NULL, 0));
			AWAIT(missed.done == i + 1 && received.done == i + 1);
		}
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(plain_cq) && !simhcadv_free_cq(cq));
	}
}

static atomic_long rounds_done;

static void another_round(struct ibv_cq *cq, struct ibv_wc *wc)
{
	(void)cq;
	CHECK(wc->status == IBV_WC_SUCCESS);
	atomic_fetch_add(&rounds_done, 1);
}

/*
 * A completion comes at every moment from before the CQ is armed to after its thread sleeps. Were
 * one lost, the next would not be posted.
 */
TEST(no_lost_wakeup)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct echo echo = new_echo(ctx);
		struct request received = { .cqe = { another_round } };
		long rounds = getenv("SIMHCA_SOAK") ? 200000 : 2000;
		double end;

		rounds_done = 0;
		for (long i = 0; i < rounds; i++) {
			message(&echo, NULL, &received);
			end = now() + TIME_LIMIT;
			for (int looks = 0; rounds_done == i; looks++) {
				if (looks < 200)
					continue;
				sched_yield();
				CHECK(rounds_done != i || now() < end);
			}
			for (volatile long spin = (i * 37) % 3000; spin > 0; spin--)
				;
		}
		free_echo(&echo);
	}
}

/* Several producers on one CQ, which sleeps in between. */
static void *produce(void *arg)
{
	struct echo *echo = arg;
	struct request received = { .cqe = { count } };
	double end = now() + TIME_LIMIT;

	for (long i = 0; i < 500; i++) {
		message(echo, NULL, &received);
		while (received.done == i) {
			CHECK(now() < end);
			sched_yield();
		}
	}
	return NULL;
}

TEST(several_producers)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct echo echoes[4] = { new_echo(ctx) };
		pthread_t threads[4];

		for (int i = 1; i < 4; i++) {
			echoes[i] = echoes[0];
			echoes[i].qp = new_qp_on(echoes[0].pd, echoes[0].cq);
		}
		for (int i = 0; i < 4; i++)
			start_thread(&threads[i], produce, &echoes[i]);
		for (int i = 0; i < 4; i++) {
			CHECK(!pthread_join(threads[i], NULL));
			CHECK(!ibv_destroy_qp(echoes[i].qp));
		}
		CHECK(!simhcadv_free_cq(echoes[0].cq));
	}
}

TEST(flushed)
{
	EACH_CONTEXT (ctx) {
		struct request received = { .cqe = { count } }, sent = { .cqe = { count } };
		struct echo echo = new_echo(ctx);

		CHECK(!try_recv(echo.qp, &received));
		to_state(echo.qp, IBV_QPS_ERR);
		CHECK(!try_send(echo.qp, &sent, 0));
		AWAIT_WITH(&echo, received.done == 1 && sent.done == 1);
		CHECK(received.wc.status == IBV_WC_WR_FLUSH_ERR);
		CHECK(sent.wc.status == IBV_WC_WR_FLUSH_ERR);
		free_echo(&echo);
	}
}

/* ------------------------------------------------------------------------------ fairness */

static sem_t gate;
static atomic_bool gate_reached, second_done;
static atomic_long first_before_second;

static void first_of_many(struct ibv_cq *cq, struct ibv_wc *wc)
{
	if (!atomic_exchange(&gate_reached, true))
		wait_for(&gate);
	count(cq, wc);
	if (!second_done)
		first_before_second++;
}

static void second(struct ibv_cq *cq, struct ibv_wc *wc)
{
	second_done = true;
	count(cq, wc);
}

/*
 * A CQ with a thousand completions, and another of the same vector with one, which comes in the
 * first CQ's first turn: it waits for two turns at most.
 */
TEST(fair_by_budget)
{
	struct echo many = new_echo(SOFTIRQ), one = new_echo_on(many.pd, 0, SOFTIRQ);
	struct request first = { .cqe = { first_of_many } };
	struct request last_sent = { .cqe = { count } }, received = { .cqe = { second } };
	struct ibv_qp *qp = with_plain_sends(many.pd, many.cq);

	CHECK(!sem_init(&gate, 0, 0));
	works(&one);
	for (int i = 0; i < 1000; i++)
		CHECK(!try_recv(qp, &first));
	CHECK(!try_send(qp, NULL, 0));
	AWAIT(gate_reached);
	for (int i = 1; i < 1000; i++)
		CHECK(!try_send(qp, NULL, i == 999 ? IBV_SEND_SIGNALED : 0));
	poll_success(plain_cq);
	/* The other CQ's message has arrived when its send completes, which nobody polls yet. */
	CHECK(!try_recv(one.qp, &received));
	CHECK(!try_send(one.qp, &last_sent, IBV_SEND_SIGNALED));
	usleep(100000);
	CHECK(!second_done);
	sem_post(&gate);
	AWAIT(first.done == 1000 && last_sent.done == 1);
	if (first_before_second > 2 * BUDGET)
		fprintf(stderr, "%ld before it\n", (long)first_before_second);
	CHECK(first_before_second <= 2 * BUDGET);
}

/* CQs that are never empty share their thread: none gets more than a few turns ahead. */
TEST(busy_cqs_share_a_thread)
{
	struct chain chains[4];
	struct ibv_pd *pd = new_pd();
	long least = 0, rounds = 5000;
	atomic_bool all_there = false;

	for (int i = 0; i < 4; i++)
		start_chain_when(&chains[i], new_echo_on(pd, 0, SOFTIRQ), rounds, &all_there);
	all_there = true;
	AWAIT(chains[0].received.done == rounds || chains[1].received.done == rounds ||
	      chains[2].received.done == rounds || chains[3].received.done == rounds);
	for (int i = 0; i < 4; i++)
		if (!least || chains[i].received.done < least)
			least = chains[i].received.done;
	CHECK(least > rounds / 20);
	for (int i = 0; i < 4; i++)
		AWAIT(chains[i].received.done == rounds);
}

/* ------------------------------------------------------------------------------ blocking */

static atomic_int blocked;

static void block(struct ibv_cq *cq, struct ibv_wc *wc)
{
	atomic_fetch_add(&blocked, 1);
	wait_for(&gate);
	count(cq, wc);
}

/* Callbacks of WORKQUEUE that block do not stop the other CQs. */
TEST(blocking_callbacks)
{
	enum { BLOCKED = 20 };
	static struct request requests[BLOCKED];
	struct echo echoes[BLOCKED];
	struct chain chain, softirq;
	struct ibv_pd *pd = new_pd();

	CHECK(!sem_init(&gate, 0, 0));
	for (int i = 0; i < BLOCKED; i++) {
		requests[i].cqe.done = block;
		echoes[i] = new_echo_on(pd, 0, WORKQUEUE);
		message(&echoes[i], NULL, &requests[i]);
	}
	AWAIT(blocked == BLOCKED);
	start_chain(&chain, new_echo_on(pd, 0, WORKQUEUE), 2000);
	start_chain(&softirq, new_echo_on(pd, 0, SOFTIRQ), 2000);
	AWAIT(chain.received.done == 2000 && softirq.received.done == 2000);
	CHECK(blocked == BLOCKED);
	for (int i = 0; i < BLOCKED; i++)
		CHECK(!requests[i].done);
	for (int i = 0; i < BLOCKED; i++)
		sem_post(&gate);
	for (int i = 0; i < BLOCKED; i++) {
		AWAIT(requests[i].done == 1);
		works(&echoes[i]);
		free_echo(&echoes[i]);
	}
	free_echo(&softirq.echo);
	free_echo(&chain.echo);
	AWAIT(!threads_named("simhca-worker") && !threads_named("simhca-manager"));
}

/* The pool grows again when, after a quiet time, more callbacks block than did before. */
TEST(blocking_again)
{
	enum { FIRST = 4, THEN = 12 };
	static struct request requests[FIRST + THEN];
	struct echo echoes[FIRST + THEN];
	struct ibv_pd *pd = new_pd();

	CHECK(!sem_init(&gate, 0, 0));
	for (int i = 0; i < FIRST + THEN; i++) {
		if (i == FIRST) {
			AWAIT(blocked == FIRST);
			for (int j = 0; j < FIRST; j++)
				sem_post(&gate);
			for (int j = 0; j < FIRST; j++)
				AWAIT(requests[j].done == 1);
			usleep(20000); /* the manager goes to sleep */
		}
		requests[i].cqe.done = block;
		echoes[i] = new_echo_on(pd, 0, WORKQUEUE);
		message(&echoes[i], NULL, &requests[i]);
	}
	AWAIT(blocked == FIRST + THEN);
	for (int i = 0; i < THEN; i++)
		sem_post(&gate);
	for (int i = 0; i < FIRST + THEN; i++) {
		AWAIT(requests[i].done == 1);
		free_echo(&echoes[i]);
	}
}

/* The pool grows to its bound; one more has to wait until a callback returns. */
TEST(workers_are_bounded)
{
	enum { CQS = WORKERS + 3 };
	static struct request requests[CQS];
	static struct echo echoes[CQS];
	struct ibv_pd *pd = new_pd();
	long done = 0;

	CHECK(!sem_init(&gate, 0, 0));
	for (int i = 0; i < CQS; i++) {
		requests[i].cqe.done = block;
		echoes[i] = new_echo_on(pd, i % 4, WORKQUEUE);
		message(&echoes[i], NULL, &requests[i]);
	}
	AWAIT(blocked == WORKERS);
	usleep(50000);
	AWAIT(blocked == WORKERS && threads_named("simhca-worker") == WORKERS);
	for (int i = 0; i < CQS; i++)
		sem_post(&gate);
	for (int i = 0; i < CQS; i++)
		AWAIT(requests[i].done == 1);
	for (int i = 0; i < CQS; i++) {
		done += requests[i].done;
		free_echo(&echoes[i]);
	}
	AWAIT(done == CQS && !threads_named("simhca-worker"));
}

/* As long as nobody blocks, CPUs bound it. */
TEST(workers_as_cpus)
{
	enum { CQS = 40 };
	static struct chain chains[CQS];
	struct ibv_pd *pd;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	pd = new_pd();
	for (int i = 0; i < CQS; i++)
		start_chain(&chains[i], new_echo_on(pd, 0, WORKQUEUE), 100);
	for (int i = 0; i < CQS; i++)
		AWAIT(chains[i].received.done == 100);
	/* On a busy machine the worker may look blocked now and then, but not that often. */
	AWAIT(threads_named("simhca-worker") < CQS / 2);
}

/* ------------------------------------------------------------------------------- threads */

TEST(threads_come_and_go)
{
	struct ibv_context *context = new_pd()->context, *other = new_pd()->context;
	struct ibv_cq *direct = new_cq_on(context, 0, DIRECT), *cqs[6];

	AWAIT(!threads_named("simhca-cq"));
	for (int i = 0; i < 6; i++)
		cqs[i] = new_cq_on(i < 5 ? context : other, i < 3 ? 0 : 1, SOFTIRQ);
	/* Vectors 0 and 1 of the one, and 1 of the other. */
	AWAIT(threads_named("simhca-cq/0") == 1 && threads_named("simhca-cq/1") == 2);
	AWAIT(threads_named("simhca-cq") == 3);
	for (int i = 0; i < 3; i++) {
		AWAIT(threads_named("simhca-cq/0") == 1);
		CHECK(!simhcadv_free_cq(cqs[i]));
	}
	AWAIT(!threads_named("simhca-cq/0") && threads_named("simhca-cq/1") == 2);
	for (int i = 3; i < 6; i++)
		CHECK(!simhcadv_free_cq(cqs[i]));
	AWAIT(!threads_named("simhca-cq"));

	cqs[0] = new_cq_on(context, 0, WORKQUEUE);
	cqs[1] = new_cq_on(context, 1, WORKQUEUE);
	cqs[2] = new_cq_on(other, 1, WORKQUEUE);
	AWAIT(threads_named("simhca-cq/wq") == 2 && threads_named("simhca-cq") == 2);
	AWAIT(threads_named("simhca-manager") == 1 && threads_named("simhca-worker") >= 1);
	for (int i = 0; i < 3; i++) {
		AWAIT(threads_named("simhca-manager") == 1);
		CHECK(!simhcadv_free_cq(cqs[i]));
	}
	AWAIT(!threads_named("simhca-cq") && !threads_named("simhca-manager") &&
	      !threads_named("simhca-worker"));
	CHECK(!simhcadv_free_cq(direct));
}

static sigset_t mask_of_callback;

static void note_mask(struct ibv_cq *cq, struct ibv_wc *wc)
{
	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &mask_of_callback));
	count(cq, wc);
}

/* The program's signals are for its own threads; faults of a callback are not held back. */
TEST(signals)
{
	for (enum simhcadv_poll_context ctx = SOFTIRQ; ctx <= WORKQUEUE; ctx++) {
		struct echo echo = new_echo(ctx);
		struct request received = { .cqe = { note_mask } };

		message(&echo, NULL, &received);
		AWAIT(received.done == 1);
		CHECK(sigismember(&mask_of_callback, SIGINT) == 1 &&
		      sigismember(&mask_of_callback, SIGUSR1) == 1 &&
		      sigismember(&mask_of_callback, SIGALRM) == 1 &&
		      sigismember(&mask_of_callback, SIGRTMIN) == 1);
		CHECK(!sigismember(&mask_of_callback, SIGSEGV) &&
		      !sigismember(&mask_of_callback, SIGBUS) &&
		      !sigismember(&mask_of_callback, SIGFPE));
		free_echo(&echo);
	}
}

static int open_files(void)
{
	DIR *files = opendir("/proc/self/fd");
	int number = 0;

	CHECK(files);
	while (readdir(files))
		number++;
	closedir(files);
	return number;
}

/* CQs of one vector have one channel, and cost no file descriptors of their own. */
TEST(many_cqs)
{
	enum { CQS = 300 };
	static struct ibv_cq *cqs[CQS];
	struct ibv_context *context = new_pd()->context;
	int before = open_files();

	for (int i = 0; i < CQS; i++) {
		cqs[i] = simhcadv_alloc_cq(context, NULL, 1, 0, i % 2 ? SOFTIRQ : WORKQUEUE);
		CHECK(cqs[i]);
	}
	CHECK(open_files() <= before + 4);
	AWAIT(threads_named("simhca-cq") == 2);
	for (int i = 0; i < CQS; i++)
		CHECK(!simhcadv_free_cq(cqs[i]));
	CHECK(open_files() == before);
}
