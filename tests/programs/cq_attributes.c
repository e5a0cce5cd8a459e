/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What ibv_create_cq_ex() takes, and what it has not been told to look at. */
#include "dv.h"

#define UNKNOWN (1u << 30)

static void refused(struct ibv_context *context, struct ibv_cq_init_attr_ex attr, int err)
{
	attr.cqe = 16;
	errno = 0;
	CHECK(!ibv_create_cq_ex(context, &attr) && errno == err);
}

TEST(unknown_attributes)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq_init_attr_ex attr = { .comp_mask = UNKNOWN };

	refused(context, attr, EINVAL);
	attr.comp_mask = UNKNOWN | IBV_CQ_INIT_ATTR_MASK_FLAGS;
	refused(context, attr, EINVAL);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = UNKNOWN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	refused(context, attr, EINVAL);
	attr.comp_mask = 0;
	attr.wc_flags = UNKNOWN;
	refused(context, attr, EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	refused(context, attr, EINVAL);
	attr.parent_domain = pd; /* which is none */
	refused(context, attr, EINVAL);
}

/* What comp_mask does not name may be anything, and means nothing. */
TEST(unnamed_attributes)
{
	struct end end = new_end();
	struct ibv_cq_init_attr_ex attr = { .cqe = 2,
					    .flags = UNKNOWN | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
					    .parent_domain = (struct ibv_pd *)8 };
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(end.context, &attr);
	struct ibv_async_event event;
	int entries;

	CHECK(cq_ex);
	end.cq = ibv_cq_ex_to_cq(cq_ex);
	end.qp = make_qp(end.pd, end.cq, IBV_QPT_RC);
	start_qp(end.qp, end.qp->qp_num);
	entries = end.cq->cqe;
	CHECK(entries < 8);
	for (int i = 0; i <= entries; i++)
		post_rdma(&end, IBV_WR_RDMA_WRITE, (uintptr_t)end.memory, end.mr->rkey, 8);
	CHECK(!ibv_get_async_event(end.context, &event));
	CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == end.cq);
	ibv_ack_async_event(&event);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	CHECK(!clock_gettime(clock, &time));
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Asked for alone, each of the two is there, and of its clock: from before to after. */
TEST(either_time_stamp)
{
	for (int wall = 0; wall < 2; wall++) {
		clockid_t clock = wall ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		struct ibv_cq_init_attr_ex attr = {
			.cqe = 16,
			.wc_flags = wall ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
					 : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
		};
		struct end end = new_end();
		struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(end.context, &attr);
		uint64_t before = clock_ns(clock), stamp;

		begin_to_poll_a_write(&end, cq_ex);
		stamp = wall ? ibv_wc_read_completion_wallclock_ns(cq_ex)
			     : ibv_wc_read_completion_ts(cq_ex);
		ibv_end_poll(cq_ex);
		CHECK(stamp >= before && stamp <= clock_ns(clock));
	}
}
