/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What arrives decides what the program does: run by valgrind and ThreadSanitizer, which must find
 * nothing but the mistakes. tests/clients/test_checkers.py does that.
 */
#include <pthread.h>

#include "dv.h"

#define BYTES 256

/* Memory that no store of this program has touched. */
static struct ibv_mr *untouched(const struct end *end)
{
	void *memory = malloc(BYTES);

	CHECK(memory);
	return ibv_reg_mr(end->pd, memory, BYTES, FULL_ACCESS);
}

static void look(const void *memory)
{
	const uint8_t *byte = memory;

	for (int i = 0; i < BYTES; i++)
		CHECK(byte[i] == 0x5a);
}

static void rdma(const struct end *from, struct ibv_mr *mr, enum ibv_wr_opcode opcode,
		 const struct ibv_mr *remote)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = BYTES, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)remote->addr, .rkey = remote->rkey },
	};

	CHECK(!post_send(from->qp, &wr));
	poll_success(from->cq);
}

TEST(arrives_by_write_and_read)
{
	struct pair pair = new_pair();
	struct ibv_mr *written = untouched(&pair.server), *read = untouched(&pair.client);

	memset(pair.client.memory, 0x5a, BYTES);
	rdma(&pair.client, pair.client.mr, IBV_WR_RDMA_WRITE, written);
	look(written->addr);
	rdma(&pair.client, read, IBV_WR_RDMA_READ, written);
	look(read->addr);
}

static struct pair shared;
static int set_up_before;

static void *receiver(void *mr)
{
	poll_success(shared.server.cq);
	/* Nothing but the message has told us that this is there. */
	CHECK(set_up_before == 1);
	look(((struct ibv_mr *)mr)->addr);
	return NULL;
}

TEST(arrives_in_another_thread)
{
	struct ibv_sge sge = { .length = BYTES };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_mr *mr;
	pthread_t thread;

	shared = new_pair();
	mr = untouched(&shared.server);
	CHECK(!post_recv(shared.server.qp, 1, mr, 0, BYTES));
	CHECK(!pthread_create(&thread, NULL, receiver, mr));
	memset(shared.client.memory, 0x5a, BYTES);
	set_up_before = 1;
	sge.addr = (uintptr_t)shared.client.memory;
	sge.lkey = shared.client.mr->lkey;
	CHECK(!post_send(shared.client.qp, &wr));
	CHECK(!pthread_join(thread, NULL));
}

/* valgrind has to say so. */
TEST(mistake_not_written)
{
	uint8_t *memory = malloc(BYTES);

	CHECK(memory);
	/* The compiler knows as well as valgrind that nobody has written there, but for this. */
	__asm__ volatile("" : "+r"(memory) : : "memory");
	if (memory[3] == 0x5a)
		puts("by chance");
}

static void *careless(void *unused)
{
	set_up_before++;
	return unused;
}

/* ThreadSanitizer has to say so. */
TEST(mistake_race)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, careless, NULL));
	set_up_before++;
	CHECK(!pthread_join(thread, NULL));
}
