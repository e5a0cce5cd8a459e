/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Does providers/simhca/ibverbs-provider-abi.h state the ABI of the libibverbs that is installed? Every
 * test lets the real library read or write one of the structures and looks at it through the
 * header. There is no device: the command descriptor is /dev/null, whose ENOTTY libibverbs takes
 * for an old kernel.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The header calls test_set_ops(), which can pretend to be a library of another layout. */
#define verbs_set_ops test_set_ops
#include "ibverbs-provider-check.h"
#undef verbs_set_ops

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static void (*real_set_ops)(struct verbs_context *vctx, const struct verbs_context_ops *ops);

/* Index of an op that the pretended library has and we do not; -1: none. */
static int surplus_op = -1;
/* Index of an op that we have and the pretended library does not; -1: none. */
static int missing_op = -1;

union op_table {
	struct verbs_context_ops ops;
	uintptr_t slot[SIMHCA_PABI_NUM_OPS];
};

/*
 * A library with one op more (or less) at some index takes what follows it from one slot further on
 * (or before) than we put it.
 */
void test_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *ops)
{
	const union op_table *ours = (const union op_table *)ops;
	union op_table seen;
	size_t i;

	for (i = 0; i < SIMHCA_PABI_NUM_OPS; i++) {
		size_t from = i;

		if (surplus_op >= 0 && i >= (size_t)surplus_op)
			from = i + 1;
		if (missing_op >= 0 && i > (size_t)missing_op)
			from = i - 1;
		seen.slot[i] = from < SIMHCA_PABI_NUM_OPS ? ours->slot[from] : 0;
	}
	real_set_ops(vctx, &seen.ops);
}

/*
 * A provider of the smallest size
 */

struct test_context {
	char before[40];
	struct verbs_context vctx;
	char after[40];
};

static int ops_called;
static void *op_argument;
static int reg_access;
static struct test_context *freed_context;

static int test_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n, (void)wc;
	return 1001;
}

static int test_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return 1002;
}

static int test_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp, (void)wr, (void)bad_wr;
	return 1003;
}

static int test_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			  struct ibv_sge *sg_list, uint32_t num_sges)
{
	(void)pd, (void)advice, (void)flags, (void)sg_list, (void)num_sges;
	return 1004;
}

static struct ibv_dm *test_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	(void)context, (void)attr;
	return NULL;
}

static struct ibv_flow *test_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	(void)qp, (void)attr;
	return NULL;
}

static int test_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	(void)srq, (void)op, (void)bad_op;
	return 1005;
}

static int test_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq, (void)cqe;
	return 1006;
}

static struct ibv_mr *test_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
				  int access)
{
	struct verbs_mr *vmr = calloc(1, sizeof(*vmr));

	(void)pd, (void)addr, (void)length, (void)hca_va;
	reg_access = access;
	vmr->mr_type = IBV_MR_TYPE_MR;
	vmr->access = access;
	return &vmr->ibv_mr;
}

static int test_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
			 size_t length, int access)
{
	(void)flags, (void)pd, (void)addr, (void)length, (void)access;
	ops_called++;
	op_argument = vmr;
	return 0;
}

static int test_dereg_mr(struct verbs_mr *vmr)
{
	ops_called++;
	op_argument = vmr;
	free(vmr);
	return 0;
}

static int test_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)ece;
	ops_called++;
	op_argument = qp;
	return 0;
}

static void test_unimport_mr(struct ibv_mr *mr)
{
	ops_called++;
	op_argument = mr;
}

static void test_unimport_pd(struct ibv_pd *pd)
{
	ops_called++;
	op_argument = pd;
}

static void test_free_context(struct ibv_context *ctx)
{
	struct verbs_context *vctx = verbs_get_ctx(ctx);

	freed_context = (struct test_context *)((char *)vctx - offsetof(struct test_context, vctx));
	verbs_uninit_context(vctx);
	free(freed_context);
}

static const struct verbs_context_ops test_ops = {
	.advise_mr = test_advise_mr,
	.alloc_dm = test_alloc_dm,
	.create_flow = test_create_flow,
	.dereg_mr = test_dereg_mr,
	.free_context = test_free_context,
	.poll_cq = test_poll_cq,
	.post_send = test_post_send,
	.post_srq_ops = test_post_srq_ops,
	.reg_mr = test_reg_mr,
	.req_notify_cq = test_req_notify_cq,
	.rereg_mr = test_rereg_mr,
	.resize_cq = test_resize_cq,
	.set_ece = test_set_ece,
	.unimport_mr = test_unimport_mr,
	.unimport_pd = test_unimport_pd,
};

static struct verbs_device_ops test_device_ops = { .name = "test" };
static struct verbs_device test_device;

static int open_context(void **state)
{
	struct test_context *context = NULL;
	int cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	memset(&test_device, 0, sizeof(test_device));
	test_device.ops = &test_device_ops;
	atomic_init(&test_device.refcount, 1);
	surplus_op = missing_op = -1;
	ops_called = 0;
	op_argument = NULL;
	freed_context = NULL;

	context = verbs_init_and_alloc_context(&test_device.device, cmd_fd, context, vctx,
					       RDMA_DRIVER_UNKNOWN);
	if (!context)
		return -1;
	real_set_ops(&context->vctx, &test_ops);
	*state = context;
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	if (!freed_context)
		ibv_close_device(&((struct test_context *)*state)->vctx.context);
	return 0;
}

/*
 * Tests
 */

static void exports_the_symbols_of_this_pabi(void **state)
{
	static const char *const names[] = {
		"_verbs_init_and_alloc_context",
		"verbs_uninit_context",
		"verbs_set_ops",
		"verbs_init_cq",
		"verbs_open_device",
		"ibv_query_gid_type",
		"ibv_read_ibdev_sysfs_file",
		"__verbs_log",
	};
	const char *reg = "verbs_register_driver_" SIMHCA_PABI_STR_(SIMHCA_PABI_VERSION);
	size_t i;

	(void)state;
	assert_non_null(dlvsym(RTLD_DEFAULT, reg, SIMHCA_PABI_SYMVER));
	assert_ptr_equal(dlsym(RTLD_DEFAULT, reg), verbs_register_driver);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!dlvsym(RTLD_DEFAULT, names[i], SIMHCA_PABI_SYMVER))
			fail_msg("no %s@%s", names[i], SIMHCA_PABI_SYMVER);
	}
}

static void probe_accepts_the_installed_library(void **state)
{
	(void)state;
	assert_null(simhca_provider_abi_probe());
}

/* The probe sees the private copy, and so any shift, down to the last op. */
static void probe_notices_a_shift_anywhere(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < SIMHCA_PABI_NUM_OPS; i++) {
		surplus_op = i;
		if (!simhca_provider_abi_probe())
			fail_msg("a library with one more op at %zu goes unnoticed", i);
	}
	surplus_op = -1;
	for (i = 0; i < SIMHCA_PABI_NUM_OPS - 1; i++) {
		missing_op = i;
		if (!simhca_provider_abi_probe())
			fail_msg("a library without op %zu goes unnoticed", i);
	}
}

/* The check of a context sees public slots only: any shift up to the last op that has one. */
static void check_notices_a_shift_up_to_the_last_public_slot(void **state)
{
	struct test_context *context = *state;
	size_t last = offsetof(struct verbs_context_ops, resize_cq) / sizeof(uintptr_t);
	union op_table table;
	size_t i;

	for (i = 0; i < SIMHCA_PABI_NUM_OPS; i++)
		table.slot[i] = 0x10000 + i;

	for (i = 0; i <= last; i++) {
		surplus_op = i;
		test_set_ops(&context->vctx, &table.ops);
		if (simhca_provider_abi_ok(&context->vctx.context, &table.ops))
			fail_msg("a library with one more op at %zu goes unnoticed", i);
	}

	surplus_op = -1;
	test_set_ops(&context->vctx, &table.ops);
	assert_true(simhca_provider_abi_ok(&context->vctx.context, &table.ops));
	real_set_ops(&context->vctx, &test_ops);
}

static void check_names_what_is_misplaced(void **state)
{
	struct test_context *context = *state;
	struct ibv_context *ctx = &context->vctx.context;

	assert_true(simhca_provider_abi_ok(ctx, &test_ops));

	ctx->ops.poll_cq = NULL;
	assert_string_equal(simhca_provider_abi_mismatch(ctx, &test_ops), "poll_cq");
	ctx->ops.poll_cq = test_poll_cq;

	context->vctx.sz -= sizeof(void *);
	assert_false(simhca_provider_abi_ok(ctx, &test_ops));
	context->vctx.sz += sizeof(void *);

	assert_true(simhca_provider_abi_ok(ctx, &test_ops));
}

static void init_fills_the_context(void **state)
{
	struct test_context *context = *state;
	struct ibv_context *ctx = &context->vctx.context;
	size_t i;

	assert_int_equal(context->vctx.sz, sizeof(struct verbs_context));
	assert_ptr_equal(ctx->abi_compat, __VERBS_ABI_IS_EXTENDED);
	assert_ptr_equal(ctx->device, &test_device.device);
	assert_true(fcntl(ctx->cmd_fd, F_GETFD) >= 0);
	assert_int_equal(ctx->async_fd, -1);
	assert_int_equal(atomic_load(&test_device.refcount), 2);
	for (i = 0; i < sizeof(context->before); i++)
		assert_int_equal(context->before[i], 0);
	for (i = 0; i < sizeof(context->after); i++)
		assert_int_equal(context->after[i], 0);
}

static void ops_reach_the_public_slots(void **state)
{
	struct test_context *context = *state;
	struct ibv_context *ctx = &context->vctx.context;
	struct ibv_context_ops *ops = &ctx->ops;

	assert_ptr_equal(ops->poll_cq, test_poll_cq);
	assert_ptr_equal(ops->req_notify_cq, test_req_notify_cq);
	assert_ptr_equal(ops->post_send, test_post_send);
	assert_ptr_equal(ops->_compat_reg_mr, test_reg_mr);
	assert_ptr_equal(ops->_compat_resize_cq, test_resize_cq);
	assert_ptr_equal(context->vctx.advise_mr, test_advise_mr);
	assert_ptr_equal(context->vctx.alloc_dm, test_alloc_dm);
	assert_ptr_equal(context->vctx.ibv_create_flow, test_create_flow);
	assert_ptr_equal(context->vctx.post_srq_ops, test_post_srq_ops);
}

static void ops_left_out_keep_the_default(void **state)
{
	struct test_context *context = *state;
	struct ibv_context *ctx = &context->vctx.context;
	struct ibv_qp qp = { .context = ctx };
	struct ibv_recv_wr *bad_wr;
	const struct verbs_context_ops none = {};

	assert_int_equal(ibv_post_recv(&qp, NULL, &bad_wr), EOPNOTSUPP);
	errno = 0;
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, EOPNOTSUPP);

	real_set_ops(&context->vctx, &none);
	assert_true(simhca_provider_abi_ok(ctx, &test_ops));
}

/* The last ops have no public slot, but public functions that call them. */
static void last_ops_are_called(void **state)
{
	struct test_context *context = *state;
	struct ibv_context *ctx = &context->vctx.context;
	struct ibv_qp qp = { .context = ctx };
	struct ibv_mr mr = { .context = ctx };
	struct ibv_pd pd = { .context = ctx };
	struct ibv_ece ece = { .vendor_id = 1 };

	assert_int_equal(ibv_set_ece(&qp, &ece), 0);
	assert_ptr_equal(op_argument, &qp);
	ibv_unimport_mr(&mr);
	assert_ptr_equal(op_argument, &mr);
	ibv_unimport_pd(&pd);
	assert_ptr_equal(op_argument, &pd);
	assert_int_equal(ops_called, 3);
}

/* libibverbs reads verbs_device.core_support. */
static void optional_access_needs_core_support(void **state)
{
	struct test_context *context = *state;
	struct ibv_pd pd = { .context = &context->vctx.context };
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	char buf[16];
	struct ibv_mr *mr;

	mr = ibv_reg_mr_iova2(&pd, buf, sizeof(buf), 0, access);
	assert_non_null(mr);
	assert_int_equal(reg_access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	test_device.core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	mr = ibv_reg_mr_iova2(&pd, buf, sizeof(buf), 0, access);
	assert_non_null(mr);
	assert_int_equal(reg_access, access);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* libibverbs reads verbs_mr.mr_type, and hands the verbs_mr to the ops. */
static void only_a_plain_mr_is_reregistered(void **state)
{
	struct test_context *context = *state;
	struct ibv_pd pd = { .context = &context->vctx.context };
	char buf[16];
	struct ibv_mr *mr = ibv_reg_mr_iova2(&pd, buf, sizeof(buf), 0, IBV_ACCESS_LOCAL_WRITE);

	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0), 0);
	assert_ptr_equal(op_argument, verbs_get_mr(mr));
	assert_int_equal(ops_called, 1);

	verbs_get_mr(mr)->mr_type = IBV_MR_TYPE_DMABUF_MR;
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, &pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ops_called, 1);

	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_ptr_equal(op_argument, verbs_get_mr(mr));
	assert_int_equal(ops_called, 2);
}

/* libibverbs reads verbs_qp.comp_mask. */
static void qp_is_extended_when_it_says_so(void **state)
{
	struct verbs_qp vqp = {};

	(void)state;
	assert_null(ibv_qp_to_qp_ex(&vqp.qp));
	vqp.comp_mask = VERBS_QP_XRCD;
	assert_null(ibv_qp_to_qp_ex(&vqp.qp));
	vqp.comp_mask = VERBS_QP_EX;
	assert_ptr_equal(ibv_qp_to_qp_ex(&vqp.qp), &vqp.qp_ex);
}

static void init_cq_counts_on_the_channel(void **state)
{
	struct test_context *context = *state;
	struct ibv_comp_channel channel = { .context = &context->vctx.context };
	struct verbs_cq vcq = {};
	int cookie;

	verbs_init_cq(&vcq.cq, &context->vctx.context, &channel, &cookie);
	assert_ptr_equal(vcq.cq.context, &context->vctx.context);
	assert_ptr_equal(vcq.cq.channel, &channel);
	assert_ptr_equal(vcq.cq.cq_context, &cookie);
	assert_int_equal(channel.refcnt, 1);
}

static void close_frees_the_context(void **state)
{
	struct test_context *context = *state;
	int cmd_fd = context->vctx.context.cmd_fd;

	assert_int_equal(ibv_close_device(&context->vctx.context), 0);
	assert_ptr_equal(freed_context, context);
	assert_int_equal(fcntl(cmd_fd, F_GETFD), -1);
	assert_int_equal(atomic_load(&test_device.refcount), 1);
}

int main(void)
{
#define WITH_CONTEXT(test) cmocka_unit_test_setup_teardown(test, open_context, close_context)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exports_the_symbols_of_this_pabi),
		cmocka_unit_test(probe_accepts_the_installed_library),
		cmocka_unit_test(probe_notices_a_shift_anywhere),
		WITH_CONTEXT(check_notices_a_shift_up_to_the_last_public_slot),
		WITH_CONTEXT(check_names_what_is_misplaced),
		WITH_CONTEXT(init_fills_the_context),
		WITH_CONTEXT(ops_reach_the_public_slots),
		WITH_CONTEXT(ops_left_out_keep_the_default),
		WITH_CONTEXT(last_ops_are_called),
		WITH_CONTEXT(optional_access_needs_core_support),
		WITH_CONTEXT(only_a_plain_mr_is_reregistered),
		cmocka_unit_test(qp_is_extended_when_it_says_so),
		WITH_CONTEXT(init_cq_counts_on_the_channel),
		WITH_CONTEXT(close_frees_the_context),
	};

	*(void **)&real_set_ops = dlvsym(RTLD_DEFAULT, "verbs_set_ops", SIMHCA_PABI_SYMVER);
	if (!real_set_ops) {
		fprintf(stderr, "libibverbs has no verbs_set_ops@%s\n", SIMHCA_PABI_SYMVER);
		return EXIT_FAILURE;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
