/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* XRC: domains, and QPs that only receive. */
#ifndef LIBSIMHCA_XRC_H
#define LIBSIMHCA_XRC_H

#include "core/context.h"
#include "proto/recv_source.h"

struct simhca_qp;

/* An XRC domain, shared by the contexts that have it open; xrcd.c. */
struct simhca_xrcd {
	struct simhca_xrcd *next; /* in the device's list */
	uint32_t number;	  /* in the device */
	int file;		  /* holds the inode, lest its number name another; -1: none */
	uint64_t dev, ino;
	uint32_t opens;
};

/* What a context's handle of a domain stands for. */
struct simhca_xrcd_open {
	struct simhca_xrcd *xrcd;
	uint32_t users; /* SRQs and QPs of this context */
};

/* XRC_RECV QPs. */
int simhca_create_xrc_target(struct simhca_context *context, const struct simhca_create_qp_req *req,
			     struct simhca_create_qp_reply *reply, struct simhca_why *why);
struct simhca_user_handle
simhca_qp_user_handle(struct simhca_qp *qp, const struct simhca_context *context, uint32_t handle);
int simhca_close_xrc_target(struct simhca_context *context, uint32_t handle, struct simhca_qp *qp);
extern const struct simhca_recv_source simhca_xrc_receives;
extern const struct simhca_srq_kind simhca_xrc_srqs;

#endif
