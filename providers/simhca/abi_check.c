/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The device ABI gives many of its values the numbers that libibverbs uses, so that the provider
 * need not translate them. Here the compiler confirms each of them.
 */
#include <rdma/ib_user_verbs.h>

#include "provider.h"

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)

#define SAME_ACCESS(name) SAME(SIMHCA_ACCESS_##name, IBV_ACCESS_##name)
SAME_ACCESS(LOCAL_WRITE);
SAME_ACCESS(REMOTE_WRITE);
SAME_ACCESS(REMOTE_READ);
SAME_ACCESS(REMOTE_ATOMIC);
SAME_ACCESS(MW_BIND);
SAME_ACCESS(ZERO_BASED);
SAME_ACCESS(ON_DEMAND);
SAME_ACCESS(HUGETLB);
SAME_ACCESS(RELAXED_ORDERING);

SAME(SIMHCA_QPT_RC, IBV_QPT_RC);
SAME(SIMHCA_QPT_UC, IBV_QPT_UC);
SAME(SIMHCA_QPT_UD, IBV_QPT_UD);

#define SAME_STATE(name) SAME(SIMHCA_QPS_##name, IBV_QPS_##name)
SAME_STATE(RESET);
SAME_STATE(INIT);
SAME_STATE(RTR);
SAME_STATE(RTS);
SAME_STATE(SQD);
SAME_STATE(SQE);
SAME_STATE(ERR);

/* shca_qp_set_builders() also relies on the flags of the extended QP being the same bits. */
#define SAME_WR(name) SAME(SIMHCA_WR_##name, IBV_WR_##name)
#define SAME_WR_EX(name)                                                                           \
	SAME_WR(name);                                                                             \
	SAME(1 << SIMHCA_WR_##name, IBV_QP_EX_WITH_##name)
SAME_WR_EX(RDMA_WRITE);
SAME_WR_EX(RDMA_WRITE_WITH_IMM);
SAME_WR_EX(SEND);
SAME_WR_EX(SEND_WITH_IMM);
SAME_WR_EX(RDMA_READ);
SAME_WR_EX(ATOMIC_CMP_AND_SWP);
SAME_WR_EX(ATOMIC_FETCH_AND_ADD);
SAME_WR_EX(LOCAL_INV);
SAME_WR_EX(BIND_MW);
SAME_WR_EX(SEND_WITH_INV);

#if SIMHCA_PABI >= 65
#define SAME_COUNT(name, theirs)                                                                   \
	SAME(1 << SIMHCA_COUNTS_##name, IBV_QP_ATTACH_COMP_CNTR_OP_##theirs)
SAME_COUNT(SEND, SEND);
SAME_COUNT(RECV, RECV);
SAME_COUNT(READ, RDMA_READ);
SAME_COUNT(REMOTE_READ, REMOTE_RDMA_READ);
SAME_COUNT(WRITE, RDMA_WRITE);
SAME_COUNT(REMOTE_WRITE, REMOTE_RDMA_WRITE);
SAME(SIMHCA_COMP_CNTR_WRS, IBV_COMP_CNTR_TYPE_WRS);
SAME(SIMHCA_COMP_CNTR_BYTES, IBV_COMP_CNTR_TYPE_BYTES);
#endif

#ifdef SIMHCA_HAVE_FLUSH
SAME_ACCESS(FLUSH_GLOBAL);
SAME_ACCESS(FLUSH_PERSISTENT);
SAME_WR(FLUSH);
SAME(SIMHCA_FLUSH_GLOBAL, IBV_FLUSH_GLOBAL);
SAME(SIMHCA_FLUSH_PERSISTENT, IBV_FLUSH_PERSISTENT);
SAME(SIMHCA_FLUSH_RANGE, IBV_FLUSH_RANGE);
SAME(SIMHCA_FLUSH_MR, IBV_FLUSH_MR);
SAME(SIMHCA_WC_FLUSH, IBV_WC_FLUSH);
#endif

SAME(SIMHCA_MW_TYPE_1, IBV_MW_TYPE_1);
SAME(SIMHCA_MW_TYPE_2, IBV_MW_TYPE_2);

SAME(SIMHCA_WQE_FENCE, IBV_SEND_FENCE);
SAME(SIMHCA_WQE_SIGNALED, IBV_SEND_SIGNALED);
SAME(SIMHCA_WQE_SOLICITED, IBV_SEND_SOLICITED);
SAME(SIMHCA_WQE_INLINE, IBV_SEND_INLINE);

#define SAME_STATUS(name) SAME(SIMHCA_WC_##name, IBV_WC_##name)
SAME_STATUS(SUCCESS);
SAME_STATUS(LOC_LEN_ERR);
SAME_STATUS(LOC_QP_OP_ERR);
SAME_STATUS(LOC_PROT_ERR);
SAME_STATUS(WR_FLUSH_ERR);
SAME_STATUS(MW_BIND_ERR);
SAME_STATUS(BAD_RESP_ERR);
SAME_STATUS(LOC_ACCESS_ERR);
SAME_STATUS(REM_INV_REQ_ERR);
SAME_STATUS(REM_ACCESS_ERR);
SAME_STATUS(REM_OP_ERR);
SAME_STATUS(RETRY_EXC_ERR);
SAME_STATUS(RNR_RETRY_EXC_ERR);
SAME_STATUS(FATAL_ERR);
SAME_STATUS(GENERAL_ERR);

#define SAME_ATTR(name) SAME(SIMHCA_QP_##name, IBV_QP_##name)
SAME_ATTR(STATE);
SAME_ATTR(CUR_STATE);
SAME_ATTR(EN_SQD_ASYNC_NOTIFY);
SAME_ATTR(ACCESS_FLAGS);
SAME_ATTR(PKEY_INDEX);
SAME_ATTR(PORT);
SAME_ATTR(QKEY);
SAME_ATTR(AV);
SAME_ATTR(PATH_MTU);
SAME_ATTR(TIMEOUT);
SAME_ATTR(RETRY_CNT);
SAME_ATTR(RNR_RETRY);
SAME_ATTR(RQ_PSN);
SAME_ATTR(MAX_QP_RD_ATOMIC);
SAME_ATTR(ALT_PATH);
SAME_ATTR(MIN_RNR_TIMER);
SAME_ATTR(SQ_PSN);
SAME_ATTR(MAX_DEST_RD_ATOMIC);
SAME_ATTR(PATH_MIG_STATE);
SAME_ATTR(CAP);
SAME_ATTR(DEST_QPN);
SAME_ATTR(RATE_LIMIT);

SAME(SIMHCA_SRQ_MAX_WR, IBV_SRQ_MAX_WR);
SAME(SIMHCA_SRQ_LIMIT, IBV_SRQ_LIMIT);

SAME(SIMHCA_REREG_TRANSLATION, IBV_REREG_MR_CHANGE_TRANSLATION);
SAME(SIMHCA_REREG_PD, IBV_REREG_MR_CHANGE_PD);
SAME(SIMHCA_REREG_ACCESS, IBV_REREG_MR_CHANGE_ACCESS);

/* SGEs are copied as they are. */
SAME(sizeof(struct simhca_sge), sizeof(struct ibv_sge));
SAME(offsetof(struct simhca_sge, addr), offsetof(struct ibv_sge, addr));
SAME(offsetof(struct simhca_sge, length), offsetof(struct ibv_sge, length));
SAME(offsetof(struct simhca_sge, lkey), offsetof(struct ibv_sge, lkey));

SAME(sizeof(union simhca_gid), sizeof(union ibv_gid));
SAME(sizeof(((struct simhca_device_attr *)0)->fw_ver),
     sizeof(((struct ibv_device_attr *)0)->fw_ver));

/* The records that ibv_get_cq_event() and ibv_get_async_event() read. */
SAME(sizeof(struct ib_uverbs_comp_event_desc), 8);
SAME(sizeof(struct ib_uverbs_async_event_desc), 16);
