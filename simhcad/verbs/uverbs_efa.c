/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Write commands of EFA devices: what the kernel's driver does for libefa. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "diagnosis/lint.h"
#include "efa/efa.h"
#include "efa_abi.h"
#include "session/device.h"
#include "uverbs.h"

/* What the common command has answered, for what is to be told beside it. */
static void core_answer(const struct uverbs_call *call, void *to, size_t size)
{
	memcpy(to, call->answer->data, size);
}

static int get_context(struct uverbs_call *call)
{
	const uint32_t generation = call->session->device->options->settings.efa_caps;
	const struct simhca_efa_limits most = simhca_efa_limits(call->session->device->model);
	const struct simhca_efa_abi_context_resp out = {
		.cmds_supp_udata_mask =
			EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE | EFA_USER_CMDS_SUPP_UDATA_CREATE_AH,
		.sub_cqs_per_cq = generation == 1 ? SIMHCA_EFA_SUB_CQS : 1,
		.inline_buf_size = (uint16_t)most.max_inline,
		.max_llq_size = SIMHCA_EFA_LLQ,
		.inline_buf_size_ex = (uint16_t)most.max_inline_wide,
	};
	int ret = simhca_efa_open(call->session->context, call->why);

	if (!ret)
		uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return ret;
}

/* What real ones of each generation have; the rest they have in common. */
static uint32_t caps_of(uint32_t generation)
{
	uint32_t caps = EFA_QUERY_DEVICE_CAPS_RNR_RETRY | EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS |
			EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID;

	if (generation >= 2)
		caps |= EFA_QUERY_DEVICE_CAPS_RDMA_READ;
	if (generation >= 3)
		caps |= SIMHCA_EFA_CAP_RDMA_WRITE | SIMHCA_EFA_CAP_UNSOLICITED_WRITE_RECV;
	return caps;
}

static int query_device_ex(struct uverbs_call *call)
{
	const uint32_t generation = call->session->device->options->settings.efa_caps;
	const struct simhca_efa_limits most = simhca_efa_limits(call->session->device->model);
	const struct efa_ibv_ex_query_device_resp out = {
		.max_sq_wr = most.max_send_wr,
		.max_rq_wr = most.max_recv_wr,
		.max_sq_sge = (uint16_t)most.max_send_sge,
		.max_rq_sge = (uint16_t)most.max_recv_sge,
		.max_rdma_size = most.max_rdma,
		.device_caps = caps_of(generation),
	};

	uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return 0;
}

/* The number of a PD is for those who address it by other means than handles: nobody here. */
static int alloc_pd(struct uverbs_call *call)
{
	struct efa_ibv_alloc_pd_resp out = { 0 };
	struct ib_uverbs_alloc_pd_resp core;

	core_answer(call, &core, sizeof(core));
	out.pdn = (uint16_t)core.pd_handle;
	uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return 0;
}

static int create_ah(struct uverbs_call *call)
{
	struct efa_ibv_create_ah_resp out = { 0 };
	struct ib_uverbs_create_ah_resp core;
	struct ib_uverbs_create_ah in;
	union simhca_gid gid;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	if (!in.attr.is_global)
		return simhca_why(call->why, EINVAL,
				  "an address needs a GRH: set is_global and grh");
	memcpy(gid.raw, in.attr.grh.dgid, sizeof(gid.raw));
	ret = simhca_efa_create_ah(call->session->context, in.pd_handle, &gid, &core.ah_handle,
				   &out.efa_address_handle, call->why);
	if (ret)
		return ret;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &core, sizeof(core));
	uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return 0;
}

static int destroy_ah(struct uverbs_call *call)
{
	struct ib_uverbs_destroy_ah in;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	return simhca_efa_destroy_ah(call->session->context, in.ah_handle, call->why);
}

/* What a CQ is asked for, by either command. */
struct cq_wish {
	uint64_t user_handle;
	uint32_t entries, flags;
	bool with_channel;
};

/* The channel that its events go to: the client's end of it has come along. */
static int keep_channel(struct uverbs_call *call, uint64_t *channel)
{
	struct request *request = call->request;
	int ret;

	if (!request->num_fds)
		return simhca_why(call->why, EBADF, "a CQ with a completion channel comes with it");
	ret = event_keep(&call->session->events, request->fds[0], channel);
	return ret ? simhca_why(call->why, -ret,
				"the CQ's completion channel is not one of this context: %s",
				strerror(-ret))
		   : 0;
}

static int check_cq(struct uverbs_call *call, const struct cq_wish *wish,
		    const struct efa_ibv_create_cq *driver)
{
	if (wish->flags ||
	    driver->flags & ~(EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL | EFA_CREATE_CQ_WITH_SGID))
		return simhca_why(call->why, EOPNOTSUPP,
				  "a CQ with flags 0x%x and EFA's flags 0x%x: this device has none "
				  "of the former, and 0x3 of the latter",
				  wish->flags, driver->flags);
	if (!(driver->flags & EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL) != !wish->with_channel)
		return simhca_why(call->why, EINVAL,
				  "a CQ %s a channel: EFA's flags 0x%x say otherwise",
				  wish->with_channel ? "with" : "without", driver->flags);
	return 0;
}

/* core is what the answer, whole and of that size, begins with. */
static int make_cq(struct uverbs_call *call, const struct cq_wish *wish,
		   struct ib_uverbs_create_cq_resp *core, const void *whole, size_t size)
{
	struct efa_ibv_create_cq_resp out = { 0 };
	struct simhca_efa_cq_request req;
	struct simhca_efa_cq_reply made;
	struct efa_ibv_create_cq driver;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_DRIVER, &driver, sizeof(driver));
	ret = check_cq(call, wish, &driver);
	if (ret)
		return ret;
	req = (struct simhca_efa_cq_request){
		.entries = wish->entries,
		.entry_size = driver.cq_entry_size,
		.sub_cqs = driver.num_sub_cqs,
		.with_gid = driver.flags & EFA_CREATE_CQ_WITH_SGID,
		.user_handle = wish->user_handle,
	};
	if (wish->with_channel)
		ret = keep_channel(call, &req.channel);
	if (ret)
		return ret;
	ret = simhca_efa_create_cq(call->session->context, &req, &made, call->why);
	if (ret) {
		event_let_go(&call->session->events, req.channel);
		return ret;
	}
	*core = (struct ib_uverbs_create_cq_resp){ .cq_handle = made.handle, .cqe = wish->entries };
	out.q_mmap_key = made.key;
	out.q_mmap_size = made.size;
	out.cq_idx = made.number;
	if (wish->with_channel) {
		out.comp_mask = EFA_CREATE_CQ_RESP_DB_OFF;
		out.db_mmap_key = made.doorbell_key;
	}
	uverbs_out(call, SIMHCA_UVERBS_CORE, whole, size);
	uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return 0;
}

static int create_cq(struct uverbs_call *call)
{
	struct ib_uverbs_create_cq_resp core = { 0 };
	struct ib_uverbs_create_cq in;
	struct cq_wish wish;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	wish = (struct cq_wish){ .user_handle = in.user_handle,
				 .entries = in.cqe,
				 .with_channel = in.comp_channel >= 0 };
	return make_cq(call, &wish, &core, &core, sizeof(core));
}

static int create_cq_ex(struct uverbs_call *call)
{
	struct ib_uverbs_ex_create_cq_resp core = { .response_length = sizeof(core) };
	struct ib_uverbs_ex_create_cq in;
	struct cq_wish wish;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	wish = (struct cq_wish){ .user_handle = in.user_handle,
				 .entries = in.cqe,
				 .flags = in.flags | in.comp_mask,
				 .with_channel = in.comp_channel >= 0 };
	return make_cq(call, &wish, &core.base, &core, sizeof(core));
}

static int destroy_cq(struct uverbs_call *call)
{
	struct simhca_destroy_reply destroyed = { 0 };
	struct ib_uverbs_destroy_cq_resp out = { 0 };
	struct reply reply = { .body = &destroyed };
	struct simhca_handle handle = { 0 };
	struct ib_uverbs_destroy_cq in;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	handle.handle = in.cq_handle;
	ret = uverbs_run(call, SIMHCA_CMD_DESTROY_CQ, &handle, &reply);
	if (ret)
		return ret;
	out.comp_events_reported = destroyed.comp_events;
	out.async_events_reported = destroyed.async_events;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

/*
 * How a region's memory is reached by the machine's interconnects: EFA says it of some instances' (GPU
 * memory), and here it is known of none.
 */
static int query_mr(struct uverbs_call *call)
{
	const struct simhca_efa_abi_query_mr_resp out = { .validity = 0 };
	uint32_t handle;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &handle, sizeof(handle));
	ret = simhca_efa_find_mr(call->session->context, handle, call->why);
	if (ret)
		return ret;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

static int check_qp(struct uverbs_call *call, const struct ib_uverbs_create_qp *in,
		    const struct simhca_efa_abi_create_qp *driver)
{
	if (driver->flags & ~SIMHCA_EFA_QP_UNSOLICITED_WRITE_RECV || driver->sl)
		return simhca_why(call->why, EOPNOTSUPP,
				  "a QP with flags 0x%x and service level %u: it has flag 1, and 0",
				  driver->flags, driver->sl);
	if (in->is_srq)
		return simhca_why(call->why, EOPNOTSUPP, "an EFA device has no SRQs");
	if (in->qp_type == IBV_QPT_UD ||
	    (in->qp_type == IBV_QPT_DRIVER && driver->driver_qp_type == EFA_QP_DRIVER_TYPE_SRD))
		return 0;
	return simhca_why(call->why, EOPNOTSUPP, "an EFA device has QPs of type UD and SRD");
}

static int create_qp(struct uverbs_call *call)
{
	struct efa_ibv_create_qp_resp out = { 0 };
	struct simhca_efa_abi_create_qp driver;
	struct ib_uverbs_create_qp_resp core;
	struct simhca_efa_qp_request req;
	struct simhca_efa_qp_reply made;
	struct ib_uverbs_create_qp in;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	uverbs_in(call, SIMHCA_UVERBS_DRIVER, &driver, sizeof(driver));
	ret = check_qp(call, &in, &driver);
	if (ret)
		return ret;
	req = (struct simhca_efa_qp_request){
		.pd = in.pd_handle,
		.send_cq = in.send_cq_handle,
		.recv_cq = in.recv_cq_handle,
		.sq_bytes = driver.sq_ring_size,
		.rq_bytes = driver.rq_ring_size,
		.srd = in.qp_type == IBV_QPT_DRIVER,
		.unsolicited = driver.flags & SIMHCA_EFA_QP_UNSOLICITED_WRITE_RECV,
		.caps = { .max_send_wr = in.max_send_wr,
			  .max_recv_wr = in.max_recv_wr,
			  .max_send_sge = in.max_send_sge,
			  .max_recv_sge = in.max_recv_sge,
			  .max_inline = in.max_inline_data },
	};
	ret = simhca_efa_create_qp(call->session->context, &req, &made, call->why);
	if (ret)
		return ret;
	core = (struct ib_uverbs_create_qp_resp){
		.qp_handle = made.handle,
		.qpn = made.qpn,
		.max_send_wr = in.max_send_wr,
		.max_recv_wr = in.max_recv_wr,
		.max_send_sge = in.max_send_sge,
		.max_recv_sge = in.max_recv_sge,
		.max_inline_data = in.max_inline_data,
	};
	out.rq_mmap_key = made.rq_key;
	out.rq_mmap_size = made.rq_size;
	out.rq_db_mmap_key = made.rq_doorbell_key;
	out.rq_db_offset = made.rq_doorbell_offset;
	out.sq_db_mmap_key = made.sq_doorbell_key;
	out.llq_desc_mmap_key = made.sq_key;
	out.send_sub_cq_idx = made.send_sub_cq;
	out.recv_sub_cq_idx = made.recv_sub_cq;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &core, sizeof(core));
	uverbs_out(call, SIMHCA_UVERBS_DRIVER, &out, sizeof(out));
	return 0;
}

static int modify_qp(struct uverbs_call *call)
{
	struct simhca_efa_qp_attr attr;
	struct ib_uverbs_modify_qp in;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	attr = (struct simhca_efa_qp_attr){
		.state = in.qp_state,
		.qkey = in.qkey,
		.sq_psn = in.sq_psn,
		.rnr_retry = in.rnr_retry,
		.pkey_index = in.pkey_index,
		.port = in.port_num,
	};
	return simhca_efa_modify_qp(call->session->context, in.qp_handle, in.attr_mask, &attr,
				    call->why);
}

static int query_qp(struct uverbs_call *call)
{
	struct ib_uverbs_query_qp_resp out = { 0 };
	struct simhca_efa_qp_attr attr;
	struct ib_uverbs_query_qp in;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	ret = simhca_efa_query_qp(call->session->context, in.qp_handle, &attr, call->why);
	if (ret)
		return ret;
	out.qp_state = out.cur_qp_state = (uint8_t)attr.state;
	out.qkey = attr.qkey;
	out.sq_psn = attr.sq_psn;
	out.rnr_retry = (uint8_t)attr.rnr_retry;
	out.port_num = (uint8_t)attr.port;
	out.max_send_wr = attr.caps.max_send_wr;
	out.max_recv_wr = attr.caps.max_recv_wr;
	out.max_send_sge = attr.caps.max_send_sge;
	out.max_recv_sge = attr.caps.max_recv_sge;
	out.max_inline_data = attr.caps.max_inline;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

static int destroy_qp(struct uverbs_call *call)
{
	const struct ib_uverbs_destroy_qp_resp out = { 0 };
	struct ib_uverbs_destroy_qp in;
	struct lint_notes notes = { 0 };
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	lint_qp(call->session, in.qp_handle, &notes);
	ret = simhca_efa_destroy_qp(call->session->context, in.qp_handle, call->why);
	if (ret)
		return ret;
	lint_add(call->session, &notes);
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

uverbs_function *uverbs_efa_find(uint32_t command)
{
	switch (command) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		return get_context;
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		return query_device_ex;
	case IB_USER_VERBS_CMD_ALLOC_PD:
		return alloc_pd;
	case IB_USER_VERBS_CMD_CREATE_AH:
		return create_ah;
	case IB_USER_VERBS_CMD_DESTROY_AH:
		return destroy_ah;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		return create_cq;
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ:
		return create_cq_ex;
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		return destroy_cq;
	case IB_USER_VERBS_CMD_CREATE_QP:
		return create_qp;
	case IB_USER_VERBS_CMD_MODIFY_QP:
		return modify_qp;
	case IB_USER_VERBS_CMD_QUERY_QP:
		return query_qp;
	case IB_USER_VERBS_CMD_DESTROY_QP:
		return destroy_qp;
	case SIMHCA_UVERBS_EFA_QUERY_MR:
		return query_mr;
	}
	return NULL;
}
