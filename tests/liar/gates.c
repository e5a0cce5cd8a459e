/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the gates say of a lie, without an engine that looks: they are functions that only read. Of what
 * they refuse a QP ends, always in the same way, so few of these lies are worth an engine's time.
 */
#include "core/handles.h"
#include "liar.h"
#include "proto/qp.h"
#include "queue/progress.h"

void lie_note(const struct scene *scene, const struct lie *lie, struct before *before)
{
	for (unsigned int i = 0; i < lie->pokes; i++) {
		const struct field *field = &scene->field[lie->poke[i].field];

		for (unsigned int n = 0; n < 2 && field->at[n]; n++)
			memcpy(before->bytes[i][n], field->at[n], field->bytes);
	}
	for (unsigned int i = 0; i < 4; i++)
		if (scene->generation[i / 2][i % 2])
			before->generation[i / 2][i % 2] = *scene->generation[i / 2][i % 2];
}

void lie_take_back(struct scene *scene, const struct lie *lie, const struct before *before)
{
	for (unsigned int i = 0; i < 4; i++)
		if (scene->generation[i / 2][i % 2])
			*scene->generation[i / 2][i % 2] = before->generation[i / 2][i % 2];
	for (unsigned int i = lie->pokes; i--;) { /* a field may be there twice */
		const struct field *field = &scene->field[lie->poke[i].field];

		for (unsigned int n = 0; n < 2 && field->at[n]; n++)
			memcpy(field->at[n], before->bytes[i][n], field->bytes);
	}
}

/* A generation that the device left itself it does not read again. */
static bool is_read(const struct simhca_side_lock *lock, uint32_t generation)
{
	return !lock->known || lock->generation != generation;
}

static bool requester_refused(const struct simhca_qp *qp)
{
	const uint32_t generation = qp->mem->req_owner.generation;
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS];
	struct simhca_requester req;

	if (!is_read(&qp->req_lock, generation))
		return false;
	if (!simhca_progress_requester(qp->mem, generation, qp->sq_entries, &req, flight))
		return true;
	oracle_requester(&req, flight, qp->sq_entries);
	return false;
}

static bool responder_refused(const struct simhca_qp *qp)
{
	const uint32_t generation = qp->mem->resp_owner.generation;
	struct simhca_responder resp;

	if (!is_read(&qp->resp_lock, generation))
		return false;
	if (!simhca_progress_responder(qp->mem, generation, qp->rq_entries, qp->recv_copy, &resp))
		return true;
	oracle_responder(&resp, qp->rq_entries, qp->recv_copy);
	return false;
}

bool gates_refuse(const struct scene *scene)
{
	const struct side *sides[] = { &scene->bad->a, &scene->bad->b };
	bool refused = false;

	for (unsigned int i = 0; i < 2; i++) {
		const struct simhca_qp *qp;

		if (!has_memory(sides[i]))
			continue;
		qp = simhca_object(sides[i]->client->context, SIMHCA_OBJ_QP, sides[i]->qp->handle,
				   NULL);
		/* Each of them, whatever another has said. */
		refused |= requester_refused(qp);
		refused |= responder_refused(qp);
	}
	return refused;
}
