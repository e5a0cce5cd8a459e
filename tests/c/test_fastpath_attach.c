/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which QPs are attached to the fast path, which are not, and the segments that they have. */

#include "fastpath_scene.h"

static void who_may_be_attached(void **state)
{
	struct world *world = *state;
	const struct simhca_secret wrong = { { fastpath_secret.word[0],
					       fastpath_secret.word[1] + 1 } };
	struct options options = fastpath_options();
	struct simhca_attach_peer_reply reply;
	struct pair *pair = pair_new(world, &options);

	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply),
			 -ENOTCONN); /* nothing offered */
	fastpath_offer(pair->b.client);
	assert_int_equal(fastpath_attach_with(&pair->a, &wrong, &reply), -EPERM);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	assert_int_equal(fastpath_attach_with(&pair->b, &fastpath_secret, &reply), -ENOTCONN);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);

	/* Connected to it, but not it to us. */
	pair = pair_unconnected(world, &options);
	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	qp_connect(pair->a.qp, 0, pair->b.qp->qpn, &options);
	qp_connect(pair->b.qp, 0, pair->b.qp->qpn, &options);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);

	/* Each QP, and each CQ, lies in a segment of its own. */
	assert_int_not_equal(pair->a.qp->granted.state.segment, 0);
	assert_int_equal(pair->a.qp->granted.state.segment, pair->a.qp->granted.rq.segment);
	for (int i = 0; i < 2; i++) {
		struct side *side = side_new(pair->a.client, &options);

		assert_int_not_equal(side->qp->granted.state.segment,
				     pair->a.qp->granted.state.segment);
	}
	/* It wants nobody to, or wants not to. */
	options.no_fastpath = true;
	pair = pair_new(world, &options);
	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	assert_int_equal(pair->a.qp->granted.state.segment, 0);
	options.no_fastpath = false;
	pair = pair_unconnected(world, &options);
	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	options.no_fastpath = true;
	pair->b.qp = qp_new(pair->b.client, &options, pair->b.send_cq, pair->b.recv_cq, NULL);
	pair_connect(pair);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	options.no_fastpath = false;
	/* Another device, whose tables are others. */
	options.same_device = false;
	pair = pair_new(world, &options);
	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
}

/* A pair whose send completions, or receive completions, are in such a CQ. */
static struct pair *pair_over(struct world *world, uint32_t flags, bool moderated, bool receives)
{
	const struct options options = fastpath_options();
	struct pair *pair = pair_unconnected(world, &options);
	struct side *side = receives ? &pair->b : &pair->a;
	struct cq *cq = cq_new_flags(side->client, 64, flags);
	const struct simhca_modify_cq_req req = { .handle = cq->handle, .count = 2, .period = 100 };

	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	if (moderated)
		assert_int_equal(simhca_modify_cq(side->client->context, &req, NULL), 0);
	side->qp = qp_new(side->client, &options, receives ? side->send_cq : cq,
			  receives ? cq : side->recv_cq, NULL);
	pair_connect(pair);
	return pair;
}

/* What a step would not do: time stamps, events that wait, and writing over what was not read. */
static void completions_that_are_the_devices(void **state)
{
	static const struct {
		uint32_t flags;
		bool moderated;
		int result;
	} rows[] = {
		{ 0, false, 0 },
		{ SIMHCA_CQ_TIMESTAMP, false, -ENOTCONN },
		{ SIMHCA_CQ_IGNORE_OVERRUN, false, -ENOTCONN },
		{ 0, true, -ENOTCONN },
	};
	struct simhca_attach_peer_reply reply;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct pair *pair =
			pair_over(*state, rows[i / 2].flags, rows[i / 2].moderated, i % 2);

		assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply),
				 rows[i / 2].result);
	}
}

/* What a counter of either QP counts the device has to see. */
static void counters_are_the_devices(void **state)
{
	const struct options options = fastpath_options();
	struct simhca_create_comp_cntr_req create = { .type = SIMHCA_COMP_CNTR_BYTES };

	for (int i = 0; i < 2; i++) {
		struct pair *pair = pair_unconnected(*state, &options);
		struct side *side = i ? &pair->b : &pair->a;
		struct simhca_attach_comp_cntr_req attach = { .qp = side->qp->handle };
		struct simhca_create_comp_cntr_reply counter;
		struct simhca_attach_peer_reply reply;

		fastpath_offer(pair->a.client);
		fastpath_offer(pair->b.client);
		assert_int_equal(
			simhca_create_comp_cntr(side->client->context, &create, &counter, NULL), 0);
		attach.counter = counter.handle;
		attach.ops = 1u << (i ? SIMHCA_COUNTS_RECV : SIMHCA_COUNTS_SEND);
		assert_int_equal(simhca_attach_comp_cntr(side->client->context, &attach, NULL), 0);
		pair_connect(pair);
		assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply),
				 -ENOTCONN);
	}
}

/* Who is connected to the QP, and yet cannot be the other end of a step. */
static void peers_that_are_none(void **state)
{
	enum { IN_ERR, OF_ANOTHER_TYPE, OF_ANOTHER_MTU, GONE, PEERS };

	for (int i = 0; i < PEERS; i++) {
		struct options options = fastpath_options(), other = options;
		struct pair *pair = pair_unconnected(*state, &options);
		struct simhca_attach_peer_reply reply;
		struct side *b = &pair->b;

		if (i == OF_ANOTHER_TYPE)
			other.type = IBV_QPT_UC;
		if (i == OF_ANOTHER_MTU)
			other.path_mtu = IBV_MTU_256;
		fastpath_offer(pair->a.client);
		fastpath_offer(b->client);
		b->qp = qp_new(b->client, &other, b->send_cq, b->recv_cq, NULL);
		qp_connect(pair->a.qp, 0, b->qp->qpn, &options);
		qp_connect(b->qp, 0, pair->a.qp->qpn, &other);
		if (i == IN_ERR)
			assert_int_equal(qp_move(b->qp, IBV_QPS_ERR), 0);
		if (i == GONE)
			simhca_mm_gone(b->client->mm);
		assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply),
				 -ENOTCONN);
	}
}

/* What a program carries nobody would see. */
static void the_device_carries_what_is_traced(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_attach_peer_reply reply;

	simhca_fabric_tap(world->fabric, true);
	fastpath_write(pair, 8, pair->b.mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	simhca_fabric_tap(world->fabric, false);
	fastpath_detach(&step);
	step = fastpath_attach(&pair->a);
	assert_true(simhca_step(&step));
	fastpath_detach(&step);
}

/* The first message is an event, which the device raises. */
static void the_device_carries_the_first_message_in_rtr(void **state)
{
	const struct options options = fastpath_options();
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_step step;

	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	qp_connect(pair->a.qp, 0, pair->b.qp->qpn, &options);
	qp_up_to(pair->b.qp, IBV_QPS_RTR, qp_attr_to(pair->b.qp, 0, pair->a.qp->qpn, &options));
	step = fastpath_attach(&pair->a);
	fastpath_write(pair, 8, pair->b.mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(*state);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 1);
	fastpath_write(pair, 8, pair->b.mr);
	assert_true(simhca_step(&step));
	fastpath_detach(&step);
}

/* Faults are the device's: while there are rules it carries all messages. */
static void none_while_there_are_rules(void **state)
{
	const struct simhca_rule rule = { .action = SIMHCA_INJECT_DELAY, .ns = 1 };
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_attach_peer_reply reply;
	struct simhca_cqe cqe;
	uint32_t number;

	assert_int_equal(simhca_inject_add(world->fabric, &rule, &number), 0);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	rdma_write(&pair->a, 1, 0, 8, 0);
	assert_false(simhca_step(&step));
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	advance(world, 1);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	assert_true(simhca_inject_remove(world->fabric, number));
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	fastpath_detach(&step);
}

/* What belonged to one queue is not another's later. */
static void segments_are_not_used_again(void **state)
{
	struct world *world = *state;
	struct options options = fastpath_options();
	struct side *side = side_new(client_new(world, 0), &options);
	uint32_t segment = side->qp->granted.state.segment, last = segment;
	struct simhca_handle req = { .handle = side->qp->handle };
	uint64_t size;

	assert_true(simhca_context_segment(side->client->context, segment, &size) >= 0);
	/* What goes makes room for others, which nobody takes for it. */
	for (int i = 0; i < 2 * SIMHCA_MAX_OWN_SEGMENTS; i++) {
		assert_int_equal(
			patiently(simhca_destroy_qp(side->client->context, req.handle, NULL)), 0);
		assert_true(simhca_context_segment(side->client->context, last, &size) < 0);
		side->qp = qp_new(side->client, &options, side->send_cq, side->recv_cq, NULL);
		req.handle = side->qp->handle;
		assert_true(side->qp->granted.state.segment >= SIMHCA_MAX_SEGMENTS);
		assert_int_not_equal(side->qp->granted.state.segment, last);
		last = side->qp->granted.state.segment;
		assert_int_not_equal(last, segment);
	}
	/* Three are there, with the CQs'; beyond it is like any other memory. */
	for (int i = 3; i < SIMHCA_MAX_OWN_SEGMENTS + 2; i++) {
		struct qp *qp = qp_new(side->client, &options, side->send_cq, side->recv_cq, NULL);

		assert_int_equal(qp->granted.state.segment >= SIMHCA_MAX_SEGMENTS,
				 i < SIMHCA_MAX_OWN_SEGMENTS);
	}
}

/* How many of so many QPs have one; their CQ comes first. */
static uint32_t own_segments(struct client *client, const struct options *options, uint32_t qps)
{
	struct cq *cq = cq_new(client, 16);
	uint32_t own = 0;

	for (uint32_t i = 0; i < qps; i++)
		own += qp_new(client, options, cq, cq, NULL)->granted.state.segment >=
		       SIMHCA_MAX_SEGMENTS;
	return own;
}

/* One program has half of what there is, and what it gives back another can have. */
static void segments_are_shared_out(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .own_segments = 20 } };
	struct world *world = world_new(&config);
	struct options options = fastpath_options();
	struct client *one[2] = { client_new(world, 0), client_new(world, 0) };
	struct client *other = client_new(world, 0), *third = client_new(world, 0);

	*state = world;
	for (int i = 0; i < 2; i++)
		simhca_context_share(one[i]->context, 7);
	assert_int_equal(own_segments(one[0], &options, 7), 7);
	assert_int_equal(own_segments(one[1], &options, 7), 1);
	assert_int_equal(own_segments(other, &options, 20), 9);
	assert_int_equal(own_segments(third, &options, 1), 0);
	client_gone(one[0]);
	assert_int_equal(own_segments(third, &options, 10), 7);
}

static uint32_t segment_of_qp(struct client *client, const struct options *options, struct cq *cq)
{
	return qp_new(client, options, cq, cq, NULL)->granted.state.segment;
}

/* So many more like that one; numbers has all of SIMHCA_MAX_READY_SEGMENTS places. */
static void make_ready(struct client *client, uint32_t like, uint32_t right, uint32_t *numbers)
{
	uint64_t size, same;

	assert_true(simhca_context_segment(client->context, like, &size) >= 0);
	assert_int_equal(simhca_context_make_ready(client->context, like, SIMHCA_MAX_READY_SEGMENTS,
						   numbers),
			 right);
	for (uint32_t i = 0; i < right; i++) {
		assert_true(simhca_context_segment(client->context, numbers[i], &same) >= 0);
		assert_int_equal(same, size);
	}
}

/* How many of these there still are. */
static uint32_t there_are(struct client *client, const uint32_t *numbers)
{
	uint32_t count = 0;
	uint64_t size;

	for (uint32_t i = 0; i < SIMHCA_MAX_READY_SEGMENTS; i++)
		count += simhca_context_segment(client->context, numbers[i], &size) >= 0;
	return count;
}

static bool is_among(uint32_t number, const uint32_t *numbers)
{
	for (uint32_t i = 0; i < SIMHCA_MAX_READY_SEGMENTS; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* The next queues of that size get them, each one; other queues do not. */
static void segments_of_queues_to_come(void **state)
{
	uint32_t numbers[SIMHCA_MAX_READY_SEGMENTS], none[SIMHCA_MAX_READY_SEGMENTS], own, last = 0;
	struct options options = fastpath_options(), larger = options;
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 16);

	larger.max_send_wr = 8 * options.max_send_wr + 4096;
	own = segment_of_qp(client, &options, cq);
	/* What many queues lie in is nobody's. */
	make_ready(client, 0, 0, none);
	make_ready(client, own, SIMHCA_MAX_READY_SEGMENTS, numbers);
	make_ready(client, own, 0, none);
	assert_false(is_among(segment_of_qp(client, &larger, cq), numbers));
	for (uint32_t i = 0; i < SIMHCA_MAX_READY_SEGMENTS; i++) {
		own = segment_of_qp(client, &options, cq);
		assert_true(is_among(own, numbers));
		assert_int_not_equal(own, last);
		last = own;
	}
	assert_false(is_among(segment_of_qp(client, &options, cq), numbers));
}

/* A queue that there is goes before some that may come: of the same program, or of any. */
static void segments_of_queues_that_do_not_come(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .own_segments = 20 } };
	struct world *world = world_new(&config);
	struct options options = fastpath_options(), larger = options;
	struct client *one = client_new(world, 0), *other = client_new(world, 0);
	struct client *third = client_new(world, 0);
	uint32_t of_one[SIMHCA_MAX_READY_SEGMENTS], of_other[SIMHCA_MAX_READY_SEGMENTS];
	struct cq *cq = cq_new(one, 16), *others = cq_new(other, 16);

	*state = world;
	larger.max_send_wr = 8 * options.max_send_wr + 4096;
	make_ready(one, segment_of_qp(one, &options, cq), 7, of_one);
	make_ready(other, segment_of_qp(other, &options, others), 7, of_other);
	/* One has 9 of its 10. */
	assert_true(segment_of_qp(one, &larger, cq) >= SIMHCA_MAX_SEGMENTS);
	assert_int_equal(there_are(one, of_one), 7);
	assert_true(segment_of_qp(one, &larger, cq) >= SIMHCA_MAX_SEGMENTS);
	assert_int_equal(there_are(one, of_one), 0);
	assert_int_equal(there_are(other, of_other), 7);
	/* One has 4 then, the other one 9, and the third what the device has left. */
	assert_int_equal(own_segments(third, &options, 6), 6);
	assert_int_equal(there_are(other, of_other), 7);
	assert_true(segment_of_qp(one, &larger, cq) >= SIMHCA_MAX_SEGMENTS);
	assert_int_equal(there_are(other, of_other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(who_may_be_attached),
		HERE(completions_that_are_the_devices),
		HERE(counters_are_the_devices),
		HERE(peers_that_are_none),
		HERE(none_while_there_are_rules),
		HERE(the_device_carries_what_is_traced),
		HERE(the_device_carries_the_first_message_in_rtr),
		HERE(segments_are_not_used_again),
		cmocka_unit_test_teardown(segments_are_shared_out, teardown),
		HERE(segments_of_queues_to_come),
		cmocka_unit_test_teardown(segments_of_queues_that_do_not_come, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
