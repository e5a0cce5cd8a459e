/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* XRC: domains, and QPs that only receive. */
#ifndef LIBSIMHCA_XRC_H
#define LIBSIMHCA_XRC_H

#include "device/context.h"

struct simhca_qp;
struct simhca_srq;

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

/* A handle of an XRC_RECV QP. */
struct simhca_qp_open {
	struct simhca_qp_open *next;
	struct simhca_context *context;
	struct simhca_xrcd_open *domain;
	uint32_t handle;
	struct simhca_user_handle user_handle;
};

/* XRC_RECV QPs, for qp.c and qp_modify.c; flush: under resp_lock, in ERR. */
int simhca_create_xrc_target(struct simhca_context *context, const struct simhca_create_qp_req *req,
			     struct simhca_create_qp_reply *reply, struct simhca_why *why);
struct simhca_user_handle
simhca_qp_user_handle(struct simhca_qp *qp, const struct simhca_context *context, uint32_t handle);
int simhca_close_xrc_target(struct simhca_context *context, uint32_t handle, struct simhca_qp *qp);
void simhca_flush_xrc_target(struct simhca_qp *qp);
/* The XRC SRQ of this number, or NULL. Inside a guard, or in a control function. */
struct simhca_srq *simhca_find_xrc_srq(struct simhca_device *device, uint32_t srqn);

#endif
