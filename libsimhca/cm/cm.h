/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The communication manager: how two hosts agree on a connection (IBTA vol. 1, chapter 12).
 *
 *	active			passive
 *	send_req  ------REQ----->  REQ_RECEIVED at a listener
 *	REP_RECEIVED <--REP------  send_rep, or send_rej
 *	send_rtu  ------RTU----->  RTU_RECEIVED
 *	...
 *	send_dreq -----DREQ----->  DREQ_RECEIVED	(either side may begin)
 *	DREP_RECEIVED <-DREP-----  send_drep
 *	TIMEWAIT_EXIT		   TIMEWAIT_EXIT
 *
 * It knows QPs by their numbers, and ports by a pointer of its user. Messages are MADs, which may
 * be lost, repeated or delayed on their way: it repeats, recognises repetition, and gives up.
 *
 * One thread at a time. No function but simhca_cm_run() sends or calls back: the others change
 * states, and leave the rest to it.
 */
#ifndef LIBSIMHCA_CM_CM_H
#define LIBSIMHCA_CM_CM_H

#include <stdbool.h>

#include "packet/mad.h"

struct simhca_cm;
/* A connection, one end of it; a listener; a service request. */
struct simhca_cm_id;

enum simhca_cm_state {
	SIMHCA_CM_IDLE,
	SIMHCA_CM_LISTEN,
	SIMHCA_CM_REQ_SENT,
	SIMHCA_CM_REQ_RCVD, /* the user's turn: REP or REJ */
	SIMHCA_CM_REP_SENT,
	SIMHCA_CM_REP_RCVD, /* the user's turn: RTU or REJ */
	SIMHCA_CM_ESTABLISHED,
	SIMHCA_CM_DREQ_SENT,
	SIMHCA_CM_DREQ_RCVD, /* the user's turn: DREP */
	SIMHCA_CM_TIMEWAIT,
	SIMHCA_CM_SIDR_REQ_SENT,
	SIMHCA_CM_SIDR_REQ_RCVD, /* the user's turn: SIDR_REP */
};
const char *simhca_cm_state_name(enum simhca_cm_state state);

/* A path as one end sees it. */
struct simhca_cm_path {
	void *port;	  /* of the user: where MADs leave and come in */
	uint64_t ca_guid; /* of that port's device; host order */
	union simhca_gid sgid, dgid;
	uint16_t slid, dlid; /* 0xffff on Ethernet */
	uint16_t pkey;
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl;
	uint8_t mtu;	     /* enum ibv_mtu */
	uint8_t packet_life; /* 4.096 us * 2^n */
};

/* What the QP of a connection has to be told, as far as both sides have said it. */
struct simhca_cm_connection {
	uint32_t local_qpn, remote_qpn;
	uint32_t rq_psn, sq_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry;
	uint8_t mtu, ack_timeout;
};

enum simhca_cm_event_type {
	SIMHCA_CM_REQ_RECEIVED,
	SIMHCA_CM_REP_RECEIVED,
	SIMHCA_CM_RTU_RECEIVED,
	SIMHCA_CM_REJ_RECEIVED,
	SIMHCA_CM_DREQ_RECEIVED,
	SIMHCA_CM_DREP_RECEIVED,
	SIMHCA_CM_SIDR_REQ_RECEIVED,
	SIMHCA_CM_SIDR_REP_RECEIVED,
	SIMHCA_CM_REQ_TIMEOUT, /* no answer, however often it was repeated */
	SIMHCA_CM_REP_TIMEOUT,
	SIMHCA_CM_DREQ_TIMEOUT,
	SIMHCA_CM_SIDR_TIMEOUT,
	SIMHCA_CM_TIMEWAIT_EXIT,
};

struct simhca_cm_event {
	enum simhca_cm_event_type type;
	void *listener;			 /* REQ, SIDR_REQ: the context of who listens */
	const struct simhca_cm_mad *mad; /* that came; NULL with time-outs */
};

struct simhca_cm_ops {
	/* Carries a MAD from QP 1 of a port to QP 1 of the path's other end, or loses it. */
	void (*send)(void *arg, const struct simhca_cm_path *path,
		     const uint8_t mad[SIMHCA_MAD_BYTES]);
	/*
	 * May call everything but simhca_cm_run(). With REQ_RECEIVED and SIDR_REQ_RECEIVED id is
	 * new: 0 takes it; anything else does not, and it goes, with a REJ for this reason (a
	 * SIDR_REP with this status), or silently if it is negative. Otherwise the value says
	 * nothing.
	 */
	int (*event)(void *arg, struct simhca_cm_id *id, const struct simhca_cm_event *event);
	uint64_t (*clock_ns)(void *arg);
};

/* seed: of IDs and PSNs, so that two runs of a host differ. NULL: out of memory. */
struct simhca_cm *simhca_cm_create(const struct simhca_cm_ops *ops, void *arg, uint64_t seed);
/* Forgets all, and sends nothing. IDs that the user has are gone. */
void simhca_cm_destroy(struct simhca_cm *cm);
/*
 * Sends what is due, takes what came in, calls back, for max_ns nanoseconds of its clock. True: there
 * is more to do at once.
 */
bool simhca_cm_run(struct simhca_cm *cm, uint64_t max_ns);
/* When simhca_cm_run() is due, on the clock; UINT64_MAX: not before something happens. */
uint64_t simhca_cm_deadline(const struct simhca_cm *cm);
/*
 * A MAD has come in. path is the way back: it leads from the port that received it to the sender.
 * What is beyond a limit of what waits is lost, as in the queue of a QP 1.
 */
void simhca_cm_receive(struct simhca_cm *cm, const struct simhca_cm_path *path, const void *mad,
		       size_t length);
/* 24 random bits. */
uint32_t simhca_cm_psn(struct simhca_cm *cm);

/* NULL: out of memory. */
struct simhca_cm_id *simhca_cm_id_create(struct simhca_cm *cm, void *context);
/*
 * The user is done with it, in whatever state: the peer is told (REJ, DREQ, DREP), and what the
 * protocol still needs stays behind without the user. quiet: a REQ that came is forgotten instead
 * of rejected.
 */
void simhca_cm_id_destroy(struct simhca_cm_id *id, bool quiet);
void simhca_cm_id_set_context(struct simhca_cm_id *id, void *context);
void *simhca_cm_id_context(const struct simhca_cm_id *id);
enum simhca_cm_state simhca_cm_id_state(const struct simhca_cm_id *id);
const struct simhca_cm_path *simhca_cm_id_path(const struct simhca_cm_id *id);
const struct simhca_cm_connection *simhca_cm_id_connection(const struct simhca_cm_id *id);

/* Those that follow return 0, -EINVAL in a state that does not allow it, or -ENOMEM. */

/* -EADDRINUSE: somebody listens there. */
int simhca_cm_listen(struct simhca_cm_id *id, uint64_t service_id);
/* The user leaves IDs, GUID, path and P_Key to the CM, and fills in the rest. */
int simhca_cm_send_req(struct simhca_cm_id *id, const struct simhca_cm_path *path,
		       const struct simhca_cm_req *req, uint32_t attr_mod);
int simhca_cm_send_rep(struct simhca_cm_id *id, const struct simhca_cm_rep *rep, uint32_t attr_mod);
int simhca_cm_send_rtu(struct simhca_cm_id *id);
/* private_data: length bytes, at most SIMHCA_CM_REJ_PRIVATE */
int simhca_cm_send_rej(struct simhca_cm_id *id, uint16_t reason, const void *private_data,
		       size_t length);
/* What the QP has received shows that the peer is there: as if the RTU had come. */
int simhca_cm_establish(struct simhca_cm_id *id);
int simhca_cm_send_dreq(struct simhca_cm_id *id);
int simhca_cm_send_drep(struct simhca_cm_id *id);

struct simhca_cm_sidr_param {
	uint64_t service_id;
	uint32_t timeout_ms; /* until it is repeated */
	uint8_t max_retries;
	const void *private_data;
	size_t length;
};
int simhca_cm_send_sidr_req(struct simhca_cm_id *id, const struct simhca_cm_path *path,
			    const struct simhca_cm_sidr_param *param);
int simhca_cm_send_sidr_rep(struct simhca_cm_id *id, const struct simhca_cm_sidr_rep *rep,
			    uint32_t attr_mod);
/* The ID of this communication manager that has sent a REQ or SIDR_REQ and waits for the answer; NULL: none. */
struct simhca_cm_id *simhca_cm_sender(struct simhca_cm *cm, const struct simhca_cm_mad *request);

/* Milliseconds of 4.096 us * 2^n, as Linux counts them. */
uint32_t simhca_cm_milliseconds(uint8_t exponent);

struct simhca_cm_counts {
	unsigned int ids;	/* that users have, or that the protocol still needs */
	unsigned int timewait;	/* of these */
	unsigned int listeners; /* of these */
};
void simhca_cm_counts(const struct simhca_cm *cm, struct simhca_cm_counts *counts);

#endif
