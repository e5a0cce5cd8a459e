/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "provider.h"

#define OP(name) (1u << SIMHCA_WR_##name)
#define RAW_OPS OP(SEND)
#define UD_OPS (OP(SEND) | OP(SEND_WITH_IMM))
#define UC_OPS                                                                                     \
	(UD_OPS | OP(RDMA_WRITE) | OP(RDMA_WRITE_WITH_IMM) | OP(SEND_WITH_INV) | OP(LOCAL_INV) |   \
	 OP(BIND_MW) | OP(FAST_REG))
#define RC_OPS                                                                                     \
	(UC_OPS | OP(RDMA_READ) | OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD) |              \
	 OP(ATOMIC_WRITE) | OP(FLUSH) | OP(RDMA_READ_WITH_INV))

/* The operations that a QP of this type can be asked for; 0: none, or no such QPs here. */
uint32_t shca_send_ops(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return RC_OPS;
	case IBV_QPT_UC:
		return UC_OPS;
	case IBV_QPT_UD:
		return UD_OPS;
	case IBV_QPT_RAW_PACKET:
		return RAW_OPS;
	default:
		return 0;
	}
}
