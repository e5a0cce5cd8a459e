/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast groups of UD QPs (IBTA vol. 1, 10.5). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/av.h"
#include "core/context.h"
#include "core/device.h"
#include "core/fabric.h"
#include "link.h"
#include "mcast.h"
#include "qp.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define MULTICAST_LID 0xc000u
#define PERMISSIVE_LID 0xffffu

/* Where the group is among those of its hash, however many there are of others. */
static struct simhca_mcast_group **find(struct simhca_device *device, const union simhca_gid *gid)
{
	struct simhca_mcast_group **link;
	uint64_t half[2], hash;

	memcpy(half, gid, sizeof(half));
	hash = (half[0] ^ half[0] >> 32) * (device->group_hash[0] | 1) +
	       (half[1] ^ half[1] >> 32) * (device->group_hash[1] | 1);
	link = &device->groups[(hash >> 32) % SIMHCA_MCAST_BUCKETS];

	while (*link && memcmp(&(*link)->gid, gid, sizeof(*gid)))
		link = &(*link)->next;
	return link;
}

static uint32_t member_index(const struct simhca_mcast_group *group, const struct simhca_qp *qp)
{
	uint32_t i = 0;

	while (i < group->count && group->members[i].qp != qp)
		i++;
	return i;
}

/* True: it was the last one. */
static bool remove_member(struct simhca_device *device, struct simhca_mcast_group **link,
			  uint32_t index)
{
	struct simhca_mcast_group *group = *link;

	group->members[index].qp->groups--;
	group->members[index] = group->members[--group->count];
	if (group->count)
		return false;
	*link = group->next;
	device->group_count--;
	free(group->members);
	free(group);
	return true;
}

/* Whoever leads out of the fabric hears of groups, under no lock. */
static void tell(struct simhca_device *device, const union simhca_gid *gid, bool member)
{
	const struct simhca_uplink *uplink = device->fabric->uplink;

	if (uplink)
		uplink->group(device, gid, member);
}

static int add_member(struct simhca_device *device, const struct simhca_mcast_req *req,
		      struct simhca_qp *qp, bool *first, struct simhca_why *why)
{
	struct simhca_mcast_group **link = find(device, &req->gid), *group = *link;
	struct simhca_mcast_member *members;

	*first = false;
	if (group && member_index(group, qp) < group->count)
		return 0; /* attached already: the same as attached once */
	if (group && group->count >= SIMHCA_MAX_MCAST_QP_ATTACH)
		return simhca_why(why, ENOMEM, "the group has its limit of %u QPs",
				  SIMHCA_MAX_MCAST_QP_ATTACH);
	if (!group) {
		if (device->group_count >= SIMHCA_MAX_MCAST_GRP)
			return simhca_why(why, ENOMEM, "the device has its limit of %u groups",
					  SIMHCA_MAX_MCAST_GRP);
		group = calloc(1, sizeof(*group));
		if (!group)
			return simhca_why(why, ENOMEM, "out of memory");
		group->gid = req->gid;
	}
	members = realloc(group->members, (group->count + 1) * sizeof(*members));
	if (!members) {
		if (!*link)
			free(group);
		return simhca_why(why, ENOMEM, "out of memory");
	}
	group->members = members;
	group->members[group->count++] = (struct simhca_mcast_member){ qp, req->lid };
	qp->groups++;
	if (!*link) {
		*link = group;
		device->group_count++;
		*first = true;
	}
	return 0;
}

/* The QP of a request, or NULL and a negative errno. The LID of an Ethernet group is nobody's. */
static struct simhca_qp *check(struct simhca_context *context, const struct simhca_mcast_req *req,
			       int *error, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);

	*error = 0;
	if (!qp)
		*error = -ENOENT;
	else if (qp->type != SIMHCA_QPT_UD)
		*error = simhca_why(why, EINVAL, "only UD QPs join multicast groups");
	else if (!simhca_gid_is_group(&req->gid))
		*error = simhca_why(why, EINVAL,
				    "a multicast GID begins with 0xff, or is ::ffff:224.0.0.0/4");
	else if (qp->device->config.infiniband &&
		 (req->lid < MULTICAST_LID || req->lid == PERMISSIVE_LID))
		*error = simhca_why(why, EINVAL,
				    "lid = 0x%04x: multicast LIDs are 0xc000 to 0xfffe", req->lid);
	return *error ? NULL : qp;
}

int simhca_attach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why)
{
	int ret;
	struct simhca_qp *qp = check(context, req, &ret, why);
	bool first;

	if (!qp)
		return ret;
	pthread_rwlock_wrlock(&context->device->mcast_lock);
	ret = add_member(context->device, req, qp, &first, why);
	pthread_rwlock_unlock(&context->device->mcast_lock);
	if (first)
		tell(context->device, &req->gid, true);
	return ret;
}

int simhca_detach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why)
{
	int ret;
	struct simhca_qp *qp = check(context, req, &ret, why);
	struct simhca_mcast_group **link;
	bool last = false;
	uint32_t index;

	if (!qp)
		return ret;
	pthread_rwlock_wrlock(&context->device->mcast_lock);
	link = find(context->device, &req->gid);
	index = *link ? member_index(*link, qp) : 0;
	/* The kernel looks for both, also where nobody has a LID. */
	if (!*link || index == (*link)->count)
		ret = simhca_why(why, EINVAL, "this QP is not attached to that group");
	else if ((*link)->members[index].lid != req->lid)
		ret = simhca_why(why, EINVAL,
				 "lid = 0x%04x: this QP was attached to that group with 0x%04x",
				 req->lid, (*link)->members[index].lid);
	else
		last = remove_member(context->device, link, index);
	pthread_rwlock_unlock(&context->device->mcast_lock);
	if (last)
		tell(context->device, &req->gid, false);
	return ret;
}

int simhca_check_groups(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	const struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, why);
	uint32_t groups;

	if (!qp)
		return -ENOENT;
	pthread_rwlock_rdlock(&context->device->mcast_lock);
	groups = qp->groups;
	pthread_rwlock_unlock(&context->device->mcast_lock);
	return groups ? simhca_why(why, EBUSY,
				   "this QP is attached to %u multicast group%s: "
				   "ibv_detach_mcast() comes first",
				   groups, groups == 1 ? "" : "s")
		      : 0;
}

/* From those of a hash. Under the lock, which is left to tell of a group that has ended. */
static void detach_from(struct simhca_device *device, struct simhca_mcast_group **link,
			const struct simhca_qp *qp)
{
	struct simhca_mcast_group *group;

	while ((group = *link)) {
		const union simhca_gid gid = group->gid;
		uint32_t index = member_index(group, qp);

		if (index < group->count && remove_member(device, link, index)) {
			/* Control functions alone change the list. */
			pthread_rwlock_unlock(&device->mcast_lock);
			tell(device, &gid, false);
			pthread_rwlock_wrlock(&device->mcast_lock);
		}
		if (*link == group)
			link = &group->next;
	}
}

void simhca_qp_detach_all(struct simhca_qp *qp)
{
	struct simhca_device *device = qp->device;

	pthread_rwlock_wrlock(&device->mcast_lock);
	for (uint32_t i = 0; i < SIMHCA_MCAST_BUCKETS && qp->groups; i++)
		detach_from(device, &device->groups[i], qp);
	pthread_rwlock_unlock(&device->mcast_lock);
}

uint32_t simhca_mcast_members(struct simhca_device *device, const union simhca_gid *gid,
			      uint32_t qpn[SIMHCA_MAX_MCAST_QP_ATTACH])
{
	const struct simhca_mcast_group *group;
	uint32_t count = 0;

	/* Numbers, not pointers: no lock is held while data move, and the guard covers one QP then.
	 */
	pthread_rwlock_rdlock(&device->mcast_lock);
	group = *find(device, gid);
	for (; group && count < group->count; count++)
		qpn[count] = group->members[count].qp->qpn;
	pthread_rwlock_unlock(&device->mcast_lock);
	return count;
}
