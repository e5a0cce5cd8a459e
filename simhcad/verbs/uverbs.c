/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "efa/efa.h"
#include "session/device.h"
#include "uverbs.h"

/* A command that takes a handle and gives nothing back but that it was done. */
static int run_on_handle(struct uverbs_call *call, unsigned int command, uint32_t handle)
{
	struct simhca_handle body = { .handle = handle };
	struct reply reply = { .body = NULL };

	return uverbs_run(call, command, &body, &reply);
}

/* ---------------------------------------------------------- commands that all devices have */

/* What begins here needs a descriptor for asynchronous events: the answer's. */
static int get_context(struct uverbs_call *call)
{
	struct ib_uverbs_get_context_resp out = { .num_comp_vectors = SIMHCA_COMP_VECTORS };
	struct simhca_open_context_reply opened;
	struct reply reply = { .body = &opened };
	int ret;

	if (call->session->context)
		return simhca_why(call->why, EINVAL, "GET_CONTEXT: this connection has a context");
	ret = uverbs_run(call, SIMHCA_CMD_OPEN_CONTEXT, NULL, &reply);
	if (ret)
		return ret;
	/* The third: device memory and context memory are for the provider. */
	reply_add_fd(call->reply, reply.fds[2], reply.close_fd[2]);
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	call->answer->fd_at = offsetof(struct ib_uverbs_get_context_resp, async_fd);
	return 0;
}

static void fill_device(const struct simhca_device_attr *attr,
			struct ib_uverbs_query_device_resp *out)
{
	unsigned int version[4] = { 0 };

	sscanf(attr->fw_ver, "%u.%u.%u.%u", &version[0], &version[1], &version[2], &version[3]);
	for (int i = 0; i < 4; i++)
		((uint8_t *)&out->fw_ver)[i] = (uint8_t)version[i];
	out->node_guid = attr->node_guid;
	out->sys_image_guid = attr->sys_image_guid;
	out->max_mr_size = attr->max_mr_size;
	out->page_size_cap = attr->page_size_cap;
	out->vendor_id = attr->vendor_id;
	out->vendor_part_id = attr->vendor_part_id;
	out->hw_ver = attr->hw_ver;
	out->max_qp = attr->max_qp;
	out->max_qp_wr = attr->max_qp_wr;
	out->device_cap_flags = (uint32_t)attr->device_cap_flags;
	out->max_sge = attr->max_sge;
	out->max_sge_rd = attr->max_sge_rd;
	out->max_cq = attr->max_cq;
	out->max_cqe = attr->max_cqe;
	out->max_mr = attr->max_mr;
	out->max_pd = attr->max_pd;
	out->max_ah = attr->max_ah;
	out->max_pkeys = attr->max_pkeys;
	out->phys_port_cnt = attr->phys_port_cnt;
}

static const struct simhca_devmem *memory_of(const struct uverbs_call *call)
{
	return simhca_device_memory(call->session->device->model);
}

static int query_device(struct uverbs_call *call)
{
	struct ib_uverbs_query_device_resp out = { 0 };

	fill_device(&memory_of(call)->attr, &out);
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

/* On-demand paging and all that follows it in the struct such a device does not have. */
static int query_device_ex(struct uverbs_call *call)
{
	struct ib_uverbs_ex_query_device_resp out = {
		.response_length = offsetof(struct ib_uverbs_ex_query_device_resp, rss_caps),
	};

	fill_device(&memory_of(call)->attr, &out.base);
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, out.response_length);
	return 0;
}

static int query_port(struct uverbs_call *call)
{
	const struct simhca_port_attr *port = &memory_of(call)->port;
	struct ib_uverbs_query_port_resp out = {
		.port_cap_flags = port->port_cap_flags,
		.max_msg_sz = port->max_msg_sz,
		.gid_tbl_len = port->gid_tbl_len,
		.pkey_tbl_len = port->pkey_tbl_len,
		.lid = port->lid,
		.sm_lid = port->sm_lid,
		.state = (uint8_t)atomic_load(&port->state),
		.max_mtu = (uint8_t)port->max_mtu,
		.active_mtu = (uint8_t)atomic_load(&port->active_mtu),
		.lmc = port->lmc,
		.max_vl_num = port->max_vl_num,
		.sm_sl = port->sm_sl,
		.active_width = port->active_width,
		.active_speed = port->active_speed,
		.phys_state = port->phys_state,
		.link_layer = port->link_layer,
		.flags = port->flags,
	};
	struct ib_uverbs_query_port in;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	if (in.port_num != 1)
		return simhca_why(call->why, EINVAL, "QUERY_PORT: port %u: this device has port 1",
				  in.port_num);
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

static int alloc_pd(struct uverbs_call *call)
{
	struct ib_uverbs_alloc_pd_resp out;
	struct simhca_handle handle = { 0 };
	struct reply reply = { .body = &handle };
	int ret = uverbs_run(call, SIMHCA_CMD_ALLOC_PD, NULL, &reply);

	if (ret)
		return ret;
	out.pd_handle = handle.handle;
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

static int dealloc_pd(struct uverbs_call *call)
{
	struct ib_uverbs_dealloc_pd in;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	return run_on_handle(call, SIMHCA_CMD_DEALLOC_PD, in.pd_handle);
}

static int reg_mr(struct uverbs_call *call)
{
	struct simhca_reg_mr_reply registered = { 0 };
	struct reply reply = { .body = &registered };
	struct simhca_reg_mr_req req = { 0 };
	struct ib_uverbs_reg_mr_resp out;
	struct ib_uverbs_reg_mr in;
	int ret;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	req.addr = in.start;
	req.length = in.length;
	req.iova = in.hca_va;
	req.pd = in.pd_handle;
	req.access = in.access_flags;
	ret = uverbs_run(call, SIMHCA_CMD_REG_MR, &req, &reply);
	if (ret)
		return ret;
	out = (struct ib_uverbs_reg_mr_resp){ .mr_handle = registered.handle,
					      .lkey = registered.lkey,
					      .rkey = registered.rkey };
	uverbs_out(call, SIMHCA_UVERBS_CORE, &out, sizeof(out));
	return 0;
}

static int dereg_mr(struct uverbs_call *call)
{
	struct ib_uverbs_dereg_mr in;

	uverbs_in(call, SIMHCA_UVERBS_CORE, &in, sizeof(in));
	return run_on_handle(call, SIMHCA_CMD_DEREG_MR, in.mr_handle);
}

static uverbs_function *find_common(uint32_t command)
{
	switch (command) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		return get_context;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		return query_device;
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		return query_device_ex;
	case IB_USER_VERBS_CMD_QUERY_PORT:
		return query_port;
	case IB_USER_VERBS_CMD_ALLOC_PD:
		return alloc_pd;
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		return dealloc_pd;
	case IB_USER_VERBS_CMD_REG_MR:
		return reg_mr;
	case IB_USER_VERBS_CMD_DEREG_MR:
		return dereg_mr;
	}
	return NULL;
}

/* -------------------------------------------------------------------------------- handlers */

static bool is_efa(const struct session *session)
{
	return session->device->options->settings.efa;
}

int uverbs_write(struct session *session, struct request *request, struct reply *reply,
		 struct simhca_why *why, uverbs_find *find)
{
	struct simhca_uverbs_write_req *req = request->body;
	struct uverbs_call call = { .session = session,
				    .request = request,
				    .reply = reply,
				    .why = why,
				    .find = find,
				    .answer = reply->body };
	uverbs_function *common, *own;
	int ret = 0;

	call.answer->fd_at = SIMHCA_UVERBS_NO_FD;
	if (req->in[SIMHCA_UVERBS_CORE] + req->in[SIMHCA_UVERBS_DRIVER] > sizeof(req->data))
		return simhca_why(why, EINVAL, "write command %u: at most %u bytes", req->command,
				  SIMHCA_UVERBS_BYTES);
	call.in[SIMHCA_UVERBS_CORE] = req->data;
	call.in[SIMHCA_UVERBS_DRIVER] = req->data + req->in[SIMHCA_UVERBS_CORE];
	memcpy(call.in_size, req->in, sizeof(call.in_size));
	if (!session->context && req->command != IB_USER_VERBS_CMD_GET_CONTEXT)
		return simhca_why(why, EINVAL, "write command %u: GET_CONTEXT comes first",
				  req->command);
	common = is_efa(session) ? find_common(req->command) : NULL;
	own = is_efa(session) ? uverbs_efa_find(req->command) : NULL;
	if (!common && !own)
		return simhca_why(why, EOPNOTSUPP, "this device has no write command 0x%x",
				  req->command);
	if (common)
		ret = common(&call);
	return ret || !own ? ret : own(&call);
}

int uverbs_map(struct session *session, struct request *request, struct reply *reply,
	       struct simhca_why *why)
{
	const struct simhca_uverbs_map_req *req = request->body;
	struct simhca_uverbs_map_reply *out = reply->body;
	struct simhca_efa_mapping mapping;
	int ret = simhca_efa_map(session->context, req->key, req->length, &mapping, why);

	if (ret)
		return ret;
	out->offset = mapping.offset;
	out->doorbell = mapping.doorbell;
	reply_add_fd(reply, mapping.fd, false);
	return 0;
}

int uverbs_watch(struct session *session, struct request *request, struct reply *reply,
		 struct simhca_why *why)
{
	const struct simhca_uverbs_watch_req *req = request->body;
	int fd = request->num_fds ? request->fds[0] : -1;

	/* What is no userfaultfd is closed with the request. */
	if (fd >= 0 && !simhca_efa_is_userfaultfd(fd))
		fd = -1;
	else if (fd >= 0)
		request->fds[0] = -1;
	return simhca_efa_watch(session->context, req->key, req->address, fd, why);
}
