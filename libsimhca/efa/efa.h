/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A device that libefa drives: what there is beside PDs and regions, which it has as any device of
 * the model. The rules of control functions are those of simhca.h.
 *
 * A QP of such a device names no peer: each work request has an address handle and a QP number. SRD is
 * reliable and has no order, UD is neither. There is no connection, no PSN, and so none of the
 * transport in proto/: a message is one step of its sender's engine, from the sender's memory to the
 * receiver's.
 */
#ifndef LIBSIMHCA_EFA_H
#define LIBSIMHCA_EFA_H

#include "simhca-device.h"
#include "simhca-verbs.h"

struct simhca_cq_info;
struct simhca_qp_info;

/* Once for a context, before all that follows: 0 or -ENOMEM. */
int simhca_efa_open(struct simhca_context *context, struct simhca_why *why);
/* At the end of the context, which has been retired: false: an engine is at it, ask again. Then: */
bool simhca_efa_quiesce(struct simhca_context *context);
void simhca_efa_close(struct simhca_context *context);

/* An address handle: *number is what work requests name it by, and is that of its GID. */
int simhca_efa_create_ah(struct simhca_context *context, uint32_t pd, const union simhca_gid *gid,
			 uint32_t *handle, uint16_t *number, struct simhca_why *why);
int simhca_efa_destroy_ah(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

struct simhca_efa_cq_request {
	uint32_t entries;    /* a power of 2 */
	uint32_t entry_size; /* bytes: 16 or 32 */
	uint32_t sub_cqs;    /* rings of as many entries, one behind the other; 0: 1 */
	bool with_gid;	     /* of senders to which no address handle leads */
	/* of a completion channel: what comp_event() is called with; 0: none */
	uint64_t channel, user_handle;
};
struct simhca_efa_cq_reply {
	uint32_t handle;
	uint16_t number;
	uint64_t key, size;    /* of the ring, for mmap() */
	uint64_t doorbell_key; /* with a channel: of a page whose first word is the doorbell */
};
int simhca_efa_create_cq(struct simhca_context *context, const struct simhca_efa_cq_request *req,
			 struct simhca_efa_cq_reply *reply, struct simhca_why *why);
/* For the events that the program has not read when it goes. */
int simhca_efa_cq_identity(struct simhca_context *context, uint32_t handle,
			   struct simhca_identity *identity, struct simhca_why *why);
int simhca_efa_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

/* What each QP may have, as the device's configuration says. */
struct simhca_efa_limits {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t max_inline_wide;	/* in WQEs of 128 bytes; 0: there are none */
	uint32_t max_message, max_rdma; /* bytes; max_rdma 0: it has no RDMA */
};
struct simhca_efa_limits simhca_efa_limits(const struct simhca_device *device);

struct simhca_efa_qp_caps {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};
struct simhca_efa_qp_request {
	uint32_t pd, send_cq, recv_cq;
	uint32_t sq_bytes, rq_bytes; /* of the rings: powers of 2 of entries */
	bool srd;		     /* else UD */
	bool unsolicited;	     /* SRD: RDMA writes with immediate take no receives */
	struct simhca_efa_qp_caps caps;
};
struct simhca_efa_qp_reply {
	uint32_t handle, qpn;
	/* for mmap(); the SQ's doorbell is the first word of its page */
	uint64_t rq_key, rq_size, rq_doorbell_key, sq_key, sq_doorbell_key;
	uint32_t rq_doorbell_offset;
	uint16_t send_sub_cq, recv_sub_cq; /* where it completes, in its CQs */
};
int simhca_efa_create_qp(struct simhca_context *context, const struct simhca_efa_qp_request *req,
			 struct simhca_efa_qp_reply *reply, struct simhca_why *why);
int simhca_efa_destroy_qp(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

/* The attributes that such a QP has; mask is enum simhca_qp_attr_mask. */
struct simhca_efa_qp_attr {
	uint32_t state, qkey, sq_psn, rnr_retry, pkey_index, port;
	struct simhca_efa_qp_caps caps; /* query only */
};
int simhca_efa_modify_qp(struct simhca_context *context, uint32_t handle, uint32_t mask,
			 const struct simhca_efa_qp_attr *attr, struct simhca_why *why);
int simhca_efa_query_qp(struct simhca_context *context, uint32_t handle,
			struct simhca_efa_qp_attr *attr, struct simhca_why *why);

/*
 * What tools show of an object of type SIMHCA_OBJ_EFA_QP, or SIMHCA_OBJ_EFA_CQ. Of a CQ without a
 * channel the device does not know how far it was polled.
 */
void simhca_efa_qp_info(void *object, struct simhca_qp_info *info);
void simhca_efa_cq_info(void *object, struct simhca_cq_info *info);

/* What QPs of the context have exchanged with another host, in packets. */
struct simhca_efa_traffic {
	union simhca_gid peer;
	uint32_t routes, flows;	 /* pairs of QPs: from here, and from there */
	uint64_t sent, repeated; /* of those sent, requests that had gone before */
	uint64_t received;
	uint64_t lost; /* came, and there was no room */
};
/* With the host of that index, from 0 on; false: there are not so many. */
bool simhca_efa_traffic(struct simhca_context *context, uint32_t index,
			struct simhca_efa_traffic *traffic);

/* 0: the context has a region of that handle. */
int simhca_efa_find_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why);

/* What a key for mmap() names. */
struct simhca_efa_mapping {
	int fd; /* to pass on; do not close */
	uint64_t offset;
	bool doorbell; /* stores there are to be watched */
};
int simhca_efa_map(struct simhca_context *context, uint64_t key, uint64_t length,
		   struct simhca_efa_mapping *mapping, struct simhca_why *why);
/*
 * Where that page of doorbells is mapped, in the memory of who opened the context. userfaultfd: taken,
 * also when it fails; -1: none.
 */
bool simhca_efa_is_userfaultfd(int fd);
int simhca_efa_watch(struct simhca_context *context, uint64_t key, uint64_t address,
		     int userfaultfd, struct simhca_why *why);

#endif
