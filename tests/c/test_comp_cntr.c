/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion counters: what each operation counts, in which unit; errors; attaching. */
#include "lossy.h"
#include "packet/packet.h"

#define BIT(op) (1u << SIMHCA_COUNTS_##op)
#define ALL_OPS ((1u << SIMHCA_COUNTS_OPS) - 1)

struct counter {
	uint32_t handle;
	struct simhca_comp_cntr_mem *mem;
};

static struct counter counter_new(struct client *client, uint32_t type)
{
	struct simhca_create_comp_cntr_req req = { .type = type };
	struct simhca_create_comp_cntr_reply reply;
	struct simhca_why why = { .text = "" };

	if (simhca_create_comp_cntr(client->context, &req, &reply, &why))
		fail_msg("create_comp_cntr: %s", why.text);
	return (struct counter){ reply.handle, client_at(client, &reply.state) };
}

static int counter_gone(struct client *client, const struct counter *counter)
{
	return simhca_destroy_comp_cntr(client->context, counter->handle, NULL);
}

static int attach(struct side *side, const struct counter *counter, uint32_t ops)
{
	struct simhca_attach_comp_cntr_req req = { .qp = side->qp->handle,
						   .counter = counter->handle,
						   .ops = ops };

	return patiently(simhca_attach_comp_cntr(side->client->context, &req, NULL));
}

/* One counter for each operation of a side. */
struct counters {
	struct counter of[SIMHCA_COUNTS_OPS];
};

static struct counters count_all(struct side *side, uint32_t type)
{
	struct counters counters;

	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++) {
		counters.of[op] = counter_new(side->client, type);
		assert_int_equal(0, attach(side, &counters.of[op], 1u << op));
	}
	return counters;
}

/* By enum simhca_comp_cntr_op: SEND, RECV, READ, REMOTE_READ, WRITE, REMOTE_WRITE. */
static void counted_(const struct counters *counters, const uint64_t expected[SIMHCA_COUNTS_OPS],
		     bool errors, int line)
{
	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++) {
		const struct simhca_comp_cntr_mem *mem = counters->of[op].mem;
		uint64_t value = errors ? mem->errors : mem->value;

		if (value != expected[op])
			fail_msg("line %d: operation %u has %llu, not %llu", line, op,
				 (unsigned long long)value, (unsigned long long)expected[op]);
	}
}
#define counted(counters, ...)                                                                     \
	counted_(counters, (const uint64_t[SIMHCA_COUNTS_OPS]){ __VA_ARGS__ }, false, __LINE__)
#define failed(counters, ...)                                                                      \
	counted_(counters, (const uint64_t[SIMHCA_COUNTS_OPS]){ __VA_ARGS__ }, true, __LINE__)

#define unsignaled(side, ...) qp_post((side)->qp, &(struct wr){ __VA_ARGS__ })

/* Some of each kind, none of it signaled but the last: 3 sends, 2 writes, 2 reads, an atomic. */
static void traffic(struct pair *pair)
{
	const struct mr *to = pair->b.mr;

	for (uint64_t id = 0; id < 4; id++)
		recv_into(&pair->b, id, 0, 4096);
	unsignaled(&pair->a, .opcode = SIMHCA_WR_SEND, SGES(sge(pair->a.mr, 0, 100)));
	unsignaled(&pair->a, .opcode = SIMHCA_WR_SEND_WITH_IMM, SGES(sge(pair->a.mr, 0, 10)));
	unsignaled(&pair->a, .opcode = SIMHCA_WR_SEND);
	unsignaled(&pair->a, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 5000)),
		   .remote_addr = to->iova, .rkey = to->rkey);
	unsignaled(&pair->a, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, SGES(sge(pair->a.mr, 0, 7)),
		   .remote_addr = to->iova, .rkey = to->rkey);
	if (pair->a.options.type == IBV_QPT_RC) {
		unsignaled(&pair->a, .opcode = SIMHCA_WR_RDMA_READ, SGES(sge(pair->a.mr, 0, 9000)),
			   .remote_addr = to->iova, .rkey = to->rkey);
		unsignaled(&pair->a, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
			   SGES(sge(pair->a.mr, 0, 8)), .remote_addr = to->iova, .rkey = to->rkey);
	}
	post(&pair->a, .id = 99, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = to->iova,
	     .rkey = to->rkey);
	expect(pair->a.send_cq, 99, SUCCESS);
	run_until_idle(pair->a.world);
}

static struct pair *counted_pair(struct world *world, enum ibv_qp_type type, uint32_t counts,
				 struct counters *a, struct counters *b)
{
	struct options options = default_options(type);
	struct pair *pair;

	options.sq_sig_all = 0;
	pair = pair_unconnected(world, &options);
	*a = count_all(&pair->a, counts);
	*b = count_all(&pair->b, counts);
	pair_connect(pair);
	return pair;
}

static void work_requests(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_RC, SIMHCA_COMP_CNTR_WRS, &a, &b);

	traffic(pair);
	counted(&a, 3, 0, 1, 0, 3, 0);
	counted(&b, 0, 4, 0, 1, 0, 3);
	traffic(pair);
	counted(&a, 6, 0, 2, 0, 6, 0);
	counted(&b, 0, 8, 0, 2, 0, 6);
	failed(&a, 0, 0, 0, 0, 0, 0);
	failed(&b, 0, 0, 0, 0, 0, 0);
}

static void bytes(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_RC, SIMHCA_COMP_CNTR_BYTES, &a, &b);

	traffic(pair);
	counted(&a, 110, 0, 9000, 0, 5007, 0);
	counted(&b, 0, 117, 0, 9000, 0, 5007);
}

static void unreliable_too(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_UC, SIMHCA_COMP_CNTR_BYTES, &a, &b);

	traffic(pair);
	counted(&a, 110, 0, 0, 0, 5007, 0);
	counted(&b, 0, 117, 0, 0, 0, 5007);

	pair = counted_pair(*state, IBV_QPT_UD, SIMHCA_COMP_CNTR_WRS, &a, &b);
	recv_into(&pair->b, 1, 0, 200);
	send_from(&pair->a, 2, 0, 100);
	expect(pair->b.recv_cq, 1, SUCCESS);
	counted(&a, 1, 0, 0, 0, 0, 0);
	counted(&b, 0, 1, 0, 0, 0, 0);
}

/* A message of many packets is one work request, and has its bytes once. */
static void long_messages(void **state)
{
	for (uint32_t type = SIMHCA_COMP_CNTR_WRS; type <= SIMHCA_COMP_CNTR_BYTES; type++) {
		const uint32_t length = 700 * 1024;
		const uint64_t each = type == SIMHCA_COMP_CNTR_WRS ? 1 : length;
		struct options options = default_options(IBV_QPT_RC);
		struct counters a, b;
		struct pair *pair;

		options.buffer = 1 << 20;
		pair = pair_unconnected(*state, &options);
		a = count_all(&pair->a, type);
		b = count_all(&pair->b, type);
		pair_connect(pair);
		recv_into(&pair->b, 1, 0, length);
		send_from(&pair->a, 1, 0, length);
		rdma_write(&pair->a, 2, 0, length, 0);
		rdma_read(&pair->a, 3, 0, length, 0);
		for (uint64_t id = 1; id <= 3; id++)
			expect(pair->a.send_cq, id, SUCCESS);
		counted(&a, each, 0, each, 0, each, 0);
		counted(&b, 0, each, 0, each, 0, each);
	}
}

/* The first answers are lost. */
static bool loses_answers(void *arg, unsigned int op, uint32_t psn)
{
	unsigned int *left = arg;

	(void)psn;
	return op >= SIMHCA_PKT_ACK && *left && (*left)--;
}

/* What has come before is done, and counted, already. */
static void what_comes_again(void **state)
{
	for (uint32_t type = SIMHCA_COMP_CNTR_WRS; type <= SIMHCA_COMP_CNTR_BYTES; type++) {
		const uint32_t length = 10000;
		const uint64_t each = type == SIMHCA_COMP_CNTR_WRS ? 1 : length;
		unsigned int left = 0;
		struct lossy how = { .loses = loses_answers, .arg = &left };
		struct counters a, b;
		struct pair *pair;

		lossy_use(*state, &how);
		pair = counted_pair(*state, IBV_QPT_RC, type, &a, &b);
		recv_into(&pair->b, 1, 0, length);
		for (int what = 0; what < 3; what++) {
			left = 20;
			if (what == 0)
				send_from(&pair->a, 1, 0, length);
			else if (what == 1)
				rdma_write(&pair->a, 1, 0, length, 0);
			else
				rdma_read(&pair->a, 1, 0, length, 0);
			for (int i = 0; i < 6; i++)
				advance(*state, SEC);
			assert_true(left < 20);
			left = 0;
			for (int i = 0; i < 3; i++)
				advance(*state, SEC);
			expect(pair->a.send_cq, 1, SUCCESS);
		}
		counted(&a, each, 0, each, 0, each, 0);
		counted(&b, 0, each, 0, each, 0, each);
	}
}

/* What fails, and what is flushed after it, is an error of its operation; bytes are not. */
static void errors(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_RC, SIMHCA_COMP_CNTR_BYTES, &a, &b);

	recv_into(&pair->b, 1, 0, 8);
	recv_into(&pair->b, 2, 0, 8);
	rdma_write(&pair->a, 3, 0, 64, pair->b.mr->length);
	send_from(&pair->a, 4, 0, 8);
	rdma_read(&pair->a, 5, 0, 64, 0);
	expect_why(pair->a.send_cq, 3, REM_ACCESS_ERR, KEY_PAST_END);
	expect(pair->a.send_cq, 4, WR_FLUSH_ERR);
	expect(pair->a.send_cq, 5, WR_FLUSH_ERR);
	expect(pair->b.recv_cq, 1, WR_FLUSH_ERR);
	expect(pair->b.recv_cq, 2, WR_FLUSH_ERR);
	failed(&a, 1, 0, 1, 0, 1, 0);
	failed(&b, 0, 2, 0, 0, 0, 1);
	counted(&a, 0, 0, 0, 0, 0, 0);
	counted(&b, 0, 0, 0, 0, 0, 0);

	/* They stay attached, and go on, when the QPs start anew. */
	pair_reconnect(pair);
	rdma_read(&pair->a, 6, 0, 64, pair->b.mr->length);
	expect(pair->a.send_cq, 6, REM_ACCESS_ERR);
	failed(&a, 1, 0, 2, 0, 1, 0);
	failed(&b, 0, 2, 0, 1, 0, 1);

	pair_reconnect(pair);
	recv_into(&pair->b, 7, 0, 8);
	send_from(&pair->a, 8, 0, 9);
	expect(pair->a.send_cq, 8, REM_INV_REQ_ERR);
	expect(pair->b.recv_cq, 7, LOC_LEN_ERR);
	failed(&a, 2, 0, 2, 0, 1, 0);
	failed(&b, 0, 3, 0, 1, 0, 1);
}

/* max_value is UINT64_MAX; what passes it begins at 0. The client may write the numbers, too. */
static void the_end_of_the_numbers(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_RC, SIMHCA_COMP_CNTR_WRS, &a, &b);

	a.of[SIMHCA_COUNTS_WRITE].mem->value = UINT64_MAX;
	a.of[SIMHCA_COUNTS_WRITE].mem->errors = UINT64_MAX;
	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(&a, 0, 0, 0, 0, 0, 0);
	rdma_write(&pair->a, 2, 0, 8, pair->b.mr->length);
	expect(pair->a.send_cq, 2, REM_ACCESS_ERR);
	failed(&a, 0, 0, 0, 0, 0, 0);
}

/* One counter for several operations, and for several QPs. */
static void counters_are_shared(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *one = pair_unconnected(*state, &options);
	struct counter counter = counter_new(one->a.client, SIMHCA_COMP_CNTR_WRS);
	struct side *other = side_new(one->a.client, &options);

	assert_int_equal(0, attach(&one->a, &counter, BIT(SEND) | BIT(WRITE)));
	assert_int_equal(0, attach(other, &counter, ALL_OPS));
	pair_connect(one);
	recv_into(&one->b, 1, 0, 64);
	send_from(&one->a, 1, 0, 64);
	rdma_write(&one->a, 2, 0, 64, 0);
	rdma_read(&one->a, 3, 0, 64, 0);
	for (uint64_t id = 1; id <= 3; id++)
		expect(one->a.send_cq, id, SUCCESS);
	assert_int_equal(counter.mem->value, 2);

	/* Attached until the last of the QPs is destroyed. */
	assert_int_equal(-EBUSY, counter_gone(one->a.client, &counter));
	assert_int_equal(
		0, patiently(simhca_destroy_qp(one->a.client->context, one->a.qp->handle, NULL)));
	assert_int_equal(-EBUSY, counter_gone(one->a.client, &counter));
	assert_int_equal(
		0, patiently(simhca_destroy_qp(other->client->context, other->qp->handle, NULL)));
	assert_int_equal(0, counter_gone(one->a.client, &counter));
	assert_int_equal(-ENOENT, counter_gone(one->a.client, &counter));
}

static void attaching_is_refused(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct counter counter = counter_new(pair->a.client, SIMHCA_COMP_CNTR_WRS);
	struct counter none = { .handle = counter.handle + 1000 };

	assert_int_equal(-EINVAL, attach(&pair->a, &counter, 0));
	assert_int_equal(-EOPNOTSUPP, attach(&pair->a, &counter, ALL_OPS + 1));
	assert_int_equal(-EOPNOTSUPP, attach(&pair->a, &counter, BIT(SEND) | 1u << 31));
	assert_int_equal(-ENOENT, attach(&pair->a, &none, BIT(SEND)));
	assert_int_equal(0, attach(&pair->a, &counter, BIT(SEND) | BIT(RECV)));
	/* Nothing of a mask that overlaps is attached. */
	assert_int_equal(-EBUSY, attach(&pair->a, &counter, BIT(RECV) | BIT(READ)));
	qp_up_to(pair->a.qp, IBV_QPS_INIT, qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options));
	assert_int_equal(0, attach(&pair->a, &counter, BIT(READ)));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	pair_connect(pair);
	assert_int_equal(-EINVAL, attach(&pair->a, &counter, BIT(WRITE)));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	assert_int_equal(-EINVAL, attach(&pair->a, &counter, BIT(WRITE)));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	assert_int_equal(0, attach(&pair->a, &counter, BIT(WRITE)));
}

static void types_and_numbers(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	struct simhca_create_comp_cntr_req req = { .type = SIMHCA_COMP_CNTR_BYTES + 1 };
	struct simhca_create_comp_cntr_reply reply;
	struct counter last;

	assert_int_equal(-EINVAL, simhca_create_comp_cntr(client->context, &req, &reply, NULL));
	for (uint32_t i = 0; i < SIMHCA_MAX_COMP_CNTR; i++)
		last = counter_new(i % 2 ? client : other, i % 2);
	req.type = SIMHCA_COMP_CNTR_WRS;
	assert_int_equal(-ENOMEM, simhca_create_comp_cntr(client->context, &req, &reply, NULL));
	last.mem->value = last.mem->errors = 77;
	assert_int_equal(0, counter_gone(client, &last));
	assert_int_equal(0, counter_new(client, 0).mem->value); /* the same room, zeroed */
	client_gone(other);
	for (uint32_t i = 0; i < SIMHCA_MAX_COMP_CNTR / 2; i++)
		counter_new(client, 0);
}

/* A client that ends leaves its QPs and counters attached to each other. */
static void clients_end(void **state)
{
	struct counters a, b;
	struct pair *pair = counted_pair(*state, IBV_QPT_RC, SIMHCA_COMP_CNTR_WRS, &a, &b);

	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	client_gone(pair->b.client);
	rdma_write(&pair->a, 2, 0, 8, 0);
	for (int i = 0; i < 100; i++)
		advance(*state, SEC);
	expect(pair->a.send_cq, 2, RETRY_EXC_ERR);
	counted(&a, 0, 0, 0, 0, 1, 0);
	failed(&a, 0, 0, 0, 0, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(work_requests),
		ON_INFINIBAND(work_requests),
		ON_ETHERNET(bytes),
		ON_ETHERNET(unreliable_too),
		ON_ETHERNET(long_messages),
		ON_ETHERNET(what_comes_again),
		ON_ETHERNET(errors),
		ON_ETHERNET(the_end_of_the_numbers),
		ON_ETHERNET(counters_are_shared),
		ON_ETHERNET(attaching_is_refused),
		ON_ETHERNET(types_and_numbers),
		ON_ETHERNET(clients_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
