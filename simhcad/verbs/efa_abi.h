/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What EFA's driver and device tell each other, and what older kernel headers do not have of it. */
#ifndef SIMHCAD_EFA_ABI_H
#define SIMHCAD_EFA_ABI_H

#include <assert.h>
#include <rdma/efa-abi.h>
#include <stddef.h>
#include <stdint.h>

/* Of struct efa_ibv_ex_query_device_resp: device_caps. */
enum {
	SIMHCA_EFA_CAP_RDMA_WRITE = 1 << 5,
	SIMHCA_EFA_CAP_UNSOLICITED_WRITE_RECV = 1 << 6,
};

/* Of GET_CONTEXT; drivers of before rdma-core 60 end it at reserved. */
struct simhca_efa_abi_context_resp {
	uint32_t comp_mask;
	uint32_t cmds_supp_udata_mask;
	uint16_t sub_cqs_per_cq;
	uint16_t inline_buf_size;
	uint32_t max_llq_size; /* bytes */
	uint16_t max_tx_batch; /* units of 64 bytes */
	uint16_t min_sq_wr;
	uint16_t inline_buf_size_ex; /* of wide WQEs; 0: there are none */
	uint8_t reserved[2];
};
static_assert(sizeof(struct simhca_efa_abi_context_resp) ==
		      sizeof(struct efa_ibv_alloc_ucontext_resp),
	      "the kernel's, where it was reserved");

/* Of CREATE_QP; drivers of before Linux 6.9 end it at flags. */
enum { SIMHCA_EFA_QP_UNSOLICITED_WRITE_RECV = 1 << 0 };
struct simhca_efa_abi_create_qp {
	uint32_t comp_mask;
	uint32_t rq_ring_size; /* bytes */
	uint32_t sq_ring_size;
	uint32_t driver_qp_type;
	uint16_t flags;
	uint8_t sl;
	uint8_t reserved[5];
};
static_assert(offsetof(struct simhca_efa_abi_create_qp, driver_qp_type) ==
		      offsetof(struct efa_ibv_create_qp, driver_qp_type),
	      "it begins like the kernel's");

/* Of the method that asks about a region: EFA_IB_METHOD_MR_QUERY's attributes, one after the other. */
struct simhca_efa_abi_query_mr_resp {
	uint16_t validity; /* which of the others are valid, by bit */
	uint16_t recv_ic_id, rdma_read_ic_id, rdma_recv_ic_id;
};

#endif
