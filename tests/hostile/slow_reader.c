/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reads its events into a page that is not there yet, and that nobody will bring: the reader sleeps
 * with the kernel's lock of what it reads. Then
 *
 *	slow_reader FILE raise		more events are raised
 *	slow_reader FILE destroy	the CQ is destroyed, so that its events are taken back
 *
 * FILE is of a file system that does not answer (slow_fs.c). Prints "done", or for "destroy" that
 * it is about to, and then sleeps.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../programs/helper.h"

#define LENGTH 4096u

static struct ibv_comp_channel *channel;
static void *slow_page;

static void *read_events(void *arg)
{
	if (read(channel->fd, slow_page, 8) == 8)
		printf("the page was there\n");
	return NULL;
}

/* Once its completion can be polled, the event is raised, or about to be. */
static void raise_event(struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_cq *cq)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)mr->addr + 8, .rkey = mr->rkey },
	};

	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(!post_send(qp, &wr));
	poll_success(cq);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, aligned_alloc(4096, LENGTH), LENGTH, FULL_ACCESS);
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	pthread_t reader;

	CHECK(argc == 3 && mr);
	slow_page =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
	CHECK(slow_page != MAP_FAILED);
	channel = ibv_create_comp_channel(context);
	CHECK(channel);
	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	CHECK(cq);
	qp = make_qp(pd, cq, IBV_QPT_RC);
	start_qp_within(qp, qp->qp_num, 14, 7);
	CHECK(!pthread_create(&reader, NULL, read_events, NULL));
	raise_event(qp, mr, cq);
	usleep(200000); /* now the reader is in its page */
	for (int i = 0; !strcmp(argv[2], "raise") && i < 100; i++)
		raise_event(qp, mr, cq);
	printf("done\n");
	fflush(stdout);
	if (!strcmp(argv[2], "destroy"))
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
	pause();
	return 0;
}
