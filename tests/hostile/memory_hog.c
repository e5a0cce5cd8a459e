/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * memory_hog CGROUP: moves there, and has the device write to more memory of its own than is
 * allowed there. Prints "done" before, and "alive" should it survive that.
 */
#include <sys/mman.h>

#include "../programs/helper.h"

#define LENGTH (512ull << 20)
#define PIECE (1u << 20)

static void move_to(const char *cgroup)
{
	char path[4096];
	FILE *procs;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	procs = fopen(path, "w");
	CHECK(procs && fprintf(procs, "%d\n", (int)getpid()) > 0 && !fclose(procs));
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;
	struct ibv_qp *qp;

	CHECK(argc == 2 && pd && cq && memory != MAP_FAILED);
	mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS);
	CHECK(mr);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	start_qp_within(qp, qp->qp_num, 14, 7);
	move_to(argv[1]);
	printf("done\n");
	fflush(stdout);
	for (uint64_t at = PIECE; at < LENGTH; at += PIECE) {
		struct ibv_sge sge = { (uintptr_t)memory, PIECE, mr->lkey };
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + at, .rkey = mr->rkey },
		};

		CHECK(!post_send(qp, &wr));
		CHECK(poll_one(cq).status == IBV_WC_SUCCESS);
	}
	printf("alive\n");
	return 0;
}
