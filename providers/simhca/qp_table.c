/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The QPs of a context by number, for the poller, which knows of a QP only what a CQE says. */
#include <stdlib.h>

#include "provider.h"

static struct shca_qp_entry *leaf_of(struct shca_context *ctx, uint32_t slot)
{
	return atomic_load_explicit(&ctx->qps[slot / SHCA_QPS_PER_LEAF], memory_order_relaxed);
}

/* Returns 0 or ENOMEM. Leaves stay until the context goes, so readers need no lock for them. */
int shca_qp_table_add(struct shca_qp *qp)
{
	struct shca_context *ctx = qp->ctx;
	uint32_t slot = SIMHCA_QPN_SLOT(qp->vqp.qp.qp_num);
	struct shca_qp_entry *leaf;

	shca_lock(&ctx->qp_lock);
	leaf = leaf_of(ctx, slot);
	if (!leaf) {
		leaf = calloc(SHCA_QPS_PER_LEAF, sizeof(*leaf));
		atomic_store_explicit(&ctx->qps[slot / SHCA_QPS_PER_LEAF], leaf,
				      memory_order_release);
	}
	if (leaf)
		atomic_store_explicit(&leaf[slot % SHCA_QPS_PER_LEAF].qp, qp, memory_order_release);
	shca_unlock(&ctx->qp_lock);
	return leaf ? 0 : ENOMEM;
}

void shca_qp_table_set_send_cq(struct shca_qp *qp, const struct shca_cq *cq)
{
	struct shca_qp_entry *entry = shca_qp_entry(qp->ctx, qp->vqp.qp.qp_num);

	atomic_store_explicit(&entry->send_cq, cq, memory_order_release);
}

void shca_qp_table_set_recv_cq(struct shca_qp *qp, const struct shca_cq *cq)
{
	struct shca_qp_entry *entry = shca_qp_entry(qp->ctx, qp->vqp.qp.qp_num);

	atomic_store_explicit(&entry->recv_cq, cq, memory_order_release);
}

void shca_qp_table_remove(struct shca_qp *qp)
{
	struct shca_context *ctx = qp->ctx;
	uint32_t slot = SIMHCA_QPN_SLOT(qp->vqp.qp.qp_num);
	struct shca_qp_entry *entry;
	struct shca_qp *expected = qp;

	shca_lock(&ctx->qp_lock);
	entry = &leaf_of(ctx, slot)[slot % SHCA_QPS_PER_LEAF];
	/* The device may have given the slot to a new QP, which another thread has added. */
	atomic_compare_exchange_strong(&entry->qp, &expected, NULL);
	shca_unlock(&ctx->qp_lock);
}

void shca_qp_table_free(struct shca_context *ctx)
{
	uint32_t slot;

	for (slot = 0; slot < SIMHCA_QPN_SLOTS; slot += SHCA_QPS_PER_LEAF)
		free(leaf_of(ctx, slot));
}
