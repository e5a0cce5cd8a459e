/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reservations of CQEs: who may write the CQE of an index. Whoever wants to write it puts its name
 * into the slot; pi is moved past the slot by the same, or by whoever comes next. So when a program
 * is gone it is known which CQEs it reserved and left unwritten.
 *
 * A CQ with time stamps has them where the claim would be. Only the device writes into such a CQ.
 */
#ifndef LIBSIMHCA_CQE_RESERVATION_H
#define LIBSIMHCA_CQE_RESERVATION_H

#include <stdbool.h>
#include <string.h>

#include "simhca-abi.h"
#include "store.h"
#include "wqe_gate.h"

/* Changes by others while a CQE is to be reserved; more count as no room. A proof has fewer. */
#ifndef SIMHCA_CQE_RESERVE_TRIES
#define SIMHCA_CQE_RESERVE_TRIES 4096
#endif

/* CQEs before and behind one that are looked at for an event. */
#define SIMHCA_CQES_LOOKED_AT 256u

/* A CQ as who publishes in it sees it. */
struct simhca_cq_view {
	struct simhca_cq_mem *mem;
	struct simhca_cqe *ring;
	uint32_t entries, cqe;
	char *data; /* of small messages: SIMHCA_CQ_DATA [data_slots]; NULL: it has no room for any */
	uint32_t data_slots;
	bool stamped;  /* with time stamps */
	bool overruns; /* nobody looks whether a CQE was read */
};

static inline struct simhca_cqe *simhca_cq_slot(const struct simhca_cq_view *cq, uint32_t index)
{
	return &cq->ring[index & (cq->entries - 1)];
}

/* Room for the data that come with the CQE of that index, of a CQ that has any. */
static inline char *simhca_cq_data(const struct simhca_cq_view *cq, uint32_t index)
{
	return cq->data + (size_t)(index & (cq->data_slots - 1)) * SIMHCA_CQ_DATA;
}

static inline _Atomic uint64_t *simhca_cq_claim(const struct simhca_cq_view *cq, uint32_t index)
{
	return (_Atomic uint64_t *)&simhca_cq_slot(cq, index)->wallclock;
}

static inline uint32_t simhca_cq_producer(const struct simhca_cq_view *cq)
{
	return atomic_load_explicit(&cq->mem->pi, memory_order_relaxed);
}

/* CQEs written and not yet polled, as the client says; more than fit means that it lies or lags. */
static inline uint32_t simhca_cq_occupied(const struct simhca_cq_view *cq, uint32_t pi)
{
	/* acquire: the client has read the CQEs before ci, so their slots may be written. */
	return pi - atomic_load_explicit(&cq->mem->ci, memory_order_acquire);
}

/* CQEs consumed, as the client says: to show it, and to judge it (wqe_gate.h). */
static inline uint32_t simhca_cq_consumer(const struct simhca_cq_view *cq)
{
	/* acquire: the client has read the CQEs before ci, so their slots may be written. */
	return atomic_load_explicit(&cq->mem->ci, memory_order_acquire);
}

/* The CQ is in this memory from now on, and the next CQE is that one. */
static inline void simhca_cq_go_on(const struct simhca_cq_view *cq, uint32_t pi)
{
	atomic_store_explicit(&cq->mem->pi, pi, memory_order_relaxed);
}

/* Whether no CQE that waits, or is to be read, has the same room for its data as the one at that index. */
static inline bool simhca_cq_has_data(const struct simhca_cq_view *cq, uint32_t index)
{
	return cq->data && simhca_cq_occupied(cq, index) < cq->data_slots;
}

/*
 * A fresh slot's seq is 0, which is what the last index before the counter wraps publishes. There
 * it is one that has been.
 */
static inline void simhca_cq_fresh_ring(struct simhca_cqe *ring, uint32_t entries, uint32_t seq)
{
	atomic_store_explicit(&ring[UINT32_MAX & (entries - 1)].seq, seq, memory_order_relaxed);
}

static inline bool simhca_cq_has_room(const struct simhca_cq_view *cq, uint32_t pi)
{
	return cq->overruns || simhca_cq_occupied(cq, pi) < cq->cqe;
}

/*
 * Whether the index claimed in a slot is older than that one (-1), the same (0: it is claimed), or
 * newer (1: pi has gone around the ring since it was read).
 */
static inline int simhca_claim_age(uint64_t claim, uint32_t index)
{
	uint32_t newer = (uint32_t)(claim & UINT32_MAX) - (index + 1);

	if (!(claim >> 32) || newer > UINT32_MAX / 2)
		return -1;
	return newer > 0;
}

/*
 * Whether a program may have that index. Its progress names the CQE that it committed last by the
 * index plus 1, and 0 is none; so the index before 0 is the device's, which never ends in between.
 */
static inline bool simhca_cqe_may_reserve(uint32_t name, uint32_t index)
{
	return index != UINT32_MAX || name == SIMHCA_OWNER_DEVICE;
}

/* False: there is no room, a client moves the index, or the next one is for the device to take. */
static inline bool simhca_cqe_reserve(const struct simhca_cq_view *cq, uint32_t name,
				      uint32_t *cqe_index)
{
	uint32_t pi = simhca_cq_producer(cq);

	for (int i = 0; i < SIMHCA_CQE_RESERVE_TRIES; i++) {
		bool claimed = cq->stamped;

		if (!simhca_cq_has_room(cq, pi)) {
			/* Others may have moved on since, and the client have read what they wrote.
			 */
			uint32_t now = simhca_cq_producer(cq);

			if (now == pi)
				return false;
			pi = now;
			continue;
		}
		if (__builtin_expect(!simhca_cqe_may_reserve(name, pi), 0))
			return false;
		*cqe_index = pi;
		if (!cq->stamped) {
			uint64_t mine = (uint64_t)name << 32 | (uint32_t)(pi + 1);
			/* acquire: of a newer one, pi is read after it was moved that far. */
			uint64_t claim =
				atomic_load_explicit(simhca_cq_claim(cq, pi), memory_order_acquire);

			if (simhca_claim_age(claim, pi) > 0) {
				pi = simhca_cq_producer(cq);
				continue;
			}
			simhca_store();
			/* What is claimed in a slot only gets newer, so it is still that old. */
			claimed = simhca_claim_age(claim, pi) < 0 &&
				  atomic_compare_exchange_strong_explicit(simhca_cq_claim(cq, pi),
									  &claim, mine,
									  memory_order_acq_rel,
									  memory_order_relaxed);
		}
		simhca_store();
		/* release: who sees pi finds the slots before it, published or to be published. */
		if (atomic_compare_exchange_strong_explicit(&cq->mem->pi, &pi, pi + 1,
							    memory_order_acq_rel,
							    memory_order_relaxed)) {
			if (claimed)
				return true;
			pi++; /* another's, who had not come to that */
		} else if (claimed && !cq->stamped) {
			return true; /* another has moved it past ours */
		}
	}
	return false;
}

/* All but what says that it is there, and the claim. */
static inline void simhca_cqe_write(struct simhca_cqe *slot, const struct simhca_cqe *cqe)
{
	slot->wr_id = cqe->wr_id;
	memcpy(&slot->qpn, &cqe->qpn,
	       offsetof(struct simhca_cqe, seq) - offsetof(struct simhca_cqe, qpn));
}

/* The CQE is whole: who polls finds it from now on. */
static inline void simhca_cqe_publish(const struct simhca_cq_view *cq, uint32_t index)
{
	simhca_store();
	/* release: the CQE's fields are there before its sequence number says so. */
	atomic_store_explicit(&simhca_cq_slot(cq, index)->seq, index + 1, memory_order_release);
}

static inline bool simhca_cqe_is_published(const struct simhca_cq_view *cq, uint32_t index)
{
	/* acquire: its fields are there. */
	return atomic_load_explicit(&simhca_cq_slot(cq, index)->seq, memory_order_acquire) ==
	       index + 1;
}

/* The kinds of arming for which a completion raises an event: it has failed, or its sender asks for that. */
static inline uint32_t simhca_cqe_matches(const struct simhca_cqe *cqe)
{
	return cqe->status || (cqe->flags & SIMHCA_CQE_SOLICITED)
		       ? SIMHCA_ARM_NEXT | SIMHCA_ARM_SOLICITED
		       : SIMHCA_ARM_NEXT;
}

/*
 * CQEs are polled in order, so one that is reserved and not yet published holds up those behind it. An
 * event tells of what can be polled: whoever publishes a CQE looks, after a full barrier, whether it is
 * held up itself, and then leaves the event to who does that; otherwise it tells of those as well
 * that it has held up so far. The kinds of arming for which an event is due, which begin with `matches`,
 * those of its own. (tests/promela/held_up.pml)
 */
static inline uint32_t simhca_cqes_match(const struct simhca_cq_view *cq, uint32_t index,
					 uint32_t matches)
{
	uint32_t waiting = simhca_gate_waiting(index, simhca_cq_consumer(cq), cq->entries);

	/* The client can say that any number waits: what is behind so many more is taken to be published. */
	if (waiting > SIMHCA_CQES_LOOKED_AT)
		waiting = SIMHCA_CQES_LOOKED_AT;
	/* What the client has polled meanwhile may have been written over. */
	for (uint32_t i = index - waiting; i != index; i++)
		if (!simhca_cqe_is_published(cq, i) &&
		    index - i <= simhca_gate_waiting(index, simhca_cq_consumer(cq), cq->entries))
			return SIMHCA_ARM_NONE;
	for (uint32_t i = index + 1;
	     i - index <= SIMHCA_CQES_LOOKED_AT && simhca_cqe_is_published(cq, i); i++)
		matches |= simhca_cqe_matches(simhca_cq_slot(cq, i));
	return matches;
}

/* Whether a CQ whose arming was `arm` is armed for one of these; then it is armed no more. */
static inline bool simhca_cq_disarm(const struct simhca_cq_view *cq, uint32_t arm, uint32_t matches)
{
	while (arm & matches) {
		simhca_store();
		/* A client that arms again meanwhile wins: its new arming is looked at afresh. */
		if (atomic_compare_exchange_weak(&cq->mem->arm, &arm, arm & ~SIMHCA_ARM_BITS))
			return true;
	}
	return false;
}

/* Whether the index is one that whoever has the name, who is gone, claimed and did not publish. */
static inline bool simhca_cqe_is_abandoned(const struct simhca_cq_view *cq, uint32_t name,
					   uint32_t index)
{
	return !cq->stamped &&
	       atomic_load_explicit(simhca_cq_claim(cq, index), memory_order_acquire) ==
		       ((uint64_t)name << 32 | (uint32_t)(index + 1)) &&
	       atomic_load_explicit(&simhca_cq_slot(cq, index)->seq, memory_order_acquire) !=
		       index + 1;
}

/*
 * Publishes what such a one has left: the CQE that was committed is whole, any other is void. It
 * may have claimed the slot at pi, and not moved pi; behind that it has nothing. To be called by
 * one thread at a time.
 */
static inline void simhca_cqes_recover(const struct simhca_cq_view *cq, uint32_t name,
				       uint32_t committed)
{
	uint32_t last = simhca_cq_producer(cq);
	uint32_t waiting = simhca_gate_waiting(last, simhca_cq_consumer(cq), cq->entries);

	for (uint32_t i = last - waiting; i != last + 1; i++) {
		uint32_t pi = i;

		if (!simhca_cqe_is_abandoned(cq, name, i))
			continue;
		if (committed != i + 1 || !simhca_cqe_may_reserve(name, i))
			simhca_cq_slot(cq, i)->qpn = SIMHCA_VOID_QPN;
		atomic_store_explicit(&simhca_cq_slot(cq, i)->seq, i + 1, memory_order_release);
		atomic_compare_exchange_strong(&cq->mem->pi, &pi, i + 1);
	}
}

#endif
