/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Limits: what the configuration says is reported, enforced, and given back when objects go. */
#include "core/context.h"
#include "core/handles.h"
#include "harness.h"
#include "simhca-info.h"

static struct world *small_world(void)
{
	return world_new(&(struct world_config){
		.device = { .max_qp = 3,
			    .max_cq = 4,
			    .max_srq = 2,
			    .max_mr = 5,
			    .max_pd = 3,
			    .max_ah = 2,
			    .max_qp_wr = 100,
			    .max_sge = 3,
			    .max_inline = 48,
			    .max_cqe = 200 },
	});
}

static void the_configured_limits_are_reported(void **state)
{
	struct world *world = small_world();
	const struct simhca_device_attr *attr = &simhca_device_memory(world->device[0])->attr;

	assert_int_equal(attr->max_qp, 3);
	assert_int_equal(attr->max_cq, 4);
	assert_int_equal(attr->max_srq, 2);
	assert_int_equal(attr->max_mr, 5);
	assert_int_equal(attr->max_pd, 3);
	assert_int_equal(attr->max_ah, 2);
	assert_int_equal(attr->max_qp_wr, 100);
	assert_int_equal(attr->max_sge, 3);
	assert_int_equal(attr->max_inline, 48);
	assert_int_equal(attr->max_cqe, 200);
	world_free(world);
}

static int try_pd(struct client *client)
{
	struct simhca_handle reply;

	return simhca_alloc_pd(client->context, &reply, NULL);
}

static int try_cq(struct client *client, uint32_t cqe)
{
	struct simhca_create_cq_reply reply;

	return simhca_create_cq(client->context, &(struct simhca_create_cq_req){ .cqe = cqe },
				&reply, NULL);
}

static int try_srq(struct client *client)
{
	struct simhca_create_srq_reply reply;

	return simhca_create_srq(
		client->context,
		&(struct simhca_create_srq_req){ .pd = client->pd, .max_wr = 1, .max_sge = 1 },
		&reply, NULL);
}

static int try_ah(struct client *client)
{
	struct simhca_handle reply;

	return simhca_create_ah(client->context,
				&(struct simhca_create_ah_req){ .pd = client->pd,
								.av = av_to(client->world, 1, 0) },
				&reply, NULL);
}

static int try_qp(struct client *client, struct cq *cq)
{
	struct simhca_create_qp_reply reply;

	return simhca_create_qp(client->context,
				&(struct simhca_create_qp_req){ .type = IBV_QPT_RC,
								.pd = client->pd,
								.send_cq = cq->handle,
								.recv_cq = cq->handle,
								.max_send_wr = 1,
								.max_recv_wr = 1,
								.max_send_sge = 1,
								.max_recv_sge = 1 },
				&reply, NULL);
}

static int try_mw(struct client *client)
{
	struct simhca_alloc_mw_reply reply;

	return simhca_alloc_mw(client->context,
			       &(struct simhca_alloc_mw_req){ .pd = client->pd,
							      .type = IBV_MW_TYPE_2 },
			       &reply, NULL);
}

/* Objects of one device count together, whichever context has them, and are given back with it. */
static void each_limit_is_enforced_and_given_back(void **state)
{
	struct world *world = small_world();
	struct options options = default_options(IBV_QPT_RC);
	uint8_t *memory = world_alloc(world, 64);

	options.max_send_sge = options.max_recv_sge = 2;
	options.max_inline = 32;
	for (int lap = 0; lap < 3; lap++) {
		struct client *one = client_new(world, 0), *two = client_new(world, 0);
		struct simhca_reg_mr_reply mr_reply;
		struct cq *cq;

		assert_int_equal(0, try_pd(one)); /* each client has one already */
		assert_int_equal(-ENOMEM, try_pd(one));
		assert_int_equal(-ENOMEM, try_pd(two));

		cq = cq_new(one, 200);
		assert_int_equal(-EINVAL, try_cq(one, 201));
		assert_int_equal(0, try_cq(one, 1));
		assert_int_equal(0, try_cq(one, 1));
		assert_int_equal(0, try_cq(two, 1));
		assert_int_equal(-ENOMEM, try_cq(one, 1));
		assert_int_equal(-ENOMEM, try_cq(two, 1));

		assert_int_equal(0, try_srq(one));
		assert_int_equal(0, try_srq(two));
		assert_int_equal(-ENOMEM, try_srq(one));

		assert_int_equal(0, try_ah(one));
		assert_int_equal(0, try_ah(two));
		assert_int_equal(-ENOMEM, try_ah(two));

		for (int i = 0; i < 5; i++)
			assert_int_equal(0, mr_try(i % 2 ? one : two, i % 2 ? one->pd : two->pd,
						   memory, 64, 0, 0, &mr_reply));
		assert_int_equal(-ENOMEM, mr_try(one, one->pd, memory, 64, 0, 0, &mr_reply));

		for (int i = 0; i < 3; i++)
			qp_new(one, &options, cq, cq, NULL);
		assert_int_equal(-ENOMEM, try_qp(one, cq));
		client_gone(one);
		client_gone(two);
	}
	world_free(world);
}

/* As many as there are by default, in one process; twice, as what has gone makes room. */
static void the_defaults_can_be_reached(void **state)
{
	struct world *world = *state;
	const struct simhca_device_attr *attr = &simhca_device_memory(world->device[0])->attr;
	uint8_t *memory = world_alloc(world, 64);

	assert_int_equal(attr->max_qp, SIMHCA_MAX_QP);
	for (int lap = 0; lap < 2; lap++) {
		struct client *client = client_new(world, 0);
		struct cq *cq = cq_new(client, 1);
		struct simhca_reg_mr_reply mr;

		for (uint32_t i = 1; i < attr->max_pd; i++) /* the client has one already */
			assert_int_equal(0, try_pd(client));
		assert_int_equal(-ENOMEM, try_pd(client));
		for (uint32_t i = 1; i < attr->max_cq; i++)
			assert_int_equal(0, try_cq(client, 1));
		assert_int_equal(-ENOMEM, try_cq(client, 1));
		for (uint32_t i = 0; i < attr->max_srq; i++)
			assert_int_equal(0, try_srq(client));
		assert_int_equal(-ENOMEM, try_srq(client));
		for (uint32_t i = 0; i < attr->max_ah; i++)
			assert_int_equal(0, try_ah(client));
		assert_int_equal(-ENOMEM, try_ah(client));
		/* Not all three: keys share an index space, and each QP that goes asks each window.
		 */
		for (uint32_t i = 0; lap == 0 && i < attr->max_mr; i++)
			assert_int_equal(0, mr_try(client, client->pd, memory, 64, 0, 0, &mr));
		for (uint32_t i = 0; lap == 0 && i < attr->max_qp; i++)
			assert_int_equal(0, try_qp(client, cq));
		for (uint32_t i = 0; lap == 1 && i < attr->max_mw; i++)
			assert_int_equal(0, try_mw(client));
		if (lap == 0) {
			assert_int_equal(-ENOMEM,
					 mr_try(client, client->pd, memory, 64, 0, 0, &mr));
			assert_int_equal(-ENOMEM, try_qp(client, cq));
		} else {
			assert_int_equal(-ENOMEM, try_mw(client));
		}
		client_gone(client);
	}
}

static void sizes_above_the_limits_are_refused(void **state)
{
	struct world *world = small_world();
	struct client *client = client_new(world, 0);
	struct cq *cq = cq_new(client, 10);
	struct simhca_create_qp_req good = {
		.type = IBV_QPT_RC,
		.pd = client->pd,
		.send_cq = cq->handle,
		.recv_cq = cq->handle,
		.max_send_wr = 100,
		.max_recv_wr = 100,
		.max_send_sge = 3,
		.max_recv_sge = 3,
		.max_inline = 48,
	};
	struct simhca_create_qp_reply reply;
	struct simhca_create_qp_req bad;
	struct simhca_counts counts;

#define REFUSED(error, field, value)                                                               \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = value;                                                                 \
		assert_int_equal(-(error), simhca_create_qp(client->context, &bad, &reply, NULL)); \
	} while (0)
	REFUSED(EINVAL, max_send_wr, 101);
	REFUSED(EINVAL, max_send_wr, UINT32_MAX);
	REFUSED(EINVAL, max_recv_wr, 101);
	REFUSED(EINVAL, max_recv_wr, UINT32_MAX);
	REFUSED(EINVAL, max_send_sge, 4);
	REFUSED(EINVAL, max_send_sge, UINT32_MAX);
	REFUSED(EINVAL, max_recv_sge, 4);
	REFUSED(EINVAL, max_recv_sge, UINT32_MAX);
	REFUSED(EINVAL, max_inline, 49);
	REFUSED(EINVAL, max_inline, UINT32_MAX);
	REFUSED(ENOENT, pd, 12345);
	REFUSED(ENOENT, send_cq, 12345);
	REFUSED(ENOENT, recv_cq, UINT32_MAX);
#undef REFUSED
	bad = good;
	bad.has_srq = 1;
	bad.srq = 99;
	assert_int_equal(-ENOENT, simhca_create_qp(client->context, &bad, &reply, NULL));
	bad = good;
	bad.type = 99;
	assert_true(simhca_create_qp(client->context, &bad, &reply, NULL) < 0);
	assert_int_equal(0, simhca_create_qp(client->context, &good, &reply, NULL));
	simhca_context_counts(client->context, &counts);
	assert_int_equal(counts.qps, 1);
	world_free(world);
}

static void refusals_say_why(void **state)
{
	struct world *world = small_world();
	struct client *client = client_new(world, 0);
	struct simhca_create_cq_reply reply;
	struct simhca_why why = { .text = "" };

	assert_int_equal(-EINVAL, simhca_create_cq(client->context,
						   &(struct simhca_create_cq_req){ .cqe = 201 },
						   &reply, &why));
	assert_non_null(strstr(why.text, "201"));
	world_free(world);
}

static void bad_devices_are_refused(void **state)
{
	struct world *world = *state;
	const struct simhca_device_config good = { .name = "x", .node_guid = 77, .mtu = 1024 };
	struct simhca_device_config bad;
	struct simhca_device *device;
	struct simhca_why why;

#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = value;                                                                 \
		assert_null(simhca_device_create(world->fabric, &bad, &why));                      \
		assert_true(strlen(why.text) > 0);                                                 \
	} while (0)
	REFUSED(node_guid, 0);
	REFUSED(mtu, 0);
	REFUSED(mtu, 1000);
	REFUSED(mtu, 8192);
	REFUSED(infiniband, true); /* without a LID */
	REFUSED(max_qp, SIMHCA_MAX_QP + 1);
	REFUSED(max_qp_wr, SIMHCA_MAX_QP_WR + 1);
	REFUSED(max_sge, SIMHCA_MAX_SGE + 1);
	REFUSED(max_inline, SIMHCA_MAX_INLINE + 1);
	REFUSED(max_cqe, (uint32_t)SIMHCA_MAX_CQE + 1);
#undef REFUSED
	device = simhca_device_create(world->fabric, &good, &why);
	assert_non_null(device);
	simhca_device_destroy(device);
}

/* What a client maps of the device cannot be written by it. */
static void device_memory_is_the_contracts(void **state)
{
	struct world *world = *state;
	const struct simhca_devmem *mem = simhca_device_memory(world->device[0]);
	char byte = 0;

	assert_int_equal(mem->abi_version, SIMHCA_ABI_VERSION);
	assert_int_equal(mem->fatal, 0);
	assert_true(mem->qpc_offset + SIMHCA_MAX_QP * sizeof(struct simhca_qpc) <= mem->size);
	assert_true(mem->mpt_offset + SIMHCA_MPT_ENTRIES * sizeof(struct simhca_mpt) <= mem->size);
	assert_int_equal(mem->pkeys[0], SIMHCA_DEFAULT_PKEY);
	assert_memory_equal(&mem->gids[0].gid, device_gid(0, 0).raw, 16);
	assert_int_equal(-1, pwrite(simhca_device_memory_fd(world->device[0]), &byte, 1, 0));
	assert_int_equal(-1, ftruncate(simhca_device_memory_fd(world->device[0]), 0));
}

/* The QPC that clients read says what the QP is. */
static void the_qpc_shows_the_qp(void **state)
{
	struct world *world = *state;
	const struct simhca_devmem *mem = simhca_device_memory(world->device[0]);
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(world, &options);
	const struct simhca_qpc *qpc =
		(const void *)((const char *)mem + mem->qpc_offset +
			       SIMHCA_QPN_SLOT(pair->a.qp->qpn) * sizeof(*qpc));

	assert_int_equal(qpc->qpn, pair->a.qp->qpn);
	assert_int_equal(qpc->state, IBV_QPS_RTS);
	assert_int_equal(qpc->dest_qpn, pair->b.qp->qpn);
	assert_int_equal(qpc->type, IBV_QPT_RC);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	assert_int_equal(qpc->state, IBV_QPS_ERR);
	assert_int_equal(0, simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL));
	assert_int_equal(qpc->qpn, 0);
}

/* The port's comings and goings reach every context. */
static void port_and_gid_events(void **state)
{
	struct world *world = *state;
	struct client *one = client_new(world, 0), *two = client_new(world, 0);
	struct client *other = client_new(world, 1);
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	const void *port = (void *)1;

	simhca_device_set_port(world->device[0], false);
	assert_int_equal(events_of(one, port, IBV_EVENT_PORT_ERR), 1);
	assert_int_equal(events_of(two, port, IBV_EVENT_PORT_ERR), 1);
	assert_int_equal(simhca_device_memory(world->device[0])->port.state, IBV_PORT_DOWN);
	simhca_device_set_port(world->device[0], false);
	assert_int_equal(events_of(one, port, IBV_EVENT_PORT_ERR), 1);
	simhca_device_set_port(world->device[0], true);
	assert_int_equal(events_of(two, port, IBV_EVENT_PORT_ACTIVE), 1);
	assert_int_equal(simhca_device_memory(world->device[0])->port.state, IBV_PORT_ACTIVE);
	gids[0].gid = device_gid(0, 1);
	gids[0].type = SIMHCA_GID_ROCE_V2;
	simhca_device_set_gids(world->device[0], gids);
	assert_int_equal(events_of(one, port, IBV_EVENT_GID_CHANGE), 1);
	assert_int_equal(events_of(two, port, IBV_EVENT_GID_CHANGE), 1);
	assert_int_equal(other->num_events, 0);
}

/* A QPN that is given back is not given again at once with the same generation. */
static void qpns_do_not_repeat_soon(void **state)
{
	struct client *client = client_new(*state, 0);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(client, 4);
	uint32_t last[4] = { 0 };

	options.max_send_wr = options.max_recv_wr = 1;
	for (int i = 0; i < 1000; i++) {
		struct qp *qp = qp_new(client, &options, cq, cq, NULL);

		assert_true(qp->qpn > 1 && qp->qpn < SIMHCA_MCAST_QPN);
		for (size_t j = 0; j < ARRAY_SIZE(last); j++)
			assert_int_not_equal(qp->qpn, last[j]);
		last[i % 4] = qp->qpn;
		assert_int_equal(0, simhca_destroy_qp(client->context, qp->handle, NULL));
	}
}

/* Nor when all slots have been in use: a late packet does not find the slot's next owner. */
static void a_slot_has_another_number_each_time(void **state)
{
	struct simhca_numbers numbers = { 0 };
	bool *seen = calloc(SIMHCA_QPN_MASK + 1, sizeof(*seen));

	(void)state;
	assert_non_null(seen);
	assert_true(simhca_numbers_init(&numbers, 32));
	for (int i = 0; i < 1000; i++) { /* 24 bits are good for 100 uses of a slot */
		uint32_t number = simhca_number_alloc(&numbers);

		assert_true(number && number <= SIMHCA_QPN_MASK);
		assert_false(seen[number]);
		seen[number] = true;
		simhca_number_release(&numbers, number);
	}
	simhca_numbers_free(&numbers);
	free(seen);
}

static uint32_t number_of_cq(const struct client *client, uint32_t handle)
{
	struct simhca_cq_info info;

	assert_true(simhca_next_cq(client->context, &handle, &info));
	return info.number;
}

/* Numbers begin anew after the last one, and pass over those that are in use. */
static void a_number_in_use_is_not_given_again(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	struct simhca_numbers *numbers = &client->context->device->cqns;
	const struct cq *held = cq_new(client, 4), *last, *first;
	struct simhca_numbers few = { 0 };

	assert_int_equal(number_of_cq(client, held->handle), 1);
	numbers->next = numbers->slots - 2;
	last = cq_new(other, 4);
	assert_int_equal(number_of_cq(other, last->handle), numbers->slots - 2);
	first = cq_new(other, 4);
	assert_int_equal(number_of_cq(other, first->handle), 2);
	assert_int_equal(0, patiently(simhca_destroy_cq(client->context, held->handle, NULL)));
	numbers->next = 1;
	assert_int_equal(number_of_cq(other, cq_new(other, 4)->handle), 1);
	assert_true(simhca_numbers_init_plain(&few, 8));
	for (uint32_t i = 1; i < 7; i++)
		assert_int_equal(simhca_number_alloc(&few), i);
	assert_int_equal(simhca_number_alloc(&few), 0);
	simhca_number_release(&few, 3);
	assert_int_equal(simhca_number_alloc(&few), 3);
	simhca_numbers_free(&few);
}

static int join(const struct qp *qp, uint32_t group)
{
	struct simhca_mcast_req req = { .qp = qp->handle, .gid.raw = { 0xff, 0x0e } };

	req.gid.raw[14] = (uint8_t)(group >> 8);
	req.gid.raw[15] = (uint8_t)group;
	return simhca_attach_mcast(qp->client->context, &req, NULL);
}

static void a_device_has_so_many_multicast_groups(void **state)
{
	struct client *client = client_new(*state, 0);
	struct options options = default_options(IBV_QPT_UD);
	struct world *world = *state;
	uint32_t most = simhca_device_memory(world->device[0])->attr.max_mcast_grp;
	struct cq *cq = cq_new(client, 4);
	struct qp *qp = qp_new(client, &options, cq, cq, NULL);

	for (uint32_t group = 0; group < most; group++)
		assert_int_equal(0, join(qp, group));
	assert_int_equal(-ENOMEM, join(qp, most));
	assert_int_equal(0, join(qp, most - 1));
	assert_int_equal(0, simhca_destroy_qp(client->context, qp->handle, NULL));
	qp = qp_new(client, &options, cq, cq, NULL);
	assert_int_equal(0, join(qp, most));
}

/*
 * The queues of 65,536 QPs need more than 256 segments of the size that does for a few: of the
 * largest queues it takes only hundreds to see that segments grow. Memory that is not used costs
 * nothing.
 */
static void a_context_has_room_for_the_queues_of_many_qps(void **state)
{
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new(client, 16);
	const struct simhca_create_qp_req largest = {
		.type = IBV_QPT_RC,
		.pd = client->pd,
		.send_cq = cq->handle,
		.recv_cq = cq->handle,
		.max_send_wr = SIMHCA_MAX_QP_WR,
		.max_recv_wr = SIMHCA_MAX_QP_WR,
		.max_send_sge = SIMHCA_MAX_SGE,
		.max_recv_sge = SIMHCA_MAX_SGE,
		.max_inline = SIMHCA_MAX_INLINE,
	};
	struct simhca_create_qp_reply reply;
	struct simhca_why why = { "" };

	for (uint32_t i = 0; i < 400; i++) {
		if (simhca_create_qp(client->context, &largest, &reply, &why))
			fail_msg("QP %u: %s", i, why.text);
		assert_true(reply.rq.segment < SIMHCA_MAX_SEGMENTS / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_configured_limits_are_reported),
		cmocka_unit_test(each_limit_is_enforced_and_given_back),
		ON_ETHERNET(the_defaults_can_be_reached),
		cmocka_unit_test(sizes_above_the_limits_are_refused),
		cmocka_unit_test(refusals_say_why),
		ON_ETHERNET(bad_devices_are_refused),
		ON_ETHERNET(device_memory_is_the_contracts),
		ON_ETHERNET(the_qpc_shows_the_qp),
		ON_ETHERNET(port_and_gid_events),
		ON_ETHERNET(qpns_do_not_repeat_soon),
		cmocka_unit_test(a_slot_has_another_number_each_time),
		ON_ETHERNET(a_number_in_use_is_not_given_again),
		ON_ETHERNET(a_device_has_so_many_multicast_groups),
		ON_ETHERNET(a_context_has_room_for_the_queues_of_many_qps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
