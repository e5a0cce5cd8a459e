/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* IDs, the tables that find them, their timers, and queues of MADs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_impl.h"

#define QUEUED 65536 /* MADs that wait at most, each way; more are lost */
#define NS_PER_MS 1000000u

const char *simhca_cm_state_name(enum simhca_cm_state state)
{
	static const char *const names[] = {
		[SIMHCA_CM_IDLE] = "IDLE",
		[SIMHCA_CM_LISTEN] = "LISTEN",
		[SIMHCA_CM_REQ_SENT] = "REQ_SENT",
		[SIMHCA_CM_REQ_RCVD] = "REQ_RCVD",
		[SIMHCA_CM_REP_SENT] = "REP_SENT",
		[SIMHCA_CM_REP_RCVD] = "REP_RCVD",
		[SIMHCA_CM_ESTABLISHED] = "ESTABLISHED",
		[SIMHCA_CM_DREQ_SENT] = "DREQ_SENT",
		[SIMHCA_CM_DREQ_RCVD] = "DREQ_RCVD",
		[SIMHCA_CM_TIMEWAIT] = "TIMEWAIT",
		[SIMHCA_CM_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
		[SIMHCA_CM_SIDR_REQ_RCVD] = "SIDR_REQ_RCVD",
	};

	return names[state];
}

uint32_t simhca_cm_milliseconds(uint8_t exponent)
{
	return 1u << (exponent > 8 ? (exponent < 32 ? exponent : 31) - 8 : 0);
}

/* splitmix64: good enough for numbers that shall differ from run to run. */
static uint64_t next_random(struct simhca_cm *cm)
{
	uint64_t z = cm->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint32_t simhca_cm_psn(struct simhca_cm *cm)
{
	return (uint32_t)(next_random(cm) & 0xffffff);
}

/* ---------------------------------------------------------------------------- MADs on their way */

static void queue_init(struct simhca_cm_queue *queue)
{
	queue->first = NULL;
	queue->end = &queue->first;
	queue->count = 0;
}

static struct simhca_cm_packet *queue_add(struct simhca_cm_queue *queue,
					  const struct simhca_cm_path *path)
{
	struct simhca_cm_packet *packet;

	if (queue->count >= QUEUED)
		return NULL;
	packet = malloc(sizeof(*packet));
	if (!packet)
		return NULL;
	packet->path = *path;
	packet->next = NULL;
	*queue->end = packet;
	queue->end = &packet->next;
	queue->count++;
	return packet;
}

struct simhca_cm_packet *cm_queue_pop(struct simhca_cm_queue *queue)
{
	struct simhca_cm_packet *packet = queue->first;

	if (!packet)
		return NULL;
	queue->first = packet->next;
	if (!queue->first)
		queue->end = &queue->first;
	queue->count--;
	return packet;
}

static void queue_free(struct simhca_cm_queue *queue)
{
	struct simhca_cm_packet *packet;

	while ((packet = cm_queue_pop(queue)))
		free(packet);
}

void simhca_cm_receive(struct simhca_cm *cm, const struct simhca_cm_path *path, const void *mad,
		       size_t length)
{
	struct simhca_cm_packet *packet;

	if (length < SIMHCA_MAD_BYTES)
		return;
	packet = queue_add(&cm->in, path);
	if (packet)
		memcpy(packet->mad, mad, SIMHCA_MAD_BYTES);
}

void cm_post(struct simhca_cm *cm, const struct simhca_cm_path *path,
	     const struct simhca_cm_mad *mad)
{
	struct simhca_cm_packet *packet = queue_add(&cm->out, path);

	if (packet)
		simhca_cm_encode(mad, packet->mad);
}

void cm_post_again(struct simhca_cm_id *id)
{
	struct simhca_cm_packet *packet = queue_add(&id->cm->out, &id->path);

	if (packet)
		memcpy(packet->mad, id->sent, sizeof(packet->mad));
}

void cm_post_kept(struct simhca_cm_id *id, const struct simhca_cm_mad *mad)
{
	simhca_cm_encode(mad, id->sent);
	cm_post_again(id);
}

/* ------------------------------------------------------------------------------------ time-outs */

int cm_arm(struct simhca_cm_id *id, uint32_t ms)
{
	struct simhca_cm *cm = id->cm;

	return simhca_timer_arm(&cm->timers, &id->timer,
				cm->ops.clock_ns(cm->arg) + (uint64_t)ms * NS_PER_MS);
}

void cm_disarm(struct simhca_cm_id *id)
{
	simhca_timer_cancel(&id->cm->timers, &id->timer);
}

int cm_begin_retries(struct simhca_cm_id *id, const struct simhca_cm_mad *mad)
{
	int ret = cm_arm(id, id->timeout_ms);

	if (ret)
		return ret;
	id->retries_left = id->max_retries;
	cm_post_kept(id, mad);
	return 0;
}

uint64_t simhca_cm_deadline(const struct simhca_cm *cm)
{
	return cm->out.first || cm->in.first ? 0 : simhca_timers_next(&cm->timers);
}

/* ---------------------------------------------------------------------------------- the tables */

struct simhca_cm_id *cm_find(struct simhca_cm *cm, uint32_t local_id, uint32_t remote_id)
{
	struct simhca_cm_id *id;

	HASH_FIND(hh, cm->ids, &local_id, sizeof(local_id), id);
	return id && id->remote_id == remote_id ? id : NULL;
}

struct simhca_cm_id *simhca_cm_sender(struct simhca_cm *cm, const struct simhca_cm_mad *request)
{
	const bool resolves = request->attribute == SIMHCA_CM_SIDR_REQ;
	struct simhca_cm_id *id = cm_find(
		cm, resolves ? request->sidr_req.request_id : request->req.local_comm_id, 0);

	return id && id->tid == request->tid && !id->orphan &&
			       id->state ==
				       (resolves ? SIMHCA_CM_SIDR_REQ_SENT : SIMHCA_CM_REQ_SENT)
		       ? id
		       : NULL;
}

struct simhca_cm_id *cm_find_remote(struct simhca_cm *cm, uint64_t guid, uint32_t comm_id)
{
	struct remote_key key = { .guid = guid, .number = comm_id };
	struct simhca_cm_id *id;

	HASH_FIND(hh_remote, cm->remotes, &key, sizeof(key), id);
	return id;
}

bool cm_claim_remote(struct simhca_cm_id *id, uint64_t guid)
{
	if (cm_find_remote(id->cm, guid, id->remote_id))
		return false;
	id->remote = (struct remote_key){ .guid = guid, .number = id->remote_id };
	HASH_ADD(hh_remote, id->cm->remotes, remote, sizeof(id->remote), id);
	id->has_remote = true;
	return true;
}

bool cm_claim_remote_qp(struct simhca_cm_id *id, uint64_t guid)
{
	struct remote_key key = { .guid = guid, .number = id->conn.remote_qpn };
	struct simhca_cm_id *other;

	if (id->conn.remote_qpn <= 1) /* no QP that is connected: the user has none yet */
		return true;
	HASH_FIND(hh_remote_qp, id->cm->remote_qps, &key, sizeof(key), other);
	if (other)
		return false;
	id->remote_qp = key;
	HASH_ADD(hh_remote_qp, id->cm->remote_qps, remote_qp, sizeof(key), id);
	id->has_remote_qp = true;
	return true;
}

void cm_release_remote_qp(struct simhca_cm_id *id)
{
	if (id->has_remote_qp)
		HASH_DELETE(hh_remote_qp, id->cm->remote_qps, id);
	id->has_remote_qp = false;
}

void cm_release_remote(struct simhca_cm_id *id)
{
	if (id->has_remote)
		HASH_DELETE(hh_remote, id->cm->remotes, id);
	id->has_remote = false;
	cm_release_remote_qp(id);
}

/* ----------------------------------------------------------------------------------------- life */

void cm_set_state(struct simhca_cm_id *id, enum simhca_cm_state state)
{
	id->cm->timewait -= id->state == SIMHCA_CM_TIMEWAIT;
	id->state = state;
	id->cm->timewait += id->state == SIMHCA_CM_TIMEWAIT;
}

struct simhca_cm *simhca_cm_create(const struct simhca_cm_ops *ops, void *arg, uint64_t seed)
{
	struct simhca_cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->ops = *ops;
	cm->arg = arg;
	cm->random = seed;
	cm->id_mask = (uint32_t)next_random(cm);
	queue_init(&cm->out);
	queue_init(&cm->in);
	return cm;
}

void simhca_cm_destroy(struct simhca_cm *cm)
{
	if (!cm)
		return;
	while (cm->ids)
		cm_forget(cm->ids);
	queue_free(&cm->out);
	queue_free(&cm->in);
	simhca_timers_free(&cm->timers);
	free(cm);
}

struct simhca_cm_id *simhca_cm_id_create(struct simhca_cm *cm, void *context)
{
	struct simhca_cm_id *id = calloc(1, sizeof(*id)), *other;

	if (!id)
		return NULL;
	id->cm = cm;
	id->context = context;
	/* 0 means "none" in a REJ. Numbers come back after all others were used. */
	do {
		id->local_id = cm->next_id++ ^ cm->id_mask;
		HASH_FIND(hh, cm->ids, &id->local_id, sizeof(id->local_id), other);
	} while (!id->local_id || other);
	HASH_ADD(hh, cm->ids, local_id, sizeof(id->local_id), id);
	return id;
}

void cm_forget(struct simhca_cm_id *id)
{
	struct simhca_cm *cm = id->cm;

	cm_disarm(id);
	cm_release_remote(id);
	if (id->state == SIMHCA_CM_LISTEN)
		HASH_DELETE(hh_service, cm->services, id);
	cm->timewait -= id->state == SIMHCA_CM_TIMEWAIT;
	HASH_DELETE(hh, cm->ids, id);
	free(id);
}

void cm_reset(struct simhca_cm_id *id)
{
	if (id->orphan) {
		cm_forget(id);
		return;
	}
	cm_disarm(id);
	cm_release_remote(id);
	id->remote_id = 0;
	cm_set_state(id, SIMHCA_CM_IDLE);
}

void simhca_cm_id_set_context(struct simhca_cm_id *id, void *context)
{
	id->context = context;
}

void *simhca_cm_id_context(const struct simhca_cm_id *id)
{
	return id->context;
}

enum simhca_cm_state simhca_cm_id_state(const struct simhca_cm_id *id)
{
	return id->state;
}

const struct simhca_cm_path *simhca_cm_id_path(const struct simhca_cm_id *id)
{
	return &id->path;
}

const struct simhca_cm_connection *simhca_cm_id_connection(const struct simhca_cm_id *id)
{
	return &id->conn;
}

int simhca_cm_listen(struct simhca_cm_id *id, uint64_t service_id)
{
	struct simhca_cm_id *other;

	if (id->state != SIMHCA_CM_IDLE)
		return -EINVAL;
	HASH_FIND(hh_service, id->cm->services, &service_id, sizeof(service_id), other);
	if (other)
		return -EADDRINUSE;
	id->service_id = service_id;
	cm_set_state(id, SIMHCA_CM_LISTEN);
	HASH_ADD(hh_service, id->cm->services, service_id, sizeof(id->service_id), id);
	return 0;
}

int cm_event(struct simhca_cm_id *id, enum simhca_cm_event_type type,
	     const struct simhca_cm_mad *mad)
{
	struct simhca_cm_event event = { .type = type, .mad = mad };

	if (id->orphan)
		return 0;
	return id->cm->ops.event(id->cm->arg, id, &event);
}

void simhca_cm_counts(const struct simhca_cm *cm, struct simhca_cm_counts *counts)
{
	counts->ids = HASH_COUNT(cm->ids);
	counts->timewait = cm->timewait;
	counts->listeners = HASH_CNT(hh_service, cm->services);
}
