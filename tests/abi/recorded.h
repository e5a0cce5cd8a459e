/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What libibverbs' structures were in each release of rdma-core from 39 to 65, as measured with the
 * release's own headers on x86-64 (sizeof, offsetof, the order of members). Where these and
 * providers/simhca/ibverbs-provider-abi.h disagree, the header is wrong.
 *
 * RELEASE says of which release the numbers below are. ops.def, extended.def and context.def have
 * the order of members.
 */
#ifndef SIMHCA_TEST_ABI_RECORDED_H
#define SIMHCA_TEST_ABI_RECORDED_H

/* The rest, if RELEASE has what came with release since. */
#define RECORDED_IF(since, ...) RECORDED_IF_##since(__VA_ARGS__)
#define RECORDED_IF_39(...) __VA_ARGS__
#if RELEASE >= 59
#define RECORDED_IF_59(...) __VA_ARGS__
#else
#define RECORDED_IF_59(...)
#endif
#if RELEASE >= 62
#define RECORDED_IF_62(...) __VA_ARGS__
#else
#define RECORDED_IF_62(...)
#endif
#if RELEASE >= 64
#define RECORDED_IF_64(...) __VA_ARGS__
#else
#define RECORDED_IF_64(...)
#endif
#if RELEASE >= 65
#define RECORDED_IF_65(...) __VA_ARGS__
#else
#define RECORDED_IF_65(...)
#endif

/* Sizes and places in bytes. */
enum {
	RECORDED_PABI = RELEASE < 57   ? 34
			: RELEASE < 59 ? 57
			: RELEASE < 64 ? 59
				       : RELEASE,
	RECORDED_NUM_OPS = RELEASE < 59	  ? 76
			   : RELEASE < 62 ? 79
			   : RELEASE < 64 ? 81
			   : RELEASE < 65 ? 83
					  : 93,
	/* where struct verbs_context has its ibv_context, the last member; and how large it is */
	RECORDED_CONTEXT_AT = RELEASE < 59   ? 320
			      : RELEASE < 62 ? 344
			      : RELEASE < 64 ? 352
					     : 368,
	RECORDED_CONTEXT = 328,
	RECORDED_CONTEXT_OPS = 256,
	RECORDED_DEVICE = 664,
	RECORDED_MR = 48,
	RECORDED_QP = 160,
	RECORDED_QP_EX = RELEASE < 44	? 344
			 : RELEASE < 45 ? 352
					: 360,
	RECORDED_CQ = 128,
	RECORDED_CQ_EX = 288,
	RECORDED_SRQ = 128,
	RECORDED_PORT_ATTR = RELEASE < 49 ? 52 : 56,
	/* of the private structures */
	RECORDED_VERBS_DEVICE = 712,
	RECORDED_VERBS_DEVICE_OPS = 72,
	RECORDED_VERBS_SYSFS_DEV = 992,
	RECORDED_VERBS_MR = 56,
	RECORDED_VERBS_QP = RECORDED_QP_EX + 16, /* comp_mask follows the ibv_qp_ex */
	RECORDED_VERBS_CQ = 288,
	RECORDED_VERBS_SRQ = 160,
	RECORDED_BUF = 32, /* since 64 */
};

#endif
