/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion callbacks, on any verbs device. Link with -lsimhca-cq (pkg-config simhca-cq), which
 * uses libibverbs and nothing else; simhcadv_alloc_cq(3) has the rules.
 *
 * A CQ of simhcadv_alloc_cq() is polled by this library, and each work request says by whom its
 * completion is taken: its wr_id is the address of a struct simhcadv_cqe, which is a member of the
 * program's own request. A wr_id of 0 is dropped.
 */
#ifndef SIMHCA_CQ_H
#define SIMHCA_CQ_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simhcadv_cqe {
	void (*done)(struct ibv_cq *cq, struct ibv_wc *wc);
};

/* Where callbacks run, and so what they may do. */
enum simhcadv_poll_context {
	SIMHCADV_POLL_DIRECT,	 /* in simhcadv_process_cq_direct() */
	SIMHCADV_POLL_SOFTIRQ,	 /* in a thread per completion vector: they should not block */
	SIMHCADV_POLL_WORKQUEUE, /* in a pool of threads: they may block */
};

/* NULL and errno on failure. */
struct ibv_cq *simhcadv_alloc_cq(struct ibv_context *context, void *cq_context, int nr_cqe,
				 int comp_vector, enum simhcadv_poll_context poll_ctx);
/*
 * Once it has returned no callback runs and none begins. Returns 0 or errno: EBUSY while QPs use
 * the CQ; EDEADLK in a callback of this very CQ, or of one whose own free waits for this thread.
 */
int simhcadv_free_cq(struct ibv_cq *cq);
/*
 * Run the callbacks of up to budget completions of a DIRECT CQ; -1: until none is there. Returns
 * how many there were, or -errno.
 */
int simhcadv_process_cq_direct(struct ibv_cq *cq, int budget);

#ifdef __cplusplus
}
#endif

#endif
