/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands of verbs. The rules of control functions are those of simhca.h. */
#ifndef LIBSIMHCA_SIMHCA_VERBS_H
#define LIBSIMHCA_SIMHCA_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

struct simhca_context;
struct simhca_device;
struct simhca_mm;
struct simhca_why;

int simhca_alloc_pd(struct simhca_context *context, struct simhca_handle *reply,
		    struct simhca_why *why);
int simhca_dealloc_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_reg_mr(struct simhca_context *context, struct simhca_mm *mm,
		  const struct simhca_reg_mr_req *req, struct simhca_reg_mr_reply *reply,
		  struct simhca_why *why);
int simhca_rereg_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_rereg_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why);
/* A fast-register region of pages of mm. */
int simhca_alloc_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_alloc_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why);
int simhca_dereg_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* Whether a region lies in a file of its program's, to which nothing was moved; false if there is no such region. */
bool simhca_mr_lies_in_file(struct simhca_context *context, uint32_t handle);
/* With FLUSH it answers -EAGAIN until it is done, and keeps a note in the request meanwhile. */
int simhca_advise_mr(struct simhca_context *context, struct simhca_advise_mr_req *req,
		     struct simhca_why *why);
void simhca_query_odp(const struct simhca_device *device, struct simhca_odp_counters *counters);

/* For imports: what there is to know of a PD or MR that exists. */
int simhca_query_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_query_mr(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_mr_reply *reply, struct simhca_why *why);

/* *fd: to pass on; do not close */
int simhca_alloc_dm(struct simhca_context *context, const struct simhca_alloc_dm_req *req,
		    struct simhca_dm_reply *reply, int *fd, struct simhca_why *why);
int simhca_import_dm(struct simhca_context *context, uint32_t handle, struct simhca_dm_reply *reply,
		     int *fd, struct simhca_why *why);
int simhca_free_dm(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* These two: owner is the sender's memory, or NULL if that is unknown. */
int simhca_reg_dm_mr(struct simhca_context *context, const struct simhca_mm *owner,
		     const struct simhca_reg_dm_mr_req *req, struct simhca_reg_mr_reply *reply,
		     struct simhca_why *why);
/* The descriptor stays the caller's. */
int simhca_reg_dmabuf_mr(struct simhca_context *context, struct simhca_mm *owner, int fd,
			 const struct simhca_reg_dmabuf_mr_req *req,
			 struct simhca_reg_mr_reply *reply, struct simhca_why *why);

int simhca_alloc_mw(struct simhca_context *context, const struct simhca_alloc_mw_req *req,
		    struct simhca_alloc_mw_reply *reply, struct simhca_why *why);
int simhca_dealloc_mw(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_ah(struct simhca_context *context, const struct simhca_create_ah_req *req,
		     struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_ah(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_cq(struct simhca_context *context, const struct simhca_create_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why);
int simhca_resize_cq(struct simhca_context *context, const struct simhca_resize_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why);
/* Other memory for a CQ or SRQ (proto/renew.h). *fd stays the model's. */
int simhca_renew_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		       struct simhca_renew_queue_reply *reply, int *fd, struct simhca_why *why);
/* -ERESTART: a part of it has been done. */
int simhca_move_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		      struct simhca_why *why);
int simhca_modify_cq(struct simhca_context *context, const struct simhca_modify_cq_req *req,
		     struct simhca_why *why);
int simhca_arm_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* What the events of an object name it by: for the caller to take them back when it goes. */
struct simhca_identity {
	struct simhca_user_handle user_handle;
	uint64_t channel; /* of a CQ; 0: it has no completions */
	uint32_t
		events_raised; /* of a CQ: events that programs have put into the channel, as they say */
	uint32_t renew;	       /* of a QP: enum simhca_renew, what is to follow when it has gone */
};
int simhca_cq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);
int simhca_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

int simhca_create_srq(struct simhca_context *context, const struct simhca_create_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why);
int simhca_modify_srq(struct simhca_context *context, const struct simhca_modify_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why);
int simhca_query_srq(struct simhca_context *context, uint32_t handle,
		     struct simhca_query_srq_reply *reply, struct simhca_why *why);
int simhca_destroy_srq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* On the list of a tag-matching SRQ. */
int simhca_srq_op(struct simhca_context *context, const struct simhca_srq_op_req *req,
		  struct simhca_handle *reply, struct simhca_why *why);
int simhca_srq_identity(struct simhca_context *context, uint32_t handle,
			struct simhca_identity *identity, struct simhca_why *why);

/*
 * An XRC domain. file, if the request has one: a descriptor of the file that names it, which is
 * held as long as the domain lives. The model takes it, also when it fails.
 */
int simhca_open_xrcd(struct simhca_context *context, const struct simhca_open_xrcd_req *req,
		     int file, struct simhca_handle *reply, struct simhca_why *why);
int simhca_close_xrcd(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
/* An XRC_RECV QP that another context has made. */
int simhca_open_qp(struct simhca_context *context, const struct simhca_open_qp_req *req,
		   struct simhca_handle *reply, struct simhca_why *why);

int simhca_create_qp(struct simhca_context *context, const struct simhca_create_qp_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why);
/* Whether it takes a privilege (CAP_NET_RAW): a Q_Key that is controlled (IBTA vol. 1, 10.2.5). The caller judges. */
bool simhca_modify_is_privileged(const struct simhca_modify_qp_req *req);
int simhca_modify_qp(struct simhca_context *context, const struct simhca_modify_qp_req *req,
		     struct simhca_modify_qp_reply *reply, struct simhca_why *why);
int simhca_query_qp(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_qp_reply *reply, struct simhca_why *why);
/*
 * Whether a QP without acknowledgements (UC, UD, RAW_PACKET) has sends that an engine will get to,
 * and has been told of; not if it waits for pages. A NIC has sent them by the time that it is told
 * to destroy the QP.
 */
bool simhca_qp_has_sends(struct simhca_context *context, uint32_t handle);
int simhca_destroy_qp(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_qp_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);

/* Ethernet. The caller has judged whether the client may do so (CAP_NET_RAW). */
int simhca_create_wq(struct simhca_context *context, const struct simhca_create_wq_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_modify_wq(struct simhca_context *context, const struct simhca_modify_wq_req *req,
		     struct simhca_modify_wq_reply *reply, struct simhca_why *why);
int simhca_wq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why);
int simhca_destroy_wq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_create_rwq_table(struct simhca_context *context,
			    const struct simhca_create_rwq_table_req *req,
			    struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_rwq_table(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why);
int simhca_create_rss_qp(struct simhca_context *context, const struct simhca_create_rss_qp_req *req,
			 struct simhca_create_qp_reply *reply, struct simhca_why *why);
int simhca_create_flow(struct simhca_context *context, const struct simhca_create_flow_req *req,
		       struct simhca_handle *reply, struct simhca_why *why);
int simhca_destroy_flow(struct simhca_context *context, uint32_t handle, struct simhca_why *why);
int simhca_create_counters(struct simhca_context *context, struct simhca_handle *reply,
			   struct simhca_why *why);
int simhca_read_counters(struct simhca_context *context, uint32_t handle,
			 struct simhca_read_counters_reply *reply, struct simhca_why *why);
int simhca_destroy_counters(struct simhca_context *context, uint32_t handle,
			    struct simhca_why *why);

int simhca_create_comp_cntr(struct simhca_context *context,
			    const struct simhca_create_comp_cntr_req *req,
			    struct simhca_create_comp_cntr_reply *reply, struct simhca_why *why);
int simhca_destroy_comp_cntr(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why);
int simhca_attach_comp_cntr(struct simhca_context *context,
			    const struct simhca_attach_comp_cntr_req *req, struct simhca_why *why);
int simhca_attach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why);
int simhca_detach_mcast(struct simhca_context *context, const struct simhca_mcast_req *req,
			struct simhca_why *why);
/* -EBUSY while the QP is attached to a group: a program may not destroy it then. With its context it may end. */
int simhca_check_groups(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

#endif
