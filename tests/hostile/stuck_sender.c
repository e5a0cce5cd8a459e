/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Sends from pages that nobody brings:
 *
 *	stuck_sender FILE PROCESSES QPS [odp]
 *
 * FILE is of a file system that does not answer (slow_fs.c). Each of so many children posts a write
 * on each of so many QPs; "odp": from on-demand regions. Prints "done" when all are posted, and
 *then sleeps.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define PAGE 4096u
#define FILE_PAGES 256u /* as large as slow_fs makes it */

static void post_all(uint8_t *pages, int child, int qps, int access)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	uint8_t *memory = aligned_alloc(PAGE, PAGE);
	struct ibv_mr *source, *target;

	CHECK(pd && cq && memory);
	source = ibv_reg_mr(pd, pages, FILE_PAGES * PAGE, access);
	target = ibv_reg_mr(pd, memory, PAGE, FULL_ACCESS);
	CHECK(source && target);
	for (int i = 0; i < qps; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)pages +
				(unsigned int)(child * qps + i) % FILE_PAGES * PAGE,
			.length = 8,
			.lkey = source->lkey,
		};
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)memory, .rkey = target->rkey },
		};
		struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);

		start_qp_within(qp, qp->qp_num, 14, 7);
		CHECK(!post_send(qp, &wr));
	}
}

int main(int argc, char **argv)
{
	int ready[2], processes, qps;
	uint8_t *pages;
	char byte = 0;

	CHECK(argc >= 4 && !pipe(ready));
	/* Once somebody waits for a page of it, it cannot be opened any more. */
	pages = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, open(argv[1], O_RDONLY), 0);
	CHECK(pages != MAP_FAILED);
	processes = atoi(argv[2]);
	qps = atoi(argv[3]);
	for (int i = 0; i < processes; i++) {
		if (fork())
			continue;
		post_all(pages, i, qps, argc > 4 ? IBV_ACCESS_ON_DEMAND : 0);
		CHECK(write(ready[1], &byte, 1) == 1);
		pause();
	}
	/* A child that has failed has said why. */
	for (int i = 0; i < processes; i++)
		CHECK(read(ready[0], &byte, 1) == 1);
	printf("done\n");
	fflush(stdout);
	pause();
	return 0;
}
