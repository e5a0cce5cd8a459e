/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What has to be true after each lie, whether or not anything bad comes of it: a device that has
 * believed nonsense is caught before a later check hides that. What is said of a QP's progress here
 * is what gate.h promises, in other words: by sums of 64 bits, from the first PSN under way on.
 */
#include "core/handles.h"
#include "liar.h"
#include "proto/qp.h"

static uint64_t distance(uint32_t first, uint32_t psn)
{
	return psn >= first ? psn - first : psn + (UINT64_C(1) << 24) - first;
}

static bool is_truth(uint8_t value)
{
	return value <= 1;
}

/* Messages under way, one after the other; where the last one ends, counted from the first PSN. */
static uint64_t check_flights(const struct simhca_requester *req,
			      const struct simhca_flight *flights)
{
	uint32_t first = flights[req->oldest % SIMHCA_MAX_FLIGHTS].first;
	uint64_t end = 0;

	for (uint32_t i = 0; i < req->count; i++) {
		const struct simhca_flight *flight =
			&flights[(req->oldest + i) % SIMHCA_MAX_FLIGHTS];
		bool is_local = flight->opcode == SIMHCA_WR_LOCAL_INV ||
				flight->opcode == SIMHCA_WR_BIND_MW ||
				flight->opcode == SIMHCA_WR_FAST_REG;

		if (is_local)
			continue;
		if (flight->first != (first + end) % (1u << 24))
			caught("message %u under way does not begin where the one before ends", i);
		end += distance(flight->first, flight->last) + 1;
	}
	if (end >= 1u << 24)
		caught("the messages under way have more PSNs than there are");
	return end;
}

void oracle_requester(const struct simhca_requester *req, const struct simhca_flight *flights,
		      uint32_t sq_entries)
{
	uint32_t first = req->psn_next;
	uint64_t end = 0, una, send, sent;

	if (req->count > sq_entries || req->count > SIMHCA_MAX_FLIGHTS)
		caught("%u messages are under way from a queue of %u", req->count, sq_entries);
	if (req->count) {
		first = flights[req->oldest % SIMHCA_MAX_FLIGHTS].first;
		end = check_flights(req, flights);
	}
	if (!is_truth(req->fault) || !is_truth(req->alone) || !is_truth(req->answered) ||
	    req->wait > SIMHCA_WAIT_PEER)
		caught("the requester has a value that no device writes");
	if (req->psn_next >> 24 || distance(first, req->psn_next) != end)
		caught("the next PSN is not behind the messages under way");
	una = distance(first, req->psn_una);
	send = distance(first, req->psn_send);
	sent = distance(first, req->psn_sent);
	if (req->count && (una > send || send > sent || sent > end))
		caught("PSNs under way are not in order: %llu, %llu, %llu of %llu",
		       (unsigned long long)una, (unsigned long long)send, (unsigned long long)sent,
		       (unsigned long long)end);
}

void oracle_responder(const struct simhca_responder *resp, uint32_t rq_entries, bool keeps)
{
	if (resp->epsn >> 24 || resp->msn >> 24 || resp->read.psn >> 24)
		caught("the responder has a PSN of more than 24 bits");
	if (resp->left > SIMHCA_MAX_MSG_SIZE || resp->read.left > SIMHCA_MAX_MSG_SIZE ||
	    resp->offset > SIMHCA_MAX_MSG_SIZE)
		caught("the responder is further in a message than there is of it");
	if (!is_truth(resp->in_message) || !is_truth(resp->write) || !is_truth(resp->have_recv))
		caught("the responder has a value that no device writes");
	if (resp->have_recv && !rq_entries && !keeps)
		caught("the responder has a receive of a queue that there is not");
}

/* What the device works on, of a QP that it has looked at. */
static void check_progress(const struct side *side)
{
	const struct simhca_qp *qp =
		simhca_object(side->client->context, SIMHCA_OBJ_QP, side->qp->handle, NULL);

	if (qp->req_lock.known)
		oracle_requester(&qp->req, qp->flight, qp->sq_entries);
	if (qp->resp_lock.known)
		oracle_responder(&qp->resp, qp->rq_entries, qp->recv_copy);
}

/* No lie names a QP in a CQE, so who is named is whom the device has meant. */
static void check_named(const struct scene *scene, const struct cq *cq)
{
	for (uint32_t i = 0; i < cq->entries; i++) {
		uint32_t qpn = cq->ring[i].qpn;

		if (qpn && qpn != SIMHCA_VOID_QPN && qpn != scene->bad->a.qp->qpn &&
		    qpn != scene->bad->b.qp->qpn)
			caught("a CQE of a QP that has nothing to do with the CQ: %#x", qpn);
	}
}

static void check_secret(const struct mr *mr, uint32_t from)
{
	const uint64_t *words = (const uint64_t *)mr->addr;

	for (uint32_t i = from / 8; i < NEIGHBOUR / 8; i++)
		if (words[i] != SECRET)
			caught("the honest pair's memory was written to at %#x", i * 8);
}

static void check_neighbour(const struct side *side, uint32_t from)
{
	struct simhca_cqe cqe;

	check_secret(side->mr, from);
	if (cq_poll(side->send_cq, &cqe) || cq_poll(side->recv_cq, &cqe))
		caught("the honest pair has a completion more");
}

void oracle_begin(struct scene *scene)
{
	uint64_t *words[] = { (uint64_t *)scene->honest_mr[0]->addr,
			      (uint64_t *)scene->honest_mr[1]->addr };

	for (unsigned int i = 0; i < 2; i++)
		for (uint32_t n = 0; n < NEIGHBOUR / 8; n++)
			words[i][n] = SECRET;
}

void oracle_progress(const struct scene *scene)
{
	if (has_memory(&scene->bad->a))
		check_progress(&scene->bad->a);
	if (has_memory(&scene->bad->b))
		check_progress(&scene->bad->b);
}

void oracle_check(const struct scene *scene)
{
	const struct side *sides[] = { &scene->bad->a, &scene->bad->b };

	check_neighbour(&scene->good->a, 0);
	check_neighbour(&scene->good->b, 8); /* the message's number is there */
	for (unsigned int i = 0; i < 2; i++) {
		check_named(scene, sides[i]->send_cq);
		check_named(scene, sides[i]->recv_cq);
	}
	if (scene->srq_cq)
		check_named(scene, scene->srq_cq);
}

/* ------------------------------------------------------------------------- the honest pair */

/* Inline, and longer than any of the liars': what is left of it where the device works. */
void honest_post(struct scene *scene)
{
	struct pair *good = scene->good;
	uint64_t data[NEIGHBOUR / 8];

	for (unsigned int i = 0; i < ARRAY_SIZE(data); i++)
		data[i] = i ? SECRET : scene->message;
	recv_into(&good->b, scene->message, 0, sizeof(data));
	post(&good->a, .id = scene->message, .opcode = SIMHCA_WR_SEND, .inline_data = data,
	     .inline_len = sizeof(data));
}

bool honest_take(struct scene *scene, unsigned int side, struct honest *taken)
{
	struct cq *cq = side ? scene->good->b.recv_cq : scene->good->a.send_cq;
	struct simhca_cqe cqe;
	uint64_t number;

	if (!cq_poll(cq, &cqe))
		return false;
	*taken = (struct honest){ cqe.wr_id, cqe.status, cqe.qpn };
	memcpy(&number, scene->good->b.mr->addr, sizeof(number));
	if (side && number != scene->message)
		caught("an honest message has other bytes");
	return true;
}
