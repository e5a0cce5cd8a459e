/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Attaches a QP to a multicast group of InfiniBand; with an argument, one that rdma_cm has joined, by IPv6 if it is `ipv6`. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "../programs/helper.h"

/* The group, and its LID. */
static void join(bool ipv6, union ibv_gid *gid, uint16_t *lid)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr = { htonl(0xe0010203) } };
	struct sockaddr_in6 group6 = { .sin6_family = AF_INET6 };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&own));
	CHECK(inet_pton(AF_INET6, "ff15::1234", &group6.sin6_addr) == 1);
	CHECK(!rdma_join_multicast(
		id, ipv6 ? (struct sockaddr *)&group6 : (struct sockaddr *)&group, NULL));
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
	*gid = event->param.ud.ah_attr.grh.dgid;
	*lid = event->param.ud.ah_attr.dlid;
	CHECK(!rdma_ack_cm_event(event));
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device();
	union ibv_gid gid;
	uint16_t lid = 0xc001;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	CHECK(inet_pton(AF_INET6, "ff12:401b:ffff::1234", &gid) == 1);
	if (argc > 1)
		join(!strcmp(argv[1], "ipv6"), &gid, &lid);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(cq);
	qp = make_qp(ibv_alloc_pd(context), cq, IBV_QPT_UD);
	start_qp(qp, 0);
	CHECK(!ibv_attach_mcast(qp, &gid, lid));
	CHECK(!ibv_detach_mcast(qp, &gid, lid));
	CHECK(!ibv_destroy_qp(qp));
	return 0;
}
