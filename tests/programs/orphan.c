/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A server forks a child, which inherits its device, and is killed. Then its client writes to it, and
 * exits with 0 if that has failed as if nobody were there; with "waits" it polls for a message for
 * five seconds instead. The child ends with the client.
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

static void poll_in_vain(struct ibv_cq *cq)
{
	double until = now() + 5;
	struct ibv_wc wc;

	while (now() < until)
		CHECK(!ibv_poll_cq(cq, 1, &wc));
}

int main(int argc, char **argv)
{
	bool waits = argc > 1 && !strcmp(argv[1], "waits");
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
	char byte;

	CHECK(!pipe(to_server) && !pipe(to_client));
	server = fork();
	CHECK(server >= 0);
	in = server ? to_client[0] : to_server[0];
	out = server ? to_server[1] : to_client[1];
	CHECK(!close(server ? to_server[0] : to_server[1]));
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS) : NULL;
	CHECK(cq && mr);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	own = (struct end){ qp->qp_num, mr->rkey, (uintptr_t)buffer };
	say(out, &own, sizeof(own));
	hear(in, &peer, sizeof(peer));
	/* Time is over before the daemon has been told that a process has ended: it has to ask. */
	start_qp_within(qp, peer.qpn, 1, 0);
	if (!server) {
		if (!fork()) {
			char byte;

			return (int)read(in, &byte, 1); /* until the client ends */
		}
		say(out, "f", 1);
		pause();
		return 1;
	}
	hear(in, &byte, 1);
	CHECK(!kill(server, SIGKILL) && waitpid(server, NULL, 0) == server);
	if (waits) {
		CHECK(!post_recv(qp, 2, mr, 0, 64));
		poll_in_vain(cq);
		return 0;
	}
	sge = (struct ibv_sge){ (uintptr_t)buffer, 64, mr->lkey };
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = peer.address;
	wr.wr.rdma.rkey = peer.rkey;
	CHECK(!post_send(qp, &wr));
	CHECK(poll_one(cq).status == IBV_WC_RETRY_EXC_ERR);
	return 0;
}
