/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "cma.h"
#include "failures/failures.h"
#include "link/wire/wire.h"
#include "unanswered.h"

#define LOOK_S 1.0
#define TOLD_AFTER_S 2.0
#define MOST 256       /* requests; of further ones nothing is said */
#define MOST_IDS 4096u /* that are looked at to find who has asked */
#define TEXT 224

struct request {
	uint32_t handle;
	bool was_sent;		/* to another host, and has not come from somebody */
	double since;		/* monotonic_s() */
	uint64_t owner, client; /* numbers of files; client 0: none of this daemon */
	char text[TEXT];	/* as it was told; "": it was not */
};

struct unanswered {
	struct cma *cma;
	ev_timer timer; /* while there are any */
	struct request requests[MOST];
	unsigned int count;
};

/* The request's id, if there is no answer yet; or NULL. */
static struct cma_id *waiting(const struct cma *cma, const struct request *request)
{
	struct cma_id *id = cma_handle_get(&cma->ids, request->handle);
	enum simhca_cm_state state;

	if (!id || !id->cm || id->file->number != request->owner)
		return NULL;
	state = simhca_cm_id_state(id->cm);
	if (request->was_sent)
		return state == SIMHCA_CM_REQ_SENT || state == SIMHCA_CM_SIDR_REQ_SENT ? id : NULL;
	return state == SIMHCA_CM_REQ_RCVD || state == SIMHCA_CM_SIDR_REQ_RCVD ? id : NULL;
}

static bool is_end(const union cma_addr *one, const union cma_addr *other)
{
	return cma_addr_equal(one, other) && cma_addr_port(one) == cma_addr_port(other);
}

/* Who has asked for it; NULL: nobody on this daemon. */
static const struct cma_id *find_client(const struct cma *cma, const struct cma_id *request)
{
	uint32_t most = cma->ids.room < MOST_IDS ? cma->ids.room : MOST_IDS;

	for (uint32_t handle = 0; handle < most; handle++) {
		const struct cma_id *id = cma_handle_get(&cma->ids, handle);

		if (id && id != request && id->state == CMA_CONNECT && !id->listener &&
		    is_end(&id->src, &request->dst) && is_end(&id->dst, &request->src))
			return id;
	}
	return NULL;
}

static void tell_of_server(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	const struct cma_id *client = find_client(cma, id);
	char from[CMA_ADDR_TEXT], to[CMA_ADDR_TEXT];

	request->client = client ? client->file->number : 0;
	snprintf(request->text, sizeof(request->text), "the CONNECT_REQUEST of %s to %s %s",
		 cma_addr_print(&id->dst, from), cma_addr_print(&id->src, to),
		 id->announced ? "was not fetched by rdma_get_cm_event() so far"
			       : "was fetched, and neither accepted nor rejected so far");
	cma_notify_waiting(id, client, "unanswered", request->text);
}

/* If the host refuses to send it. */
static void tell_of_host(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	int error = simhca_wire_send_error(cma->daemon->fabric, &id->path.dgid,
					   (uint64_t)(1e9 * (monotonic_s() - request->since)));
	char to[CMA_ADDR_TEXT];

	if (!error)
		return;
	snprintf(request->text, sizeof(request->text),
		 "rdma_connect() to %s waits for an answer, and sending there failed: %s",
		 cma_addr_print(&id->dst, to), strerror(error));
	cma_notify_waiting(id, NULL, "not_sent", request->text);
}

static void tell(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	if (request->was_sent)
		tell_of_host(cma, request, id);
	else
		tell_of_server(cma, request, id);
}

/* A program with that file, which may be closing, is there. */
static bool is_there(const struct cma *cma, uint64_t number)
{
	struct cma_file *file;

	HASH_FIND(hh, cma->by_number, &number, sizeof(number), file);
	return file && !file->is_closing;
}

/* It was answered, or withdrawn. What was said of who then ended, or was given up, stays. */
static void forget(const struct cma *cma, const struct request *request)
{
	if (request->text[0] && is_there(cma, request->owner) &&
	    (!request->client || is_there(cma, request->client)))
		failures_woke_up(cma->daemon->failures, 0, request->text);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct unanswered *unanswered = timer->data;
	struct cma *cma = unanswered->cma;
	unsigned int left = 0;

	for (unsigned int i = 0; i < unanswered->count; i++) {
		struct request *request = &unanswered->requests[i];
		const struct cma_id *id = waiting(cma, request);

		if (!id) {
			forget(cma, request);
			continue;
		}
		if (!request->text[0] && monotonic_s() - request->since >= TOLD_AFTER_S)
			tell(cma, request, id);
		unanswered->requests[left++] = *request;
	}
	unanswered->count = left;
	if (!left)
		ev_timer_stop(loop, timer);
}

struct unanswered *unanswered_open(struct cma *cma)
{
	struct unanswered *unanswered = calloc(1, sizeof(*unanswered));

	if (!unanswered)
		return NULL;
	unanswered->cma = cma;
	ev_timer_init(&unanswered->timer, on_timer, LOOK_S, LOOK_S);
	unanswered->timer.data = unanswered;
	return unanswered;
}

void unanswered_close(struct unanswered *unanswered)
{
	if (!unanswered)
		return;
	ev_timer_stop(unanswered->cma->daemon->loop, &unanswered->timer);
	free(unanswered);
}

void unanswered_expect(struct unanswered *unanswered, const struct cma_id *id)
{
	struct request *room = NULL;

	/* The number of an id that has gone is given out again. */
	for (unsigned int i = 0; i < unanswered->count && !room; i++)
		if (unanswered->requests[i].handle == id->handle) {
			room = &unanswered->requests[i];
			forget(unanswered->cma, room);
		}
	if (!room && unanswered->count == MOST)
		return;
	if (!room)
		room = &unanswered->requests[unanswered->count++];
	*room = (struct request){ .handle = id->handle,
				  .was_sent = !id->listener,
				  .since = monotonic_s(),
				  .owner = id->file->number };
	if (!ev_is_active(&unanswered->timer))
		ev_timer_again(unanswered->cma->daemon->loop, &unanswered->timer);
}
