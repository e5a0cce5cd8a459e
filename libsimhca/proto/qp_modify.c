/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The QP state machine: which transitions exist and which attributes each takes (IBTA vol.
 * 1, 11.2.5.2). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "core/address.h"
#include "core/av.h"
#include "core/context.h"
#include "engine/engine.h"
#include "memory/mw.h"
#include "packet/packet.h"
#include "paging/fault.h"
#include "qp.h"
#include "silence.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define STATES (SIMHCA_QPS_ERR + 1)

/* QP types, and states, as bits of a set. */
enum { RC = 1, UC = 2, UD = 4, XRC_SEND = 8, XRC_RECV = 16, RAW = 32 };
enum { CONNECTED = RC | UC | XRC_SEND | XRC_RECV, ALL_TYPES = CONNECTED | UD | RAW };
#define IN(state) (1u << SIMHCA_QPS_##state)
#define ALL_STATES ((1u << STATES) - 1)

#define KNOWN_MASK (((SIMHCA_QP_DEST_QPN << 1) - 1) | SIMHCA_QP_RATE_LIMIT)
#define PATH (SIMHCA_QP_ALT_PATH | SIMHCA_QP_PATH_MIG_STATE)
#define RESPONDER (SIMHCA_QP_MAX_DEST_RD_ATOMIC | SIMHCA_QP_MIN_RNR_TIMER)
#define REQUESTER (SIMHCA_QP_RETRY_CNT | SIMHCA_QP_RNR_RETRY | SIMHCA_QP_MAX_QP_RD_ATOMIC)

/*
 * A transition is legal if a row has it, and takes the attributes of all the rows that have it: it has
 * to be given those of `needs`, and may be given those of `may`, besides the state itself.
 *
 * An XRC QP is only one half of an RC QP. What is about the other half changes nothing, but programs
 * give it on the way to RTS, as if it were RC (perftest does).
 */
static const struct row {
	uint32_t from, to, types; /* sets */
	uint32_t needs, may;
} table[] = {
	{ ALL_STATES, IN(RESET), ALL_TYPES, 0, 0 },
	{ ALL_STATES & ~IN(RESET), IN(ERR), ALL_TYPES, 0,
	  0 }, /* from RESET the kernel refuses it */

	{ IN(RESET), IN(INIT), ALL_TYPES, SIMHCA_QP_PORT, 0 },
	{ IN(RESET), IN(INIT), ALL_TYPES & ~RAW, SIMHCA_QP_PKEY_INDEX, 0 },
	{ IN(RESET), IN(INIT), CONNECTED, SIMHCA_QP_ACCESS_FLAGS, 0 },
	{ IN(RESET), IN(INIT), UD, SIMHCA_QP_QKEY, 0 },

	{ IN(INIT), IN(INIT), ALL_TYPES, 0, SIMHCA_QP_PORT },
	{ IN(INIT), IN(INIT) | IN(RTR), ALL_TYPES & ~RAW, 0, SIMHCA_QP_PKEY_INDEX },
	{ IN(INIT), IN(INIT) | IN(RTR), CONNECTED, 0, SIMHCA_QP_ACCESS_FLAGS },
	{ IN(INIT), IN(INIT) | IN(RTR), UD, 0, SIMHCA_QP_QKEY },

	{ IN(INIT), IN(RTR), RAW, 0, 0 },
	{ IN(INIT), IN(RTR), CONNECTED,
	  SIMHCA_QP_AV | SIMHCA_QP_PATH_MTU | SIMHCA_QP_DEST_QPN | SIMHCA_QP_RQ_PSN,
	  SIMHCA_QP_ALT_PATH },
	{ IN(INIT), IN(RTR), RC | XRC_RECV, RESPONDER, 0 },
	{ IN(INIT), IN(RTR), XRC_SEND, 0, RESPONDER },

	{ IN(RTR), IN(RTS), ALL_TYPES & ~RAW, SIMHCA_QP_SQ_PSN, 0 },
	{ IN(RTR), IN(RTS), RC | XRC_SEND | XRC_RECV, SIMHCA_QP_TIMEOUT, 0 },
	{ IN(RTR), IN(RTS), RC | XRC_SEND, REQUESTER, 0 },
	{ IN(RTR), IN(RTS), XRC_RECV, 0, REQUESTER },

	{ IN(RTR) | IN(RTS) | IN(SQD), IN(RTS), ALL_TYPES, 0, SIMHCA_QP_CUR_STATE },
	{ IN(RTR) | IN(RTS) | IN(SQD), IN(RTS), CONNECTED, 0, SIMHCA_QP_ACCESS_FLAGS | PATH },
	{ IN(RTR) | IN(RTS) | IN(SQD), IN(RTS), RC | XRC_RECV, 0, SIMHCA_QP_MIN_RNR_TIMER },
	{ IN(RTR) | IN(RTS) | IN(SQD), IN(RTS), UD, 0, SIMHCA_QP_QKEY },
	{ IN(RTR) | IN(RTS), IN(RTS), RAW, 0, SIMHCA_QP_RATE_LIMIT },

	{ IN(RTS), IN(SQD), ALL_TYPES, 0, SIMHCA_QP_EN_SQD_ASYNC_NOTIFY },

	{ IN(SQD), IN(SQD), RAW, 0, 0 },
	{ IN(SQD), IN(SQD), ALL_TYPES & ~RAW, 0, SIMHCA_QP_PKEY_INDEX },
	{ IN(SQD), IN(SQD), CONNECTED, 0, SIMHCA_QP_ACCESS_FLAGS | PATH },
	/* AV without PORT: the kernel adds PORT, and so AV of a UC QP is refused. */
	{ IN(SQD), IN(SQD), RC | XRC_SEND | XRC_RECV, 0,
	  SIMHCA_QP_AV | SIMHCA_QP_PORT | SIMHCA_QP_TIMEOUT },
	{ IN(SQD), IN(SQD), RC | XRC_SEND, 0, REQUESTER },
	{ IN(SQD), IN(SQD), RC | XRC_RECV, 0, RESPONDER },
	{ IN(SQD), IN(SQD), UD, 0, SIMHCA_QP_QKEY },

	{ IN(SQE), IN(RTS), UC | UD | RAW, 0, SIMHCA_QP_CUR_STATE },
	{ IN(SQE), IN(RTS), UC, 0, SIMHCA_QP_ACCESS_FLAGS },
	{ IN(SQE), IN(RTS), UD, 0, SIMHCA_QP_QKEY },
};

static const char *const state_name[STATES] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"
};

static uint32_t type_bit(uint32_t type)
{
	switch (type) {
	case SIMHCA_QPT_RC:
		return RC;
	case SIMHCA_QPT_UC:
		return UC;
	case SIMHCA_QPT_XRC_SEND:
		return XRC_SEND;
	case SIMHCA_QPT_XRC_RECV:
		return XRC_RECV;
	case SIMHCA_QPT_RAW_PACKET:
		return RAW;
	default:
		return UD;
	}
}

/* ibv_qp_attr_mask bits in words, for messages; the first one set. */
static const char *mask_name(uint32_t mask)
{
	static const char *const name[] = {
		"STATE",
		"CUR_STATE",
		"EN_SQD_ASYNC_NOTIFY",
		"ACCESS_FLAGS",
		"PKEY_INDEX",
		"PORT",
		"QKEY",
		"AV",
		"PATH_MTU",
		"TIMEOUT",
		"RETRY_CNT",
		"RNR_RETRY",
		"RQ_PSN",
		"MAX_QP_RD_ATOMIC",
		"ALT_PATH",
		"MIN_RNR_TIMER",
		"SQ_PSN",
		"MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE",
		"CAP",
		"DEST_QPN",
	};
	unsigned int bit = (unsigned int)__builtin_ctz(mask);

	return bit < sizeof(name) / sizeof(name[0]) ? name[bit] : "RATE_LIMIT";
}

/* What a program has left out that asks for an illegal transition. */
static int refuse_transition(uint32_t from, uint32_t to, struct simhca_why *why)
{
	static const char *const before[STATES] = {
		[SIMHCA_QPS_INIT] = "RESET",
		[SIMHCA_QPS_RTR] = "INIT",
		[SIMHCA_QPS_RTS] = "RTR",
	};
	const char *first;

	if (!before[to])
		return simhca_why(why, EINVAL, "a QP cannot go from %s to %s", state_name[from],
				  state_name[to]);
	/* The states are in the order in which a QP has them: back it goes by RESET only. */
	first = to > from ? before[to] : to == SIMHCA_QPS_RTR ? "RESET and INIT" : "RESET";
	/* rdma_accept() begins with INIT, and leaves the QP in RTS. */
	return simhca_why(why, EINVAL, "a QP cannot go from %s to %s: move it to %s first%s",
			  state_name[from], state_name[to], first,
			  from == SIMHCA_QPS_RTS && to == SIMHCA_QPS_INIT
				  ? "; with rdma_cm, it was accepted already"
				  : "");
}

/*
 * What a program has mixed up that leaves out an attribute. rdma_create_qp() takes a QP to INIT as the id's port space
 * has it, whatever the QP's type is.
 */
static const char *mixed_up(uint32_t type, uint32_t from, uint32_t missing, uint32_t mask)
{
	if (from != SIMHCA_QPS_RESET)
		return "";
	if (type == UD && (missing & SIMHCA_QP_QKEY) && (mask & SIMHCA_QP_ACCESS_FLAGS))
		return ", and has ACCESS_FLAGS, as an RC QP: with rdma_cm, a UD QP is for an id of "
		       "RDMA_PS_UDP";
	if ((type & CONNECTED) && (missing & SIMHCA_QP_ACCESS_FLAGS) && (mask & SIMHCA_QP_QKEY))
		return ", and has QKEY, as a UD QP: with rdma_cm, an id of RDMA_PS_UDP has UD QPs "
		       "only";
	return "";
}

static int check_transition(const struct simhca_qp *qp, uint32_t from, uint32_t to, uint32_t mask,
			    struct simhca_why *why)
{
	uint32_t type = type_bit(qp->type), needs = 0, may = 0, wrong;
	bool legal = false;

	if (to >= STATES)
		return simhca_why(why, EINVAL, "qp_state = %u: there is no such state", to);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct row *row = &table[i];

		if (!(row->from & (1u << from)) || !(row->to & (1u << to)) || !(row->types & type))
			continue;
		legal = true;
		needs |= row->needs;
		may |= row->may;
	}
	if (!legal)
		return refuse_transition(from, to, why);
	wrong = needs & ~mask;
	if (wrong)
		return simhca_why(why, EINVAL, "%s to %s needs attribute %s%s", state_name[from],
				  state_name[to], mask_name(wrong),
				  mixed_up(type, from, wrong, mask));
	wrong = mask & ~(needs | may | SIMHCA_QP_STATE);
	if (wrong && !(mask & SIMHCA_QP_STATE))
		return simhca_why(why, EINVAL,
				  "the mask lacks IBV_QP_STATE, and in %s attribute %s cannot be "
				  "changed",
				  state_name[from], mask_name(wrong));
	if (wrong)
		return simhca_why(why, EINVAL, "%s to %s does not take attribute %s",
				  state_name[from], state_name[to], mask_name(wrong));
	return 0;
}

/*
 * Of qp_access_flags there is nothing to check: as in the kernel, flags that say nothing of a QP
 * are taken, for programs use one set of flags for regions and QPs.
 */
static int check_values(const struct simhca_qp *qp, uint32_t mask,
			const struct simhca_qp_attr *attr, struct simhca_why *why)
{
	uint32_t port_mtu = atomic_load(&qp->device->mem->port.active_mtu);

	if ((mask & SIMHCA_QP_PKEY_INDEX) && attr->pkey_index >= SIMHCA_PKEY_ENTRIES)
		return simhca_why(why, EINVAL, "pkey_index = %u: only 0", attr->pkey_index);
	if ((mask & SIMHCA_QP_PORT) && attr->port_num != 1)
		return simhca_why(why, EINVAL, "port_num = %u: only 1", attr->port_num);
	if ((mask & SIMHCA_QP_PATH_MTU) && attr->path_mtu >= 256)
		return simhca_why(why, EINVAL,
				  "path_mtu = %u: it is an enum ibv_mtu, 1 (256 bytes) to %u (the "
				  "port's active_mtu)",
				  attr->path_mtu, port_mtu);
	if ((mask & SIMHCA_QP_PATH_MTU) && (attr->path_mtu < 1 || attr->path_mtu > port_mtu))
		return simhca_why(why, EINVAL, "path_mtu = %u: 1 to %u (the port's active_mtu)",
				  attr->path_mtu, port_mtu);
	if ((mask & SIMHCA_QP_TIMEOUT) && attr->timeout > 31)
		return simhca_why(why, EINVAL, "timeout = %u: 0 to 31", attr->timeout);
	if ((mask & SIMHCA_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return simhca_why(why, EINVAL, "retry_cnt = %u: 0 to 7", attr->retry_cnt);
	if ((mask & SIMHCA_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return simhca_why(why, EINVAL, "rnr_retry = %u: 0 to 7", attr->rnr_retry);
	if ((mask & SIMHCA_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return simhca_why(why, EINVAL, "min_rnr_timer = %u: 0 to 31", attr->min_rnr_timer);
	if ((mask & SIMHCA_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > SIMHCA_MAX_INIT_RD_ATOMIC)
		return simhca_why(why, EINVAL, "max_rd_atomic = %u: 0 to %u", attr->max_rd_atomic,
				  SIMHCA_MAX_INIT_RD_ATOMIC);
	if ((mask & SIMHCA_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic > SIMHCA_MAX_RD_ATOMIC)
		return simhca_why(why, EINVAL, "max_dest_rd_atomic = %u: 0 to %u",
				  attr->max_dest_rd_atomic, SIMHCA_MAX_RD_ATOMIC);
	if ((mask & SIMHCA_QP_DEST_QPN) && attr->dest_qp_num > SIMHCA_QPN_MASK)
		return simhca_why(
			why, EINVAL,
			"dest_qp_num = 0x%x: 24 bits; with its bytes reversed it is 0x%06x",
			attr->dest_qp_num, __builtin_bswap32(attr->dest_qp_num));
	if (mask & SIMHCA_QP_ALT_PATH)
		return simhca_why(why, EINVAL, "ALT_PATH: this device has no path migration");
	if ((mask & SIMHCA_QP_PATH_MIG_STATE) && attr->path_mig_state != IBV_MIG_MIGRATED)
		return simhca_why(why, EINVAL, "path_mig_state = %u: only MIGRATED",
				  attr->path_mig_state);
	/* Nothing is paced, and packet_pacing_caps say so. 0 is no limit. */
	if ((mask & SIMHCA_QP_RATE_LIMIT) && attr->rate_limit)
		return simhca_why(why, EOPNOTSUPP,
				  "rate_limit = %u: the device does not pace packets",
				  attr->rate_limit);
	if (mask & SIMHCA_QP_AV)
		return simhca_av_check(qp->device, &attr->av, why);
	return 0;
}

static void apply(struct simhca_qp *qp, uint32_t mask, const struct simhca_qp_attr *attr)
{
	struct simhca_qpc *qpc = qp->qpc;

#define APPLY(bit, field, value)                                                                   \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			qpc->field = (value);                                                      \
	} while (0)
	APPLY(SIMHCA_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify, attr->en_sqd_async_notify != 0);
	APPLY(SIMHCA_QP_ACCESS_FLAGS, access, attr->qp_access_flags);
	APPLY(SIMHCA_QP_PKEY_INDEX, pkey_index, attr->pkey_index);
	APPLY(SIMHCA_QP_PORT, port_num, attr->port_num);
	APPLY(SIMHCA_QP_QKEY, qkey, attr->qkey);
	APPLY(SIMHCA_QP_PATH_MTU, path_mtu, (uint8_t)attr->path_mtu);
	APPLY(SIMHCA_QP_TIMEOUT, timeout, attr->timeout);
	APPLY(SIMHCA_QP_RETRY_CNT, retry_cnt, attr->retry_cnt);
	APPLY(SIMHCA_QP_RNR_RETRY, rnr_retry, attr->rnr_retry);
	APPLY(SIMHCA_QP_RQ_PSN, rq_psn, attr->rq_psn & SIMHCA_PSN_MASK);
	APPLY(SIMHCA_QP_SQ_PSN, sq_psn, attr->sq_psn & SIMHCA_PSN_MASK);
	APPLY(SIMHCA_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, attr->max_rd_atomic);
	APPLY(SIMHCA_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, attr->max_dest_rd_atomic);
	APPLY(SIMHCA_QP_MIN_RNR_TIMER, min_rnr_timer, attr->min_rnr_timer);
	APPLY(SIMHCA_QP_DEST_QPN, dest_qpn, attr->dest_qp_num);
#undef APPLY
	if (mask & SIMHCA_QP_AV)
		simhca_qpc_set_av(qpc, &attr->av);
	if (mask & (SIMHCA_QP_AV | SIMHCA_QP_DEST_QPN))
		qp->requester.peer.generation = 0;
	if (mask & SIMHCA_QP_RQ_PSN)
		simhca_responder_start(qp, qpc->rq_psn);
	if (mask & SIMHCA_QP_SQ_PSN)
		qp->req.psn_next = qpc->sq_psn;
}

/* Receives of the QP's own queue that nobody has taken. While both sides are held. */
static uint32_t waiting_receives(const struct simhca_qp *qp)
{
	uint32_t count;

	if (!qp->mem || !qp->rq_entries || qp->srq)
		return 0;
	count = simhca_progress_rq_pi(qp->mem) - qp->resp.rq_ci;
	return count < qp->rq_entries ? count : qp->rq_entries; /* clients can write it */
}

/*
 * Whether an engine has to look at the QP: WQEs, a drain to report, a flush. A QP whose first messages are posted
 * when it can send has nothing of these, and its program may carry them. While both sides are held.
 */
static bool has_work(const struct simhca_qp *qp, uint32_t from, uint32_t to)
{
	struct simhca_requester req;

	if (to < SIMHCA_QPS_RTS || qp->type == SIMHCA_QPT_XRC_RECV)
		return false;
	if (from != SIMHCA_QPS_RTR || to != SIMHCA_QPS_RTS || !qp->mem)
		return true;
	simhca_progress_show_requester(qp->mem, &req);
	return simhca_progress_sq_pi(qp->mem) != req.oldest;
}

/* Back to what create_qp made. */
static void reset(struct simhca_qp *qp)
{
	struct simhca_qpc *qpc = qp->qpc;
	struct simhca_qpc keep = { .pd = qpc->pd,
				   .max_send_wr = qpc->max_send_wr,
				   .max_recv_wr = qpc->max_recv_wr,
				   .max_send_sge = qpc->max_send_sge,
				   .max_recv_sge = qpc->max_recv_sge,
				   .max_inline = qpc->max_inline,
				   .sq_sig_all = qpc->sq_sig_all,
				   .xrcd = qpc->xrcd };

	simhca_qpc_set(qpc, &keep);
	simhca_qp_clear(qp);
}

/* What a state brings along for a QP without a send queue, and without an engine: it is at once. */
static void disconnect_xrc_target(struct simhca_qp *qp, uint32_t from, uint32_t to)
{
	if (to == SIMHCA_QPS_SQD && from == SIMHCA_QPS_RTS && qp->qpc->en_sqd_async_notify)
		simhca_qp_event(qp, IBV_EVENT_SQ_DRAINED);
	if (to == SIMHCA_QPS_ERR && from != SIMHCA_QPS_ERR)
		qp->source->flush(qp);
}

/*
 * Programs that send to it acquire none of its owner words. False: one is in the middle of a
 * message, and holds what it found.
 */
static bool send_off(struct simhca_qp *qp)
{
	if (qp->type != SIMHCA_QPT_UD || simhca_qp_state(qp) < SIMHCA_QPS_RTR ||
	    !simhca_claimed_from(qp)->mem)
		return true;
	simhca_fastpath_end(qp);
	return simhca_fabric_synchronize(qp->device->fabric, qp->context->id) &&
	       simhca_fastpath_recover(qp);
}

/* Whether the request is right for a QP in that state, and where it leads. */
static int check(const struct simhca_qp *qp, const struct simhca_modify_qp_req *req, uint32_t mask,
		 uint32_t from, uint32_t *to, struct simhca_why *why)
{
	int ret;

	*to = mask & SIMHCA_QP_STATE ? req->attr.qp_state : from;
	if ((mask & SIMHCA_QP_CUR_STATE) && req->attr.cur_qp_state != from)
		return simhca_why(why, EINVAL, "cur_qp_state = %u (%s), but the QP is in %s",
				  req->attr.cur_qp_state,
				  req->attr.cur_qp_state < STATES
					  ? state_name[req->attr.cur_qp_state]
					  : "no state",
				  state_name[from]);
	ret = check_transition(qp, from, *to, mask, why);
	return ret ? ret : check_values(qp, mask, &req->attr, why);
}

bool simhca_modify_is_privileged(const struct simhca_modify_qp_req *req)
{
	return (req->mask & SIMHCA_QP_QKEY) && (req->attr.qkey & SIMHCA_QKEY_CONTROLLED);
}

/*
 * Puts the new state in place. Engines bring a QP down at any time, also without its locks: so that is done only if
 * the old state still stands, and else the request is checked again. Under the locks.
 */
static int move(struct simhca_qp *qp, const struct simhca_modify_qp_req *req, uint32_t mask,
		uint32_t *from, uint32_t *to, struct simhca_why *why)
{
	int ret;

	*from = simhca_qp_state(qp);
	do {
		ret = check(qp, req, mask, *from, to, why);
		if (ret)
			return ret;
		/* What leaves the working states leaves no page fault behind. */
		if ((*to == SIMHCA_QPS_RESET || *to == SIMHCA_QPS_ERR) &&
		    !simhca_faults_disable(&qp->faults))
			return -EAGAIN;
	} while (!atomic_compare_exchange_strong(&qp->qpc->state, from, *to));
	return 0;
}

/* What a QP in RESET does not keep; spare: a file for the memory that a peer has of it, or -1. */
static void enter_reset(struct simhca_qp *qp, int spare, struct simhca_modify_qp_reply *reply)
{
	simhca_qp_recover(qp);
	if (qp->context) /* an XRC_RECV QP binds none */
		simhca_free_windows_of(qp->context, qp->qpn);
	/* Before the memory that says so is another. */
	qp->dropped_receives = waiting_receives(qp);
	qp->dropped_sends = simhca_unpolled_sends(qp);
	if (spare >= 0)
		reply->segment = simhca_fastpath_revoke(qp, spare);
	reset(qp);
}

/* The attributes of the request, which has been granted, and what a move brings along but to RESET. */
static void enter(struct simhca_qp *qp, const struct simhca_modify_qp_req *req, uint32_t mask,
		  uint32_t from, uint32_t to)
{
	const bool connects = from == SIMHCA_QPS_INIT && to == SIMHCA_QPS_RTR;

	/* Who moves to SQD asks for the event each time. */
	if (to == SIMHCA_QPS_SQD && from == SIMHCA_QPS_RTS)
		qp->qpc->en_sqd_async_notify = 0;
	if (to != SIMHCA_QPS_RESET)
		apply(qp, mask, &req->attr);
	if (to != SIMHCA_QPS_RTS || (from != SIMHCA_QPS_RTR && from != SIMHCA_QPS_RTS))
		simhca_fastpath_end(qp);
	if (connects || (mask & SIMHCA_QP_AV)) {
		if (qp->wire.uplink)
			qp->wire.uplink->connect(qp);
		simhca_fabric_changed(qp->device->fabric); /* whose packets it accepts */
	}
	if (connects) {
		atomic_store(&qp->faults.off_until, 0);
		if (mask & SIMHCA_QP_AV)
			simhca_silence_connected(qp);
	}
	if (qp->type == SIMHCA_QPT_XRC_RECV) {
		disconnect_xrc_target(qp, from, to);
	} else if (to == SIMHCA_QPS_SQD && from == SIMHCA_QPS_RTS) {
		qp->qpc->sq_draining = 1;
		qp->drained_event_due = qp->qpc->en_sqd_async_notify;
	}
}

int simhca_modify_qp(struct simhca_context *context, const struct simhca_modify_qp_req *req,
		     struct simhca_modify_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->handle, why);
	const uint32_t mask = req->mask, unknown = mask & ~(uint32_t)KNOWN_MASK;
	uint32_t from, to;
	int ret, spare = -1;
	bool engine = false;

	if (!qp)
		return -ENOENT;
	if (unknown)
		return simhca_why(why, EOPNOTSUPP,
				  "attr_mask = 0x%x: bit %d is no IBV_QP attribute", mask,
				  __builtin_ctz(unknown));
	if (qp->ethernet.rss) /* as mlx5 has it */
		return simhca_why(why, ENOSYS, "an RSS QP has no state: its WQs have");
	/* A request that is wrong does not stop the programs that send to the QP. */
	ret = check(qp, req, mask, simhca_qp_state(qp), &to, why);
	if (ret)
		return ret;
	if ((mask & SIMHCA_QP_STATE) && to != SIMHCA_QPS_RTS && !send_off(qp))
		return -EAGAIN;
	/*
	 * The attributes come after the new state: a request that is refused in the end has changed none.
	 * Whoever goes by them waits for these locks, or for `fastpath_epoch`, which is 0 below RTS.
	 */
	ret = simhca_qp_begin_both(qp, true);
	if (ret)
		return ret;
	if (to == SIMHCA_QPS_RESET)
		ret = simhca_fastpath_spare(qp, &spare, why);
	if (!ret)
		ret = move(qp, req, mask, &from, &to, why);
	if (ret)
		goto out;
	enter(qp, req, mask, from, to);
	if (to == SIMHCA_QPS_RESET) {
		enter_reset(qp, spare, reply);
		spare = -1;
	}
	reply->state = to;
	reply->renew = simhca_queues_to_renew(qp, false);
	engine = has_work(qp, from, to);
out:
	if (spare >= 0)
		close(spare);
	simhca_qp_end_both(qp);
	if (engine)
		simhca_engine_schedule(context->engine, &qp->task);
	return ret;
}

/*
 * The PSNs that come next, once there can be messages; before that those that were set. As mlx5's
 * next_send_psn and next_rcv_psn. While both sides are held.
 */
static void query_psns(const struct simhca_qp *qp, uint32_t state, struct simhca_qp_attr *attr)
{
	struct simhca_requester req;
	struct simhca_responder resp = qp->resp;

	attr->sq_psn = qp->qpc->sq_psn;
	attr->rq_psn = qp->qpc->rq_psn;
	if (qp->mem) {
		simhca_progress_show_requester(qp->mem, &req);
		simhca_progress_show_responder(qp->mem, &resp);
		if (state >= SIMHCA_QPS_RTS)
			attr->sq_psn = req.psn_next;
	}
	if (state >= SIMHCA_QPS_RTR && qp->type != SIMHCA_QPT_UD)
		attr->rq_psn = resp.epsn;
}

int simhca_query_qp(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, why);
	const struct simhca_qpc *qpc;
	uint32_t state;
	int ret;

	if (!qp)
		return -ENOENT;
	if (qp->ethernet.rss)
		return simhca_why(why, ENOSYS, "an RSS QP has no state: its WQs have");
	qpc = qp->qpc;
	ret = simhca_qp_begin_both(qp, true);
	if (ret)
		return ret;
	state = simhca_qp_state(qp); /* an engine brings it down without these locks */
	reply->attr = (struct simhca_qp_attr){
		.qp_state = state,
		.cur_qp_state = state,
		.path_mtu = qpc->path_mtu,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = qpc->qkey,
		.dest_qp_num = qpc->dest_qpn,
		.qp_access_flags = qpc->access,
		.pkey_index = qpc->pkey_index,
		.en_sqd_async_notify = qpc->en_sqd_async_notify,
		.sq_draining = qpc->sq_draining,
		.max_rd_atomic = qpc->max_rd_atomic,
		.max_dest_rd_atomic = qpc->max_dest_rd_atomic,
		.min_rnr_timer = qpc->min_rnr_timer,
		.port_num = qpc->port_num,
		.timeout = qpc->timeout,
		.retry_cnt = qpc->retry_cnt,
		.rnr_retry = qpc->rnr_retry,
		.av = qpc->av,
		.max_send_wr = qpc->max_send_wr,
		.max_recv_wr = qpc->max_recv_wr,
		.max_send_sge = qpc->max_send_sge,
		.max_recv_sge = qpc->max_recv_sge,
		.max_inline = qpc->max_inline,
		.sq_sig_all = qpc->sq_sig_all,
	};
	query_psns(qp, state, &reply->attr);
	simhca_qp_end_both(qp);
	return 0;
}
