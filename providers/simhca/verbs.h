/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who offers what: the verbs that libibverbs calls, and what files have for others, by file. */
#ifndef SHCA_VERBS_H
#define SHCA_VERBS_H

#include "objects.h"

/* fork.c: from here on a forked child finds the context's mutex free; until it is removed. */
void shca_fork_add(struct shca_context *ctx);
void shca_fork_remove(struct shca_context *ctx);
/* The same, before a child's handlers have all been called. */
void shca_fork_inherit(struct shca_context *ctx);

/*
 * segments.c: what a reference into context memory points to; NULL and errno on failure. own: the
 * segment that the queue may have to itself, or NULL; with it goes that mapping.
 */
void *shca_map(struct shca_context *ctx, struct shca_segment *own, const struct simhca_mem_ref *ref,
	       uint64_t bytes);
/* Another file, which is closed, in the place of the one that is mapped there: 0 or errno. */
int shca_map_over(struct shca_segment *own, int fd, uint64_t size);
/* The device has put another file in the place of that segment: 0 or errno. */
int shca_map_again(struct shca_context *ctx, struct shca_segment *own, uint32_t number);
void shca_unmap(struct shca_segment *own);
int shca_map_whole(int fd, uint64_t size, int prot, void **addr);
/*
 * What is shared with the device, at addresses where the program has nothing and will have nothing: in a
 * hole that a buffer has left, which was unmapped while it was registered, messages would be read from
 * the queue and written to it. MAP_FAILED and errno on failure.
 */
void *shca_map_file(int fd, uint64_t offset, uint64_t size, int prot);
void shca_unmap_all(struct shca_context *ctx);

/* simhca.c */
extern const char shca_driver_name[];
bool shca_is_ours(const struct ibv_device *device);
/* By which the device tells this context of an object's events. */
struct simhca_user_handle shca_user_handle(struct shca_context *ctx, const void *element);

/* query.c */
int shca_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int shca_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
int shca_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int shca_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed);

/* pd.c */
struct ibv_pd *shca_alloc_pd(struct ibv_context *context);
int shca_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *shca_import_pd(struct ibv_context *context, uint32_t handle);
void shca_unimport_pd(struct ibv_pd *pd);

/* domain.c: thread domains, parent domains, and what is made in them */
struct ibv_td *shca_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int shca_dealloc_td(struct ibv_td *td);
struct ibv_pd *shca_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);
int shca_dealloc_parent_domain(struct shca_pd *domain);
void shca_pd_put(struct shca_pd *pd); /* a reference less */
/*
 * Zeroed memory for the provider's part of an object on pd, which may be NULL; NULL and errno.
 * What it says in home is for shca_home_free(), which the memory itself may hold.
 */
void *shca_home_alloc(struct ibv_pd *pd, enum simhcadv_res_type type, size_t size,
		      struct shca_home *home);
void shca_home_free(struct shca_home home, void *ptr);

/* dm.c */
struct ibv_dm *shca_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int shca_free_dm(struct ibv_dm *dm);
struct ibv_dm *shca_import_dm(struct ibv_context *context, uint32_t handle);
void shca_unimport_dm(struct ibv_dm *dm);
int shca_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* comp_cntr.c: completion counters */
#if SIMHCA_PABI >= 65
int shca_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);
struct ibv_comp_cntr *shca_create_comp_cntr(struct ibv_context *context,
					    struct ibv_comp_cntr_init_attr *attr);
int shca_destroy_comp_cntr(struct ibv_comp_cntr *counter);
int shca_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			     struct ibv_qp_attach_comp_cntr_attr *attr);
int shca_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int shca_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int shca_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int shca_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int shca_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int shca_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
#endif

/* dmah.c: DMA handles, and registration with them */
#if SIMHCA_PABI >= 59
struct ibv_dmah *shca_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int shca_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *shca_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
#endif
void shca_dmah_put(struct shca_mr *mr); /* the region is gone */

/* mr.c; shca_alloc_mr() makes a fast-register region */
struct ibv_mr *shca_alloc_mr(struct ibv_pd *pd, uint32_t max_page_list_len);
struct ibv_mr *shca_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *shca_alloc_null_mr(struct ibv_pd *pd);
int shca_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int shca_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *shca_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access);
struct ibv_mr *shca_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access);
struct ibv_mr *shca_import_mr(struct ibv_pd *pd, uint32_t handle);
void shca_unimport_mr(struct ibv_mr *mr);

/* odp.c: on-demand paging */
void shca_odp_offer_events(struct shca_context *ctx);
/* Of an ordinary region: the device is to note what leaves it, if it can be told. */
void shca_odp_watch(struct shca_context *ctx, uint32_t handle, uint64_t addr, uint64_t length);
int shca_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg_list, uint32_t num_sge);

/* mw.c */
struct ibv_mw *shca_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shca_dealloc_mw(struct ibv_mw *mw);
int shca_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* page_list.c: the page lists of the WQEs from .. to - 1 belong to the application again */
void shca_page_lists_return(struct shca_sq *sq, uint32_t from, uint32_t to);
void shca_page_lists_free(struct shca_sq *sq);

/* ah.c */
struct ibv_ah *shca_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int shca_destroy_ah(struct ibv_ah *ah);
void shca_av_from_attr(struct simhca_av *av, const struct ibv_ah_attr *attr);
void shca_av_to_attr(const struct simhca_av *av, struct ibv_ah_attr *attr);

/* cq.c: creating, resizing, destroying, arming */
struct ibv_cq *shca_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int shca_resize_cq(struct ibv_cq *cq, int cqe);
int shca_destroy_cq(struct ibv_cq *cq);
void shca_cq_event(struct ibv_cq *cq);
/* The device has gone: who sleeps on completion channels is told. */
void shca_channels_end(struct shca_context *ctx);
int shca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int shca_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* cq_users.c */
void shca_cq_attach_qp(struct shca_qp *qp);
void shca_cq_detach_qp(struct shca_qp *qp);
void shca_cq_reset_qp(struct shca_qp *qp);
void shca_cq_attach_srq(struct shca_cq *cq, struct shca_srq *srq);
void shca_cq_detach_srq(struct shca_cq *cq, struct shca_srq *srq);

/* renew.c: those of a QP's queues that the device says (enum simhca_renew); and, locked, one */
void shca_renew_queues(const struct shca_qp *qp, uint32_t which);
void shca_cq_renew(struct shca_cq *cq);
void shca_srq_renew(struct shca_context *ctx, struct shca_srq *srq);

/* poll.c: taking CQEs */
int shca_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int shca_start_poll(struct ibv_cq_ex *cq_ex, struct ibv_poll_cq_attr *attr);
void shca_end_poll(struct ibv_cq_ex *cq_ex);
void shca_cq_set_readers(struct shca_cq *cq, uint64_t wc_flags);

/* flushed.c: completions made in software */
bool shca_flush_one(struct shca_cq *cq, struct simhca_cqe *cqe);

/* xrc.c */
struct ibv_xrcd *shca_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int shca_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *shca_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shca_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* srq.c */
struct ibv_srq *shca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *shca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int shca_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int shca_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int shca_destroy_srq(struct ibv_srq *srq);
int shca_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
int shca_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);

/* qp.c */
uint32_t shca_send_ops(enum ibv_qp_type type);
/* The device's and the public part of a QP that was created or opened. */
void shca_qp_init(struct shca_qp *qp, struct ibv_context *context, uint32_t handle, uint32_t qpn,
		  void *qp_context, enum ibv_qp_type type);
struct ibv_qp *shca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *shca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* Likewise; flags: enum simhcadv_qp_create_flags. */
struct ibv_qp *shca_create_qp_with(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   uint32_t flags);
int shca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int shca_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int shca_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int shca_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init_attr);
int shca_destroy_qp(struct ibv_qp *qp);
int shca_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int shca_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* For WQs, which are QPs to posting and polling. */
int shca_qp_map_queues(struct shca_qp *qp, const struct simhca_create_qp_reply *reply);
void shca_qp_start_over(struct shca_qp *qp);

/* wq.c */
struct ibv_wq *shca_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int shca_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int shca_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *shca_create_rwq_ind_table(struct ibv_context *context,
						    struct ibv_rwq_ind_table_init_attr *attr);
int shca_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* flow.c */
struct ibv_flow *shca_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int shca_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *shca_create_counters(struct ibv_context *context,
					  struct ibv_counters_init_attr *attr);
int shca_destroy_counters(struct ibv_counters *counters);
int shca_attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow);
int shca_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t num_values,
		       uint32_t flags);

/* qp_table.c */
int shca_qp_table_add(struct shca_qp *qp);
/* Where it completes from now on; NULL: nowhere. Under the CQ's lock, if it has completed there. */
void shca_qp_table_set_send_cq(struct shca_qp *qp, const struct shca_cq *cq);
void shca_qp_table_set_recv_cq(struct shca_qp *qp, const struct shca_cq *cq);
void shca_qp_table_remove(struct shca_qp *qp);
void shca_qp_table_free(struct shca_context *ctx);

/* wr.c, wr_ex.c, wr_dv.c */
int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int shca_post_rq(struct shca_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void shca_wr_start(struct ibv_qp_ex *ex);
int shca_wr_complete(struct ibv_qp_ex *ex);
void shca_wr_abort(struct ibv_qp_ex *ex);
int shca_qp_set_builders(struct shca_qp *qp, uint64_t send_ops_flags);
void shca_qp_set_dv_builders(struct shca_qp *qp, uint64_t send_ops_flags);

#endif
