/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a peer was given of a QP's memory is taken back when the QP starts over: who keeps it mapped
 * writes where nobody reads.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include "fastpath_scene.h"
#include "core/context.h"
#include "dma/dma.h"
#include "simhca-info.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)

/* 0: all words of turns are free, and no index has moved; 0xff: the turns are held. */
static void scribble(const struct fastpath_kept *kept, int byte)
{
	memset(kept->addr, byte, kept->size);
}

/* Each way, while somebody writes there. */
static void messages_pass(struct pair *pair, const struct fastpath_kept *kept, int byte)
{
	for (uint32_t i = 0; i < 20; i++) {
		recv_into(&pair->b, 1, 0, BUFFER);
		recv_into(&pair->a, 2, 0, BUFFER);
		scribble(kept, byte);
		send_from(&pair->a, 3, BUFFER, LENGTH);
		send_from(&pair->b, 4, BUFFER, LENGTH);
		scribble(kept, byte);
		fastpath_completes(pair->a.send_cq);
		fastpath_completes(pair->a.recv_cq);
		scribble(kept, byte);
		fastpath_completes(pair->b.send_cq);
		fastpath_completes(pair->b.recv_cq);
	}
}

static void is_taken_back(struct world *world, enum ibv_qp_type type)
{
	struct pair *pair = fastpath_pair_of(world, type);
	struct simhca_step step = fastpath_attach_another(&pair->a);
	struct fastpath_kept kept = fastpath_keep(pair->b.client, &pair->b.qp->granted.state);
	struct simhca_step again;

	recv_into(&pair->b, 1, 0, BUFFER);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	scribble(&kept, 0xff);
	pair_reconnect(pair);
	messages_pass(pair, &kept, 0xff);
	messages_pass(pair, &kept, 0);
	/* Who is attached now has what the QP has now. */
	again = fastpath_attach_another(&pair->a);
	recv_into(&pair->b, 1, 0, BUFFER);
	scribble(&kept, 0xff);
	send_from(&pair->a, 3, BUFFER, LENGTH);
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->b.recv_cq);
	munmap(kept.addr, kept.size);
	fastpath_detach(&again);
	fastpath_detach(&step);
}

static void of_an_rc_qp(void **state)
{
	is_taken_back(*state, IBV_QPT_RC);
}

static void of_a_uc_qp(void **state)
{
	is_taken_back(*state, IBV_QPT_UC);
}

static void of_a_ud_qp(void **state)
{
	is_taken_back(*state, IBV_QPT_UD);
}

/* Nobody but its own process had it: then it is the same, and the program has nothing to do. */
static void what_nobody_had_stays(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct fastpath_kept kept = fastpath_keep(pair->b.client, &pair->b.qp->granted.state);
	struct simhca_qp_mem *mem = (void *)(kept.addr + pair->b.qp->granted.state.offset);
	struct simhca_step step = fastpath_attach(&pair->a);

	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	atomic_store(&pair->b.qp->state->received, 17);
	assert_int_equal(atomic_load(&mem->received), 17);
	munmap(kept.addr, kept.size);
	fastpath_detach(&step);
}

/* What was counted is of the QP's whole life. */
static void counts_are_kept(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach_another(&pair->a);

	atomic_store(&pair->b.qp->state->received, 17);
	atomic_store(&pair->b.qp->state->received_bytes, 1700);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(atomic_load(&pair->b.qp->state->received), 17);
	assert_int_equal(atomic_load(&pair->b.qp->state->received_bytes), 1700);
	fastpath_detach(&step);
}

/* Receives that RESET drops are told to who polls for them, though their queue's memory is another then. */
static void what_waited_is_counted(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach_another(&pair->a);
	struct simhca_in_vain found[4];
	uint32_t count;

	recv_into(&pair->b, 1, 0, BUFFER);
	send_from(&pair->a, 3, BUFFER, LENGTH);
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->b.recv_cq);
	for (uint32_t i = 0; i < 3; i++)
		recv_into(&pair->b, 1, 0, BUFFER);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	count = simhca_find_in_vain(pair->b.client->context, found, 4);
	assert_int_equal(count, 1);
	assert_int_equal(found[0].why, SIMHCA_NOTHING_POSTED);
	assert_int_equal(found[0].dropped, 3);
	fastpath_detach(&step);
}

/* Without a descriptor for it nothing happens, and with one the same request is carried out. */
static void without_a_descriptor(void **state)
{
	struct pair *pair = fastpath_pair_of(*state, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach_another(&pair->a);
	struct rlimit limit, none = { 0 };

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none.rlim_max = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	recv_into(&pair->b, 1, 0, BUFFER);
	send_from(&pair->a, 3, BUFFER, LENGTH);
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->b.recv_cq);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_an_rc_qp, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_uc_qp, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_ud_qp, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(what_nobody_had_stays, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(counts_are_kept, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(what_waited_is_counted, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_descriptor, fastpath_setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
