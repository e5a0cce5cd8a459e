/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * As much of a release's infiniband/verbs.h as ibverbs-provider-abi.h asks for, made of what is
 * recorded of that release: structures have their size, and the members that are looked at.
 */
#ifndef SIMHCA_TEST_ABI_VERBS_H
#define SIMHCA_TEST_ABI_VERBS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "recorded.h"

#define IBV_SYSFS_NAME_MAX 64
#define IBV_SYSFS_PATH_MAX 256
#define __VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)

/* Only pointers to these are passed on. */
struct ibv_ah;
struct ibv_ah_attr;
struct ibv_alloc_dm_attr;
struct ibv_async_event;
struct ibv_comp_channel;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_counter_attach_attr;
struct ibv_counters;
struct ibv_counters_init_attr;
struct ibv_cq_init_attr_ex;
struct ibv_device_attr_ex;
struct ibv_dm;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_ece;
struct ibv_flow;
struct ibv_flow_action;
struct ibv_flow_action_esp_attr;
struct ibv_flow_attr;
struct ibv_modify_cq_attr;
struct ibv_mr_init_attr;
struct ibv_mw;
struct ibv_mw_bind;
struct ibv_ops_wr;
struct ibv_parent_domain_init_attr;
struct ibv_pd;
struct ibv_port_attr;
struct ibv_qp_attach_comp_cntr_attr;
struct ibv_qp_attr;
struct ibv_qp_init_attr;
struct ibv_qp_init_attr_ex;
struct ibv_qp_open_attr;
struct ibv_qp_rate_limit_attr;
struct ibv_query_device_ex_input;
struct ibv_recv_wr;
struct ibv_rwq_ind_table;
struct ibv_rwq_ind_table_init_attr;
struct ibv_send_wr;
struct ibv_sge;
struct ibv_srq_attr;
struct ibv_srq_init_attr;
struct ibv_srq_init_attr_ex;
struct ibv_td;
struct ibv_td_init_attr;
struct ibv_values_ex;
struct ibv_wc;
struct ibv_wq;
struct ibv_wq_attr;
struct ibv_wq_init_attr;
struct ibv_xrcd;
struct ibv_xrcd_init_attr;
union ibv_gid;

/* Their values are not looked at. */
enum ibv_advise_mr_advice { IBV_ADVISE_MR_ADVICE_PREFETCH };
enum ibv_mw_type { IBV_MW_TYPE_1 };
enum ibv_node_type { IBV_NODE_CA };
enum ibv_srq_type { IBV_SRQT_BASIC };
enum ibv_wr_opcode { IBV_WR_SEND };

#define RECORDED_STRUCT(name, bytes)                                                               \
	struct name {                                                                              \
		char recorded[bytes] __attribute__((aligned(8)));                                  \
	}

RECORDED_STRUCT(ibv_device, RECORDED_DEVICE);
RECORDED_STRUCT(ibv_mr, RECORDED_MR);
RECORDED_STRUCT(ibv_qp, RECORDED_QP);
RECORDED_STRUCT(ibv_cq, RECORDED_CQ);
RECORDED_STRUCT(ibv_cq_ex, RECORDED_CQ_EX);
RECORDED_STRUCT(ibv_srq, RECORDED_SRQ);

/* Between the two, nothing but function pointers that came later. */
struct ibv_qp_ex {
	struct ibv_qp qp_base;
	char builders[336 - RECORDED_QP];
	void (*wr_abort)(struct ibv_qp_ex *qp);
#if RELEASE >= 44
	void (*wr_atomic_write)(void);
#endif
#if RELEASE >= 45
	void (*wr_flush)(void);
#endif
};

struct ibv_context_ops {
#define SLOT(name) void (*name)(void);
#include "context.def"
};

struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	char rest[RECORDED_CONTEXT - 8 - RECORDED_CONTEXT_OPS - 8];
	void *abi_compat;
};

struct verbs_context {
#define SLOT(name, since) RECORDED_IF(since, void (*name)(void);)
#include "extended.def"
	size_t sz;
	struct ibv_context context;
};

static inline struct verbs_context *verbs_get_ctx(struct ibv_context *context)
{
	return context->abi_compat == __VERBS_ABI_IS_EXTENDED
		       ? (struct verbs_context *)((char *)context -
						  offsetof(struct verbs_context, context))
		       : NULL;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

#endif
