/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Makes the mistake that its argument names, by which a program waits for ever, or is refused what
 * it wants to destroy. "late_ack" acknowledges an event after three seconds, and ends. A peer that
 * writes, and then sends, does so at SIGUSR1. "send_polled" and "both_polled" make no mistake. With
 * "pause" behind it, it first carries a message, and waits for SIGUSR2.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include "xrc.h"

static char buffer[4096];

struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *cq[2]; /* these have the channel */
	struct ibv_qp *sender[2], *receiver[2];
	struct ibv_mr *mr;
	uint64_t at; /* where writes go */
};

static struct scene make_scene(void)
{
	struct scene scene = { .context = open_device() };

	scene.pd = ibv_alloc_pd(scene.context);
	scene.channel = ibv_create_comp_channel(scene.context);
	scene.send_cq = ibv_create_cq(scene.context, 64, NULL, NULL, 0);
	scene.mr = ibv_reg_mr(scene.pd, buffer, sizeof(buffer), FULL_ACCESS);
	CHECK(scene.pd && scene.channel && scene.send_cq && scene.mr);
	for (int i = 0; i < 2; i++) {
		scene.cq[i] = ibv_create_cq(scene.context, 15, NULL, scene.channel, 0);
		CHECK(scene.cq[i]);
		scene.sender[i] = make_qp(scene.pd, scene.send_cq, IBV_QPT_RC);
		scene.receiver[i] = make_qp(scene.pd, scene.cq[i], IBV_QPT_RC);
		start_qp(scene.sender[i], scene.receiver[i]->qp_num);
		start_qp(scene.receiver[i], scene.sender[i]->qp_num);
		for (int k = 0; k < 4; k++)
			CHECK(!post_recv(scene.receiver[i], 1, scene.mr, 0, 64));
	}
	return scene;
}

static void send_to(struct scene *scene, int which, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = rkey ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { scene->at, rkey } };

	CHECK(!post_send(scene->sender[which], &wr));
	poll_one(scene->send_cq);
}

static void get_event(struct scene *scene)
{
	struct ibv_cq *cq;
	void *cq_context;

	CHECK(!ibv_get_cq_event(scene->channel, &cq, &cq_context));
}

static void destroy_qps(struct scene *scene)
{
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(scene->sender[i]));
		CHECK(!ibv_destroy_qp(scene->receiver[i]));
	}
}

static void get_one_without_ack(struct scene *scene)
{
	CHECK(!ibv_req_notify_cq(scene->cq[0], 0));
	send_to(scene, 0, 0);
	get_event(scene);
	destroy_qps(scene);
}

static void *acknowledge_late(void *cq)
{
	usleep(3000000);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* A loop that is woken once for the events of two CQs, and gets one of them. */
static void wait_edge_triggered(struct scene *scene)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(0);

	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, scene->channel->fd, &event));
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_req_notify_cq(scene->cq[i], 0));
		send_to(scene, i, 0);
	}
	CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
	get_event(scene);
	epoll_wait(epoll, &event, 1, -1);
}

static void get_async_without_ack(struct scene *scene)
{
	struct ibv_async_event event;

	send_to(scene, 0, 0xdead00);
	CHECK(!ibv_get_async_event(scene->context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
	ibv_destroy_qp(scene->receiver[0]);
}

/*
 * A poll found nothing. At first the next one comes at once, as in most programs; then with pauses, since what is told of
 * the program does not depend on how often it polls, and others need the CPU.
 */
static void found_nothing(void)
{
	static unsigned int polls;

	if (++polls > 100000)
		usleep(1000);
}

static void *send_when_told(void *scene)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!sigwait(&set, &got));
	send_to(scene, 0, 0);
	return NULL;
}

/* The peer writes, and later sends; the program waits for the one receive that this takes. */
static void wait_for_a_write(struct scene *scene, bool polls)
{
	pthread_t thread;
	struct ibv_wc wc;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	if (!polls)
		CHECK(!ibv_req_notify_cq(scene->cq[0], 0));
	scene->at = (uintptr_t)buffer;
	send_to(scene, 0, scene->mr->rkey);
	CHECK(!pthread_create(&thread, NULL, send_when_told, scene));
	if (!polls)
		get_event(scene);
	while (!ibv_poll_cq(scene->cq[0], 1, &wc))
		found_nothing();
	CHECK(wc.status == IBV_WC_SUCCESS && !pthread_join(thread, NULL));
	ibv_ack_cq_events(scene->cq[0], polls ? 0 : 1);
}

/* The same, but that a message tells of the write; then it waits for the next request. */
static void wait_for_a_send(struct scene *scene)
{
	struct ibv_wc wc;

	scene->at = (uintptr_t)buffer;
	send_to(scene, 0, scene->mr->rkey);
	send_to(scene, 0, 0);
	for (;;) {
		CHECK(ibv_poll_cq(scene->cq[0], 1, &wc) >= 0);
		found_nothing();
	}
}

/* At the channel of other CQs, for a completion in one that has none. */
static void wait_for_no_channel(struct scene *scene)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { (uintptr_t)buffer, scene->mr->rkey } };

	CHECK(!ibv_req_notify_cq(scene->send_cq, 0));
	CHECK(!post_send(scene->sender[0], &wr));
	get_event(scene);
}

static void post_unsignaled(struct scene *scene)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 3, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	CHECK(!post_send(scene->sender[0], &wr));
}

static void poll_for_ever(struct ibv_cq *cq, struct ibv_cq *other)
{
	struct ibv_wc wc;

	for (;;) {
		CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
		if (other)
			CHECK(ibv_poll_cq(other, 1, &wc) >= 0);
		found_nothing();
	}
}

/* It hardly takes a CPU. */
static void poll_now_and_then(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (;;) {
		CHECK(ibv_poll_cq(cq, 1, &wc) >= 0);
		usleep(50000);
	}
}

static void poll_for_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 0, &wc))
		;
}

static void send_more_than_is_received(struct scene *scene)
{
	for (int k = 0; k < 4; k++)
		send_to(scene, 0, 0);
	post_unsignaled(scene);
	poll_for_ever(scene->send_cq, NULL);
}

static void acknowledge_twice(struct scene *scene)
{
	get_one_without_ack(scene);
	ibv_ack_cq_events(scene->cq[0], 2);
	CHECK(!ibv_destroy_cq(scene->cq[0]));
}

static void destroy_what_is_used(struct scene *scene)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(scene->context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = scene->pd, .td = td };
	struct ibv_pd *domain = ibv_alloc_parent_domain(scene->context, &attr);

	CHECK(td && domain);
	CHECK(ibv_create_cq(scene->context, 1, NULL, NULL, 0));
	make_qp(domain, scene->cq[1], IBV_QPT_RC);
	CHECK(ibv_destroy_cq(scene->cq[1]) == EBUSY);
	CHECK(ibv_dealloc_pd(domain) == EBUSY);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	CHECK(ibv_dealloc_pd(scene->pd) == EBUSY);
	exit(0);
}

/* As valkey does at the end of a connection: its QP is destroyed last. */
static void leak(struct scene *scene)
{
	for (int i = 0; i < 3; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(scene->context);
		struct ibv_cq *cq = ibv_create_cq(scene->context, 15, NULL, NULL, 0);
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), 0) : NULL;
		struct ibv_qp *qp;

		CHECK(cq && mr);
		qp = make_qp(pd, cq, IBV_QPT_RC);
		CHECK(ibv_destroy_cq(cq) == EBUSY);
		CHECK(ibv_dealloc_pd(pd) == EBUSY);
		CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_qp(qp));
	}
}

static void send_to_an_empty_srq(struct scene *scene, uint8_t rnr_retry)
{
	struct ibv_xrcd *xrcd = open_domain(scene->context, -1, O_CREAT);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_SEND,
					    .send_cq = scene->send_cq,
					    .cap = { 16, 0, 1, 0, 0 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = scene->pd };
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 3, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};
	struct ibv_qp *sender, *target;
	struct ibv_recv_wr *bad;
	struct ibv_srq *srq;

	CHECK(xrcd);
	sender = ibv_create_qp_ex(scene->context, &attr);
	CHECK(sender);
	target = new_target(scene->context, xrcd);
	start_xrc_with(sender, target->qp_num, rnr_retry);
	start_xrc(target, sender->qp_num);
	srq = new_srq(scene->pd, xrcd, scene->cq[0], 4);
	CHECK(!ibv_get_srq_num(srq, &wr.qp_type.xrc.remote_srqn));
	CHECK(!post_send(sender, &wr));
	if (rnr_retry == 7)
		poll_for_ever(scene->send_cq, NULL);
	CHECK(poll_one(scene->send_cq).status == IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK(!ibv_post_srq_recv(srq, &(struct ibv_recv_wr){ .wr_id = 1 }, &bad));
	pause();
}

/* The receives that were posted before are not there any more. */
static void reset_the_receiver(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK(!ibv_modify_qp(scene->receiver[0], &attr, IBV_QP_STATE));
	start_qp(scene->receiver[0], scene->sender[0]->qp_num);
	post_unsignaled(scene);
	poll_for_ever(scene->send_cq, NULL);
}

/* The QP that should send has gone. */
static void wait_for_nobody(struct scene *scene)
{
	CHECK(!ibv_destroy_qp(scene->sender[0]));
	poll_for_ever(scene->cq[0], NULL);
}

/* A QP whose peer does not exist sends, and has this time-out. */
static void send_to_nobody(struct scene *scene, uint8_t timeout)
{
	struct ibv_qp *qp = make_qp(scene->pd, scene->send_cq, IBV_QPT_RC);
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	start_qp_within(qp, 0xfff0, timeout, 7);
	CHECK(!post_send(qp, &wr));
	poll_for_ever(scene->send_cq, NULL);
}

/* The peer reads, and the program waits for a completion of that. */
static void wait_for_a_read(struct scene *scene)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { (uintptr_t)buffer, scene->mr->rkey } };

	CHECK(!post_send(scene->sender[0], &wr));
	poll_one(scene->send_cq);
	poll_for_ever(scene->cq[0], NULL);
}

/* The QP that should send is there, and has failed. */
static void wait_for_one_in_error(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK(!ibv_modify_qp(scene->sender[0], &attr, IBV_QP_STATE));
	poll_for_ever(scene->cq[0], NULL);
}

static void send_while_drained(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	CHECK(!ibv_modify_qp(scene->sender[0], &attr, IBV_QP_STATE));
	send_to(scene, 0, 0);
}

/* Or destroys it. */
static void reset_the_sender(struct scene *scene, bool destroy)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge sge = { (uintptr_t)buffer, 8, scene->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };

	/* One completes, and nobody receives the other. */
	for (int i = 0; i < 5; i++)
		CHECK(!post_send(scene->sender[0], &wr));
	for (int i = 0; i < 3; i++)
		poll_one(scene->send_cq);
	CHECK(!(destroy ? ibv_destroy_qp(scene->sender[0])
			: ibv_modify_qp(scene->sender[0], &attr, IBV_QP_STATE)));
	poll_for_ever(scene->send_cq, NULL);
}

/* How many receives are there for a further message: none, or those that RESET has dropped. */
static void wait_without_receives(struct scene *scene, bool reset)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < 4 && !reset; i++) {
		send_to(scene, 0, 0);
		poll_one(scene->cq[0]);
	}
	if (reset)
		CHECK(!ibv_modify_qp(scene->receiver[0], &attr, IBV_QP_STATE));
	poll_for_ever(scene->cq[0], NULL);
}

static struct ibv_qp_ex *make_builder(struct scene *scene)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = scene->send_cq,
		.recv_cq = scene->send_cq,
		.cap = { 16, 16, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = scene->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(scene->context, &attr);

	CHECK(qp);
	start_qp(qp, qp->qp_num);
	return ibv_qp_to_qp_ex(qp);
}

static void begin_twice(struct ibv_qp_ex *qp)
{
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, 0, 0, 0);
	ibv_wr_start(qp);
}

static void bind_in_between(struct scene *scene, struct ibv_qp_ex *qp)
{
	struct ibv_mw *mw = ibv_alloc_mw(scene->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .bind_info = { scene->mr, (uintptr_t)buffer, 8,
						   IBV_ACCESS_REMOTE_READ } };

	CHECK(mw);
	ibv_wr_start(qp);
	ibv_bind_mw(&qp->qp_base, mw, &bind);
}

static void begin_polling_twice(struct scene *scene)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 15 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(scene->context, &init);
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_qp *qp;

	CHECK(cq);
	qp = make_qp(scene->pd, ibv_cq_ex_to_cq(cq), IBV_QPT_RC);
	start_qp(qp, qp->qp_num);
	CHECK(!post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
						    .send_flags = IBV_SEND_SIGNALED }));
	while (ibv_start_poll(cq, &attr))
		;
	CHECK(!ibv_start_poll(cq, &attr));
}

static void nothing(int number)
{
	(void)number;
}

static void pause_first(struct scene *scene)
{
	send_to(scene, 0, 0);
	poll_one(scene->cq[0]);
	signal(SIGUSR2, nothing);
	puts("pauses");
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct scene scene = make_scene();
	pthread_t thread;

	if (argc > 2)
		pause_first(&scene);
	if (!strcmp(how, "ack_cq") || !strcmp(how, "late_ack")) {
		get_one_without_ack(&scene);
		if (!strcmp(how, "late_ack"))
			CHECK(!pthread_create(&thread, NULL, acknowledge_late, scene.cq[0]));
		CHECK(!ibv_destroy_cq(scene.cq[0]));
	} else if (!strcmp(how, "ack_qp")) {
		get_async_without_ack(&scene);
	} else if (!strcmp(how, "busy")) {
		destroy_what_is_used(&scene);
	} else if (!strcmp(how, "leak")) {
		leak(&scene);
	} else if (!strcmp(how, "not_solicited")) {
		CHECK(!ibv_req_notify_cq(scene.cq[0], 1));
		send_to(&scene, 0, 0);
		get_event(&scene);
	} else if (!strcmp(how, "armed_late")) {
		send_to(&scene, 0, 0);
		CHECK(!ibv_req_notify_cq(scene.cq[0], 0));
		get_event(&scene);
	} else if (!strcmp(how, "edge")) {
		wait_edge_triggered(&scene);
	} else if (!strcmp(how, "write_polled") || !strcmp(how, "write_waited")) {
		wait_for_a_write(&scene, !strcmp(how, "write_polled"));
	} else if (!strcmp(how, "not_signaled") || !strcmp(how, "both_polled")) {
		post_unsignaled(&scene);
		poll_for_ever(scene.send_cq, !strcmp(how, "both_polled") ? scene.cq[0] : NULL);
	} else if (!strcmp(how, "no_receive_xrc") || !strcmp(how, "given_up_xrc")) {
		send_to_an_empty_srq(&scene, !strcmp(how, "given_up_xrc") ? 1 : 7);
	} else if (!strcmp(how, "dropped_receives")) {
		reset_the_receiver(&scene);
	} else if (!strcmp(how, "no_peer")) {
		wait_for_nobody(&scene);
	} else if (!strcmp(how, "timeout_0") || !strcmp(how, "timeout_31")) {
		send_to_nobody(&scene, !strcmp(how, "timeout_31") ? 31 : 0);
	} else if (!strcmp(how, "read_polled")) {
		wait_for_a_read(&scene);
	} else if (!strcmp(how, "peer_in_error")) {
		wait_for_one_in_error(&scene);
	} else if (!strcmp(how, "dropped_sends") || !strcmp(how, "destroyed_sender")) {
		reset_the_sender(&scene, !strcmp(how, "destroyed_sender"));
	} else if (!strcmp(how, "no_receives") || !strcmp(how, "own_dropped_receives")) {
		wait_without_receives(&scene, !strcmp(how, "own_dropped_receives"));
	} else if (!strcmp(how, "not_completed")) {
		begin_twice(make_builder(&scene));
	} else if (!strcmp(how, "not_completed_bind")) {
		bind_in_between(&scene, make_builder(&scene));
	} else if (!strcmp(how, "not_ended")) {
		begin_polling_twice(&scene);
	} else if (!strcmp(how, "in_sqd")) {
		send_while_drained(&scene);
	} else if (!strcmp(how, "wrong_cq")) {
		send_to(&scene, 0, 0);
		poll_for_ever(scene.send_cq, NULL);
	} else if (!strcmp(how, "wrong_cq_now_and_then")) {
		send_to(&scene, 0, 0);
		poll_now_and_then(scene.send_cq);
	} else if (!strcmp(how, "polls_none")) {
		send_to(&scene, 0, 0);
		poll_for_none(scene.cq[0]);
	} else if (!strcmp(how, "polls_none_of_none")) {
		poll_for_none(scene.cq[0]);
	} else if (!strcmp(how, "never_armed")) {
		send_to(&scene, 0, 0);
		get_event(&scene);
	} else if (!strcmp(how, "no_channel")) {
		wait_for_no_channel(&scene);
	} else if (!strcmp(how, "no_receive")) {
		send_more_than_is_received(&scene);
	} else if (!strcmp(how, "ack_twice")) {
		acknowledge_twice(&scene);
	} else if (!strcmp(how, "send_polled")) {
		wait_for_a_send(&scene);
	} else {
		return 2;
	}
	return 0;
}
