/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How fairly a device serves many threads: each has a CQ and two QPs that are connected to each other,
 * reads 4 KiB, and polls until that has completed, then again. Prints reads/s of all threads, what
 * part of the mean the slowest thread got, and how long the longest read took in ms.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "loopback.h"

#define BYTES 4096
#define MOST 4096

struct reader {
	pthread_t thread;
	struct loopback pair;
	unsigned long reads;
	double longest;
};

static struct loopback shared;
static struct ibv_mr *mr;
static atomic_bool stop;
static pthread_barrier_t begin;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void make_pair(struct loopback *pair)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { 16, 16, 1, 1, 0 } };

	*pair = shared;
	attr.send_cq = attr.recv_cq = ibv_create_cq(pair->context, 16, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		pair->cq[i] = attr.send_cq;
		pair->qp[i] = attr.send_cq ? ibv_create_qp(pair->pd, &attr) : NULL;
		if (!pair->qp[i])
			die("a CQ and two QPs");
	}
	for (int i = 1; i >= 0; i--)
		loopback_connect(pair, pair->qp[i], pair->qp[!i]->qp_num);
}

/* False: it is over, and nothing has completed. */
static bool wait_for_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int polled;

	while (!(polled = ibv_poll_cq(cq, 1, &wc)))
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			return false;
	if (polled < 0 || wc.status)
		die("a read");
	return true;
}

static void *read_on(void *arg)
{
	struct reader *reader = arg;
	struct ibv_sge sge = { (uintptr_t)mr->addr, BYTES, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .wr.rdma = { (uintptr_t)mr->addr + BYTES, mr->rkey } };
	struct ibv_send_wr *bad;
	double took;

	pthread_barrier_wait(&begin);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		took = now();
		if (ibv_post_send(reader->pair.qp[0], &wr, &bad))
			die("ibv_post_send");
		if (!wait_for_one(reader->pair.cq[0]))
			break;
		took = now() - took;
		reader->longest = took > reader->longest ? took : reader->longest;
		reader->reads++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc == 3 ? atoi(argv[1]) : 0, seconds = argc == 3 ? atoi(argv[2]) : 0;
	struct reader *reader = calloc(MOST, sizeof(*reader));
	double since, longest = 0;
	unsigned long all = 0, least = -1ul;
	char *buffer = aligned_alloc(BYTES, 2 * BYTES);

	if (threads < 1 || threads > MOST || seconds < 1 || !reader || !buffer) {
		fprintf(stderr, "usage: threads THREADS SECONDS\n");
		return 2;
	}
	loopback_open(&shared, 16);
	mr = ibv_reg_mr(shared.pd, buffer, 2 * BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr || pthread_barrier_init(&begin, NULL, (unsigned int)threads + 1))
		die("memory");
	for (int i = 0; i < threads; i++) {
		make_pair(&reader[i].pair);
		if (pthread_create(&reader[i].thread, NULL, read_on, &reader[i]))
			die("pthread_create");
	}
	pthread_barrier_wait(&begin);
	since = now();
	nanosleep(&(struct timespec){ .tv_sec = seconds }, NULL);
	atomic_store(&stop, true);
	since = now() - since;
	for (int i = 0; i < threads; i++) {
		pthread_join(reader[i].thread, NULL);
		all += reader[i].reads;
		least = reader[i].reads < least ? reader[i].reads : least;
		longest = reader[i].longest > longest ? reader[i].longest : longest;
	}
	printf("rate %.0f\nslowest %.4f\nlongest %.1f\n", (double)all / since,
	       all ? (double)least * threads / (double)all : 0, longest * 1e3);
	return 0;
}
