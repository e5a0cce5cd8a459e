/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A client whose memory blocks whoever touches it: its send buffer has a userfaultfd that nobody
 * serves. It sends a datagram from there to itself, says "blocking", and stays.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			perror(#x);                                                                \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static void nothing(int number)
{
	(void)number;
}

/* With an argument it waits for SIGUSR2 before it does so. */
int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	size_t length = 1 << 16;
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	CHECK(uffd >= 0);
	CHECK(!ioctl(uffd, UFFDIO_API, &api));
	char *buf = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(buf != MAP_FAILED);
	struct uffdio_register reg = { .range = { (unsigned long)buf, length },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	CHECK(!ioctl(uffd, UFFDIO_REGISTER, &reg));
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	CHECK(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, length, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	union ibv_gid gid;
	CHECK(!ibv_query_gid(ctx, 1, 0, &gid));
	struct ibv_ah_attr ah_attr = { .port_num = 1,
				       .is_global = 1,
				       .grh = { .dgid = gid, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
	CHECK(ah);
	/* to itself: the receive buffer is good, the send buffer blocks */
	static char good[4096];
	struct ibv_mr *good_mr = ibv_reg_mr(pd, good, sizeof(good), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge rsge = { (uintptr_t)good, sizeof(good), good_mr->lkey };
	struct ibv_recv_wr rwr = { .sg_list = &rsge, .num_sge = 1 }, *rbad;
	CHECK(!ibv_post_recv(qp, &rwr, &rbad));
	struct ibv_sge sge = { (uintptr_t)buf, 64, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { .ah = ah,
					     .remote_qpn = qp->qp_num,
					     .remote_qkey = 1 } },
			   *bad;
	(void)argv;
	if (argc > 1) {
		signal(SIGUSR2, nothing);
		puts("pauses");
		fflush(stdout);
		pause();
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
	puts("blocking");
	fflush(stdout);
	pause();
	return 0;
}
