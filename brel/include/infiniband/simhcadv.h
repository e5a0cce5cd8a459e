/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Direct verbs of simhca: what the device can do and ibv_*() cannot say. Link with -lsimhca
 * (pkg-config simhca); simhcadv(7) is the overview, and each call has a page of its own.
 *
 * Fast registration. A fast-register region is an index in the device's table that has no
 * translation yet. The work request FAST_REG makes it valid over a list of pages, in the order of
 * the send queue: the next work request there may use the key. LOCAL_INV, a SEND_WITH_INV of the
 * peer, or READ_WITH_INV make it free again, without a system call.
 *
 * Structs that may grow have a comp_mask: on the way in it says which of the later members the
 * caller set or asks for, on the way out which were filled in. Today none has later members.
 * Counters grow at their end: who asks for them says how many bytes its struct has.
 */
#ifndef SIMHCADV_H
#define SIMHCADV_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Completion callbacks were here before they had a library of their own. */
#include <simhca/cq.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Whether the calls below work on this device: it is one of simhca, served by this library.
 */
bool simhcadv_is_supported(struct ibv_device *device);

struct simhcadv_device_attr {
	uint64_t comp_mask;		     /* no bits are known today */
	uint64_t page_sizes;		     /* bit n: FAST_REG takes pages of 2^n bytes */
	uint32_t max_fast_reg_page_list_len; /* pages of one fast-register region */
};

/* Returns 0 or errno. */
int simhcadv_query_device(struct ibv_context *context, struct simhcadv_device_attr *attr);

/*
 * What on-demand paging has done: for one region, or for a device since simhcad runs. A page is
 * 4 KiB, whatever the size of the program's own.
 */
struct simhcadv_odp_counters {
	uint64_t faults;	    /* accesses that were stopped */
	uint64_t fault_pages;	    /* pages brought in for them */
	uint64_t failures;	    /* faults that could not be resolved */
	uint64_t invalidations;	    /* times that the program dropped pages */
	uint64_t invalidated_pages; /* pages that left the device's table so */
	uint64_t prefetches;	    /* ranges that ibv_advise_mr() brought in */
	uint64_t prefetched_pages;
	uint64_t watched_pages; /* pages brought in whose end an event tells */
	uint64_t checked_pages; /* pages brought in that are looked for at each access */
};

/* Of the device, in all contexts. inlen: sizeof(*counters). Returns 0 or errno. */
int simhcadv_query_odp(struct ibv_context *context, struct simhcadv_odp_counters *counters,
		       uint32_t inlen);

struct simhcadv_mr_attr {
	uint64_t comp_mask;	/* no bits are known today */
	uint64_t addr;		/* in the program's memory */
	uint64_t length;	/* bytes */
	uint64_t iova;		/* by which work requests name it */
	uint32_t access;	/* enum ibv_access_flags */
	uint32_t windows;	/* bound to it */
	uint64_t present_pages; /* ON_DEMAND: pages that the device has in its table */
	struct simhcadv_odp_counters odp;
};

/* inlen: sizeof(*attr). Returns 0 or errno. */
int simhcadv_query_mr(struct ibv_mr *mr, struct simhcadv_mr_attr *attr, uint32_t inlen);

/*
 * A fast-register region for at most max_page_list_len pages, in the free state. ibv_dereg_mr()
 * ends it. NULL and errno on failure.
 */
struct ibv_mr *simhcadv_alloc_mr(struct ibv_pd *pd, uint32_t max_page_list_len);

/* Replace the 8-bit variant in lkey and rkey, for the FAST_REG that follows. Returns 0 or errno. */
int simhcadv_update_key(struct ibv_mr *mr, uint8_t newkey);

/*
 * The pages of one FAST_REG: addresses in the caller's own memory, each a multiple of the page
 * size. The list belongs to the device from the post of a work request that names it until a
 * completion that covers that request was polled.
 */
struct simhcadv_page_list {
	uint64_t *page_list;
	uint32_t max_page_list_len;
};

/* NULL and errno on failure. */
struct simhcadv_page_list *simhcadv_alloc_page_list(struct ibv_context *context,
						    uint32_t max_page_list_len);
/* Returns 0 or errno; EBUSY while the list belongs to the device. */
int simhcadv_free_page_list(struct simhcadv_page_list *list);

/* What becomes valid, and how it is addressed. */
struct simhcadv_fast_reg {
	uint64_t iova_start; /* first address by which work requests name it; its offset in a page
				is the offset in the first page of the list */
	struct simhcadv_page_list *page_list;
	uint32_t page_list_len; /* pages in use */
	uint32_t page_shift;	/* log2 of the page size */
	uint64_t length;	/* bytes */
	uint32_t access;	/* enum ibv_access_flags */
	uint32_t rkey;		/* of the region, with the variant that it shall have */
};

struct simhcadv_fast_reg_wr {
	struct simhcadv_fast_reg_wr *next;
	uint64_t wr_id;
	unsigned int send_flags; /* IBV_SEND_SIGNALED, IBV_SEND_FENCE */
	struct simhcadv_fast_reg fast_reg;
};

/* An RDMA READ; once its data is in place, the region or window of invalidate_rkey is free. */
struct simhcadv_read_with_inv_wr {
	struct simhcadv_read_with_inv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	unsigned int send_flags; /* IBV_SEND_SIGNALED, IBV_SEND_FENCE */
	uint64_t remote_addr;
	uint32_t rkey;		  /* of the peer's memory */
	uint32_t invalidate_rkey; /* of our own */
};

/* As ibv_post_send(): 0, or errno and the first work request that was not posted. */
int simhcadv_post_fast_reg(struct ibv_qp *qp, struct simhcadv_fast_reg_wr *wr,
			   struct simhcadv_fast_reg_wr **bad_wr);
int simhcadv_post_read_with_inv(struct ibv_qp *qp, struct simhcadv_read_with_inv_wr *wr,
				struct simhcadv_read_with_inv_wr **bad_wr);

/* Opcodes of successful completions. READ_WITH_INV completes as what it is, IBV_WC_RDMA_READ. */
enum simhcadv_wc_opcode {
	SIMHCADV_WC_FAST_REG = IBV_WC_DRIVER1,
};

enum simhcadv_qp_create_send_ops_flags {
	SIMHCADV_QP_EX_WITH_FAST_REG = 1 << 0,
	SIMHCADV_QP_EX_WITH_READ_WITH_INV = 1 << 1,
};

enum simhcadv_qp_create_flags {
	/*
	 * What a SEND brings is in the receive's buffer when its completion is there. Without it
	 * who polls copies up to 64 bytes, and another operation on the buffer may come before.
	 */
	SIMHCADV_QP_CREATE_DISABLE_SCATTER_TO_CQE = 1 << 0,
	/* The device carries all of its messages, and all for it; no peer has its queues. */
	SIMHCADV_QP_CREATE_DISABLE_FAST_PATH = 1 << 1,
};
/* Its name before; the same flag. */
#define SIMHCADV_QP_CREATE_DISABLE_CALLERS SIMHCADV_QP_CREATE_DISABLE_FAST_PATH

enum simhcadv_qp_init_attr_mask {
	SIMHCADV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS = 1 << 0,
	SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS = 1 << 1,
};

struct simhcadv_qp_init_attr {
	uint64_t comp_mask;	 /* enum simhcadv_qp_init_attr_mask */
	uint64_t send_ops_flags; /* enum simhcadv_qp_create_send_ops_flags */
	uint64_t create_flags;	 /* enum simhcadv_qp_create_flags */
};

/*
 * ibv_create_qp_ex() for a QP that has builders of ours, too, or is otherwise special. simhca_attr
 * may be NULL. NULL and errno on failure.
 */
struct ibv_qp *simhcadv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				  struct simhcadv_qp_init_attr *simhca_attr);

/* The builders of ours; between ibv_wr_start() and ibv_wr_complete(), as all others. */
struct simhcadv_qp_ex {
	uint64_t comp_mask;
	void (*wr_fast_reg)(struct simhcadv_qp_ex *qp, const struct simhcadv_fast_reg *fast_reg);
	void (*wr_read_with_inv)(struct simhcadv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				 uint32_t invalidate_rkey);
};

/* NULL and errno if the QP is not of simhca. */
struct simhcadv_qp_ex *simhcadv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp);

static inline void simhcadv_wr_fast_reg(struct simhcadv_qp_ex *qp,
					const struct simhcadv_fast_reg *fast_reg)
{
	qp->wr_fast_reg(qp, fast_reg);
}

static inline void simhcadv_wr_read_with_inv(struct simhcadv_qp_ex *qp, uint32_t rkey,
					     uint64_t remote_addr, uint32_t invalidate_rkey)
{
	qp->wr_read_with_inv(qp, rkey, remote_addr, invalidate_rkey);
}

/*
 * resource_type in the calls of a parent domain's allocator (ibv_alloc_parent_domain): which
 * object's state the memory is for. The rings themselves are shared with the device, and not the
 * program's to allocate.
 */
enum simhcadv_res_type {
	SIMHCADV_RES_TYPE_QP = 0x53430001,
	SIMHCADV_RES_TYPE_CQ = 0x53430002,
	SIMHCADV_RES_TYPE_SRQ = 0x53430003,
};

/* What to be notified of: one of the first two. */
enum simhcadv_cq_notify_flags {
	SIMHCADV_CQ_SOLICITED = 1 << 0,
	SIMHCADV_CQ_NEXT_COMP = 1 << 1,
	SIMHCADV_CQ_REPORT_MISSED_EVENTS = 1 << 2,
};

/*
 * ibv_req_notify_cq() that says whether something was there already. Negative: -errno. 0: armed
 * and, if asked, nothing was missed: there is no completion in the CQ but such as raise an event.
 * Positive, only if asked: armed, and the CQ holds completions that raise none: poll again.
 */
int simhcadv_req_notify_cq(struct ibv_cq *cq, int flags);

#ifdef __cplusplus
}
#endif

#endif
