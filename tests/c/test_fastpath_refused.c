/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the fast path leaves to the device: nothing has changed then, and the reason is counted. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "fastpath_scene.h"

static void refuse_turn(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	atomic_store(&pair->b.qp->state->resp_owner.holder, SIMHCA_OWNER_DEVICE);
}

static void refuse_own_turn(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	atomic_store(&pair->a.qp->state->req_owner.holder, SIMHCA_OWNER_DEVICE);
}

static void refuse_sqd(struct pair *pair)
{
	assert_int_equal(qp_move(pair->a.qp, IBV_QPS_SQD), 0);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_port(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	simhca_device_set_port(pair->a.world->device[0], false);
}

static void refuse_reset_peer(struct pair *pair)
{
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	fastpath_write(pair, 8, pair->b.mr);
}

/* To the same QP, and so with the same numbers: yet it is another connection. */
static void refuse_reconnected_peer(struct pair *pair)
{
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &pair->b.options);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_new_address(struct pair *pair)
{
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES];
	struct world *world = pair->a.world;

	memcpy(gids, simhca_device_memory(world->device[0])->gids, sizeof(gids));
	gids[5] = gids[0];
	simhca_device_set_gids(world->device[0], gids);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_resized_cq(struct pair *pair)
{
	assert_int_equal(cq_resize(pair->b.recv_cq, 2 * pair->b.recv_cq->cqe), 0);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_psn(struct pair *pair)
{
	responder_of(pair->b.qp)->epsn++;
	fastpath_write(pair, 8, pair->b.mr);
}

/* By its own memory: its peer has not heard of it, and the numbers are what they were. */
static void fail_alone(struct side *side)
{
	struct simhca_sge bad = sge(side->mr, 0, 8);
	struct simhca_cqe cqe;

	bad.lkey ^= 1;
	qp_post(side->qp,
		&(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE, .sges = &bad, .num_sge = 1 });
	run_until_idle(side->client->world);
	assert_true(cq_poll(side->send_cq, &cqe) && cqe.status == IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
}

static void refuse_failed(struct pair *pair)
{
	fail_alone(&pair->a);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_failed_peer(struct pair *pair)
{
	fail_alone(&pair->b);
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_under_way(struct pair *pair)
{
	requester_of(pair->a.qp)->count = 1;
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_waiting(struct pair *pair)
{
	requester_of(pair->a.qp)->wait = SIMHCA_WAIT_BUSY;
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_in_message(struct pair *pair)
{
	responder_of(pair->b.qp)->in_message = 1;
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_consumed_receive(struct pair *pair)
{
	responder_of(pair->b.qp)->have_recv = 1;
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_told_gap(struct pair *pair)
{
	responder_of(pair->b.qp)->nak_sent = 1;
	fastpath_write(pair, 8, pair->b.mr);
}

static void refuse_owed_response(struct pair *pair)
{
	responder_of(pair->b.qp)->owed = SIMHCA_OWES_RESPONSE;
	fastpath_write(pair, 8, pair->b.mr);
}

/* What is posted first, for who lies about it. */
static struct simhca_send_wqe *first_send(const struct pair *pair)
{
	return (struct simhca_send_wqe *)pair->a.qp->sq;
}

static void write_imm(struct pair *pair)
{
	struct simhca_sge from = sge(pair->a.mr, 0, 8);

	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
					 .sges = &from,
					 .num_sge = 1,
					 .remote_addr = pair->b.mr->iova,
					 .rkey = pair->b.mr->rkey });
}

static void refuse_inline_read(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	first_send(pair)->opcode = SIMHCA_WR_RDMA_READ;
	first_send(pair)->flags |= SIMHCA_WQE_INLINE;
	first_send(pair)->inline_len = 8;
}

static void refuse_long_inline(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	first_send(pair)->flags |= SIMHCA_WQE_INLINE;
	first_send(pair)->inline_len = pair->a.options.max_inline + 1;
}

static void refuse_many_sges(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	first_send(pair)->num_sge = (uint8_t)(pair->a.options.max_send_sge + 1);
}

static void refuse_send_index(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	atomic_store(&pair->a.qp->state->sq_pi, pair->a.qp->granted.sq_entries + 1);
}

/* None of a list is written before it is known that the first is carried. */
static void refuse_no_receive_for_imm(struct pair *pair)
{
	for (int i = 0; i < 5; i++)
		write_imm(pair);
}

static void refuse_receive_index(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	atomic_store(&pair->b.qp->state->rq_pi, pair->b.qp->granted.rq_entries + 1);
	write_imm(pair);
}

static void refuse_many_receive_sges(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	((struct simhca_recv_wqe *)pair->b.qp->rq)->num_sge = pair->b.options.max_recv_sge + 1;
	write_imm(pair);
}

static void refuse_dead_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	fastpath_send(pair, 8);
	atomic_store(&pair->b.recv_cq->state->overrun, 1);
}

static void refuse_no_such_key(struct pair *pair)
{
	struct mr none = { .rkey = UINT32_MAX, .iova = pair->b.mr->iova };

	fastpath_write(pair, 8, &none);
}

/* The device sees first to it that others keep off. */
static void refuse_first_atomic(struct pair *pair)
{
	fastpath_put_fetch_and_add(&pair->a, mr_new(pair->b.client, 4096, ALL_ACCESS));
}

static void refuse_long(struct pair *pair)
{
	fastpath_write(pair, 5 << 20, pair->b.mr);
}

static void refuse_right(struct pair *pair)
{
	fastpath_write(pair, 8, mr_new(pair->b.client, 4096, SIMHCA_ACCESS_REMOTE_READ));
}

static void refuse_since_an_atomic(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, ALL_ACCESS);
	struct simhca_cqe cqe;

	fastpath_put_fetch_and_add(&pair->a, mr);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(pair->a.world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	fastpath_write(pair, 8, pair->b.mr); /* of the same process, which is enough */
}

static void refuse_other_owner(struct pair *pair)
{
	fastpath_write(pair, 8, pair->a.mr);
}

static void refuse_gone_key(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, fastpath_options().mr_access);

	assert_int_equal(mr_gone(mr), 0);
	fastpath_write(pair, 8, mr);
}

static void refuse_range(struct pair *pair)
{
	fastpath_write(pair, 4097, mr_new(pair->b.client, 4096, fastpath_options().mr_access));
}

static void refuse_no_receive(struct pair *pair)
{
	fastpath_send(pair, 8);
}

static void refuse_short_receive(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 7);
	fastpath_send(pair, 8);
}

static void refuse_full_recv_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	fastpath_send(pair, 8);
	atomic_store(&pair->b.recv_cq->state->pi, pair->b.recv_cq->cqe);
}

static void refuse_full_send_cq(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	atomic_store(&pair->a.send_cq->state->pi, pair->a.send_cq->cqe);
}

/* The index that no progress can name is the device's. */
static void refuse_last_recv_index(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, 8);
	fastpath_send(pair, 8);
	atomic_store(&pair->b.recv_cq->state->pi, UINT32_MAX);
	atomic_store(&pair->b.recv_cq->state->ci, UINT32_MAX);
}

static void refuse_last_send_index(struct pair *pair)
{
	fastpath_write(pair, 8, pair->b.mr);
	atomic_store(&pair->a.send_cq->state->pi, UINT32_MAX);
	atomic_store(&pair->a.send_cq->state->ci, UINT32_MAX);
}

static void refuse_copy(struct pair *pair)
{
	struct mr *mr = mr_new(pair->b.client, 4096, fastpath_options().mr_access);

	((struct simhca_mpt *)mpt_of(pair->b.client, mr->rkey))->addr = 4096; /* mapped by nobody */
	fastpath_write(pair, 8, mr);
}

static const struct refusal {
	void (*arrange)(struct pair *pair);
	enum simhca_slow_reason why;
} refusals[] = {
	{ refuse_turn, SIMHCA_SLOW_OWNER },
	{ refuse_own_turn, SIMHCA_SLOW_OWNER },
	{ refuse_sqd, SIMHCA_SLOW_STATE },
	{ refuse_port, SIMHCA_SLOW_STATE },
	{ refuse_reset_peer, SIMHCA_SLOW_STATE },
	{ refuse_reconnected_peer, SIMHCA_SLOW_STATE },
	{ refuse_new_address, SIMHCA_SLOW_STATE },
	{ refuse_resized_cq, SIMHCA_SLOW_STATE },
	{ refuse_since_an_atomic, SIMHCA_SLOW_STATE },
	{ refuse_failed, SIMHCA_SLOW_STATE },
	{ refuse_failed_peer, SIMHCA_SLOW_STATE },
	{ refuse_psn, SIMHCA_SLOW_WAITS },
	{ refuse_under_way, SIMHCA_SLOW_WAITS },
	{ refuse_waiting, SIMHCA_SLOW_WAITS },
	{ refuse_in_message, SIMHCA_SLOW_WAITS },
	{ refuse_consumed_receive, SIMHCA_SLOW_WAITS },
	{ refuse_told_gap, SIMHCA_SLOW_WAITS },
	{ refuse_owed_response, SIMHCA_SLOW_WAITS },
	{ refuse_inline_read, SIMHCA_SLOW_REQUEST },
	{ refuse_long_inline, SIMHCA_SLOW_REQUEST },
	{ refuse_many_sges, SIMHCA_SLOW_REQUEST },
	{ refuse_send_index, SIMHCA_SLOW_REQUEST },
	{ refuse_long, SIMHCA_SLOW_REQUEST },
	{ refuse_right, SIMHCA_SLOW_MEMORY },
	{ refuse_first_atomic, SIMHCA_SLOW_MEMORY },
	{ refuse_other_owner, SIMHCA_SLOW_MEMORY },
	{ refuse_gone_key, SIMHCA_SLOW_MEMORY },
	{ refuse_no_such_key, SIMHCA_SLOW_MEMORY },
	{ refuse_range, SIMHCA_SLOW_MEMORY },
	{ refuse_no_receive, SIMHCA_SLOW_RECEIVE },
	{ refuse_short_receive, SIMHCA_SLOW_RECEIVE },
	{ refuse_no_receive_for_imm, SIMHCA_SLOW_RECEIVE },
	{ refuse_receive_index, SIMHCA_SLOW_RECEIVE },
	{ refuse_many_receive_sges, SIMHCA_SLOW_RECEIVE },
	{ refuse_dead_cq, SIMHCA_SLOW_CQ },
	{ refuse_full_recv_cq, SIMHCA_SLOW_CQ },
	{ refuse_full_send_cq, SIMHCA_SLOW_CQ },
	{ refuse_last_recv_index, SIMHCA_SLOW_CQ },
	{ refuse_last_send_index, SIMHCA_SLOW_CQ },
	{ refuse_copy, SIMHCA_SLOW_COPY },
};

static void nothing_is_changed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct pair *pair;
		struct simhca_step step;
		struct simhca_qp_mem a, b;
		struct simhca_cqe cqe;

		fastpath_setup(state);
		pair = fastpath_rc_pair(*state, false);
		fill(pair->a.mr->addr, 8, 1);
		step = fastpath_attach(&pair->a);
		refusals[i].arrange(pair);
		memcpy(&a, pair->a.qp->state, sizeof(a));
		memcpy(&b, pair->b.qp->state, sizeof(b));
		assert_false(simhca_step(&step));
		for (int why = 0; why < SIMHCA_SLOW_REASONS; why++)
			if (step.fastpath->handed[why] != (why == (int)refusals[i].why))
				fail_msg("refusal %zu: reason %d", i, why);
		assert_memory_equal(&a, pair->a.qp->state, sizeof(a));
		assert_memory_equal(&b, pair->b.qp->state, sizeof(b));
		assert_int_equal(step.fastpath->messages, 0);
		assert_int_equal(step.fastpath->guard % 2, 0);
		assert_true(all_bytes(pair->b.mr->addr, 8, 0));
		if (refusals[i].why != SIMHCA_SLOW_CQ)
			assert_false(cq_poll(pair->a.send_cq, &cqe) ||
				     cq_poll(pair->b.recv_cq, &cqe));
		fastpath_detach(&step);
		teardown(state);
	}
}

static pid_t ends; /* when we read of it, and has our number then */

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	if (ends) {
		assert_int_equal(kill(ends, SIGKILL), 0);
		assert_int_equal(waitpid(ends, NULL, 0), ends);
		ends = 0;
	}
	return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

/* What is read of another process, which has got the peer's number meanwhile, is no answer. */
static void a_read_of_who_has_ended(void **state)
{
	struct pair *pair = fastpath_rc_pair(*state, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	char path[64];

	ends = fork();
	if (!ends) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	assert_true(ends > 0);
	close(step.peer.pagemap);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)ends);
	step.peer.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(step.peer.pagemap >= 0);
	fastpath_write(pair, 8192, pair->b.mr);
	first_send(pair)->opcode = SIMHCA_WR_RDMA_READ;
	assert_false(simhca_step(&step));
	assert_int_equal(ends, 0);
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	expect_none(pair->a.send_cq);
	fastpath_detach(&step);
}

/* By neither QP: the device refuses it, and says why. */
static void what_the_qps_do_not_grant(void **state)
{
	static const struct {
		uint8_t opcode, max_rd_atomic, max_dest_rd_atomic;
		uint32_t access;
		enum simhca_slow_reason why;
	} rows[] = {
		{ SIMHCA_WR_RDMA_WRITE, 4, 4, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 4, 4, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 4, 0, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_MEMORY },
		{ SIMHCA_WR_RDMA_READ, 0, 4, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_SLOW_REQUEST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct options options = fastpath_options();
		struct simhca_step step;
		struct pair *pair;

		options.access = rows[i].access;
		options.max_rd_atomic = rows[i].max_rd_atomic;
		options.max_dest_rd_atomic = rows[i].max_dest_rd_atomic;
		pair = fastpath_pair(*state, &options);
		step = fastpath_attach(&pair->a);
		fastpath_write(pair, 8, pair->b.mr);
		first_send(pair)->opcode = rows[i].opcode;
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->handed[rows[i].why], 1);
		fastpath_detach(&step);
	}
}

/* They are of the SRQ's PD, which need not be the QP's; and its limit is told of. */
static void receives_of_an_srq(void **state)
{
	const struct options options = fastpath_options();
	struct pair *pair = pair_unconnected(*state, &options);
	struct side *b = &pair->b;
	struct srq *srq = srq_new(b->client, 8, 2, 2);
	uint32_t pd = pd_new(b->client);
	struct mr *of_qp = mr_over(b->client, pd, b->mr->addr, 8, b->mr->iova, ALL_ACCESS);
	struct simhca_sge into[4] = { sge(b->mr, 0, 8), sge(b->mr, 0, 8), sge(b->mr, 0, 8),
				      sge(of_qp, 0, 8) };
	struct simhca_step step;

	fastpath_offer(pair->a.client);
	fastpath_offer(b->client);
	b->srq = srq;
	b->qp = qp_new_in(b->client, pd, &options, b->send_cq, b->recv_cq, srq);
	pair_connect(pair);
	for (uint64_t id = 0; id < ARRAY_SIZE(into); id++)
		srq_recv(srq, id, &into[id], 1);
	step = fastpath_attach(&pair->a);
	for (uint64_t id = 0; id < 3; id++) {
		fastpath_send(pair, 8);
		assert_int_equal(simhca_step(&step), id != 2); /* one is left, and the limit is 2 */
		expect(b->recv_cq, id, SUCCESS);
	}
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(*state);
	assert_int_equal(events_of(b->client, srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	fastpath_send(pair, 8);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_RECEIVE], 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect_why(b->recv_cq, 3, LOC_PROT_ERR, KEY_WRONG_PD);
	fastpath_detach(&step);
}

/* What a step has consumed, and could not fill, the device goes on with. */
static void a_receive_that_was_consumed(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct srq *srq = pair->b.srq;
	const uint32_t length = SIMHCA_SLOT_DATA + 1; /* they cannot stay in the CQ */
	int memory = step.peer.memory;

	for (uint64_t id = 0; id < 2; id++) {
		struct simhca_sge into = sge(pair->b.mr, id * length, length);

		srq_recv(srq, id, &into, 1);
	}
	fill(pair->a.mr->addr, length, 1);
	fastpath_send(pair, length);
	step.peer.memory = -1;
	assert_false(simhca_step(&step));
	step.peer.memory = memory;
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(srq_ci_of(srq), 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect(pair->b.recv_cq, 0, SUCCESS);
	assert_true(filled(pair->b.mr->addr, length, 1));
	assert_int_equal(srq_ci_of(srq), 1);
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_changed),
		HERE(what_the_qps_do_not_grant),
		HERE(receives_of_an_srq),
		HERE(a_receive_that_was_consumed),
		HERE(a_read_of_who_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
