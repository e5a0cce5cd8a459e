/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The handlers of pthread_atfork() that a program has registered use verbs, before each fork and
 * after it on both sides, while other threads do as well. Those that were registered before the
 * provider was loaded run while its own, if it had any, would hold its locks.
 */
#include "callbacks.h"

#define FORKS 10

static struct handlers {
	void (*before)(void), (*parent)(void), (*child)(void);
} early, late;

#define HANDLERS(when)                                                                             \
	static void when##_before(void)                                                            \
	{                                                                                          \
		if (when.before)                                                                   \
			when.before();                                                             \
	}                                                                                          \
	static void when##_parent(void)                                                            \
	{                                                                                          \
		if (when.parent)                                                                   \
			when.parent();                                                             \
	}                                                                                          \
	static void when##_child(void)                                                             \
	{                                                                                          \
		if (when.child)                                                                    \
			when.child();                                                              \
	}                                                                                          \
	static void register_##when(void)                                                          \
	{                                                                                          \
		pthread_atfork(when##_before, when##_parent, when##_child);                        \
	}

HANDLERS(early)
HANDLERS(late)

/* Before the constructors of any library. */
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = register_early;

static struct ibv_device **devices;
/* Made before the fork. */
static struct ibv_pd *inherited;
static struct echo direct;
static struct ibv_context *spare;
static atomic_bool stop;
static atomic_int handled;

/* Each kind of object, and a message. */
static void use(struct ibv_pd *pd)
{
	struct ibv_context *context = pd->context;
	static char bytes[64];
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	int polled;

	channel = ibv_create_comp_channel(context);
	CHECK(channel);
	cq = ibv_create_cq(context, 2 * SLOTS, NULL, channel, 0);
	CHECK(cq && !ibv_req_notify_cq(cq, 0));
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
	CHECK(mr);
	qp = new_qp_on(pd, cq);
	sge = (struct ibv_sge){ (uintptr_t)bytes, 8, mr->lkey };
	wr.wr.rdma.remote_addr = (uintptr_t)bytes + 32;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!post_send(qp, &wr));
	while (!(polled = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(polled == 1 && !wc.status);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq));
	CHECK(!ibv_destroy_comp_channel(channel));
}

/* A device of the handler's own, from opening it to closing it, and callbacks. */
static void open_and_close(void)
{
	struct ibv_context *context = ibv_open_device(devices[0]);
	struct ibv_pd *pd;

	CHECK(context);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	use(pd);
	EACH_CONTEXT (ctx) {
		struct ibv_cq *cq = new_cq_on(context, 0, ctx);

		CHECK(!simhcadv_free_cq(cq));
	}
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	handled++;
}

/* And what is inherited. */
static void use_all(void)
{
	struct ibv_cq *cq;

	alarm(TIME_LIMIT);
	open_and_close();
	cq = ibv_create_cq(inherited->context, 10, NULL, NULL, 0);
	CHECK(cq && !ibv_destroy_cq(cq));
	CHECK(simhcadv_process_cq_direct(direct.cq, -1) >= 0);
	use(inherited);
	CHECK(!ibv_close_device(spare));
}

/* What holds locks now and then, so that a child inherits them like that. */
static void *make_and_free(void *arg)
{
	struct ibv_pd *pd = arg;

	while (!stop) {
		use(pd);
		EACH_CONTEXT (ctx)
			CHECK(!simhcadv_free_cq(new_cq_on(pd->context, 0, ctx)));
	}
	return NULL;
}

static void fork_with(struct handlers *where, const struct handlers *handlers)
{
	pthread_t threads[2];
	int status;
	pid_t child;

	if (has_sanitizer())
		return;
	devices = ibv_get_device_list(NULL);
	CHECK(devices && devices[0]);
	inherited = new_pd();
	direct = new_echo_on(inherited, 0, DIRECT);
	spare = open_device();
	register_late();
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		CHECK(!pthread_create(&threads[i], NULL, make_and_free, inherited));
	*where = *handlers;
	for (int i = 0; i < FORKS; i++) {
		handled = 0;
		alarm(TIME_LIMIT);
		child = fork();
		CHECK(child >= 0);
		if (!child)
			_exit(handled);
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == !!handlers->before + !!handlers->child);
		CHECK(handled == !!handlers->before + !!handlers->parent);
	}
	stop = true;
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		CHECK(!pthread_join(threads[i], NULL));
	use(inherited);
	CHECK(!ibv_close_device(spare));
}

#define BEFORE                                                                                     \
	{                                                                                          \
		.before = open_and_close                                                           \
	}
#define PARENT                                                                                     \
	{                                                                                          \
		.parent = open_and_close                                                           \
	}
#define CHILD                                                                                      \
	{                                                                                          \
		.child = use_all                                                                   \
	}
#define ALL                                                                                        \
	{                                                                                          \
		open_and_close, open_and_close, use_all                                            \
	}

TEST(early_before)
{
	fork_with(&early, &(struct handlers)BEFORE);
}

TEST(early_parent)
{
	fork_with(&early, &(struct handlers)PARENT);
}

TEST(early_child)
{
	fork_with(&early, &(struct handlers)CHILD);
}

TEST(early_all)
{
	fork_with(&early, &(struct handlers)ALL);
}

TEST(late_all)
{
	fork_with(&late, &(struct handlers)ALL);
}
