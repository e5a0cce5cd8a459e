/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What an engine does for a context of an EFA device: it looks at the doorbells of its QPs, takes what
 * was posted, and moves their messages, in turns.
 */
#include <sched.h>
#include <string.h>

#include "core/lock.h"
#include "wire.h"

#define MESSAGES_AT_A_TIME 16 /* of a QP */
/* Of all QPs of a context, until others have the engine: a message is one, */
#define TURN 64u
#define SLICE_COSTS 32u	      /* a slice of a read or write so many, */
#define SKIPPED_FOR_ONE 64u   /* and so many that wait for a receiver one */
#define EVENTS_AT_A_TIME 64u  /* that programs have armed for meanwhile: a system call each */
#define GLANCE_NS (20 * 1000) /* from one look at doorbells to the next, between two messages */
#define ACTIVE_NS (5 * 1000 * 1000) /* since the last one, until the pages are armed */
#define UNWATCHED_NS (1000 * 1000)  /* from one look at what cannot be armed to the next */
#define SUSPENDED_NS (10 * 1000 * 1000)
#define FIRST_BACKOFF_NS (20 * 1000) /* until a receiver that was not ready is asked again */
#define LAST_BACKOFF_NS (1000 * 1000)
#define SHUFFLED_NS (200 * 1000) /* that a message is late at most */

/* -------------------------------------------------------------------------------------- QPs */

/* A number that differs each time, and in each run of the same is the same. */
static uint32_t next_number(struct efa_qp *qp)
{
	qp->shuffle = qp->shuffle * 1664525u + 1013904223u + qp->qpn;
	return qp->shuffle >> 16;
}

/* From when on a message is to be carried. Every other one is late where SRD is shuffled. */
static uint64_t when(struct efa_qp *qp, uint64_t now)
{
	if (!qp->srd || !qp->context->device->config.srd_shuffled || next_number(qp) & 1)
		return 0;
	return now + next_number(qp) % SHUFFLED_NS;
}

static void spend(struct simhca_efa *efa, uint32_t cost)
{
	efa->left -= cost < efa->left ? cost : efa->left;
}

/* Reads what was posted. One that is refused is as much work as a message. True: something was. */
static bool take_posted(struct simhca_worker *worker, struct efa_qp *qp, uint64_t now)
{
	uint32_t posted, taken = 0;

	if (!efa_posted(qp->sq_doorbell, qp->sq_ci, qp->sq_entries, &posted)) {
		efa_fail(qp);
		return true;
	}
	for (; taken < posted && taken < MESSAGES_AT_A_TIME &&
	       qp->count + qp->flight_count < qp->sq_entries && qp->context->efa->left;
	     taken++) {
		struct efa_message *message = &qp->messages[qp->count];
		struct efa_wide_wqe wqe;
		enum efa_status status;

		efa_read_once(&wqe, efa_send_at(qp, qp->sq_ci++), qp->wqe_bytes);
		*message =
			(struct efa_message){ .not_before_ns = when(qp, now), .index = qp->taken };
		if (simhca_usage_is_due(qp->usage, qp->taken))
			simhca_usage_begin(qp->usage, qp->taken, now);
		qp->taken++;
		status = efa_judge_send(&wqe.wqe, &qp->limits, &message->send);
		if (status == EFA_STATUS_OK) {
			qp->count++;
			continue;
		}
		efa_refuse(worker, qp, message, &wqe.wqe, status);
		spend(qp->context->efa, 1);
	}
	return taken;
}

static bool same_receiver(const struct efa_send *a, const struct efa_send *b)
{
	return a->ah == b->ah && a->dest_qpn == b->dest_qpn;
}

/*
 * A message that was at index i stays: behind the `kept` ones that stay so far, or, if it waits for its receiver, in
 * front of them with the others that wait, so that it is not asked for until their time.
 */
static void keep(struct efa_qp *qp, uint32_t i, uint32_t *kept, bool waits)
{
	struct efa_message *from = &qp->messages[i];
	struct efa_message *to = &qp->messages[waits ? qp->waiting : *kept];
	const uint32_t behind = (uint32_t)(&qp->messages[*kept] - to);

	if (behind) {
		struct efa_message one = *from;

		spend(qp->context->efa, behind / SKIPPED_FOR_ONE);
		memmove(to + 1, to, behind * sizeof(one));
		*to = one;
	} else if (to != from) {
		*to = *from;
	}
	qp->waiting += waits;
	++*kept;
}

/* Those that wait are asked for again after twice as long each time, until a message gets through. */
static void back_off(struct efa_qp *qp, uint64_t now)
{
	qp->backoff_ns = qp->backoff_ns ? 2 * qp->backoff_ns : FIRST_BACKOFF_NS;
	if (qp->backoff_ns > LAST_BACKOFF_NS)
		qp->backoff_ns = LAST_BACKOFF_NS;
	qp->retry_ns = now + qp->backoff_ns;
	simhca_usage_add(&qp->usage->rnr_delay_ns, qp->backoff_ns);
}

/*
 * Carries messages; those that wait for a receiver first, once it is their time. True: one of them has completed
 * or got on.
 */
static bool carry_some(struct simhca_worker *worker, struct efa_qp *qp, uint64_t now)
{
	const struct efa_send *blocked = qp->waiting ? &qp->messages[0].send : NULL;
	uint32_t first = qp->waiting, kept, tried = 0, skipped = 0;
	struct simhca_efa *efa = qp->context->efa;
	bool worked = false, is_cut = false;
	uint64_t late = UINT64_MAX;

	if (qp->waiting && now >= qp->retry_ns) {
		first = 0;
		blocked = NULL;
	}
	kept = first;
	qp->waiting = first;
	for (uint32_t i = first; i < qp->count; i++) {
		struct efa_message *message = &qp->messages[i];
		enum efa_outcome outcome = EFA_WAITS;

		/* The rest another time, as it is. */
		if (tried == MESSAGES_AT_A_TIME || !efa->left) {
			memmove(&qp->messages[kept], message, (qp->count - i) * sizeof(*message));
			kept += qp->count - i;
			is_cut = true;
			break;
		}
		if (message->not_before_ns > now) {
			late = message->not_before_ns < late ? message->not_before_ns : late;
			spend(efa, ++skipped % SKIPPED_FOR_ONE == 0);
			keep(qp, i, &kept, false);
			continue;
		}
		if (!blocked || !same_receiver(blocked, &message->send)) {
			spend(efa, message->send.opcode == EFA_SEND ? 1 : SLICE_COSTS);
			outcome = efa_carry(worker, qp, message, now);
			tried++;
		} else {
			spend(efa, ++skipped % SKIPPED_FOR_ONE == 0);
		}
		worked |= outcome != EFA_WAITS;
		if (outcome == EFA_DONE)
			continue;
		keep(qp, i, &kept, outcome == EFA_WAITS);
		if (outcome == EFA_WAITS)
			blocked = &qp->messages[qp->waiting - 1].send;
	}
	qp->count = kept;
	qp->late_ns = late == UINT64_MAX ? 0 : late;
	if (worked)
		qp->backoff_ns = 0;
	if (qp->waiting && !first)
		back_off(qp, now);
	return worked || is_cut;
}

static bool serve(struct simhca_worker *worker, struct efa_qp *qp, uint64_t now)
{
	bool worked;

	if (atomic_load(&qp->dead) || !qp->sq_entries)
		return false;
	if (atomic_load(&qp->state) != SIMHCA_QPS_RTS) {
		/* What came for it has found its rings broken: it sends nothing any more. */
		if (atomic_load(&qp->state) == SIMHCA_QPS_ERR && (qp->count || qp->flights))
			efa_flush(qp);
		return false;
	}
	worked = take_posted(worker, qp, now);
	if (atomic_load(&qp->state) == SIMHCA_QPS_ERR) {
		efa_flush(qp);
		qp->context->efa->left = 0; /* it was as much as a turn has, or more */
	} else if (qp->count) {
		worked |= carry_some(worker, qp, now);
	}
	if (qp->flights)
		worked |= efa_wire_serve(worker, qp, now);
	efa_show(qp);
	return worked;
}

/* ---------------------------------------------------------------------------------- the task */

/* The doorbells of CQs that raise events, each in turn. True: some may be left. */
static bool look_at_cqs(struct simhca_efa *efa)
{
	const uint32_t count = atomic_load(&efa->notified_cqs.count);
	uint32_t events = 0;

	for (uint32_t i = 0; i < count && events < EVENTS_AT_A_TIME; i++) {
		struct efa_cq *cq;

		if (efa->next_cq >= count)
			efa->next_cq = 0;
		cq = atomic_load(&efa->notified_cqs.items[efa->next_cq++]);
		if (cq)
			events += efa_cq_look(cq);
	}
	return events == EVENTS_AT_A_TIME;
}

/*
 * Each QP in turn, from where the last turn ended. SIMHCA_EFA_QPS and SIMHCA_EFA_CQS limit how many a turn
 * looks at: a tenth of a microsecond each.
 */
static bool serve_all(struct simhca_worker *worker, struct simhca_efa *efa, uint64_t now)
{
	const uint32_t count = atomic_load(&efa->qps.count);
	bool worked = false;

	efa->left = TURN;
	for (uint32_t i = 0; i < count && efa->left; i++) {
		struct efa_qp *qp;

		if (efa->next >= count)
			efa->next = 0;
		qp = atomic_load(&efa->qps.items[efa->next++]);
		if (qp)
			worked |= serve(worker, qp, now);
	}
	return look_at_cqs(efa) || worked || !efa->left;
}

/* What is to come without a doorbell: how long until then; 0: nothing. */
static uint64_t until_retry(struct simhca_efa *efa, uint64_t now)
{
	uint64_t least = 0;

	for (uint32_t i = 0; i < atomic_load(&efa->qps.count); i++) {
		const struct efa_qp *qp = atomic_load(&efa->qps.items[i]);
		uint64_t left, at[3];

		if (!qp)
			continue;
		at[0] = qp->late_ns;
		at[1] = qp->waiting ? qp->retry_ns : 0;
		at[2] = qp->wire_due_ns;
		for (int which = 0; which < 3; which++) {
			left = at[which] > now ? at[which] - now : 1;
			if (at[which] && (!least || left < least))
				least = left;
		}
	}
	return least;
}

/* Nothing has come for a while. False: it may sleep. */
static bool rest(struct simhca_worker *worker, struct simhca_efa *efa, uint64_t now)
{
	bool more, all = efa_doorbells_arm(worker, efa, &more);
	uint64_t delay;

	if (serve_all(worker, efa, now) || more)
		return true;
	delay = until_retry(efa, now);
	if (!all && (!delay || delay > UNWATCHED_NS))
		delay = UNWATCHED_NS;
	if (delay)
		simhca_engine_arm_timer(&efa->task, delay);
	return false;
}

/* True: there is more to do at once, or may be. *idle: nothing was found. */
static bool look(struct simhca_worker *worker, struct simhca_efa *efa, bool *idle)
{
	uint64_t now = simhca_engine_now(worker->engine);
	bool arrived;

	*idle = false;
	if (atomic_load_explicit(&efa->context->suspended, memory_order_relaxed)) {
		simhca_engine_arm_timer(&efa->task, SUSPENDED_NS);
		return false;
	}
	/*
	 * Who stands there stores once it has a CPU, which can take long: were the page armed before, it
	 * would stand there again, and so for ever.
	 */
	if (efa_doorbells_open(worker, efa))
		efa->idle_ns = now;
	arrived = efa_wire_arrived(worker, efa, now);
	if (serve_all(worker, efa, now) || arrived) {
		efa->idle_ns = 0;
		return true;
	}
	if (!efa->idle_ns)
		efa->idle_ns = now;
	/* As an engine polls before it sleeps: where CPUs are scarce it leaves them to programs. */
	if (now - efa->idle_ns < worker->engine->config.spin_us * UINT64_C(1000)) {
		*idle = true;
		return true;
	}
	/*
	 * Then it sleeps for moments: a page fault puts the program to sleep, which takes longer than
	 * a message, and where others want the CPU much longer.
	 */
	if (now - efa->idle_ns < ACTIVE_NS) {
		simhca_engine_arm_timer(&efa->task, GLANCE_NS);
		return false;
	}
	return rest(worker, efa, now);
}

bool efa_work(struct simhca_worker *worker, struct simhca_task *task)
{
	struct simhca_efa *efa =
		(struct simhca_efa *)((char *)task - offsetof(struct simhca_efa, task));
	bool more, idle;

	if (atomic_load(&task->dead))
		return false;
	/* Whoever has the lock looks again for us. */
	atomic_store(&efa->again, true);
	if (pthread_mutex_trylock(&efa->work))
		return false;
	atomic_store(&efa->again, false);
	more = look(worker, efa, &idle);
	pthread_mutex_unlock(&efa->work);
	simhca_worker_send(worker);
	if (idle && worker->engine->config.yields)
		sched_yield();
	return more || atomic_load(&efa->again);
}
