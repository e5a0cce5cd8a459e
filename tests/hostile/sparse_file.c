/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * sparse_file FILE: has the device write to and read from pages of a registered file that cannot be
 * had, as its file system is full. Prints both statuses; then a connection of the program's own
 * memory has to work, and it prints "done".
 */
#include <fcntl.h>

#include "../programs/helper.h"

#define PAGE 4096u
#define PAGES 16u

static struct ibv_pd *pd;
static struct ibv_cq *cq;

static enum ibv_wc_status try(enum ibv_wr_opcode opcode, struct ibv_mr *mine, uint64_t addr,
			      uint32_t rkey)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_sge sge = { .addr = (uintptr_t)mine->addr, .length = PAGE, .lkey = mine->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	struct ibv_wc wc;

	start_qp_within(qp, qp->qp_num, 14, 7);
	CHECK(!post_send(qp, &wr));
	wc = poll_one(cq);
	CHECK(!ibv_destroy_qp(qp));
	return wc.status;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device();
	uint8_t *memory = aligned_alloc(PAGE, 2 * PAGE);
	struct ibv_mr *mine, *file;
	int fd;

	CHECK(argc == 2 && memory);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	mine = ibv_reg_mr(pd, memory, (size_t)2 * PAGE, FULL_ACCESS);
	fd = open(argv[1], O_RDWR);
	CHECK(mine && fd >= 0);
	file = ibv_reg_dmabuf_mr(pd, 0, (size_t)PAGES * PAGE, 0, fd, FULL_ACCESS);
	CHECK(file);
	printf("%d", try(IBV_WR_RDMA_WRITE, mine, 4 * PAGE, file->rkey));
	printf(" %d\n", try(IBV_WR_RDMA_READ, mine, 8 * PAGE, file->rkey));
	CHECK(!try(IBV_WR_RDMA_WRITE, mine, (uintptr_t)memory + PAGE, mine->rkey));
	printf("done\n");
	return 0;
}
