/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Frames when two engines work at once: receivers are often busy with another sender's frame, and
 * get each of them once all the same, while flows come and go.
 */
#include "frames.h"

enum { SENDERS = 2, RECEIVERS = 3, FRAMES = 400, DEPTH = 64 };

struct receiver {
	struct side *side;
	unsigned int got[SENDERS][FRAMES];
	unsigned int total;
};

static struct side *side_on(struct world *world, unsigned int device, unsigned int engine)
{
	struct options options = default_options(IBV_QPT_RAW_PACKET);
	struct side *side;

	options.max_recv_wr = 2 * DEPTH;
	side = side_new(client_new_on(world, device, engine), &options);
	qp_connect(side->qp, 0, 0, &options);
	return side;
}

static void give(struct receiver *receiver, uint64_t id)
{
	recv_into(receiver->side, id, 256 * id, 256);
}

/* Takes what has come; each frame says who sent it, and which one it is. */
static void take(struct receiver *receiver)
{
	struct simhca_cqe cqe;

	while (cq_poll(receiver->side->recv_cq, &cqe)) {
		const uint8_t *frame = receiver->side->mr->addr + 256 * cqe.wr_id;

		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		assert_int_equal(cqe.byte_len, 64);
		receiver->got[frame[14]][frame[15] << 8 | frame[16]]++;
		receiver->total++;
		give(receiver, cqe.wr_id);
	}
}

static void everybody_gets_each_frame_once(void **state)
{
	struct world *world = *state;
	struct receiver *receiver = world_alloc(world, RECEIVERS * sizeof(*receiver));
	struct side *sender[SENDERS], *other = side_on(world, 1, 0);
	struct simhca_read_counters_reply count;
	struct simhca_handle counters;

	for (unsigned int s = 0; s < SENDERS; s++)
		sender[s] = side_on(world, 0, s % 2);
	assert_int_equal(0, simhca_create_counters(other->client->context, &counters, NULL));
	for (unsigned int r = 0; r < RECEIVERS; r++) {
		struct simhca_create_flow_req flow;

		receiver[r].side = side_on(world, r % 2, r % 2);
		for (uint64_t id = 0; id < DEPTH; id++)
			give(&receiver[r], id);
		flow = flow_to(receiver[r].side->qp);
		flow.type = r ? SIMHCA_FLOW_NORMAL : SIMHCA_FLOW_SNIFFER;
		flow_new(receiver[r].side->client, &flow);
	}
	for (unsigned int i = 0; i < FRAMES; i++) {
		struct simhca_create_flow_req flow = flow_to(other->qp);
		uint32_t handle;

		flow.type = SIMHCA_FLOW_SNIFFER; /* whose QP has no receives: they are lost to it */
		flow.flags = SIMHCA_FLOW_COUNT;
		flow.counters = counters.handle;
		handle = flow_new(other->client, &flow);
		for (unsigned int s = 0; s < SENDERS; s++) {
			uint8_t *frame = sender[s]->mr->addr;

			memcpy(frame, GROUP_MAC SOME_MAC "\x88\xb5", 14);
			frame[14] = (uint8_t)s;
			put16(frame + 15, i);
			send_from(sender[s], i, 0, 64);
		}
		for (unsigned int s = 0; s < SENDERS; s++)
			expect(sender[s]->send_cq, i, SUCCESS);
		flow_gone(other->client, handle);
		for (unsigned int r = 0; r < RECEIVERS; r++)
			take(&receiver[r]);
	}
	assert_int_equal(0, simhca_read_counters(other->client->context, counters.handle, &count,
						 NULL));
	assert_int_equal(count.packets, SENDERS * FRAMES);
	for (unsigned int r = 0; r < RECEIVERS; r++) {
		assert_int_equal(receiver[r].total, SENDERS * FRAMES);
		for (unsigned int s = 0; s < SENDERS; s++)
			for (unsigned int i = 0; i < FRAMES; i++)
				assert_int_equal(receiver[r].got[s][i], 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_TWO_THREADS(everybody_gets_each_frame_once),
		ON_ONE_THREAD(everybody_gets_each_frame_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
