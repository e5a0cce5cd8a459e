/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP that is attached to another, whose receives its program completes (simhca-abi-fastpath.h).
 */
#ifndef SIMHCA_PROVIDER_ATTACHED_H
#define SIMHCA_PROVIDER_ATTACHED_H

#include "mapped.h"
#include "provider.h"
#include "message/step.h"

/*
 * Posts until it is tried again to attach a QP; each time twice as many. Of two QPs one is
 * connected first, and finds no peer then.
 */
#define SHCA_FIRST_TRY 1u
#define SHCA_LAST_TRY (1u << 16)

/* What is mapped of a segment: others' queues may lie beside it. */
struct shca_window {
	char *base;
	uint64_t from, size; /* offset of its first page in the segment; bytes */
};

struct shca_attached {
	struct simhca_step step;
	struct shca_window qp, cq, rq;		  /* the peer's */
	struct shca_window writers, peer_writers; /* simhca-abi-writers.h, if they are needed */
	struct shca_mapped mapped;
	struct shca_descriptors *memory;		      /* of the peer's process */
	struct shca_descriptors *send_channel, *recv_channel; /* NULL: the device raises events */
	uint32_t process; /* shca_process() of who attached it */
};

/* To the peer of a connected QP, or to whom the address of the WQE names; NULL: not now. */
struct shca_attached *shca_attach(struct shca_qp *qp, const struct simhca_send_wqe *wqe);
void shca_detach(struct shca_attached *attached);
/* The device has ended it, and the QP may be attached anew. */
bool shca_has_ended(const struct shca_attached *attached);

#endif
