/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Short messages that wait for who polls: by the device in the slot of their receive, by the fast path in the
 * CQ.
 */
#include <sys/mman.h>

#include "fastpath_scene.h"
#include "memory/key.h"

enum buffer { ORDINARY, OTHER_IOVA, OF_FILE };

static const struct {
	const char *name;
	uint8_t opcode;
	uint32_t length, parts, first; /* SGEs of the send; bytes of the receive's first */
	enum buffer buffer;
	bool stays;
} small[] = {
	{ "one byte", SIMHCA_WR_SEND, 1, 1, 200, ORDINARY, true },
	{ "as much as there is room for", SIMHCA_WR_SEND, 64, 1, 64, ORDINARY, true },
	{ "one byte more", SIMHCA_WR_SEND, 65, 1, 200, ORDINARY, false },
	{ "nothing", SIMHCA_WR_SEND, 0, 1, 200, ORDINARY, false },
	{ "of several pieces", SIMHCA_WR_SEND_WITH_IMM, 40, 3, 200, ORDINARY, true },
	{ "for two buffers", SIMHCA_WR_SEND, 40, 1, 39, ORDINARY, false },
	{ "at another address than the program's", SIMHCA_WR_SEND, 8, 1, 200, OTHER_IOVA, false },
	{ "in a file", SIMHCA_WR_SEND, 8, 1, 200, OF_FILE, false },
	{ "a write", SIMHCA_WR_RDMA_WRITE_WITH_IMM, 8, 1, 200, ORDINARY, false },
};

/* At address 0, as the device maps a file: no program's memory lies there. */
static struct mr region_of_file(struct client *client)
{
	struct simhca_reg_dmabuf_mr_req req = { .length = 4096,
						.pd = client->pd,
						.access = SIMHCA_ACCESS_LOCAL_WRITE };
	struct mr mr = { .length = req.length };
	struct simhca_reg_mr_reply reply;
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)mr.length), 0);
	mr.addr = mmap(NULL, mr.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mr.addr, MAP_FAILED);
	assert_int_equal(simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req, &reply, NULL),
			 0);
	mr.lkey = reply.lkey;
	close(fd);
	return mr;
}

static struct mr small_buffer(struct pair *pair, enum buffer buffer)
{
	struct client *client = pair->b.client;

	if (buffer == OF_FILE)
		return region_of_file(client);
	if (buffer == OTHER_IOVA)
		return *mr_over(client, client->pd, pair->b.mr->addr, 4096, 0x10000,
				SIMHCA_ACCESS_LOCAL_WRITE);
	return *pair->b.mr;
}

static void small_message(struct pair *pair, size_t i, const struct mr *to, uint32_t parts)
{
	const uint32_t part = small[i].length / parts;
	struct simhca_sge into[2] = { sge(to, 0, small[i].first), sge(to, small[i].first, 100) };
	struct simhca_sge from[3] = { sge(pair->a.mr, 0, part), sge(pair->a.mr, part, part),
				      sge(pair->a.mr, 2 * part, small[i].length - 2 * part) };

	if (parts == 1)
		from[0].length = small[i].length;
	qp_recv(pair->b.qp, i, into, 2);
	qp_put(pair->a.qp, &(struct wr){ .opcode = small[i].opcode,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = from,
					 .num_sge = parts,
					 .remote_addr = pair->b.mr->iova,
					 .rkey = pair->b.mr->rkey });
}

/* What lies in the receive's slot is in no buffer, and the other way round; who polls is told. */
static void data_in_slots(struct world *world, bool by_fast_path)
{
	struct pair *pair = fastpath_rc_pair(world, true);
	struct simhca_step step = fastpath_attach(&pair->a);

	assert_int_equal(pair->b.qp->granted.slot_data % 64, 0);
	assert_true(step.peer.data_may_stay);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++) {
		const uint8_t *slot = fastpath_slot(pair->b.qp, pair->b.qp->rq_pi);
		const struct mr to = small_buffer(pair, small[i].buffer);
		const bool stays = small[i].stays;
		const uint32_t length = small[i].length, seed = (uint32_t)i + 1;
		struct simhca_cqe cqe;

		print_message("%s\n", small[i].name);
		memset(to.addr, 0, 300);
		fill(pair->a.mr->addr, length, seed);
		small_message(pair, i, &to, small[i].parts);
		if (by_fast_path && small[i].buffer != OF_FILE)
			assert_true(simhca_step(&step));
		else
			ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(world);
		assert_true(cq_poll(pair->a.send_cq, &cqe));
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		assert_int_equal(cqe.in_slot, SIMHCA_CQE_IN_PLACE);
		assert_int_equal(filled(to.addr, length, seed), !stays);
		assert_true(cq_poll(pair->b.recv_cq, &cqe)); /* which copies what is in the CQ */
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		assert_int_equal(cqe.byte_len, length);
		assert_int_equal(cqe.in_slot, !stays	     ? SIMHCA_CQE_IN_PLACE
					      : by_fast_path ? SIMHCA_CQE_IN_CQ
							     : SIMHCA_CQE_IN_WQE);
		assert_true(
			filled(cqe.in_slot == SIMHCA_CQE_IN_WQE ? slot : to.addr, length, seed));
		if (small[i].buffer == OF_FILE)
			munmap(to.addr, to.length);
	}
	fastpath_detach(&step);
}

static void data_in_slots_by_device(void **state)
{
	data_in_slots(*state, false);
}

static void data_in_slots_by_fast_path(void **state)
{
	data_in_slots(*state, true);
}

/* A message that has to wait until nobody uses the key that it invalidates still is where it was put. */
static void data_of_what_waits_for_a_key(void **state)
{
	struct pair *pair = fastpath_rc_pair(*state, true);
	struct client *client = pair->b.client;
	struct mr *fast = fast_mr_new(client, client->pd, 1);
	uint64_t page = (uintptr_t)world_alloc(*state, 8192);
	struct simhca_key *key;
	struct simhca_cqe cqe;
	const uint8_t *slot;

	page = (page + 4095) & ~(uint64_t)4095;
	qp_fast_reg(pair->b.qp, 1, fast, &page, 1, 0x10000, 4096, SIMHCA_ACCESS_LOCAL_WRITE);
	expect(pair->b.send_cq, 1, SUCCESS);
	key = simhca_key_of(client->context->device, fast->lkey);
	slot = fastpath_slot(pair->b.qp, pair->b.qp->rq_pi);
	recv_into(&pair->b, 2, 0, 64);
	fill(pair->a.mr->addr, 40, 3);
	key->uses++; /* as an engine that works for another QP */
	post(&pair->a, .id = 3, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = fast->rkey,
	     SGES(sge(pair->a.mr, 0, 40)));
	for (int i = 0; i < 3; i++)
		advance(*state, MSEC);
	expect_none(pair->b.recv_cq);
	key->uses--;
	advance(*state, SEC);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(cq_poll(pair->b.recv_cq, &cqe));
	assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	assert_true(filled(cqe.in_slot ? slot : pair->b.mr->addr, 40, 3));
}

/* Who counts receives need not poll for them. */
static void data_of_what_is_counted(void **state)
{
	const struct simhca_create_comp_cntr_req req = { .type = SIMHCA_COMP_CNTR_WRS };
	struct simhca_create_comp_cntr_reply reply;
	const struct simhca_comp_cntr_mem *mem;
	struct options options = fastpath_options();
	struct pair *pair;

	options.slot_data = true;
	pair = pair_unconnected(*state, &options);
	assert_int_equal(simhca_create_comp_cntr(pair->b.client->context, &req, &reply, NULL), 0);
	assert_int_equal(
		patiently(simhca_attach_comp_cntr(
			pair->b.client->context,
			&(struct simhca_attach_comp_cntr_req){ .qp = pair->b.qp->handle,
							       .counter = reply.handle,
							       .ops = 1u << SIMHCA_COUNTS_RECV },
			NULL)),
		0);
	pair_connect(pair);
	simhca_context_name(pair->b.client->context, getpid(), "test");
	mem = client_at(pair->b.client, &reply.state);
	recv_into(&pair->b, 2, 0, 64);
	fill(pair->a.mr->addr, 40, 4);
	send_from(&pair->a, 1, 0, 40);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(mem->value, 1);
	assert_true(filled(pair->b.mr->addr, 40, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(data_in_slots_by_device),
		HERE(data_in_slots_by_fast_path),
		HERE(data_of_what_waits_for_a_key),
		HERE(data_of_what_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
