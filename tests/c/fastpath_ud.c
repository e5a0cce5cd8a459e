/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "fastpath_ud.h"

struct pair *ud_pair_by(struct world *world, uint8_t gid_index, enum queue queue)
{
	struct options options = fastpath_options();
	struct pair *pair;

	options.type = IBV_QPT_UD;
	options.gid_index = gid_index;
	options.srq_wr = queue == SHARED ? 128 : 0;
	options.max_recv_wr = 128;
	pair = fastpath_pair(world, &options);
	run_until_idle(world); /* the device looks at a QP that has just come to RTS */
	return pair;
}

struct pair *ud_pair(struct world *world)
{
	return ud_pair_by(world, 0, OWN);
}

/* Another program that sends to b. */
struct side *ud_another(struct pair *pair)
{
	struct side *other = side_new(client_new(pair->a.world, 0), &pair->a.options);

	other->peer = &pair->b;
	qp_up_to(other->qp, IBV_QPS_RTS,
		 qp_attr_to(other->qp, 0, pair->b.qp->qpn, &pair->a.options));
	fastpath_offer(other->client);
	run_until_idle(pair->a.world);
	return other;
}

struct wr ud_wr(const struct side *side, const struct side *peer)
{
	return (struct wr){ .opcode = SIMHCA_WR_SEND,
			    .flags = SIGNALED,
			    .av = av_to(side->world, 0, side->options.gid_index),
			    .dest_qpn = peer->qp->qpn,
			    .qkey = peer->options.qkey };
}

void ud_send(struct side *side, uint32_t length)
{
	struct simhca_sge from = sge(side->mr, 0, length);
	struct wr wr = ud_wr(side, side->peer);

	wr.sges = &from;
	wr.num_sge = 1;
	qp_put(side->qp, &wr);
}

/* How many receives have been claimed. */
uint32_t ud_claimed(const struct side *side)
{
	return side->srq ? srq_ci_of(side->srq) : rq_ci_of(side->qp);
}

void ud_receive(struct pair *pair, uint64_t id)
{
	recv_into(&pair->b, id, id * BUFFER, BUFFER);
}

void ud_ring(struct side *side)
{
	qp_ring(side->qp);
	run_until_idle(side->world);
}
