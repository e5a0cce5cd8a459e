/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Events name the object that they are about, and an object can be destroyed only once the
 * events that were taken of it are acknowledged.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "helper.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static atomic_bool acknowledged;

static struct ibv_async_event next_event(enum ibv_event_type type)
{
	struct pollfd readable = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&readable, 1, 10000) == 1);
	CHECK(!ibv_get_async_event(context, &event));
	if (event.event_type != type)
		fprintf(stderr, "got %s\n", ibv_event_type_str(event.event_type));
	CHECK(event.event_type == type);
	return event;
}

static void *acknowledge_later(void *event)
{
	usleep(200000);
	atomic_store(&acknowledged, true);
	ibv_ack_async_event(event);
	return NULL;
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state, int more)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = 1 };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | more));
}

static void qp_events(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *qp[3];
	struct ibv_async_event event;
	pthread_t thread;

	CHECK(cq);
	for (int i = 0; i < 3; i++) {
		qp[i] = make_qp(pd, cq, IBV_QPT_RC);
		start_qp(qp[i], qp[i]->qp_num);
	}
	for (int i = 2; i >= 0; i--)
		to_state(qp[i], IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY);
	for (int i = 0; i < 3; i++) {
		event = next_event(IBV_EVENT_SQ_DRAINED);
		if (event.element.qp != qp[0]) {
			CHECK(event.element.qp == qp[1] || event.element.qp == qp[2]);
			ibv_ack_async_event(&event);
			continue;
		}
		CHECK(!pthread_create(&thread, NULL, acknowledge_later,
				      memcpy(malloc(sizeof(event)), &event, sizeof(event))));
	}
	CHECK(!ibv_destroy_qp(qp[0]));
	CHECK(atomic_load(&acknowledged));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!ibv_destroy_qp(qp[1]));
	CHECK(!ibv_destroy_qp(qp[2]));
	CHECK(!ibv_destroy_cq(cq));
}

static void cq_event(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 2, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	static char buffer[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS);
	struct ibv_async_event event;
	pthread_t thread;

	CHECK(cq && mr);
	start_qp(qp, qp->qp_num);
	for (int i = 0; i < cq->cqe + 1; i++)
		CHECK(!post_recv(qp, 0, mr, 0, 64));
	to_state(qp, IBV_QPS_ERR, 0);
	event = next_event(IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == cq);
	CHECK(!ibv_destroy_qp(qp));
	atomic_store(&acknowledged, false);
	CHECK(!pthread_create(&thread, NULL, acknowledge_later, &event));
	CHECK(!ibv_destroy_cq(cq));
	CHECK(atomic_load(&acknowledged));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!ibv_dereg_mr(mr));
}

static void srq_event(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq,
					    .recv_cq = cq,
					    .srq = srq,
					    .qp_type = IBV_QPT_RC,
					    .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad;
	struct ibv_async_event event;
	pthread_t thread;
	struct ibv_qp *qp;

	CHECK(cq && srq);
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	qp = ibv_create_qp(pd, &qp_attr);
	CHECK(qp);
	start_qp(qp, qp->qp_num);
	CHECK(!ibv_post_srq_recv(srq, &recv, &bad));
	CHECK(!post_send(qp, &wr));
	poll_success(cq);
	event = next_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == srq);
	to_state(qp, IBV_QPS_ERR, 0);
	{
		struct ibv_async_event last = next_event(IBV_EVENT_QP_LAST_WQE_REACHED);

		CHECK(last.element.qp == qp);
		ibv_ack_async_event(&last);
	}
	CHECK(!ibv_destroy_qp(qp));
	atomic_store(&acknowledged, false);
	CHECK(!pthread_create(&thread, NULL, acknowledge_later, &event));
	CHECK(!ibv_destroy_srq(srq));
	CHECK(atomic_load(&acknowledged));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!ibv_destroy_cq(cq));
}

int main(void)
{
	alarm(60);
	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	qp_events();
	cq_event();
	srq_event();
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
