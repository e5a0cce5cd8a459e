/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>

#include "command.h"
#include "say.h"

#define MOST_REFUSALS 8 /* of a context: programs may post until a queue is full, all the time */

void shca_say_name(struct shca_context *ctx)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_NAME };

	snprintf(req.text, sizeof(req.text), "%s", program_invocation_short_name);
	shca_tell(ctx, SIMHCA_CMD_SAY, &req);
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
	shca_tell(ctx, SIMHCA_CMD_SAY, req);
	errno = before;
}

/* As verbs.h has it, which releases differ in. */
static const char *opcode_name(const struct ibv_send_wr *wr, char number[static 12])
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
	unsigned int opcode = wr->opcode;

	if (opcode < sizeof(names) / sizeof(names[0]) && names[opcode])
		return names[opcode];
	snprintf(number, 12, "%u", opcode);
	return number;
}

void shca_say_send(struct shca_qp *qp, const struct ibv_send_wr *wr, int err)
{
	struct simhca_say_req req = { .what = SIMHCA_SAY_POST_SEND };
	uint32_t qpn = qp->vqp.qp.qp_num, state = shca_qp_state(qp);
	char number[12];
	const char *opcode = opcode_name(wr, number);

	if (!may_say(qp->ctx, err))
		return;
	if (err == ENOMEM)
		snprintf(req.text, sizeof(req.text),
			 "QP 0x%06x: its queue of %u is full; poll its CQ first (%s, wr_id 0x%llx)",
			 qpn, qp->sq.max_wr, opcode, (unsigned long long)wr->wr_id);
	else if (state < SIMHCA_QPS_RTS)
		snprintf(req.text, sizeof(req.text),
			 "QP 0x%06x is not in RTS yet (%s, wr_id 0x%llx)", qpn, opcode,
			 (unsigned long long)wr->wr_id);
	else
		snprintf(req.text, sizeof(req.text),
			 "QP 0x%06x: %s, flags 0x%x, %d SGEs, wr_id 0x%llx is not for it", qpn,
			 opcode, wr->send_flags, wr->num_sge, (unsigned long long)wr->wr_id);
	say(qp->ctx, &req, err);
}

void shca_say_recv(struct shca_context *ctx, enum simhca_say what, const struct shca_qp *qp,
		   const struct ibv_recv_wr *wr, const struct shca_rq *rq, int err)
{
	struct simhca_say_req req = { .what = what };
	char whose[24] = "the SRQ";

	if (!may_say(ctx, err))
		return;
	if (qp)
		snprintf(whose, sizeof(whose), "QP 0x%06x", qp->vqp.qp.qp_num);
	if (err == ENOMEM)
		snprintf(req.text, sizeof(req.text), "%s: its queue of %u is full (wr_id 0x%llx)",
			 whose, rq->max_wr, (unsigned long long)wr->wr_id);
	else
		snprintf(req.text, sizeof(req.text),
			 "%s: %d SGEs, wr_id 0x%llx: too many, or it is in RESET, or has an SRQ",
			 whose, wr->num_sge, (unsigned long long)wr->wr_id);
	say(ctx, &req, err);
}
