/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the C helpers share: a device, and failing with a line that says where. */
#ifndef HELPER_H
#define HELPER_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s (errno %d, %s)\n", __FILE__,          \
				__LINE__, #condition, errno, strerror(errno));                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define FULL_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define QKEY 0x11111111u

static inline struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

static inline bool is_ethernet(struct ibv_context *context)
{
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(context, 1, &port));
	return port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* How to reach our own port. */
static inline struct ibv_ah_attr loopback(struct ibv_context *context)
{
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(context, 1, &port));
	attr.dlid = port.lid;
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.is_global = 1;
		attr.grh.hop_limit = 64;
		CHECK(!ibv_query_gid(context, 1, 0, &attr.grh.dgid));
	}
	return attr;
}

/* srq: whose receives it consumes; NULL: its own. */
static inline struct ibv_qp *make_qp_with(struct ibv_pd *pd, struct ibv_cq *cq,
					  enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = type,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	return qp;
}

static inline struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	return make_qp_with(pd, cq, type, NULL);
}

/* A connected QP to its peer, or a UD QP, from RESET to RTS; psn: of what it sends first. */
static inline void start_qp_from(struct ibv_qp *qp, uint32_t peer, uint8_t timeout, uint8_t retries,
				 uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = FULL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.timeout = timeout,
		.retry_cnt = retries,
		.rnr_retry = 7,
		.sq_psn = psn,
		.ah_attr = loopback(qp->context),
	};
	bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(
		qp, &attr,
		IBV_QP_STATE |
			(ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						      IBV_QP_MAX_QP_RD_ATOMIC
					 : 0)));
}

static inline void start_qp_within(struct ibv_qp *qp, uint32_t peer, uint8_t timeout,
				   uint8_t retries)
{
	start_qp_from(qp, peer, timeout, retries, 0);
}

/* A peer that is silent is noticed after a few milliseconds. */
static inline void start_qp(struct ibv_qp *qp, uint32_t peer)
{
	start_qp_within(qp, peer, 8, 3);
}

static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The next completion; fails after ten seconds without one. */
static inline struct ibv_wc poll_one(struct ibv_cq *cq)
{
	double end = now() + 10;
	struct ibv_wc wc;

	for (;;) {
		int polled = ibv_poll_cq(cq, 1, &wc);

		CHECK(polled >= 0);
		if (polled)
			return wc;
		CHECK(now() < end);
		usleep(20);
	}
}

static inline struct ibv_wc poll_success(struct ibv_cq *cq)
{
	struct ibv_wc wc = poll_one(cq);

	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "%s, vendor_err %u\n", ibv_wc_status_str(wc.status), wc.vendor_err);
	CHECK(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static inline int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

static inline int post_recv(struct ibv_qp *qp, uint64_t wr_id, struct ibv_mr *mr, size_t offset,
			    uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr + offset,
			       .length = length,
			       .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

/* An RDMA operation between the memory of `mr` and [addr, addr + length), by a QP that is its own peer. */
static inline enum ibv_wc_status transfer_to_itself(struct ibv_pd *pd, struct ibv_cq *cq,
						    const struct ibv_mr *mr,
						    enum ibv_wr_opcode opcode, uint32_t length,
						    uint64_t addr, uint32_t rkey)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_sge sge = { (uintptr_t)mr->addr, length, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	struct ibv_wc wc;

	start_qp(qp, qp->qp_num);
	CHECK(!post_send(qp, &wr));
	wc = poll_one(cq);
	CHECK(!ibv_destroy_qp(qp));
	return wc.status;
}

#endif
