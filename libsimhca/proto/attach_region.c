/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions of files, and on-chip memory, that a program maps to reach them by plain loads and stores. */
#include <errno.h>

#include "attach_impl.h"
#include "core/context.h"
#include "memory/key.h"
#include "simhca-attach.h"
#include "srq.h"

/* Whose regions the sender may map: by a QP, which is attached if they are its peer's. */
struct region_user {
	uint32_t owner;	 /* number of the memory of who has registered them */
	uint32_t pds[2]; /* of the QP, and of its receives */
};

static struct region_user user_of(const struct simhca_qp *qp, const struct simhca_mm *mm)
{
	const uint32_t pd = qp->qpc->pd;

	return (struct region_user){ mm->number, { pd, qp->srq ? qp->srq->pd->number : pd } };
}

/* False: the sender has not proven that it may write to the peer's memory, or the peer has changed. */
static bool find_peers_regions(struct simhca_qp *qp, const struct simhca_mm *mm,
			       const struct simhca_map_region_req *req, struct region_user *user,
			       struct simhca_why *why)
{
	struct simhca_qp *peer = simhca_fastpath_peer(qp, mm, &req->av, req->dest_qpn, why);
	struct simhca_steps_with with;

	if (!peer || !atomic_load(&qp->qpc->fastpath_epoch) ||
	    !atomic_load(&peer->qpc->fastpath_epoch) ||
	    !simhca_steps_find(qp->device->fabric, &qp->fastpath.steps,
			       simhca_fastpath_key(qp, peer), &with) ||
	    with.context != peer->context->id || with.pid != mm->pid ||
	    with.peer_pid != peer->context->offer.mm->pid)
		return false;
	*user = user_of(peer, peer->context->offer.mm);
	return true;
}

int simhca_map_region(struct simhca_context *context, const struct simhca_mm *mm,
		      const struct simhca_map_region_req *req,
		      struct simhca_map_region_reply *reply, int *fd, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	const struct simhca_mpt *mpt;
	struct simhca_key *region;
	struct region_user user;
	uint32_t pd;

	if (!qp)
		return -ENOENT;
	if (req->own)
		user = user_of(qp, mm);
	else if (!find_peers_regions(qp, mm, req, &user, why))
		return simhca_why(why, ENOTCONN, "the QP is not attached to its peer");
	mpt = simhca_mpt_find(context->device, req->key);
	region = mpt && atomic_load(&mpt->state) == SIMHCA_MPT_MR &&
				 atomic_load(&mpt->key) == req->key
			 ? simhca_key_of(context->device, req->key)
			 : NULL;
	if (!region)
		return simhca_why(why, ENOENT, "there is no such region any more");
	pd = atomic_load(&mpt->pd);
	if (region->file.owner != user.owner || (pd != user.pds[0] && pd != user.pds[1]))
		return simhca_why(why, EPERM, "it is no region that the sender may map");
	*reply = (struct simhca_map_region_reply){
		.offset = region->file.offset,
		.length = mpt->length,
		.file = mpt->file,
		.access = mpt->access,
		.may_fail = region->file.may_fail,
	};
	*fd = region->file.fd;
	region->file.mapped = true;
	return 0;
}
