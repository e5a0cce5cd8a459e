/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * providers/simhca/ibverbs-provider-abi.h, compiled for one release (RELEASE), against what is recorded
 * of it: the place of every operation, the sizes of all that a provider shares with libibverbs. The
 * header's own assertions count as well: if one does not hold, this does not compile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ibverbs-provider-abi.h"

struct recorded_op {
	const char *name;
	size_t offset; /* in the header */
};

static void every_operation_is_in_its_place(void **state)
{
	const struct recorded_op ops[] = {
#define OP(name, since, slot)                                                                      \
	RECORDED_IF(since, { #name, offsetof(struct verbs_context_ops, name) }, )
#include "ops.def"
	};
	const size_t count = sizeof(ops) / sizeof(ops[0]);

	for (size_t i = 0; i < count; i++)
		if (ops[i].offset != i * sizeof(void *))
			fail_msg("%s is operation %zu, not %zu", ops[i].name, i,
				 ops[i].offset / sizeof(void *));
	assert_int_equal(count, RECORDED_NUM_OPS);
	assert_int_equal(sizeof(struct verbs_context_ops), count * sizeof(void *));
}

static void the_number_is_the_releases(void **state)
{
	assert_int_equal(SIMHCA_PABI_VERSION, RECORDED_PABI);
}

static void structures_have_their_size(void **state)
{
	assert_int_equal(offsetof(struct verbs_context, context), RECORDED_CONTEXT_AT);
	assert_int_equal(sizeof(struct verbs_context), RECORDED_CONTEXT_AT + RECORDED_CONTEXT);
	assert_int_equal(sizeof(struct ibv_qp_ex), RECORDED_QP_EX);
	assert_int_equal(sizeof(struct verbs_qp), RECORDED_VERBS_QP);
	assert_int_equal(offsetof(struct verbs_qp, comp_mask), RECORDED_QP_EX);
	assert_int_equal(sizeof(struct verbs_device), RECORDED_VERBS_DEVICE);
	assert_int_equal(sizeof(struct verbs_device_ops), RECORDED_VERBS_DEVICE_OPS);
	assert_int_equal(sizeof(struct verbs_sysfs_dev), RECORDED_VERBS_SYSFS_DEV);
	assert_int_equal(sizeof(struct verbs_mr), RECORDED_VERBS_MR);
	assert_int_equal(sizeof(struct verbs_cq), RECORDED_VERBS_CQ);
	assert_int_equal(sizeof(struct verbs_srq), RECORDED_VERBS_SRQ);
#if RELEASE >= 64
	assert_int_equal(sizeof(struct ibv_buf), RECORDED_BUF);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_is_in_its_place),
		cmocka_unit_test(the_number_is_the_releases),
		cmocka_unit_test(structures_have_their_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
