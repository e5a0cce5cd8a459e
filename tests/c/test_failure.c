/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A failure is told before its completion can be polled: a program that has the completion may end at
 * once, and of a program that has ended nobody knows what it was.
 */
#include "core/fabric.h"
#include "harness.h"

static struct pair *pair;
static unsigned int told, too_late, lost;

static void on_failure(void *arg, const struct simhca_failure *failure)
{
	struct simhca_cqe cqe;

	if (failure->kind == SIMHCA_SEND_FAILED)
		too_late += cq_poll(pair->a.send_cq, &cqe);
	else if (failure->kind == SIMHCA_RECV_FAILED)
		too_late += cq_poll(pair->b.recv_cq, &cqe);
	else if (failure->reason == SIMHCA_REASON_PEER_NOT_READY)
		lost++;
	told += failure->kind == SIMHCA_SEND_FAILED || failure->kind == SIMHCA_RECV_FAILED;
}

static void begin(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);

	world->fabric->ops.failure = on_failure;
	pair = pair_new(world, &options);
	told = too_late = lost = 0;
}

static void of_a_send(void **state)
{
	begin(*state, IBV_QPT_RC);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(pair->a.mr, 0, 64)));
	run_until_idle(*state);
	assert_int_equal(too_late, 0);
	expect(pair->a.send_cq, 1, REM_ACCESS_ERR);
	assert_int_equal(told, 1);
}

static void of_a_receive(void **state)
{
	begin(*state, IBV_QPT_RC);
	recv_into(&pair->b, 1, 0, 50);
	send_from(&pair->a, 2, 0, 200);
	run_until_idle(*state);
	assert_int_equal(too_late, 0);
	expect(pair->b.recv_cq, 1, LOC_LEN_ERR);
	expect(pair->a.send_cq, 2, REM_INV_REQ_ERR);
	assert_int_equal(told, 2);
}

/* Its sender sees a success, so nothing else says so. Later it is how such a service works. */
static void of_what_nobody_awaits(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		begin(*state, types[i]);
		send_from(&pair->a, 1, 0, 50);
		run_until_idle(*state);
		assert_int_equal(lost, types[i] != IBV_QPT_RC);
		recv_into(&pair->b, 2, 0, 200);
		if (types[i] == IBV_QPT_RC)
			continue; /* it is for the first message, which has waited */
		send_from(&pair->a, 3, 0, 50);
		send_from(&pair->a, 4, 0, 50);
		run_until_idle(*state);
		expect(pair->b.recv_cq, 2, SUCCESS);
		assert_int_equal(lost, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(of_a_send),
		ON_ETHERNET(of_a_receive),
		ON_ETHERNET(of_what_nobody_awaits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
