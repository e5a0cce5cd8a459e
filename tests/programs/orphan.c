/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A server forks a child, which inherits its device, and is killed. Then its client writes to it. The
 * client exits with 0 if that has failed as if nobody were there.
 */
#include <signal.h>
#include <sys/wait.h>

#include "helper.h"

static char buffer[4096];

struct end {
	uint32_t qpn, rkey;
	uint64_t address;
};

static void say(int fd, const void *what, size_t size)
{
	CHECK(write(fd, what, size) == (ssize_t)size);
}

static void hear(int fd, void *what, size_t size)
{
	CHECK(read(fd, what, size) == (ssize_t)size);
}

int main(void)
{
	int to_server[2], to_client[2], in, out;
	struct end own, peer;
	struct ibv_context *context;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .num_sge = 1 };
	struct ibv_sge sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	pid_t server;

	CHECK(!pipe(to_server) && !pipe(to_client));
	server = fork();
	CHECK(server >= 0);
	in = server ? to_client[0] : to_server[0];
	out = server ? to_server[1] : to_client[1];
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS) : NULL;
	CHECK(cq && mr);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	own = (struct end){ qp->qp_num, mr->rkey, (uintptr_t)buffer };
	say(out, &own, sizeof(own));
	hear(in, &peer, sizeof(peer));
	start_qp(qp, peer.qpn);
	if (!server) {
		pid_t child = fork();

		if (!child)
			pause();
		say(out, &child, sizeof(child));
		pause();
	} else {
		pid_t child;

		hear(in, &child, sizeof(child));
		CHECK(child > 0 && !kill(server, SIGKILL) && waitpid(server, NULL, 0) == server);
		sge = (struct ibv_sge){ (uintptr_t)buffer, 64, mr->lkey };
		wr.sg_list = &sge;
		wr.wr.rdma.remote_addr = peer.address;
		wr.wr.rdma.rkey = peer.rkey;
		CHECK(!post_send(qp, &wr));
		CHECK(poll_one(cq).status == IBV_WC_RETRY_EXC_ERR);
		CHECK(!kill(child, SIGKILL));
	}
	return 0;
}
