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

enum kind {
	HAS_COME,   /* a request to connect */
	WAS_SENT,   /* likewise, to another host */
	ACCEPTED,   /* by the peer, with an answer that is to be fetched */
	HAS_PARTED, /* the peer has called rdma_disconnect() */
};

struct request {
	uint32_t handle;
	enum kind kind;
	double since;		/* monotonic_s() */
	uint64_t owner, client; /* numbers of files; client: who waits, 0: nobody of this daemon */
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
	switch (request->kind) {
	case HAS_COME:
		return state == SIMHCA_CM_REQ_RCVD || state == SIMHCA_CM_SIDR_REQ_RCVD ? id : NULL;
	case WAS_SENT:
		return state == SIMHCA_CM_REQ_SENT || state == SIMHCA_CM_SIDR_REQ_SENT ? id : NULL;
	case ACCEPTED:
		return state == SIMHCA_CM_REP_RCVD ? id : NULL;
	default:
		return state == SIMHCA_CM_DREQ_RCVD ? id : NULL;
	}
}

static bool is_end(const union cma_addr *one, const union cma_addr *other)
{
	return cma_addr_equal(one, other) && cma_addr_port(one) == cma_addr_port(other);
}

/* Whether it may be what the request's other end is. */
static bool may_wait(const struct cma_id *id, enum kind kind)
{
	enum simhca_cm_state state = id->cm ? simhca_cm_id_state(id->cm) : SIMHCA_CM_IDLE;

	if (id->state != CMA_CONNECT)
		return false;
	switch (kind) {
	case ACCEPTED:
		return state == SIMHCA_CM_REP_SENT;
	case HAS_PARTED:
		return state == SIMHCA_CM_DREQ_SENT;
	default:
		return !id->listener;
	}
}

/* Who waits for the answer; NULL: nobody on this daemon. */
static const struct cma_id *find_client(const struct cma *cma, const struct cma_id *request,
					enum kind kind)
{
	uint32_t most = cma->ids.room < MOST_IDS ? cma->ids.room : MOST_IDS;

	for (uint32_t handle = 0; handle < most; handle++) {
		const struct cma_id *id = cma_handle_get(&cma->ids, handle);

		if (id && id != request && may_wait(id, kind) && is_end(&id->src, &request->dst) &&
		    is_end(&id->dst, &request->src))
			return id;
	}
	return NULL;
}

static void tell_of_server(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	const struct cma_id *client = find_client(cma, id, HAS_COME);
	char from[CMA_ADDR_TEXT], to[CMA_ADDR_TEXT];

	request->client = client ? client->file->number : 0;
	snprintf(request->text, sizeof(request->text), "the CONNECT_REQUEST of %s to %s %s",
		 cma_addr_print(&id->dst, from), cma_addr_print(&id->src, to),
		 id->announced ? "was not fetched by rdma_get_cm_event() so far"
			       : "was fetched, and neither accepted nor rejected so far");
	cma_notify_waiting(id, client, "unanswered", request->text);
}

static bool was_fetched(const struct cma_id *id, enum cma_event_type type)
{
	const struct cma_event *event;

	DL_FOREACH2(id->events, event, id_next)
	if (event->resp.event == type)
		return false;
	return true;
}

/* A client whose request was accepted has not fetched that event, at which librdmacm sends the RTU. */
static void tell_of_answer(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	const struct cma_id *server = find_client(cma, id, ACCEPTED);
	char to[CMA_ADDR_TEXT];

	if (was_fetched(id, CMA_EV_CONNECT_RESPONSE))
		return;
	request->client = server ? server->file->number : 0;
	snprintf(request->text, sizeof(request->text),
		 "%s has accepted, and rdma_get_cm_event() was not called since: that is what "
		 "establishes the connection",
		 cma_addr_print(&id->dst, to));
	cma_notify_waiting(id, server, "accept_unanswered", request->text);
}

/* If its peer is still there, and so waits. */
static void tell_of_end(const struct cma *cma, struct request *request, const struct cma_id *id)
{
	const struct cma_id *peer = find_client(cma, id, HAS_PARTED);
	char to[CMA_ADDR_TEXT];

	if (!peer)
		return;
	request->client = peer->file->number;
	snprintf(request->text, sizeof(request->text),
		 "%s has called rdma_disconnect(): RDMA_CM_EVENT_DISCONNECTED was %s",
		 cma_addr_print(&id->dst, to),
		 was_fetched(id, CMA_EV_DISCONNECTED)
			 ? "fetched, and neither rdma_disconnect() nor rdma_destroy_id() called "
			   "since"
			 : "not fetched by rdma_get_cm_event() so far");
	cma_notify_waiting(id, peer, "end_unanswered", request->text);
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
	switch (request->kind) {
	case HAS_COME:
		tell_of_server(cma, request, id);
		break;
	case WAS_SENT:
		tell_of_host(cma, request, id);
		break;
	case ACCEPTED:
		tell_of_answer(cma, request, id);
		break;
	case HAS_PARTED:
		tell_of_end(cma, request, id);
	}
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

static void expect(struct unanswered *unanswered, const struct cma_id *id, enum kind kind)
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
				  .kind = kind,
				  .since = monotonic_s(),
				  .owner = id->file->number };
	if (!ev_is_active(&unanswered->timer))
		ev_timer_again(unanswered->cma->daemon->loop, &unanswered->timer);
}

void unanswered_expect(struct unanswered *unanswered, const struct cma_id *id)
{
	expect(unanswered, id, id->listener ? HAS_COME : WAS_SENT);
}

void unanswered_accepted(struct unanswered *unanswered, const struct cma_id *id)
{
	expect(unanswered, id, ACCEPTED);
}

void unanswered_parted(struct unanswered *unanswered, const struct cma_id *id)
{
	expect(unanswered, id, HAS_PARTED);
}
