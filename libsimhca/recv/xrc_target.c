/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC_RECV QPs, the targets of XRC (IBTA vol. 1, annex A14): one connection that delivers to any
 * SRQ of its domain, whichever process that belongs to. Any process with the domain open can open
 * the QP, too; it goes with the last one.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/handles.h"
#include "core/lock.h"
#include "paging/fault.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "proto/qp.h"
#include "xrc.h"

/* The handle is one of this context's that stands for the QP. */
static struct simhca_qp_open **find_open(struct simhca_qp *qp, const struct simhca_context *context,
					 uint32_t handle)
{
	struct simhca_qp_open **link = &qp->xrc.opens;

	while ((*link)->context != context || (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

struct simhca_user_handle
simhca_qp_user_handle(struct simhca_qp *qp, const struct simhca_context *context, uint32_t handle)
{
	return qp->context ? qp->user_handle : (*find_open(qp, context, handle))->user_handle;
}

/* A further handle of the QP, in this context. */
static int add_open(struct simhca_context *context, struct simhca_qp *qp,
		    struct simhca_xrcd_open *domain, struct simhca_user_handle user_handle,
		    uint32_t *handle, struct simhca_why *why)
{
	struct simhca_qp_open *open = calloc(1, sizeof(*open));
	int ret;

	if (!open)
		return simhca_why(why, ENOMEM, "out of memory");
	ret = simhca_object_add(context, SIMHCA_OBJ_QP, qp, handle, why);
	if (ret) {
		free(open);
		return ret;
	}
	open->context = context;
	open->domain = domain;
	open->handle = *handle;
	open->user_handle = user_handle;
	domain->users++;
	pthread_mutex_lock(&qp->xrc.lock);
	open->next = qp->xrc.opens;
	qp->xrc.opens = open;
	pthread_mutex_unlock(&qp->xrc.lock);
	return 0;
}

/* 0, or -EAGAIN while somebody goes through them to report an event. */
static int remove_open(struct simhca_qp *qp, struct simhca_qp_open **link)
{
	struct simhca_qp_open *open = *link;
	bool busy;

	pthread_mutex_lock(&qp->xrc.lock);
	busy = qp->xrc.reporting;
	if (!busy)
		*link = open->next;
	pthread_mutex_unlock(&qp->xrc.lock);
	if (busy)
		return -EAGAIN;
	open->domain->users--;
	simhca_object_remove(open->context, SIMHCA_OBJ_QP, open->handle);
	free(open);
	return 0;
}

static void free_target(struct simhca_qp *qp)
{
	simhca_qp_detach(qp);
	if (qp->qpn)
		simhca_number_release(&qp->device->qpns, qp->qpn);
	pthread_mutex_destroy(&qp->xrc.lock);
	simhca_faults_free(&qp->faults);
	free(qp->usage);
	free(qp->mem);
	free(qp);
}

int simhca_create_xrc_target(struct simhca_context *context, const struct simhca_create_qp_req *req,
			     struct simhca_create_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_device *device = context->device;
	struct simhca_xrcd_open *domain = simhca_object(context, SIMHCA_OBJ_XRCD, req->xrcd, why);
	struct simhca_qp *qp;
	uint32_t handle;
	int ret;

	if (!domain)
		return -ENOENT;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return simhca_why(why, ENOMEM, "out of memory");
	simhca_mutex_init(&qp->xrc.lock, SIMHCA_LOCK_OPENS);
	qp->device = device;
	qp->link = device->fabric->link;
	qp->task.run = simhca_qp_step;
	qp->faults.device = device;
	qp->faults.task = &qp->task;
	qp->source = &simhca_xrc_receives;
	qp->xrc.domain = domain->xrcd;
	qp->type = SIMHCA_QPT_XRC_RECV;
	qp->last_wqe_event_due = true;
	qp->mem = calloc(1, sizeof(*qp->mem) + SIMHCA_RECV_COPY_BYTES);
	qp->usage = simhca_usage_create();
	qp->qpn = qp->faults.qpn = simhca_number_alloc(&device->qpns);
	ret = simhca_qp_attach(qp);
	if (ret || !qp->mem || !qp->usage || !qp->qpn) {
		ret = simhca_why(why, ENOMEM,
				 qp->mem && qp->usage && !ret ? "all QP numbers are in use"
							      : "out of memory");
		goto fail;
	}
	qp->recv_copy = (char *)(qp->mem + 1);
	ret = add_open(context, qp, domain, req->user_handle, &handle, why);
	if (ret)
		goto fail;
	qp->qpc = &device->qpcs[SIMHCA_QPN_SLOT(qp->qpn)];
	simhca_qpc_init(qp->qpc, qp->qpn, qp->type);
	qp->qpc->xrcd = qp->xrc.domain->number;
	*reply = (struct simhca_create_qp_reply){ .handle = handle, .qpn = qp->qpn };
	atomic_store(&device->qps[SIMHCA_QPN_SLOT(qp->qpn)], qp);
	simhca_fabric_changed(device->fabric);
	return 0;
fail:
	free_target(qp);
	return ret;
}

int simhca_open_qp(struct simhca_context *context, const struct simhca_open_qp_req *req,
		   struct simhca_handle *reply, struct simhca_why *why)
{
	struct simhca_xrcd_open *domain = simhca_object(context, SIMHCA_OBJ_XRCD, req->xrcd, why);
	struct simhca_qp *qp;

	if (!domain)
		return -ENOENT;
	qp = simhca_qp_numbered(context->device, req->qpn);
	/* Of others' QPs nothing is said, not even whether there is one. */
	if (!qp || qp->xrc.domain != domain->xrcd)
		return simhca_why(why, EINVAL, "the domain has no XRC_RECV QP 0x%06x", req->qpn);
	return add_open(context, qp, domain, req->user_handle, &reply->handle, why);
}

int simhca_close_xrc_target(struct simhca_context *context, uint32_t handle, struct simhca_qp *qp)
{
	struct simhca_qp_open **link = find_open(qp, context, handle);

	if (qp->xrc.opens->next)
		return remove_open(qp, link);
	/*
	 * The last one. No step that begins from now on finds it. Those that had found it hold its
	 * responder lock before they narrow their guard, so no more than that has to be waited for.
	 */
	atomic_store(&qp->task.dead, true);
	atomic_store(&qp->device->qps[SIMHCA_QPN_SLOT(qp->qpn)], NULL);
	simhca_fabric_changed(qp->device->fabric);
	simhca_engine_forget(&qp->task);
	if ((qp->wire.uplink && !qp->wire.uplink->retire(qp)) ||
	    !simhca_fabric_synchronize(qp->device->fabric, UINT32_MAX) ||
	    simhca_qp_begin_both(qp, true))
		return -EAGAIN;
	simhca_qp_end_both(qp);
	/* Not before: until then one of them may raise a fault. */
	if (!simhca_faults_disable(&qp->faults))
		return -EAGAIN;
	simhca_qpc_init(qp->qpc, 0, 0);
	remove_open(qp, link); /* no step is left to tell */
	free_target(qp);
	return 0;
}
