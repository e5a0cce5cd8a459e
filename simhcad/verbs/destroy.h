/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Destroying what has events: a CQ, an SRQ, a QP, a work queue. */
#ifndef SIMHCAD_DESTROY_H
#define SIMHCAD_DESTROY_H

#include "diagnosis/lint.h"
#include "simhca-verbs.h"

struct reply;
struct request;
struct session;

typedef int identify_function(struct simhca_context *context, uint32_t handle,
			      struct simhca_identity *identity, struct simhca_why *why);
typedef int destroy_function(struct simhca_context *context, uint32_t handle,
			     struct simhca_why *why);

/*
 * Destroys the object whose handle the request has, and takes back its events that the client has
 * not read. look: what lint notes of it before; or NULL. 0 or a negative errno. -EINPROGRESS: the
 * events are being read, and the request is served again.
 */
int destroy_with_events(struct session *session, struct request *request, struct reply *reply,
			identify_function *identify, destroy_function *destroy_object,
			lint_look *look, struct simhca_why *why);

#endif
