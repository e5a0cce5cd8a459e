/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What happens to IDs by their state: what comes in, times out, or is destroyed by the user. */
#include <stddef.h>
#include <stdlib.h>

#include "cm_impl.h"

static void give_up(struct simhca_cm_id *id)
{
	enum simhca_cm_event_type type;

	switch (id->state) {
	case SIMHCA_CM_REQ_SENT:
		type = SIMHCA_CM_REQ_TIMEOUT;
		break;
	case SIMHCA_CM_REP_SENT:
		type = SIMHCA_CM_REP_TIMEOUT;
		break;
	case SIMHCA_CM_SIDR_REQ_SENT:
		type = SIMHCA_CM_SIDR_TIMEOUT;
		break;
	default: /* DREQ_SENT: the peer may have gone, and its packets may still be under way */
		cm_enter_timewait(id);
		cm_event(id, SIMHCA_CM_DREQ_TIMEOUT, NULL);
		return;
	}
	cm_reset(id);
	cm_event(id, type, NULL);
}

static void on_timeout(struct simhca_cm_id *id)
{
	if (id->state == SIMHCA_CM_TIMEWAIT) {
		bool orphan = id->orphan;

		cm_reset(id);
		if (!orphan)
			cm_event(id, SIMHCA_CM_TIMEWAIT_EXIT, NULL);
		return;
	}
	if (id->retries_left && !cm_arm(id, id->timeout_ms)) {
		id->retries_left--;
		cm_post_again(id);
		return;
	}
	give_up(id);
}

void simhca_cm_id_destroy(struct simhca_cm_id *id, bool quiet)
{
	static const struct simhca_cm_sidr_rep refused = { .status = SIMHCA_CM_SIDR_REJECT };

	switch (id->state) {
	case SIMHCA_CM_IDLE:
	case SIMHCA_CM_LISTEN:
	case SIMHCA_CM_SIDR_REQ_SENT:
		break;
	case SIMHCA_CM_SIDR_REQ_RCVD:
		if (!quiet)
			cm_sidr_answer(id, &refused, 0);
		break;
	case SIMHCA_CM_REQ_RCVD:
		if (!quiet)
			cm_reject(id, SIMHCA_CM_REJ_CONSUMER, NULL, 0);
		break;
	case SIMHCA_CM_REP_RCVD:
		cm_reject(id, SIMHCA_CM_REJ_CONSUMER, NULL, 0);
		break;
	case SIMHCA_CM_REQ_SENT:
	case SIMHCA_CM_REP_SENT:
		cm_reject(id, SIMHCA_CM_REJ_TIMEOUT, NULL, 0);
		break;
	case SIMHCA_CM_ESTABLISHED:
		id->orphan = true;
		if (!simhca_cm_send_dreq(id))
			return;
		break;
	case SIMHCA_CM_DREQ_RCVD:
		id->orphan = true;
		if (!simhca_cm_send_drep(id))
			return;
		break;
	case SIMHCA_CM_DREQ_SENT:
	case SIMHCA_CM_TIMEWAIT:
		id->orphan = true;
		return;
	}
	cm_forget(id);
}

static void handle(struct simhca_cm *cm, const struct simhca_cm_packet *packet)
{
	struct simhca_cm_mad mad;

	if (simhca_cm_decode(packet->mad, sizeof(packet->mad), &mad))
		return;
	switch ((enum simhca_cm_attribute)mad.attribute) {
	case SIMHCA_CM_REQ:
		cm_on_req(cm, &packet->path, &mad);
		break;
	case SIMHCA_CM_MRA:
		cm_on_mra(cm, &mad);
		break;
	case SIMHCA_CM_REJ:
		cm_on_rej(cm, &mad);
		break;
	case SIMHCA_CM_REP:
		cm_on_rep(cm, &packet->path, &mad);
		break;
	case SIMHCA_CM_RTU:
		cm_on_rtu(cm, &mad);
		break;
	case SIMHCA_CM_DREQ:
		cm_on_dreq(cm, &packet->path, &mad);
		break;
	case SIMHCA_CM_DREP:
		cm_on_drep(cm, &mad);
		break;
	case SIMHCA_CM_SIDR_REQ:
		cm_on_sidr_req(cm, &packet->path, &mad);
		break;
	case SIMHCA_CM_SIDR_REP:
		cm_on_sidr_rep(cm, &mad);
		break;
	}
}

static bool step(struct simhca_cm *cm)
{
	struct simhca_cm_packet *packet = cm_queue_pop(&cm->out);
	struct simhca_timer *timer;

	if (packet) {
		cm->ops.send(cm->arg, &packet->path, packet->mad);
		free(packet);
		return true;
	}
	packet = cm_queue_pop(&cm->in);
	if (packet) {
		handle(cm, packet);
		free(packet);
		return true;
	}
	timer = simhca_timers_expire(&cm->timers, cm->ops.clock_ns(cm->arg));
	if (!timer)
		return false;
	on_timeout((struct simhca_cm_id *)((char *)timer - offsetof(struct simhca_cm_id, timer)));
	return true;
}

bool simhca_cm_run(struct simhca_cm *cm, uint64_t max_ns)
{
	uint64_t begun = cm->ops.clock_ns(cm->arg);

	while (step(cm))
		if (cm->ops.clock_ns(cm->arg) - begun >= max_ns)
			return true;
	return false;
}
