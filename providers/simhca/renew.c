/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Other memory for queues that a peer had (RENEW_QUEUE in simhca-abi-cmd.h). Nothing that points there
 * changes. Who polls or posts waits; who arms the CQ does not, so the new memory is mapped in one go.
 */
#include <sched.h>

#include "command.h"
#include "simhca-clock.h"

/* For how long a lock is tried that somebody may hold for as long as it likes (ibv_start_poll()). */
#define LOCK_NS 10000000

static bool try_lock_for_a_while(struct shca_lock *lock)
{
	const uint64_t until = simhca_now_ns() + LOCK_NS;

	while (!shca_trylock(lock)) {
		if (simhca_now_ns() > until)
			return false;
		sched_yield();
	}
	return true;
}

/* 0, or errno: not now, and all is as it was. */
static int map_new(struct shca_context *ctx, struct shca_segment *own,
		   const struct simhca_queue_req *req)
{
	struct simhca_renew_queue_reply reply;
	int fd;
	int err = shca_execute(ctx, &(struct shca_command){
					    .command = SIMHCA_CMD_RENEW_QUEUE,
					    .req = req,
					    .req_size = sizeof(*req),
					    .reply = &reply,
					    .reply_size = sizeof(reply),
					    .reply_fds = &fd,
					    .num_reply_fds = 1,
				    });

	return err ? err : shca_map_over(own, fd, reply.size);
}

static bool has_new(struct shca_context *ctx, struct shca_segment *own,
		    const struct simhca_queue_req *req)
{
	int err = map_new(ctx, own, req);

	if (err == EMFILE && shca_spare_lend(ctx)) {
		err = map_new(ctx, own, req);
		shca_spare_take_back(ctx);
	}
	return !err;
}

/* The device has to follow. It is busy when too many other commands wait. */
static void move(struct shca_context *ctx, const struct simhca_queue_req *req)
{
	while (shca_command(ctx, SIMHCA_CMD_MOVE_QUEUE, req) == EBUSY)
		sched_yield();
}

void shca_cq_renew(struct shca_cq *cq)
{
	const struct simhca_queue_req req = { .handle = cq->vcq.cq.handle,
					      .kind = SIMHCA_QUEUE_CQ };

	if (!has_new(cq->ctx, &cq->own, &req))
		return;
	shca_cq_publish_ci(cq);
	move(cq->ctx, &req);
}

static void renew_cq(struct ibv_cq *ibv_cq)
{
	struct shca_cq *cq = to_scq(ibv_cq);

	if (!cq->single_threaded && !try_lock_for_a_while(&cq->lock))
		return;
	shca_cq_renew(cq);
	shca_cq_unlock(cq);
}

void shca_srq_renew(struct shca_context *ctx, struct shca_srq *srq)
{
	const struct simhca_queue_req req = { .handle = srq->vsrq.srq.handle,
					      .kind = SIMHCA_QUEUE_SRQ };

	if (!has_new(ctx, &srq->own, &req))
		return;
	atomic_store_explicit(srq->rq.pi, srq->rq.head, memory_order_release);
	move(ctx, &req);
}

void shca_renew_queues(const struct shca_qp *qp, uint32_t which)
{
	struct ibv_cq *send_cq = which & SIMHCA_RENEW_SEND_CQ ? qp->vqp.qp.send_cq : NULL;
	struct ibv_cq *recv_cq = which & SIMHCA_RENEW_RECV_CQ ? qp->vqp.qp.recv_cq : NULL;
	const int error = errno;

	if (send_cq)
		renew_cq(send_cq);
	if (recv_cq && recv_cq != send_cq)
		renew_cq(recv_cq);
	if ((which & SIMHCA_RENEW_SRQ) && qp->srq && try_lock_for_a_while(&qp->srq->rq.lock)) {
		shca_srq_renew(qp->ctx, qp->srq);
		shca_unlock(&qp->srq->rq.lock);
	}
	errno = error;
}
