/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Threads that are cancelled: no verb is a cancellation point, but for those that wait for events,
 * and what libibverbs itself does when a device is opened or closed and a channel destroyed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "dv.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp, *other;
static struct ibv_mr *mr, *made_mr;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_td *td;
static struct ibv_dm *dm;
static struct ibv_xrcd *xrcd;
static struct ibv_pd *made_pd;
static struct ibv_cq *made_cq, *served;
static struct ibv_srq *made_srq;
static char bytes[8192] __attribute__((aligned(4096)));

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int number = 0;

	CHECK(dir);
	while (readdir(dir))
		number++;
	closedir(dir);
	return number;
}

/* An atomic is always the device's, which has to be woken. */
static bool atomic(void)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.remote_addr = (uintptr_t)bytes + 64;
	wr.wr.atomic.rkey = mr->rkey;
	return !post_send(qp, &wr);
}

static bool send_message(void)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 4096, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	return !post_send(qp, &wr);
}

static bool receive(void)
{
	struct ibv_sge sge = { (uintptr_t)bytes + 4096, 4096, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return !ibv_post_recv(qp, &wr, &bad);
}

/* Without sleeping, which is a cancellation point. */
static bool poll_completion(void)
{
	double end = now() + 10;
	struct ibv_wc wc;
	int polled;

	while (!(polled = ibv_poll_cq(cq, 1, &wc)) && now() < end)
		sched_yield();
	return polled == 1 && wc.status == IBV_WC_SUCCESS;
}

/* That of a message, as sent and as received. */
static bool poll_two(void)
{
	return poll_completion() && poll_completion();
}

static bool connect_qp(void)
{
	start_qp(other, other->qp_num);
	return true;
}

static bool reset(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return !ibv_modify_qp(other, &attr, IBV_QP_STATE);
}

static bool query_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return !ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}

static bool query_device(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	union ibv_gid gid;

	return !ibv_query_device_ex(context, NULL, &attr) && !ibv_query_port(context, 1, &port) &&
	       !ibv_query_gid(context, 1, 0, &gid);
}

static bool create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	return (made_srq = ibv_create_srq(pd, &attr));
}

static bool modify_srq(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 1 };

	return !ibv_modify_srq(made_srq, &attr, IBV_SRQ_LIMIT) && !ibv_query_srq(made_srq, &attr);
}

static bool create_ah(void)
{
	struct ibv_ah_attr attr = loopback(context);

	return (ah = ibv_create_ah(pd, &attr));
}

static bool alloc_td(void)
{
	struct ibv_td_init_attr attr = { 0 };

	return (td = ibv_alloc_td(context, &attr));
}

static bool alloc_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	return (dm = ibv_alloc_dm(context, &attr)) && !ibv_memcpy_to_dm(dm, 0, bytes, 64);
}

static bool open_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };

	return (xrcd = ibv_open_xrcd(context, &attr));
}

static bool create_channel(void)
{
	return (channel = ibv_create_comp_channel(context));
}

static bool advise(void)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 4096, made_mr->lkey };

	return !ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1);
}

#define VERB(name, expression)                                                                     \
	static bool name(void)                                                                     \
	{                                                                                          \
		return expression;                                                                 \
	}

VERB(alloc_pd, (made_pd = ibv_alloc_pd(context)))
VERB(dealloc_pd, !ibv_dealloc_pd(made_pd))
VERB(reg_mr, (made_mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS)))
VERB(reg_on_demand,
     (made_mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS | IBV_ACCESS_ON_DEMAND)))
VERB(rereg_mr, !ibv_rereg_mr(made_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL_ACCESS))
VERB(dereg_mr, !ibv_dereg_mr(made_mr))
VERB(alloc_mw, (mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)))
VERB(dealloc_mw, !ibv_dealloc_mw(mw))
VERB(create_cq, (made_cq = ibv_create_cq(context, 100, NULL, channel, 0)))
VERB(notify, !ibv_req_notify_cq(made_cq, 0))
VERB(resize_cq, !ibv_resize_cq(made_cq, 1000))
VERB(destroy_cq, !ibv_destroy_cq(made_cq))
VERB(destroy_srq, !ibv_destroy_srq(made_srq))
VERB(create_qp, (other = make_qp(pd, cq, IBV_QPT_RC)))
VERB(destroy_qp, !ibv_destroy_qp(other))
VERB(destroy_ah, !ibv_destroy_ah(ah))
VERB(dealloc_td, !ibv_dealloc_td(td))
VERB(free_dm, !ibv_free_dm(dm))
VERB(close_xrcd, !ibv_close_xrcd(xrcd))
VERB(alloc_softirq, (served = simhcadv_alloc_cq(context, NULL, 16, 0, SIMHCADV_POLL_SOFTIRQ)))
VERB(alloc_workqueue, (served = simhcadv_alloc_cq(context, NULL, 16, 0, SIMHCADV_POLL_WORKQUEUE)))
VERB(free_served, !simhcadv_free_cq(served))
#undef VERB

static const struct verb {
	const char *name;
	bool (*run)(void);
	bool asleep; /* the device is, when it begins */
} verbs[] = {
#define VERB(name)                                                                                 \
	{                                                                                          \
#name, name, false                                                                 \
	}
	VERB(query_device),
	VERB(alloc_pd),
	VERB(dealloc_pd),
	VERB(reg_mr),
	VERB(rereg_mr),
	VERB(dereg_mr),
	VERB(reg_on_demand),
	VERB(advise),
	VERB(dereg_mr),
	VERB(alloc_mw),
	VERB(dealloc_mw),
	VERB(create_channel),
	VERB(create_cq),
	VERB(notify),
	VERB(resize_cq),
	VERB(destroy_cq),
	VERB(create_srq),
	VERB(modify_srq),
	VERB(destroy_srq),
	VERB(create_ah),
	VERB(destroy_ah),
	VERB(alloc_td),
	VERB(dealloc_td),
	VERB(alloc_dm),
	VERB(free_dm),
	VERB(open_xrcd),
	VERB(close_xrcd),
	VERB(create_qp),
	VERB(connect_qp),
	VERB(reset),
	VERB(connect_qp),
	VERB(destroy_qp),
	VERB(query_qp),
	VERB(receive),
	VERB(send_message),
	VERB(poll_two),
	{ "atomic", atomic, true },
	VERB(poll_completion),
	/* The first atomic on this memory was the device's, which carries what comes next, too. */
	VERB(receive),
	{ "send_message", send_message, true },
	VERB(poll_two),
	VERB(alloc_softirq),
	VERB(free_served),
	VERB(alloc_workqueue),
	VERB(free_served),
#undef VERB
};

static const struct verb *under_way;
static bool done;

static void *run_cancelled(void *arg)
{
	const struct verb *verb = arg;

	pthread_cancel(pthread_self());
	done = verb->run();
	under_way = NULL;
	pthread_testcancel();
	return NULL;
}

static void run_all(void)
{
	pthread_t thread;
	void *result;

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		under_way = &verbs[i];
		done = false;
		if (verbs[i].asleep)
			usleep(50000);
		alarm(20);
		CHECK(!pthread_create(&thread, NULL, run_cancelled, (void *)&verbs[i]));
		CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
		if (!done)
			fprintf(stderr, "%s: %s\n", verbs[i].name,
				under_way ? "a cancellation point" : "failed");
		CHECK(done);
	}
	CHECK(!ibv_destroy_comp_channel(channel));
}

/* The descriptors that are open when all verbs were tried, and nothing is attached to a peer. */
static int descriptors_after_all(void)
{
	qp = make_qp(pd, cq, IBV_QPT_RC);
	start_qp(qp, qp->qp_num);
	run_all();
	CHECK(!ibv_destroy_qp(qp));
	return descriptors();
}

/* A thread is cancelled before it begins a verb, and ends after the verb is whole. */
TEST(in_each_verb)
{
	int before;

	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
	CHECK(pd && cq && mr);
	before = descriptors_after_all();
	CHECK(descriptors_after_all() == before);
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

static void *register_on_and_on(void *arg)
{
	struct ibv_mr *region;

	(void)arg;
	for (;;) {
		region = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
		CHECK(region && !ibv_dereg_mr(region));
		pthread_testcancel();
	}
	return NULL;
}

/* At any moment: nothing is left behind. */
TEST(at_any_moment)
{
	pthread_t thread;
	int before;

	context = open_device();
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), FULL_ACCESS);
	CHECK(mr && !ibv_dereg_mr(mr));
	before = descriptors();
	for (int i = 0; i < 100; i++) {
		CHECK(!pthread_create(&thread, NULL, register_on_and_on, NULL));
		usleep(200);
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, NULL));
	}
	CHECK(descriptors() <= before + 1);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}
