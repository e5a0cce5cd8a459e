/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs that end in a step of a connected QP, at each of its stores. */

#include "fastpath_scene.h"

/* Ends at each store: the peer has the message or has not, and goes on without the dead one. */
static void killed_at_each_store(void **state)
{
	static const struct {
		struct fastpath_work work;
		enum { NO_CHANNEL, CHANNEL, FULL_CHANNEL } channel;
	} once[] = {
		{ { "a send", SIMHCA_WR_SEND, SIGNALED, 3, 100, 1, true, false }, NO_CHANNEL },
		{ { "a send that stays in the CQ", SIMHCA_WR_SEND, SIGNALED, 3, 64, 1, true,
		    false },
		  NO_CHANNEL },
		{ { "a write with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 100, 1, true,
		    false },
		  NO_CHANNEL },
		{ { "a read", SIMHCA_WR_RDMA_READ, SIGNALED, 2, 100, 1, false, false },
		  NO_CHANNEL },
		{ { "a list of writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 4, 100, 1, false, false },
		  NO_CHANNEL },
		{ { "a send and its event", SIMHCA_WR_SEND, SIGNALED, 2, 100, 1, true, false },
		  CHANNEL },
		{ { "a send, and no room", SIMHCA_WR_SEND, SIGNALED, 2, 100, 1, true, false },
		  FULL_CHANNEL },
	};

	for (size_t w = 0; w < ARRAY_SIZE(once); w++) {
		const struct fastpath_work *work = &once[w].work;
		int ends[2] = { -1, -1 };
		bool killed = true;
		unsigned int store;

		for (store = 1; killed; store += STORE_STEP) {
			uint32_t bytes = work->count * work->length, arrived = 0, flushed = 0;
			uint32_t by_device, counted, read;
			struct simhca_step step;
			struct simhca_cqe cqe;
			struct pair *pair;

			assert_true(store < MOST_STORES);
			fastpath_setup(state);
			pair = fastpath_rc_pair(*state, work->length == SIMHCA_SLOT_DATA);
			step = fastpath_attach(&pair->a);
			fill(pair->a.mr->addr, bytes, store);
			fastpath_put_work(pair, work);
			fastpath_raised = 0;
			pair->b.recv_cq->on_event = fastpath_count_event;
			cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
			if (once[w].channel)
				fastpath_open_channel(&step.peer.recv_notify, pair->b.recv_cq,
						      ends);
			if (once[w].channel == FULL_CHANNEL)
				fastpath_fill_channel(ends);
			killed = fastpath_killed_at(&step, store);
			client_gone(pair->a.client);
			assert_int_equal(pair->b.qp->state->resp_owner.holder, 0);
			by_device = fastpath_raised;
			read = fastpath_read_channel(ends, pair->b.recv_cq);
			counted = pair->b.recv_cq->state->events_raised;
			assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
			run_until_idle(*state);
			while (fastpath_next_cqe(pair->b.recv_cq, &cqe)) {
				assert_int_equal(cqe.wr_id, 2000 + arrived + flushed);
				if (cqe.status) {
					flushed++;
					continue;
				}
				assert_int_equal(flushed, 0);
				assert_int_equal(cqe.byte_len, work->length);
				assert_int_equal(cqe.in_slot, work->length == SIMHCA_SLOT_DATA
								      ? SIMHCA_CQE_IN_CQ
								      : SIMHCA_CQE_IN_PLACE);
				arrived++;
			}
			assert_int_equal(arrived + flushed, work->receives ? work->count : 0);
			assert_true(by_device + read || !arrived); /* it may sleep until then */
			/* None that is there was not counted, and none that was is missed. */
			assert_true(read <= counted && counted <= read + by_device);
			if (!killed && work->receives) {
				assert_int_equal(by_device, once[w].channel != CHANNEL);
				assert_int_equal(read, once[w].channel == CHANNEL);
				assert_int_equal(counted, read);
			}
			if (work->receives)
				assert_true(
					filled(pair->b.mr->addr, arrived * work->length, store));
			if (!killed && work->receives)
				assert_int_equal(arrived, work->count);
			assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
			fastpath_detach(&step);
			fastpath_close_channel(ends);
			teardown(state);
		}
		print_message("%s: about %u stores\n", work->name, store);
		assert_true(store > 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_each_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
