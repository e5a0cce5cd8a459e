/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Each verb, made to fail: what it returns, and that errno says so too. Documentation/errors.md has
 * the same cases; "list" prints them for that page's sake.
 *
 *	verb_errors list | alive | dead		dead: on a daemon of our own, which is killed first
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "helper.h"

#define NO_HANDLE 9999u
#define PAGE 4096u
#define MAX_CASES 128

/* What the cases work on: one of each, in use where that makes the end of it fail. */
struct scene {
	bool ethernet;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *ud,
		*target;	   /* qp has srq, and never comes to RTS; target is XRC_RECV */
	struct ibv_qp *idle;	   /* in RESET */
	struct ibv_mr *mr, *dm_mr; /* mr has a window */
	struct ibv_mr *null_mr, *imported_mr, *dmabuf_mr;
	struct ibv_mw *mw, *mw2;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
	struct ibv_xrcd *xrcd;
	struct ibv_wq *wq; /* on Ethernet */
	struct ibv_counters *counters;
	uint8_t *pages;
};

enum { ALIVE_ONLY = -1, DEAD_ONLY = -1, SAME = -2 };
#define ETHERNET_ONLY INT_MIN /* of a call: there is nothing to call it with */

static struct failing {
	const char *verb, *what;
	int (*run)(struct scene *scene);
	int alive; /* the error; DEAD_ONLY: it works then */
	int dead;  /* likewise. ALIVE_ONLY: it would work, and take away what others need */
	bool minus_one;
} cases[MAX_CASES];
static int num_cases;

static void add(struct failing failing)
{
	CHECK(num_cases < MAX_CASES);
	cases[num_cases++] = failing;
}

/* FAILS(name, verb, what is wrong, error, error without a daemon) { return the call's result; } */
#define FAILS_AS(name, minus_one_, ...)                                                            \
	static int name(struct scene *s);                                                          \
	static __attribute__((constructor)) void add_##name(void)                                  \
	{                                                                                          \
		const struct {                                                                     \
			const char *verb, *what;                                                   \
			int alive, dead;                                                           \
		} of = { __VA_ARGS__ };                                                            \
		add((struct failing){ of.verb, of.what, name, of.alive,                            \
				      of.dead == SAME ? of.alive : of.dead, minus_one_ });         \
	}                                                                                          \
	static int name(struct scene *s)
#define FAILS(name, ...) FAILS_AS(name, false, __VA_ARGS__)
#define FAILS_MINUS_ONE(name, ...) FAILS_AS(name, true, __VA_ARGS__)

/* A verb that returns a pointer: its error is errno. */
static int no(const void *pointer)
{
	return pointer ? 0 : errno ? errno : -1;
}

/* With a handle that the device does not know, in place of the object's. */
#define WITHOUT(object, call)                                                                      \
	({                                                                                         \
		uint32_t handle_ = (object)->handle;                                               \
		int result_;                                                                       \
		(object)->handle = NO_HANDLE;                                                      \
		result_ = (call);                                                                  \
		(object)->handle = handle_;                                                        \
		result_;                                                                           \
	})

/* --------------------------------------------------------------------------- the device */

FAILS(query_device, "ibv_query_device", "", DEAD_ONLY, EIO)
{
	struct ibv_device_attr attr;

	return ibv_query_device(s->context, &attr);
}

FAILS(query_port_2, "ibv_query_port", "port_num = 2", EINVAL, SAME)
{
	struct ibv_port_attr attr;

	return ibv_query_port(s->context, 2, &attr);
}

FAILS(query_port, "ibv_query_port", "", DEAD_ONLY, EIO)
{
	struct ibv_port_attr attr;

	return ibv_query_port(s->context, 1, &attr);
}

FAILS(query_rt_values_mask, "ibv_query_rt_values_ex", "comp_mask", EINVAL, SAME)
{
	struct ibv_values_ex values = { .comp_mask = 2 };

	return ibv_query_rt_values_ex(s->context, &values);
}

/* ------------------------------------------------------------------------------ domains */

FAILS(alloc_pd, "ibv_alloc_pd", "", DEAD_ONLY, EIO)
{
	return no(ibv_alloc_pd(s->context));
}

FAILS(dealloc_pd_busy, "ibv_dealloc_pd", "objects are left in it", EBUSY, ALIVE_ONLY)
{
	return ibv_dealloc_pd(s->pd);
}

FAILS(dealloc_parent_busy, "ibv_dealloc_pd", "a parent domain, and objects are left in it", EBUSY,
      SAME)
{
	return ibv_dealloc_pd(s->parent);
}

FAILS(alloc_td_mask, "ibv_alloc_td", "comp_mask", EINVAL, SAME)
{
	struct ibv_td_init_attr attr = { .comp_mask = 1 };

	return no(ibv_alloc_td(s->context, &attr));
}

FAILS(dealloc_td_busy, "ibv_dealloc_td", "a parent domain has it", EBUSY, SAME)
{
	return ibv_dealloc_td(s->td);
}

FAILS(parent_mask, "ibv_alloc_parent_domain", "comp_mask", EINVAL, SAME)
{
	struct ibv_parent_domain_init_attr attr = { .pd = s->pd, .comp_mask = 1u << 31 };

	return no(ibv_alloc_parent_domain(s->context, &attr));
}

FAILS(parent_without_pd, "ibv_alloc_parent_domain", "no PD", EINVAL, SAME)
{
	struct ibv_parent_domain_init_attr attr = { .pd = NULL };

	return no(ibv_alloc_parent_domain(s->context, &attr));
}

FAILS(import_pd, "ibv_import_pd", "no such handle", ENOENT, EIO)
{
	return no(ibv_import_pd(s->context, NO_HANDLE));
}

/* ------------------------------------------------------------------------------- memory */

FAILS(reg_mr_rights, "ibv_reg_mr", "REMOTE_WRITE without LOCAL_WRITE", EINVAL, EIO)
{
	return no(ibv_reg_mr(s->pd, s->pages, PAGE, IBV_ACCESS_REMOTE_WRITE));
}

FAILS(reg_mr_unmapped, "ibv_reg_mr", "memory that is not mapped", EFAULT, EIO)
{
	return no(ibv_reg_mr(s->pd, s->pages + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE));
}

FAILS(reg_mr_iova, "ibv_reg_mr_iova", "iova and address differ in their places in a page", EINVAL,
      EIO)
{
	return no(ibv_reg_mr_iova(s->pd, s->pages, 64, 8, IBV_ACCESS_LOCAL_WRITE));
}

FAILS(reg_mr_handle, "ibv_reg_mr", "the PD's handle is unknown", ENOENT, EIO)
{
	return WITHOUT(s->pd, no(ibv_reg_mr(s->pd, s->pages, PAGE, IBV_ACCESS_LOCAL_WRITE)));
}

FAILS(null_mr_handle, "ibv_alloc_null_mr", "the PD's handle is unknown", ENOENT, EIO)
{
	return WITHOUT(s->pd, no(ibv_alloc_null_mr(s->pd)));
}

FAILS(reg_dmabuf_fd, "ibv_reg_dmabuf_mr", "the descriptor is not open", EBADF, EIO)
{
	return no(ibv_reg_dmabuf_mr(s->pd, 0, PAGE, 0, 1000, IBV_ACCESS_LOCAL_WRITE));
}

FAILS(reg_dm_mr_past_end, "ibv_reg_dm_mr", "past the end of the memory", EINVAL, EIO)
{
	return no(ibv_reg_dm_mr(s->pd, s->dm, 0, 2 * PAGE,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
}

FAILS(dereg_mr_busy, "ibv_dereg_mr", "a window is bound to it", EBUSY, ALIVE_ONLY)
{
	return ibv_dereg_mr(s->mr);
}

FAILS(dereg_mr_handle, "ibv_dereg_mr", "its handle is unknown", ENOENT, ALIVE_ONLY)
{
	return WITHOUT(s->mr, ibv_dereg_mr(s->mr));
}

FAILS(advise_mr_none, "ibv_advise_mr", "no SGE", EINVAL, SAME)
{
	return ibv_advise_mr(s->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0);
}

FAILS(advise_mr_advice, "ibv_advise_mr", "unknown advice", EOPNOTSUPP, EIO)
{
	struct ibv_sge sge = { (uintptr_t)s->pages, PAGE, s->mr->lkey };

	return ibv_advise_mr(s->pd, (enum ibv_advise_mr_advice)99, 0, &sge, 1);
}

FAILS(advise_mr_lkey, "ibv_advise_mr", "an lkey of nothing", ENOENT, EIO)
{
	struct ibv_sge sge = { (uintptr_t)s->pages, PAGE, 0x7fffff00 };

	return ibv_advise_mr(s->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge,
			     1);
}

FAILS(import_mr, "ibv_import_mr", "no such handle", ENOENT, EIO)
{
	return no(ibv_import_mr(s->pd, NO_HANDLE));
}

FAILS(alloc_mw_type, "ibv_alloc_mw", "unknown type", EINVAL, EIO)
{
	return no(ibv_alloc_mw(s->pd, (enum ibv_mw_type)7));
}

FAILS(dealloc_mw_handle, "ibv_dealloc_mw", "its handle is unknown", ENOENT, ALIVE_ONLY)
{
	return WITHOUT(s->mw2, ibv_dealloc_mw(s->mw2));
}

FAILS(bind_mw_qp, "ibv_bind_mw", "a QP that binds nothing, as one of UD", EINVAL, EIO)
{
	struct ibv_mw_bind bind = {
		.bind_info = { .mr = s->mr, .addr = (uintptr_t)s->pages, .length = 8 }
	};

	return ibv_bind_mw(s->ud, s->mw, &bind);
}

FAILS(bind_mw_zero_based, "ibv_bind_mw", "IBV_ACCESS_ZERO_BASED, of the window or its region",
      EINVAL, SAME)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = s->mr,
						   .addr = (uintptr_t)s->pages,
						   .length = 8,
						   .mw_access_flags = IBV_ACCESS_ZERO_BASED } };

	return ibv_bind_mw(s->qp, s->mw, &bind);
}

/* Of what mlx5's provider has no windows of type 1 of. */
static int bind_to(struct scene *s, struct ibv_mr *mr, uint64_t length)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = mr,
						   .addr = (uintptr_t)s->pages,
						   .length = length,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ } };

	return ibv_bind_mw(s->qp, s->mw, &bind);
}

FAILS(bind_mw_null, "ibv_bind_mw", "its region is a null region", ENOTSUP, SAME)
{
	return bind_to(s, s->null_mr, 8);
}

FAILS(bind_mw_imported, "ibv_bind_mw", "its region is imported", ENOTSUP, SAME)
{
	return bind_to(s, s->imported_mr, 8);
}

FAILS(bind_mw_dmabuf, "ibv_bind_mw", "its region is of a dma-buf", ENOTSUP, SAME)
{
	return bind_to(s, s->dmabuf_mr, 8);
}

FAILS(bind_mw_long, "ibv_bind_mw", "more than 2 GiB", EOPNOTSUPP, SAME)
{
	return bind_to(s, s->mr, (UINT64_C(1) << 31) + 1);
}

FAILS(alloc_dm_size, "ibv_alloc_dm", "larger than max_dm_size", EINVAL, EIO)
{
	struct ibv_alloc_dm_attr attr = { .length = UINT32_MAX };

	return no(ibv_alloc_dm(s->context, &attr));
}

FAILS(alloc_dm_mask, "ibv_alloc_dm", "comp_mask", EINVAL, SAME)
{
	struct ibv_alloc_dm_attr attr = { .length = 64, .comp_mask = 1 };

	return no(ibv_alloc_dm(s->context, &attr));
}

FAILS(free_dm_busy, "ibv_free_dm", "regions of it are registered", EBUSY, ALIVE_ONLY)
{
	return ibv_free_dm(s->dm);
}

FAILS(to_dm_unaligned, "ibv_memcpy_to_dm", "not in words of 4 bytes", EINVAL, SAME)
{
	return ibv_memcpy_to_dm(s->dm, 2, s->pages, 4);
}

FAILS(to_dm_past_end, "ibv_memcpy_to_dm", "past the end", EFAULT, SAME)
{
	return ibv_memcpy_to_dm(s->dm, 4, s->pages, PAGE);
}

FAILS(from_dm_unaligned, "ibv_memcpy_from_dm", "not in words of 4 bytes", EINVAL, SAME)
{
	return ibv_memcpy_from_dm(s->pages, s->dm, 0, 6);
}

FAILS(from_dm_past_end, "ibv_memcpy_from_dm", "past the end", EFAULT, SAME)
{
	return ibv_memcpy_from_dm(s->pages, s->dm, PAGE, 4);
}

FAILS(import_dm, "ibv_import_dm", "no such handle", ENOENT, EIO)
{
	return no(ibv_import_dm(s->context, NO_HANDLE));
}

/* -------------------------------------------------------------------------- address handles */

FAILS(create_ah_port, "ibv_create_ah", "port_num = 2", EINVAL, EIO)
{
	struct ibv_ah_attr attr = { .port_num = 2 };

	return no(ibv_create_ah(s->pd, &attr));
}

FAILS(create_ah_sgid, "ibv_create_ah", "an empty entry of the GID table", ENODATA, EIO)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.sgid_index = 7 };

	return no(ibv_create_ah(s->pd, &attr));
}

FAILS(destroy_ah_handle, "ibv_destroy_ah", "its handle is unknown", ENOENT, ALIVE_ONLY)
{
	return WITHOUT(s->ah, ibv_destroy_ah(s->ah));
}

/* ---------------------------------------------------------------------------- completions */

FAILS(create_cq_size, "ibv_create_cq", "no entries, or more than max_cqe", EINVAL, EIO)
{
	int zero = no(ibv_create_cq(s->context, 0, NULL, NULL, 0));

	if (zero != EINVAL)
		return zero;
	errno = 0;
	return no(ibv_create_cq(s->context, 1 << 30, NULL, NULL, 0));
}

FAILS(create_cq_vector, "ibv_create_cq", "no such completion vector", EINVAL, EIO)
{
	return no(ibv_create_cq(s->context, 1, NULL, NULL, 1000));
}

FAILS(create_cq_channel, "ibv_create_cq", "the channel is no descriptor of this device", EBADF, EIO)
{
	struct ibv_comp_channel other = { .context = s->context, .fd = 0 };

	return no(ibv_create_cq(s->context, 1, NULL, &other, 0));
}

FAILS(create_cq_ex_flags, "ibv_create_cq_ex", "unknown flags or comp_mask", EINVAL, SAME)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = 1u << 20 };
	int flags = no(ibv_create_cq_ex(s->context, &attr));

	attr.comp_mask = 1u << 20;
	errno = 0;
	return flags == EINVAL ? no(ibv_create_cq_ex(s->context, &attr)) : flags;
}

FAILS(create_cq_ex_wc_flags, "ibv_create_cq_ex", "unknown wc_flags", EOPNOTSUPP, SAME)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = 1ull << 40 };

	return no(ibv_create_cq_ex(s->context, &attr));
}

FAILS(resize_cq_size, "ibv_resize_cq", "no entries, or more than max_cqe", EINVAL, EIO)
{
	return ibv_resize_cq(s->cq, 1 << 30);
}

FAILS(resize_cq_handle, "ibv_resize_cq", "its handle is unknown", ENOENT, EIO)
{
	return WITHOUT(s->cq, ibv_resize_cq(s->cq, 10));
}

FAILS(modify_cq_nothing, "ibv_modify_cq", "attr_mask = 0", EINVAL, SAME)
{
	struct ibv_modify_cq_attr attr = {};

	return ibv_modify_cq(s->cq, &attr);
}

FAILS(modify_cq_handle, "ibv_modify_cq", "its handle is unknown", ENOENT, EIO)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	return WITHOUT(s->cq, ibv_modify_cq(s->cq, &attr));
}

FAILS(start_poll_mask, "ibv_start_poll", "comp_mask", EINVAL, SAME)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 1 };

	return ibv_start_poll(s->cq_ex, &attr);
}

FAILS(destroy_cq_busy, "ibv_destroy_cq", "QPs, SRQs or WQs use it", EBUSY, SAME)
{
	return ibv_destroy_cq(s->cq);
}

FAILS(create_channel, "ibv_create_comp_channel", "", DEAD_ONLY, EIO)
{
	return no(ibv_create_comp_channel(s->context));
}

FAILS_MINUS_ONE(get_cq_event, "ibv_get_cq_event", "", DEAD_ONLY, EIO)
{
	struct ibv_cq *cq;
	void *context;

	return ibv_get_cq_event(s->channel, &cq, &context);
}

/* ---------------------------------------------------------------------------------- SRQs */

FAILS(create_srq_size, "ibv_create_srq", "more than max_srq_wr or max_srq_sge", EINVAL, EIO)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = UINT32_MAX, .max_sge = 1 } };

	return no(ibv_create_srq(s->pd, &attr));
}

FAILS(create_srq_ex_pd, "ibv_create_srq_ex", "no PD", EINVAL, SAME)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = s->xrcd,
		.cq = s->cq,
	};

	return no(ibv_create_srq_ex(s->context, &attr));
}

FAILS(modify_srq_limit, "ibv_modify_srq", "srq_limit above max_wr", EINVAL, EIO)
{
	struct ibv_srq_attr attr = { .srq_limit = 1000 };

	return ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT);
}

FAILS(query_srq_handle, "ibv_query_srq", "its handle is unknown", ENOENT, EIO)
{
	struct ibv_srq_attr attr;

	return WITHOUT(s->srq, ibv_query_srq(s->srq, &attr));
}

FAILS(post_srq_sges, "ibv_post_srq_recv", "more SGEs than max_sge", EINVAL, EIO)
{
	struct ibv_sge sge[64] = {};
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 64 }, *bad = NULL;
	int error = ibv_post_srq_recv(s->srq, &wr, &bad);

	CHECK(bad == &wr);
	return error;
}

FAILS(post_srq_ops, "ibv_post_srq_ops", "an SRQ without tag matching", EINVAL, EIO)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad = NULL;
	int error = ibv_post_srq_ops(s->srq, &wr, &bad);

	CHECK(bad == &wr);
	return error;
}

FAILS(destroy_srq_busy, "ibv_destroy_srq", "QPs use it", EBUSY, ALIVE_ONLY)
{
	return ibv_destroy_srq(s->srq);
}

/* ----------------------------------------------------------------------------------- QPs */

static struct ibv_qp_init_attr qp_init(const struct scene *s)
{
	return (struct ibv_qp_init_attr){ .send_cq = s->cq,
					  .recv_cq = s->cq,
					  .qp_type = IBV_QPT_RC,
					  .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
}

FAILS(create_qp_size, "ibv_create_qp", "more than max_qp_wr, max_sge or max_inline_data", EINVAL,
      EIO)
{
	struct ibv_qp_init_attr attr = qp_init(s);

	attr.cap.max_send_wr = 1 << 30;
	return no(ibv_create_qp(s->pd, &attr));
}

FAILS(create_qp_type, "ibv_create_qp", "a type that the device does not have", EOPNOTSUPP, SAME)
{
	struct ibv_qp_init_attr attr = qp_init(s);

	attr.qp_type = IBV_QPT_DRIVER;
	return no(ibv_create_qp(s->pd, &attr));
}

FAILS(create_qp_cq, "ibv_create_qp", "no CQ", EINVAL, SAME)
{
	struct ibv_qp_init_attr attr = qp_init(s);

	attr.recv_cq = NULL;
	return no(ibv_create_qp(s->pd, &attr));
}

FAILS(create_qp_handle, "ibv_create_qp", "the CQ's handle is unknown", ENOENT, EIO)
{
	struct ibv_qp_init_attr attr = qp_init(s);

	return WITHOUT(s->cq, no(ibv_create_qp(s->pd, &attr)));
}

FAILS(create_qp_ex_mask, "ibv_create_qp_ex", "unknown comp_mask", EOPNOTSUPP, SAME)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = 1u << 31, .qp_type = IBV_QPT_RC };

	return no(ibv_create_qp_ex(s->context, &attr));
}

FAILS(create_qp_ex_pd, "ibv_create_qp_ex", "no PD", EINVAL, SAME)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_cq = s->cq,
					    .recv_cq = s->cq,
					    .qp_type = IBV_QPT_RC };

	return no(ibv_create_qp_ex(s->context, &attr));
}

FAILS(open_qp_number, "ibv_open_qp", "the domain has no such QP", EINVAL, EIO)
{
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = 1,
					 .xrcd = s->xrcd,
					 .qp_type = IBV_QPT_XRC_RECV };

	return no(ibv_open_qp(s->context, &attr));
}

FAILS(open_xrcd_fd, "ibv_open_xrcd", "the descriptor is not open", EBADF, SAME)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = 1000,
					   .oflags = O_CREAT };

	return no(ibv_open_xrcd(s->context, &attr));
}

FAILS(close_xrcd_busy, "ibv_close_xrcd", "QPs or SRQs are of it", EBUSY, ALIVE_ONLY)
{
	return ibv_close_xrcd(s->xrcd);
}

FAILS(modify_qp_transition, "ibv_modify_qp", "no such transition", EINVAL, EIO)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	return ibv_modify_qp(s->qp, &attr, IBV_QP_STATE);
}

FAILS(modify_qp_missing, "ibv_modify_qp", "an attribute is missing, or one too many", EINVAL, EIO)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	return ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PORT);
}

FAILS(modify_qp_bit, "ibv_modify_qp", "unknown bits of attr_mask", EOPNOTSUPP, EIO)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(s->idle, &attr, IBV_QP_STATE | 1 << 21);
}

FAILS(query_qp_bit, "ibv_query_qp", "attr_mask has IBV_QP_RATE_LIMIT or more", EOPNOTSUPP, SAME)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(s->idle, &attr, IBV_QP_RATE_LIMIT, &init);
}

FAILS(modify_qp_handle, "ibv_modify_qp", "its handle is unknown", ENOENT, EIO)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return WITHOUT(s->qp, ibv_modify_qp(s->qp, &attr, IBV_QP_STATE));
}

FAILS(query_qp_handle, "ibv_query_qp", "its handle is unknown", ENOENT, EIO)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return WITHOUT(s->qp, ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init));
}

FAILS(destroy_qp_handle, "ibv_destroy_qp", "its handle is unknown", ENOENT, ALIVE_ONLY)
{
	return WITHOUT(s->qp, ibv_destroy_qp(s->qp));
}

FAILS(destroy_qp_attached, "ibv_destroy_qp", "it is attached to a multicast group", EBUSY,
      ALIVE_ONLY)
{
	union ibv_gid gid = { .raw = { 0xff, 0x12 } };
	int error;

	CHECK(!ibv_attach_mcast(s->ud, &gid, 0xc001));
	error = ibv_destroy_qp(s->ud);
	CHECK(!ibv_detach_mcast(s->ud, &gid, 0xc001));
	return error;
}

FAILS(post_send_state, "ibv_post_send", "the QP is in RESET, INIT or RTR", EINVAL, EIO)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	int error = ibv_post_send(s->qp, &wr, &bad);

	CHECK(bad == &wr);
	return error;
}

FAILS(post_recv_srq, "ibv_post_recv", "the QP has an SRQ", EINVAL, EIO)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int error;

	ibv_modify_qp(s->qp, &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	error = ibv_post_recv(s->qp, &wr, &bad);
	CHECK(bad == &wr);
	return error;
}

FAILS(post_recv_state, "ibv_post_recv", "the QP is in RESET", EINVAL, EIO)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	int error = ibv_post_recv(s->idle, &wr, &bad);

	CHECK(bad == &wr);
	return error;
}

FAILS(post_recv_full, "ibv_post_recv", "the queue is full", ENOMEM, EIO)
{
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad = NULL;
	int error;

	while (!(error = ibv_post_recv(s->ud, &wr, &bad)))
		;
	return error;
}

FAILS(wr_complete, "ibv_wr_complete", "the QP is in RESET, INIT or RTR", EINVAL, EIO)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 0, 0, 0);
	return ibv_wr_complete(ex);
}

/* ------------------------------------------------------------------------------ multicast */

FAILS(attach_mcast_gid, "ibv_attach_mcast", "not a multicast GID", EINVAL, EIO)
{
	union ibv_gid gid = { .raw = { 0xfe, 0x80 } };

	return ibv_attach_mcast(s->ud, &gid, 0xc001);
}

FAILS(attach_mcast_qp, "ibv_attach_mcast", "not a UD QP", EINVAL, EIO)
{
	union ibv_gid gid = { .raw = { 0xff, 0x12 } };

	return ibv_attach_mcast(s->qp, &gid, 0xc001);
}

FAILS(detach_mcast_never, "ibv_detach_mcast", "never attached", EINVAL, EIO)
{
	union ibv_gid gid = { .raw = { 0xff, 0x12 } };

	return ibv_detach_mcast(s->ud, &gid, 0xc001);
}

FAILS(detach_mcast_lid, "ibv_detach_mcast", "another lid than it was attached with", EINVAL, EIO)
{
	union ibv_gid gid = { .raw = { 0xff, 0x12 } };

	ibv_attach_mcast(s->ud, &gid, 0xc001);
	return ibv_detach_mcast(s->ud, &gid, 0xc002);
}

/* ------------------------------------------------------------------------------- Ethernet */

FAILS(create_wq_type, "ibv_create_wq", "a type other than RQ", EINVAL, SAME)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = (enum ibv_wq_type)5, .pd = s->pd, .cq = s->cq, .max_wr = 1, .max_sge = 1
	};

	return no(ibv_create_wq(s->context, &attr));
}

FAILS(modify_wq_flags, "ibv_modify_wq", "unknown flags", EOPNOTSUPP, SAME)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = 1u << 20 };

	return s->wq ? ibv_modify_wq(s->wq, &attr) : ETHERNET_ONLY;
}

FAILS(create_table_size, "ibv_create_rwq_ind_table", "more entries than the device has", EINVAL,
      SAME)
{
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = 20 };

	return no(ibv_create_rwq_ind_table(s->context, &attr));
}

FAILS(create_flow_mask, "ibv_create_flow", "comp_mask", EINVAL, SAME)
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_NORMAL, .port = 1, .comp_mask = 1 };

	attr.size = sizeof(attr);
	return no(ibv_create_flow(s->ud, &attr));
}

FAILS(create_counters_mask, "ibv_create_counters", "comp_mask", EOPNOTSUPP, SAME)
{
	struct ibv_counters_init_attr attr = { .comp_mask = 1 };

	return no(ibv_create_counters(s->context, &attr));
}

FAILS(attach_counters_what, "ibv_attach_counters_point_flow", "an unknown counter, or a flow",
      EOPNOTSUPP, SAME)
{
	struct ibv_counter_attach_attr attr = { .counter_desc = (enum ibv_counter_description)9 };

	return ibv_attach_counters_point_flow(s->counters, &attr, NULL);
}

FAILS(read_counters_flags, "ibv_read_counters", "unknown flags", EINVAL, SAME)
{
	uint64_t value;

	return ibv_read_counters(s->counters, &value, 1, 1u << 20);
}

/* ------------------------------------------------------------------------------------ run */

static void make_objects(struct scene *s)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq_ex = { .cqe = 1 };
	struct ibv_alloc_dm_attr dm = { .length = PAGE };
	struct ibv_td_init_attr td = {};
	struct ibv_parent_domain_init_attr parent = {};
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_counters_init_attr counters = {};
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_ah_attr ah;

	s->context = open_device();
	s->ethernet = is_ethernet(s->context);
	s->channel = ibv_create_comp_channel(s->context);
	s->pd = ibv_alloc_pd(s->context);
	s->td = ibv_alloc_td(s->context, &td);
	parent.pd = s->pd;
	parent.td = s->td;
	s->parent = ibv_alloc_parent_domain(s->context, &parent);
	s->cq = ibv_create_cq(s->context, 64, NULL, s->channel, 0);
	s->cq_ex = ibv_create_cq_ex(s->context, &cq_ex);
	s->srq = ibv_create_srq(s->pd, &srq);
	CHECK(s->channel && s->pd && s->td && s->parent && s->cq && s->cq_ex && s->srq);
	qp.pd = s->pd;
	qp.send_cq = qp.recv_cq = s->cq;
	qp.srq = s->srq;
	s->qp = ibv_create_qp_ex(s->context, &qp);
	CHECK(s->qp && ibv_create_srq(s->parent, &srq)); /* which keeps the parent domain */
	s->idle = make_qp(s->pd, s->cq, IBV_QPT_RC);
	s->ud = make_qp(s->pd, s->cq, IBV_QPT_UD);
	start_qp(s->ud, 0);
	s->xrcd = ibv_open_xrcd(s->context, &xrcd);
	CHECK(s->xrcd);
	target.xrcd = s->xrcd;
	s->target = ibv_create_qp_ex(s->context, &target);
	ah = loopback(s->context);
	s->ah = ibv_create_ah(s->pd, &ah);
	s->counters = ibv_create_counters(s->context, &counters);
	s->dm = ibv_alloc_dm(s->context, &dm);
	CHECK(s->target && s->ah && s->counters && s->dm);
	s->dm_mr = ibv_reg_dm_mr(s->pd, s->dm, 0, PAGE,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	CHECK(s->dm_mr);
	if (s->ethernet) {
		struct ibv_wq_init_attr wq = {
			.wq_type = IBV_WQT_RQ, .pd = s->pd, .cq = s->cq, .max_wr = 1, .max_sge = 1
		};

		s->wq = ibv_create_wq(s->context, &wq);
		CHECK(s->wq);
	}
}

/* A page, behind which there is none; and a window that is bound to it. */
static void make_memory(struct scene *s)
{
	struct ibv_qp *binder = make_qp(s->pd, s->cq, IBV_QPT_RC);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	int file = memfd_create("dmabuf", MFD_CLOEXEC);

	s->pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(s->pages != MAP_FAILED && !mprotect(s->pages + PAGE, PAGE, PROT_NONE));
	s->mr = ibv_reg_mr(s->pd, s->pages, PAGE, FULL_ACCESS | IBV_ACCESS_MW_BIND);
	s->mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_1);
	s->mw2 = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
	CHECK(s->mr && s->mw && s->mw2 && file >= 0 && !ftruncate(file, PAGE));
	s->null_mr = ibv_alloc_null_mr(s->pd);
	s->imported_mr = ibv_import_mr(s->pd, s->mr->handle);
	s->dmabuf_mr = ibv_reg_dmabuf_mr(s->pd, 0, PAGE, 0, file, FULL_ACCESS);
	CHECK(s->null_mr && s->imported_mr && s->dmabuf_mr && !close(file));
	start_qp(binder, binder->qp_num);
	bind.bind_info = (struct ibv_mw_bind_info){ .mr = s->mr,
						    .addr = (uintptr_t)s->pages,
						    .length = 8,
						    .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	CHECK(!ibv_bind_mw(binder, s->mw, &bind));
	poll_success(s->cq);
}

static void kill_daemon(struct scene *s)
{
	struct ibv_async_event event;
	struct ucred daemon;
	socklen_t length = sizeof(daemon);

	CHECK(!getsockopt(s->context->cmd_fd, SOL_SOCKET, SO_PEERCRED, &daemon, &length));
	CHECK(!kill(daemon.pid, SIGKILL));
	CHECK(!ibv_get_async_event(s->context, &event));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
}

int main(int argc, char *argv[])
{
	bool dead = argc > 1 && !strcmp(argv[1], "dead"), wrong = false;
	struct scene scene = {};
	int ran = 0;

	if (argc > 1 && !strcmp(argv[1], "list")) {
		for (int i = 0; i < num_cases; i++)
			if (cases[i].alive > 0)
				printf("%s|%s|%s\n", cases[i].verb, cases[i].what,
				       strerrorname_np(cases[i].alive));
		return 0;
	}
	make_objects(&scene);
	make_memory(&scene);
	if (dead)
		kill_daemon(&scene);
	for (int i = 0; i < num_cases; i++) {
		int want = dead ? cases[i].dead : cases[i].alive, got, error;

		if (want < 0)
			continue;
		errno = 0;
		got = cases[i].run(&scene);
		error = errno;
		if (got == ETHERNET_ONLY && !scene.ethernet)
			continue;
		ran++;
		if (got == (cases[i].minus_one ? -1 : want) && error == want)
			continue;
		fprintf(stderr, "%s (%s): returned %d with errno %s, not %s\n", cases[i].verb,
			cases[i].what, got, error ? strerrorname_np(error) : "0",
			strerrorname_np(want));
		wrong = true;
	}
	printf("%d cases\n", ran);
	return wrong;
}
