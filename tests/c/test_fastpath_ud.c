/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams by the fast path (libsimhca/message/step_ud.c): what comes of them is what comes of the device's.
 * Which QPs they may be sent to.
 */

#include "fastpath_ud.h"

static const struct work {
	const char *name;
	uint8_t opcode, flags;
	uint32_t count, length, sges;
	bool inlined;
} works[] = {
	{ "a send", SIMHCA_WR_SEND, SIGNALED, 1, 100, 1, false },
	{ "an empty one", SIMHCA_WR_SEND, SIGNALED, 1, 0, 1, false },
	{ "with imm", SIMHCA_WR_SEND_WITH_IMM, SIGNALED, 2, 101, 1, false },
	{ "inline", SIMHCA_WR_SEND, SIGNALED, 2, 64, 1, true },
	{ "of two parts, solicited", SIMHCA_WR_SEND, SIGNALED | SIMHCA_WQE_SOLICITED, 3, 1001, 2,
	  false },
	{ "as long as the MTU", SIMHCA_WR_SEND, SIGNALED, 1, 4096, 1, false },
	{ "short, of two parts", SIMHCA_WR_SEND, SIGNALED, 2, 64, 2, false },
	{ "unsignaled", SIMHCA_WR_SEND, 0, 3, 8, 1, false },
	{ "more than a turn takes", SIMHCA_WR_SEND, 0, 100, 8, 1, false },
};

static void put_work(struct pair *pair, const struct work *work)
{
	const uint32_t room = SIMHCA_GRH_BYTES + work->length;

	for (uint32_t i = 0; i < work->count; i++) {
		uint32_t at = i * work->length, first = work->length / work->sges;
		struct simhca_sge parts[2] = { sge(pair->a.mr, at, first),
					       sge(pair->a.mr, at + first, work->length - first) };
		/* Where the header ends is in the middle of a buffer. */
		struct simhca_sge into[2] = { sge(pair->b.mr, i * room, 30),
					      sge(pair->b.mr, i * room + 30, room - 30) };
		struct wr wr = ud_wr(&pair->a, &pair->b);

		wr.id = 1000 + i;
		wr.opcode = work->opcode;
		wr.flags = work->flags;
		wr.imm = 7 + i;
		if (work->inlined) {
			wr.inline_data = pair->a.mr->addr + at;
			wr.inline_len = work->length;
		} else {
			wr.sges = parts;
			wr.num_sge = work->sges;
		}
		side_recv(&pair->b, 2000 + i, into, 2);
		qp_put(pair->a.qp, &wr);
	}
}

static void as_the_device_does(struct world *world, uint8_t gid_index, enum queue queue)
{
	uint64_t before[SIMHCA_STATS], by_fast_path[SIMHCA_STATS], by_device[SIMHCA_STATS];

	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		const struct work *work = &works[w];
		struct pair *pair = ud_pair_by(world, gid_index, queue);
		struct pair *other = ud_pair_by(world, gid_index, queue);
		struct simhca_step step = fastpath_attach(&pair->a);
		uint32_t bytes = work->count * (SIMHCA_GRH_BYTES + work->length);

		print_message("%s\n", work->name);
		for (uint32_t round = 0; round < 3; round++) {
			for (int i = 0; i < 2; i++) {
				struct pair *one = i ? other : pair;

				memset(one->b.mr->addr, 0xee, bytes);
				fill(one->a.mr->addr, bytes, round + 1);
				put_work(one, work);
			}
			simhca_device_stats(world->device[0], before);
			assert_true(fastpath_run(&step));
			run_until_idle(world); /* nothing that it could do */
			simhca_device_stats(world->device[0], by_fast_path);
			ud_ring(&other->a);
			simhca_device_stats(world->device[0], by_device);
			for (int i = 0; i < SIMHCA_STATS; i++)
				assert_int_equal(by_fast_path[i] - before[i],
						 by_device[i] - by_fast_path[i]);
			assert_memory_equal(pair->b.mr->addr, other->b.mr->addr, bytes);
			assert_int_equal(requester_of(pair->a.qp)->psn_next,
					 requester_of(other->a.qp)->psn_next);
			assert_int_equal(requester_of(pair->a.qp)->oldest,
					 requester_of(other->a.qp)->oldest);
			assert_int_equal(ud_claimed(&pair->b), ud_claimed(&other->b));
			fastpath_same_cqes(pair->a.send_cq, other->a.send_cq);
			fastpath_same_cqes(pair->b.recv_cq, other->b.recv_cq);
		}
		assert_int_equal(step.fastpath->messages, 3 * work->count);
		for (int i = 0; i < 2; i++) {
			struct simhca_usage_sum one = fastpath_usage(i ? &pair->b : &pair->a);
			struct simhca_usage_sum same = fastpath_usage(i ? &other->b : &other->a);

			assert_memory_equal(&one, &same, sizeof(one));
		}
		check_works(pair); /* the device finds what the fast path has left */
		fastpath_detach(&step);
	}
}

static void what_the_device_does_by_ipv4(void **state)
{
	as_the_device_does(*state, 0, OWN);
}

static void what_the_device_does_by_ipv6(void **state)
{
	as_the_device_does(*state, 1, OWN);
}

static void what_the_device_does_with_an_srq(void **state)
{
	as_the_device_does(*state, 0, SHARED);
}

static int setup_ib(void **state)
{
	*state = world_new(
		&(struct world_config){ .infiniband = true, .device = { .fast_path = true } });
	return 0;
}

static void who_may_be_attached(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_find_peer_req find = { .qp = pair->a.qp->handle,
					     .av = av_to(*state, 0, 0),
					     .dest_qpn = pair->b.qp->qpn };
	struct simhca_context *context = pair->a.client->context;
	struct simhca_find_peer_req wrong = find;
	struct simhca_find_peer_reply found;
	struct simhca_attach_peer_reply reply;
	struct simhca_secret guess = fastpath_secret;
	struct options options = pair->b.options;
	struct pair *other;

	assert_int_equal(simhca_find_peer(context, &find, &found, NULL), 0);
	guess.word[1]++;
	assert_int_equal(fastpath_attach_with(&pair->a, &guess, &reply), -EPERM);
	wrong.dest_qpn++;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong.dest_qpn = SIMHCA_MCAST_QPN;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong = find;
	wrong.av = av_to(*state, 1, 0); /* another port's */
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	wrong = find;
	wrong.av.sgid_index = 6;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	options.srq_wr = 16;
	other = fastpath_pair(*state, &options);
	wrong = find;
	wrong.dest_qpn = other->b.qp->qpn;
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), 0);
	/* The ring is another then, and the device's alone. */
	assert_int_equal(srq_modify(other->b.srq, SIMHCA_SRQ_MAX_WR, 500, 0), 0);
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	options = fastpath_options();
	wrong.dest_qpn = fastpath_pair(*state, &options)->b.qp->qpn; /* RC */
	assert_int_equal(simhca_find_peer(context, &wrong, &found, NULL), -ENOTCONN);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(simhca_find_peer(context, &find, &found, NULL), -ENOTCONN);
}

/* One that only receives need not be in RTS. */
static void who_only_receives(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step;

	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	qp_up_to(pair->b.qp, IBV_QPS_RTR, qp_attr_to(pair->b.qp, 0, 0, &pair->b.options));
	step = fastpath_attach(&pair->a);
	ud_receive(pair, 0);
	ud_receive(pair, 1);
	for (uint64_t id = 0; id < 2; id++) {
		ud_send(&pair->a, LENGTH);
		assert_true(fastpath_run(&step));
		expect(pair->b.recv_cq, id, SUCCESS);
		if (!id) /* nor does it end anything to go there */
			assert_int_equal(
				qp_modify(pair->b.qp, rts_mask(IBV_QPT_UD),
					  (struct simhca_qp_attr){ .qp_state = IBV_QPS_RTS }),
				0);
	}
	fastpath_detach(&step);
}

static void to_many(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step *to[SIMHCA_MAX_DESTINATIONS], steps[SIMHCA_MAX_DESTINATIONS];
	struct simhca_attach_peer_reply reply;
	struct side *side[SIMHCA_MAX_DESTINATIONS + 1];
	const struct simhca_send_wqe *unknown;
	struct simhca_sge from = sge(pair->a.mr, 0, LENGTH);

	for (uint32_t i = 0; i < ARRAY_SIZE(side); i++)
		side[i] = ud_another(pair);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++) {
		steps[i] = fastpath_attach_to(&pair->a, side[i]);
		to[i] = &steps[i];
	}
	pair->a.peer = side[SIMHCA_MAX_DESTINATIONS];
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOSPC);
	for (uint32_t i = 0; i < ARRAY_SIZE(side); i++) {
		struct wr wr = ud_wr(&pair->a, side[i]);

		wr.sges = &from;
		wr.num_sge = 1;
		recv_into(side[i], i, 0, BUFFER);
		qp_put(pair->a.qp, &wr);
	}
	assert_false(simhca_step_datagrams(to, ARRAY_SIZE(to), &unknown));
	assert_non_null(unknown);
	assert_int_equal(unknown->ud.dest_qpn, pair->a.peer->qp->qpn);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++)
		expect(side[i]->recv_cq, i, SUCCESS);
	expect_none(pair->a.peer->recv_cq);
	ud_ring(&pair->a);
	expect(pair->a.peer->recv_cq, SIMHCA_MAX_DESTINATIONS, SUCCESS);
	for (uint32_t i = 0; i < ARRAY_SIZE(to); i++)
		fastpath_detach(to[i]);
	/* Whoever goes gives its place. */
	assert_int_equal(
		patiently(simhca_destroy_qp(side[3]->client->context, side[3]->qp->handle, NULL)),
		0);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
}

/* So many senders, of which each gives its number back. */
static void from_many(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_attach_peer_reply reply;
	struct client *client = client_new(*state, 0);
	struct options options = pair->a.options;
	struct side *side = NULL, *first = NULL;
	int err = 0;
	uint32_t count;

	options.buffer = 4096;
	options.max_send_wr = options.max_recv_wr = options.cqe = 4;
	fastpath_offer(client);
	for (count = 0; !err; count++) {
		side = side_new(client, &options);
		first = first ? first : side;
		side->peer = &pair->b;
		qp_up_to(side->qp, IBV_QPS_RTS, qp_attr_to(side->qp, 0, pair->b.qp->qpn, &options));
		err = fastpath_attach_with(side, &fastpath_secret, &reply);
		assert_true(err || reply.claimant == SIMHCA_CLAIMANT_DEVICE + 1 + count);
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(count, SIMHCA_SRQ_CLAIMANTS);
	assert_int_equal(patiently(simhca_destroy_qp(client->context, first->qp->handle, NULL)), 0);
	assert_int_equal(fastpath_attach_with(side, &fastpath_secret, &reply), 0);
	assert_int_equal(reply.claimant, SIMHCA_CLAIMANT_DEVICE + 1);
}

/* A QP more of b's client and of its SRQ. */
static struct side *another_of_the_srq(struct pair *pair)
{
	struct side *other = world_alloc(pair->a.world, sizeof(*other));
	struct options options = pair->b.options;

	options.srq_wr = 0;
	side_make(other, pair->b.client, &options, pair->b.srq);
	qp_up_to(other->qp, IBV_QPS_RTS, qp_attr_to(other->qp, 0, pair->a.qp->qpn, &options));
	run_until_idle(pair->a.world);
	return other;
}

/* Those that send to QPs of an SRQ have numbers there, which they give back, and the QPs as well.
 */
static void numbers_in_an_srq(void **state)
{
	struct pair *pair = ud_pair_by(*state, 0, SHARED);
	struct side *sibling = another_of_the_srq(pair), *other = ud_another(pair);
	struct simhca_attach_peer_reply reply;
	struct simhca_step steps[3], *to[2] = { &steps[0], &steps[1] };
	const struct simhca_send_wqe *unknown;
	struct simhca_cqe cqe;

	steps[0] = fastpath_attach(&pair->a);
	steps[1] = fastpath_attach_to(&pair->a, sibling);
	steps[2] = fastpath_attach(other);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(steps[i].peer.claimant, i + 1);
	/* Each has its own of what is in the SRQ. */
	for (uint64_t id = 0; id < 6; id++)
		ud_receive(pair, id);
	for (uint32_t i = 0; i < 4; i++) {
		pair->a.peer = i % 2 ? sibling : &pair->b;
		ud_send(&pair->a, LENGTH);
		if (i % 2)
			ud_send(other, LENGTH);
	}
	assert_true(simhca_step_datagrams(to, 2, &unknown));
	assert_true(fastpath_run(&steps[2]));
	for (uint64_t i = 0; i < 6; i++) {
		const bool is_siblings = i == 1 || i == 3;

		assert_true(cq_poll(is_siblings ? sibling->recv_cq : pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.wr_id, i);
		assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_GRH);
	}
	/* One goes to whom it sent; and one who sent. */
	assert_int_equal(
		patiently(simhca_destroy_qp(sibling->client->context, sibling->qp->handle, NULL)),
		0);
	pair->a.peer = another_of_the_srq(pair);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	assert_int_equal(reply.claimant, 2);
	client_gone(pair->a.client);
	other->peer = pair->a.peer;
	assert_int_equal(fastpath_attach_with(other, &fastpath_secret, &reply), 0);
	assert_int_equal(reply.claimant, 1);
	for (uint32_t i = 0; i < 3; i++)
		fastpath_detach(&steps[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_the_device_does_by_ipv4),
		cmocka_unit_test_setup_teardown(what_the_device_does_by_ipv4, setup_ib, teardown),
		HERE(what_the_device_does_by_ipv6),
		HERE(what_the_device_does_with_an_srq),
		HERE(who_may_be_attached),
		HERE(who_only_receives),
		HERE(to_many),
		HERE(from_many),
		HERE(numbers_in_an_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
