/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>

#include "command.h"
#include "say.h"
#include "simhca-request.h"
#include "simhca-sockets.h"
#include "wqe.h"

#define MOST_LINT 16	/* notes of a kind and context */
#define MOST_REFUSALS 8 /* of a context: programs may post until a queue is full, all the time */

void shca_say_name(struct shca_context *ctx)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_NAME };

	snprintf(req.text, sizeof(req.text), "%s", program_invocation_short_name);
	shca_command(ctx, SIMHCA_CMD_SAY, &req);
}

void shca_say_no_doorbell(struct shca_context *ctx)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_NO_DOORBELL };
	int before = errno;

	if (simhca_connection(ctx->vctx.context.cmd_fd) == ctx->connection)
		shca_command(ctx, SIMHCA_CMD_SAY, &req);
	else /* it has closed the device as well, and this number may be a socket of its own */
		shca_set_fatal(ctx);
	errno = before;
}

static bool may_say(struct shca_context *ctx, int err)
{
	return err != EIO &&
	       atomic_load_explicit(&ctx->refusals_said, memory_order_relaxed) < MOST_REFUSALS &&
	       atomic_fetch_add_explicit(&ctx->refusals_said, 1, memory_order_relaxed) <
		       MOST_REFUSALS;
}

/* What the program sees of it is the post's error. */
static void say(struct shca_context *ctx, struct simhca_say_req *req, int err)
{
	int before = errno;

	req->error = (uint32_t)err;
	shca_command(ctx, SIMHCA_CMD_SAY, req);
	errno = before;
}

void shca_say_no_descriptor(struct shca_context *ctx, enum simhca_cmd command, int err)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_NO_DESCRIPTOR };

	if (err != EMFILE || !may_say(ctx, err))
		return;
	simhca_say_limit(req.text, sizeof(req.text), "its memory cannot be mapped");
	say(ctx, &req, command);
}

void shca_say_not_opened(int cmd_fd)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_OPEN_DEVICE, .error = EMFILE };
	const struct iovec part = { .iov_base = &req, .iov_len = sizeof(req) };

	simhca_say_limit(req.text, sizeof(req.text), "it takes about half a dozen descriptors");
	simhca_tell(&(struct simhca_request){
		.device_fd = cmd_fd, .command = SIMHCA_CMD_SAY, .parts = &part, .num_parts = 1 });
}

static void say_text(struct shca_context *ctx, enum simhca_say what, const char *text, int err)
{
	struct simhca_say_req req = { .what = what };

	snprintf(req.text, sizeof(req.text), "%s", text);
	say(ctx, &req, err);
}

void shca_say_not_attached(struct shca_context *ctx, int err)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_NOT_ATTACHED };

	if (ctx->refused_memory)
		return;
	ctx->refused_memory = true;
	say(ctx, &req, err);
}

int shca_say_busy(struct shca_context *ctx, enum simhca_say what, const char *text)
{
	say_text(ctx, what, text, EBUSY);
	return shca_result(EBUSY);
}

int shca_say_refusal(struct shca_context *ctx, enum simhca_say what, int err, const char *text)
{
	if (may_say(ctx, err))
		say_text(ctx, what, text, err);
	return shca_result(err);
}

int shca_say_command(struct shca_context *ctx, enum simhca_cmd command, int err, const char *text)
{
	if (may_say(ctx, err))
		say_text(ctx, SIMHCA_SAY_COMMAND, text, (int)command << 16 | err);
	return shca_result(err);
}

void *shca_say_not_made(struct shca_context *ctx, enum simhca_cmd command, int err,
			const char *text)
{
	return shca_null(shca_say_command(ctx, command, err, text));
}

void shca_say_create_qp(struct shca_context *ctx, int err, enum ibv_qp_type type, const char *text)
{
	char whole[128];

	snprintf(whole, sizeof(whole), "of qp_type %u: %s", (unsigned int)type, text);
	say_text(ctx, SIMHCA_SAY_CREATE_QP, whole, err);
}

void shca_say_waits(struct shca_context *ctx, const char *text)
{
	say_text(ctx, SIMHCA_SAY_WAITS, text, 0);
}

void shca_say_waits_no_more(struct shca_context *ctx, const char *text)
{
	say_text(ctx, SIMHCA_SAY_WAITS_NO_MORE, text, 0);
}

#define HELD_TOO_LONG_NS (1000ull * 1000 * 1000)

/* Takes the lock of who holds it for too long, which is told until it lets it go. */
static void wait_and_tell(struct shca_context *ctx, struct shca_lock *lock, const char *text)
{
	say_text(ctx, SIMHCA_SAY_WAITS, text, SIMHCA_WAITS_FOR_LOCK);
	shca_lock(lock);
	shca_say_waits_no_more(ctx, text);
}

void shca_say_polls_none(struct shca_cq *cq, int num_entries)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "ibv_poll_cq() of a CQ of %d entries, which holds a completion, is called with "
		 "num_entries %d, again and again",
		 cq->vcq.cq.cqe, num_entries);
	say_text(cq->ctx, SIMHCA_SAY_WAITS, text, SIMHCA_WAITS_FOR_NONE);
}

void shca_sq_lock_wait(struct shca_qp *qp, const char *verb)
{
	char text[160];

	if (shca_lock_within(&qp->sq.lock, HELD_TOO_LONG_NS))
		return;
	snprintf(text, sizeof(text),
		 "%s of QP 0x%06x waits for ibv_wr_complete() or ibv_wr_abort(): the "
		 "ibv_wr_start() before it was not ended",
		 verb, qp->vqp.qp.qp_num);
	wait_and_tell(qp->ctx, &qp->sq.lock, text);
}

void shca_cq_lock_wait(struct shca_cq *cq, const char *verb)
{
	char text[160];

	if (shca_lock_within(&cq->lock, HELD_TOO_LONG_NS))
		return;
	snprintf(text, sizeof(text),
		 "%s of a CQ of %d entries waits for ibv_end_poll(): the ibv_start_poll() before "
		 "it was not ended",
		 verb, cq->vcq.cq.cqe);
	wait_and_tell(cq->ctx, &cq->lock, text);
}

void shca_say_lint(struct shca_context *ctx, enum simhca_say what, const char *text)
{
	if (atomic_fetch_add_explicit(&ctx->lint_said[what - SIMHCA_SAY_NO_FENCE], 1,
				      memory_order_relaxed) < MOST_LINT)
		say_text(ctx, what, text, 0);
}

/* As verbs.h has it, which releases differ in. */
static const char *opcode_name(unsigned int opcode, char number[static 12])
{
	static const char *const names[] = {
		"RDMA_WRITE",
		"RDMA_WRITE_WITH_IMM",
		"SEND",
		"SEND_WITH_IMM",
		"RDMA_READ",
		"ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD",
		"LOCAL_INV",
		"BIND_MW",
		"SEND_WITH_INV",
		"TSO",
		"DRIVER1",
		[14] = "FLUSH",
		[15] = "ATOMIC_WRITE",
	};

	if (opcode < sizeof(names) / sizeof(names[0]) && names[opcode])
		return names[opcode];
	snprintf(number, 12, "%u", opcode);
	return number;
}

static const char *type_name(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	default:
		return "other";
	}
}

/* Whether the queue is full of sends that give no completion. */
static bool is_full_of_unsignaled(struct shca_qp *qp)
{
	const struct shca_sq *sq = &qp->sq;
	bool full, signaled = false;
	uint32_t tail;

	shca_lock(&qp->sq.lock);
	tail = atomic_load_explicit(&sq->tail, memory_order_acquire);
	full = sq->head - tail >= sq->max_wr;
	for (uint32_t i = tail; full && i != sq->head; i++)
		signaled |= shca_sq_wqe(sq, i)->flags & SIMHCA_WQE_SIGNALED;
	shca_unlock(&qp->sq.lock);
	return full && !signaled;
}

/* A send gives its room back when a completion is polled: its own, or that of a later one. */
static void why_full(struct shca_qp *qp, const char *otherwise, char *text, size_t size)
{
	uint32_t max_wr = qp->sq.max_wr;

	if (is_full_of_unsignaled(qp))
		snprintf(text, size,
			 "its send queue is full: max_send_wr is %u, and no send in it was "
			 "signaled, so no completion gives their room back; have one in %u "
			 "signaled, and poll its CQ",
			 max_wr, max_wr);
	else
		snprintf(text, size,
			 "its send queue is full: max_send_wr is %u%s; poll its CQ first", max_wr,
			 otherwise);
}

/* Whether the list of work requests ends nowhere, as the next of one of them leads back. */
static bool is_ring(const struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *behind = wr;

	for (unsigned int i = 1; (wr = wr->next); i++) {
		if (wr == behind)
			return true;
		if (!(i & (i - 1)))
			behind = wr;
	}
	return false;
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "RTS";
}

static uint64_t inline_bytes(const struct ibv_send_wr *wr)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static const char destroyed_ah[] =
	"its address handle was destroyed: ibv_destroy_ah() is for when no further request is "
	"posted with it";

static const char *why_not_posted(const struct shca_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_mw *mw = wr->bind_mw.mw;

	if (mw->type != IBV_MW_TYPE_2)
		return "the window is of type 1, which ibv_bind_mw() binds; IBV_WR_BIND_MW is for "
		       "type 2";
	if (!wr->bind_mw.bind_info.mr)
		return "bind_info.mr is NULL: only type 1 is unbound so";
	if (mw->context->device != qp->vqp.qp.context->device ||
	    wr->bind_mw.bind_info.mr->context->device != mw->context->device)
		return "the window, its region and the QP are not of one device";
	if (wr->bind_mw.bind_info.length > SHCA_MAX_WINDOW)
		return SHCA_WINDOW_TOO_LONG;
	return "bind_info has access flags that windows do not have, or send_flags has "
	       "IBV_SEND_INLINE";
}

/* Which limit or rule it was, by name and number; the first that a post meets. */
static void what_was_wrong(struct shca_qp *qp, const struct ibv_send_wr *wr, char *text,
			   size_t size)
{
	const struct shca_sq *sq = &qp->sq;
	enum ibv_qp_type type = qp->vqp.qp.qp_type;
	uint32_t state = shca_qp_state(qp), opcode = wr->opcode;

	if (state < SIMHCA_QPS_RTS)
		snprintf(text, size, "it is in %s; move it to RTS first", state_name(state));
	else if (!sq->max_wr)
		snprintf(text, size, "it was created with max_send_wr 0");
	else if (shca_sq_is_full(sq) && is_ring(wr))
		snprintf(text, size,
			 "the list of work requests is a ring, which max_send_wr, %u, ends: set "
			 "next of its last one to NULL",
			 sq->max_wr);
	else if (shca_sq_is_full(sq))
		why_full(qp, ", and so many were not polled", text, size);
	else if (opcode >= 32 || !(shca_send_ops(type) & 1u << opcode))
		snprintf(text, size, "a QP of type %s has no such operation", type_name(type));
	else if (type == IBV_QPT_UD && !wr->wr.ud.ah)
		snprintf(text, size,
			 "wr.ud.ah is NULL: ibv_create_ah() makes it, of the "
			 "receiver's address");
	else if (type == IBV_QPT_UD && shca_ah_is_destroyed(wr->wr.ud.ah))
		snprintf(text, size, "%s", destroyed_ah);
	else if (wr->num_sge < 0)
		snprintf(text, size, "num_sge is %d", wr->num_sge);
	else if ((wr->send_flags & IBV_SEND_INLINE) && !simhca_op_has(opcode, SIMHCA_OP_INLINE))
		snprintf(text, size, "IBV_SEND_INLINE is for sends and writes only");
	else if ((wr->send_flags & IBV_SEND_INLINE) && inline_bytes(wr) > sq->max_inline)
		snprintf(text, size, "%llu bytes are inline, and max_inline_data is %u",
			 (unsigned long long)inline_bytes(wr), sq->max_inline);
	else if (!(wr->send_flags & IBV_SEND_INLINE) && (uint32_t)wr->num_sge > sq->max_sge)
		snprintf(text, size, "it has %d SGEs, and max_send_sge is %u", wr->num_sge,
			 sq->max_sge);
	else if (opcode == IBV_WR_BIND_MW)
		snprintf(text, size, "%s", why_not_posted(qp, wr));
	else if (opcode == SIMHCA_WR_FLUSH || opcode >= SIMHCA_WR_FAST_REG)
		snprintf(text, size, "ibv_post_send() cannot say it; ibv_wr_*() can");
	else
		snprintf(text, size, "flags 0x%x and %d SGEs are not for it", wr->send_flags,
			 wr->num_sge);
}

void shca_say_send(struct shca_qp *qp, const struct ibv_send_wr *wr, int err)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_POST_SEND };
	char number[12], wrong[190];

	if (!may_say(qp->ctx, err))
		return;
	what_was_wrong(qp, wr, wrong, sizeof(wrong));
	snprintf(req.text, sizeof(req.text), "QP 0x%06x, %s, wr_id 0x%llx: %s", qp->vqp.qp.qp_num,
		 opcode_name(wr->opcode, number), (unsigned long long)wr->wr_id, wrong);
	say(qp->ctx, &req, err);
}

/* Likewise of a batch, in which the post itself is not there any more. */
static void what_was_wrong_with(struct shca_qp *qp, const struct shca_wr_wrong *first, char *text,
				size_t size)
{
	const struct shca_sq *sq = &qp->sq;
	unsigned long long number = first->number;
	char opcode[12];

	switch (first->kind) {
	case SHCA_WR_FULL:
		why_full(qp, "", text, size);
		break;
	case SHCA_WR_SGES:
		snprintf(text, size, "a request has %llu SGEs, and max_send_sge is %u", number,
			 sq->max_sge);
		break;
	case SHCA_WR_INLINE:
		snprintf(text, size, "%llu bytes are inline, and max_inline_data is %u", number,
			 sq->max_inline);
		break;
	case SHCA_WR_NOT_INLINE:
		snprintf(text, size,
			 "%s has no inline data: ibv_wr_set_inline_data() is for sends and writes "
			 "only",
			 opcode_name((unsigned int)number, opcode));
		break;
	case SHCA_WR_NOT_BEGUN:
		snprintf(text, size,
			 "ibv_wr_set_*() was called, and no operation, such as ibv_wr_send(), "
			 "before it");
		break;
	case SHCA_WR_NO_AH:
		snprintf(text, size,
			 "ibv_wr_set_ud_addr() was called with ah NULL: ibv_create_ah() makes it, "
			 "of the receiver's address");
		break;
	case SHCA_WR_OLD_AH:
		snprintf(text, size, "%s", destroyed_ah);
		break;
	case SHCA_WR_NOT_ASKED_FOR:
		snprintf(text, size,
			 "send_ops_flags, when the QP was created, had no IBV_QP_EX_WITH_%s",
			 opcode_name((unsigned int)number, opcode));
		break;
	default:
		snprintf(text, size, "an operation has arguments that are not for it");
	}
}

void shca_say_batch(struct shca_qp *qp, const struct shca_wr_wrong *first, int err)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_POST_SEND };
	uint32_t state = shca_qp_state(qp);
	char wrong[190];

	if (!may_say(qp->ctx, err))
		return;
	if (state < SIMHCA_QPS_RTS)
		snprintf(wrong, sizeof(wrong), "it is in %s; move it to RTS first",
			 state_name(state));
	else
		what_was_wrong_with(qp, first, wrong, sizeof(wrong));
	snprintf(req.text, sizeof(req.text), "QP 0x%06x, posts by ibv_wr_*(): %s",
		 qp->vqp.qp.qp_num, wrong);
	say(qp->ctx, &req, err);
}

void shca_say_recv(struct shca_context *ctx, enum simhca_say what, const struct shca_qp *qp,
		   const struct ibv_recv_wr *wr, const struct shca_rq *rq, int err)
{
	struct simhca_say_req req = { .what = what };
	char whose[24] = "the SRQ", wrong[128];

	if (!may_say(ctx, err))
		return;
	if (qp)
		snprintf(whose, sizeof(whose), "QP 0x%06x", qp->vqp.qp.qp_num);
	if (qp && qp->srq)
		snprintf(wrong, sizeof(wrong),
			 "its receives come from an SRQ: ibv_post_srq_recv() posts them");
	else if (qp && !rq->max_wr)
		snprintf(wrong, sizeof(wrong), "it was created with max_recv_wr 0");
	else if (qp && shca_qp_state(qp) == SIMHCA_QPS_RESET)
		snprintf(wrong, sizeof(wrong), "it is in RESET; move it to INIT first");
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		snprintf(wrong, sizeof(wrong), "it has %d SGEs, and %s is %u", wr->num_sge,
			 qp ? "max_recv_sge" : "max_sge", rq->max_sge);
	else
		snprintf(wrong, sizeof(wrong),
			 "its queue is full: %s is %u, and so many were not polled",
			 qp ? "max_recv_wr" : "max_wr", rq->max_wr);
	snprintf(req.text, sizeof(req.text), "%s, receive, wr_id 0x%llx: %s", whose,
		 (unsigned long long)wr->wr_id, wrong);
	say(ctx, &req, err);
}
