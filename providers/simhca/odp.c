/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* On-demand paging: events that tell the device what leaves this process's memory, and advice. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "say.h"
#include "command.h"

/* Linux 5.11 and 6.7 have them; the headers of the build may be older. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define WP_ASYNC (UINT64_C(1) << 15)

/*
 * A userfaultfd that will only report what is dropped. USER_MODE_ONLY needs no privilege, and what
 * it restricts we do not use: that accesses wait. WP_ASYNC lets files be registered, too; FORK is
 * for the privileged. Returns -1 with errno.
 */
static int open_userfaultfd(void)
{
	static const uint64_t also[] = { UFFD_FEATURE_EVENT_FORK | WP_ASYNC, WP_ASYNC,
					 UFFD_FEATURE_EVENT_FORK, 0 };
	const int flags = O_CLOEXEC | O_NONBLOCK;
	size_t i;
	int fd;

	fd = (int)syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_userfaultfd, flags);
	for (i = 0; fd >= 0 && i < sizeof(also) / sizeof(also[0]); i++) {
		struct uffdio_api api = {
			.api = UFFD_API,
			.features = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
				    UFFD_FEATURE_EVENT_UNMAP | also[i],
		};

		if (!ioctl(fd, UFFDIO_API, &api))
			return fd;
	}
	if (fd >= 0)
		simhca_call_close(fd);
	return -1;
}

/*
 * Once for each process, and each context, since each may end before the others. Where it cannot be
 * had the device looks at every access whether its pages are still there.
 */
void shca_odp_offer_events(struct shca_context *ctx)
{
	int fd;

	if (atomic_exchange(&ctx->offered_events, shca_process()) == shca_process())
		return;
	fd = open_userfaultfd();
	if (fd < 0) {
		shca_warn(ctx, "no userfaultfd (%s): on-demand regions do without events\n",
			  strerror(errno));
		return;
	}
	shca_execute(ctx, &(struct shca_command){
				  .command = SIMHCA_CMD_SET_USERFAULTFD,
				  .req_fds = &fd,
				  .num_req_fds = 1,
			  });
	simhca_call_close(fd);
}

void shca_odp_watch(struct shca_context *ctx, uint32_t handle, uint64_t addr, uint64_t length)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct simhca_handle req = { .handle = handle };
	struct uffdio_register range = {
		.range = { .start = addr & ~(page - 1) },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd;

	range.range.len = ((addr + length + page - 1) & ~(page - 1)) - range.range.start;
	shca_odp_offer_events(ctx);
	if (shca_execute(ctx, &(struct shca_command){
				      .command = SIMHCA_CMD_WATCH_MR,
				      .req = &req,
				      .req_size = sizeof(req),
				      .reply_fds = &fd,
				      .num_reply_fds = 1,
			      }))
		return;
	/* Memory that cannot be registered, as another userfaultfd has it, is not watched. */
	ioctl(fd, UFFDIO_REGISTER, &range);
	simhca_call_close(fd);
}

int shca_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg_list, uint32_t num_sge)
{
	uint32_t at = 0, i;
	int err = 0;

	if (!num_sge)
		return shca_say_command(to_sctx(pd->context), SIMHCA_CMD_ADVISE_MR, EINVAL,
					"num_sge is 0");
	while (at < num_sge && !err) {
		struct simhca_advise_mr_req req = {
			.pd = pd->handle,
			.advice = advice,
			.flags = flags,
		};

		for (i = 0; i < SIMHCA_ADVISE_MAX_SGE && at < num_sge; i++, at++) {
			req.sge[i].addr = sg_list[at].addr;
			req.sge[i].length = sg_list[at].length;
			req.sge[i].lkey = sg_list[at].lkey;
		}
		req.num_sge = i;
		err = shca_command(to_sctx(pd->context), SIMHCA_CMD_ADVISE_MR, &req);
	}
	return err;
}

/* Bytes of a struct up to that member, and with it. */
#define LEAST(ours, member) (offsetof(__typeof__(ours), member) + sizeof((ours).member))

static void fill_counters(struct simhcadv_odp_counters *to, const struct simhca_odp_counters *from)
{
	to->faults = from->faults;
	to->fault_pages = from->fault_pages;
	to->failures = from->failures;
	to->invalidations = from->invalidations;
	to->invalidated_pages = from->invalidated_pages;
	to->prefetches = from->prefetches;
	to->prefetched_pages = from->prefetched_pages;
	to->watched_pages = from->watched_pages;
	to->checked_pages = from->checked_pages;
}

/*
 * An answer for a program that was built with another release: what its struct has beyond ours is 0,
 * what ours has beyond its is left out. least: bytes of the first release's. 0 or an errno.
 */
static int give(void *to, size_t length, const void *from, size_t size, size_t least)
{
	if (length < least)
		return shca_result(EINVAL);
	memset(to, 0, length);
	memcpy(to, from, length < size ? length : size);
	return 0;
}

int simhcadv_query_odp(struct ibv_context *context, struct simhcadv_odp_counters *counters,
		       uint32_t inlen)
{
	struct simhcadv_odp_counters ours;
	struct simhca_odp_counters reply;
	int err;

	if (!shca_is_ours(context->device))
		return shca_result(EOPNOTSUPP);
	err = shca_execute(to_sctx(context), &(struct shca_command){
						     .command = SIMHCA_CMD_QUERY_ODP,
						     .reply = &reply,
						     .reply_size = sizeof(reply),
					     });
	if (err)
		return err;
	fill_counters(&ours, &reply);
	return give(counters, inlen, &ours, sizeof(ours), LEAST(ours, checked_pages));
}

int simhcadv_query_mr(struct ibv_mr *mr, struct simhcadv_mr_attr *attr, uint32_t inlen)
{
	struct simhcadv_mr_attr ours;
	struct simhca_handle req;
	struct simhca_query_mr_reply reply;
	int err;

	if (!shca_is_ours(mr->context->device))
		return shca_result(EOPNOTSUPP);
	req = (struct simhca_handle){ .handle = mr->handle };
	err = shca_call(to_sctx(mr->context), SIMHCA_CMD_QUERY_MR, &req, &reply);
	if (err)
		return err;
	ours = (struct simhcadv_mr_attr){
		.addr = reply.addr,
		.length = reply.length,
		.iova = reply.iova,
		.access = reply.access,
		.windows = reply.windows,
		.present_pages = reply.present_pages,
	};
	fill_counters(&ours.odp, &reply.odp);
	return give(attr, inlen, &ours, sizeof(ours), LEAST(ours, odp.checked_pages));
}
