/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Events of completion queues that a step completes to. */
#include <sys/socket.h>

#include "simhca-calls.h"
#include "step_impl.h"

/*
 * Raises the event that simhca_step_disarm() says is due, without waiting; false: it is left to the
 * device. It is counted before it is sent, so that ibv_destroy_cq() does not miss it. If the program
 * ends in between, the device sends one in any case: a second event does no harm, and a count without
 * an event would let ibv_destroy_cq() wait for ever (providers/simhca/cq.c).
 */
bool simhca_step_raise(struct simhca_fastpath *fastpath, const struct simhca_step_events *events)
{
	_Atomic uint32_t *raised = &events->cq->mem->events_raised;
	const uint64_t *record = &events->notify->record;
	bool sent;

	if (events->notify->fd < 0)
		return false;
	simhca_store();
	atomic_fetch_add(raised, 1);
	simhca_store();
	sent = simhca_call_send(events->notify->fd, record, sizeof(*record),
				MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*record);
	if (sent) {
		simhca_step_add(&fastpath->events_raised, 1);
	} else {
		simhca_store();
		atomic_fetch_sub(raised, 1);
		simhca_store();
		atomic_fetch_add(events->due, 1);
	}
	simhca_store();
	/* The device looks at it only once the program has ended. */
	atomic_store(events->notifying, 0);
	return sent;
}

/*
 * The event is noted before the CQ is disarmed, so that the device raises it if the program ends in
 * between.
 */
bool simhca_step_disarm_armed(const struct simhca_step_events *events, uint32_t cqe_index,
			      uint32_t matches, uint32_t arm)
{
	_Atomic uint32_t *noted = events->notify->fd >= 0 ? events->notifying : events->due;
	const struct simhca_cq_view *cq = events->cq;

	matches = simhca_cqes_match(cq, cqe_index, matches);
	if (!(arm & matches))
		return false;
	simhca_store();
	atomic_fetch_add(noted, 1);
	if (simhca_cq_disarm(cq, arm, matches))
		return true;
	/* Another step took it. If the device has seen our note meanwhile, it sends one too many. */
	arm = atomic_load(noted);
	while (arm && !atomic_compare_exchange_weak(noted, &arm, arm - 1))
		;
	return false;
}

void simhca_step_take_back(const struct simhca_step *step, struct simhca_step_held *held,
			   uint32_t cqe_index)
{
	const struct simhca_step_events events = simhca_step_recv_events(step);

	simhca_store();
	simhca_cq_slot(events.cq, cqe_index)->qpn = SIMHCA_VOID_QPN;
	simhca_cqe_publish(events.cq, cqe_index);
	simhca_step_name_event_peer(step);
	/* A poller may have found nothing because this one was not published. */
	if (simhca_step_disarm(&events, cqe_index, SIMHCA_ARM_BITS))
		simhca_step_notify(step, held, &events);
}
