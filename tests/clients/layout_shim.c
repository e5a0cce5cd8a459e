/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A libibverbs with another private layout than the one that the provider was built for, made of
 * the installed one: preloaded, this library stands between the two. Built with one of
 *
 *	-DOPS_SHIFTED		struct verbs_context_ops begins with one more op
 *	-DCONTEXT_GROWN		struct verbs_context is longer
 *	-DQP_MOVED		ibv_qp_ex is elsewhere in struct verbs_qp
 *
 * and with PRIVATE_VERSION, the version of libibverbs' private symbols.
 */
#include <dlfcn.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#ifdef QP_MOVED
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *(*real)(struct ibv_qp *) = dlsym(RTLD_NEXT, "ibv_qp_to_qp_ex");

	return (struct ibv_qp_ex *)((char *)real(qp) + sizeof(void *));
}
#else
void verbs_set_ops(struct verbs_context *vctx, const void *const *ops);

void verbs_set_ops(struct verbs_context *vctx, const void *const *ops)
{
	void (*real)(struct verbs_context *, const void *const *) =
		dlvsym(RTLD_NEXT, "verbs_set_ops", PRIVATE_VERSION);

#ifdef OPS_SHIFTED
	real(vctx, ops + 1);
#else
	real(vctx, ops);
	vctx->sz += sizeof(void *);
#endif
}
#endif
