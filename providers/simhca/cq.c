/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues but for the taking of completions, which is in poll.c. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "command.h"
#include "doorbell.h"
#include "lint.h"
#include "say.h"

#define SUPPORTED_WC_FLAGS                                                                         \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |                    \
	 IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO)
#define SUPPORTED_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

/* Maps the ring of the reply, and switches the CQ to it. 0 or errno: then nothing has changed. */
static int use_ring(struct shca_cq *cq, const struct simhca_create_cq_reply *reply)
{
	struct simhca_cqe *ring =
		shca_map(cq->ctx, &cq->own, &reply->ring, (uint64_t)reply->entries * sizeof(*ring));

	if (!ring)
		return errno;
	cq->ring = ring;
	cq->mask = reply->entries - 1;
	cq->vcq.cq.cqe = (int)reply->cqe;
	return 0;
}

/* It stays where it is when the ring moves, too. */
static int map_data(struct shca_cq *cq, const struct simhca_create_cq_reply *reply)
{
	cq->data = shca_map(cq->ctx, &cq->own, &reply->data,
			    (uint64_t)reply->data_slots * SIMHCA_CQ_DATA);
	cq->data_mask = reply->data_slots - 1;
	return cq->data ? 0 : errno;
}

/*
 * The device has a ring that the program cannot map, so nothing can be polled any more: who polls is
 * told (EIO), and does not read the ring that there was, as the device gives its memory away.
 */
static void lose_ring(struct shca_cq *cq)
{
	static struct simhca_cqe none;

	cq->ring = &none;
	cq->mask = 0;
	cq->failed = true;
}

/* ------------------------------------------------------------------------------ channels */

/* Its reader finds the end. Somebody else may be keeping the device's end of it open. */
static void end_channel(const struct shca_cq *cq)
{
	struct stat st;

	/* The program could have closed it, and have another file by that number. */
	if (!fstat(cq->channel_fd, &st) && S_ISSOCK(st.st_mode) && st.st_ino == cq->channel)
		shutdown(cq->channel_fd, SHUT_RD);
}

void shca_channels_end(struct shca_context *ctx)
{
	struct shca_chain *link;

	shca_lock(&ctx->channel_lock);
	SHCA_CHAIN_FOREACH(link, &ctx->with_channel)
	end_channel(SHCA_CONTAINER(struct shca_cq, channel_link, link));
	shca_unlock(&ctx->channel_lock);
}

static void lock_channels(struct shca_context *ctx)
{
	struct shca_chain *const lists[] = { &ctx->with_channel };

	shca_lock(&ctx->channel_lock);
	shca_chains_inherit(&ctx->channels_of, lists, 1);
}

static void know_channel(struct shca_cq *cq, int fd, uint64_t inode)
{
	cq->channel_fd = fd;
	cq->channel = inode;
	lock_channels(cq->ctx);
	shca_chain_add(&cq->ctx->with_channel, &cq->channel_link);
	/* Else the watcher finds it there, once it knows. */
	if (shca_is_fatal(cq->ctx))
		end_channel(cq);
	shca_unlock(&cq->ctx->channel_lock);
}

/* Before the CQ is destroyed the channel cannot be. */
static void forget_channel(struct shca_cq *cq)
{
	if (!cq->channel)
		return;
	lock_channels(cq->ctx);
	shca_chain_remove(&cq->channel_link);
	shca_unlock(&cq->ctx->channel_lock);
	cq->channel = 0;
}

void shca_cq_event(struct ibv_cq *cq)
{
	atomic_fetch_add(&to_scq(cq)->events, 1);
	shca_acts(to_scq(cq)->ctx);
}

/* -------------------------------------------------------------------------- life of a CQ */

static struct shca_cq *create(struct shca_context *ctx, uint32_t cqe,
			      struct ibv_comp_channel *channel, uint32_t comp_vector,
			      uint32_t flags, struct ibv_pd *parent_domain)
{
	struct simhca_create_cq_req req = {
		.cqe = cqe,
		.comp_vector = comp_vector,
		.flags = flags,
	};
	struct simhca_create_cq_reply reply;
	struct shca_home home;
	struct stat pipe;
	struct shca_cq *cq;
	int err;

	if (channel) {
		if (fstat(channel->fd, &pipe))
			return NULL;
		req.channel = pipe.st_ino;
	}

	cq = shca_home_alloc(parent_domain, SIMHCADV_RES_TYPE_CQ, sizeof(*cq), &home);
	if (!cq)
		return NULL;
	cq->home = home;
	cq->single_threaded = shca_home_is_single_threaded(&home);
	cq->ctx = ctx;
	req.user_handle = shca_user_handle(ctx, &cq->vcq.cq);
	err = shca_call(ctx, SIMHCA_CMD_CREATE_CQ, &req, &reply);
	if (err)
		goto err_free;
	cq->vcq.cq.handle = reply.handle;
	/* It stays where it is when the ring moves: who arms the CQ has no lock. */
	cq->mem = shca_map(ctx, &cq->own, &reply.state, sizeof(*cq->mem));
	err = cq->mem ? use_ring(cq, &reply) : errno;
	if (!err && reply.data_slots)
		err = map_data(cq, &reply);
	if (err)
		goto err_destroy;
	if (channel)
		know_channel(cq, channel->fd, req.channel);
	return cq;

err_destroy:
	shca_destroy(ctx, SIMHCA_CMD_DESTROY_CQ, reply.handle, NULL);
	shca_say_no_descriptor(ctx, SIMHCA_CMD_CREATE_CQ, err);
err_free:
	shca_unmap(&cq->own);
	shca_home_free(cq->home, cq);
	return shca_null(err);
}

struct ibv_cq *shca_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	struct shca_cq *cq;

	/* A negative number is too large a one. */
	cq = create(to_sctx(context), (uint32_t)cqe, channel, (uint32_t)comp_vector, 0, NULL);
	return cq ? &cq->vcq.cq : NULL;
}

static struct ibv_cq_ex *say_no_cq(struct shca_context *ctx, int err, const char *why)
{
	shca_say_refusal(ctx, SIMHCA_SAY_CREATE_CQ, err, why);
	return NULL;
}

struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t attr_flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *parent_domain = NULL;
	uint32_t flags = 0;
	struct shca_cq *cq;

	if ((attr->comp_mask &
	     ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    (attr_flags & ~(uint32_t)SUPPORTED_FLAGS))
		return say_no_cq(to_sctx(context), EINVAL,
				 "flags or comp_mask has bits that are not known");
	if (attr->wc_flags & ~(uint64_t)SUPPORTED_WC_FLAGS)
		return say_no_cq(to_sctx(context), EOPNOTSUPP,
				 "wc_flags asks for fields that completions do not have here");

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		parent_domain = attr->parent_domain;
		/* A CQ protects nothing: an ordinary PD has no say in it. */
		if (!parent_domain || !to_spd(parent_domain)->protection)
			return say_no_cq(to_sctx(context), EINVAL,
					 "parent_domain is NULL, or is a PD: "
					 "ibv_alloc_parent_domain() makes it");
	}
	if (attr->wc_flags &
	    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		flags |= SIMHCA_CQ_TIMESTAMP;
	if (attr_flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		flags |= SIMHCA_CQ_IGNORE_OVERRUN;
	cq = create(to_sctx(context), attr->cqe, attr->channel, attr->comp_vector, flags,
		    parent_domain);
	if (!cq)
		return NULL;
	cq->ignore_overrun = attr_flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	if (attr_flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		cq->single_threaded = true;
	shca_cq_set_readers(cq, attr->wc_flags);
	shca_lint_threads_of_cq(cq);
	return &cq->vcq.cq_ex;
}

/*
 * The completions that the CQ must still have room for: those of signaled sends whose completion
 * was not polled, and the receives that wait in the ring. The caller holds the CQ's lock.
 */
static uint32_t outstanding(const struct shca_cq *cq)
{
	const struct simhca_cqe *cqe;
	struct shca_chain *link;
	uint32_t count = 0;
	uint32_t i, tail, pending;

	SHCA_CHAIN_FOREACH(link, &cq->senders)
	{
		const struct shca_qp *qp = shca_sender(link);

		tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
		pending = shca_sq_pending(qp);
		for (i = 0; i < pending; i++)
			if (shca_sq_wqe(&qp->sq, tail + i)->flags & SIMHCA_WQE_SIGNALED)
				count++;
	}
	SHCA_CQ_FOREACH(cq, cqe, i)
	if (cqe->flags & SIMHCA_CQE_RECV)
		count++;
	return count;
}

/* Pollers wait until the ring has moved. */
int shca_resize_cq(struct ibv_cq *ibv_cq, int cqe)
{
	struct shca_cq *cq = to_scq(ibv_cq);
	struct simhca_resize_cq_req req = { .handle = ibv_cq->handle, .cqe = (uint32_t)cqe };
	struct simhca_create_cq_reply reply;
	int err;

	shca_cq_lock(cq);
	req.outstanding = outstanding(cq);
	err = shca_call(cq->ctx, SIMHCA_CMD_RESIZE_CQ, &req, &reply);
	if (!err) {
		err = use_ring(cq, &reply);
		if (err)
			lose_ring(cq);
	}
	if (!err && reply.renew)
		shca_cq_renew(cq);
	shca_cq_unlock(cq);
	shca_say_no_descriptor(cq->ctx, SIMHCA_CMD_RESIZE_CQ, err);
	return err;
}

int shca_modify_cq(struct ibv_cq *ibv_cq, struct ibv_modify_cq_attr *attr)
{
	struct simhca_modify_cq_req req = {
		.handle = ibv_cq->handle,
		.count = attr->moderate.cq_count,
		.period = attr->moderate.cq_period,
	};

	if (!attr->attr_mask)
		return shca_say_command(to_scq(ibv_cq)->ctx, SIMHCA_CMD_MODIFY_CQ, EINVAL,
					"attr_mask is 0: IBV_CQ_ATTR_MODERATE is what there is");
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return shca_say_command(to_scq(ibv_cq)->ctx, SIMHCA_CMD_MODIFY_CQ, EOPNOTSUPP,
					"attr_mask has more than IBV_CQ_ATTR_MODERATE");
	return shca_command(to_scq(ibv_cq)->ctx, SIMHCA_CMD_MODIFY_CQ, &req);
}

/* What still uses a CQ. */
struct cq_users {
	uint32_t qps, srqs;
};

/* A WQ is like a QP that only receives. */
static struct cq_users count_users(const struct shca_cq *cq)
{
	struct cq_users users = { 0 };
	struct shca_chain *link;

	SHCA_CHAIN_FOREACH(link, &cq->senders)
	users.qps++;
	SHCA_CHAIN_FOREACH(link, &cq->receivers)
	{
		const struct ibv_cq *send_cq = shca_receiver(link)->vqp.qp.send_cq;

		users.qps += send_cq != &cq->vcq.cq;
	}
	SHCA_CHAIN_FOREACH(link, &cq->srqs)
	users.srqs++;
	return users;
}

/*
 * What uses it. Who destroys the last of these queues takes it off the CQ after the device knows
 * no more of it, and holds the lock until it has: an unlocked look could find the lists empty, and
 * the lock be released in memory that is free by then. A poll that was begun and not ended is our
 * caller's, and the lock is held already.
 */
static struct cq_users users_of(struct shca_cq *cq)
{
	bool locked = atomic_load_explicit(&cq->polling, memory_order_relaxed);
	struct cq_users users;

	if (!locked)
		shca_cq_lock(cq);
	users = count_users(cq);
	if (!locked)
		shca_cq_unlock(cq);
	return users;
}

static int refuse_to_destroy(const struct shca_cq *cq, struct cq_users users)
{
	char text[128], qps[24] = "", srqs[24] = "";

	if (users.qps)
		snprintf(qps, sizeof(qps), "%u QP%s", users.qps, users.qps == 1 ? "" : "s");
	if (users.srqs)
		snprintf(srqs, sizeof(srqs), "%u SRQ%s", users.srqs, users.srqs == 1 ? "" : "s");
	snprintf(text, sizeof(text), "this CQ of %d entries is still used by %s%s%s",
		 cq->vcq.cq.cqe, qps, users.qps && users.srqs ? " and " : "", srqs);
	return shca_say_busy(cq->ctx, SIMHCA_SAY_DESTROY_CQ, text);
}

/*
 * Whether the program has acknowledged what it got. All that was counted has been read by now, and
 * of an event that a thread has read and is just about to get nobody else knows. But peers that
 * raise events by themselves may have counted one and been killed before it was sent; or they lie.
 * (A program that has acknowledged more than it got waits for ever, as on a NIC.)
 * Then an event that nobody gets is waited for until it is over: as long as a thread could take
 * from the one to the other.
 */
static bool are_acknowledged(const struct ibv_cq *cq, const struct simhca_destroy_reply *events,
			     bool over)
{
	const uint32_t acknowledged = cq->comp_events_completed;
	const uint32_t got = atomic_load(&to_scq((struct ibv_cq *)cq)->events);
	const bool too_many = (int32_t)(acknowledged - got) > 0 &&
			      (int32_t)(acknowledged - events->comp_events) > 0;

	return cq->async_events_completed == events->async_events &&
	       (int32_t)(acknowledged - got) >= 0 &&
	       (acknowledged == events->comp_events || (over && !too_many));
}

static void what_is_missing(struct ibv_cq *cq, const struct simhca_destroy_reply *events,
			    bool by_fastpath, char *text, size_t size)
{
	uint32_t got = by_fastpath ? atomic_load(&to_scq(cq)->events) : events->comp_events;
	uint32_t acknowledged = cq->comp_events_completed;
	const char *ack = "ibv_ack_cq_events()";

	if (got == acknowledged) {
		got = events->async_events;
		acknowledged = cq->async_events_completed;
		ack = "ibv_ack_async_event()";
	}
	snprintf(text, size,
		 "ibv_destroy_cq() of a CQ of %d entries waits for %s: the program got %u event%s "
		 "of it, and has acknowledged %u",
		 cq->cqe, ack, got, got == 1 ? "" : "s", acknowledged);
}

static void wait_for_acks(struct shca_cq *cq, const struct simhca_destroy_reply *events)
{
	SIMHCA_NOT_CANCELLED;
	struct ibv_cq *ibv_cq = &cq->vcq.cq;
	bool by_fastpath = cq->ctx->dev->fast_path && !cq->ctx->no_fastpath, over = false;
	char text[200] = "";
	struct timespec until;

	shca_ack_deadline(&until);
	pthread_mutex_lock(&ibv_cq->mutex);
	while (!shca_is_fatal(cq->ctx) && !are_acknowledged(ibv_cq, events, by_fastpath && over)) {
		if (text[0]) {
			pthread_cond_wait(&ibv_cq->cond, &ibv_cq->mutex);
		} else if (!over) {
			over = pthread_cond_clockwait(&ibv_cq->cond, &ibv_cq->mutex,
						      CLOCK_MONOTONIC, &until) == ETIMEDOUT;
		} else {
			what_is_missing(ibv_cq, events, by_fastpath, text, sizeof(text));
			pthread_mutex_unlock(&ibv_cq->mutex);
			shca_say_waits(cq->ctx, text);
			pthread_mutex_lock(&ibv_cq->mutex);
		}
	}
	pthread_mutex_unlock(&ibv_cq->mutex);
	if (text[0])
		shca_say_waits_no_more(cq->ctx, text);
}

int shca_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct shca_cq *cq = to_scq(ibv_cq);
	const struct cq_users users = users_of(cq);
	struct simhca_destroy_reply events;
	int err;

	if (users.qps || users.srqs)
		return refuse_to_destroy(cq, users);
	err = shca_destroy_with_channel(cq->ctx, SIMHCA_CMD_DESTROY_CQ, ibv_cq->handle,
					ibv_cq->channel, &events);
	if (err)
		return err;

	wait_for_acks(cq, &events);
	forget_channel(cq);
	shca_unmap(&cq->own);
	shca_home_free(cq->home, cq);
	return 0;
}

/*
 * Arming, and why no wake-up is lost.
 *
 *	the program				the device (simhca_cq_push())
 *	A1 arm: a new count and what for	D1 pi, the CQE, its seq
 *	A2 full barrier				D2 full barrier
 *	A3 look for CQEs: pi, or seq		D3 read arm
 *	   none: sleep on the channel		D4 exchange it for none: send an event
 *
 * Both sides store first and load afterwards, with a full barrier in between. The barriers have one
 * order. If A2 is before D2, D3 sees the arm of A1 (or a later one), and D4 sends an event; if
 * D2 is before A2, A3 sees the CQE of D1, and whoever looks does not sleep. Without A3 (the second
 * look) a CQE from before A1 raises no event: that is the specification's rule, and why a
 * program polls once more after it has armed. ibv_req_notify_cq() leaves A3 to the program's poll.
 *
 * A1 is an exchange of the whole word, with a count that no earlier arm had (but for one 2^30
 * arms ago). So D4, which exchanges exactly the value that D3 saw, cannot use up an arm that
 * came after D3: it fails and looks again. And two D4 cannot both succeed on one arm: an event
 * for each arm at most. What the CQ is armed for already is kept: a weaker request does not take a
 * stronger one back.
 *
 * Returns the value that arm has now.
 */
static uint32_t arm_cq(struct shca_cq *cq, uint32_t wanted)
{
	uint32_t old = atomic_load_explicit(&cq->mem->arm, memory_order_relaxed);
	uint32_t armed, arm;

	do {
		armed = old & SIMHCA_ARM_BITS;
		arm = ((old & ~(uint32_t)SIMHCA_ARM_BITS) + SIMHCA_ARM_BITS + 1) |
		      (armed > wanted ? armed : wanted);
	} while (!atomic_compare_exchange_weak(&cq->mem->arm, &old, arm));
	atomic_thread_fence(memory_order_seq_cst); /* A2 */
	shca_acts(cq->ctx);
	return arm;
}

/*
 * Whether a poll would find something. Of a CQ that somebody polls at this moment: whether it
 * may; that one may even be our own caller, between ibv_start_poll() and ibv_end_poll().
 */
static bool has_completions(struct shca_cq *cq)
{
	/* CQEs before pi are there, or will be before the device looks whether the CQ is armed. */
	uint32_t pi = atomic_load_explicit(&cq->mem->pi, memory_order_acquire);
	const struct simhca_cqe *cqe;
	bool found = false;
	uint32_t i;

	/* Who polls tells the device of its ci before it lets go of the lock. */
	if (pi == atomic_load_explicit(&cq->mem->ci, memory_order_relaxed))
		return false;
	if (!shca_cq_trylock(cq))
		return true;
	SHCA_CQ_FOREACH(cq, cqe, i)
	found |= cqe->qpn != SIMHCA_VOID_QPN;
	shca_cq_unlock(cq);
	return found;
}

/* Whether the device has used up this very arm: there is an event. */
static bool was_raised(const struct shca_cq *cq, uint32_t arm)
{
	return cq->vcq.cq.channel && atomic_load_explicit(&cq->mem->arm, memory_order_relaxed) ==
					     (arm & ~(uint32_t)SIMHCA_ARM_BITS);
}

/*
 * A device with event_at_arm raises an event for what the CQ holds when it is armed. Where arming
 * is a write to the device it sees that by itself; here it has to be told. This is for finding
 * mistakes in programs, so it may cost a command.
 */
static void raise_at_arm(struct shca_cq *cq)
{
	struct simhca_handle req = { .handle = cq->vcq.cq.handle };

	if (__builtin_expect(!cq->ctx->dev->attr.event_at_arm, 1))
		return;
	/* It fails when the device is gone, and then there are no events. */
	if (has_completions(cq))
		shca_command(cq->ctx, SIMHCA_CMD_ARM_CQ, &req);
}

int shca_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
	struct shca_cq *cq = to_scq(ibv_cq);

	arm_cq(cq, solicited_only ? SIMHCA_ARM_SOLICITED : SIMHCA_ARM_NEXT);
	raise_at_arm(cq);
	return 0;
}

static int notify(struct shca_cq *cq, uint32_t wanted, bool look)
{
	uint32_t armed;

	if (shca_is_fatal(cq->ctx))
		return -EIO;
	/* What the CQ holds can be polled, but nothing is added any more. */
	if (atomic_load_explicit(&cq->mem->overrun, memory_order_acquire))
		return look && has_completions(cq) ? 1 : -EIO;
	armed = arm_cq(cq, wanted);
	raise_at_arm(cq);
	/* A3. What came after A1 may have been announced already, and then nothing is missed. */
	return look && has_completions(cq) && !was_raised(cq, armed);
}

int simhcadv_req_notify_cq(struct ibv_cq *ibv_cq, int flags)
{
	int what = flags & (SIMHCADV_CQ_NEXT_COMP | SIMHCADV_CQ_SOLICITED);

	if (!shca_is_ours(ibv_cq->context->device))
		return -EOPNOTSUPP;
	if ((flags & ~(what | SIMHCADV_CQ_REPORT_MISSED_EVENTS)) ||
	    (what != SIMHCADV_CQ_NEXT_COMP && what != SIMHCADV_CQ_SOLICITED))
		return -EINVAL;
	return notify(to_scq(ibv_cq),
		      what == SIMHCADV_CQ_SOLICITED ? SIMHCA_ARM_SOLICITED : SIMHCA_ARM_NEXT,
		      flags & SIMHCADV_CQ_REPORT_MISSED_EVENTS);
}
