/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink: the objects of programs, one by one. Each kind has a number that is unique in the
 * device, and belongs to the program that opened its context, or its event channel.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "base/privilege.h"
#include "nldev.h"
#include "rdma_cm/cma_report.h"
#include "session/daemon.h"
#include "session/session.h"
#include "simhca-info.h"

#define SRQ_QPS 256   /* of one SRQ that are shown, at most */
#define SRQ_RANGES 64 /* that their numbers make, at most: so an SRQ fits into an answer */

/* An object, and whose it is. */
struct object {
	const struct session *session; /* NULL of kinds that belong to none */
	uint32_t handle, number;
	pid_t pid; /* 0: that of who opened the context */
	union {
		struct simhca_qp_info qp;
		struct simhca_mr_info mr;
		struct simhca_pd_info pd;
		struct simhca_cq_info cq;
		struct simhca_srq_info srq;
		struct cma_id_info cm_id;
	};
};

/* What the one who asks may see. */
struct view {
	uint32_t port; /* of objects at a port, only those at this one; 0: all */
	bool admin;    /* keys */
	bool pids;
};

struct kind {
	int table, entry, number; /* attributes */
	bool at_port;
	/* The object whose handle is object->handle or the next one; false: there is none. */
	bool (*next)(const struct session *session, struct object *object);
	/* Instead, of kinds that belong to no session. */
	bool (*next_of_device)(const struct device *device, struct object *object);
	int (*put)(struct nl_msg *msg, const struct object *object, const struct view *view);
};

static uint32_t context_number(const struct object *object)
{
	return simhca_context_id(object->session->context);
}

/* ------------------------------------------------------------------------------------- QPs */

static bool next_qp(const struct session *session, struct object *object)
{
	for (; simhca_next_qp(session->context, &object->handle, &object->qp); object->handle++) {
		if (object->qp.further)
			continue;
		object->number = object->qp.qpn;
		return true;
	}
	return false;
}

static int put_qp(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	const struct simhca_qp_info *qp = &object->qp;
	bool has_peer = qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC;
	bool has_path = has_peer || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;

	if (view->port && view->port != qp->port)
		return -EAGAIN;
	if ((qp->port && nla_put_u32(msg, RDMA_NLDEV_ATTR_PORT_INDEX, qp->port)) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LQPN, qp->qpn) ||
	    (qp->pd && nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, qp->pd)) ||
	    (has_peer && (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_RQPN, qp->dest_qpn) ||
			  nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->rq_psn))) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->sq_psn) ||
	    (has_path && nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, IBV_MIG_MIGRATED)) ||
	    nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_TYPE, (uint8_t)qp->type) ||
	    nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_STATE, (uint8_t)qp->state))
		return -EMSGSIZE;
	return 0;
}

/* ----------------------------------------------------------------------------- rdma_cm ids */

static bool next_cm_id(const struct device *device, struct object *object)
{
	if (!cma_next_id(device->daemon->cma, device, &object->handle, &object->cm_id))
		return false;
	object->number = object->handle;
	object->pid = object->cm_id.pid;
	return true;
}

static int put_cm_id(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	const struct cma_id_info *id = &object->cm_id;

	if (view->port && view->port != id->port)
		return -EAGAIN;
	if ((id->port && nla_put_u32(msg, RDMA_NLDEV_ATTR_PORT_INDEX, id->port)) ||
	    (id->qp_num && (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LQPN, id->qp_num) ||
			    nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_TYPE, id->qp_type))) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PS, id->ps) ||
	    nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_STATE, id->state) ||
	    (id->src && nla_put(msg, RDMA_NLDEV_ATTR_RES_SRC_ADDR, sizeof(*id->src), id->src)) ||
	    (id->dst && nla_put(msg, RDMA_NLDEV_ATTR_RES_DST_ADDR, sizeof(*id->dst), id->dst)) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CM_IDN, object->number))
		return -EMSGSIZE;
	return 0;
}

/* --------------------------------------------------------------------------------- regions */

static bool next_mr(const struct session *session, struct object *object)
{
	if (!simhca_next_mr(session->context, &object->handle, &object->mr))
		return false;
	object->number = object->mr.number;
	object->pid = (pid_t)object->mr.pid;
	return true;
}

static int put_mr(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	const struct simhca_query_mr_reply *attr = &object->mr.attr;

	if ((view->admin && (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_RKEY, attr->rkey) ||
			     nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LKEY, attr->lkey))) ||
	    nla_put_u64(msg, RDMA_NLDEV_ATTR_RES_MRLEN, attr->length) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_MRN, object->number) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, object->mr.pd))
		return -EMSGSIZE;
	return 0;
}

/* Of on-demand regions, the pages that came and went, by mlx5's names. */
static int put_mr_counters(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	const struct simhca_query_mr_reply *attr = &object->mr.attr;
	struct nlattr *table;

	if (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_MRN, object->number))
		return -EMSGSIZE;
	if (!(attr->access & SIMHCA_ACCESS_ON_DEMAND))
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table || nldev_put_counter(msg, "page_faults", attr->odp.fault_pages) ||
	    nldev_put_counter(msg, "page_invalidations", attr->odp.invalidated_pages) ||
	    nldev_put_counter(msg, "page_prefetch", attr->odp.prefetched_pages))
		return -EMSGSIZE;
	nla_nest_end(msg, table);
	return 0;
}

/* -------------------------------------------------------------- protection domains, CQs */

static bool next_pd(const struct session *session, struct object *object)
{
	if (!simhca_next_pd(session->context, &object->handle, &object->pd))
		return false;
	object->number = object->pd.number;
	return true;
}

static int put_pd(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	if (nla_put_u64(msg, RDMA_NLDEV_ATTR_RES_USECNT, object->pd.users) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, object->number) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CTXN, context_number(object)))
		return -EMSGSIZE;
	return 0;
}

static bool next_cq(const struct session *session, struct object *object)
{
	if (!simhca_next_cq(session->context, &object->handle, &object->cq))
		return false;
	object->number = object->cq.number;
	return true;
}

static int put_cq(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	if (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CQE, object->cq.cqe) ||
	    nla_put_u64(msg, RDMA_NLDEV_ATTR_RES_USECNT, object->cq.users) ||
	    nla_put_u8(msg, RDMA_NLDEV_ATTR_DEV_DIM, 0) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CQN, object->number) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CTXN, context_number(object)))
		return -EMSGSIZE;
	return 0;
}

/* -------------------------------------------------------------------------------- contexts */

static bool next_ctx(const struct session *session, struct object *object)
{
	object->number = simhca_context_id(session->context);
	return !object->handle;
}

static int put_ctx(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	return nldev_fit(nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CTXN, object->number));
}

/* ------------------------------------------------------------------------------------ SRQs */

static bool next_srq(const struct session *session, struct object *object)
{
	if (!simhca_next_srq(session->context, &object->handle, &object->srq))
		return false;
	object->number = object->srq.number;
	return true;
}

static int ascending(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static int put_range(struct nl_msg *msg, uint32_t first, uint32_t last)
{
	struct nlattr *entry = nla_nest_start(msg, RDMA_NLDEV_ATTR_RES_QP_ENTRY);

	if (!entry)
		return -EMSGSIZE;
	if (first == last ? nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_LQPN, first)
			  : nla_put_u32(msg, RDMA_NLDEV_ATTR_MIN_RANGE, first) ||
				    nla_put_u32(msg, RDMA_NLDEV_ATTR_MAX_RANGE, last))
		return -EMSGSIZE;
	nla_nest_end(msg, entry);
	return 0;
}

/* The numbers of an SRQ's QPs, as ranges. Without QPs the table is there, and empty. */
static int put_srq_qps(struct nl_msg *msg, const struct object *object)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_RES_QP);
	uint32_t qpn[SRQ_QPS];
	uint32_t count = simhca_srq_qps(object->session->context, object->handle, qpn, SRQ_QPS);

	if (!table)
		return -EMSGSIZE;
	qsort(qpn, count, sizeof(qpn[0]), ascending);
	for (uint32_t first = 0, last, ranges = 0; first < count && ranges < SRQ_RANGES;
	     first = last + 1, ranges++) {
		for (last = first; last + 1 < count && qpn[last + 1] == qpn[last] + 1;)
			last++;
		if (put_range(msg, qpn[first], qpn[last]))
			return -EMSGSIZE;
	}
	nla_nest_end_keep_empty(msg, table);
	return 0;
}

static int put_srq(struct nl_msg *msg, const struct object *object, const struct view *view)
{
	const struct simhca_srq_info *srq = &object->srq;

	if (nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_SRQN, object->number) ||
	    nla_put_u8(msg, RDMA_NLDEV_ATTR_RES_TYPE, (uint8_t)srq->type) ||
	    nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PDN, srq->pd) ||
	    (srq->cq && nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_CQN, srq->cq)))
		return -EMSGSIZE;
	return put_srq_qps(msg, object);
}

/* ----------------------------------------------------------------------- lists, and answers */

static int put_object(struct nl_msg *msg, const struct kind *kind, const struct object *object,
		      const struct view *view)
{
	pid_t pid = object->pid || !object->session ? object->pid : object->session->pid;
	int ret = kind->put(msg, object, view);

	if (!ret && pid && view->pids)
		ret = nldev_fit(nla_put_u32(msg, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)pid));
	return ret;
}

static int put_entry(struct nl_msg *msg, const struct kind *kind, const struct object *object,
		     const struct view *view)
{
	struct nlattr *entry = nla_nest_start(msg, kind->entry);
	int ret;

	if (!entry)
		return -EMSGSIZE;
	ret = put_object(msg, kind, object, view);
	if (ret)
		nla_nest_cancel(msg, entry);
	else
		nla_nest_end(msg, entry);
	return ret;
}

/* -EINVAL: the question names no device, or no port of it. */
static int get_view(const struct nldev_query *query, struct view *view)
{
	const struct nl_asker *asker = query->asker;

	if (!nldev_device(query) || nldev_port(query, &view->port))
		return -EINVAL;
	view->admin = privilege_net_admin(asker->pid, asker->uid);
	view->pids = privilege_same_namespace(asker->pid, asker->uid, "pid");
	return 0;
}

/* The first session from this one on that has a context. */
static const struct session *with_context(const struct session *session)
{
	while (session && !session->context)
		session = session->next;
	return session;
}

/* Where a list goes on: with the object of the cursor, or the next one. */
static struct object object_at(const struct kind *kind, const struct device *device,
			       const struct nldev_cursor *cursor)
{
	struct object object = { .handle = cursor->handle };

	if (kind->next_of_device)
		return object;
	object.session = device->sessions;
	while (object.session && object.session->number < cursor->group)
		object.session = object.session->next;
	object.session = with_context(object.session);
	if (object.session && object.session->number != cursor->group)
		object.handle = 0;
	return object;
}

/* The object that is meant, or the next one of the device; false: there is none. */
static bool next_object(const struct kind *kind, const struct device *device, struct object *object)
{
	if (kind->next_of_device)
		return kind->next_of_device(device, object);
	while (object->session && !kind->next(object->session, object))
		*object = (struct object){ .session = with_context(object->session->next) };
	return object->session;
}

/* As many entries as fit, from the cursor on. */
static int list(const struct kind *kind, const struct nldev_query *query,
		struct nldev_cursor *cursor, struct nl_msg *part)
{
	const struct device *device = nldev_device(query);
	struct object object;
	struct nlattr *table;
	struct view view;
	int filled = 0, ret = get_view(query, &view);

	if (ret)
		return ret;
	if (nldev_put_device(part, device))
		return -EMSGSIZE;
	table = nla_nest_start(part, kind->table);
	if (!table)
		return -EMSGSIZE;
	object = object_at(kind, device, cursor);
	for (; next_object(kind, device, &object); object.handle++) {
		cursor->group = object.session ? object.session->number : 0;
		cursor->handle = object.handle;
		ret = put_entry(part, kind, &object, &view);
		if (ret == -EMSGSIZE) {
			nla_nest_end(part, table);
			return filled ? 1 : ret;
		}
		filled |= !ret;
	}
	*cursor = (struct nldev_cursor){ UINT32_MAX, UINT32_MAX };
	nla_nest_end(part, table);
	return filled;
}

static bool find(const struct kind *kind, const struct device *device, uint32_t number,
		 struct object *object)
{
	*object = object_at(kind, device, &(struct nldev_cursor){ 0 });
	for (; next_object(kind, device, object); object->handle++)
		if (object->number == number)
			return true;
	return false;
}

/* One object, by its number. Those at a port are asked for with the port, the others without. */
static int answer(const struct kind *kind, const struct nldev_query *query, struct nl_msg *msg)
{
	struct nlattr *number = query->attr[kind->number];
	struct object object;
	struct view view;

	if (get_view(query, &view) || !number || kind->at_port != (view.port != 0))
		return -EINVAL;
	if (!find(kind, nldev_device(query), nla_get_u32(number), &object))
		return -ENOENT;
	if (nldev_put_device(msg, nldev_device(query)))
		return -EMSGSIZE;
	return put_object(msg, kind, &object, &view);
}

/* --------------------------------------------------------------------------------- summary */

static int put_summary_entry(struct nl_msg *msg, const char *name, uint64_t count)
{
	struct nlattr *entry = nla_nest_start(msg, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	if (!entry || nla_put_string(msg, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name) ||
	    nla_put_u64(msg, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count))
		return -EMSGSIZE;
	nla_nest_end(msg, entry);
	return 0;
}

/* Handles of QPs, without those of a QP that another handle shows. */
static uint32_t count_qps(const struct session *session, const struct simhca_counts *counts)
{
	struct object object = { .session = session };
	uint32_t count = 0;

	if (!counts->xrcds)
		return counts->qps;
	for (; next_qp(session, &object); object.handle++)
		count++;
	return count;
}

static uint64_t count_cm_ids(const struct device *device)
{
	struct object object = { 0 };
	uint64_t count = 0;

	for (; next_cm_id(device, &object); object.handle++)
		count++;
	return count;
}

static int put_summary(struct nl_msg *msg, const struct device *device)
{
	uint64_t pds = 0, cqs = 0, qps = 0, mrs = 0, contexts = 0, srqs = 0;
	const struct session *session = with_context(device->sessions);
	struct nlattr *table;

	for (; session; session = with_context(session->next)) {
		struct simhca_counts counts;

		simhca_context_counts(session->context, &counts);
		pds += counts.pds;
		cqs += counts.cqs;
		qps += count_qps(session, &counts);
		mrs += counts.mrs;
		srqs += counts.srqs;
		contexts++;
	}
	if (nldev_put_device(msg, device))
		return -EMSGSIZE;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_RES_SUMMARY);
	if (!table || put_summary_entry(msg, "pd", pds) || put_summary_entry(msg, "cq", cqs) ||
	    put_summary_entry(msg, "qp", qps) ||
	    put_summary_entry(msg, "cm_id", count_cm_ids(device)) ||
	    put_summary_entry(msg, "mr", mrs) || put_summary_entry(msg, "ctx", contexts) ||
	    put_summary_entry(msg, "srq", srqs))
		return -EMSGSIZE;
	nla_nest_end(msg, table);
	return 0;
}

int nldev_res_summary(const struct nldev_query *query, struct nl_msg *msg)
{
	const struct device *device = nldev_device(query);

	return device ? put_summary(msg, device) : -EINVAL;
}

int nldev_res_summaries(const struct nldev_query *query, struct nldev_cursor *cursor,
			struct nl_msg *part)
{
	int ret;

	if (cursor->group >= query->daemon->num_devices)
		return 0;
	ret = put_summary(part, &query->daemon->devices[cursor->group++]);
	return ret ? ret : 1;
}

/* ----------------------------------------------------------------------------------- kinds */

#define KIND(one, all, ...)                                                                        \
	static const struct kind kind_of_##one = { __VA_ARGS__ };                                  \
                                                                                                   \
	int nldev_##one(const struct nldev_query *query, struct nl_msg *msg)                       \
	{                                                                                          \
		return answer(&kind_of_##one, query, msg);                                         \
	}                                                                                          \
	int nldev_##all(const struct nldev_query *query, struct nldev_cursor *cursor,              \
			struct nl_msg *part)                                                       \
	{                                                                                          \
		return list(&kind_of_##one, query, cursor, part);                                  \
	}

KIND(res_qp, res_qps, .table = RDMA_NLDEV_ATTR_RES_QP, .entry = RDMA_NLDEV_ATTR_RES_QP_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_LQPN, .at_port = true, .next = next_qp, .put = put_qp)
KIND(res_cm_id, res_cm_ids, .table = RDMA_NLDEV_ATTR_RES_CM_ID,
     .entry = RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, .number = RDMA_NLDEV_ATTR_RES_CM_IDN,
     .at_port = true, .next_of_device = next_cm_id, .put = put_cm_id)
KIND(res_cq, res_cqs, .table = RDMA_NLDEV_ATTR_RES_CQ, .entry = RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_CQN, .next = next_cq, .put = put_cq)
KIND(res_mr, res_mrs, .table = RDMA_NLDEV_ATTR_RES_MR, .entry = RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_MRN, .next = next_mr, .put = put_mr)
KIND(res_pd, res_pds, .table = RDMA_NLDEV_ATTR_RES_PD, .entry = RDMA_NLDEV_ATTR_RES_PD_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_PDN, .next = next_pd, .put = put_pd)
KIND(res_ctx, res_ctxs, .table = RDMA_NLDEV_ATTR_RES_CTX, .entry = RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_CTXN, .next = next_ctx, .put = put_ctx)
KIND(res_srq, res_srqs, .table = RDMA_NLDEV_ATTR_RES_SRQ, .entry = RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_SRQN, .next = next_srq, .put = put_srq)
KIND(stat_mr, stat_mrs, .table = RDMA_NLDEV_ATTR_RES_MR, .entry = RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     .number = RDMA_NLDEV_ATTR_RES_MRN, .next = next_mr, .put = put_mr_counters)
