/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP's progress in memory that programs can write: the only place that reads and writes it
 * (scripts/check-rooms sees to it). It is read once, into a copy, and the copy goes through the
 * gate.
 */
#ifndef LIBSIMHCA_PROGRESS_H
#define LIBSIMHCA_PROGRESS_H

#include <stdatomic.h>
#include <string.h>

#include "gate.h"
#include "store.h"
#include "words.h"

/* -------------------------------------------------------------------------------- reading */

/*
 * Copies the requester's progress of that generation, and the messages under way, each to where it
 * is in mem->flight[]. flight NULL: with any of them under way it is not wanted. False: it is not
 * wanted, or says that more are under way than there can be.
 */
static inline bool simhca_progress_copy_requester(const struct simhca_qp_mem *mem,
						  uint32_t generation, struct simhca_requester *req,
						  struct simhca_flight *flight)
{
	simhca_words_get(req, &mem->req[generation & 1], sizeof(*req));
	if (req->count > (flight ? SIMHCA_MAX_FLIGHTS : 0))
		return false;
	for (uint32_t i = 0; i < req->count; i++) {
		uint32_t place = simhca_gate_place(req->oldest, i);

		flight[place] = simhca_flight_of_word(
			atomic_load_explicit(&mem->flight[place], memory_order_relaxed));
	}
	return true;
}

/* What of that makes sense (simhca_gate_requester()). */
static inline bool simhca_progress_requester(const struct simhca_qp_mem *mem, uint32_t generation,
					     uint32_t sq_entries, struct simhca_requester *req,
					     struct simhca_flight *flight)
{
	return simhca_progress_copy_requester(mem, generation, req, flight) &&
	       simhca_gate_requester(req, flight, sq_entries);
}

/* The responder's. False: it makes no sense (simhca_gate_responder()). */
static inline bool simhca_progress_responder(const struct simhca_qp_mem *mem, uint32_t generation,
					     uint32_t rq_entries, bool keeps,
					     struct simhca_responder *resp)
{
	simhca_words_get(resp, &mem->resp[generation & 1], sizeof(*resp));
	return simhca_gate_responder(resp, rq_entries, keeps);
}

/*
 * What was committed last, as it is: for what is only compared or shown, and indexes nothing. The
 * owner word may be another's meanwhile.
 */
static inline void simhca_progress_show_requester(const struct simhca_qp_mem *mem,
						  struct simhca_requester *req)
{
	uint32_t generation =
		atomic_load_explicit(&mem->req_owner.generation, memory_order_acquire);

	simhca_words_get(req, &mem->req[generation & 1], sizeof(*req));
}

static inline uint32_t simhca_progress_responder_generation(const struct simhca_qp_mem *mem)
{
	return atomic_load_explicit(&mem->resp_owner.generation, memory_order_acquire);
}

static inline void simhca_progress_show_responder(const struct simhca_qp_mem *mem,
						  struct simhca_responder *resp)
{
	uint32_t generation = simhca_progress_responder_generation(mem);

	simhca_words_get(resp, &mem->resp[generation & 1], sizeof(*resp));
}

/* The producer indices, likewise as they are. */
static inline uint32_t simhca_progress_sq_pi(const struct simhca_qp_mem *mem)
{
	return atomic_load_explicit(&mem->sq_pi, memory_order_relaxed);
}

static inline uint32_t simhca_progress_rq_pi(const struct simhca_qp_mem *mem)
{
	return atomic_load_explicit(&mem->rq_pi, memory_order_relaxed);
}

/* Whether that is other than what was committed in this generation. */
static inline bool simhca_progress_differs_requester(const struct simhca_qp_mem *mem,
						     uint32_t generation,
						     const struct simhca_requester *req)
{
	return memcmp(&mem->req[generation & 1], req, sizeof(*req)) != 0;
}

static inline bool simhca_progress_differs_responder(const struct simhca_qp_mem *mem,
						     uint32_t generation,
						     const struct simhca_responder *resp)
{
	return memcmp(&mem->resp[generation & 1], resp, sizeof(*resp)) != 0;
}

/* The `back`th latest read or atomic; false: it is none. */
static inline bool simhca_progress_answered(const struct simhca_qp_mem *mem, uint32_t answers,
					    uint32_t back, struct simhca_answered *one)
{
	simhca_words_get(one, &mem->answered[(answers - back) % SIMHCA_MAX_RD_ATOMIC],
			 sizeof(*one));
	return simhca_gate_answered(one);
}

/*
 * WQEs in the send queue from ring index `oldest` on, of which `least` are under way. False: its
 * producer index makes no sense. acquire: pairs with the client's release after it wrote the WQEs.
 */
static inline bool simhca_progress_sends(const struct simhca_qp_mem *mem, uint32_t oldest,
					 uint32_t least, uint32_t entries, uint32_t *posted)
{
	return simhca_gate_ring(atomic_load_explicit(&mem->sq_pi, memory_order_acquire), oldest,
				least, entries, posted);
}

/* The same of the receive queue. */
static inline bool simhca_progress_recvs(const struct simhca_qp_mem *mem, uint32_t oldest,
					 uint32_t entries, uint32_t *posted)
{
	return simhca_gate_ring(atomic_load_explicit(&mem->rq_pi, memory_order_acquire), oldest, 0,
				entries, posted);
}

/* -------------------------------------------------------------------------------- writing */

/* A QP that is reset has nothing posted, and has answered nothing. */
static inline void simhca_progress_clear(struct simhca_qp_mem *mem)
{
	atomic_store(&mem->sq_pi, 0);
	atomic_store(&mem->rq_pi, 0);
	memset(mem->answered, 0, sizeof(mem->answered));
}

/* To the copy of that generation, whether or not it counts. */
static inline void simhca_progress_put_responder(struct simhca_qp_mem *mem, uint32_t generation,
						 const struct simhca_responder *resp)
{
	simhca_words_put(&mem->resp[generation & 1], resp, sizeof(*resp));
}

/* The copy of this generation counts from now on. */
static inline void simhca_progress_publish(struct simhca_owner *word, uint32_t generation)
{
	simhca_store();
	/* release: the copy is there before it counts. */
	atomic_store_explicit(&word->generation, generation, memory_order_release);
}

/* Commits the generation after this one, which is written to the copy that does not count yet. */
static inline void simhca_progress_commit_requester(struct simhca_qp_mem *mem, uint32_t *generation,
						    const struct simhca_requester *req)
{
	simhca_words_put(&mem->req[++*generation & 1], req, sizeof(*req));
	simhca_progress_publish(&mem->req_owner, *generation);
}

static inline void simhca_progress_commit_responder(struct simhca_qp_mem *mem, uint32_t *generation,
						    const struct simhca_responder *resp)
{
	simhca_progress_put_responder(mem, ++*generation, resp);
	simhca_progress_publish(&mem->resp_owner, *generation);
}

/* The message at a ring index. It says nothing before `count` is committed. */
static inline void simhca_progress_put_flight(struct simhca_qp_mem *mem, uint32_t index,
					      const struct simhca_flight *flight)
{
	simhca_store();
	atomic_store_explicit(&mem->flight[simhca_gate_place(index, 0)],
			      simhca_word_of_flight(flight), memory_order_relaxed);
}

/* It says nothing before `answers` is committed; what it takes the place of is too old. */
static inline void simhca_progress_put_answered(struct simhca_qp_mem *mem, uint32_t answers,
						const struct simhca_answered *one)
{
	simhca_words_put(&mem->answered[answers % SIMHCA_MAX_RD_ATOMIC], one, sizeof(*one));
}

#endif
