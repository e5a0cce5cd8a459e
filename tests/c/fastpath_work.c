/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is posted to a QP of the fast path, and what is compared afterwards. */
#include "fastpath_scene.h"

void fastpath_put_work(struct pair *pair, const struct fastpath_work *work)
{
	for (uint32_t i = 0; i < work->count; i++) {
		uint32_t at = i * work->length, first = work->length / work->sges;
		struct simhca_sge parts[2] = { sge(pair->a.mr, at, first),
					       sge(pair->a.mr, at + first, work->length - first) };
		struct wr wr = {
			.id = 1000 + i,
			.opcode = work->opcode,
			.flags = work->flags,
			.imm = 7 + i,
			.remote_addr = pair->b.mr->iova + at,
			.rkey = pair->b.mr->rkey,
		};

		if (work->inlined) {
			wr.flags |= SIMHCA_WQE_INLINE;
			wr.inline_data = pair->a.mr->addr + at;
			wr.inline_len = work->length;
		} else {
			wr.sges = parts;
			wr.num_sge = work->sges;
		}
		if (work->receives) {
			struct simhca_sge into[2] = { sge(pair->b.mr, at, first),
						      sge(pair->b.mr, at + first,
							  work->length - first + 10) };

			side_recv(&pair->b, 2000 + i, into, 2);
		}
		qp_put(pair->a.qp, &wr);
	}
}

void fastpath_write(struct pair *pair, uint32_t length, const struct mr *to)
{
	struct simhca_sge from = sge(pair->a.mr, 0, length);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = &from,
					 .num_sge = 1,
					 .remote_addr = to->iova,
					 .rkey = to->rkey });
}

void fastpath_send(struct pair *pair, uint32_t length)
{
	struct simhca_sge from = sge(pair->a.mr, 0, length);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
					 .flags = SIMHCA_WQE_SIGNALED,
					 .sges = &from,
					 .num_sge = 1 });
}

void fastpath_put_fetch_and_add(struct side *side, const struct mr *mr)
{
	struct simhca_sge into = sge(side->mr, 0, 8);

	qp_put(side->qp, &(struct wr){ .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
				       .flags = SIGNALED,
				       .sges = &into,
				       .num_sge = 1,
				       .remote_addr = mr->iova,
				       .rkey = mr->rkey,
				       .compare_add = 1 });
}

void fastpath_begin_atomics(struct world *world)
{
	struct pair *pair = fastpath_rc_pair(world, false);

	fastpath_put_fetch_and_add(&pair->a, mr_new(pair->b.client, 4096, ALL_ACCESS));
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	fastpath_completes(pair->a.send_cq);
}

const struct fastpath_atomic fastpath_atomics[FASTPATH_ATOMICS] = {
	{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 0, 7, 5 },
	{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 1ull << 40, 7, (1ull << 40) + 5 },
	{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 7, (1ull << 40) + 4 },
	{ SIMHCA_WR_ATOMIC_CMP_AND_SWP, 5, 9, (1ull << 40) + 4 },
	{ SIMHCA_WR_ATOMIC_CMP_AND_SWP, (1ull << 40) + 4, UINT64_MAX, UINT64_MAX },
	{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 2, 7, 1 },
};

const uint8_t *fastpath_slot(const struct qp *qp, uint32_t index)
{
	return qp->rq + (size_t)(index % qp->granted.rq_entries) * qp->granted.rq_stride +
	       qp->granted.slot_data;
}

/* The next completion that is not void. */
bool fastpath_next_cqe(struct cq *cq, struct simhca_cqe *cqe)
{
	while (cq_poll(cq, cqe))
		if (cqe->qpn != SIMHCA_VOID_QPN)
			return true;
	return false;
}

void fastpath_same_cqes(struct cq *one, struct cq *other)
{
	struct simhca_cqe x, y;

	while (cq_poll(one, &x)) {
		assert_true(cq_poll(other, &y));
		assert_int_equal(x.wr_id, y.wr_id);
		assert_int_equal(x.qpn & SIMHCA_QPN_MASK ? 1 : 0, 1);
		assert_int_equal(x.byte_len, y.byte_len);
		assert_int_equal(x.imm_or_rkey, y.imm_or_rkey);
		assert_int_equal(x.vendor_err, y.vendor_err);
		if (!(x.flags & SIMHCA_CQE_RECV))
			assert_int_equal(x.wqe_index, y.wqe_index);
		/* The device places what the fast path leaves in the CQ, and cq_poll() has placed that. */
		if (x.in_slot == SIMHCA_CQE_IN_CQ)
			x.in_slot = SIMHCA_CQE_IN_PLACE;
		if (y.in_slot == SIMHCA_CQE_IN_CQ)
			y.in_slot = SIMHCA_CQE_IN_PLACE;
		assert_memory_equal(&x.opcode, &y.opcode,
				    offsetof(struct simhca_cqe, seq) -
					    offsetof(struct simhca_cqe, opcode));
	}
	assert_false(cq_poll(other, &y));
}

struct simhca_usage_sum fastpath_usage(const struct side *side)
{
	struct simhca_qp_info info;
	uint32_t handle = side->qp->handle;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	assert_int_equal(info.qpn, side->qp->qpn);
	memset(info.usage.latency, 0, sizeof(info.usage.latency)); /* they differ each time */
	return info.usage;
}

int fastpath_limits(const struct pair *pair)
{
	return events_of(pair->b.client, pair->b.srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}
