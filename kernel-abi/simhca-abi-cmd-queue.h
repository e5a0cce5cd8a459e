/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands of queues and what belongs to them: address handles, CQs, XRC domains, SRQs, QPs,
 * multicast groups, completion counters. simhca-abi-cmd.h says how they are sent.
 */
#ifndef SIMHCA_ABI_CMD_QUEUE_H
#define SIMHCA_ABI_CMD_QUEUE_H

#ifndef SIMHCA_ABI_CMD_H
#error "include simhca-abi.h"
#endif

struct simhca_create_ah_req {
	uint32_t pd;
	uint32_t reserved;
	struct simhca_av av;
};

struct simhca_create_cq_req {
	struct simhca_user_handle user_handle;
	uint64_t channel; /* inode of the completion channel's pipe; 0: none */
	uint32_t cqe;	  /* entries wanted, 1 .. max_cqe */
	uint32_t comp_vector;
	uint32_t flags; /* enum simhca_cq_flags */
	uint32_t reserved;
};
enum simhca_cq_flags {
	SIMHCA_CQ_TIMESTAMP = 1 << 0, /* fill timestamp and wallclock of each CQE */
	SIMHCA_CQ_IGNORE_OVERRUN = 1 << 1,
};
struct simhca_create_cq_reply {
	uint32_t handle;
	uint32_t cqe;		     /* entries usable */
	uint32_t entries;	     /* of the ring */
	uint32_t renew;		     /* 1: of a CQ that was resized: RENEW_QUEUE is to follow */
	struct simhca_mem_ref state; /* struct simhca_cq_mem */
	struct simhca_mem_ref ring;  /* struct simhca_cqe [entries] */
	struct simhca_mem_ref data;  /* SIMHCA_CQ_DATA [data_slots]; stays there in a resize */
	uint32_t data_slots;	     /* 0: it has none */
	uint32_t reserved;
};

/* RESIZE_CQ: the CQEs not yet consumed keep their indices; the reply is create_cq's. */
struct simhca_resize_cq_req {
	uint32_t handle;
	uint32_t cqe;
	uint32_t outstanding; /* completions that may still come: as the provider counts them */
	uint32_t reserved;
};

/*
 * MODIFY_CQ: moderation. An event waits until count completions that it could have been raised for
 * have come, or period microseconds have passed since the first. Either 0: no moderation.
 */
struct simhca_modify_cq_req {
	uint32_t handle;
	uint32_t count;
	uint32_t period;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_modify_cq_req, 16);

/*
 * ARM_CQ takes struct simhca_handle, on devices with event_at_arm alone: the client has armed this
 * CQ while there were CQEs in it. The device looks, and raises the event if they fit the arm.
 */

/*
 * Destroying a CQ, QP, SRQ or WQ says how many events were sent, so that the library can wait for
 * their acknowledgement. The request can bring the client's ends, of a CQ's channel and then of the
 * pipe for asynchronous events: what waits there unread is taken back, and not counted.
 */
struct simhca_destroy_reply {
	uint32_t comp_events;  /* events of this CQ that were taken out of its channel by the client
				*/
	uint32_t async_events; /* likewise asynchronous ones */
	uint32_t renew;	       /* of a QP: enum simhca_renew */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_destroy_reply, 16);

/*
 * OPEN_XRCD: an XRC domain. With has_fd the first extra descriptor is a file that the sender has
 * open: all who bring that file (the inode counts) and the same device open one domain. The kernel
 * passes the descriptor, so nobody gets into a domain by claiming an inode. ENOENT if there is
 * no such domain and CREATE is not set, EINVAL if there is one and EXCLUSIVE is. Without has_fd it
 * is a new domain that nobody else can open. The reply and the request of CLOSE_XRCD are struct
 * simhca_handle; EBUSY as long as this context has SRQs or QPs that were made or opened through the
 * handle.
 */
struct simhca_open_xrcd_req {
	uint32_t has_fd;
	uint32_t flags; /* enum simhca_xrcd_flags */
};
SIMHCA_ABI_SIZE(struct simhca_open_xrcd_req, 8);
enum simhca_xrcd_flags {
	SIMHCA_XRCD_CREATE = 1 << 0,	/* O_CREAT */
	SIMHCA_XRCD_EXCLUSIVE = 1 << 1, /* O_EXCL */
};

/* the values of enum ibv_srq_type */
enum simhca_srq_type {
	SIMHCA_SRQT_BASIC = 0,
	SIMHCA_SRQT_XRC = 1,
	SIMHCA_SRQT_TM = 2,
};
struct simhca_create_srq_req {
	struct simhca_user_handle user_handle;
	uint32_t type; /* enum simhca_srq_type */
	uint32_t xrcd; /* handle, of an XRC SRQ */
	uint32_t cq;   /* likewise, of an XRC or tag-matching SRQ: where its receives complete */
	uint32_t max_tags; /* of a tag-matching SRQ */
	uint32_t pd;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t limit; /* for lint: an SRQ has none until it is set (ibv_create_srq(3)) */
};
struct simhca_create_srq_reply {
	uint32_t handle;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t entries;
	uint32_t stride; /* bytes */
	uint32_t srqn;	 /* within the device */
	uint32_t renew;	 /* 1: of an SRQ that was resized: RENEW_QUEUE is to follow */
	uint32_t reserved;
	struct simhca_mem_ref state; /* struct simhca_srq_mem */
	struct simhca_mem_ref ring;
};
/* the values of enum ibv_srq_attr_mask */
enum simhca_srq_mask {
	SIMHCA_SRQ_MAX_WR = 1 << 0,
	SIMHCA_SRQ_LIMIT = 1 << 1,
};
/* MODIFY_SRQ with MAX_WR moves the ring: the reply is create_srq's, WQEs keep their indices. */
struct simhca_modify_srq_req {
	uint32_t handle;
	uint32_t mask;
	uint32_t max_wr;
	uint32_t limit;
};
/*
 * SRQ_OP: one operation on the tag list of a tag-matching SRQ, over when it is answered. It
 * completes on the SRQ's CQ if SIGNALED, or if it fails (DEL of an entry that has been used). The
 * reply is struct simhca_handle, for ADD the entry's; ENOMEM: the list is full.
 */
/* the values of enum ibv_ops_wr_opcode */
enum simhca_srq_opcode {
	SIMHCA_SRQ_TAG_ADD = 0,
	SIMHCA_SRQ_TAG_DEL = 1,
	SIMHCA_SRQ_TAG_SYNC = 2,
};
/* the values of enum ibv_ops_flags */
enum simhca_srq_op_flags {
	SIMHCA_SRQ_OP_SIGNALED = 1 << 0,
	SIMHCA_SRQ_OP_SYNC = 1 << 1, /* unexpected is valid */
};
struct simhca_srq_op_req {
	uint64_t wr_id;
	uint32_t srq;
	uint32_t opcode;     /* enum simhca_srq_opcode */
	uint32_t flags;	     /* enum simhca_srq_op_flags */
	uint32_t unexpected; /* messages that found no entry, as far as the client has seen them */
	uint32_t entry;	     /* DEL: its handle */
	uint32_t num_sge;    /* what follows is for ADD */
	uint64_t recv_wr_id; /* of the completion of the message that matches */
	uint64_t tag;	     /* matches if the message's tag & mask is this */
	uint64_t mask;
	struct simhca_sge sge[SIMHCA_MAX_TM_SGE];
};
SIMHCA_ABI_SIZE(struct simhca_srq_op_req, 120);

struct simhca_query_srq_reply {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t limit;
	uint32_t reserved;
};

struct simhca_create_qp_req {
	struct simhca_user_handle user_handle;
	uint32_t type; /* enum simhca_qp_type */
	uint32_t pd;
	uint32_t send_cq;
	uint32_t recv_cq;
	uint32_t srq; /* handle; valid if has_srq */
	uint32_t has_srq;
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline; /* bytes */
	uint32_t sq_sig_all;
	uint32_t xrcd; /* XRC_RECV: handle of its domain; PD, CQs and sizes say nothing then */
	uint32_t strip_cvlan; /* RAW_PACKET: 1: C-VLAN tags go from the frame to the CQE */
	uint32_t slot_data;   /* 1: who polls copies what small messages bring */
	uint32_t no_fastpath; /* 1: the device carries all of its messages, and all for it */
};
struct simhca_create_qp_reply {
	uint32_t handle;
	uint32_t qpn;
	uint32_t doorbell;    /* slot in the context's doorbell bitmap */
	uint32_t max_send_wr; /* as granted: the depth that posting is held to */
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint32_t sq_entries; /* of the ring */
	uint32_t sq_stride;  /* bytes */
	uint32_t rq_entries; /* 0 with an SRQ */
	uint32_t rq_stride;
	uint32_t slot_data; /* bytes from the start of an RQ slot to its data; 0: it has none */
	uint32_t reserved;
	struct simhca_mem_ref state; /* struct simhca_qp_mem */
	struct simhca_mem_ref sq;
	struct simhca_mem_ref rq;
	struct simhca_mem_ref claims;	/* UD: struct simhca_srq_mem of the RQ; all zero: none */
	struct simhca_mem_ref fastpath; /* struct simhca_fastpath; all zero: it has none */
};

/*
 * OPEN_QP: another handle of an XRC_RECV QP. The QP goes with the last of its handles, that is with
 * the last of the contexts that have it open; its asynchronous events go to each of them.
 */
struct simhca_open_qp_req {
	struct simhca_user_handle user_handle;
	uint32_t xrcd; /* handle; the QP must be of this domain */
	uint32_t qpn;
};
SIMHCA_ABI_SIZE(struct simhca_open_qp_req, 24);

/* The fields and mask bits of struct ibv_qp_attr, at fixed widths. */
struct simhca_qp_attr {
	uint32_t qp_state;
	uint32_t cur_qp_state;
	uint32_t path_mtu;
	uint32_t path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	uint32_t qp_access_flags;
	uint32_t rate_limit;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint8_t reserved[9];
	struct simhca_av av;
	struct simhca_av alt_av;
	uint32_t max_send_wr; /* query only, like the four that follow */
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
	uint32_t sq_sig_all;
};
SIMHCA_ABI_SIZE(struct simhca_qp_attr, 64 + 64 + 24);

/* the values of enum ibv_qp_attr_mask */
enum simhca_qp_attr_mask {
	SIMHCA_QP_STATE = 1 << 0,
	SIMHCA_QP_CUR_STATE = 1 << 1,
	SIMHCA_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	SIMHCA_QP_ACCESS_FLAGS = 1 << 3,
	SIMHCA_QP_PKEY_INDEX = 1 << 4,
	SIMHCA_QP_PORT = 1 << 5,
	SIMHCA_QP_QKEY = 1 << 6,
	SIMHCA_QP_AV = 1 << 7,
	SIMHCA_QP_PATH_MTU = 1 << 8,
	SIMHCA_QP_TIMEOUT = 1 << 9,
	SIMHCA_QP_RETRY_CNT = 1 << 10,
	SIMHCA_QP_RNR_RETRY = 1 << 11,
	SIMHCA_QP_RQ_PSN = 1 << 12,
	SIMHCA_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	SIMHCA_QP_ALT_PATH = 1 << 14,
	SIMHCA_QP_MIN_RNR_TIMER = 1 << 15,
	SIMHCA_QP_SQ_PSN = 1 << 16,
	SIMHCA_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	SIMHCA_QP_PATH_MIG_STATE = 1 << 18,
	SIMHCA_QP_CAP = 1 << 19,
	SIMHCA_QP_DEST_QPN = 1 << 20,
	SIMHCA_QP_RATE_LIMIT = 1 << 25,
};

struct simhca_modify_qp_req {
	uint32_t handle;
	uint32_t mask; /* enum simhca_qp_attr_mask */
	struct simhca_qp_attr attr;
};
struct simhca_modify_qp_reply {
	uint32_t state; /* after the change */
	/*
	 * 0; or the QP's own segment, which a peer had, is another file now, all zero: it is to be
	 * asked for again (GET_SEGMENT), and mapped in the place of the one before. Its number, and
	 * where things are in it, are what they were.
	 */
	uint32_t segment;
	uint32_t renew; /* enum simhca_renew */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_modify_qp_reply, 16);

/*
 * Queues of a QP whose memory another program has been given, and no program uses any more. They
 * are to get other memory, in two commands, while the client neither polls nor posts there:
 *
 * RENEW_QUEUE brings a file of the same size. The client maps it where it has the queue, and says
 * in it what is the client's: ci of a CQ, pi of an SRQ. It can arm the CQ at any time. Until then
 * the device works with the memory that there was. No program is attached to the queue's QPs
 * meanwhile. It fails if none is needed, or not at this moment (EBUSY), and may be repeated.
 *
 * MOVE_QUEUE: the client has mapped it, and the device does so, too. What waits in the queue is
 * there then, by the same indices.
 */
enum simhca_renew {
	SIMHCA_RENEW_SEND_CQ = 1 << 0,
	SIMHCA_RENEW_RECV_CQ = 1 << 1,
	SIMHCA_RENEW_SRQ = 1 << 2,
};
enum simhca_queue_kind {
	SIMHCA_QUEUE_CQ,
	SIMHCA_QUEUE_SRQ,
};
struct simhca_queue_req {
	uint32_t handle;
	uint32_t kind; /* enum simhca_queue_kind */
};
struct simhca_renew_queue_reply {
	uint64_t size; /* bytes of the file */
};
struct simhca_query_qp_reply {
	struct simhca_qp_attr attr;
};

struct simhca_mcast_req {
	uint32_t qp;
	uint16_t lid;
	uint16_t reserved;
	union simhca_gid gid;
};

/* The values of enum ibv_comp_cntr_type. */
enum simhca_comp_cntr_type {
	SIMHCA_COMP_CNTR_WRS = 0,
	SIMHCA_COMP_CNTR_BYTES = 1,
};

struct simhca_create_comp_cntr_req {
	uint32_t type; /* enum simhca_comp_cntr_type */
	uint32_t reserved;
};
struct simhca_create_comp_cntr_reply {
	uint32_t handle;
	uint32_t reserved;
	struct simhca_mem_ref state; /* struct simhca_comp_cntr_mem */
};

/* What a counter counts of a QP: numbers of the bits of enum ibv_qp_attach_comp_cntr_op. */
enum simhca_comp_cntr_op {
	SIMHCA_COUNTS_SEND = 0,
	SIMHCA_COUNTS_RECV = 1,
	SIMHCA_COUNTS_READ = 2,
	SIMHCA_COUNTS_REMOTE_READ = 3,
	SIMHCA_COUNTS_WRITE = 4,
	SIMHCA_COUNTS_REMOTE_WRITE = 5,
	SIMHCA_COUNTS_OPS = 6,
};

/* ATTACH_COMP_CNTR: until the QP is destroyed. */
struct simhca_attach_comp_cntr_req {
	uint32_t qp;
	uint32_t counter;
	uint32_t ops; /* bit n: enum simhca_comp_cntr_op n */
	uint32_t reserved;
};

#endif
