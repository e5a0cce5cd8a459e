/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Two QPs that talk to each other. */
#include "harness.h"

void side_make(struct side *side, struct client *client, const struct options *options,
	       struct srq *srq)
{
	side->world = client->world;
	side->client = client;
	side->options = *options;
	side->send_cq = cq_new(client, options->cqe);
	side->recv_cq = cq_new(client, options->cqe);
	side->srq = srq;
	side->qp = qp_new(client, options, side->send_cq, side->recv_cq, srq);
	if (options->memory)
		side->mr = mr_over(client, client->pd, options->memory, options->buffer,
				   (uintptr_t)options->memory, options->mr_access);
	else
		side->mr = mr_new(client, options->buffer, options->mr_access);
}

struct side *side_new(struct client *client, const struct options *options)
{
	struct side *side = world_alloc(client->world, sizeof(*side));

	side_make(side, client, options, NULL);
	return side;
}

struct pair *pair_unconnected(struct world *world, const struct options *options)
{
	struct pair *pair = world_alloc(world, sizeof(*pair));
	unsigned int other = options->same_device || options->same_context ? 0 : 1;
	struct client *client = client_new_on(world, 0, 0);
	struct options second = *options;

	if (second.memory)
		second.memory += second.buffer;
	side_make(&pair->a, client, options, NULL);
	if (!options->same_context)
		client = client_new_on(world, other, 1);
	side_make(&pair->b, client, &second,
		  options->srq_wr ? srq_new(client, options->srq_wr, 4, 0) : NULL);
	pair->a.peer = &pair->b;
	pair->b.peer = &pair->a;
	return pair;
}

static void connect_side(struct side *side)
{
	qp_connect(side->qp, side->peer->client->device_index, side->peer->qp->qpn, &side->options);
}

void pair_connect(struct pair *pair)
{
	connect_side(&pair->a);
	connect_side(&pair->b);
}

struct pair *pair_new(struct world *world, const struct options *options)
{
	struct pair *pair = pair_unconnected(world, options);

	pair_connect(pair);
	return pair;
}

void pair_reconnect(struct pair *pair)
{
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_RESET));
	pair_connect(pair);
}

void send_from(struct side *side, uint64_t id, uint64_t offset, uint32_t length)
{
	struct simhca_sge one = sge(side->mr, offset, length);
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_SEND,
		.flags = SIMHCA_WQE_SIGNALED,
		.sges = &one,
		.num_sge = 1,
	};

	if (side->qp->type == IBV_QPT_UD) {
		wr.av = av_to(side->world, side->peer->client->device_index,
			      side->options.gid_index);
		wr.dest_qpn = side->peer->qp->qpn;
		wr.qkey = side->peer->options.qkey;
	}
	qp_post(side->qp, &wr);
}

void side_recv(struct side *side, uint64_t id, const struct simhca_sge *sges, uint32_t num_sge)
{
	if (side->srq)
		srq_recv(side->srq, id, sges, num_sge);
	else
		qp_recv(side->qp, id, sges, num_sge);
}

void recv_into(struct side *side, uint64_t id, uint64_t offset, uint32_t length)
{
	struct simhca_sge one = sge(side->mr, offset, length);

	side_recv(side, id, &one, 1);
}

static void post_rdma(struct side *side, uint8_t opcode, uint64_t id, uint64_t offset,
		      uint32_t length, uint64_t peer_offset)
{
	post(side, .id = id, .opcode = opcode, SGES(sge(side->mr, offset, length)),
	     .remote_addr = side->peer->mr->iova + peer_offset, .rkey = side->peer->mr->rkey);
}

void rdma_write(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
		uint64_t peer_offset)
{
	post_rdma(side, SIMHCA_WR_RDMA_WRITE, id, offset, length, peer_offset);
}

void rdma_read(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
	       uint64_t peer_offset)
{
	post_rdma(side, SIMHCA_WR_RDMA_READ, id, offset, length, peer_offset);
}

void check_works_(struct pair *pair, const char *file, int line)
{
	const uint32_t length = 3000, grh = pair->a.qp->type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
	const uint64_t id = 0x600d;

	fill(pair->a.mr->addr, length, 0x600d);
	memset(pair->b.mr->addr, 0, length + grh);
	recv_into(&pair->b, id, 0, length + grh);
	send_from(&pair->a, id, 0, length);
	expect_(pair->a.send_cq, id, IBV_WC_SUCCESS, -1, file, line);
	expect_(pair->b.recv_cq, id, IBV_WC_SUCCESS, -1, file, line);
	if (!filled(pair->b.mr->addr + grh, length, 0x600d)) {
		print_error("%s:%d: the message arrived changed\n", file, line);
		_fail(file, line);
	}
}
