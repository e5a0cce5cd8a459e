/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Commands of the fast path, by which a program gets to the queues of its peer. simhca-abi-cmd.h
 * says how they are sent.
 */
#ifndef SIMHCA_ABI_CMD_PEER_H
#define SIMHCA_ABI_CMD_PEER_H

#ifndef SIMHCA_ABI_CMD_H
#error "include simhca-abi.h"
#endif

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
 * queue: the SRQ's, or the QP's once more; the files of writers (simhca-abi-writers.h) of the
 * sender's memory and of the peer's; and the device's ends of the completion channels of that CQ
 * and of the QP's send CQ, each of these four if there is one.
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
	uint32_t data_may_stay;	      /* 1: of receives, until who polls copies them */
	uint32_t claimant; /* the peer's in its SRQ, or UD: the QP's in the peer's queue; 0: none */
	uint32_t is_srq;   /* 1: that queue is an SRQ */
	uint32_t rq_max_sge;
	uint32_t rq_pd;		  /* of the receive buffers */
	uint32_t recv_data_slots; /* of the peer's receive CQ; 0: what a message brings is placed */
	uint32_t reserved;
	struct simhca_mem_ref send_cq, send_ring; /* of the sender's context memory */
	uint64_t qp_size, cq_size, rq_size;	  /* bytes of the segments */
	uint64_t state;				  /* offset in the first */
	uint64_t recv_cq, recv_ring, recv_data;	  /* in the second */
	uint64_t rq, claims;			  /* in the third */
	uint64_t recv_channel, send_channel;	  /* inodes; 0: no descriptor of it comes */
	uint64_t recv_event, send_event;	  /* the records of the two CQs' events */
	/* which of them, plus 1: the QP's, in the sender's memory and in the peer's; 0: no file */
	uint32_t writer, peer_writer;
};

/*
 * MAP_REGION: a region whose entry of the protection table has a number in `file`, for who is to
 * map it: an own one, that the sender itself has registered in the QP's PD; or one of the peer that
 * the QP is attached to, that the process of the secret has registered in the PD of the peer, or of
 * its receives. One descriptor in the reply: the file. It can be written to if the region grants
 * LOCAL_WRITE. ENOENT: there is no such region any more; EPERM: it is none of these.
 *
 * Who has asked for one gets a byte on the connection, a datagram of its own, when regions that
 * programs have mapped have gone. It unmaps those whose entry has another number, or none.
 */
struct simhca_map_region_req {
	uint32_t qp;
	uint32_t dest_qpn; /* UD, and so is av: whose peer it is */
	struct simhca_av av;
	uint32_t key;
	uint32_t own; /* 1: the sender's; 0: the peer's */
};
struct simhca_map_region_reply {
	uint64_t offset; /* of the region's first byte in the file */
	uint64_t length; /* bytes */
	uint32_t file;	 /* as struct simhca_mpt has it */
	uint32_t access; /* enum simhca_access, of the region */
	/*
	 * 1: a page of the file may be missing, and an access to it is a signal then, SIGBUS; 0:
	 * never
	 */
	uint32_t may_fail;
	uint32_t reserved;
};
SIMHCA_ABI_SIZE(struct simhca_map_region_reply, 32);

#endif
