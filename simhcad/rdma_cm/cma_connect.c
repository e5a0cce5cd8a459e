/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Connections, and datagrams' partners: what the user asks for, and what the peer has to say. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "cma.h"
#include "link/wire/wire.h"
#include "session/session.h"
#include "simhca-info.h"
#include "simhca-inject.h"
#include "unanswered.h"

#define SERVICE_RC 0
#define SERVICE_UC 1
#define SERVICE_EXTENDED 3
#define EXTENDED_XRC 1
#define MOST_RETRIES 7
#define UNSENT_NS                                                                                  \
	10000000000ull /* more than one wait of the communication manager's for an answer */

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Bytes in front of the user's private data: the addresses, unless these are AF_IB's own. */
static size_t header_size(const struct cma_id *id)
{
	return id->src.sa.sa_family == AF_IB ? 0 : SIMHCA_CM_IP_BYTES;
}

static void put_header(const struct cma_id *id, uint8_t *private_data)
{
	struct simhca_cm_ip ip = { .port = cma_addr_port(&id->src) };

	if (!header_size(id))
		return;
	if (id->src.sa.sa_family == AF_INET) {
		ip.version = 4;
		memcpy(ip.src + 12, &id->src.in.sin_addr, 4);
		memcpy(ip.dst + 12, &id->dst.in.sin_addr, 4);
	} else {
		ip.version = 6;
		memcpy(ip.src, &id->src.in6.sin6_addr, 16);
		memcpy(ip.dst, &id->dst.in6.sin6_addr, 16);
	}
	simhca_cm_ip_encode(&ip, private_data);
}

/* ---------------------------------------------------------------------------------- connecting */

int cma_not_in_this_state(const struct cma_id *id, int ret, struct simhca_why *why)
{
	enum simhca_cm_state state = simhca_cm_id_state(id->cm);
	const char *then = "";

	if (state == SIMHCA_CM_IDLE)
		then = ": the peer has withdrawn or rejected it, as an event of the id says";
	else if (state == SIMHCA_CM_ESTABLISHED)
		then = ": rdma_disconnect() ends it";
	return simhca_why(why, -ret, "the connection is in state %s%s", simhca_cm_state_name(state),
			  then);
}

static int private_fits(const struct rdma_ucm_conn_param *param, size_t room,
			struct simhca_why *why)
{
	if (param->private_data_len > room)
		return simhca_why(why, EINVAL, "%u bytes of private data: there is room for %zu",
				  param->private_data_len, room);
	return 0;
}

/*
 * The peer believes what is said of a QP: whose number comes a second time is gone, and so is its
 * connection. No program says that of another one's.
 */
static int check_qp(const struct cma_id *id, uint32_t qpn, struct simhca_why *why)
{
	const struct session *session = simhca_qp_arg(id->device->model, qpn);

	if (!session || session->owner.program == id->file->program->pid)
		return 0;
	return simhca_why(why, EINVAL, "QP 0x%x is another program's", qpn);
}

static int send_req(struct cma_id *id, const struct rdma_ucm_conn_param *param,
		    const struct rdma_ucm_ece *ece, struct simhca_why *why)
{
	struct simhca_cm_req req = {
		.vendor_id = ece->vendor_id & 0xffffff,
		.service_id = cma_service_id(id, &id->dst),
		.qpn = param->qp_num,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.remote_cm_timeout = CMA_CM_TIMEOUT,
		.local_cm_timeout = CMA_CM_TIMEOUT,
		.service_type = id->qp_type == IBV_QPT_RC   ? SERVICE_RC
				: id->qp_type == IBV_QPT_UC ? SERVICE_UC
							    : SERVICE_EXTENDED,
		.ext_type =
			id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_UC ? 0 : EXTENDED_XRC,
		.flow_control = !!param->flow_control,
		.starting_psn = id->psn,
		.retry_count = (uint8_t)least(param->retry_count, MOST_RETRIES),
		.rnr_retry = (uint8_t)least(param->rnr_retry_count, MOST_RETRIES),
		.max_cm_retries = CMA_CM_RETRIES,
		.srq = !!param->srq,
	};
	size_t header = header_size(id);
	int ret = private_fits(param, sizeof(req.private_data) - header, why);

	if (ret)
		return ret;
	put_header(id, req.private_data);
	memcpy(req.private_data + header, param->private_data, param->private_data_len);
	return simhca_cm_send_req(id->cm, &id->path, &req, ece->attr_mod);
}

static int send_sidr_req(struct cma_id *id, const struct rdma_ucm_conn_param *param,
			 struct simhca_why *why)
{
	uint8_t private_data[SIMHCA_CM_SIDR_REQ_PRIVATE] = { 0 };
	size_t header = header_size(id);
	struct simhca_cm_sidr_param sidr = {
		.service_id = cma_service_id(id, &id->dst),
		.timeout_ms = simhca_cm_milliseconds(CMA_CM_TIMEOUT),
		.max_retries = CMA_CM_RETRIES,
		.private_data = private_data,
		.length = header + param->private_data_len,
	};
	int ret = private_fits(param, sizeof(private_data) - header, why);

	if (ret)
		return ret;
	put_header(id, private_data);
	memcpy(private_data + header, param->private_data, param->private_data_len);
	return simhca_cm_send_sidr_req(id->cm, &id->path, &sidr);
}

/* Whether its request was refused, or got no answer; of datagrams that is not known. */
static bool has_failed(const struct cma_id *id)
{
	enum simhca_cm_state state;

	if (id->state != CMA_CONNECT || id->qp_type == IBV_QPT_UD)
		return false;
	state = simhca_cm_id_state(id->cm);
	/* TIMEWAIT: it was refused as its QP has another connection. */
	return state == SIMHCA_CM_IDLE || state == SIMHCA_CM_TIMEWAIT;
}

int cma_connect(struct cma_id *id, const struct rdma_ucm_conn_param *param,
		const struct rdma_ucm_ece *ece, struct simhca_why *why)
{
	uint8_t sgid_index;
	int ret;

	if (id->state == CMA_DISCONNECT)
		return simhca_why(why, EINVAL, CMA_CONNECTS_ONCE);
	if (has_failed(id))
		return simhca_why(why, EINVAL,
				  "the id was refused, or got no answer, and an id connects once: "
				  "destroy it, and create another");
	if (id->state == CMA_CONNECT)
		return simhca_why(
			why, EINVAL,
			"the id has a connection already; that of a CONNECT_REQUEST is for "
			"rdma_accept()");
	if (id->state != CMA_ROUTE_RESOLVED)
		return simhca_why(why, EINVAL, "the route has to be resolved first");
	ret = check_qp(id, param->qp_num, why);
	if (ret)
		return ret;
	id->cm = simhca_cm_id_create(id->file->cma->cm, id);
	if (!id->cm)
		return simhca_why(why, ENOMEM, "out of memory");
	id->qp_num = param->qp_num;
	id->srq = param->srq;
	ret = id->qp_type == IBV_QPT_UD ? send_sidr_req(id, param, why)
					: send_req(id, param, ece, why);
	if (ret) {
		simhca_cm_id_destroy(id->cm, true);
		id->cm = NULL;
		return ret;
	}
	cma_set_state(id, CMA_CONNECT);
	if (!cma_addr_device(id->file->cma, &id->dst, &sgid_index))
		unanswered_expect(id->file->cma->unanswered, id);
	return 0;
}

/* ------------------------------------------------------------------------------------ accepting */

static int send_rep(struct cma_id *id, const struct rdma_ucm_conn_param *param,
		    const struct rdma_ucm_ece *ece, struct simhca_why *why)
{
	struct simhca_cm_rep rep = {
		.qpn = param->qp_num,
		.starting_psn = id->psn,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.flow_control = !!param->flow_control,
		.rnr_retry = (uint8_t)least(param->rnr_retry_count, MOST_RETRIES),
		.srq = !!param->srq,
		.vendor_id_h = (uint8_t)(ece->vendor_id >> 16),
		.vendor_id_m = (uint8_t)(ece->vendor_id >> 8),
		.vendor_id_l = (uint8_t)ece->vendor_id,
	};
	int ret = private_fits(param, sizeof(rep.private_data), why);

	if (ret)
		return ret;
	memcpy(rep.private_data, param->private_data, param->private_data_len);
	return simhca_cm_send_rep(id->cm, &rep, ece->attr_mod);
}

static int send_sidr_rep(struct cma_id *id, const struct rdma_ucm_conn_param *param,
			 const struct rdma_ucm_ece *ece, struct simhca_why *why)
{
	struct simhca_cm_sidr_rep rep = {
		.status = SIMHCA_CM_SIDR_OK,
		.qpn = param->qp_num,
		.qkey = id->qkey,
		.vendor_id_h = (uint16_t)(ece->vendor_id >> 8),
		.vendor_id_l = (uint8_t)ece->vendor_id,
	};
	int ret = private_fits(param, sizeof(rep.private_data), why);

	if (ret)
		return ret;
	memcpy(rep.private_data, param->private_data, param->private_data_len);
	return simhca_cm_send_sidr_rep(id->cm, &rep, ece->attr_mod);
}

int cma_accept(struct cma_id *id, const struct rdma_ucm_conn_param *param,
	       const struct rdma_ucm_ece *ece, struct simhca_why *why)
{
	int ret;

	if (id->state == CMA_LISTEN)
		return simhca_why(why, EINVAL,
				  "this id listens: accept the one that CONNECT_REQUEST brings, "
				  "event->id");
	if (id->state != CMA_CONNECT || !id->cm)
		return simhca_why(why, EINVAL, "there is no connection to accept (any more)");
	ret = param ? check_qp(id, param->qp_num, why) : 0;
	if (ret)
		return ret;
	if (!param) {
		ret = simhca_cm_send_rtu(id->cm);
	} else {
		id->qp_num = param->qp_num;
		id->srq = param->srq;
		if (id->qp_type == IBV_QPT_UD) {
			id->qkey = param->qkey ? param->qkey : CMA_UDP_QKEY;
			ret = send_sidr_rep(id, param, ece, why);
		} else {
			ret = send_rep(id, param, ece, why);
		}
	}
	if (!ret)
		return 0;
	if (!why->text[0])
		cma_not_in_this_state(id, ret, why);
	cma_reject(id, SIMHCA_CM_REJ_CONSUMER, NULL, 0, NULL);
	return ret;
}

int cma_reject(struct cma_id *id, uint8_t reason, const void *private_data, size_t length,
	       struct simhca_why *why)
{
	struct simhca_cm_sidr_rep rep = { .status = SIMHCA_CM_SIDR_REJECT };
	size_t room = id->qp_type == IBV_QPT_UD ? sizeof(rep.private_data)
						: sizeof(((struct simhca_cm_rej *)0)->private_data);
	int ret;

	if (!id->cm)
		return simhca_why(why, EINVAL, "there is no connection to reject");
	if (length > room)
		return simhca_why(why, EINVAL, "%zu bytes of private data: there is room for %zu",
				  length, room);
	if (id->qp_type != IBV_QPT_UD) {
		ret = simhca_cm_send_rej(id->cm, reason, private_data, length);
	} else {
		if (length)
			memcpy(rep.private_data, private_data, length);
		ret = simhca_cm_send_sidr_rep(id->cm, &rep, 0);
	}
	return ret ? cma_not_in_this_state(id, ret, why) : 0;
}

int cma_disconnect(struct cma_id *id, struct simhca_why *why)
{
	/* As with Linux, a listener that has a device, as all have that come here, has nothing to end. */
	if (id->state == CMA_LISTEN)
		return 0;
	if (!id->cm)
		return simhca_why(why, EINVAL, "there is no connection");
	/* It may be over, or the peer may have been faster. */
	if (simhca_cm_send_dreq(id->cm))
		simhca_cm_send_drep(id->cm);
	return 0;
}

static void established(struct cma_id *id)
{
	cma_event(id, CMA_EV_ESTABLISHED, 0);
}

int cma_notify(struct cma_id *id, uint32_t event, struct simhca_why *why)
{
	int ret;

	if (!id->cm)
		return simhca_why(why, EINVAL, "there is no connection");
	if (event != IBV_EVENT_COMM_EST)
		return simhca_why(why, EINVAL, "event %u: only IBV_EVENT_COMM_EST says something",
				  event);
	ret = simhca_cm_establish(id->cm);
	if (ret == -EISCONN)
		return simhca_why(why, EISCONN, "the connection is known to be established");
	if (ret)
		return cma_not_in_this_state(id, ret, why);
	established(id);
	return 0;
}

/* ------------------------------------------------------------------------- what the peer says */

static void fill_conn(struct cma_event *event, const void *private_data, size_t length)
{
	struct rdma_ucm_conn_param *conn = &event->resp.param.conn;

	memcpy(conn->private_data, private_data, length);
	conn->private_data_len = (uint8_t)length;
}

static struct cma_event event_of(struct cma_id *id, enum cma_event_type type, int status)
{
	struct cma_event event = { .id = id };

	event.resp.uid = id->uid;
	event.resp.id = id->handle;
	event.resp.event = type;
	event.resp.status = (uint32_t)status;
	return event;
}

static void on_rep(struct cma_id *id, const struct simhca_cm_mad *mad)
{
	struct cma_event event = event_of(id, CMA_EV_CONNECT_RESPONSE, 0);
	struct rdma_ucm_conn_param *conn = &event.resp.param.conn;
	const struct simhca_cm_rep *rep = &mad->rep;

	conn->qp_num = rep->qpn;
	conn->responder_resources = rep->initiator_depth;
	conn->initiator_depth = rep->responder_resources;
	conn->flow_control = rep->flow_control;
	conn->rnr_retry_count = rep->rnr_retry;
	conn->srq = rep->srq;
	event.resp.ece.vendor_id = (uint32_t)rep->vendor_id_h << 16 |
				   (uint32_t)rep->vendor_id_m << 8 | rep->vendor_id_l;
	event.resp.ece.attr_mod = mad->attr_mod;
	fill_conn(&event, rep->private_data, sizeof(rep->private_data));
	if (cma_file_queue(id->file, &event))
		unanswered_accepted(id->file->cma->unanswered, id);
}

static const char *meaning_of(uint16_t reason, bool elsewhere)
{
	switch (reason) {
	case SIMHCA_CM_REJ_TIMEOUT:
		return " (the peer waited too long for what comes next)";
	case SIMHCA_CM_REJ_STALE_CONNECTION:
		return " (stale connection: the QP is part of one already)";
	case SIMHCA_CM_REJ_CONSUMER:
		return elsewhere ? " (consumer: the peer's program does not want it, or listens at "
				   "another address)"
				 : " (consumer: the peer's program does not want it)";
	default:
		return "";
	}
}

/* Whether its request went to another daemon, which may have refused it for a reason that its answer does not tell. */
static bool asks_elsewhere(const struct cma_id *id)
{
	uint8_t index;

	/* The id that came with a request has no port of its own, and has asked nobody. */
	return id->port && !cma_addr_is_any(&id->dst) &&
	       !cma_addr_device(id->file->cma, &id->dst, &index);
}

static void on_rej(struct cma_id *id, const struct simhca_cm_rej *rej)
{
	struct cma_event event = event_of(id, CMA_EV_REJECTED, rej->reason);
	char to[CMA_ADDR_TEXT], listeners[160], hint[80];

	fill_conn(&event, rej->private_data, sizeof(rej->private_data));
	cma_file_queue(id->file, &event);
	cma_addr_print(&id->dst, to);
	if (rej->reason == SIMHCA_CM_REJ_INVALID_SERVICE_ID || id->unserved) {
		cma_port_describe(id->file->cma, id->ps, listeners, sizeof(listeners));
		cma_port_hint(id, hint, sizeof(hint));
		cma_notify_failure(id, CMA_NOBODY_LISTENS, rej->reason,
				   "nobody listens on %s in port space %s; listeners are: %s%s", to,
				   cma_ps_name(id->ps), listeners[0] ? listeners : "none", hint);
	} else {
		cma_notify_failure(
			id, rej->reason == SIMHCA_CM_REJ_TIMEOUT ? CMA_TOO_LATE : CMA_REJECTED,
			rej->reason, "the connection to %s was rejected, reason %u%s", to,
			rej->reason, meaning_of(rej->reason, asks_elsewhere(id)));
	}
}

/* With REJECT it was somebody who listens on that port; anything else is said where nobody does. */
static void notify_refused_datagrams(const struct cma_id *id, uint8_t status)
{
	char to[CMA_ADDR_TEXT], listeners[160], hint[80];

	cma_addr_print(&id->dst, to);
	if (status != SIMHCA_CM_SIDR_REJECT || id->unserved) {
		cma_port_describe(id->file->cma, id->ps, listeners, sizeof(listeners));
		cma_port_hint(id, hint, sizeof(hint));
		cma_notify_failure(
			id, CMA_NOBODY_LISTENS, status,
			"%s in port space %s does not serve, status %u; listeners are: %s%s", to,
			cma_ps_name(id->ps), status, listeners[0] ? listeners : "none", hint);
	} else if (id->full_backlog) {
		cma_notify_failure(id, CMA_BACKLOG_FULL, status,
				   "%s in port space %s refuses, status %u: its backlog of %u is "
				   "full",
				   to, cma_ps_name(id->ps), status, id->full_backlog);
	} else {
		cma_notify_failure(id, CMA_REJECTED, status,
				   "%s in port space %s refuses, status %u: the peer's program "
				   "does not want it%s",
				   to, cma_ps_name(id->ps), status,
				   asks_elsewhere(id) ? ", or listens at another address, or its "
							"backlog is full"
						      : "");
	}
}

static void on_sidr_rep(struct cma_id *id, const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_sidr_rep *rep = &mad->sidr_rep;
	struct cma_event event = event_of(id, CMA_EV_ESTABLISHED, 0);
	struct rdma_ucm_ud_param *ud = &event.resp.param.ud;

	memcpy(ud->private_data, rep->private_data, sizeof(rep->private_data));
	ud->private_data_len = sizeof(rep->private_data);
	if (rep->status != SIMHCA_CM_SIDR_OK) {
		event.resp.event = CMA_EV_UNREACHABLE;
		event.resp.status = rep->status;
		notify_refused_datagrams(id, rep->status);
	} else {
		ud->qp_num = rep->qpn;
		ud->qkey = rep->qkey;
		event.resp.ece.vendor_id = (uint32_t)rep->vendor_id_h << 8 | rep->vendor_id_l;
		event.resp.ece.attr_mod = mad->attr_mod;
		cma_path_av(id, &id->path, &ud->ah_attr);
	}
	cma_file_queue(id->file, &event);
}

static void on_timeout(struct cma_id *id)
{
	int error =
		simhca_wire_send_error(id->file->cma->daemon->fabric, &id->path.dgid, UNSENT_NS);
	char to[CMA_ADDR_TEXT];

	cma_addr_print(&id->dst, to);
	if (error)
		cma_notify_failure(id, CMA_NOT_SENT, error, "sending to %s failed: %s", to,
				   strerror(error));
	else
		cma_notify_failure(id, CMA_NO_ANSWER, ETIMEDOUT, "%s did not answer", to);
	cma_event(id, CMA_EV_UNREACHABLE, -ETIMEDOUT);
}

/* Each side hears of the end of a connection by whatever comes first. */
static void disconnected(struct cma_id *id, int status)
{
	cma_set_state(id, CMA_DISCONNECT);
	cma_event(id, CMA_EV_DISCONNECTED, status);
}

/* ---------------------------------------------------------------------------------- requests */

static uint8_t type_of(const struct simhca_cm_req *req)
{
	switch (req->service_type) {
	case SERVICE_RC:
		return IBV_QPT_RC;
	case SERVICE_UC:
		return IBV_QPT_UC;
	default: /* the receiving half of an initiator */
		return req->ext_type == EXTENDED_XRC ? IBV_QPT_XRC_RECV : 0;
	}
}

/* Both ends' addresses: by the header if there is one, else by the path. */
static void find_ends(const uint8_t *private_data, uint64_t service_id,
		      const struct simhca_cm_path *path, union cma_addr *src, union cma_addr *dst)
{
	struct simhca_cm_ip ip;

	simhca_cm_ip_decode(private_data, &ip);
	if (ip.version) {
		cma_addr_from_ip(src, ip.version, ip.dst, (uint16_t)service_id);
		cma_addr_from_ip(dst, ip.version, ip.src, ip.port);
		return;
	}
	memset(src, 0, sizeof(*src));
	src->ib.family = AF_IB;
	src->ib.pkey = htobe16(path->pkey);
	src->ib.sid_mask = htobe64(UINT64_MAX);
	*dst = *src;
	src->ib.sid = htobe64(service_id);
	src->ib.gid = path->sgid;
	dst->ib.gid = path->dgid;
}

/* The new id of a request, with the event that brings it. NULL: out of memory. */
static struct cma_id *make_request(struct cma_id *listener, struct simhca_cm_id *cm,
				   const union cma_addr *src, const union cma_addr *dst)
{
	const struct simhca_cm_path *path = simhca_cm_id_path(cm);
	struct cma_id *id = cma_id_create(listener->file, 0, listener->ps, listener->qp_type);

	if (!id)
		return NULL;
	id->src = *src;
	id->dst = *dst;
	id->path = *path;
	/* A service request has none, so rdma_cm_id.route.path_rec is NULL. */
	id->has_path = id->qp_type != IBV_QPT_UD;
	cma_attach(id, path->port, 0);
	for (uint8_t i = 0; i < SIMHCA_GID_ENTRIES; i++)
		if (!memcmp(&id->device->gids[i].gid, &path->sgid, sizeof(path->sgid)))
			id->sgid_index = i;
	cma_set_state(id, CMA_CONNECT);
	id->cm = cm;
	simhca_cm_id_set_context(cm, id);
	id->listener = listener;
	listener->waiting++;
	return id;
}

static struct cma_event request_event(struct cma_id *listener, struct cma_id *id)
{
	struct cma_event event = event_of(listener, CMA_EV_CONNECT_REQUEST, 0);

	event.resp.id = id->handle;
	event.request = id;
	return event;
}

static int queue_request(const struct cma_event *event)
{
	if (cma_file_queue(event->id->file, event)) {
		unanswered_expect(event->id->file->cma->unanswered, event->request);
		return 0;
	}
	event->request->cm = NULL; /* which is not ours then */
	cma_id_destroy(event->request);
	return -1;
}

/* Who has sent a request, if that is an id of this daemon: the answer does not say all of why it is refused. */
static struct cma_id *client_of(struct cma *cma, const struct simhca_cm_mad *request)
{
	struct simhca_cm_id *sender = simhca_cm_sender(cma->cm, request);

	return sender ? simhca_cm_id_context(sender) : NULL;
}

/* 0, or what simhca_cm_ops.event answers to a request that nobody takes. */
static int find_listener(struct cma *cma, struct cma_port *port, const union cma_addr *src,
			 uint8_t type, const struct simhca_cm_mad *request,
			 struct cma_id **listener)
{
	union cma_addr none = { .sa = { .sa_family = 0 } };
	char text[CMA_ADDR_TEXT];

	*listener = cma_port_listener(port, src->sa.sa_family == AF_IB ? &none : src);
	if (!*listener) {
		struct cma_id *client = client_of(cma, request);

		if (client)
			client->unserved = true;
	}
	if (!*listener || (*listener)->qp_type != type)
		return type == IBV_QPT_UD ? SIMHCA_CM_SIDR_REJECT : SIMHCA_CM_REJ_CONSUMER;
	if ((*listener)->waiting >= (*listener)->backlog) {
		cma_notify_failure(*listener, CMA_BACKLOG_FULL, ECONNREFUSED,
				   "the backlog of %s is full, with %u request%s not fetched",
				   cma_addr_print(&(*listener)->src, text), (*listener)->waiting,
				   (*listener)->waiting == 1 ? " that was" : "s that were");
		return -1;
	}
	return 0;
}

static int on_req(struct cma *cma, struct cma_port *port, struct simhca_cm_id *cm,
		  const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_req *req = &mad->req;
	struct rdma_ucm_conn_param *conn;
	struct cma_id *listener, *id;
	struct cma_event event;
	union cma_addr src, dst;
	size_t header;
	int ret;

	find_ends(req->private_data, req->service_id, simhca_cm_id_path(cm), &src, &dst);
	ret = find_listener(cma, port, &src, type_of(req), mad, &listener);
	if (!ret)
		ret = simhca_inject_connect(
			((const struct device *)simhca_cm_id_path(cm)->port)->model);
	if (ret)
		return ret;
	id = make_request(listener, cm, &src, &dst);
	if (!id)
		return -1;
	event = request_event(listener, id);
	conn = &event.resp.param.conn;
	conn->qp_num = req->qpn;
	/* Mine is what the peer calls the other. */
	conn->responder_resources = req->initiator_depth;
	conn->initiator_depth = req->responder_resources;
	conn->flow_control = req->flow_control;
	conn->retry_count = req->retry_count;
	conn->rnr_retry_count = req->rnr_retry;
	conn->srq = req->srq;
	event.resp.ece.vendor_id = req->vendor_id;
	event.resp.ece.attr_mod = mad->attr_mod;
	header = header_size(listener);
	fill_conn(&event, req->private_data + header, sizeof(req->private_data) - header);
	return queue_request(&event);
}

static int take_sidr_req(struct cma *cma, struct cma_port *port, struct simhca_cm_id *cm,
			 const struct simhca_cm_mad *mad)
{
	const struct simhca_cm_sidr_req *req = &mad->sidr_req;
	struct rdma_ucm_ud_param *ud;
	struct cma_id *listener, *id;
	struct cma_event event;
	union cma_addr src, dst;
	size_t header;
	int ret;

	find_ends(req->private_data, req->service_id, simhca_cm_id_path(cm), &src, &dst);
	ret = find_listener(cma, port, &src, IBV_QPT_UD, mad, &listener);
	if (ret < 0) {
		struct cma_id *client = client_of(cma, mad);

		if (client)
			client->full_backlog = listener->backlog;
	}
	if (ret)
		return ret;
	id = make_request(listener, cm, &src, &dst);
	if (!id)
		return -1;
	event = request_event(listener, id);
	ud = &event.resp.param.ud;
	header = header_size(listener);
	ud->private_data_len = (uint8_t)(sizeof(req->private_data) - header);
	memcpy(ud->private_data, req->private_data + header, ud->private_data_len);
	return queue_request(&event);
}

/* A REQ that nobody has room for is repeated; a SIDR_REQ is refused, as by Linux. */
static int on_sidr_req(struct cma *cma, struct cma_port *port, struct simhca_cm_id *cm,
		       const struct simhca_cm_mad *mad)
{
	int ret = take_sidr_req(cma, port, cm, mad);

	return ret < 0 ? SIMHCA_CM_SIDR_REJECT : ret;
}

/* As with Linux, an id hears of its connection until that ends, and then of its last packets alone. */
static bool is_heard(const struct cma_id *id, enum simhca_cm_event_type type)
{
	if (type == SIMHCA_CM_REQ_RECEIVED || type == SIMHCA_CM_SIDR_REQ_RECEIVED)
		return true;
	return id->state == (type == SIMHCA_CM_TIMEWAIT_EXIT ? CMA_DISCONNECT : CMA_CONNECT);
}

int cma_on_cm_event(void *arg, struct simhca_cm_id *cm, const struct simhca_cm_event *event)
{
	struct cma_id *id = simhca_cm_id_context(cm);

	if (!is_heard(id, event->type))
		return 0;
	switch (event->type) {
	case SIMHCA_CM_REQ_RECEIVED:
		return on_req(arg, event->listener, cm, event->mad);
	case SIMHCA_CM_SIDR_REQ_RECEIVED:
		return on_sidr_req(arg, event->listener, cm, event->mad);
	case SIMHCA_CM_REP_RECEIVED:
		on_rep(id, event->mad);
		break;
	case SIMHCA_CM_RTU_RECEIVED:
		established(id);
		break;
	case SIMHCA_CM_REJ_RECEIVED:
		on_rej(id, &event->mad->rej);
		break;
	case SIMHCA_CM_SIDR_REP_RECEIVED:
		on_sidr_rep(id, event->mad);
		break;
	case SIMHCA_CM_DREQ_RECEIVED:
		disconnected(id, 0);
		unanswered_parted(id->file->cma->unanswered, id);
		break;
	case SIMHCA_CM_DREP_RECEIVED:
		disconnected(id, 0);
		break;
	case SIMHCA_CM_DREQ_TIMEOUT:
		disconnected(id, -ETIMEDOUT);
		break;
	case SIMHCA_CM_REQ_TIMEOUT:
	case SIMHCA_CM_REP_TIMEOUT:
	case SIMHCA_CM_SIDR_TIMEOUT:
		on_timeout(id);
		break;
	case SIMHCA_CM_TIMEWAIT_EXIT:
		cma_event(id, CMA_EV_TIMEWAIT_EXIT, 0);
		break;
	}
	return 0;
}
