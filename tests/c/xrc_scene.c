/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "xrc_scene.h"

static void server_make(struct scene *s, struct server *server, int file)
{
	server->client = client_new(s->world, 1);
	server->xrcd = xrcd_open(server->client, file);
	server->cq = cq_new(server->client, 64);
	server->srq = xrc_srq_new(server->client, server->xrcd, server->cq, 64);
	server->mr = mr_new(server->client, s->options.buffer, ALL_ACCESS);
}

static void connect_both(struct scene *s)
{
	struct options send = s->options;

	send.type = IBV_QPT_XRC_SEND;
	qp_connect(s->server[0].target, 0, s->qp->qpn, &s->options);
	qp_connect(s->qp, 1, s->server[0].target->qpn, &send);
}

struct scene *make_with(struct world *world, const struct options *options)
{
	struct scene *s = world_alloc(world, sizeof(*s));
	struct options send = *options;
	int file = xrcd_file();

	s->world = world;
	s->options = *options;
	server_make(s, &s->server[0], file);
	server_make(s, &s->server[1], file);
	close(file);
	s->server[0].target = target_new(s->server[0].client, s->server[0].xrcd);
	s->server[1].target =
		target_open(s->server[1].client, s->server[1].xrcd, s->server[0].target->qpn);

	send.type = IBV_QPT_XRC_SEND;
	s->client = client_new(world, 0);
	s->cq = cq_new(s->client, 256);
	s->mr = mr_new(s->client, options->buffer, ALL_ACCESS);
	s->qp = qp_new(s->client, &send, s->cq, s->cq, NULL);
	connect_both(s);
	return s;
}

void reconnect(struct scene *s)
{
	assert_int_equal(0, qp_move(s->qp, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(s->server[0].target, IBV_QPS_RESET));
	connect_both(s);
}

struct scene *make(struct world *world)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);

	return make_with(world, &options);
}

void supply(struct server *server, uint64_t id)
{
	struct simhca_sge one = sge(server->mr, (id % 32) * 1024, 1024);

	srq_recv(server->srq, id, &one, 1);
}

void send_to(struct scene *s, uint64_t id, uint32_t srqn)
{
	fill(s->mr->addr, 100, (uint32_t)id);
	xrc_post(s, .id = id, .opcode = SIMHCA_WR_SEND, .srqn = srqn, SGES(sge(s->mr, 0, 100)));
}

void check_arrives(struct scene *s, struct server *server, uint64_t id)
{
	struct simhca_cqe cqe;

	supply(server, id);
	send_to(s, id, server->srq->srqn);
	expect(s->cq, id, SUCCESS);
	cqe = expect(server->cq, id, SUCCESS);
	assert_int_equal(cqe.opcode, SIMHCA_WC_RECV);
	assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ);
	assert_int_equal(cqe.qpn, s->server[0].target->qpn);
	assert_int_equal(cqe.wqe_index, server->srq->srqn);
	assert_int_equal(cqe.byte_len, 100);
	assert_true(filled(server->mr->addr + (id % 32) * 1024, 100, (uint32_t)id));
}

void check_refused(struct scene *s, uint32_t event)
{
	run_until_idle(s->world);
	assert_int_equal(qp_state(s->qp), IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		struct server *server = &s->server[i];

		assert_int_equal(qp_state(server->target), IBV_QPS_ERR);
		assert_int_equal(events_of(server->client, server->target, event), 1);
		assert_int_equal(events_of(server->client, server->target,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 1);
	}
}
