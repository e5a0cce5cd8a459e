/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink: what may be asked of the devices (RDMA_NL_NLDEV of rdma/rdma_netlink.h), and what
 * is answered. The model is the kernel's drivers/infiniband/core/nldev.c: which attributes a
 * question needs, which an answer has, and with which errno a wrong one is refused.
 */
#ifndef SIMHCAD_NLDEV_H
#define SIMHCAD_NLDEV_H

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <sys/types.h>

struct daemon;
struct device;

/*
 * The largest datagram of an answer. Clients receive into a page (libmnl's MNL_SOCKET_BUFFER_SIZE),
 * and take what is longer for an error.
 */
#define NLDEV_ANSWER_BYTES 4096

/* Who asks, as the kernel names the sender. */
struct nl_asker {
	pid_t pid; /* 0: cannot be seen from here */
	uid_t uid;
	uint32_t port; /* its netlink address; 0: it has none */
};

/* Where the next part of a list begins. All zero: at its start. */
struct nldev_cursor {
	uint32_t group; /* the device, or the context of an object */
	uint32_t handle;
};

/* A question, taken apart. */
struct nldev_query {
	const struct daemon *daemon;
	const struct nl_asker *asker;
	struct nlattr *attr[RDMA_NLDEV_ATTR_MAX]; /* NULL: it is not there */
};

/* Fills in the answer: 0, or -errno. */
typedef int nldev_answer_fn(const struct nldev_query *query, struct nl_msg *answer);
/* Fills in the next part and moves the cursor: 1, or 0 when there is no more, or -errno. */
typedef int nldev_part_fn(const struct nldev_query *query, struct nldev_cursor *cursor,
			  struct nl_msg *part);

struct nldev_command {
	bool admin;		 /* asks for CAP_NET_ADMIN */
	nldev_answer_fn *answer; /* NULL: cannot be asked so */
	nldev_part_fn *part;	 /* NULL: is no list */
};

/* NULL: there is no such command. */
const struct nldev_command *nldev_find(unsigned int number);

/* The attributes of a question. -EINVAL: it makes no sense. */
int nldev_parse(struct nlmsghdr *request, struct nlattr *attr[RDMA_NLDEV_ATTR_MAX]);

/* ------------------------------------------------------------- for nldev.c and nldev_res.c */

/* The device that is asked about; NULL: none, or there is no such device. */
const struct device *nldev_device(const struct nldev_query *query);
/* The port that is asked about: 0 if none is, -EINVAL if there is no such port. */
int nldev_port(const struct nldev_query *query, uint32_t *port);
/* Which device an answer is about. These return 0, or -EMSGSIZE: there is no room. */
int nldev_put_device(struct nl_msg *answer, const struct device *device);
int nldev_put_counter(struct nl_msg *answer, const char *name, uint64_t value);
/* libnl's errors of put functions, as ours. */
static inline int nldev_fit(int ret)
{
	return ret < 0 ? -EMSGSIZE : 0;
}

/* nldev_res.c */
nldev_answer_fn nldev_res_summary, nldev_res_qp, nldev_res_cm_id, nldev_res_cq, nldev_res_mr,
	nldev_res_pd, nldev_res_ctx, nldev_res_srq, nldev_stat_mr;
nldev_part_fn nldev_res_summaries, nldev_res_qps, nldev_res_cm_ids, nldev_res_cqs, nldev_res_mrs,
	nldev_res_pds, nldev_res_ctxs, nldev_res_srqs, nldev_stat_mrs;

#endif
