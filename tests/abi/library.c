/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A libibverbs of one release (RELEASE), made of what is recorded of it, as far as a provider deals
 * with it when it is loaded: it takes operations to their slots, finds the extended QP, and
 * remembers who registers. It reads a provider's structures by the recorded places alone.
 */
#include "infiniband/verbs.h"

#define EXPORT __attribute__((visibility("default")))
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* What verbs_register_driver() was given; its first member is the provider's name. */
EXPORT const char *const *registered;

EXPORT void PASTE(verbs_register_driver_, PABI)(const char *const *ops);
EXPORT void verbs_set_ops(struct verbs_context *vctx, void (*const *ops)(void));

void PASTE(verbs_register_driver_, PABI)(const char *const *ops)
{
	registered = ops;
}

/* The private context begins with other things. */
struct private_context {
	uint64_t bitmap[3];
	void (*ops[RECORDED_NUM_OPS])(void);
};

void verbs_set_ops(struct verbs_context *vctx, void (*const *ops)(void))
{
	struct private_context *priv = (struct private_context *)vctx->priv;
	struct ibv_context_ops *context = &vctx->context.ops;
	int index = 0;

#define TO_NONE(name)
#define TO_EXTENDED(name) vctx->name = *ops;
#define TO_FLOW(name) vctx->ibv_##name = *ops;
#define TO_CONTEXT(name) context->name = *ops;
#define TO_COMPAT(name) context->_compat_##name = *ops;
#define COPY(name, slot)                                                                           \
	if (*ops) {                                                                                \
		priv->ops[index] = *ops;                                                           \
		TO_##slot(name)                                                                    \
	}                                                                                          \
	ops++;                                                                                     \
	index++;
#define OP(name, since, slot) RECORDED_IF(since, COPY(name, slot))
#include "ops.def"
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	uint32_t comp_mask;

	memcpy(&comp_mask, (char *)qp + RECORDED_QP_EX, sizeof(comp_mask));
	return comp_mask & 1 << 1 ? (struct ibv_qp_ex *)qp : NULL;
}
