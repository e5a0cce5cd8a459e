/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Sends from pages that nobody brings:
 *
 *	stuck_sender FILE PROCESSES QPS [odp|destroy|verify]
 *
 * FILE is of a file system that does not answer (slow_fs.c). Each of so many children posts a write
 * on each of so many QPs. Prints "done" when all are posted, and then sleeps.
 *
 *	odp	from on-demand regions
 *	destroy	then all QPs are destroyed at once, each by a thread
 *	verify	from an on-demand region whose pages are there, while the lock of the address space
 *		is held: it is asked whether they are there still
 */
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../programs/helper.h"
#include "hold_lock.h"

#define PAGE 4096u
#define FILE_PAGES 256u /* as large as slow_fs makes it */
#define MOST_QPS 64

static struct ibv_qp *qp[MOST_QPS];

static sem_t posted;

static void *destroy(void *arg)
{
	sem_wait(&posted);
	ibv_destroy_qp(arg);
	return NULL;
}

static void post_write(struct ibv_qp *to, struct ibv_mr *source, size_t offset,
		       struct ibv_mr *target)
{
	struct ibv_sge sge = { .addr = (uintptr_t)source->addr + offset,
			       .length = 8,
			       .lkey = source->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)target->addr, .rkey = target->rkey },
	};

	CHECK(!post_send(to, &wr));
}

/* slow: to take the place of the pages, once they are registered, which touches them; or NULL. */
static void post_all(uint8_t *pages, void *slow, int child, int qps, int access, bool destroys,
		     struct slow_file *hold)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	uint8_t *memory = aligned_alloc(PAGE, PAGE);
	struct ibv_mr *source, *target;
	pthread_t thread;

	CHECK(pd && cq && memory);
	source = ibv_reg_mr(pd, pages, FILE_PAGES * PAGE, access);
	target = ibv_reg_mr(pd, memory, PAGE, FULL_ACCESS);
	CHECK(source && target);
	CHECK(!slow || mremap(slow, FILE_PAGES * PAGE, FILE_PAGES * PAGE,
			      MREMAP_MAYMOVE | MREMAP_FIXED, pages) == pages);
	for (int i = 0; i < qps; i++) {
		qp[i] = make_qp(pd, cq, IBV_QPT_RC);
		start_qp_within(qp[i], qp[i]->qp_num, 14, 7);
	}
	/* Later there may be no memory for their stacks. */
	CHECK(!sem_init(&posted, 0, 0));
	for (int i = 0; i < qps && destroys; i++)
		CHECK(!pthread_create(&thread, NULL, destroy, qp[i]));
	if (hold) {
		post_write(qp[0], source, 0, target);
		CHECK(poll_one(cq).status == IBV_WC_SUCCESS);
		CHECK(hold_lock(hold));
	}
	for (int i = 0; i < qps; i++)
		post_write(qp[i], source,
			   hold ? 0 : (unsigned int)(child * qps + i) % FILE_PAGES * PAGE, target);
	for (int i = 0; i < qps && destroys; i++)
		CHECK(!sem_post(&posted));
}

int main(int argc, char **argv)
{
	const char *how = argc > 4 ? argv[4] : "";
	bool verify = !strcmp(how, "verify");
	int access = verify || !strcmp(how, "odp") ? IBV_ACCESS_ON_DEMAND : 0;
	int ready[2], processes, qps;
	struct slow_file slow;
	uint8_t *pages = aligned_alloc(PAGE, FILE_PAGES * PAGE);
	void *mapped = NULL;
	char byte = 0;

	CHECK(argc >= 4 && !pipe(ready));
	/* Once somebody waits for a page of it, it cannot be opened any more. */
	if (!verify)
		mapped = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED,
			      open(argv[1], O_RDONLY), 0);
	CHECK(pages && mapped != MAP_FAILED && (!verify || slow_file_open(&slow, argv[1], NULL)));
	processes = atoi(argv[2]);
	qps = atoi(argv[3]);
	CHECK(qps <= MOST_QPS);
	for (int i = 0; i < processes; i++) {
		if (fork())
			continue;
		post_all(pages, mapped, i, qps, access, !strcmp(how, "destroy"),
			 verify ? &slow : NULL);
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
