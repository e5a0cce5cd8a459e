/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tag_scene.h"

struct scene *make_with(struct world *world, const struct options *options)
{
	struct scene *s = world_alloc(world, sizeof(*s));
	struct client *server = client_new(world, 1);

	s->world = world;
	s->options = *options;
	s->cq = cq_new(server, 64);
	s->srq = tm_srq_new(server, s->cq, 32, TAGS);
	side_make(&s->a, client_new(world, 0), options, NULL);
	side_make(&s->b, server, options, s->srq);
	s->a.peer = &s->b;
	s->b.peer = &s->a;
	qp_connect(s->a.qp, 1, s->b.qp->qpn, options);
	qp_connect(s->b.qp, 0, s->a.qp->qpn, options);
	return s;
}

struct scene *make(struct world *world)
{
	struct options options = default_options(IBV_QPT_RC);

	return make_with(world, &options);
}

int op(struct scene *s, struct simhca_srq_op_req req, uint32_t *entry)
{
	struct simhca_handle reply = { 0 };
	int error;

	req.srq = s->srq->handle;
	error = simhca_srq_op(s->b.client->context, &req, &reply, NULL);
	if (entry)
		*entry = reply.handle;
	return error;
}

uint32_t add(struct scene *s, uint64_t id, uint64_t tag, uint64_t mask, uint64_t offset,
	     uint32_t length)
{
	uint32_t entry;

	assert_int_equal(0,
			 op(s,
			    (struct simhca_srq_op_req){ .opcode = SIMHCA_SRQ_TAG_ADD,
							.recv_wr_id = id,
							.tag = tag,
							.mask = mask,
							.num_sge = 1,
							.sge = { sge(s->b.mr, offset, length) } },
			    &entry));
	return entry;
}

void supply(struct scene *s, uint64_t id, uint64_t offset)
{
	struct simhca_sge one = sge(s->b.mr, offset, 1024);

	srq_recv(s->srq, id, &one, 1);
}

void send_tagged(struct scene *s, uint64_t id, uint8_t opcode, uint64_t tag, uint32_t length)
{
	const struct ibv_tmh tmh = { .opcode = opcode,
				     .app_ctx = htobe32(APP_CTX),
				     .tag = htobe64(tag) };

	memcpy(s->a.mr->addr, &tmh, sizeof(tmh));
	fill(s->a.mr->addr + HEADER, length, (uint32_t)tag);
	send_from(&s->a, id, 0, (uint32_t)HEADER + length);
}

void send_rndv(struct scene *s, uint64_t id, uint64_t tag, uint64_t offset, uint32_t length,
	       uint32_t rkey)
{
	struct {
		struct ibv_tmh tmh;
		struct ibv_rvh rvh;
		char more[32]; /* what a program puts behind it is not the device's business */
	} request = {
		.tmh = { .opcode = IBV_TMH_RNDV, .app_ctx = htobe32(APP_CTX), .tag = htobe64(tag) },
		.rvh = { .va = htobe64((uintptr_t)s->a.mr->addr + offset),
			 .rkey = htobe32(rkey),
			 .len = htobe32(length) },
	};

	assert_int_equal(sizeof(request), SIMHCA_MAX_RNDV_HEADER);
	memcpy(s->a.mr->addr, &request, sizeof(request));
	send_from(&s->a, id, 0, sizeof(request));
}

struct simhca_cqe check_cqe(struct scene *s, uint64_t id, uint8_t opcode, uint8_t tm_flags)
{
	struct simhca_cqe cqe = expect(s->cq, id, SUCCESS);

	assert_int_equal(cqe.opcode, opcode);
	assert_int_equal(cqe.tm_flags, tm_flags);
	assert_true(cqe.flags & SIMHCA_CQE_SRQ_CQ);
	return cqe;
}

void check_match(const struct simhca_cqe *cqe, uint64_t tag)
{
	assert_int_equal((uint64_t)cqe->src_qpn << 32 | cqe->wqe_index, tag);
	assert_int_equal(be32toh(cqe->app_ctx), APP_CTX);
	/* It took an entry, and no receive WQE. */
	assert_false(cqe->flags & SIMHCA_CQE_SRQ);
}

void check_unexpected(struct scene *s, uint64_t id, uint64_t offset, uint64_t tag, uint32_t length)
{
	struct simhca_cqe cqe = check_cqe(s, id, SIMHCA_WC_TM_RECV, 0);

	assert_int_equal(cqe.byte_len, HEADER + length);
	assert_true(cqe.flags & SIMHCA_CQE_SRQ);
	assert_int_equal(cqe.wqe_index, s->srq->srqn);
	assert_true(filled(s->b.mr->addr + offset + HEADER, length, (uint32_t)tag));
}
