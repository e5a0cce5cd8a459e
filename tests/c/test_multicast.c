/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast: every attached QP on every device gets a copy, and nobody else does. */
#include "core/device.h"
#include "harness.h"
#include "proto/mcast.h"

enum { RECEIVERS = 6 };

struct group_test {
	struct side *sender;
	struct side *receiver[RECEIVERS];
};

static union simhca_gid group_gid(uint8_t number)
{
	union simhca_gid gid = { .raw = { 0xff, 0x0e } };

	gid.raw[15] = number;
	return gid;
}

static struct simhca_mcast_req membership(const struct side *side, uint8_t number)
{
	return (struct simhca_mcast_req){
		.qp = side->qp->handle,
		.lid = (uint16_t)(0xc000 + number),
		.gid = group_gid(number),
	};
}

static int attach(struct side *side, uint8_t number)
{
	struct simhca_mcast_req req = membership(side, number);

	return simhca_attach_mcast(side->client->context, &req, NULL);
}

static int detach(struct side *side, uint8_t number)
{
	struct simhca_mcast_req req = membership(side, number);

	return simhca_detach_mcast(side->client->context, &req, NULL);
}

/* Receivers alternate between the devices; 4 and 5 share a context with 0 and 1. */
static struct group_test make(struct world *world)
{
	struct options options = default_options(IBV_QPT_UD);
	struct group_test t;

	t.sender = side_new(client_new(world, 0), &options);
	qp_connect(t.sender->qp, 0, 0, &options);
	for (unsigned int i = 0; i < RECEIVERS; i++) {
		struct client *client =
			i < 4 ? client_new(world, i % 2) : t.receiver[i - 4]->client;

		t.receiver[i] = side_new(client, &options);
		qp_connect(t.receiver[i]->qp, 0, 0, &options);
		for (uint64_t id = 0; id < 10; id++)
			recv_into(t.receiver[i], id, 1000 * id, 1000);
	}
	return t;
}

static void send_to(struct group_test *t, uint8_t number, uint32_t seed)
{
	struct simhca_av av = av_to(t->sender->world, 0, 0);

	av.dgid = group_gid(number);
	av.is_global = 1;
	av.dlid = (uint16_t)(0xc000 + number);
	fill(t->sender->mr->addr, 300, seed);
	post(t->sender, .id = seed, .opcode = SIMHCA_WR_SEND, SGES(sge(t->sender->mr, 0, 300)),
	     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = 0x11111111);
	expect(t->sender->send_cq, seed, SUCCESS);
}

static void check_got(struct side *receiver, uint64_t id, uint32_t seed)
{
	struct simhca_cqe cqe = expect(receiver->recv_cq, id, SUCCESS);

	assert_int_equal(cqe.byte_len, 300 + SIMHCA_GRH_BYTES);
	assert_true(cqe.flags & SIMHCA_CQE_GRH);
	assert_true(filled(receiver->mr->addr + 1000 * id + SIMHCA_GRH_BYTES, 300, seed));
}

static void every_member_gets_a_copy(void **state)
{
	struct group_test t = make(*state);

	for (unsigned int i = 0; i < RECEIVERS - 1; i++)
		assert_int_equal(0, attach(t.receiver[i], 1));
	for (uint32_t n = 0; n < 3; n++) {
		send_to(&t, 1, n);
		for (unsigned int i = 0; i < RECEIVERS - 1; i++)
			check_got(t.receiver[i], n, n);
		expect_none(t.receiver[RECEIVERS - 1]->recv_cq);
	}
}

static void groups_are_apart(void **state)
{
	struct group_test t = make(*state);

	assert_int_equal(0, attach(t.receiver[0], 1));
	assert_int_equal(0, attach(t.receiver[1], 2));
	assert_int_equal(0, attach(t.receiver[2], 1));
	assert_int_equal(0, attach(t.receiver[2], 2));
	send_to(&t, 1, 7);
	check_got(t.receiver[0], 0, 7);
	check_got(t.receiver[2], 0, 7);
	expect_none(t.receiver[1]->recv_cq);
	send_to(&t, 2, 8);
	check_got(t.receiver[1], 0, 8);
	check_got(t.receiver[2], 1, 8);
	expect_none(t.receiver[0]->recv_cq);
	send_to(&t, 3, 9);
	for (unsigned int i = 0; i < RECEIVERS; i++)
		expect_none(t.receiver[i]->recv_cq);
}

static void detached_members_get_nothing(void **state)
{
	struct group_test t = make(*state);

	assert_int_equal(0, attach(t.receiver[0], 1));
	assert_int_equal(0, attach(t.receiver[1], 1));
	assert_int_equal(0, detach(t.receiver[0], 1));
	send_to(&t, 1, 7);
	expect_none(t.receiver[0]->recv_cq);
	check_got(t.receiver[1], 0, 7);
	/* Attached again, it is a member again. */
	assert_int_equal(0, attach(t.receiver[0], 1));
	send_to(&t, 1, 8);
	check_got(t.receiver[0], 0, 8);
}

/* Attaching twice is one membership: one copy of each message. */
static void attaching_twice_gives_one_copy(void **state)
{
	struct group_test t = make(*state);

	assert_int_equal(0, attach(t.receiver[0], 1));
	attach(t.receiver[0], 1);
	send_to(&t, 1, 7);
	check_got(t.receiver[0], 0, 7);
	expect_none(t.receiver[0]->recv_cq);
}

static void members_that_cannot_receive_do_not_hold_up_the_others(void **state)
{
	struct group_test t = make(*state);
	struct options options = default_options(IBV_QPT_UD);
	struct side *empty = side_new(client_new(*state, 1), &options);

	qp_connect(empty->qp, 0, 0, &options); /* no receive posted */
	assert_int_equal(0, attach(empty, 1));
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(0, attach(t.receiver[i], 1));
	assert_int_equal(0, qp_move(t.receiver[1]->qp, IBV_QPS_ERR));
	assert_int_equal(0, qp_modify(t.receiver[2]->qp, SIMHCA_QP_QKEY,
				      (struct simhca_qp_attr){ .qkey = 5 }));
	send_to(&t, 1, 7);
	check_got(t.receiver[0], 0, 7);
	check_got(t.receiver[3], 0, 7);
	expect_none(t.receiver[2]->recv_cq);
	expect_none(empty->recv_cq);
}

static void destroyed_members_leave_the_group(void **state)
{
	struct group_test t = make(*state);

	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(0, attach(t.receiver[i], 1));
	assert_int_equal(0, simhca_destroy_qp(t.receiver[1]->client->context,
					      t.receiver[1]->qp->handle, NULL));
	client_gone(t.receiver[2]->client);
	send_to(&t, 1, 7);
	check_got(t.receiver[0], 0, 7);
	check_got(t.receiver[3], 0, 7);
}

static void bad_memberships_are_refused(void **state)
{
	struct options rc = default_options(IBV_QPT_RC);
	struct group_test t = make(*state);
	struct side *connected = side_new(client_new(*state, 0), &rc);
	struct simhca_mcast_req req = membership(t.receiver[0], 1);
	struct simhca_context *context = t.receiver[0]->client->context;

	assert_int_equal(-EINVAL, attach(connected, 1)); /* RC has no multicast */
	req.qp = 9999;
	assert_int_equal(-ENOENT, simhca_attach_mcast(context, &req, NULL));
	req = membership(t.receiver[0], 1);
	req.gid = device_gid(0, 0); /* unicast */
	assert_int_equal(-EINVAL, simhca_attach_mcast(context, &req, NULL));
	assert_int_equal(-EINVAL, detach(t.receiver[0], 1)); /* was never attached */
	assert_int_equal(0, attach(t.receiver[0], 1));
	assert_int_equal(-EINVAL, detach(t.receiver[1], 1));
	assert_int_equal(0, detach(t.receiver[0], 1));
	assert_int_equal(-EINVAL, detach(t.receiver[0], 1));
}

/* A group takes as many QPs of a device as it reports, and no more. */
static void a_group_has_a_limit(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 4);
	struct side side = { .client = client };
	uint32_t most =
		simhca_device_memory(((struct world *)*state)->device[0])->attr.max_mcast_qp_attach;

	options.max_send_wr = options.max_recv_wr = 1;
	for (uint32_t i = 0; i < most; i++) {
		side.qp = qp_new(client, &options, cq, cq, NULL);
		assert_int_equal(0, attach(&side, 1));
	}
	side.qp = qp_new(client, &options, cq, cq, NULL);
	assert_int_equal(-ENOMEM, attach(&side, 1));
	assert_int_equal(0, attach(&side, 2));
}

/* However many groups there are, a datagram's is found among few; and a QP leaves all of its own. */
static void many_groups(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct group_test t = make(*state);
	struct side *all = side_new(client_new(*state, 0), &options);
	struct simhca_device *device = ((struct world *)*state)->device[0];
	struct simhca_mcast_req req = membership(all, 1);
	uint32_t longest = 0;

	assert_int_equal(0, attach(t.receiver[0], 1));
	for (uint32_t i = 0; i < SIMHCA_MAX_MCAST_GRP - 1; i++) {
		req.gid.raw[4] = (uint8_t)(i >> 8);
		req.gid.raw[12] = (uint8_t)(i + 1);
		assert_int_equal(0, simhca_attach_mcast(all->client->context, &req, NULL));
	}
	for (uint32_t i = 0; i < SIMHCA_MCAST_BUCKETS; i++) {
		uint32_t length = 0;

		for (struct simhca_mcast_group *group = device->groups[i]; group; length++)
			group = group->next;
		longest = length > longest ? length : longest;
	}
	assert_in_range(longest, 1, SIMHCA_MAX_MCAST_GRP / 32);
	send_to(&t, 1, 3);
	check_got(t.receiver[0], 0, 3);
	assert_int_equal(0,
			 patiently(simhca_destroy_qp(all->client->context, all->qp->handle, NULL)));
	assert_int_equal(device->group_count, 1);
	send_to(&t, 1, 4);
	check_got(t.receiver[0], 1, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(every_member_gets_a_copy),
		ON_INFINIBAND(every_member_gets_a_copy),
		ON_ETHERNET(groups_are_apart),
		ON_ETHERNET(many_groups),
		ON_ETHERNET(detached_members_get_nothing),
		ON_ETHERNET(attaching_twice_gives_one_copy),
		ON_ETHERNET(members_that_cannot_receive_do_not_hold_up_the_others),
		ON_ETHERNET(destroyed_members_leave_the_group),
		ON_ETHERNET(bad_memberships_are_refused),
		ON_ETHERNET(a_group_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
