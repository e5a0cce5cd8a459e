/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How far a QP is: the part of its run state that the device writes, in the QP's context memory.
 * Plain data, without a pointer: a work request is named by its ring index and read again for each
 * packet.
 *
 * Requester and responder have each two copies and an owner word {holder, wanted; generation}. The
 * generation's low bit says which copy counts. Who holds it works on a copy of its own, writes
 * the copy that does not count, and commits by one store, of the generation. So a holder that is
 * gone has either committed or changed nothing. A copy that counts is not written; so who finds the
 * generation that it left knows what is there.
 *
 * Clients can write all of this. So who reads it judges what it has read, and works on by that;
 * what makes no sense is an error of that QP. Truth values are 0 or 1.
 */
#ifndef SIMHCA_ABI_PROGRESS_H
#define SIMHCA_ABI_PROGRESS_H

struct simhca_owner {
	_Atomic uint32_t holder;     /* 0: nobody */
	_Atomic uint32_t generation; /* written by the holder alone */
};
#define SIMHCA_OWNER_DEVICE 1u /* holder: the device */
/* Or-ed to the number of a QP: the program that has it, in a step of that QP's requester. */
#define SIMHCA_OWNER_PROGRAM (1u << 30)
/* Or-ed to holder: somebody else found it held; the device is to look at the QP again. */
#define SIMHCA_OWNER_WANTED (1u << 31)

/* What a requester waits for. */
enum simhca_wait {
	SIMHCA_WAIT_NOTHING,
	SIMHCA_WAIT_RNR,    /* the delay that an RNR NAK asked for */
	SIMHCA_WAIT_ANSWER, /* an acknowledgement; when time is up it is a retry */
	SIMHCA_WAIT_BUSY,   /* the peer's responder, which another engine works on; old accesses */
	SIMHCA_WAIT_FAULT,  /* pages of its own; whoever brings them in schedules the QP */
	SIMHCA_WAIT_PEER,   /* pages of the peer's, who says when they are there; and a delay */
};

#define SIMHCA_MAX_FLIGHTS 64 /* messages under way; a power of two */

/*
 * PSNs, each no later than the next one:
 *
 *	psn_una    the oldest that is not acknowledged
 *	psn_send   the next to be sent; goes back to send again what was lost
 *	psn_sent   the first that was never sent: no answer to it is true
 *	psn_next   the first of the next message
 *
 * A message is under way from when its WQE is taken up until its completion. So messages under way
 * cover [psn_una, psn_next), in the order of the ring. With none under way only oldest and psn_next
 * say something.
 */
struct simhca_requester {
	uint32_t psn_una, psn_send, psn_sent, psn_next;
	uint32_t oldest;   /* ring index of the oldest message under way, or else of the next WQE */
	uint32_t count;	   /* messages under way */
	uint32_t reads;	   /* of these, those that an ACK does not answer */
	uint32_t why;	   /* enum simhca_reason: no answer came, or none that helps */
	uint64_t deadline; /* of the wait, by the device's clock */
	uint32_t wait;	   /* enum simhca_wait */
	uint32_t busy;	   /* times in a row that the peer was busy */
	uint8_t fault;	   /* WAIT_FAULT: 0 a message that it sends, 1 a response that it places */
	uint8_t alone;	   /* nothing starts before the newest is complete */
	uint8_t answered;  /* RDMA_READ_WITH_INV, the oldest: the data are there */
	uint8_t revoked;   /* the key to invalidate is void; old accesses may be under way */
	uint8_t went_back; /* to psn_una, for a NAK: further ones are of the same loss */
	uint8_t silence_logged;	      /* that the peer is silent */
	uint8_t retries, rnr_retries; /* left */
	uint32_t cqe_index; /* of the completion that was committed last: its CQ's index plus 1 */
	uint32_t recv_cqe_index; /* UD, fast path: likewise of the receive that it completed */
};
SIMHCA_ABI_SIZE(struct simhca_requester, 64);

/*
 * A message under way, in one word: opcode, last and first PSN, 24 bits for each PSN. It is written
 * once, when the message is taken up, at its ring index in the QP's flight[].
 */
#define SIMHCA_FLIGHT_LAST_SHIFT 24
#define SIMHCA_FLIGHT_OPCODE_SHIFT 48

/* What a tag-matching SRQ makes of a message. */
enum simhca_tm_kind {
	SIMHCA_TM_NO_TAG,     /* not to be matched: it consumes a receive WQE, header and all */
	SIMHCA_TM_UNEXPECTED, /* so does one that found no entry */
	SIMHCA_TM_EAGER,      /* the data after the header go to the entry's buffer */
	SIMHCA_TM_RNDV,	      /* the data are to be fetched into it */
};

struct simhca_tm_message {
	uint64_t tag;
	uint64_t va;	       /* rendezvous */
	uint32_t rkey, length; /* rendezvous */
	uint32_t app_ctx;      /* big endian */
	uint32_t kind;	       /* enum simhca_tm_kind */
};
SIMHCA_ABI_SIZE(struct simhca_tm_message, 32);

/* Of a READ's response, what is still to be sent, as if it were a request. */
enum simhca_owed {
	SIMHCA_OWES_NOTHING,
	SIMHCA_OWES_RESPONSE,
	SIMHCA_OWES_REPEATED, /* of a duplicate */
};

struct simhca_read_owed {
	uint32_t psn, rkey;
	uint64_t va;
	uint32_t left, srqn;
};
SIMHCA_ABI_SIZE(struct simhca_read_owed, 24);

struct simhca_responder {
	uint32_t epsn;	    /* expected PSN */
	uint32_t msn;	    /* messages completed */
	uint32_t psns_done; /* since rq_psn, as far back as duplicates can lie */
	/*
	 * Oldest receive WQE that has not completed. With have_recv it is the one of the current
	 * message. What was consumed of an SRQ or a tag list lies behind struct simhca_qp_mem.
	 */
	uint32_t rq_ci;
	uint64_t offset;   /* bytes of the message placed */
	uint64_t va, left; /* a WRITE: what the packets to come are to be written to */
	uint32_t rkey;
	uint32_t srqn;	      /* XRC_RECV: the SRQ of the message at hand */
	uint32_t revoked_psn; /* revoked: the data of the packet with this PSN are placed */
	uint32_t answers;     /* reads and atomics so far, and so the next one's place */
	struct simhca_read_owed read;
	uint8_t in_message;   /* between a first and a last packet */
	uint8_t write;	      /* the message is a WRITE, and no SEND */
	uint8_t have_recv;    /* the message has a receive WQE */
	uint8_t nak_sent;     /* one NAK for a gap, until the expected PSN comes */
	uint8_t reported_psn; /* of a request that was not answered, for its PSN; in the log */
	uint8_t revoked;      /* SEND_WITH_INV: its key is void */
	uint8_t comm_est;     /* the event has been raised */
	uint8_t owed;	      /* enum simhca_owed: what `read` is */
	struct simhca_tm_message tm; /* of the message, if the SRQ matches tags */
	uint32_t cqe_index;	     /* as a requester's, of the last receive */
	/* With an SRQ, or claims: its ci, after the last WQE that is accounted for here. */
	uint32_t claim;
};
SIMHCA_ABI_SIZE(struct simhca_responder, 128);

/*
 * The latest reads and atomics: a repeated read asks for a part of one, a repeated atomic is
 * answered without being done again. Each is written once, before `answers` is committed.
 */
struct simhca_answered {
	uint64_t va, length;
	uint64_t old; /* of an atomic: the value that was there */
	uint32_t rkey;
	uint32_t psn : 24;
	uint32_t op : 8; /* enum simhca_packet_op; of any other kind: none */
};
SIMHCA_ABI_SIZE(struct simhca_answered, 32);

#endif
