/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Threads on one context; which test, says the first argument. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "helper.h"

#define THREADS 4
#define BYTES 4096u

static struct ibv_context *context;
static struct ibv_pd *pd;

static void *objects(void *arg)
{
	static const struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };

	for (int i = 0; i < 400; i++) {
		struct ibv_pd *own = ibv_alloc_pd(context);
		struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
		struct ibv_cq *cq = ibv_create_cq(context, 1 + i, NULL, channel, 0);
		struct ibv_srq_init_attr attr = srq_attr;
		struct ibv_ah_attr address = loopback(context);
		struct ibv_srq *srq = ibv_create_srq(own, &attr);
		struct ibv_ah *ah = ibv_create_ah(own, &address);
		char *buffer = malloc(BYTES);
		struct ibv_mr *mr = ibv_reg_mr(own, buffer, BYTES, FULL_ACCESS);
		struct ibv_qp *qp;

		CHECK(own && channel && cq && srq && ah && mr);
		qp = make_qp(own, cq, i % 2 ? IBV_QPT_RC : IBV_QPT_UD);
		start_qp(qp, qp->qp_num);
		CHECK(!ibv_resize_cq(cq, 500));
		CHECK(!ibv_destroy_qp(qp));
		CHECK(!ibv_dereg_mr(mr));
		CHECK(!ibv_destroy_ah(ah));
		CHECK(!ibv_destroy_srq(srq));
		CHECK(!ibv_destroy_cq(cq));
		CHECK(!ibv_destroy_comp_channel(channel));
		CHECK(!ibv_dealloc_pd(own));
		free(buffer);
	}
	return arg;
}

static void *traffic(void *arg)
{
	unsigned char *buffer = malloc(2 * BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, 2 * BYTES, FULL_ACCESS);

	CHECK(mr);
	for (int round = 0; round < 60; round++) {
		struct ibv_cq *send_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
		struct ibv_cq *recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
		struct ibv_qp *client, *server;

		CHECK(send_cq && recv_cq);
		client = make_qp(pd, send_cq, IBV_QPT_RC);
		server = make_qp(pd, recv_cq, IBV_QPT_RC);
		start_qp(client, server->qp_num);
		start_qp(server, client->qp_num);
		for (int i = 0; i < 100; i++) {
			struct ibv_sge sge = { .addr = (uintptr_t)buffer,
					       .length = BYTES - (uint32_t)i,
					       .lkey = mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge,
						  .num_sge = 1,
						  .opcode = IBV_WR_SEND,
						  .send_flags = IBV_SEND_SIGNALED };

			memset(buffer, (int)(uintptr_t)arg * 60 + round + i, BYTES);
			memset(buffer + BYTES, 0, BYTES);
			CHECK(!post_recv(server, (uint64_t)i, mr, BYTES, BYTES));
			CHECK(!post_send(client, &wr));
			CHECK(poll_success(recv_cq).byte_len == BYTES - (uint32_t)i);
			poll_success(send_cq);
			CHECK(!memcmp(buffer, buffer + BYTES, BYTES - (uint32_t)i));
		}
		CHECK(!ibv_destroy_qp(client));
		CHECK(!ibv_destroy_qp(server));
		CHECK(!ibv_destroy_cq(send_cq));
		CHECK(!ibv_destroy_cq(recv_cq));
	}
	CHECK(!ibv_dereg_mr(mr));
	free(buffer);
	return arg;
}

#define POSTS 20000
static struct ibv_qp *shared_qp;
static struct ibv_cq *shared_cq;
static struct ibv_mr *shared_mr;
static atomic_uchar seen[THREADS * POSTS];
static atomic_int polled;

static void *post_many(void *arg)
{
	for (int i = 0; i < POSTS; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)shared_mr->addr,
				       .length = 8,
				       .lkey = shared_mr->lkey };
		struct ibv_send_wr wr = { .wr_id = (uintptr_t)arg * POSTS + (uint64_t)i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = {
						  .remote_addr = (uintptr_t)shared_mr->addr + 64,
						  .rkey = shared_mr->rkey,
					  } };
		int err;

		while ((err = post_send(shared_qp, &wr)) == ENOMEM)
			usleep(10);
		CHECK(!err);
	}
	return arg;
}

static void *poll_many(void *arg)
{
	double end = now() + 60;
	struct ibv_wc wc[8];

	while (atomic_load(&polled) < THREADS * POSTS) {
		int count = ibv_poll_cq(shared_cq, 8, wc);

		CHECK(count >= 0 && now() < end);
		for (int i = 0; i < count; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			CHECK(wc[i].wr_id < THREADS * POSTS);
			CHECK(!atomic_exchange(&seen[wc[i].wr_id], 1));
		}
		atomic_fetch_add(&polled, count);
		if (!count)
			usleep(10);
	}
	return arg;
}

static void queue(void)
{
	static char buffer[BYTES];
	pthread_t poster[THREADS], poller[2];

	shared_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	shared_mr = ibv_reg_mr(pd, buffer, BYTES, FULL_ACCESS);
	CHECK(shared_cq && shared_mr);
	shared_qp = make_qp(pd, shared_cq, IBV_QPT_RC);
	start_qp(shared_qp, shared_qp->qp_num);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&poster[i], NULL, post_many, (void *)i));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&poller[i], NULL, poll_many, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(poster[i], NULL));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(poller[i], NULL));
	CHECK(!ibv_destroy_qp(shared_qp));
	CHECK(!ibv_dereg_mr(shared_mr));
	CHECK(!ibv_destroy_cq(shared_cq));
}

/* A writer keeps writing to a region; after it was deregistered nothing of it may change. */
static void dereg(void)
{
	const size_t length = 1 << 20;
	char *source = malloc(length);
	struct ibv_mr *source_mr = ibv_reg_mr(pd, source, length, FULL_ACCESS);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);

	CHECK(source_mr && cq);
	memset(source, 0xaa, length);
	for (int round = 0; round < 200; round++) {
		char *target = mmap(NULL, length, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, target, length, FULL_ACCESS);
		struct ibv_sge sge = { .addr = (uintptr_t)source,
				       .length = (uint32_t)length,
				       .lkey = source_mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };
		struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
		bool failed = false;

		CHECK(target != MAP_FAILED && mr);
		start_qp(qp, qp->qp_num);
		wr.wr.rdma.remote_addr = (uintptr_t)target;
		wr.wr.rdma.rkey = mr->rkey;
		for (int i = 0; i < 8; i++)
			CHECK(!post_send(qp, &wr));
		usleep((useconds_t)(round * 7 % 500));
		CHECK(!ibv_dereg_mr(mr));
		memset(target, 0x55, length);
		for (int i = 0; i < 8; i++) {
			struct ibv_wc wc = poll_one(cq);

			CHECK(wc.status == (failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS) ||
			      (!failed && wc.status == IBV_WC_REM_ACCESS_ERR));
			failed = failed || wc.status != IBV_WC_SUCCESS;
		}
		for (size_t i = 0; i < length; i++)
			CHECK(target[i] == 0x55);
		CHECK(!ibv_destroy_qp(qp));
		CHECK(!munmap(target, length));
	}
	CHECK(!ibv_dereg_mr(source_mr));
	CHECK(!ibv_destroy_cq(cq));
	free(source);
}

static void run(void *(*work)(void *))
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
}

int main(int argc, char **argv)
{
	const char *test = argc > 1 ? argv[1] : "";

	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	if (!strcmp(test, "objects"))
		run(objects);
	else if (!strcmp(test, "traffic"))
		run(traffic);
	else if (!strcmp(test, "queue"))
		queue();
	else if (!strcmp(test, "dereg"))
		dereg();
	else
		return 2;
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
