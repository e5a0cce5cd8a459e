/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The provider's ibv_destroy_cq() against threads that destroy the QPs and SRQs of that CQ: it is
 * refused until the last of them has let go of the CQ. The device is played here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lint.h"
#include "say.h"

#define ROUNDS 2000
#define QPS 3
#define GONE 0xa5 /* what the memory of a destroyed CQ is full of */

static struct simhca_devmem device = { .attr = { .max_cqe = 1024, .num_comp_vectors = 1 } };
static struct simhca_cq_mem cq_mem;
static struct simhca_cqe ring[16];
/* As the device counts them: queues that use the CQ. */
static atomic_int users;
static atomic_int destroyed;
static void *freed; /* the last CQ, kept to see whether anybody writes to it */

/* ------------------------------------------------- what cq.c needs of the rest of the provider */

int shca_execute(struct shca_context *ctx, const struct shca_command *cmd)
{
	struct simhca_create_cq_reply *reply = cmd->reply;

	(void)ctx;
	assert_int_equal(cmd->command, SIMHCA_CMD_CREATE_CQ);
	*reply = (struct simhca_create_cq_reply){ .cqe = 16, .entries = 16, .ring.offset = 1 };
	return 0;
}

void *shca_map(struct shca_context *ctx, struct shca_segment *own, const struct simhca_mem_ref *ref,
	       uint64_t bytes)
{
	(void)ctx;
	(void)own;
	(void)bytes;
	return ref->offset ? (void *)ring : (void *)&cq_mem;
}

void shca_say_no_descriptor(struct shca_context *ctx, enum simhca_cmd command, int err)
{
}

void shca_unmap(struct shca_segment *own)
{
	(void)own;
}

void shca_cq_renew(struct shca_cq *cq)
{
	(void)cq;
}

int shca_destroy_with_channel(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
			      const struct ibv_comp_channel *channel,
			      struct simhca_destroy_reply *reply)
{
	(void)ctx;
	(void)handle;
	(void)channel;
	assert_int_equal(command, SIMHCA_CMD_DESTROY_CQ);
	if (atomic_load(&users))
		return EBUSY;
	*reply = (struct simhca_destroy_reply){ 0 };
	atomic_fetch_add(&destroyed, 1);
	return 0;
}

int shca_destroy(struct shca_context *ctx, enum simhca_cmd command, uint32_t handle,
		 struct simhca_destroy_reply *reply)
{
	return shca_destroy_with_channel(ctx, command, handle, NULL, reply);
}

void *shca_home_alloc(struct ibv_pd *pd, enum simhcadv_res_type type, size_t size,
		      struct shca_home *home)
{
	(void)pd;
	(void)type;
	*home = (struct shca_home){ 0 };
	return calloc(1, size);
}

void shca_home_free(struct shca_home home, void *ptr)
{
	(void)home;
	memset(ptr, GONE, sizeof(struct shca_cq));
	freed = ptr;
}

struct simhca_user_handle shca_user_handle(struct shca_context *ctx, const void *element)
{
	(void)ctx;
	return (struct simhca_user_handle){ .element = (uintptr_t)element };
}

bool shca_is_ours(const struct ibv_device *ibv_device)
{
	(void)ibv_device;
	return true;
}

void shca_cq_set_readers(struct shca_cq *cq, uint64_t flags)
{
	(void)cq;
	(void)flags;
}

void shca_lint_threads_of_cq(struct shca_cq *cq)
{
	(void)cq;
}

void shca_page_lists_return(struct shca_sq *sq, uint32_t from, uint32_t to)
{
	(void)sq;
	(void)from;
	(void)to;
}

static char busy_with[256]; /* as the last refusal said */

int shca_say_busy(struct shca_context *ctx, enum simhca_say what, const char *text)
{
	(void)ctx;
	assert_int_equal(what, SIMHCA_SAY_DESTROY_CQ);
	snprintf(busy_with, sizeof(busy_with), "%s", text);
	return shca_result(EBUSY);
}

int shca_say_refusal(struct shca_context *ctx, enum simhca_say what, int err, const char *text)
{
	(void)ctx;
	(void)what;
	(void)text;
	return shca_result(err);
}

int shca_say_command(struct shca_context *ctx, enum simhca_cmd command, int err, const char *text)
{
	(void)ctx;
	(void)command;
	(void)text;
	return shca_result(err);
}

void shca_say_no_doorbell(struct shca_context *ctx)
{
	(void)ctx;
}

void shca_say_waits(struct shca_context *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

void shca_say_waits_no_more(struct shca_context *ctx, const char *text)
{
	(void)ctx;
	(void)text;
}

/* ---------------------------------------------------------------------------------- tests */

static struct shca_context context = { .dev = &device };

struct queues {
	struct shca_cq *cq;
	struct shca_qp qp[QPS];
	struct shca_srq srq;
};

static void create(struct queues *queues)
{
	struct ibv_cq *cq = shca_create_cq(&context.vctx.context, 16, NULL, 0);

	assert_non_null(cq);
	memset(queues, 0, sizeof(*queues));
	queues->cq = to_scq(cq);
	for (int i = 0; i < QPS; i++) {
		queues->qp[i].ctx = &context;
		queues->qp[i].vqp.qp.send_cq = queues->qp[i].vqp.qp.recv_cq = cq;
		queues->qp[i].vqp.qp.qp_num = (uint32_t)i + 1;
		atomic_fetch_add(&users, 1);
		assert_int_equal(shca_qp_table_add(&queues->qp[i]), 0);
		shca_cq_attach_qp(&queues->qp[i]);
	}
	atomic_fetch_add(&users, 1);
	shca_cq_attach_srq(queues->cq, &queues->srq);
}

/* As shca_destroy_qp() and shca_destroy_srq() do it: first the device's, then the provider's. */
static void *destroy_queues(void *arg)
{
	struct queues *queues = arg;

	for (int i = 0; i < QPS; i++) {
		atomic_fetch_sub(&users, 1);
		shca_cq_detach_qp(&queues->qp[i]);
		shca_qp_table_remove(&queues->qp[i]);
	}
	atomic_fetch_sub(&users, 1);
	shca_cq_detach_srq(queues->cq, &queues->srq);
	return NULL;
}

/* The memory of the CQ was nobody's business any more. */
static void check_untouched(void)
{
	for (size_t i = 0; i < sizeof(struct shca_cq); i++)
		assert_int_equal(((uint8_t *)freed)[i], GONE);
	free(freed);
}

static void destroyed_when_the_last_queue_has_gone(void **state)
{
	struct queues queues;
	pthread_t thread;
	int err;

	for (int i = 0; i < ROUNDS; i++) {
		create(&queues);
		assert_int_equal(pthread_create(&thread, NULL, destroy_queues, &queues), 0);
		while ((err = shca_destroy_cq(&queues.cq->vcq.cq)) == EBUSY)
			sched_yield();
		assert_int_equal(err, 0);
		pthread_join(thread, NULL);
		check_untouched();
	}
	assert_int_equal(atomic_load(&destroyed), ROUNDS);
}

/* Each of the lists counts, and who is between the device's answer and the CQ's lock, too. */
static void refused_while_any_queue_uses_it(void **state)
{
	struct queues queues;

	create(&queues);
	destroyed = 0;
	atomic_store(&users, 0);
	for (int i = 0; i < QPS; i++) {
		assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), EBUSY);
		shca_cq_detach_qp(&queues.qp[i]);
	}
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), EBUSY);
	assert_string_equal(busy_with, "this CQ of 16 entries is still used by 1 SRQ");
	shca_cq_detach_srq(queues.cq, &queues.srq);
	queues.qp[0].vqp.qp.recv_cq = NULL;
	shca_cq_attach_qp(&queues.qp[0]);
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), EBUSY);
	shca_cq_detach_qp(&queues.qp[0]);
	queues.qp[0].vqp.qp.recv_cq = queues.qp[0].vqp.qp.send_cq;
	queues.qp[0].vqp.qp.send_cq = NULL;
	shca_cq_attach_qp(&queues.qp[0]);
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), EBUSY);
	shca_cq_detach_qp(&queues.qp[0]);
	assert_int_equal(destroyed, 0);
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), 0);
	check_untouched();
}

/* Between ibv_start_poll() and ibv_end_poll() the caller has the lock: refused, not stuck. */
static void a_poll_that_is_not_ended_is_not_waited_for(void **state)
{
	struct queues queues;

	create(&queues);
	shca_cq_lock(queues.cq);
	atomic_store(&queues.cq->polling, true);
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), EBUSY);
	atomic_store(&queues.cq->polling, false);
	shca_cq_unlock(queues.cq);
	destroy_queues(&queues);
	assert_int_equal(shca_destroy_cq(&queues.cq->vcq.cq), 0);
	check_untouched();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(destroyed_when_the_last_queue_has_gone),
		cmocka_unit_test(refused_while_any_queue_uses_it),
		cmocka_unit_test(a_poll_that_is_not_ended_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
