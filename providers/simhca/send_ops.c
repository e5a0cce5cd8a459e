/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "provider.h"
#include "queue/opcode.h"

/* The operations that a QP of this type can be asked for; 0: none, or no such QPs here. */
uint32_t shca_send_ops(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return simhca_opcodes_with(SIMHCA_OP_RELIABLE);
	case IBV_QPT_UC:
		return simhca_opcodes_with(SIMHCA_OP_UC);
	case IBV_QPT_UD:
		return simhca_opcodes_with(SIMHCA_OP_UNCONNECTED);
	case IBV_QPT_RAW_PACKET:
		return 1u << SIMHCA_WR_SEND;
	default:
		return 0;
	}
}
