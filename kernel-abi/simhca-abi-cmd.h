/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The control path: commands on the connection that stands for an open uverbs device.
 *
 * The connection is an AF_UNIX SOCK_SEQPACKET socket, one per ibv_context (libibverbs'
 * cmd_fd). A client sends one datagram a command: struct simhca_cmd_hdr, the command's
 * request struct, and as SCM_RIGHTS first the socket on which it wants the answer, then
 * whatever descriptors the command needs. The answer is one datagram on that socket:
 * struct simhca_reply_hdr, the reply struct, descriptors as SCM_RIGHTS.
 *
 * Since every command has a socket for its answer, threads and forked children share
 * the connection without a lock, and a daemon that dies closes every answer still owed.
 * Making a socket and passing it on takes longer than most commands. So a command may ask
 * that the daemon keeps the one that it brings: the answer then has a number, by which later
 * commands on this connection, by whoever has the socket's other end, name it instead of
 * bringing one.
 *
 * Most answers have no descriptors, and come without a socket and a system call: in a slot of the
 * context's memory (struct simhca_answer_slot). The slots are those of the process that has opened
 * the context; one that was forked from it, or has imported the context, uses sockets.
 *
 * The sender's pid and uid come from the kernel (SO_PASSCRED), never from the message. To name the
 * process beyond doubt (SO_PASSPIDFD) costs more than most commands: once the process that sends is
 * known the daemon does without, and where it should not have done so it answers
 * SIMHCA_CMD_SAY_AGAIN; nothing has been done then.
 *
 * A handle is a number that the device gave out; it means something only on this
 * connection. status is 0 or a positive errno; with another status than 0 nothing has
 * changed, no reply struct and no descriptor follow, and message says why in one line.
 */
#ifndef SIMHCA_ABI_CMD_H
#define SIMHCA_ABI_CMD_H

#ifndef SIMHCA_ABI_H
#error "include simhca-abi.h"
#endif

#define SIMHCA_CMD_MAGIC 0x53484341u /* "SHCA" */
#define SIMHCA_CMD_MAX_BYTES 512u    /* of a request or reply, header included */
#define SIMHCA_CMD_MAX_FDS 8u
#define SIMHCA_CMD_MESSAGE 160u /* bytes, NUL included */

enum simhca_cmd {
	SIMHCA_CMD_OPEN_CONTEXT = 1,
	SIMHCA_CMD_GET_SEGMENT,
	SIMHCA_CMD_CREATE_CHANNEL,
	SIMHCA_CMD_ALLOC_ASYNC_FD,
	SIMHCA_CMD_ALLOC_PD,
	SIMHCA_CMD_DEALLOC_PD,
	SIMHCA_CMD_REG_MR,
	SIMHCA_CMD_REREG_MR,
	SIMHCA_CMD_DEREG_MR,
	SIMHCA_CMD_CREATE_AH,
	SIMHCA_CMD_DESTROY_AH,
	SIMHCA_CMD_CREATE_CQ,
	SIMHCA_CMD_RESIZE_CQ,
	SIMHCA_CMD_DESTROY_CQ,
	SIMHCA_CMD_CREATE_SRQ,
	SIMHCA_CMD_MODIFY_SRQ,
	SIMHCA_CMD_QUERY_SRQ,
	SIMHCA_CMD_DESTROY_SRQ,
	SIMHCA_CMD_CREATE_QP,
	SIMHCA_CMD_MODIFY_QP,
	SIMHCA_CMD_QUERY_QP,
	SIMHCA_CMD_DESTROY_QP,
	SIMHCA_CMD_ATTACH_MCAST,
	SIMHCA_CMD_DETACH_MCAST,
	SIMHCA_CMD_SET_AGENT,
	SIMHCA_CMD_ALLOC_MR,
	SIMHCA_CMD_ALLOC_MW,
	SIMHCA_CMD_DEALLOC_MW,
	SIMHCA_CMD_MODIFY_CQ,
	SIMHCA_CMD_ARM_CQ,
	SIMHCA_CMD_OPEN_XRCD,
	SIMHCA_CMD_CLOSE_XRCD,
	SIMHCA_CMD_OPEN_QP,
	SIMHCA_CMD_SRQ_OP,
	SIMHCA_CMD_ALLOC_DM,
	SIMHCA_CMD_FREE_DM,
	SIMHCA_CMD_IMPORT_DM,
	SIMHCA_CMD_REG_DM_MR,
	SIMHCA_CMD_REG_DMABUF_MR,
	SIMHCA_CMD_QUERY_PD,
	SIMHCA_CMD_QUERY_MR,
	SIMHCA_CMD_CREATE_WQ,
	SIMHCA_CMD_MODIFY_WQ,
	SIMHCA_CMD_DESTROY_WQ,
	SIMHCA_CMD_CREATE_RWQ_TABLE,
	SIMHCA_CMD_DESTROY_RWQ_TABLE,
	SIMHCA_CMD_CREATE_RSS_QP,
	SIMHCA_CMD_CREATE_FLOW,
	SIMHCA_CMD_DESTROY_FLOW,
	SIMHCA_CMD_CREATE_COUNTERS,
	SIMHCA_CMD_READ_COUNTERS,
	SIMHCA_CMD_DESTROY_COUNTERS,
	SIMHCA_CMD_SET_USERFAULTFD,
	SIMHCA_CMD_ADVISE_MR,
	SIMHCA_CMD_QUERY_ODP,
	SIMHCA_CMD_CREATE_COMP_CNTR,
	SIMHCA_CMD_DESTROY_COMP_CNTR,
	SIMHCA_CMD_ATTACH_COMP_CNTR,
	SIMHCA_CMD_OFFER_MEMORY,
	SIMHCA_CMD_FIND_PEER,
	SIMHCA_CMD_ATTACH_PEER,
	SIMHCA_CMD_SAY,
	SIMHCA_CMD_WATCH_MR,
	SIMHCA_CMD_RENEW_QUEUE,
	SIMHCA_CMD_MOVE_QUEUE,
	SIMHCA_CMD_UVERBS_WRITE,
	SIMHCA_CMD_UVERBS_MAP,
	SIMHCA_CMD_UVERBS_WATCH,
	SIMHCA_CMD_COUNT,
};

struct simhca_cmd_hdr {
	uint32_t magic;	  /* SIMHCA_CMD_MAGIC */
	uint16_t version; /* SIMHCA_ABI_VERSION */
	uint16_t command; /* enum simhca_cmd */
	uint32_t length;  /* bytes of the datagram, this header included */
	uint32_t answer;  /* the number of a kept socket, or one of those below */
};
SIMHCA_ABI_SIZE(struct simhca_cmd_hdr, 16);

#define SIMHCA_CMD_SAY_AGAIN 0x7fffu /* a status: the same command is to be sent once more */

/* In a slot, whose number is in the other bits. No socket that is kept has such a number. */
#define SIMHCA_CMD_ANSWER_SLOT 0x80000000u
#define SIMHCA_CMD_ANSWER_COMES 0u	   /* with the command, for this answer */
#define SIMHCA_CMD_ANSWER_KEEP 0xffffffffu /* with the command, and may be kept */
/* A slot that there is not: there is none, for who has no descriptor left and wants to SAY so. */
#define SIMHCA_CMD_ANSWER_NOWHERE 0xfffffffeu

struct simhca_reply_hdr {
	uint32_t magic;	 /* SIMHCA_CMD_MAGIC */
	uint32_t status; /* 0 or errno */
	uint32_t length; /* bytes of the datagram, this header included */
	uint32_t kept;	 /* the number that the socket has now; 0: it was not kept */
	char message[SIMHCA_CMD_MESSAGE]; /* why it failed; empty on success */
};
SIMHCA_ABI_SIZE(struct simhca_reply_hdr, 176);
static_assert(SIMHCA_CMD_MAX_BYTES <= SIMHCA_ANSWER_BYTES, "each answer fits into a slot");

/*
 * OPEN_CONTEXT: once per connection; asked again (ibv_import_device on a duplicate of the
 * descriptor) it returns the same context. Descriptors of the reply, in this order: device
 * memory, context memory segment 0, the client's end of the pipe for asynchronous events and the
 * device's (the provider's watcher reports a dead daemon through it), and SIMHCA_MAX_ENGINE_CPUS
 * doorbell eventfds, of which some may be the same. Asked again, the pipe is a new one, and the
 * sender's next ALLOC_ASYNC_FD returns the client's end.
 */
struct simhca_open_context_reply {
	uint32_t context_id;
	uint32_t can_access_memory; /* 1: the device can reach this process with process_vm */
	uint64_t devmem_size;	    /* bytes */
	uint64_t segment_size;	    /* bytes of segment 0 */
	uint32_t doorbell_cpu[SIMHCA_MAX_ENGINE_CPUS]; /* where each eventfd is best written */
	uint32_t answer_slots; /* that are the sender's: SIMHCA_ANSWER_SLOTS or 0 */
	uint32_t reserved;
};

/* GET_SEGMENT: one descriptor in the reply. */
struct simhca_get_segment_req {
	uint32_t segment;
	uint32_t reserved;
};
struct simhca_get_segment_reply {
	uint64_t size; /* bytes */
};

/*
 * CREATE_CHANNEL, ALLOC_ASYNC_FD: no structs; one descriptor in the reply, the client's end of a
 * pair of stream sockets. Records are the kernel's (8-byte ib_uverbs_comp_event_desc, 16-byte
 * ib_uverbs_async_event_desc). A channel is later named by this end's inode number.
 */

/* the reply of every create, the request of every destroy */
struct simhca_handle {
	uint32_t handle;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_handle, 8);

/* Who hears of an object's events, and by what name. */
struct simhca_user_handle {
	uint64_t element; /* comes back in completion and asynchronous events */
	uint64_t events;  /* inode of the pipe for asynchronous ones; 0: the connection's first */
};
SIMHCA_ABI_SIZE(struct simhca_user_handle, 16);

struct simhca_reg_mr_req {
	uint64_t addr;	 /* in the sender's memory */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint32_t pd;
	uint32_t access;  /* enum simhca_access */
	uint32_t null_mr; /* 1: the null MR; addr, length and iova are ignored */
	/*
	 * 1: the sender has looked, and not all of it is mapped with these rights: EFAULT. The
	 * device does not look, for it would wait for whoever holds the locks of that address
	 * space. Who says nothing finds out when the memory is accessed.
	 */
	uint32_t unmapped;
};
struct simhca_reg_mr_reply {
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t reserved;
};

/* the values of enum ibv_rereg_mr_flags */
enum simhca_rereg {
	SIMHCA_REREG_TRANSLATION = 1 << 0,
	SIMHCA_REREG_PD = 1 << 1,
	SIMHCA_REREG_ACCESS = 1 << 2,
};
/* the reply is struct simhca_reg_mr_reply */
struct simhca_rereg_mr_req {
	uint32_t handle;
	uint32_t flags; /* enum simhca_rereg */
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
	uint32_t pd;
	uint32_t access;
	uint32_t unmapped; /* as in REG_MR, of what the region is to be */
	uint32_t reserved;
};

/*
 * DEREG_MR and REREG_MR of a region with windows bound fail with EBUSY and change nothing.
 *
 * ALLOC_MR: a fast-register region, free until a FAST_REG makes it valid. The pages that it may be
 * registered over are the sender's. The reply is struct simhca_reg_mr_reply (the key that it
 * has until then); it ends with DEREG_MR, valid or not.
 */
struct simhca_alloc_mr_req {
	uint32_t pd;
	uint32_t max_pages; /* entries of the longest page list, 1 .. max_fast_reg_page_list_len */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mr_req, 8);

/* the values of enum ibv_mw_type */
enum simhca_mw_type {
	SIMHCA_MW_TYPE_1 = 1,
	SIMHCA_MW_TYPE_2 = 2, /* 2A or 2B: as device_cap_flags says */
};
struct simhca_alloc_mw_req {
	uint32_t pd;
	uint32_t type; /* enum simhca_mw_type */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mw_req, 8);
/* DEALLOC_MW takes struct simhca_handle, bound or not */
struct simhca_alloc_mw_reply {
	uint32_t handle;
	uint32_t rkey; /* names the window; grants nothing until it is bound */
};
SIMHCA_ABI_SIZE(struct simhca_alloc_mw_reply, 8);

/*
 * ALLOC_DM: on-chip memory, zeroed. One descriptor in the reply: a memfd of size bytes, which
 * cannot be resized, for the program to map. FREE_DM fails with EBUSY while regions of it are
 * registered. IMPORT_DM asks for the same again, by its handle.
 */
struct simhca_alloc_dm_req {
	uint64_t length;    /* bytes */
	uint32_t log_align; /* at an address that is a multiple of 2^n, 12 at most */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_alloc_dm_req, 16);
struct simhca_dm_reply {
	uint32_t handle;
	uint32_t reserved;
	uint64_t length; /* as asked for */
	uint64_t size;	 /* of the memfd */
};
SIMHCA_ABI_SIZE(struct simhca_dm_reply, 24);

/* REG_DM_MR: the reply is struct simhca_reg_mr_reply, and DEREG_MR ends it, as for the next one. */
struct simhca_reg_dm_mr_req {
	uint64_t offset; /* into the on-chip memory */
	uint64_t length; /* bytes */
	uint32_t dm;	 /* handle */
	uint32_t pd;
	uint32_t access; /* enum simhca_access, with ZERO_BASED */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_reg_dm_mr_req, 32);

/*
 * REG_DMABUF_MR: a region of the file whose descriptor comes along: a dma-buf, or what lies in
 * memory only (memfd, tmpfs, hugetlbfs). The descriptor may be closed afterwards, and the file may
 * shrink: an access to what is no longer there is an error completion.
 */
struct simhca_reg_dmabuf_mr_req {
	uint64_t offset; /* into the file; the same within a page as iova */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint32_t pd;
	uint32_t access; /* enum simhca_access */
};
SIMHCA_ABI_SIZE(struct simhca_reg_dmabuf_mr_req, 32);

/* What on-demand paging has done, for one region or (QUERY_ODP) for a device since it exists. */
struct simhca_odp_counters {
	uint64_t faults;	    /* accesses that were stopped */
	uint64_t fault_pages;	    /* pages brought in for them */
	uint64_t failures;	    /* faults that could not be resolved */
	uint64_t invalidations;	    /* times that pages were taken away */
	uint64_t invalidated_pages; /* pages taken away */
	uint64_t prefetches;	    /* ranges prefetched */
	uint64_t prefetched_pages;  /* pages brought in for them */
	uint64_t watched_pages;	    /* pages brought in whose end an event will tell */
	uint64_t checked_pages;	    /* pages brought in that are looked for at each access */
};
SIMHCA_ABI_SIZE(struct simhca_odp_counters, 72);

/* QUERY_PD: nothing is to be told but that it exists. Like QUERY_MR it is for imports. */
struct simhca_query_mr_reply {
	uint32_t lkey;
	uint32_t rkey;
	uint32_t access; /* enum simhca_access */
	uint32_t type;	 /* enum simhca_mpt_type */
	uint64_t length; /* bytes */
	uint64_t iova;
	uint64_t addr;
	uint32_t windows;	/* bound to it */
	uint32_t used;		/* enum simhca_access: rights that were needed so far */
	uint64_t present_pages; /* on-demand: in the device's table now */
	struct simhca_odp_counters odp;
};
SIMHCA_ABI_SIZE(struct simhca_query_mr_reply, 56 + 72);

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
	uint32_t limit;
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
	uint32_t slot_data;   /* 1: who polls copies what lies in slots of the RQ */
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

/*
 * Ethernet: RAW_PACKET QPs, WQs, RSS and flow steering. A sender without CAP_NET_RAW over simhcad's
 * user namespace gets EPERM for a RAW_PACKET QP and for a flow.
 *
 * CREATE_WQ: the reply is create_qp's, with a receive ring only; it counts its posts in the run
 * state's rq_pi, and completes with its own number as qpn.
 */
struct simhca_create_wq_req {
	struct simhca_user_handle user_handle;
	uint32_t pd;
	uint32_t cq;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t strip_cvlan;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_create_wq_req, 40);

/* the values of enum ibv_wq_state */
enum simhca_wq_state {
	SIMHCA_WQS_RESET = 0,
	SIMHCA_WQS_RDY = 1,
	SIMHCA_WQS_ERR = 2,
};
/* the values of enum ibv_wq_attr_mask */
enum simhca_wq_mask {
	SIMHCA_WQ_STATE = 1 << 0,
	SIMHCA_WQ_CURR_STATE = 1 << 1,
	SIMHCA_WQ_FLAGS = 1 << 2,
};
struct simhca_modify_wq_req {
	uint32_t handle;
	uint32_t mask;	      /* enum simhca_wq_mask */
	uint32_t state;	      /* enum simhca_wq_state */
	uint32_t curr_state;  /* refused unless the WQ is in this state */
	uint32_t strip_cvlan; /* with FLAGS */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_modify_wq_req, 24);
/* after the change */
struct simhca_modify_wq_reply {
	uint32_t state;
	uint32_t reserved;
};

/* CREATE_RWQ_TABLE: WQs by hash; a WQ may stand in it more than once. */
struct simhca_create_rwq_table_req {
	uint32_t log_size;
	uint32_t reserved;
	uint32_t wq[SIMHCA_RWQ_TABLE_ENTRIES]; /* handles; 2^log_size of them count */
};

/* the values of enum ibv_rx_hash_fields; what is not here is not to be had */
enum simhca_hash_fields {
	SIMHCA_HASH_SRC_IPV4 = 1 << 0,
	SIMHCA_HASH_DST_IPV4 = 1 << 1,
	SIMHCA_HASH_SRC_IPV6 = 1 << 2,
	SIMHCA_HASH_DST_IPV6 = 1 << 3,
	SIMHCA_HASH_SRC_PORT_TCP = 1 << 4,
	SIMHCA_HASH_DST_PORT_TCP = 1 << 5,
	SIMHCA_HASH_SRC_PORT_UDP = 1 << 6,
	SIMHCA_HASH_DST_PORT_UDP = 1 << 7,
	SIMHCA_HASH_ALL = (1 << 8) - 1,
};
/*
 * CREATE_RSS_QP: a RAW_PACKET QP that hands frames on to the WQs of a table, and has neither queues
 * nor CQs nor a state of its own. Answered and destroyed like another QP.
 */
struct simhca_create_rss_qp_req {
	struct simhca_user_handle user_handle;
	uint64_t hash_fields; /* enum simhca_hash_fields */
	uint32_t pd;
	uint32_t table;
	uint32_t hash_function; /* 1: Toeplitz, as IBV_RX_HASH_FUNC_TOEPLITZ */
	uint32_t key_length;	/* bytes; SIMHCA_RSS_KEY_BYTES */
	uint8_t key[SIMHCA_RSS_KEY_BYTES];
};
SIMHCA_ABI_SIZE(struct simhca_create_rss_qp_req, 80);

/* Headers that a frame has, or a flow asks for. */
enum simhca_layer {
	SIMHCA_LAYER_VLAN = 1 << 0,
	SIMHCA_LAYER_IPV4 = 1 << 1,
	SIMHCA_LAYER_IPV6 = 1 << 2,
	SIMHCA_LAYER_TCP = 1 << 3,
	SIMHCA_LAYER_UDP = 1 << 4,
};

/*
 * What a flow can look at in a frame; what the frame does not have is 0. Fields of more than a
 * byte are big endian, as in the frame and in struct ibv_flow_spec_*.
 */
struct simhca_frame_fields {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint16_t ether_type; /* behind the last VLAN tag */
	uint16_t vlan_tag;   /* of the first one */
	uint32_t src_ip;     /* IPv4 */
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t ip_flags;    /* 2: do not fragment, 4: more fragments (enum ib_ipv4_flags) */
	uint8_t src_ip6[16]; /* IPv6 */
	uint8_t dst_ip6[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved;
	uint16_t dst_port; /* TCP or UDP */
	uint16_t src_port;
	uint32_t layers; /* enum simhca_layer; host order */
};
SIMHCA_ABI_SIZE(struct simhca_frame_fields, 76);

/* the values of enum ibv_flow_attr_type */
enum simhca_flow_type {
	SIMHCA_FLOW_NORMAL = 0,
	SIMHCA_FLOW_ALL_DEFAULT = 1,
	SIMHCA_FLOW_MC_DEFAULT = 2,
	SIMHCA_FLOW_SNIFFER = 3,
};
enum simhca_flow_flags {
	SIMHCA_FLOW_DONT_TRAP = 1 << 0,
	SIMHCA_FLOW_DROP = 1 << 1,
	SIMHCA_FLOW_TAG = 1 << 2,   /* tag is valid */
	SIMHCA_FLOW_COUNT = 1 << 3, /* counters is valid */
};
/* CREATE_FLOW: frames with (fields & mask) == (value & mask) go to the QP. */
struct simhca_create_flow_req {
	uint32_t qp;
	uint32_t type; /* enum simhca_flow_type */
	uint32_t priority;
	uint32_t port;
	uint32_t flags; /* enum simhca_flow_flags */
	uint32_t tag;	/* 24 bits; comes back in the CQE */
	uint32_t counters;
	uint32_t reserved;
	struct simhca_frame_fields value;
	struct simhca_frame_fields mask;
};
SIMHCA_ABI_SIZE(struct simhca_create_flow_req, 32 + 2 * 76);

/* READ_COUNTERS: what the flows with these counters have matched. */
struct simhca_read_counters_reply {
	uint64_t packets;
	uint64_t bytes;
};

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
 * Queues of a QP whose memory another program has been given, and no program uses any more. They are
 * to get other memory, in two commands, while the client neither polls nor posts there:
 *
 * RENEW_QUEUE brings a file of the same size. The client maps it where it has the queue, and says in
 * it what is the client's: ci of a CQ, pi of an SRQ. It can arm the CQ at any time. Until then the
 * device works with the memory that there was. No program is attached to the queue's QPs meanwhile. It
 * fails if none is needed, or not at this moment (EBUSY), and may be repeated.
 *
 * MOVE_QUEUE: the client has mapped it, and the device does so, too. What waits in the queue is there
 * then, by the same indices.
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

/*
 * SET_AGENT: for a process whose memory the device cannot reach with process_vm. The first
 * extra descriptor is the agent's end of a SOCK_SEQPACKET pair on which the device sends
 * struct simhca_agent_req, the second a sealed memfd of bounce_size bytes that both map.
 * The agent copies between its own memory and the bounce memory with pread and pwrite on
 * that descriptor, so that a bad address is an errno and not a signal. REG_MR and REREG_MR
 * answer ENOTCONN to a process that needs an agent and has none: a forked child.
 */
struct simhca_set_agent_req {
	uint64_t bounce_size; /* bytes */
};
enum simhca_agent_op {
	SIMHCA_AGENT_READ = 1,	/* the process's memory into the bounce memory */
	SIMHCA_AGENT_WRITE = 2, /* the bounce memory into the process's memory */
	/* of one segment, whole pages; nothing is copied. EACCES: mapped, but not writable */
	SIMHCA_AGENT_PAGE_IN = 3,	/* fault pages in for reading */
	SIMHCA_AGENT_PAGE_IN_WRITE = 4, /* and for writing; no byte changes */
	SIMHCA_AGENT_RESIDENT = 5,	/* are all of them in the page tables? EFAULT: no */
};
struct simhca_agent_req {
	uint32_t op;	 /* enum simhca_agent_op */
	uint32_t count;	 /* of segments; they follow one another in the bounce memory */
	uint64_t seq;	 /* comes back in the answer */
	uint64_t offset; /* in the bounce memory */
	struct {
		uint64_t addr;
		uint64_t length;
	} segment[16];
};
SIMHCA_ABI_SIZE(struct simhca_agent_req, 280);
struct simhca_agent_reply {
	uint64_t seq;
	uint32_t status; /* 0 or errno */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_agent_reply, 16);

/*
 * SET_USERFAULTFD: no structs; the first extra descriptor is a userfaultfd of the sender, made
 * non-blocking, with UFFDIO_API done and the events FORK, REMAP, REMOVE and UNMAP asked for as far
 * as the kernel lets the sender. The device registers the pages of on-demand regions with it, in
 * write-protect mode and without ever protecting any: so no access of the program is held up, and
 * its events tell which pages the program drops. One is kept for each process.
 *
 * WATCH_MR: struct simhca_handle, of an ordinary region that lies in the sender's memory; the reply has
 * a copy of that userfaultfd. From now on the device notes what of the region's memory is unmapped,
 * moved or dropped, and used after that, for lint. The sender registers the memory with the
 * userfaultfd, likewise, as only it may wait for who holds the locks of that address space, and
 * closes it: were there one when the device is gone, nobody would read its events.
 */

/* the values of enum ibv_advise_mr_advice */
enum simhca_advice_kind {
	SIMHCA_ADVICE_PREFETCH = 0,
	SIMHCA_ADVICE_PREFETCH_WRITE = 1,
	SIMHCA_ADVICE_PREFETCH_NO_FAULT = 2,
};
#define SIMHCA_ADVISE_FLUSH 1u /* IBV_ADVISE_MR_FLAG_FLUSH: answer when it is done */
#define SIMHCA_ADVISE_MAX_SGE 24
struct simhca_advise_mr_req {
	uint32_t pd;
	uint32_t advice;   /* enum simhca_advice_kind */
	uint32_t flags;	   /* SIMHCA_ADVISE_FLUSH */
	uint32_t num_sge;  /* 1 .. SIMHCA_ADVISE_MAX_SGE */
	uint64_t reserved; /* 0; the device's note while the answer is being waited for */
	struct simhca_sge sge[SIMHCA_ADVISE_MAX_SGE];
};
SIMHCA_ABI_SIZE(struct simhca_advise_mr_req, 24 + 16 * SIMHCA_ADVISE_MAX_SGE);

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

/* ------------------------------------------------------------------ the fast path */

/*
 * OFFER_MEMORY: a secret at an address of the sender. Who can read it there could as well write to
 * the sender's memory, for the kernel asks the same of both, and is let at the queues of this
 * context that are connected to its own. Offered again: the last one counts.
 */
struct simhca_secret {
	uint64_t word[2];
};
struct simhca_offer_memory_req {
	uint64_t address;
	struct simhca_secret secret;
};

/*
 * SAY: what the device cannot see, for who debugs the program. Its name, which counts if the device
 * does not see the process; why the provider itself has refused a verb, with that error; or that a
 * verb waits for events to be acknowledged, and, with the same text, that it waits no more; or what
 * lint has found there (SIMHCA_LINT=on). Before the context is opened: that one of OPEN and
 * OPEN_DEVICE was refused.
 */
enum simhca_say {
	SIMHCA_SAY_NAME,
	SIMHCA_SAY_POST_SEND,
	SIMHCA_SAY_POST_RECV,
	SIMHCA_SAY_POST_SRQ_RECV,
	/* The program had no descriptor for what a command has made, so that is undone. */
	SIMHCA_SAY_NO_DESCRIPTOR,
	SIMHCA_SAY_WAITS, /* error: SIMHCA_WAITS_FOR_LOCK, or 0, for events to be acknowledged */
	SIMHCA_SAY_WAITS_NO_MORE,
	SIMHCA_SAY_DESTROY_CQ, /* these are refused with EBUSY */
	SIMHCA_SAY_DEALLOC_PD,
	SIMHCA_SAY_DEALLOC_TD,
	SIMHCA_SAY_DEALLOC_DMAH,
	SIMHCA_SAY_FREE_PAGE_LIST,
	SIMHCA_SAY_NO_FENCE, /* these are notes of lint */
	SIMHCA_SAY_OVERWRITTEN,
	SIMHCA_SAY_CHANGED,
	SIMHCA_SAY_OTHER_PD,
	SIMHCA_SAY_FORKED,
	SIMHCA_SAY_MEMLOCK,
	/* The kernel refuses it the memory of a peer, with that error: it is not attached. */
	SIMHCA_SAY_NOT_ATTACHED,
	SIMHCA_SAY_CREATE_QP, /* the provider refuses it, and these */
	SIMHCA_SAY_CREATE_CQ,
	SIMHCA_SAY_CREATE_SRQ,
	SIMHCA_SAY_QUERY_PORT,
	SIMHCA_SAY_OPEN_DEVICE, /* for want of a descriptor in the program, and these */
	SIMHCA_SAY_OPEN,	/* a file of the device's */
	SIMHCA_SAY_CREATE_CHANNEL,
	SIMHCA_SAY_ALLOC_ASYNC_FD,
	SIMHCA_SAY_QUERY_GID,
	SIMHCA_SAY_COMMAND, /* the provider refuses a command: its number is in error as well */
	SIMHCA_SAY_MEMCPY_TO_DM, /* or a verb that has none */
	SIMHCA_SAY_MEMCPY_FROM_DM,
	SIMHCA_SAY_ALLOC_TD,
	SIMHCA_SAY_ALLOC_PARENT_DOMAIN,
	SIMHCA_SAY_BIND_MW,
	SIMHCA_SAY_ALLOC_DMAH,
	SIMHCA_SAY_QUERY_DEVICE,
	SIMHCA_SAY_NO_SGE, /* a note of lint */
	SIMHCA_SAY_KINDS,
};
#define SIMHCA_WAITS_FOR_LOCK 1
struct simhca_say_req {
	uint32_t what; /* enum simhca_say */
	/* errno, of a verb that is refused; NO_DESCRIPTOR: enum simhca_cmd; COMMAND: errno, and the
	 * latter in the upper 16 bits. */
	uint32_t error;
	char text[248]; /* NUL included */
};
SIMHCA_ABI_SIZE(struct simhca_say_req, 256);

/*
 * FIND_PEER: where the secret of the QP's peer is to be read; of a UD QP, that of whom an address
 * vector and a number name. ENOTCONN: not now.
 */
struct simhca_find_peer_req {
	uint32_t qp;
	uint32_t dest_qpn; /* UD, and so is av */
	struct simhca_av av;
};
struct simhca_find_peer_reply {
	uint32_t pid; /* as the asker sees it; 0: it does not */
	uint32_t reserved;
	uint64_t address;
};

/*
 * ATTACH_PEER: what the program needs so as to run steps of its QP. Descriptors of the reply: the
 * segment of the peer's QP, that of the CQ in which its receives complete, and that of its receive
 * queue: the SRQ's, or the QP's once more; and the device's ends of the completion channels of that
 * CQ and of the QP's send CQ, each if there is one.
 */
struct simhca_attach_peer_req {
	uint32_t qp;
	uint32_t dest_qpn; /* UD, and so is av */
	struct simhca_av av;
	struct simhca_secret secret; /* as it was read */
};
struct simhca_attach_peer_reply {
	uint32_t peer;		      /* its number */
	uint32_t fastpath_epoch;      /* of the QPCs, while this holds: the QP's */
	uint32_t peer_fastpath_epoch; /* the peer's */
	uint32_t mm;		      /* the sender's address space, as struct simhca_mpt has it */
	uint32_t peer_mm;	      /* that of the secret */
	uint32_t send_cqe;	      /* entries usable of the QP's send CQ */
	uint32_t send_entries;	      /* of its ring */
	uint32_t recv_cqe;	      /* likewise of the peer's receive CQ */
	uint32_t recv_entries;	      /* of its ring */
	uint32_t rq_entries;	      /* of the peer's receive queue, which may be an SRQ */
	uint32_t rq_stride;	      /* bytes */
	uint32_t slot_data;	      /* as create_qp's reply has it */
	uint32_t claimant; /* the peer's in its SRQ, or UD: the QP's in the peer's queue; 0: none */
	uint32_t is_srq;   /* 1: that queue is an SRQ */
	uint32_t rq_max_sge;
	uint32_t rq_pd;				  /* of the receive buffers */
	struct simhca_mem_ref send_cq, send_ring; /* of the sender's context memory */
	uint64_t qp_size, cq_size, rq_size;	  /* bytes of the segments */
	uint64_t state;				  /* offset in the first */
	uint64_t recv_cq, recv_ring;		  /* in the second */
	uint64_t rq, claims;			  /* in the third */
	uint64_t recv_channel, send_channel;	  /* inodes; 0: no descriptor of it comes */
	uint64_t recv_event, send_event;	  /* the records of the two CQs' events */
};

/*
 * For drivers of real hardware, which know only the kernel's interface. The preload library passes on
 * what they ask the kernel for.
 *
 * UVERBS_WRITE: a write command, with the structs of <rdma/ib_user_verbs.h>; what the driver and its
 * device exchange beside them (<rdma/efa-abi.h>) follows each of them. GET_CONTEXT is the first one on
 * a connection, and takes the place of OPEN_CONTEXT. CREATE_CQ with a completion channel brings the
 * program's end of it along.
 */
#define SIMHCA_UVERBS_BYTES 320u
/* Methods of drivers, which are no write commands: an object and a method of its, by their numbers. */
#define SIMHCA_UVERBS_METHOD(object, method) (0x40000000u | (object) << 16 | (method))
#define SIMHCA_UVERBS_EFA_QUERY_MR SIMHCA_UVERBS_METHOD(7u, 0x1000u) /* UVERBS_OBJECT_MR */
enum simhca_uverbs_part { SIMHCA_UVERBS_CORE, SIMHCA_UVERBS_DRIVER, SIMHCA_UVERBS_PARTS };
struct simhca_uverbs_write_req {
	uint32_t command; /* as the kernel numbers them, IB_USER_VERBS_CMD_FLAG_EXTENDED included */
	uint16_t in[SIMHCA_UVERBS_PARTS];  /* bytes of each part, one after the other in data */
	uint16_t out[SIMHCA_UVERBS_PARTS]; /* bytes that the driver has room for */
	uint32_t reserved;
	uint8_t data[SIMHCA_UVERBS_BYTES];
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_write_req, 336);
struct simhca_uverbs_write_reply {
	uint16_t out[SIMHCA_UVERBS_PARTS]; /* bytes in data; what is wanted beyond them is 0 */
	/* offset in data of the 4 bytes for the descriptor that the answer brings; 0xffff: none */
	uint16_t fd_at;
	uint16_t reserved;
	uint8_t data[SIMHCA_UVERBS_BYTES];
};
#define SIMHCA_UVERBS_NO_FD 0xffffu
SIMHCA_ABI_SIZE(struct simhca_uverbs_write_reply, 328);

/*
 * UVERBS_MAP: what mmap() of the device at this offset, which an answer has named, is to map. One
 * descriptor in the reply.
 */
struct simhca_uverbs_map_req {
	uint64_t key;	 /* the offset */
	uint64_t length; /* bytes */
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_map_req, 16);
struct simhca_uverbs_map_reply {
	uint64_t offset;   /* in the descriptor's file; whole pages */
	uint32_t doorbell; /* 1: UVERBS_WATCH is to follow, once it is mapped */
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_map_reply, 16);

/*
 * UVERBS_WATCH: where a page of doorbells was mapped. The descriptor that comes along is a
 * userfaultfd of the sender's: while nobody rings, the device has the page write-protected, and
 * hears of the first store. Without one it looks again and again.
 */
struct simhca_uverbs_watch_req {
	uint64_t key;	  /* as it was given to UVERBS_MAP */
	uint64_t address; /* in the sender's memory */
};
SIMHCA_ABI_SIZE(struct simhca_uverbs_watch_req, 16);

#endif
