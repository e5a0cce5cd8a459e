/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Domains of XRC and the target QPs in them. */
#ifndef SIMHCA_TEST_XRC_H
#define SIMHCA_TEST_XRC_H

#include "harness.h"

/* The domain that a file names, or one of its own for -1; 0 or a negative errno. */
int xrcd_try(struct client *client, int file, uint32_t flags, uint32_t *handle);
/* It is made if there is none; the file stays the caller's. */
uint32_t xrcd_open(struct client *client, int file);
int xrcd_close(struct client *client, uint32_t handle);
/* A file that names a domain. */
int xrcd_file(void);

/* Each is one handle of a target QP, which the harness's qp_*() take; it has no rings. */
struct qp *target_new(struct client *client, uint32_t xrcd);
int target_try(struct client *client, uint32_t xrcd, uint32_t qpn, struct qp **out);
struct qp *target_open(struct client *client, uint32_t xrcd, uint32_t qpn);
int target_close(struct qp *qp);

#endif
