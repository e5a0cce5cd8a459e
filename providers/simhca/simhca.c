/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Registration with libibverbs; opening and closing of the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "fastpath.h"
#include "command.h"
#include "lint.h"
#include "say.h"
#include "siblings.h"
#include "ibverbs-provider-check.h"
#include "simhca-request.h"
#include "mapped.h"
#include "simhca-sockets.h"

/* abi_version of the uverbs device in the device tree. */
#define UVERBS_ABI_VERSION 1

static void free_context(struct ibv_context *context);
static void async_event(struct ibv_context *context, struct ibv_async_event *event);

static const struct verbs_context_ops context_ops = {
	.alloc_dm = shca_alloc_dm,
	.advise_mr = shca_advise_mr,
#if SIMHCA_PABI >= 59
	.alloc_dmah = shca_alloc_dmah,
	.dealloc_dmah = shca_dealloc_dmah,
	.reg_mr_ex = shca_reg_mr_ex,
#endif
#if SIMHCA_PABI >= 62
	.dm_export_dmabuf_fd = shca_dm_export_dmabuf_fd,
	.query_port_speed = shca_query_port_speed,
#endif
#if SIMHCA_PABI >= 65
	.create_comp_cntr = shca_create_comp_cntr,
	.destroy_comp_cntr = shca_destroy_comp_cntr,
	.inc_comp_cntr = shca_inc_comp_cntr,
	.inc_err_comp_cntr = shca_inc_err_comp_cntr,
	.qp_attach_comp_cntr = shca_qp_attach_comp_cntr,
	.query_comp_cntr_caps = shca_query_comp_cntr_caps,
	.read_comp_cntr = shca_read_comp_cntr,
	.read_err_comp_cntr = shca_read_err_comp_cntr,
	.set_comp_cntr = shca_set_comp_cntr,
	.set_err_comp_cntr = shca_set_err_comp_cntr,
#endif
	.alloc_mw = shca_alloc_mw,
	.alloc_null_mr = shca_alloc_null_mr,
	.alloc_parent_domain = shca_alloc_parent_domain,
	.alloc_pd = shca_alloc_pd,
	.alloc_td = shca_alloc_td,
	.async_event = async_event,
	.attach_counters_point_flow = shca_attach_counters,
	.attach_mcast = shca_attach_mcast,
	.bind_mw = shca_bind_mw,
	.close_xrcd = shca_close_xrcd,
	.cq_event = shca_cq_event,
	.create_ah = shca_create_ah,
	.create_counters = shca_create_counters,
	.create_cq = shca_create_cq,
	.create_cq_ex = shca_create_cq_ex,
	.create_flow = shca_create_flow,
	.create_qp = shca_create_qp,
	.create_qp_ex = shca_create_qp_ex,
	.create_rwq_ind_table = shca_create_rwq_ind_table,
	.create_srq = shca_create_srq,
	.create_srq_ex = shca_create_srq_ex,
	.create_wq = shca_create_wq,
	.dealloc_mw = shca_dealloc_mw,
	.dealloc_pd = shca_dealloc_pd,
	.dealloc_td = shca_dealloc_td,
	.dereg_mr = shca_dereg_mr,
	.destroy_ah = shca_destroy_ah,
	.destroy_counters = shca_destroy_counters,
	.destroy_cq = shca_destroy_cq,
	.destroy_flow = shca_destroy_flow,
	.destroy_qp = shca_destroy_qp,
	.destroy_rwq_ind_table = shca_destroy_rwq_ind_table,
	.destroy_srq = shca_destroy_srq,
	.destroy_wq = shca_destroy_wq,
	.detach_mcast = shca_detach_mcast,
	.free_context = free_context,
	.free_dm = shca_free_dm,
	.get_srq_num = shca_get_srq_num,
	.import_dm = shca_import_dm,
	.import_mr = shca_import_mr,
	.import_pd = shca_import_pd,
	.modify_cq = shca_modify_cq,
	.modify_qp = shca_modify_qp,
	.modify_qp_rate_limit = shca_modify_qp_rate_limit,
	.modify_srq = shca_modify_srq,
	.modify_wq = shca_modify_wq,
	.open_qp = shca_open_qp,
	.open_xrcd = shca_open_xrcd,
	.poll_cq = shca_poll_cq,
	.post_recv = shca_post_recv,
	.post_send = shca_post_send,
	.post_srq_ops = shca_post_srq_ops,
	.post_srq_recv = shca_post_srq_recv,
	.query_device_ex = shca_query_device_ex,
	.query_port = shca_query_port,
	.query_qp = shca_query_qp,
	.query_qp_data_in_order = shca_query_qp_data_in_order,
	.query_rt_values = shca_query_rt_values,
	.query_srq = shca_query_srq,
	.read_counters = shca_read_counters,
	.reg_dm_mr = shca_reg_dm_mr,
	.reg_dmabuf_mr = shca_reg_dmabuf_mr,
	.reg_mr = shca_reg_mr,
	.req_notify_cq = shca_req_notify_cq,
	.rereg_mr = shca_rereg_mr,
	.resize_cq = shca_resize_cq,
	.unimport_dm = shca_unimport_dm,
	.unimport_mr = shca_unimport_mr,
	.unimport_pd = shca_unimport_pd,
};

/* The device may report its own end; polling must know before the application acts on it. */
static void async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_DEVICE_FATAL)
		shca_set_fatal(to_sctx(context));
}

static bool is_set(const char *variable, const char *to)
{
	const char *value = getenv(variable);

	return value && !strcmp(value, to);
}

/*
 * Yama's restricted mode lets only ancestors at a process's memory, and whom the process names.
 * A process can name only one, so do not take the place of another where there is no need. Peers, which
 * are many, can be let as well only by naming all processes of the user, which the user has to ask for.
 */
static void let_daemon_reach_memory(int cmd_fd)
{
	struct ucred daemon = {};
	socklen_t length = sizeof(daemon);
	char scope = '0';
	int fd;

	if (is_set("SIMHCA_PTRACER", "any")) {
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* without Yama: EINVAL */
		return;
	}
	fd = simhca_call_open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (simhca_call_read(fd, &scope, 1) != 1)
		scope = '0';
	simhca_call_close(fd);
	if (scope == '1' && !getsockopt(cmd_fd, SOL_SOCKET, SO_PEERCRED, &daemon, &length) &&
	    daemon.pid > 0)
		prctl(PR_SET_PTRACER, daemon.pid, 0, 0, 0);
}

enum {
	FD_DEVMEM,
	FD_SEGMENT_0,
	FD_ASYNC,
	FD_ASYNC_DEVICE, /* the other end */
	FD_DOORBELLS,
	NUM_OPEN_FDS = FD_DOORBELLS + SIMHCA_MAX_ENGINE_CPUS
};

static int map_device(struct shca_context *ctx, const struct simhca_open_context_reply *reply,
		      const int *fds)
{
	void *dev = NULL, *mem = NULL;
	int err, err_mem;

	err = shca_map_whole(fds[FD_DEVMEM], reply->devmem_size, PROT_READ, &dev);
	if (!err) {
		ctx->dev = dev;
		ctx->dev_size = reply->devmem_size;
	}
	err_mem = shca_map_whole(fds[FD_SEGMENT_0], reply->segment_size, PROT_READ | PROT_WRITE,
				 &mem);
	if (!err_mem) {
		ctx->mem = mem;
		atomic_init(&ctx->segments[0].size, reply->segment_size);
		atomic_init(&ctx->segments[0].addr, mem);
	}
	return err ? err : err_mem;
}

static int check_versions(const struct shca_context *ctx,
			  const struct simhca_open_context_reply *reply)
{
	const struct simhca_devmem *dev = ctx->dev;

	if (dev->abi_version != SIMHCA_ABI_VERSION || ctx->mem->abi_version != SIMHCA_ABI_VERSION) {
		fprintf(stderr,
			"simhca: simhcad speaks device ABI %u, this provider %u: install the two "
			"from one version\n",
			dev->abi_version, SIMHCA_ABI_VERSION);
		return EPROTONOSUPPORT;
	}
	if (reply->segment_size < sizeof(*ctx->mem) || reply->devmem_size < sizeof(*dev) ||
	    dev->qpc_offset > reply->devmem_size ||
	    reply->devmem_size - dev->qpc_offset < SIMHCA_QPN_SLOTS * sizeof(struct simhca_qpc))
		return EPROTO;
	return 0;
}

/* simhca(1) has the variables. */
static void read_environment(struct shca_context *ctx)
{
	ctx->no_fastpath = is_set("SIMHCA_FAST_PATH", "off") || is_set("SIMHCA_CALLERS", "off");
	ctx->poison_wc = is_set("SIMHCA_POISON_WC", "on");
	ctx->lint = is_set("SIMHCA_LINT", "on");
	ctx->no_slot_data = is_set("SIMHCA_SCATTER_TO_CQE", "off");
	shca_lint_threads(ctx);
}

static int connect_device(struct shca_context *ctx)
{
	struct simhca_open_context_reply reply;
	int fds[NUM_OPEN_FDS];
	int err;

	read_environment(ctx);
	let_daemon_reach_memory(ctx->vctx.context.cmd_fd);
	err = shca_execute(ctx, &(struct shca_command){
					.command = SIMHCA_CMD_OPEN_CONTEXT,
					.reply = &reply,
					.reply_size = sizeof(reply),
					.reply_fds = fds,
					.num_reply_fds = NUM_OPEN_FDS,
				});
	if (err == ENOTSOCK)
		fprintf(stderr, "simhca: /dev/infiniband leads to no simhcad: start the program "
				"with `simhca run`\n");
	if (err)
		return err;

	for (int i = 0; i < SIMHCA_MAX_ENGINE_CPUS; i++) {
		ctx->doorbell_fd[i] = simhca_call_move_fd(fds[FD_DOORBELLS + i]);
		ctx->doorbell_cpu[i] = reply.doorbell_cpu[i];
	}
	ctx->vctx.context.async_fd = fds[FD_ASYNC];
	ctx->async_device_fd = simhca_call_move_fd(fds[FD_ASYNC_DEVICE]);
	err = map_device(ctx, &reply, fds);
	if (!err)
		err = check_versions(ctx, &reply);
	if (err)
		return err;
	if (reply.answer_slots == SIMHCA_ANSWER_SLOTS)
		ctx->slots_of = shca_process();
	ctx->vctx.context.num_comp_vectors = (int)ctx->dev->attr.num_comp_vectors;

	err = shca_watcher_start(ctx, !reply.can_access_memory);
	if (!err && !reply.can_access_memory)
		shca_say_name(ctx);
	if (!err)
		shca_fastpath_offer(ctx);
	return err;
}

static void free_context(struct ibv_context *context)
{
	struct shca_context *ctx = to_sctx(context);

	shca_fork_remove(ctx);
	shca_watcher_stop(ctx);
	shca_mapped_forget(ctx);
	for (int i = 0; i < SIMHCA_MAX_ENGINE_CPUS; i++)
		if (ctx->doorbell_fd[i] >= 0)
			simhca_call_close(ctx->doorbell_fd[i]);
	if (ctx->async_device_fd >= 0)
		simhca_call_close(ctx->async_device_fd);
	shca_spare_free(ctx);
	shca_unmap_all(ctx);
	shca_qp_table_free(ctx);
	simhca_request_forget(ctx->vctx.context.cmd_fd);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

/* Not cancelled: it may have something to say. */
static struct verbs_context *open_context(struct ibv_device *device, int cmd_fd)
{
	SIMHCA_NOT_CANCELLED;
	struct shca_context *ctx = NULL;
	const char *wrong;
	int err;

	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, vctx, RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	for (int i = 0; i < SIMHCA_MAX_ENGINE_CPUS; i++)
		ctx->doorbell_fd[i] = -1;
	ctx->async_device_fd = -1;
	ctx->connection = simhca_connection(cmd_fd);
	shca_spare_keep(ctx);
	shca_watcher_init(&ctx->watcher);
	shca_fork_add(ctx);

	verbs_set_ops(&ctx->vctx, &context_ops);
	wrong = simhca_provider_abi_mismatch(&ctx->vctx.context, &context_ops);
	if (wrong) {
		simhca_provider_abi_refuse("simhca", wrong);
		err = EPROTONOSUPPORT;
	} else {
		err = connect_device(ctx);
	}
	if (err) {
		if (err == EMFILE)
			shca_say_not_opened(cmd_fd);
		free_context(&ctx->vctx.context);
		return shca_null(err);
	}
	return &ctx->vctx;
}

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd,
					   void *private_data)
{
	int saved = errno;
	struct verbs_context *ctx = open_context(device, cmd_fd);

	if (ctx)
		errno = saved;
	return ctx;
}

/*
 * A duplicate of the descriptor of an open context, perhaps from another process: the device's
 * side of it is the same, ours a new one. The library gets itself the pipe of events afterwards
 * whose other end we have already.
 */
static struct verbs_context *import_context(struct ibv_device *device, int cmd_fd)
{
	struct verbs_context *vctx = open_context(device, cmd_fd);
	struct shca_context *ctx;

	if (!vctx)
		return NULL;
	ctx = to_sctx(&vctx->context);
	/* What is received may be for a region of another process, and who polls here is not that. */
	ctx->no_slot_data = true;
	simhca_call_close(ctx->vctx.context.async_fd);
	ctx->vctx.context.async_fd = -1;
	return vctx;
}

/*
 * Device names and types are the administrator's choice and found through sysfs there is no driver
 * id, so a device of ours is known by its modalias. Other providers know theirs by that, too: a
 * device that looks like another NIC is not taken for one by that NIC's provider.
 */
static bool match_device(struct verbs_sysfs_dev *sysfs_dev)
{
	static const char ours[] = "simhca:";
	char modalias[64];

	return ibv_read_ibdev_sysfs_file(modalias, sizeof(modalias), sysfs_dev, "device/modalias") >
		       0 &&
	       !strncmp(modalias, ours, sizeof(ours) - 1);
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct verbs_device *device = calloc(1, sizeof(*device));

	/* Learnt from the kernel elsewhere: without it the library hides optional access flags. */
	if (device)
		device->core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	return device;
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

#ifdef SIMHCA_IS_STATIC
/* By this name a static program asks for it: ld's -u, or RDMA_STATIC_PROVIDERS. */
#define simhca_device_ops verbs_provider_simhca
extern const struct verbs_device_ops verbs_provider_simhca;
#else
static
#endif
const struct verbs_device_ops simhca_device_ops = {
	.name = shca_driver_name,
	.match_min_abi_version = UVERBS_ABI_VERSION,
	.match_max_abi_version = UVERBS_ABI_VERSION,
	.match_device = match_device,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
	.alloc_context = alloc_context,
	.import_context = import_context,
};

#ifdef SIMHCA_IS_SIBLING
/* SHCA_SIBLING_FITS */
extern __attribute__((visibility("default"))) bool simhca_sibling_fits;
bool simhca_sibling_fits;

static __attribute__((constructor)) void register_driver(void)
{
	simhca_sibling_fits = !simhca_provider_abi_probe();
	if (simhca_sibling_fits)
		verbs_register_driver(&simhca_device_ops);
}
#else
static __attribute__((constructor)) void register_driver(void)
{
	const char *wrong = simhca_provider_abi_probe();

	if (!wrong)
		verbs_register_driver(&simhca_device_ops);
#ifdef SIMHCA_IS_STATIC
	else
#else
	else if (!shca_load_sibling())
#endif
		simhca_provider_abi_refuse("simhca", wrong);
}
#endif
