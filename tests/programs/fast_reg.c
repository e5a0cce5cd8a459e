/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Fast registration: what it grants, its order, its ways back to free, and what it refuses. */
#include "dv.h"

/* Pages of the server's memory, far from contiguous. */
static const unsigned int scattered[] = { 9, 2, 14, 3, 0, 7, 12, 5 };
enum { SCATTERED = sizeof(scattered) / sizeof(scattered[0]) };

static void pick(const struct end *end, uint8_t **pages)
{
	for (int i = 0; i < SCATTERED; i++)
		pages[i] = end->memory + scattered[i] * PAGE;
}

TEST(scattered_pages_read_and_written)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, SCATTERED);
	struct simhcadv_page_list *list = new_list(&pair.server, SCATTERED);
	struct simhcadv_fast_reg reg;
	uint8_t *pages[SCATTERED];

	pick(&pair.server, pages);
	reg = over(mr, list, pages, SCATTERED);
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, SCATTERED * PAGE);
	for (int i = 0; i < SCATTERED; i++)
		CHECK(!memcmp(pair.client.memory + i * PAGE, pages[i], PAGE));

	for (uint32_t i = 0; i < SCATTERED * PAGE; i++)
		pair.client.memory[i] = (uint8_t)(i % 251);
	do_rdma(&pair.client, IBV_WR_RDMA_WRITE, reg.iova_start, mr->rkey, SCATTERED * PAGE);
	for (int i = 0; i < SCATTERED; i++)
		CHECK(!memcmp(pair.client.memory + i * PAGE, pages[i], PAGE));
}

TEST(one_page_several_times)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 3);
	uint8_t *pages[] = { pair.server.memory, pair.server.memory, pair.server.memory };
	struct simhcadv_fast_reg reg = over(mr, new_list(&pair.server, 3), pages, 3);

	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 3 * PAGE);
	for (int i = 0; i < 3; i++)
		CHECK(!memcmp(pair.client.memory + i * PAGE, pages[i], PAGE));
}

TEST(first_byte_offset)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, SCATTERED);
	uint8_t *pages[SCATTERED];
	struct simhcadv_fast_reg reg;

	pick(&pair.server, pages);
	reg = over(mr, new_list(&pair.server, SCATTERED), pages, SCATTERED);
	reg.iova_start += 100;
	reg.length = 5000;
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 5000);
	CHECK(!memcmp(pair.client.memory, pages[0] + 100, PAGE - 100));
	CHECK(!memcmp(pair.client.memory + PAGE - 100, pages[1], 5000 - (PAGE - 100)));
}

static void outside(int64_t shift, enum simhca_reason reason)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 2), 2);

	reg.iova_start += 100;
	reg.length = 5000;
	do_reg(&pair.server, &reg);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + (uint64_t)shift, mr->rkey, 5000,
		  reason);
}

TEST(one_byte_below)
{
	outside(-1, SIMHCA_REASON_KEY_BELOW_START);
}

TEST(one_byte_above)
{
	outside(1, SIMHCA_REASON_KEY_PAST_END);
}

TEST(zero_based)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 2), 2);

	reg.iova_start += 64;
	reg.length -= 64;
	reg.access |= IBV_ACCESS_ZERO_BASED;
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, 2 * PAGE - 64);
	CHECK(!memcmp(pair.client.memory, pair.server.memory + 64, 2 * PAGE - 64));
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, 1, mr->rkey, 2 * PAGE - 64,
		  SIMHCA_REASON_KEY_PAST_END);
}

TEST(page_sizes)
{
	struct simhcadv_device_attr attr = {};
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_page_list *list = new_list(&pair.server, 2);
	uint8_t *memory;

	CHECK(!simhcadv_query_device(pair.server.context, &attr));
	CHECK(attr.page_sizes & 1u << SHIFT);
	for (uint32_t shift = SHIFT; shift < 64; shift++) {
		uint64_t size = UINT64_C(1) << shift;
		struct simhcadv_fast_reg reg;

		if (!(attr.page_sizes & size))
			continue;
		memory = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
		CHECK(memory != MAP_FAILED);
		memory += size - (uintptr_t)memory % size;
		reg = over(mr, list, (uint8_t *[]){ memory + size, memory }, 2);
		reg.iova_start = 3 * size;
		reg.page_shift = shift;
		reg.length = 2 * size;
		do_reg(&pair.server, &reg);
		memset(pair.client.memory, 0xab, 16);
		do_rdma(&pair.client, IBV_WR_RDMA_WRITE, 4 * size - 8, mr->rkey, 16);
		CHECK(memory[2 * size - 8] == 0xab && memory[0] == 0xab && memory[7] == 0xab);
		CHECK(memory[8] == 0 && memory[2 * size - 9] == 0);
		do_local_inv(&pair.server, mr->rkey);
	}
}

TEST(longest_list)
{
	struct simhcadv_device_attr attr = {};
	struct pair pair = new_pair();
	struct simhcadv_page_list *list;
	struct simhcadv_fast_reg reg;
	struct ibv_mr *mr;
	uint32_t pages;

	CHECK(!simhcadv_query_device(pair.server.context, &attr));
	pages = attr.max_fast_reg_page_list_len;
	CHECK(pages >= 512);
	mr = new_region(&pair.server, pages);
	list = new_list(&pair.server, pages);
	reg = over(mr, list, NULL, 0);
	for (uint32_t i = 0; i < pages; i++)
		list->page_list[i] = (uintptr_t)pair.server.memory + i % 16 * PAGE;
	reg.page_list_len = pages;
	reg.length = (uint64_t)pages * PAGE;
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + (uint64_t)(pages - 1) * PAGE,
		mr->rkey, PAGE);
	CHECK(!memcmp(pair.client.memory, pair.server.memory + (pages - 1) % 16 * PAGE, PAGE));
}

TEST(as_local_buffer)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.client, 2);
	struct simhcadv_fast_reg reg =
		over(mr, new_list(&pair.client, 2),
		     (uint8_t *[]){ pair.client.memory + 5 * PAGE, pair.client.memory + 3 * PAGE },
		     2);
	struct end client = pair.client;

	do_reg(&client, &reg);
	client.mr = mr;
	client.memory = (uint8_t *)(uintptr_t)reg.iova_start;
	do_rdma(&client, IBV_WR_RDMA_READ, (uintptr_t)pair.server.memory, pair.server.mr->rkey,
		2 * PAGE);
	CHECK(!memcmp(pair.client.memory + 5 * PAGE, pair.server.memory, PAGE));
	CHECK(!memcmp(pair.client.memory + 3 * PAGE, pair.server.memory + PAGE, PAGE));
	do_local_inv(&client, mr->lkey);
	post_rdma(&client, IBV_WR_RDMA_READ, (uintptr_t)pair.server.memory, pair.server.mr->rkey,
		  8);
	expect_error(client.cq, IBV_WC_LOC_PROT_ERR, SIMHCA_REASON_MR_NOT_VALID);
}

TEST(rights_are_those_of_the_registration)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int right;
		enum simhca_reason reason;
	} table[] = {
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, SIMHCA_REASON_MR_NO_REMOTE_READ },
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, SIMHCA_REASON_MR_NO_REMOTE_WRITE },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct pair pair = new_pair();
		struct ibv_mr *mr = new_region(&pair.server, 1);
		struct simhcadv_fast_reg reg =
			over_memory(&pair.server, mr, new_list(&pair.server, 1), 1);

		reg.access = IBV_ACCESS_LOCAL_WRITE | table[i].right;
		do_reg(&pair.server, &reg);
		do_rdma(&pair.client, table[i].opcode, reg.iova_start, mr->rkey, 8);
		do_local_inv(&pair.server, mr->rkey);
		reg.access = FULL_ACCESS & ~table[i].right;
		do_reg(&pair.server, &reg);
		fail_rdma(&pair.client, table[i].opcode, reg.iova_start, mr->rkey, 8,
			  table[i].reason);
	}
}

TEST(free_region_grants_nothing)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);

	CHECK(mr->lkey == mr->rkey);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, 8, SIMHCA_REASON_MR_NOT_VALID);
}

TEST(unmapped_page_is_seen_at_access)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 2), 2);

	drop_page(pair.server.memory + PAGE);
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, PAGE);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + PAGE, mr->rkey, 8,
		  SIMHCA_REASON_PAGE_NOT_MAPPED);
}

TEST(read_only_page_is_seen_at_access)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 2), 2);

	CHECK(!mprotect(pair.server.memory + PAGE, PAGE, PROT_READ));
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 2 * PAGE);
	do_rdma(&pair.client, IBV_WR_RDMA_WRITE, reg.iova_start, mr->rkey, PAGE);
	fail_rdma(&pair.client, IBV_WR_RDMA_WRITE, reg.iova_start + PAGE, mr->rkey, 8,
		  SIMHCA_REASON_PAGE_NOT_MAPPED);
}

/* At the side that registered it, as the buffer of its own work request and of a message. */
TEST(unmapped_page_in_an_own_buffer)
{
	struct pair pair = new_pair(), second = second_pair(&pair, pair.server.pd);
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 2), 2);
	struct ibv_sge sge = { .addr = reg.iova_start + PAGE, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;

	drop_page(pair.server.memory + PAGE);
	do_reg(&pair.server, &reg);
	CHECK(!ibv_post_recv(second.server.qp, &recv, &bad));
	post_rdma(&second.client, IBV_WR_SEND, 0, 0, 8);
	expect_error(second.client.cq, IBV_WC_REM_OP_ERR, SIMHCA_REASON_PAGE_NOT_MAPPED);
	expect_error(second.server.cq, IBV_WC_LOC_PROT_ERR, SIMHCA_REASON_PAGE_NOT_MAPPED);
	CHECK(!post_recv(pair.client.qp, 1, pair.client.mr, 0, 64));
	CHECK(!post_send(pair.server.qp, &wr));
	expect_error(pair.server.cq, IBV_WC_LOC_PROT_ERR, SIMHCA_REASON_PAGE_NOT_MAPPED);
}

/* The list itself lies in memory that the device cannot read when it gets there. */
TEST(unreadable_page_list)
{
	enum { LONG = 4096 };
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, LONG);
	struct simhcadv_page_list *list = new_list(&pair.server, LONG);
	struct simhcadv_fast_reg reg = over(mr, list, NULL, 0);
	uint8_t *inside = (uint8_t *)(((uintptr_t)list->page_list + 2 * PAGE) & ~(PAGE - 1ul));

	for (uint32_t i = 0; i < LONG; i++)
		list->page_list[i] = (uintptr_t)pair.server.memory + i % 16 * PAGE;
	reg.page_list_len = LONG;
	reg.length = (uint64_t)LONG * PAGE;
	to_state(pair.server.qp, IBV_QPS_SQD);
	CHECK(!post_reg(pair.server.qp, &reg, 0));
	CHECK(!mprotect(inside, PAGE, PROT_NONE));
	to_state(pair.server.qp, IBV_QPS_RTS);
	expect_error(pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_PAGE_NOT_MAPPED);
	CHECK(!mprotect(inside, PAGE, PROT_READ | PROT_WRITE));
	/* Nothing has become of it: the same registration succeeds. */
	pair = second_pair(&pair, pair.server.pd);
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + 5 * PAGE, mr->rkey, PAGE);
	CHECK(!memcmp(pair.client.memory, pair.server.memory + 5 * PAGE, PAGE));
	CHECK(!simhcadv_free_page_list(list));
}

TEST(unreliable_connection)
{
	struct pair pair = new_pair_of(IBV_QPT_UC);
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_fast_reg reg =
		over(mr, new_list(&pair.server, 1), (uint8_t *[]){ pair.server.memory + PAGE }, 1);
	double end = now() + 10;

	do_reg(&pair.server, &reg);
	memset(pair.client.memory, 0x5a, 8);
	do_rdma(&pair.client, IBV_WR_RDMA_WRITE, reg.iova_start, mr->rkey, 8);
	while (*(volatile uint8_t *)&pair.server.memory[PAGE + 7] != 0x5a)
		CHECK(now() < end);
}

/* ------------------------------------------------------------------------------ order */

/* Registration, use and invalidation posted at once, round after round, unsignaled but the last. */
TEST(cycles_in_flight)
{
	enum { ROUNDS = 2000, DEPTH = 4 };
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.client, 1);
	struct simhcadv_page_list *lists[DEPTH];

	for (int i = 0; i < DEPTH; i++)
		lists[i] = new_list(&pair.client, 1);
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *page = pair.client.memory + round % 16 * PAGE;
		struct simhcadv_fast_reg reg;
		struct ibv_sge sge = { .length = 8 };
		struct ibv_send_wr write = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)pair.server.memory +
						    (unsigned int)round % 64 * 8,
				     .rkey = pair.server.mr->rkey },
		};

		if (round >= DEPTH)
			CHECK(poll_success(pair.client.cq).opcode == IBV_WC_LOCAL_INV);
		CHECK(!simhcadv_update_key(mr, (uint8_t)round));
		reg = over(mr, lists[round % DEPTH], &page, 1);
		sge.addr = reg.iova_start + 16;
		sge.lkey = mr->lkey;
		CHECK(!post_reg(pair.client.qp, &reg, 0));
		CHECK(!post_send(pair.client.qp, &write));
		CHECK(!post_inv(pair.client.qp, IBV_WR_LOCAL_INV, mr->lkey, IBV_SEND_SIGNALED));
	}
	for (int i = 0; i < DEPTH; i++)
		poll_success(pair.client.cq);
	for (int round = ROUNDS - 16; round < ROUNDS; round++)
		CHECK(!memcmp(pair.server.memory + round % 64 * 8,
			      pair.client.memory + round % 16 * PAGE + 16, 8));
	for (int i = 0; i < DEPTH; i++)
		CHECK(!simhcadv_free_page_list(lists[i]));
}

TEST(old_variant_is_stale)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_page_list *list = new_list(&pair.server, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, list, 1);
	uint32_t old = mr->rkey;

	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, old, 8);
	do_local_inv(&pair.server, old);
	CHECK(!simhcadv_update_key(mr, (uint8_t)(old + 3)));
	CHECK(mr->rkey == ((old & ~0xffu) | ((old + 3) & 0xff)) && mr->lkey == mr->rkey);
	reg.rkey = mr->rkey;
	do_reg(&pair.server, &reg);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, old, 8, SIMHCA_REASON_KEY_STALE);
}

/* Small messages wait elsewhere until they are polled; not such whose buffer may have another key then, or none. */
TEST(new_variant_before_the_poll)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 1), 1);
	struct ibv_sge to = { .addr = (uintptr_t)pair.server.memory,
			      .length = 8,
			      .lkey = mr->lkey };
	struct ibv_sge from = { .addr = (uintptr_t)pair.server.memory + PAGE,
				.length = 8,
				.lkey = pair.server.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad;
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE,
				     .sg_list = &from,
				     .num_sge = 1,
				     .wr.rdma = { .remote_addr = (uintptr_t)pair.client.memory,
						  .rkey = pair.client.mr->rkey } };
	double end = now() + 10;

	reg.iova_start = to.addr; /* where others wait */
	do_reg(&pair.server, &reg);
	memset(pair.server.memory, 0, 8);
	memset(pair.server.memory + PAGE, 0x5a, 8);
	memset(pair.client.memory, 0xa5, 8);
	CHECK(!ibv_post_recv(pair.server.qp, &recv, &bad));
	post_rdma(&pair.client, IBV_WR_SEND, 0, 0, 8);
	poll_success(pair.client.cq);
	CHECK(!post_inv(pair.server.qp, IBV_WR_LOCAL_INV, mr->lkey, 0));
	CHECK(!simhcadv_update_key(mr, (uint8_t)(mr->lkey + 1)));
	reg.rkey = mr->rkey;
	CHECK(!post_reg(pair.server.qp, &reg, 0));
	CHECK(!post_send(pair.server.qp, &write));
	while (*(volatile uint8_t *)&pair.client.memory[7] != 0x5a)
		CHECK(now() < end);
	poll_success(pair.server.cq);
	for (int i = 0; i < 8; i++)
		CHECK(pair.server.memory[i] == 0xa5);
}

/* ---------------------------------------------------------------------- back to free */

TEST(invalidated_locally)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 1), 1);

	for (int i = 0; i < 3; i++) {
		do_reg(&pair.server, &reg);
		do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8);
		do_local_inv(&pair.server, mr->rkey);
	}
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8,
		  SIMHCA_REASON_MR_NOT_VALID);
}

/* Of one QP of the PD, invalidated through another. */
TEST(invalidated_by_the_peer)
{
	struct pair pair = new_pair(), second = second_pair(&pair, pair.server.pd);
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 1), 1);

	for (int i = 0; i < 3; i++) {
		const struct pair *by = i % 2 ? &second : &pair;
		struct ibv_wc wc;

		do_reg(&pair.server, &reg);
		CHECK(!post_recv(by->server.qp, 11, pair.server.mr, 4 * PAGE, 64));
		CHECK(!post_inv(by->client.qp, IBV_WR_SEND_WITH_INV, mr->rkey, IBV_SEND_SIGNALED));
		CHECK(poll_success(pair.client.cq).opcode == IBV_WC_SEND);
		wc = poll_success(pair.server.cq);
		CHECK(wc.wr_id == 11 && wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV);
		CHECK(wc.invalidated_rkey == mr->rkey);
	}
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8,
		  SIMHCA_REASON_MR_NOT_VALID);
}

/* The usual use: the data go where the region is, and then it is the program's alone. */
TEST(invalidated_by_a_read)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.client, 1);
	struct simhcadv_fast_reg reg = over(mr, new_list(&pair.client, 1),
					    (uint8_t *[]){ pair.client.memory + 6 * PAGE }, 1);

	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc;

		do_reg(&pair.client, &reg);
		memset(pair.client.memory + 6 * PAGE, 0, PAGE);
		CHECK(!post_read_inv(&pair.client, reg.iova_start, mr->lkey, PAGE,
				     (uintptr_t)pair.server.memory, pair.server.mr->rkey,
				     mr->rkey));
		wc = poll_success(pair.client.cq);
		CHECK(wc.wr_id == 8 && wc.opcode == IBV_WC_RDMA_READ);
		CHECK(!memcmp(pair.client.memory + 6 * PAGE, pair.server.memory, PAGE));
	}
	fail_rdma(&pair.server, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8,
		  SIMHCA_REASON_MR_NOT_VALID);
}

TEST(a_failed_read_invalidates_nothing)
{
	struct pair pair = new_pair(), second = second_pair(&pair, pair.server.pd);
	struct ibv_mr *mr = new_region(&pair.client, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.client, mr, new_list(&pair.client, 1), 1);

	do_reg(&pair.client, &reg);
	CHECK(!post_read_inv(&pair.client, reg.iova_start, mr->lkey, 8,
			     (uintptr_t)pair.server.memory, pair.server.mr->rkey ^ 1, mr->rkey));
	expect_error(pair.client.cq, IBV_WC_REM_ACCESS_ERR, SIMHCA_REASON_KEY_STALE);
	do_rdma(&second.server, IBV_WR_RDMA_READ, reg.iova_start, mr->rkey, 8);
}

TEST(a_read_cannot_invalidate_an_ordinary_region)
{
	struct pair pair = new_pair();

	CHECK(!post_read_inv(&pair.client, (uintptr_t)pair.client.memory, pair.client.mr->lkey, 8,
			     (uintptr_t)pair.server.memory, pair.server.mr->rkey,
			     pair.client.mr->rkey));
	expect_error(pair.client.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_INV_NOT_ALLOWED);
}

TEST(invalidation_of_a_free_region)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);

	CHECK(!post_inv(pair.server.qp, IBV_WR_LOCAL_INV, mr->rkey, 0));
	expect_error(pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_MR_NOT_VALID);
}

TEST(deregistered_while_valid)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 1);
	struct simhcadv_fast_reg reg = over_memory(&pair.server, mr, new_list(&pair.server, 1), 1);

	do_reg(&pair.server, &reg);
	CHECK(!ibv_dereg_mr(mr));
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start, reg.rkey, 8,
		  SIMHCA_REASON_KEY_UNKNOWN);
}

/* A window counts against it as against any region. */
TEST(window_over_a_fast_register_region)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = new_region(&pair.server, 2);
	struct ibv_mw *mw = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_2);
	struct simhcadv_fast_reg reg =
		over(mr, new_list(&pair.server, 2),
		     (uint8_t *[]){ pair.server.memory + 5 * PAGE, pair.server.memory }, 2);
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	CHECK(mw);
	reg.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	do_reg(&pair.server, &reg);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info.mr = mr;
	bind.bind_mw.bind_info.addr = reg.iova_start + PAGE - 16;
	bind.bind_mw.bind_info.length = 32;
	bind.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	CHECK(!post_send(pair.server.qp, &bind));
	poll_success(pair.server.cq);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + PAGE - 16, bind.bind_mw.rkey, 32);
	CHECK(!memcmp(pair.client.memory, pair.server.memory + 6 * PAGE - 16, 16));
	CHECK(!memcmp(pair.client.memory + 16, pair.server.memory, 16));

	errno = 0;
	CHECK(ibv_dereg_mr(mr) == EBUSY && errno == EBUSY);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, reg.iova_start + PAGE - 16, bind.bind_mw.rkey, 32);
	do_local_inv(&pair.server, bind.bind_mw.rkey);
	CHECK(!post_send(pair.server.qp, &bind));
	poll_success(pair.server.cq);
	CHECK(!post_inv(pair.server.qp, IBV_WR_LOCAL_INV, mr->rkey, 0));
	expect_error(pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_INV_WINDOWS_BOUND);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(mr));
}

/* ---------------------------------------------------------------------------- refused */

static struct simhcadv_fast_reg usual(const struct pair *pair, uint32_t pages)
{
	return over_memory(&pair->server, new_region(&pair->server, pages),
			   new_list(&pair->server, 8), pages);
}

TEST(valid_region)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 1);

	do_reg(&pair.server, &reg);
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_NOT_FREE);
}

TEST(list_longer_than_the_region)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.page_list_len = 3;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_TOO_MANY_PAGES);
}

TEST(unaligned_page)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.page_list->page_list[1] += 8;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_UNALIGNED);
}

TEST(page_size_too_small)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.page_shift = 11;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_PAGE_SIZE);
}

TEST(page_size_too_large)
{
	static const uint32_t shifts[] = { 22, 32, 63, 64, 0xffffffff };

	for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
		struct pair pair = new_pair();
		struct simhcadv_fast_reg reg = usual(&pair, 2);

		reg.page_shift = shifts[i];
		fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_PAGE_SIZE);
	}
}

TEST(length_past_the_pages)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.length = 2 * PAGE + 1;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_PAST_END);
}

TEST(offset_and_length_past_the_pages)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.iova_start += 1;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_PAST_END);
}

TEST(huge_length)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.length = UINT64_MAX - reg.iova_start;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_PAST_END);
}

TEST(addresses_wrap)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.iova_start = UINT64_MAX - PAGE + 1;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_KEY_WRAPS);
}

TEST(remote_write_without_local_write)
{
	static const uint32_t accesses[] = { IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
					     1u << 15 };

	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		struct pair pair = new_pair();
		struct simhcadv_fast_reg reg = usual(&pair, 2);

		reg.access = accesses[i];
		fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_BAD_ACCESS);
	}
}

TEST(ordinary_region)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.rkey = pair.server.mr->rkey;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_NO_REGION);
}

TEST(no_region_at_all)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.rkey = 0xffffff00;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_NO_REGION);
}

TEST(region_of_another_pd)
{
	struct pair pair = new_pair();
	struct ibv_pd *pd = ibv_alloc_pd(pair.server.context);
	struct simhcadv_fast_reg reg = usual(&pair, 2);
	struct ibv_mr *mr;

	CHECK(pd);
	mr = simhcadv_alloc_mr(pd, 2);
	CHECK(mr);
	reg.rkey = mr->rkey;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_KEY_WRONG_PD);
}

/* What failed has changed nothing: the region registers well afterwards. */
TEST(region_is_good_after_a_failure)
{
	struct pair pair = new_pair(), second = second_pair(&pair, pair.server.pd);
	struct simhcadv_fast_reg reg = usual(&pair, 2);

	reg.page_list->page_list[1] += 8;
	fail_reg(&pair.server, &reg, SIMHCA_REASON_FAST_REG_UNALIGNED);
	reg.page_list->page_list[1] -= 8;
	do_reg(&second.server, &reg);
	do_rdma(&second.client, IBV_WR_RDMA_READ, reg.iova_start, reg.rkey, 2 * PAGE);
	CHECK(!memcmp(second.client.memory, second.server.memory, 2 * PAGE));
}

/* --------------------------------------------------------------------- refused at once */

TEST(states_and_types)
{
	struct pair pair = new_pair(), uc = new_pair_of(IBV_QPT_UC);
	struct simhcadv_fast_reg reg = usual(&pair, 1);
	struct ibv_qp *reset = make_qp(pair.server.pd, pair.server.cq, IBV_QPT_RC);
	struct end ud = pair.server;

	CHECK(post_reg(reset, &reg, 0) == EINVAL);
	ud.qp = make_qp(pair.server.pd, pair.server.cq, IBV_QPT_UD);
	start_qp(ud.qp, 0);
	CHECK(post_reg(ud.qp, &reg, 0) == EINVAL);
	CHECK(post_read_inv(&ud, 0, 0, 0, 0, 0, 0) == EINVAL);
	CHECK(post_read_inv(&uc.client, 0, 0, 0, 0, 0, 0) == EINVAL);
	do_reg(&pair.server, &reg);
}

TEST(send_flags)
{
	static const unsigned int flags[] = { IBV_SEND_INLINE, IBV_SEND_SOLICITED, IBV_SEND_IP_CSUM,
					      1u << 31 };
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg = usual(&pair, 1);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct simhcadv_read_with_inv_wr read = { .send_flags = flags[i] }, *bad;

		CHECK(post_reg(pair.server.qp, &reg, flags[i]) == EINVAL);
		CHECK(simhcadv_post_read_with_inv(pair.server.qp, &read, &bad) == EINVAL);
	}
	CHECK(!post_reg(pair.server.qp, &reg, IBV_SEND_SIGNALED | IBV_SEND_FENCE));
	poll_success(pair.server.cq);
}

TEST(too_many_sges)
{
	struct pair pair = new_pair();
	struct ibv_sge sges[64] = {};
	struct simhcadv_read_with_inv_wr wr = { .sg_list = sges, .num_sge = 64 }, *bad;

	CHECK(simhcadv_post_read_with_inv(pair.server.qp, &wr, &bad) == ENOMEM && bad == &wr);
	wr.num_sge = -1;
	CHECK(simhcadv_post_read_with_inv(pair.server.qp, &wr, &bad) == ENOMEM && bad == &wr);
}

/* Those before the bad one are posted. */
TEST(bad_one_in_a_list)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg_wr wrs[4], *bad;

	for (int i = 0; i < 4; i++)
		wrs[i] = (struct simhcadv_fast_reg_wr){
			.next = i < 3 ? &wrs[i + 1] : NULL,
			.wr_id = (uint64_t)i,
			.send_flags = IBV_SEND_SIGNALED,
			.fast_reg = usual(&pair, 1),
		};
	wrs[2].fast_reg.page_list_len = 0;
	CHECK(simhcadv_post_fast_reg(pair.server.qp, wrs, &bad) == EINVAL && bad == &wrs[2]);
	CHECK(poll_success(pair.server.cq).wr_id == 0);
	CHECK(poll_success(pair.server.cq).wr_id == 1);
	CHECK(!simhcadv_free_page_list(wrs[2].fast_reg.page_list));
	CHECK(!simhcadv_free_page_list(wrs[3].fast_reg.page_list));
}

TEST(full_queue)
{
	struct pair pair = new_pair();
	struct simhcadv_fast_reg reg;
	int posted = 0, err;

	to_state(pair.server.qp, IBV_QPS_SQD);
	do {
		reg = usual(&pair, 1);
		err = post_reg(pair.server.qp, &reg, IBV_SEND_SIGNALED);
	} while (!err && ++posted < 1000);
	CHECK(err == ENOMEM && posted >= 16);
	CHECK(!simhcadv_free_page_list(reg.page_list));
	to_state(pair.server.qp, IBV_QPS_RTS);
	while (posted--)
		poll_success(pair.server.cq);
}

/* The opcodes of the device are no ibv_wr_opcode. */
TEST(not_by_ibv_post_send)
{
	struct pair pair = new_pair();

	for (int opcode = 10; opcode < 40; opcode++)
		CHECK(post_inv(pair.server.qp, (enum ibv_wr_opcode)opcode, 0, 0) == EINVAL);
}
