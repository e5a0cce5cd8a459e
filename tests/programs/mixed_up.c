/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A client that mixes up what a server has told it, in the way that its argument names; "right": it
 * does not, and "too_long": it only writes past the end of a region whose offsets are those of one of
 * its own. A third process has the device open as well. Exits with the status of its completion.
 */
#include <byteswap.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "helper.h"

#define LENGTH 4096u
#define OTHER 64u /* bytes behind the region of a second one */

static const char *how;

/* What each end tells the other. */
struct told {
	uint32_t qpn, rkey;
	uint64_t addr, other_addr;
};

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct told told;
};

static void tell(int fd, const void *bytes, size_t length)
{
	CHECK(write(fd, bytes, length) == (ssize_t)length);
}

static void hear(int fd, void *bytes, size_t length)
{
	CHECK(read(fd, bytes, length) == (ssize_t)length);
}

/* Each end allocates its own memory, at addresses that the other end does not have. */
static struct end open_end(size_t skip)
{
	const bool offsets = !strcmp(how, "too_long");
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct end end = { .cq = ibv_create_cq(context, 8, NULL, NULL, 0) };
	char *memory = aligned_alloc(LENGTH, LENGTH * (skip + 2));
	struct ibv_mr *other;

	CHECK(pd && end.cq && memory);
	memory += LENGTH * skip;
	end.mr =
		ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS | (offsets ? IBV_ACCESS_ZERO_BASED : 0));
	other = ibv_reg_mr(pd, memory + LENGTH, OTHER, FULL_ACCESS);
	CHECK(end.mr && other);
	end.qp = make_qp(pd, end.cq, IBV_QPT_RC);
	end.told = (struct told){ end.qp->qp_num, end.mr->rkey, offsets ? 0 : (uintptr_t)memory,
				  (uintptr_t)other->addr };
	return end;
}

/* Until the client closes its end. */
static void serve(int fd, size_t skip)
{
	struct end end = open_end(skip);
	struct told client;
	char byte;

	tell(fd, &end.told, sizeof(end.told));
	if (read(fd, &client, sizeof(client)) != sizeof(client))
		exit(0); /* it is the third one, to which nobody connects */
	start_qp(end.qp, client.qpn);
	tell(fd, "r", 1);
	CHECK(!read(fd, &byte, 1));
	exit(0);
}

/* Returns our end. */
static int start_server(size_t skip)
{
	int fds[2];
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(fds[0]);
		serve(fds[1], skip);
	}
	close(fds[1]);
	return fds[0];
}

int main(int argc, char **argv)
{
	int third, server;
	struct end end;
	struct told peer, thirds;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ibv_wc wc = { 0 };
	uint32_t destination;
	char byte;

	how = argc > 1 ? argv[1] : "right";
	third = start_server(64);
	server = start_server(16);
	end = open_end(0);
	hear(third, &thirds, sizeof(thirds));
	hear(server, &peer, sizeof(peer));
	tell(server, &end.told, sizeof(end.told));
	hear(server, &byte, 1);
	sge = (struct ibv_sge){ end.told.addr, 32, end.mr->lkey };
	wr.wr.rdma.remote_addr = peer.addr;
	wr.wr.rdma.rkey = peer.rkey;
	destination = peer.qpn;
	if (!strcmp(how, "own_key"))
		wr.wr.rdma.rkey = end.told.rkey;
	else if (!strcmp(how, "third_key"))
		wr.wr.rdma.rkey = thirds.rkey;
	else if (!strcmp(how, "reversed_key"))
		wr.wr.rdma.rkey = bswap_32(peer.rkey);
	else if (!strcmp(how, "own_address"))
		wr.wr.rdma.remote_addr = end.told.addr;
	else if (!strcmp(how, "reversed_address"))
		wr.wr.rdma.remote_addr = bswap_64(peer.addr);
	else if (!strcmp(how, "offset"))
		wr.wr.rdma.remote_addr = 128;
	else if (!strcmp(how, "too_long"))
		wr.wr.rdma.remote_addr = LENGTH - 16;
	else if (!strcmp(how, "other_region"))
		wr.wr.rdma.remote_addr = peer.other_addr;
	else if (!strcmp(how, "peers_lkey"))
		sge.lkey = peer.rkey;
	else if (!strcmp(how, "reversed_lkey"))
		sge.lkey = bswap_32(sge.lkey);
	else if (!strcmp(how, "own_qpn"))
		destination = end.told.qpn;
	else if (!strcmp(how, "reversed_qpn"))
		destination = bswap_32(peer.qpn) >> 8;
	else
		CHECK(!strcmp(how, "right"));
	start_qp(end.qp, destination);
	CHECK(!post_send(end.qp, &wr));
	while (!ibv_poll_cq(end.cq, 1, &wc))
		;
	printf("%u\n", wc.vendor_err);
	fflush(stdout);
	/* The servers go first, as they do where a client takes some time to end. */
	close(server);
	close(third);
	while (wait(NULL) > 0)
		;
	return (int)wc.status;
}
