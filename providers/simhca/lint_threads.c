/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What lint knows of threads: whether two of them use at once what the program has promised to use by
 * one at a time. Such a queue has no lock here, nor with mlx5.
 */
#include <stdio.h>

#include "lint.h"
#include "say.h"

static _Thread_local char this_thread; /* its address tells threads apart */

/* Whether another one is between this and end_use() as well. */
static bool begin_use(_Atomic(const char *) *user)
{
	const char *other = atomic_exchange_explicit(user, &this_thread, memory_order_relaxed);

	return other && other != &this_thread;
}

static void end_use(_Atomic(const char *) *user)
{
	atomic_store_explicit(user, NULL, memory_order_relaxed);
}

static void say_of_qp(struct shca_qp *qp, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "QP 0x%06x: two threads post %s to it at once, and it is of a thread domain",
		 qp->vqp.qp.qp_num, what);
	shca_say_lint(qp->ctx, SIMHCA_SAY_THREADS, text);
}

static int post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	int err;

	if (!qp->sq.lock.unused)
		return shca_post_send(ibv_qp, wr, bad_wr);
	if (begin_use(&qp->sq.user))
		say_of_qp(qp, "sends");
	err = shca_post_send(ibv_qp, wr, bad_wr);
	end_use(&qp->sq.user);
	return err;
}

static int post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	int err;

	if (!qp->rq.lock.unused)
		return shca_post_recv(ibv_qp, wr, bad_wr);
	if (begin_use(&qp->rq.user))
		say_of_qp(qp, "receives");
	err = shca_post_recv(ibv_qp, wr, bad_wr);
	end_use(&qp->rq.user);
	return err;
}

static int post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr)
{
	struct shca_srq *srq = to_ssrq(ibv_srq);
	char text[160];
	int err;

	if (!srq->rq.lock.unused)
		return shca_post_srq_recv(ibv_srq, wr, bad_wr);
	if (begin_use(&srq->rq.user)) {
		snprintf(
			text, sizeof(text),
			"SRQ of %u receives: two threads post to it at once, and it is of a thread "
			"domain",
			srq->rq.max_wr);
		shca_say_lint(to_sctx(ibv_srq->context), SIMHCA_SAY_THREADS, text);
	}
	err = shca_post_srq_recv(ibv_srq, wr, bad_wr);
	end_use(&srq->rq.user);
	return err;
}

static void begin_poll(struct shca_cq *cq)
{
	char text[160];

	if (!begin_use(&cq->user))
		return;
	snprintf(text, sizeof(text),
		 "CQ of %d entries: two threads poll it at once, and it was created for a single "
		 "thread",
		 cq->vcq.cq.cqe);
	shca_say_lint(cq->ctx, SIMHCA_SAY_THREADS, text);
}

static int poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	struct shca_cq *cq = to_scq(ibv_cq);
	int polled;

	if (!cq->single_threaded)
		return shca_poll_cq(ibv_cq, num_entries, wc);
	begin_poll(cq);
	polled = shca_poll_cq(ibv_cq, num_entries, wc);
	end_use(&cq->user);
	return polled;
}

/*
 * A batch, and a poll of several completions, are one use from its first verb to its last. What is
 * called between them may be called by another thread, to which it was handed.
 */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct shca_qp *qp = to_sqp_ex(ex);

	if (begin_use(&qp->sq.user))
		say_of_qp(qp, "sends");
	shca_wr_start(ex);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	int err = shca_wr_complete(ex);

	end_use(&to_sqp_ex(ex)->sq.user);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	shca_wr_abort(ex);
	end_use(&to_sqp_ex(ex)->sq.user);
}

static int start_poll(struct ibv_cq_ex *cq_ex, struct ibv_poll_cq_attr *attr)
{
	struct shca_cq *cq = to_scq_ex(cq_ex);
	int err;

	begin_poll(cq);
	err = shca_start_poll(cq_ex, attr);
	if (err)
		end_use(&cq->user);
	return err;
}

static void end_poll(struct ibv_cq_ex *cq_ex)
{
	shca_end_poll(cq_ex);
	end_use(&to_scq_ex(cq_ex)->user);
}

void shca_lint_threads_of_qp(struct shca_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	if (!qp->ctx->lint || !qp->sq.lock.unused || !(qp->vqp.comp_mask & VERBS_QP_EX))
		return;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

void shca_lint_threads_of_cq(struct shca_cq *cq)
{
	if (!cq->ctx->lint || !cq->single_threaded)
		return;
	cq->vcq.cq_ex.start_poll = start_poll;
	cq->vcq.cq_ex.end_poll = end_poll;
}

void shca_lint_threads(struct shca_context *ctx)
{
	static const struct verbs_context_ops ops = {
		.poll_cq = poll_cq,
		.post_recv = post_recv,
		.post_send = post_send,
		.post_srq_recv = post_srq_recv,
	};

	if (ctx->lint)
		verbs_set_ops(&ctx->vctx, &ops);
}
