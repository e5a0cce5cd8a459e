/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Target QPs of XRC that several processes share (IBTA vol. 1, annex A14): how long they live. */
#include "xrc_scene.h"

/* More than one round of the engine carries. */
#define LONG (20u << 20)

static void anybody_in_the_domain_may_open_it(void **state)
{
	struct world *world = *state;
	struct scene *s = make(world);
	struct client *stranger = client_new(world, 1), *third = client_new(world, 1);
	struct options rc = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(stranger, 4);
	struct qp *qp = qp_new(stranger, &rc, cq, cq, NULL), *opened;
	uint32_t other = xrcd_open(stranger, -1), here;
	int file = xrcd_file();

	/* Who is not in the domain cannot, nor can anybody open what is no target. */
	assert_int_equal(-EINVAL, target_try(stranger, other, s->server[0].target->qpn, &opened));
	assert_int_equal(-EINVAL, target_try(stranger, other, qp->qpn, &opened));
	here = xrcd_open(third, file);
	assert_int_equal(-EINVAL, target_try(third, here, s->server[0].target->qpn, &opened));
	close(file);
	/* All handles are of one QP: each may change it, and all see it. */
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_RESET));
	assert_int_equal(qp_state(s->server[0].target), IBV_QPS_RESET);
	qp_up_to(s->server[0].target, IBV_QPS_INIT,
		 qp_attr_to(s->server[0].target, 0, s->qp->qpn, &s->options));
	assert_int_equal(qp_query(s->server[1].target).qp_access_flags, s->options.access);
	/* One process may have it open several times. */
	opened = target_open(s->server[1].client, s->server[1].xrcd, s->server[0].target->qpn);
	assert_int_not_equal(opened->handle, s->server[1].target->handle);
	assert_int_equal(0, target_close(s->server[1].target));
	assert_int_equal(qp_state(opened), IBV_QPS_INIT);
}

static void the_target_outlives_its_maker(void **state)
{
	struct scene *s = make(*state);
	uint32_t qpn = s->server[0].target->qpn;

	check_arrives(s, &s->server[0], 1);
	client_gone(s->server[0].client);
	for (uint64_t id = 0; id < 10; id++)
		check_arrives(s, &s->server[1], id);
	/* The SRQ of who is gone is gone; that ends the connection, as any bad request does. */
	send_to(s, 1, s->server[0].srq->srqn);
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
	run_until_idle(*state);
	assert_int_equal(
		events_of(s->server[1].client, s->server[1].target, IBV_EVENT_QP_ACCESS_ERR), 1);
	/* It can be connected again. */
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
	qp_connect(s->server[1].target, 0, s->qp->qpn, &s->options);
	s->options.type = IBV_QPT_XRC_SEND;
	qp_connect(s->qp, 1, qpn, &s->options);
	check_arrives(s, &s->server[1], 3);
}

static void it_goes_with_the_last_who_has_it_open(void **state)
{
	struct scene *s = make(*state);

	assert_int_equal(0, target_close(s->server[0].target));
	check_arrives(s, &s->server[0], 1); /* its SRQ is not the QP's */
	client_gone(s->server[1].client);
	supply(&s->server[0], 1);
	send_to(s, 1, s->server[0].srq->srqn);
	for (int n = 0; n < 100; n++)
		advance(*state, 100 * MSEC);
	expect_why(s->cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
	expect_none(s->server[0].cq);
}

static void events_go_to_all(void **state)
{
	struct scene *s = make(*state);

	assert_int_equal(0, qp_move(s->server[0].target, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
	qp_up_to(s->server[0].target, IBV_QPS_RTR,
		 qp_attr_to(s->server[0].target, 0, s->qp->qpn, &s->options));
	s->options.type = IBV_QPT_XRC_SEND;
	qp_connect(s->qp, 1, s->server[0].target->qpn, &s->options);
	check_arrives(s, &s->server[1], 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			events_of(s->server[i].client, s->server[i].target, IBV_EVENT_COMM_EST), 1);
	assert_int_equal(0, qp_move(s->server[1].target, IBV_QPS_ERR));
	for (int i = 0; i < 2; i++)
		assert_int_equal(events_of(s->server[i].client, s->server[i].target,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 1);
	assert_int_equal(events_of(s->client, s->qp, IBV_EVENT_QP_LAST_WQE_REACHED), 0);
}

/* The first packet of a message has arrived, and few others. */
static void begins(struct server *server)
{
	for (int i = 0; i < 10 && !srq_ci_of(server->srq); i++)
		rounds(server->client->world, 1);
	assert_int_equal(srq_ci_of(server->srq), 1);
}

/* A message of several turns of the engine, whose SRQ goes between two of them. */
static void the_srq_goes_in_the_middle_of_a_message(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;
	struct server *to;
	struct simhca_sge all;

	options.buffer = LONG;
	s = make_with(*state, &options);
	to = &s->server[1];
	all = sge(to->mr, 0, LONG);
	srq_recv(to->srq, 1, &all, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND, .srqn = to->srq->srqn,
		 SGES(sge(s->mr, 0, LONG)));
	begins(to);
	assert_int_equal(0,
			 patiently(simhca_destroy_srq(to->client->context, to->srq->handle, NULL)));
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
	check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	expect_none(to->cq);
}

/* The same, but the QP goes to ERR: the receive that the message had taken is flushed. */
static void the_target_fails_in_the_middle_of_a_message(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;
	struct server *to;
	struct simhca_sge all;
	struct simhca_cqe cqe;

	options.buffer = LONG;
	options.timeout = 8;
	s = make_with(*state, &options);
	to = &s->server[1];
	all = sge(to->mr, 0, LONG);
	srq_recv(to->srq, 1, &all, 1);
	srq_recv(to->srq, 2, &all, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND, .srqn = to->srq->srqn,
		 SGES(sge(s->mr, 0, LONG)));
	begins(to);
	assert_int_equal(0, qp_move(s->server[0].target, IBV_QPS_ERR));
	cqe = expect_why(to->cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ);
	assert_int_equal(cqe.wqe_index, to->srq->srqn);
	expect_none(to->cq);
	expect_none(s->server[0].cq);
}

/* Under load, with engines that run by themselves: processes come, receive a little, and go. */
static void processes_come_and_go(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct server *keeper;
	uint64_t seed = 7;
	struct scene *s;

	options.buffer = 256 * 1024;
	s = make_with(*state, &options);
	keeper = &s->server[0];

	for (int n = 0; n < 60; n++) {
		struct server guest = { .client = client_new(*state, 1) };
		struct simhca_cqe cqe;
		int status;

		guest.xrcd = xrcd_open(guest.client, -1);
		assert_int_equal(0, xrcd_close(guest.client, guest.xrcd));
		client_gone(guest.client);
		for (int i = 0; i < 32; i++)
			supply(keeper, (uint64_t)i);
		guest.client = s->server[1].client;
		guest.cq = s->server[1].cq;
		guest.mr = s->server[1].mr;
		guest.srq = xrc_srq_new(guest.client, s->server[1].xrcd, guest.cq, 64);
		/* Long messages, for the SRQ to go in the middle of one. */
		for (uint64_t i = 0; i < 16; i++) {
			struct simhca_sge all = sge(guest.mr, 0, 256 * 1024);

			srq_recv(guest.srq, i, &all, 1);
			xrc_post(s, .id = i, .opcode = SIMHCA_WR_SEND, .srqn = keeper->srq->srqn,
				 SGES(sge(s->mr, 0, 100)));
			xrc_post(s, .id = i, .opcode = SIMHCA_WR_SEND, .srqn = guest.srq->srqn,
				 SGES(sge(s->mr, 0, 256 * 1024)));
		}
		test_nap(test_random(&seed) % 300);
		assert_int_equal(0, patiently(simhca_destroy_srq(guest.client->context,
								 guest.srq->handle, NULL)));
		/* All arrived, or what came too late was refused and ended the connection. */
		status = IBV_WC_SUCCESS;
		for (int i = 0; i < 32; i++) {
			assert_true(cq_wait(s->cq, &cqe));
			if (status == IBV_WC_SUCCESS && cqe.status == IBV_WC_REM_ACCESS_ERR)
				assert_int_equal(cqe.vendor_err, SIMHCA_REASON_XRC_NO_SRQ);
			else
				assert_int_equal(cqe.status, status ? IBV_WC_WR_FLUSH_ERR : 0);
			status = cqe.status;
		}
		while (cq_poll(guest.cq, &cqe) || cq_poll(keeper->cq, &cqe))
			;
		assert_int_equal(0, qp_move(keeper->target, IBV_QPS_RESET));
		assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
		assert_int_equal(0, patiently(simhca_destroy_srq(keeper->client->context,
								 keeper->srq->handle, NULL)));
		keeper->srq = xrc_srq_new(keeper->client, keeper->xrcd, keeper->cq, 64);
		s->options.type = IBV_QPT_XRC_RECV;
		qp_connect(keeper->target, 0, s->qp->qpn, &s->options);
		s->options.type = IBV_QPT_XRC_SEND;
		qp_connect(s->qp, 1, keeper->target->qpn, &s->options);
	}
}

static struct scene *told;
static int closed_meanwhile;

static void closes_its_handle(struct client *client)
{
	const struct server *server = &told->server[client != told->server[0].client];

	closed_meanwhile = simhca_destroy_qp(client->context, server->target->handle, NULL);
}

/* Who is told of an event does not go while the others are, and nobody waits for that. */
static void an_event_is_told_without_a_lock(void **state)
{
	told = make(*state);
	told->server[1].client->on_async = closes_its_handle;
	xrc_post(told, .id = 1, .opcode = SIMHCA_WR_SEND, .srqn = 0xabcdef,
		 SGES(sge(told->mr, 0, 100)));
	expect_why(told->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
	assert_int_equal(closed_meanwhile, -EAGAIN);
	told->server[1].client->on_async = NULL;
	assert_int_equal(0, target_close(told->server[1].target));
}

int main(void)
{
#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)
	const struct CMUnitTest tests[] = {
		ON_BOTH(anybody_in_the_domain_may_open_it),
		ON_BOTH(the_target_outlives_its_maker),
		ON_BOTH(it_goes_with_the_last_who_has_it_open),
		ON_BOTH(events_go_to_all),
		ON_BOTH(the_srq_goes_in_the_middle_of_a_message),
		ON_BOTH(the_target_fails_in_the_middle_of_a_message),
		ON_ONE_THREAD(processes_come_and_go),
		ON_TWO_THREADS(processes_come_and_go),
		ON_ETHERNET(an_event_is_told_without_a_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
