/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Page lists: to whom they belong, and that using them too early is refused. */
#include "dv.h"

struct setting {
	struct pair pair;
	struct ibv_mr *mr;
	struct simhcadv_page_list *list;
	struct simhcadv_fast_reg reg;
};

/* The server's send queue stands still, so that what is posted to it stays posted. */
static struct setting stopped(void)
{
	struct setting s = { .pair = new_pair() };

	s.mr = new_region(&s.pair.server, 4);
	s.list = new_list(&s.pair.server, 4);
	s.reg = over_memory(&s.pair.server, s.mr, s.list, 2);
	to_state(s.pair.server.qp, IBV_QPS_SQD);
	return s;
}

TEST(taken_until_polled)
{
	struct setting s = stopped();
	struct pair second = second_pair(&s.pair, s.pair.server.pd);

	CHECK(!post_reg(s.pair.server.qp, &s.reg, IBV_SEND_SIGNALED));
	errno = 0;
	CHECK(simhcadv_free_page_list(s.list) == EBUSY && errno == EBUSY);
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EBUSY);
	CHECK(post_reg(second.server.qp, &s.reg, 0) == EBUSY);
	to_state(s.pair.server.qp, IBV_QPS_RTS);
	/* The device is done with it once the completion is there; it is ours once it was polled.
	 */
	usleep(50000);
	CHECK(simhcadv_free_page_list(s.list) == EBUSY);
	poll_success(s.pair.server.cq);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(covered_by_a_later_completion)
{
	struct setting s = stopped();

	to_state(s.pair.server.qp, IBV_QPS_RTS);
	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	CHECK(!post_inv(s.pair.server.qp, IBV_WR_LOCAL_INV, s.mr->rkey, 0));
	usleep(50000);
	CHECK(simhcadv_free_page_list(s.list) == EBUSY);
	post_rdma(&s.pair.server, IBV_WR_RDMA_READ, (uintptr_t)s.pair.client.memory,
		  s.pair.client.mr->rkey, 8);
	poll_success(s.pair.server.cq);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(an_earlier_completion_is_not_enough)
{
	struct setting s = stopped();

	to_state(s.pair.server.qp, IBV_QPS_RTS);
	post_rdma(&s.pair.server, IBV_WR_RDMA_READ, (uintptr_t)s.pair.client.memory,
		  s.pair.client.mr->rkey, 8);
	CHECK(!post_reg(s.pair.server.qp, &s.reg, IBV_SEND_SIGNALED));
	CHECK(poll_success(s.pair.server.cq).opcode == IBV_WC_RDMA_READ);
	CHECK(simhcadv_free_page_list(s.list) == EBUSY);
	poll_success(s.pair.server.cq);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(returned_by_reset)
{
	struct setting s = stopped();

	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	to_state(s.pair.server.qp, IBV_QPS_RESET);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(returned_by_destruction)
{
	struct setting s = stopped();

	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	CHECK(!ibv_destroy_qp(s.pair.server.qp));
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(returned_by_flush)
{
	struct setting s = stopped();

	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	to_state(s.pair.server.qp, IBV_QPS_ERR);
	CHECK(simhcadv_free_page_list(s.list) == EBUSY);
	CHECK(poll_one(s.pair.server.cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(returned_by_failure)
{
	struct setting s = stopped();

	s.list->page_list[0]++;
	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	to_state(s.pair.server.qp, IBV_QPS_RTS);
	expect_error(s.pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_FAST_REG_UNALIGNED);
	CHECK(!simhcadv_free_page_list(s.list));
}

/* Written while the device has it: which pages the region would have had nobody can say. */
static void written_too_early(void (*write)(uint64_t *pages))
{
	struct setting s = stopped();
	uint64_t was[2] = { s.list->page_list[0], s.list->page_list[1] };

	CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
	write(s.list->page_list);
	to_state(s.pair.server.qp, IBV_QPS_RTS);
	expect_error(s.pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_FAST_REG_LIST_CHANGED);
	CHECK(state_of(s.pair.server.qp) == IBV_QPS_ERR);
	/* Nothing was registered, and list and region are good for the next time. */
	s.pair = second_pair(&s.pair, s.pair.server.pd);
	memcpy(s.list->page_list, was, sizeof(was));
	do_reg(&s.pair.server, &s.reg);
	do_rdma(&s.pair.client, IBV_WR_RDMA_READ, s.reg.iova_start, s.mr->rkey, 2 * PAGE);
	CHECK(!memcmp(s.pair.client.memory, s.pair.server.memory, 2 * PAGE));
	CHECK(!simhcadv_free_page_list(s.list));
}

static void one_page(uint64_t *pages)
{
	pages[1] += PAGE;
}

static void swap_pages(uint64_t *pages)
{
	uint64_t page = pages[0];

	pages[0] = pages[1];
	pages[1] = page;
}

static void no_page(uint64_t *pages)
{
	pages[0] = 1; /* neither aligned nor mapped: that it was changed comes first */
}

TEST(written_while_posted)
{
	written_too_early(one_page);
}

TEST(swapped_while_posted)
{
	written_too_early(swap_pages);
}

TEST(spoiled_while_posted)
{
	written_too_early(no_page);
}

/* What the request does not name is the program's all the time, and so is the list once read. */
TEST(written_beside_and_afterwards)
{
	struct setting s = stopped();

	CHECK(!post_reg(s.pair.server.qp, &s.reg, IBV_SEND_SIGNALED));
	s.list->page_list[2] = 0x1234;
	to_state(s.pair.server.qp, IBV_QPS_RTS);
	poll_success(s.pair.server.cq);
	s.list->page_list[0] = 0x1234;
	do_rdma(&s.pair.client, IBV_WR_RDMA_READ, s.reg.iova_start, s.mr->rkey, 2 * PAGE);
	CHECK(!memcmp(s.pair.client.memory, s.pair.server.memory, 2 * PAGE));
}

/* Many times around the ring, with as many lists as can be under way. */
TEST(around_the_ring)
{
	struct setting s = stopped();
	struct simhcadv_page_list *lists[8];
	struct ibv_mr *regions[8];

	to_state(s.pair.server.qp, IBV_QPS_RTS);
	for (int i = 0; i < 8; i++) {
		lists[i] = new_list(&s.pair.server, 1);
		regions[i] = new_region(&s.pair.server, 1);
	}
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++) {
			s.reg = over_memory(&s.pair.server, regions[i], lists[i], 1);
			CHECK(!post_reg(s.pair.server.qp, &s.reg, 0));
			CHECK(!post_inv(s.pair.server.qp, IBV_WR_LOCAL_INV, regions[i]->rkey,
					i == 7 ? IBV_SEND_SIGNALED : 0));
		}
		poll_success(s.pair.server.cq);
	}
	for (int i = 0; i < 8; i++)
		CHECK(!simhcadv_free_page_list(lists[i]));
}

TEST(lengths)
{
	struct setting s = stopped();
	struct simhcadv_device_attr attr = {};
	struct simhcadv_page_list *list;

	CHECK(!simhcadv_query_device(s.pair.server.context, &attr));
	errno = 0;
	CHECK(!simhcadv_alloc_page_list(s.pair.server.context, 0) && errno == EINVAL);
	errno = 0;
	CHECK(!simhcadv_alloc_page_list(s.pair.server.context,
					attr.max_fast_reg_page_list_len + 1) &&
	      errno == EINVAL);
	list = new_list(&s.pair.server, attr.max_fast_reg_page_list_len);
	CHECK(list->max_page_list_len == attr.max_fast_reg_page_list_len);
	CHECK(!simhcadv_free_page_list(list));

	s.reg.page_list_len = 0;
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EINVAL);
	s.reg.page_list_len = 5;
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EINVAL);
	CHECK(!simhcadv_free_page_list(s.list));
}

/* Its fields are for reading: what the device reads is the array that was allocated. */
TEST(replaced_array)
{
	struct setting s = stopped();
	uint64_t mine[4] = {};
	uint64_t *array = s.list->page_list;

	s.list->page_list = mine;
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EINVAL);
	s.list->page_list = array;
	s.list->max_page_list_len = 100;
	s.reg.page_list_len = 100;
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EINVAL);
	CHECK(!simhcadv_free_page_list(s.list));
}

TEST(of_another_context)
{
	struct setting s = stopped();
	struct simhcadv_page_list *list = new_list(&s.pair.client, 4);

	s.reg.page_list = list;
	CHECK(post_reg(s.pair.server.qp, &s.reg, 0) == EINVAL);
	CHECK(!simhcadv_free_page_list(list));
}
