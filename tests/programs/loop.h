/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tests of completion events start from. */
#ifndef LOOP_H
#define LOOP_H

#include "dv.h"

/* A QP that sends to itself, its completions on one CQ each. */
struct loop {
	struct end end;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq;
};

static inline struct ibv_qp *new_loop_qp(const struct loop *loop)
{
	struct ibv_qp_init_attr init = { .send_cq = loop->end.cq,
					 .recv_cq = loop->recv_cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 64, 64, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(loop->end.pd, &init);

	CHECK(qp);
	start_qp(qp, qp->qp_num);
	return qp;
}

static inline struct loop new_loop_of(uint32_t cqe, uint32_t flags)
{
	struct loop loop = { .end = new_end() };
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = flags };
	struct ibv_cq_ex *cq_ex;

	loop.channel = ibv_create_comp_channel(loop.end.context);
	CHECK(loop.channel);
	attr.channel = loop.channel;
	cq_ex = ibv_create_cq_ex(loop.end.context, &attr);
	CHECK(cq_ex);
	loop.recv_cq = ibv_cq_ex_to_cq(cq_ex);
	loop.end.qp = new_loop_qp(&loop);
	return loop;
}

static inline struct loop new_loop(void)
{
	return new_loop_of(100, 0);
}

/* A message has arrived, and its receive has completed. */
static inline void numbered(const struct loop *loop, uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | flags };

	CHECK(!post_recv(loop->end.qp, wr_id, loop->end.mr, 0, 64));
	CHECK(!post_send(loop->end.qp, &wr));
	/* RC: the receive is complete before the send is. */
	poll_success(loop->end.cq);
}

static inline void message(const struct loop *loop, unsigned int flags)
{
	numbered(loop, 1, flags);
}

static inline bool has_event(const struct loop *loop)
{
	struct pollfd readable = { .fd = loop->channel->fd, .events = POLLIN };

	return poll(&readable, 1, 0) == 1;
}

static inline void take_event(const struct loop *loop)
{
	struct pollfd readable = { .fd = loop->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	CHECK(poll(&readable, 1, 10000) == 1);
	CHECK(!ibv_get_cq_event(loop->channel, &cq, &context));
	CHECK(cq == loop->recv_cq);
	ibv_ack_cq_events(cq, 1);
}

/* On the fast path the device may have to raise the event, which takes a moment. */
static inline void check_no_event(const struct loop *loop)
{
	struct pollfd readable = { .fd = loop->channel->fd, .events = POLLIN };

	CHECK(poll(&readable, 1, 5) == 0);
}

#endif
