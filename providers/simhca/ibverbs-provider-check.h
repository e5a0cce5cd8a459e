/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Is the libibverbs that loads a provider of the layout that the provider was compiled for? The
 * number of the private ABI is checked by the dynamic linker; what changed without a new number is
 * checked here.
 */
#ifndef SIMHCA_IBVERBS_PROVIDER_CHECK_H
#define SIMHCA_IBVERBS_PROVIDER_CHECK_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "ibverbs-provider-abi.h"

/*
 * After verbs_set_ops(vctx, ops) with the context that holds ctx: does every op stand where the
 * public structures promise it? libibverbs takes each op from its place in *its* verbs_context_ops
 * to a public slot of struct verbs_context or ibv_context_ops, so a layout that differs puts a
 * neighbour there. It does so for most ops, from the first (advise_mr) to resize_cq, the fifth from
 * the end; an op that is NULL is not looked at. Slots that ibv_open_device() overwrites later are
 * not looked at either, so ctx can be checked at any time.
 *
 * Returns NULL when all is well, else the name of the first thing that is not in its place.
 */
static inline const char *simhca_provider_abi_mismatch(const struct ibv_context *ctx,
						       const struct verbs_context_ops *ops)
{
	const struct verbs_context *vctx = verbs_get_ctx((struct ibv_context *)ctx);

	if (!vctx || vctx->sz != sizeof(*vctx))
		return "struct verbs_context";

#define SIMHCA_PABI_CHECK_(op, slot)                                                               \
	do {                                                                                       \
		if (ops->op && (void *)ops->op != (void *)(slot))                                  \
			return #op;                                                                \
	} while (0)
#define SIMHCA_PABI_EXT_(op) SIMHCA_PABI_CHECK_(op, vctx->op)
#define SIMHCA_PABI_CTX_(op) SIMHCA_PABI_CHECK_(op, ctx->ops.op)
#define SIMHCA_PABI_OLD_(op) SIMHCA_PABI_CHECK_(op, ctx->ops._compat_##op)

	SIMHCA_PABI_EXT_(advise_mr);
#if SIMHCA_PABI >= 64
	SIMHCA_PABI_EXT_(alloc_buf);
#endif
	SIMHCA_PABI_EXT_(alloc_dm);
#if SIMHCA_PABI >= 59
	SIMHCA_PABI_EXT_(alloc_dmah);
#endif
	SIMHCA_PABI_CTX_(alloc_mw);
	SIMHCA_PABI_EXT_(alloc_null_mr);
	SIMHCA_PABI_EXT_(alloc_parent_domain);
	SIMHCA_PABI_OLD_(alloc_pd);
	SIMHCA_PABI_EXT_(alloc_td);
	SIMHCA_PABI_OLD_(async_event);
	SIMHCA_PABI_EXT_(attach_counters_point_flow);
	SIMHCA_PABI_OLD_(attach_mcast);
	SIMHCA_PABI_CTX_(bind_mw);
	SIMHCA_PABI_EXT_(close_xrcd);
	SIMHCA_PABI_OLD_(cq_event);
	SIMHCA_PABI_OLD_(create_ah);
	SIMHCA_PABI_EXT_(create_counters);
	SIMHCA_PABI_OLD_(create_cq);
	SIMHCA_PABI_CHECK_(create_flow, vctx->ibv_create_flow);
	SIMHCA_PABI_EXT_(create_flow_action_esp);
	SIMHCA_PABI_OLD_(create_qp);
	SIMHCA_PABI_EXT_(create_qp_ex);
	SIMHCA_PABI_EXT_(create_rwq_ind_table);
	SIMHCA_PABI_OLD_(create_srq);
	SIMHCA_PABI_EXT_(create_srq_ex);
	SIMHCA_PABI_EXT_(create_wq);
#if SIMHCA_PABI >= 59
	SIMHCA_PABI_EXT_(dealloc_dmah);
#endif
	SIMHCA_PABI_CTX_(dealloc_mw);
	SIMHCA_PABI_OLD_(dealloc_pd);
	SIMHCA_PABI_EXT_(dealloc_td);
	SIMHCA_PABI_OLD_(dereg_mr);
	SIMHCA_PABI_OLD_(destroy_ah);
	SIMHCA_PABI_EXT_(destroy_counters);
	SIMHCA_PABI_OLD_(destroy_cq);
	SIMHCA_PABI_CHECK_(destroy_flow, vctx->ibv_destroy_flow);
	SIMHCA_PABI_EXT_(destroy_flow_action);
	SIMHCA_PABI_OLD_(destroy_qp);
	SIMHCA_PABI_EXT_(destroy_rwq_ind_table);
	SIMHCA_PABI_OLD_(destroy_srq);
	SIMHCA_PABI_EXT_(destroy_wq);
	SIMHCA_PABI_OLD_(detach_mcast);
#if SIMHCA_PABI >= 62
	SIMHCA_PABI_EXT_(dm_export_dmabuf_fd);
#endif
#if SIMHCA_PABI >= 64
	SIMHCA_PABI_EXT_(free_buf);
#endif
	SIMHCA_PABI_EXT_(free_dm);
	SIMHCA_PABI_EXT_(get_srq_num);
	SIMHCA_PABI_EXT_(modify_cq);
	SIMHCA_PABI_EXT_(modify_flow_action_esp);
	SIMHCA_PABI_OLD_(modify_qp);
	SIMHCA_PABI_EXT_(modify_qp_rate_limit);
	SIMHCA_PABI_OLD_(modify_srq);
	SIMHCA_PABI_EXT_(modify_wq);
	SIMHCA_PABI_EXT_(open_qp);
	SIMHCA_PABI_EXT_(open_xrcd);
	SIMHCA_PABI_CTX_(poll_cq);
	SIMHCA_PABI_CTX_(post_recv);
	SIMHCA_PABI_CTX_(post_send);
	SIMHCA_PABI_EXT_(post_srq_ops);
	SIMHCA_PABI_CTX_(post_srq_recv);
	SIMHCA_PABI_EXT_(query_device_ex);
	SIMHCA_PABI_OLD_(query_qp);
	SIMHCA_PABI_EXT_(query_rt_values);
	SIMHCA_PABI_OLD_(query_srq);
	SIMHCA_PABI_EXT_(read_counters);
	SIMHCA_PABI_EXT_(reg_dm_mr);
	SIMHCA_PABI_OLD_(reg_mr);
#if SIMHCA_PABI >= 59
	SIMHCA_PABI_EXT_(reg_mr_ex);
#endif
	SIMHCA_PABI_CTX_(req_notify_cq);
	SIMHCA_PABI_OLD_(rereg_mr);
	SIMHCA_PABI_OLD_(resize_cq);

#undef SIMHCA_PABI_OLD_
#undef SIMHCA_PABI_CTX_
#undef SIMHCA_PABI_EXT_
#undef SIMHCA_PABI_CHECK_
	return NULL;
}

static inline bool simhca_provider_abi_ok(const struct ibv_context *ctx,
					  const struct verbs_context_ops *ops)
{
	return !simhca_provider_abi_mismatch(ctx, ops);
}

/*
 * Compare the whole layout with that of the library that is loaded, without a device:
 * verbs_set_ops() takes a table in which every op has a value of its own to a context made up here.
 * The public slots are checked as above. The library's private copy must then hold the values in
 * the order of our layout and none beyond, which also covers the ops that have no public slot.
 * Finally ibv_qp_to_qp_ex() must find verbs_qp.comp_mask. No function pointer of the table is ever
 * called.
 *
 * The room behind each structure keeps a library with longer ones from reading or writing past
 * them, and the context is full of pointers to priv, so that such a library finds it wherever it
 * looks.
 *
 * Returns NULL when all is well, else the name of the first thing that is not in its place.
 */
static inline const char *simhca_provider_abi_probe(void)
{
	enum { ROOM = 64, PRIV = 512 };
	union {
		struct verbs_context_ops ops;
		uintptr_t value[SIMHCA_PABI_NUM_OPS + ROOM];
	} table = {};
	union {
		struct verbs_context vctx;
		uintptr_t word[sizeof(struct verbs_context) / sizeof(uintptr_t) + ROOM];
	} context;
	struct {
		struct verbs_qp vqp;
		void *room[ROOM];
	} qp = {};
	uintptr_t priv[PRIV] = {};
	size_t first, i;
	const char *wrong;

	for (i = 0; i < sizeof(table.value) / sizeof(table.value[0]); i++)
		table.value[i] = 0x10000 + i;
	for (i = 0; i < sizeof(context.word) / sizeof(context.word[0]); i++)
		context.word[i] = (uintptr_t)priv;

	context.vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context.vctx.sz = sizeof(context.vctx);
	verbs_set_ops(&context.vctx, &table.ops);
	wrong = simhca_provider_abi_mismatch(&context.vctx.context, &table.ops);
	if (wrong)
		return wrong;

	for (first = 0; first < PRIV && priv[first] != table.value[0]; first++)
		;
	if (first + SIMHCA_PABI_NUM_OPS >= PRIV)
		return "struct verbs_ex_private";
	for (i = 0; i < SIMHCA_PABI_NUM_OPS; i++)
		if (priv[first + i] != table.value[i])
			return "struct verbs_context_ops";
	if (priv[first + i] == table.value[i])
		return "struct verbs_context_ops";

	qp.vqp.comp_mask = VERBS_QP_EX;
	if (ibv_qp_to_qp_ex(&qp.vqp.qp) != &qp.vqp.qp_ex)
		return "struct verbs_qp";

	return NULL;
}

/*
 * The releases of rdma-core whose libibverbs this provider can be loaded by. PABI 34 had three
 * layouts, which differ in the public struct ibv_qp_ex.
 */
static inline const char *simhca_provider_abi_releases(void)
{
#if SIMHCA_PABI == 34
	switch (sizeof(struct ibv_qp_ex) - offsetof(struct ibv_qp_ex, wr_abort)) {
	case sizeof(void *):
		return "39-43";
	case 2 * sizeof(void *):
		return "44";
	default:
		return "45-56";
	}
#elif SIMHCA_PABI == 57
	return "57-58";
#elif SIMHCA_PABI == 59
	return "59-61";
#elif SIMHCA_PABI == 62
	return "62-63";
#elif SIMHCA_PABI == 64
	return "64";
#elif SIMHCA_PABI == 65
	return "65";
#endif
}

/* Says in one line that the library is not the provider's, which one that is, and what to do. */
static inline void simhca_provider_abi_refuse(const char *provider, const char *wrong)
{
	const char *file = "libibverbs";
	char path[PATH_MAX];
	Dl_info library;

	if (dladdr((void *)verbs_register_driver, &library) && realpath(library.dli_fname, path))
		file = path;
	fprintf(stderr,
		"%s: built for rdma-core %s, but %s has another %s: build simhca on this system, "
		"with the headers (libibverbs-dev, rdma-core-devel) of this libibverbs\n",
		provider, simhca_provider_abi_releases(), file, wrong);
}

/*
 * Register device_ops when the provider is loaded, or say why not. device_ops is the name of a
 * const struct verbs_device_ops.
 */
#define SIMHCA_REGISTER_DRIVER(device_ops)                                                         \
	static __attribute__((constructor)) void device_ops##_register(void)                       \
	{                                                                                          \
		const char *wrong = simhca_provider_abi_probe();                                   \
                                                                                                   \
		if (wrong)                                                                         \
			simhca_provider_abi_refuse((device_ops).name, wrong);                      \
		else                                                                               \
			verbs_register_driver(&(device_ops));                                      \
	}

#endif /* SIMHCA_IBVERBS_PROVIDER_CHECK_H */
