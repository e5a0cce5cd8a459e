/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The contract between the simhca device (simhcad) and its provider: every byte that
 * the two share. Three kinds of memory, each a memfd that cannot be resized:
 *
 *   device memory   one per device; the device writes, clients map it read-only:
 *                   attributes, GID table, QP contexts (QPC), memory protection table (MPT)
 *   context memory  one set of segments per ibv_context; device and owner both write:
 *                   the doorbell bitmap, the rings, and the run state of each queue
 *   on-chip memory  the contents of ibv_alloc_dm
 *
 * Rights live in device memory. What lives in context memory is progress, and the device
 * reads it as it would read a stranger's letter: indices are masked, lengths are checked,
 * nothing is followed as a pointer. Shared memory holds offsets, never addresses.
 *
 * Ring indices are free-running uint32_t counters; the slot is index & (entries - 1) and a
 * ring's number of entries is a power of two. A producer index points past the newest
 * entry, a consumer index at the oldest one; equal means empty.
 *
 * simhca-abi-context.h has context memory, simhca-abi-wqe.h work requests and completions,
 * simhca-abi-cmd.h the commands (control path), simhca-abi-reason.h the vendor_err
 * values. All integers are in host byte order unless the field's comment says otherwise.
 */
#ifndef SIMHCA_ABI_H
#define SIMHCA_ABI_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "simhca-abi-reason.h"

/* Bumped whenever a layout or a command changes; both sides refuse another one. */
#define SIMHCA_ABI_VERSION 39u

#define SIMHCA_ABI_SIZE(type, bytes)                                                               \
	static_assert(sizeof(type) == (bytes), #type " must be " #bytes " bytes")
#define SIMHCA_ABI_AT(type, member, offset)                                                        \
	static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")

/* ------------------------------------------------------------------ limits */

enum {
	SIMHCA_MAX_QP = 1 << 16,    /* per device and per context; bounds the doorbell bitmap */
	SIMHCA_QPN_SLOTS = 1 << 17, /* more than QPs: a freed one rests a while */
	SIMHCA_MAX_ENGINE_CPUS = 2, /* for each of them a context has a doorbell eventfd */
	SIMHCA_MAX_CQ = 1 << 16,
	SIMHCA_MAX_SRQ = 1 << 16,
	SIMHCA_SRQN_SLOTS = 1 << 17, /* as with QPs */
	SIMHCA_MAX_TAGS = 4096,	     /* entries of a tag list (tag-matching SRQ) */
	SIMHCA_MAX_TM_OPS = 4096,    /* list operations at a time; each is over when it is posted */
	SIMHCA_MAX_TM_SGE = 4,	     /* of a tagged buffer */
	SIMHCA_MAX_RNDV_HEADER = 64, /* bytes of a request for a rendezvous */
	SIMHCA_MAX_XRCD = 1 << 12,   /* opens of XRC domains, of all contexts */
	SIMHCA_MAX_PD = 1 << 16,
	SIMHCA_MAX_AH = 1 << 16,
	SIMHCA_MAX_MR = 1 << 16,
	SIMHCA_MAX_MW = 1 << 16,
	SIMHCA_MPT_ENTRIES = 1 << 17,	     /* regions and windows share one index space */
	SIMHCA_MAX_FAST_REG_PAGES = 4096,    /* pages of a fast-register region */
	SIMHCA_FAST_REG_MIN_PAGE_SHIFT = 12, /* pages of 4 KiB .. */
	SIMHCA_FAST_REG_MAX_PAGE_SHIFT = 21, /* .. to 2 MiB */
	SIMHCA_MAX_QP_WR = 16384,
	SIMHCA_MAX_SRQ_WR = 32768,
	SIMHCA_MAX_SGE = 32,
	SIMHCA_MAX_INLINE = 1024, /* bytes */
	SIMHCA_MAX_CQE = (1 << 22) - 1,
	SIMHCA_MAX_RD_ATOMIC = 16,	 /* as responder, per QP */
	SIMHCA_MAX_INIT_RD_ATOMIC = 128, /* as initiator */
	SIMHCA_MAX_MCAST_GRP = 8192,
	SIMHCA_MAX_MCAST_QP_ATTACH = 256,
	SIMHCA_GID_ENTRIES = 8,
	SIMHCA_PKEY_ENTRIES = 1,
	SIMHCA_COMP_VECTORS = 4,
	SIMHCA_MAX_CQ_COUNT = 65535,	/* completions that one event waits for (moderation) */
	SIMHCA_MAX_CQ_PERIOD = 65535,	/* us that an event waits for them */
	SIMHCA_MAX_SEGMENTS = 256,	/* context memory segments per context, for all queues */
	SIMHCA_MAX_OWN_SEGMENTS = 1024, /* such that hold one queue; numbers from 1024 on, never the
					   same twice */
	SIMHCA_MAX_DESTINATIONS = 16,	/* QPs to which a UD QP's program carries datagrams */
	SIMHCA_MAX_DM_SIZE = 4 << 20,	/* bytes of on-chip memory per device */
	SIMHCA_DM_PAGE = 4096,		/* bytes: what it is given out in */
	SIMHCA_MAX_FILE_MR = 4096,	/* regions of files (dma-buf) per device */
	SIMHCA_MAX_WQ = 1 << 14,
	SIMHCA_MAX_RWQ_TABLES = 1 << 12,
	SIMHCA_RWQ_TABLE_ENTRIES = 64, /* of an indirection table */
	SIMHCA_RSS_KEY_BYTES = 40,     /* of a Toeplitz key */
	SIMHCA_MAX_FLOWS = 4096,
	SIMHCA_FLOW_PRIORITIES = 16, /* 0 .. 15 */
	SIMHCA_MAX_COUNTERS = 4096,
	SIMHCA_MAX_COMP_CNTR = 4096,   /* completion counters */
	SIMHCA_FRAME_MIN = 14,	       /* bytes: an Ethernet header */
	SIMHCA_FRAME_OVERHEAD = 18,    /* bytes beyond the port's MTU: the header, one VLAN tag */
	SIMHCA_MAX_FRAME_COPIES = 256, /* QPs and WQs that get one frame */
};

#define SIMHCA_MAX_MSG_SIZE (1u << 30)	      /* bytes */
#define SIMHCA_MAX_FILE_MR_BYTES (1ull << 42) /* of all regions of files of a device */
#define SIMHCA_DEFAULT_PKEY 0xffffu
#define SIMHCA_MCAST_QPN 0xffffffu
#define SIMHCA_GRH_BYTES 40u

/* A QPN is a 17-bit slot and a 7-bit generation, so that a late packet misses a reused slot. */
#define SIMHCA_QPN_SLOT(qpn) ((qpn) & (SIMHCA_QPN_SLOTS - 1u))
#define SIMHCA_QPN_GENERATION_SHIFT 17
#define SIMHCA_QPN_MASK 0xffffffu
/*
 * The qpn of a CQE that is void: its QP was reset or destroyed after the device wrote it, or who
 * took its slot is gone. The entry stays where it is, for there may be others behind it, and is
 * skipped.
 */
#define SIMHCA_VOID_QPN 0u
/* An SRQ's number is made alike; XRC requests carry it (IBTA vol. 1, annex A14). */
#define SIMHCA_SRQN_SLOT(srqn) ((srqn) & (SIMHCA_SRQN_SLOTS - 1u))
#define SIMHCA_PSN_MASK 0xffffffu

/* A key is a 24-bit MPT index and an 8-bit variant (IBTA vol. 1, 10.6.3). Index 0 is never used. */
#define SIMHCA_KEY_INDEX(key) ((key) >> 8)
#define SIMHCA_KEY_VARIANT(key) ((key)&0xffu)

/*
 * The key with the next variant: what ibv_inc_rkey() yields. A provider's ibv_bind_mw() names
 * the new rkey of a type 1 window by this rule, so that mw->rkey is right when it returns.
 */
static inline uint32_t simhca_key_next(uint32_t key)
{
	return (key & ~0xffu) | ((key + 1) & 0xffu);
}

/* The key that a bind gives a window: the consumer chooses the variant, the index is the window's.
 */
static inline uint32_t simhca_key_bound(uint32_t window, uint32_t chosen)
{
	return (window & ~0xffu) | (chosen & 0xffu);
}

/* Access rights: the values of enum ibv_access_flags. */
enum simhca_access {
	SIMHCA_ACCESS_LOCAL_WRITE = 1 << 0,
	SIMHCA_ACCESS_REMOTE_WRITE = 1 << 1,
	SIMHCA_ACCESS_REMOTE_READ = 1 << 2,
	SIMHCA_ACCESS_REMOTE_ATOMIC = 1 << 3,
	SIMHCA_ACCESS_MW_BIND = 1 << 4,
	SIMHCA_ACCESS_ZERO_BASED = 1 << 5,
	SIMHCA_ACCESS_ON_DEMAND = 1 << 6,
	SIMHCA_ACCESS_HUGETLB = 1 << 7,
	SIMHCA_ACCESS_FLUSH_GLOBAL = 1 << 8,
	SIMHCA_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	SIMHCA_ACCESS_RELAXED_ORDERING = 1 << 20,
};

/* Where a queue lies in context memory. */
struct simhca_mem_ref {
	uint32_t segment; /* index of the memfd; fetched with SIMHCA_CMD_GET_SEGMENT */
	uint32_t reserved;
	uint64_t offset; /* bytes from its start */
};
SIMHCA_ABI_SIZE(struct simhca_mem_ref, 16);

/* ------------------------------------------------------- device memory */

/* What ibv_query_device_ex reports; the fields are those of struct ibv_device_attr. */
struct simhca_device_attr {
	char fw_ver[64];	   /* NUL terminated; equals fw_ver in the device tree */
	uint64_t node_guid;	   /* big endian */
	uint64_t sys_image_guid;   /* big endian */
	uint64_t max_mr_size;	   /* bytes */
	uint64_t page_size_cap;	   /* bit n: pages of 2^n bytes */
	uint64_t device_cap_flags; /* enum ibv_device_cap_flags and its extended bits */
	uint64_t hca_core_clock;   /* kHz of the clock behind completion timestamps */
	uint64_t timestamp_mask;   /* bits of a completion timestamp that count */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	uint32_t max_qp;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_sge_rd;
	uint32_t max_inline; /* bytes */
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_mr;
	uint32_t max_mw;
	uint32_t max_pd;
	uint32_t max_ah;
	uint32_t max_srq;
	uint32_t max_srq_wr;
	uint32_t max_srq_sge;
	uint32_t max_qp_rd_atom;
	uint32_t max_res_rd_atom;
	uint32_t max_qp_init_rd_atom;
	uint32_t max_mcast_grp;
	uint32_t max_mcast_qp_attach;
	uint32_t max_total_mcast_qp_attach;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t num_comp_vectors;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay; /* 4.096 us * 2^n */
	uint8_t phys_port_cnt;
	uint32_t max_fast_reg_page_list_len; /* entries */
	uint32_t fast_reg_page_sizes;	     /* bit n: pages of 2^n bytes */
	uint32_t max_cq_count;		     /* CQ moderation, as MODIFY_CQ takes it */
	uint32_t max_cq_period;		     /* us */
	uint32_t event_at_arm; /* 1: arming a CQ that holds completions raises an event: see ARM_CQ
				*/
	/* on-demand paging: enum ibv_odp_general_caps, and per transport what may use its regions:
	   enum ibv_odp_transport_cap_bits */
	uint32_t odp_caps;
	uint32_t rc_odp_caps;
	uint32_t uc_odp_caps;
	uint32_t ud_odp_caps;
	uint32_t xrc_odp_caps;
	uint64_t max_dm_size; /* bytes of on-chip memory */
};
SIMHCA_ABI_SIZE(struct simhca_device_attr, 272);
SIMHCA_ABI_AT(struct simhca_device_attr, vendor_id, 120);

/* What ibv_query_port reports for port 1; follows the network interface while the device runs. */
struct simhca_port_attr {
	_Atomic uint32_t state;	     /* enum ibv_port_state */
	_Atomic uint32_t active_mtu; /* enum ibv_mtu */
	uint32_t max_mtu;	     /* enum ibv_mtu */
	uint32_t gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz; /* bytes */
	_Atomic uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid; /* 0 on Ethernet */
	uint16_t sm_lid;
	uint8_t sm_sl;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t active_width; /* as in struct ibv_port_attr */
	uint8_t active_speed; /* likewise; at most NDR, which is what fits */
	uint8_t phys_state;
	uint8_t link_layer; /* IBV_LINK_LAYER_INFINIBAND 1, IBV_LINK_LAYER_ETHERNET 2 */
	uint8_t flags;	    /* IBV_QPF_GRH_REQUIRED 1 on Ethernet */
	uint16_t port_cap_flags2;
	uint32_t active_speed_ex; /* the speed itself */
	uint32_t reserved[2];
};
SIMHCA_ABI_SIZE(struct simhca_port_attr, 56);

union simhca_gid {
	uint8_t raw[16];
	struct {
		uint64_t subnet_prefix; /* big endian */
		uint64_t interface_id;	/* big endian */
	} global;
};
SIMHCA_ABI_SIZE(union simhca_gid, 16);

/* RoCE version of a GID (enum ibv_gid_type_sysfs differs between releases, so this is ours). */
enum simhca_gid_type {
	SIMHCA_GID_IB = 0,
	SIMHCA_GID_ROCE_V2 = 2,
};

struct simhca_gid_entry {
	union simhca_gid gid; /* all zero: the entry is empty */
	uint32_t type;	      /* enum simhca_gid_type */
	uint32_t ifindex;     /* of the network interface; 0 on InfiniBand */
};
SIMHCA_ABI_SIZE(struct simhca_gid_entry, 24);

/* An address vector: how to reach a port (IBTA vol. 1, 11.2.2.1). */
struct simhca_av {
	union simhca_gid dgid;
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global; /* 1: dgid and its companions are valid */
	uint8_t port_num;
	uint8_t reserved[2];
};
SIMHCA_ABI_SIZE(struct simhca_av, 32);

/* the values of enum ibv_qp_type */
enum simhca_qp_type {
	SIMHCA_QPT_RC = 2,
	SIMHCA_QPT_UC = 3,
	SIMHCA_QPT_UD = 4,
	SIMHCA_QPT_XRC_SEND = 9,  /* initiator: only sends; each request names the peer's SRQ */
	SIMHCA_QPT_XRC_RECV = 10, /* target: no queues of its own; shared by who has it open */
	SIMHCA_QPT_RAW_PACKET = 8,
	/*
	 * Not in verbs: what ibv_create_wq() makes. It is a receive queue alone, has a number and
	 * a QP context like a QP, and is RESET, RTR (which stands for RDY) or ERR.
	 */
	SIMHCA_QPT_WQ = 256,
};

/* the values of enum ibv_qp_state */
enum simhca_qp_state {
	SIMHCA_QPS_RESET = 0,
	SIMHCA_QPS_INIT = 1,
	SIMHCA_QPS_RTR = 2,
	SIMHCA_QPS_RTS = 3,
	SIMHCA_QPS_SQD = 4,
	SIMHCA_QPS_SQE = 5,
	SIMHCA_QPS_ERR = 6,
};

/* QP context: the attributes of a QP, written by the device only. */
struct simhca_qpc {
	_Atomic uint32_t state; /* enum simhca_qp_state */
	_Atomic uint32_t qpn;	/* 0: the slot is free */
	_Atomic uint32_t type;	/* enum simhca_qp_type */
	_Atomic uint32_t
		dest_qpn;      /* others' engines look at these four, to tell why all is silent */
	uint32_t pd;	       /* PD handle within the device */
	uint32_t access;       /* remote rights granted on this QP: enum simhca_access */
	_Atomic uint32_t qkey; /* UD; it may change in RTS, while engines and senders compare it */
	uint32_t sq_psn;       /* initial value, as set by modify_qp */
	uint32_t rq_psn;       /* initial value, as set by modify_qp */
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline; /* bytes */
	uint16_t pkey_index;
	uint8_t path_mtu; /* enum ibv_mtu */
	uint8_t port_num;
	uint8_t max_rd_atomic;
	_Atomic uint8_t max_dest_rd_atomic; /* the requester's engine reads it, too */
	uint8_t min_rnr_timer;		    /* coded, IBTA vol. 1 table 45 */
	uint8_t timeout;		    /* 4.096 us * 2^n; 0: no time-out */
	uint8_t retry_cnt;
	uint8_t rnr_retry;   /* 7: without end */
	uint8_t sq_draining; /* 1 in SQD until the last WQE under way has completed */
	uint8_t sq_sig_all;
	uint8_t en_sqd_async_notify;
	uint8_t reserved0[3];
	struct simhca_av av;
	uint32_t xrcd; /* XRC_RECV: the number of its domain within the device; else 0 */
	/* 0: only the device carries its messages, and those that are for it */
	_Atomic uint32_t fastpath_epoch;
	uint32_t reserved1[36];
};
SIMHCA_ABI_SIZE(struct simhca_qpc, 256);
SIMHCA_ABI_AT(struct simhca_qpc, av, 72);

enum simhca_mpt_type {
	SIMHCA_MPT_FREE = 0,
	SIMHCA_MPT_MR = 1,	/* ordinary region */
	SIMHCA_MPT_NULL_MR = 2, /* reads as zero, drops what is written */
	SIMHCA_MPT_FAST_MR = 3, /* region made valid by FAST_REG, free again by invalidation */
	SIMHCA_MPT_MW_1 = 4,	/* window of type 1: any QP of its PD */
	SIMHCA_MPT_MW_2A = 5,	/* window of type 2A: the QP that bound it */
	SIMHCA_MPT_MW_2B = 6,	/* window of type 2B: that QP, and its PD */
};

/* Memory protection table entry: one region or window. Written by the device only. */
struct simhca_mpt {
	_Atomic uint32_t state; /* enum simhca_mpt_type; FREE: no access can start */
	_Atomic uint32_t key;	/* the whole key, variant included */
	_Atomic uint32_t pd;	/* PD handle within the device */
	uint32_t access;	/* enum simhca_access */
	uint64_t iova;		/* first address by which work requests name it */
	uint64_t length;	/* bytes */
	uint64_t addr;		/* first address in the owner's memory; 0 with a page list */
	/* ordinary regions: the number of the address space that they lie in; 0: only the device
	   has its way to their memory; below SIMHCA_MM_SLOTS: they lie in a file (`file`), and this
	   is the slot of that */
	uint32_t mm;
	_Atomic uint32_t valid; /* fast-register regions: registered; windows: bound; else 1 */
	_Atomic uint32_t qpn;	/* type 2 windows: the QP that it is bound to; 0: none */
	uint32_t bound;		/* regions: windows bound to it; windows: the region's key index */
	union {
		uint32_t pages; /* fast-register regions: length of the longest page list */
		/* ordinary regions: the number by which programs that have mapped the region
		   (MAP_REGION) know it, which no other one had before; 0: it cannot be mapped */
		uint32_t file;
	};
	union {
		uint32_t page_shift; /* fast-register regions: pages of 2^n bytes */
		/* regions with `file`: the number of the address space whose memory was moved there,
		   and has it at addr; 0: none, or only the device has its way to that */
		uint32_t home;
	};
};
SIMHCA_ABI_SIZE(struct simhca_mpt, 64);
SIMHCA_ABI_AT(struct simhca_mpt, valid, 44);

/*
 * What the number of an address space says: which of the processes, or files, on which atomics are
 * done it is. Some may share a slot. Those of processes are SIMHCA_MM_SLOTS at least.
 */
#define SIMHCA_MM_SLOTS 512
#define SIMHCA_MM_SLOT(mm) ((mm) & (SIMHCA_MM_SLOTS - 1))

/* The start of device memory. */
struct simhca_devmem {
	uint32_t abi_version;	/* SIMHCA_ABI_VERSION */
	_Atomic uint32_t fatal; /* 1: the device has failed; nothing will ever complete */
	uint64_t qpc_offset;	/* struct simhca_qpc [SIMHCA_QPN_SLOTS], indexed by QPN slot */
	uint64_t mpt_offset;	/* struct simhca_mpt [SIMHCA_MPT_ENTRIES], indexed by key index */
	uint64_t size;		/* bytes */
	struct simhca_device_attr attr;
	struct simhca_port_attr port;
	uint32_t fast_path; /* 1: programs may run steps of their QPs (simhca-abi-fastpath.h) */
	/* 1: the device has stopped looking what programs do; who does something wakes it. */
	_Atomic uint32_t dozes;
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES];
	uint16_t pkeys[SIMHCA_PKEY_ENTRIES];
	uint8_t moves_memory; /* 1: programs move what they register into files (REG_DMABUF_MR) */
	uint8_t reserved2[5];
	/* by SIMHCA_MM_SLOT(mm): not 0, programs do not write to such an address space */
	_Atomic uint32_t by_device[SIMHCA_MM_SLOTS];
};
SIMHCA_ABI_AT(struct simhca_devmem, attr, 32);
SIMHCA_ABI_AT(struct simhca_devmem, gids, 368);
SIMHCA_ABI_AT(struct simhca_devmem, by_device, 568);
SIMHCA_ABI_SIZE(struct simhca_devmem, 568 + 2048);

/* The entry of a key's index, whatever its variant; NULL: no key has that index. */
static inline const struct simhca_mpt *simhca_mpt_of(const struct simhca_devmem *device,
						     uint32_t key)
{
	if (SIMHCA_KEY_INDEX(key) >= SIMHCA_MPT_ENTRIES)
		return 0;
	return (const struct simhca_mpt *)((const char *)device + device->mpt_offset) +
	       SIMHCA_KEY_INDEX(key);
}

#include "simhca-abi-context.h"
#include "simhca-abi-wqe.h"
#include "simhca-abi-cmd.h"

#endif
