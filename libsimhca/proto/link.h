/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Links: how packets get from one QP to another.
 *
 * A packet that is handed over may be lost, and its sender is not told. A handover tells it only what
 * a NIC knows of its own end, or what follows from both ends being in one process: that a packet
 * cannot be accepted now, and what has to happen first. What the receiver thinks of a packet comes as
 * another packet.
 */
#ifndef LIBSIMHCA_LINK_H
#define LIBSIMHCA_LINK_H

#include "packet/packet.h"

struct simhca_device;
struct simhca_engine;
struct simhca_qp;
struct simhca_request;
struct simhca_send;
struct simhca_worker;

enum simhca_outcome {
	SIMHCA_ACCEPTED,   /* or lost */
	SIMHCA_UNREADABLE, /* the payload cannot be read: `reason`; NONE: pages were dropped */
	SIMHCA_BUSY,	   /* another engine works on the receiver: try again */
	SIMHCA_ELSEWHERE,  /* another engine must carry it: `engine` */
	SIMHCA_ABSENT,	   /* the receiver's pages are being brought in: try again after a while */
	SIMHCA_LATE,	   /* too early, or a rule of faults has it wait: again after delay_ns */
};

struct simhca_handover {
	enum simhca_outcome outcome;
	enum simhca_reason reason; /* ACCEPTED: why it gets no answer, if that is known */
	uint8_t rnr_timer;	   /* ABSENT: how long, coded as an RNR NAK's */
	uint64_t delay_ns;	   /* LATE */
	struct simhca_engine *engine;
};

struct simhca_link {
	/* Bytes of payload that a packet carries at most, a multiple of every MTU; 0: one MTU. */
	uint32_t slice;
	uint32_t packets; /* of the path MTU in a slice, at most; 0: any number */
	/* PSNs that may be under way without an acknowledgement; 1: one packet, whatever it is. */
	uint32_t window;
	/*
	 * If that changes with what becomes of them: the window now, which reading does not change;
	 * before each packet it takes what the network has said of its load since; and what the
	 * requester has learned: all before a PSN has arrived, some are lost, nobody has
	 * answered, or the peer has no receive yet. Under req_lock. NULL, all of them: it does not.
	 */
	uint32_t (*window_now)(const struct simhca_qp *qp);
	void (*take_marks)(struct simhca_qp *qp);
	void (*acknowledged)(struct simhca_qp *qp, uint32_t psn);
	void (*lost)(struct simhca_qp *qp, bool silence);
	void (*not_ready)(struct simhca_qp *qp);
	/*
	 * How long a packet's answer may take. *timeout_ns: the QP's time-out, 0: none, which the
	 * link may make longer; `tries` in a row had no answer by then. Returns after how many ns
	 * all is sent again if that is sooner (adaptive retransmission), which is no retry; 0: it
	 * is not. Under req_lock. NULL: the QP's time-out is all there is.
	 */
	uint64_t (*ack_timeout)(struct simhca_qp *qp, unsigned int tries, uint64_t *timeout_ns);
	/*
	 * The errno with which the host has refused, within the last `ns`, to send to the QP's
	 * peer, or EMSGSIZE if full packets seem to get lost on the way, and what a completion
	 * says of it; 0: neither. NULL: it never does.
	 */
	int (*unsent)(const struct simhca_qp *qp, uint64_t ns, enum simhca_reason *reason);
	/*
	 * PSNs that the responses of one READ request have at most: longer reads are several
	 * requests, for nobody paces responses; a power of two. 0: as many as it takes.
	 */
	uint32_t read;
	/* A request of the QP's requester. Under req_lock; the payload is the caller's. */
	struct simhca_handover (*request)(struct simhca_worker *worker, struct simhca_qp *qp,
					  struct simhca_packet *packet);
	/* A response of the QP's responder. Under resp_lock; likewise ACCEPTED or UNREADABLE. */
	struct simhca_handover (*respond)(struct simhca_worker *worker, struct simhca_qp *qp,
					  const struct simhca_packet *packet);
	/*
	 * What the QP's responder still owes of a read is asked for by the requester, which has
	 * nothing else to do; *more: there was some. NULL: the responder goes on by itself.
	 */
	struct simhca_handover (*pull)(struct simhca_worker *worker, struct simhca_qp *qp,
				       bool *more);
	/*
	 * The QP's responder had refused a packet for pages (ABSENT) that are there now. NULL: who
	 * has the packet tries again by itself. Under req_lock.
	 */
	void (*ready)(struct simhca_qp *qp);
	/*
	 * Takes what has come for the QP, at the beginning of its turn; true: it wants another one.
	 * NULL: nothing waits, as packets are handed over at once.
	 */
	bool (*arrived)(struct simhca_worker *worker, struct simhca_qp *qp);
	/*
	 * The QP that a connected one sends to, for control functions: a program may carry its
	 * packets to that by itself. NULL: no.
	 */
	struct simhca_qp *(*peer)(const struct simhca_qp *qp);
	/* Likewise whom datagrams by that address are for. */
	struct simhca_qp *(*find)(const struct simhca_qp *qp, const struct simhca_av *av,
				  uint32_t qpn);
	bool remote; /* connected QPs hear what comes from a wire, and nothing else */
	/* Of what a QP that sends by it keeps for it: qp->ethernet.copies. */
	uint32_t copies_bytes;
	/* A packet for the responder that knows no connection, nor sequence. NULL: as by the type.
	 */
	void (*receive)(struct simhca_request *request);
	/* A packet that a receive has no room for fails the QP, unreliable as it may be. */
	bool stops;
	/* What is wrong with a message. NULL: nothing. */
	enum simhca_reason (*check)(const struct simhca_qp *qp, const struct simhca_send *send);
};

/*
 * What leads out of the fabric: it gives a QP one of its links when the QP gets the address of
 * somebody else. qp->wire.uplink: what its device has.
 */
struct simhca_uplink {
	/* A QP is made (0 or -ENOMEM; it may have none of it), and freed. */
	int (*attach)(struct simhca_qp *qp);
	void (*detach)(struct simhca_qp *qp);
	/* It has got its address, and it is forgotten. Under both of its locks. */
	void (*connect)(struct simhca_qp *qp);
	void (*reset)(struct simhca_qp *qp);
	/*
	 * No engine begins to dequeue what has come for it; false: one is at it. For who cannot
	 * tell by the guards, as an XRC_RECV QP has no context.
	 */
	bool (*retire)(struct simhca_qp *qp);
	/* A device has the first member of a multicast group, or lost its last. Control functions.
	 */
	void (*group)(struct simhca_device *device, const union simhca_gid *gid, bool member);
};

#endif
