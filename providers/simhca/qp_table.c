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
	if (leaf) {
		struct shca_qp_entry *entry = &leaf[slot % SHCA_QPS_PER_LEAF];

		/* Its CQs are told next. Where the QP completed that had the slot says nothing. */
		atomic_store_explicit(&entry->send_cq, NULL, memory_order_relaxed);
		atomic_store_explicit(&entry->recv_cq, NULL, memory_order_relaxed);
		atomic_store_explicit(&entry->qpn, qp->vqp.qp.qp_num, memory_order_relaxed);
		atomic_store_explicit(&entry->qp, qp, memory_order_release);
	}
	shca_unlock(&ctx->qp_lock);
	return leaf ? 0 : ENOMEM;
}

/*
 * The device may have given the slot of a QP that is being destroyed to a new QP, which another
 * thread has added: then nothing there is the old one's.
 */
static struct shca_qp_entry *own_entry(struct shca_qp *qp)
{
	struct shca_qp_entry *entry = shca_qp_entry(qp->ctx, qp->vqp.qp.qp_num);

	return atomic_load_explicit(&entry->qp, memory_order_relaxed) == qp ? entry : NULL;
}

void shca_qp_table_set_send_cq(struct shca_qp *qp, const struct shca_cq *cq)
{
	struct shca_qp_entry *entry;

	shca_lock(&qp->ctx->qp_lock);
	entry = own_entry(qp);
	if (entry)
		atomic_store_explicit(&entry->send_cq, cq, memory_order_release);
	shca_unlock(&qp->ctx->qp_lock);
}

void shca_qp_table_set_recv_cq(struct shca_qp *qp, const struct shca_cq *cq)
{
	struct shca_qp_entry *entry;

	shca_lock(&qp->ctx->qp_lock);
	entry = own_entry(qp);
	if (entry)
		atomic_store_explicit(&entry->recv_cq, cq, memory_order_release);
	shca_unlock(&qp->ctx->qp_lock);
}

void shca_qp_table_remove(struct shca_qp *qp)
{
	struct shca_qp_entry *entry;

	shca_lock(&qp->ctx->qp_lock);
	entry = own_entry(qp);
	if (entry)
		atomic_store_explicit(&entry->qp, NULL, memory_order_relaxed);
	shca_unlock(&qp->ctx->qp_lock);
}

void shca_qp_table_free(struct shca_context *ctx)
{
	uint32_t slot;

	for (slot = 0; slot < SIMHCA_QPN_SLOTS; slot += SHCA_QPS_PER_LEAF)
		free(leaf_of(ctx, slot));
}
