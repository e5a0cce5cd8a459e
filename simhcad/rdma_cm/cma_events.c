/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Events that wait until their file's program fetches them, and the token that shows that some do. */
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/log.h"
#include "cma.h"

/* -------------------------------------------------------------------------------------- tokens */

void cma_file_show_token(struct cma_file *file)
{
	if (file->token || !file->events)
		return;
	if (!++file->last_token)
		++file->last_token;
	file->token = file->last_token;
	if (send(file->fd, &file->token, sizeof(file->token), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("rdma_cm: process %d: a token could not be sent: %m", (int)file->pid);
}

uint32_t cma_file_withdraw_token(struct cma_file *file)
{
	uint32_t token = file->events ? 0 : file->token;

	if (token)
		file->token = 0;
	return token;
}

void cma_file_token_taken(struct cma_file *file, uint32_t token)
{
	if (token == file->token)
		file->token = 0;
}

/* -------------------------------------------------------------------------------------- events */

bool cma_file_queue(struct cma_file *file, const struct cma_event *event)
{
	struct cma_event *queued;

	/* Of a request that was not accepted: nobody could say what it is about. */
	if (!event->id->uid && !event->request)
		return true;
	queued = file->program->events < CMA_EVENTS ? malloc(sizeof(*queued)) : NULL;
	if (!queued) {
		log_warning("rdma_cm: process %d (%s): an event is lost, %u wait to be fetched",
			    (int)file->pid, file->comm, file->program->events);
		return false;
	}
	*queued = *event;
	DL_APPEND(file->events, queued);
	DL_APPEND2(queued->id->events, queued, id_prev, id_next);
	if (queued->request)
		queued->request->announced = queued;
	if (queued->mc)
		queued->mc->joined = queued;
	file->program->events++;
	file->cma->num_events++;
	cma_file_show_token(file);
	return true;
}

void cma_event(struct cma_id *id, enum cma_event_type type, int status)
{
	struct cma_event event = { .id = id };

	event.resp.uid = id->uid;
	event.resp.id = id->handle;
	event.resp.event = type;
	event.resp.status = (uint32_t)status;
	cma_file_queue(id->file, &event);
}

void cma_event_free(struct cma_event *event)
{
	struct cma_file *file = event->id->file;

	DL_DELETE(file->events, event);
	DL_DELETE2(event->id->events, event, id_prev, id_next);
	if (event->request)
		event->request->announced = NULL;
	if (event->mc)
		event->mc->joined = NULL;
	file->program->events--;
	file->cma->num_events--;
	free(event);
}

void cma_file_drop_joined(struct cma_mc *mc)
{
	if (mc->joined)
		cma_event_free(mc->joined);
}

void cma_file_forget_request(struct cma_id *request)
{
	request->listener->waiting--;
	request->listener = NULL;
	if (request->announced)
		cma_event_free(request->announced);
}

/* --------------------------------------------------------------------------------- migration */

static void move_id(struct cma_id *id, struct cma_file *to)
{
	struct cma_file *from = id->file;
	struct cma_mc *mc;
	unsigned int objects = 1;

	DL_FOREACH (id->mcs, mc)
		objects++;
	from->program->objects -= objects;
	to->program->objects += objects;
	DL_DELETE(from->ids, id);
	DL_APPEND(to->ids, id);
	id->file = to;
}

uint32_t cma_file_migrate(struct cma_id *id, struct cma_file *to)
{
	struct cma_file *from = id->file;
	struct cma_event *event;
	uint32_t token;

	DL_FOREACH2(id->events, event, id_next)
	{
		DL_DELETE(from->events, event);
		from->program->events--;
		DL_APPEND(to->events, event);
		to->program->events++;
		/* A request that waits goes with the event that brings it. */
		if (event->request)
			move_id(event->request, to);
	}
	move_id(id, to);
	token = cma_file_withdraw_token(from);
	cma_file_show_token(to);
	return token;
}
