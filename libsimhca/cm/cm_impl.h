/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of the communication manager share. */
#ifndef LIBSIMHCA_CM_CM_IMPL_H
#define LIBSIMHCA_CM_CM_IMPL_H

#include <uthash.h>

#include "cm.h"
#include "engine/timer.h"

/* Names something of a peer: its communication ID, or its QP. */
struct remote_key {
	uint64_t guid;
	uint32_t number;
	uint32_t zero;
};

struct simhca_cm_id {
	struct simhca_cm *cm;
	void *context;
	bool orphan; /* the user has destroyed it */
	enum simhca_cm_state state;
	uint32_t local_id, remote_id;
	uint64_t tid;
	uint64_t service_id;
	struct simhca_cm_path path;
	struct simhca_cm_connection conn;

	/* What is repeated: the message under way, or the answer to a repetition by the peer. */
	uint8_t sent[SIMHCA_MAD_BYTES];
	uint32_t timeout_ms;
	uint8_t max_retries, retries_left;
	struct simhca_timer timer;

	struct remote_key remote, remote_qp; /* once in the tables */
	bool has_remote, has_remote_qp;
	UT_hash_handle hh, hh_remote, hh_remote_qp, hh_service;
};

/* A MAD on its way: out of this host, or in. */
struct simhca_cm_packet {
	struct simhca_cm_path path;
	uint8_t mad[SIMHCA_MAD_BYTES];
	struct simhca_cm_packet *next;
};

struct simhca_cm_queue {
	struct simhca_cm_packet *first, **end;
	unsigned int count;
};

struct simhca_cm {
	struct simhca_cm_ops ops;
	void *arg;
	uint64_t random;
	uint32_t next_id, id_mask;
	struct simhca_cm_id *ids;	 /* by local ID */
	struct simhca_cm_id *remotes;	 /* by the peer's GUID and communication ID */
	struct simhca_cm_id *remote_qps; /* by the peer's GUID and QP number */
	struct simhca_cm_id *services;	 /* listeners, by service ID */
	unsigned int timewait;		 /* how many ids are there */
	struct simhca_timers timers;
	struct simhca_cm_queue out, in;
};

/* cm.c */
struct simhca_cm_id *cm_find(struct simhca_cm *cm, uint32_t local_id, uint32_t remote_id);
struct simhca_cm_id *cm_find_remote(struct simhca_cm *cm, uint64_t guid, uint32_t comm_id);
/* False: another one has this communication ID, or this QP, of the peer. */
bool cm_claim_remote(struct simhca_cm_id *id, uint64_t guid);
bool cm_claim_remote_qp(struct simhca_cm_id *id, uint64_t guid);
void cm_release_remote_qp(struct simhca_cm_id *id);
void cm_release_remote(struct simhca_cm_id *id);
void cm_set_state(struct simhca_cm_id *id, enum simhca_cm_state state);
/* Frees it. */
void cm_forget(struct simhca_cm_id *id);
int cm_event(struct simhca_cm_id *id, enum simhca_cm_event_type type,
	     const struct simhca_cm_mad *mad);
/* Back to the beginning: without peer, timer and connection; an orphan is freed. */
void cm_reset(struct simhca_cm_id *id);

void cm_post(struct simhca_cm *cm, const struct simhca_cm_path *path,
	     const struct simhca_cm_mad *mad);
/* Encodes what may have to be repeated, and posts it. */
void cm_post_kept(struct simhca_cm_id *id, const struct simhca_cm_mad *mad);
/* The same bytes once more. */
void cm_post_again(struct simhca_cm_id *id);
int cm_arm(struct simhca_cm_id *id, uint32_t ms);
/* A message that is repeated until it is answered. */
int cm_begin_retries(struct simhca_cm_id *id, const struct simhca_cm_mad *mad);
void cm_disarm(struct simhca_cm_id *id);
/* NULL: it is empty. */
struct simhca_cm_packet *cm_queue_pop(struct simhca_cm_queue *queue);

/* cm_connect.c */
void cm_on_req(struct simhca_cm *cm, const struct simhca_cm_path *path,
	       const struct simhca_cm_mad *mad);
void cm_on_rep(struct simhca_cm *cm, const struct simhca_cm_path *path,
	       const struct simhca_cm_mad *mad);
void cm_on_rtu(struct simhca_cm *cm, const struct simhca_cm_mad *mad);
void cm_on_mra(struct simhca_cm *cm, const struct simhca_cm_mad *mad);
void cm_on_rej(struct simhca_cm *cm, const struct simhca_cm_mad *mad);
/* A REJ that fits the state: what is rejected, and by which ID. */
void cm_reject(struct simhca_cm_id *id, uint16_t reason, const void *private_data, size_t length);

/* cm_disconnect.c */
void cm_on_dreq(struct simhca_cm *cm, const struct simhca_cm_path *path,
		const struct simhca_cm_mad *mad);
void cm_on_drep(struct simhca_cm *cm, const struct simhca_cm_mad *mad);
void cm_enter_timewait(struct simhca_cm_id *id);

/* cm_sidr.c */
void cm_on_sidr_req(struct simhca_cm *cm, const struct simhca_cm_path *path,
		    const struct simhca_cm_mad *mad);
void cm_on_sidr_rep(struct simhca_cm *cm, const struct simhca_cm_mad *mad);
void cm_sidr_answer(struct simhca_cm_id *id, const struct simhca_cm_sidr_rep *rep,
		    uint32_t attr_mod);

#endif
