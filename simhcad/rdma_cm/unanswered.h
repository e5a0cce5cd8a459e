/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Requests to connect that a program neither accepts nor rejects, or that this host cannot send, and
 * ends of connections that it does not take part in. Who has asked waits for a minute and more, as on
 * a network, and sees no reason: it is told what keeps it waiting.
 */
#ifndef SIMHCAD_UNANSWERED_H
#define SIMHCAD_UNANSWERED_H

struct cma;
struct cma_id;
struct unanswered;

/* NULL: out of memory. */
struct unanswered *unanswered_open(struct cma *cma);
void unanswered_close(struct unanswered *unanswered);

/* A request has come, as this id, or was sent by it to another host. */
void unanswered_expect(struct unanswered *unanswered, const struct cma_id *id);
/* The id's peer has called rdma_accept(). */
void unanswered_accepted(struct unanswered *unanswered, const struct cma_id *id);
/* The id's peer has called rdma_disconnect(). */
void unanswered_parted(struct unanswered *unanswered, const struct cma_id *id);

#endif
