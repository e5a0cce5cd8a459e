/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work requests, as they are read from a client's rings. */
#ifndef LIBSIMHCA_WQE_H
#define LIBSIMHCA_WQE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/worker.h"
#include "simhca-abi.h"
#include "queue/recv.h"

struct simhca_qp;

/* A send WQE with its inline data, as it was read last: the client can change it at any time. */
struct simhca_send {
	struct simhca_send_wqe wqe;
	uint64_t length; /* of the message */
	struct simhca_sge sge[SIMHCA_MAX_SGE];
	uint8_t data[SIMHCA_MAX_INLINE];
};
static_assert(sizeof(struct simhca_send) <= SIMHCA_SEND_ROOM, "a worker has room for one");

/*
 * The next receive WQE of the QP's own queue is that of the message at hand: it lies at rq_ci, or
 * is claimed, and lies in recv_copy. Under resp_lock, as what follows.
 */
enum simhca_consume simhca_rq_consume(struct simhca_qp *qp);
/* The receive WQE of the message at hand: its header; all of it, false: it is none any more. */
struct simhca_recv_wqe simhca_recv_header(const struct simhca_qp *qp);
bool simhca_recv_read(const struct simhca_qp *qp, struct simhca_recv *recv);
/* Room for its data, in its slot; of a QP that has that. */
void *simhca_slot_data(const struct simhca_qp *qp);
/* The message at hand needs it no more. */
void simhca_recv_done(struct simhca_qp *qp);
/* Of the send WQE at a ring index, that of a QP that has a send queue, the header, as it is. */
void simhca_sq_header(const struct simhca_qp *qp, uint32_t index, struct simhca_send_wqe *wqe);
/* Copies the WQE at ring index and checks its shape. */
enum simhca_reason simhca_sq_load(const struct simhca_qp *qp, uint32_t index,
				  struct simhca_send *send);
/* What is wrong with it, whatever the memory that it names (wqe_check.c); and what status that is.
 */
enum simhca_reason simhca_wqe_check(const struct simhca_qp *qp, struct simhca_send *send);
enum simhca_wc_status simhca_wqe_status(enum simhca_reason reason);
/*
 * Consumes the oldest receive WQE of a queue from which others consume as well, for the claimant of
 * that number or for 0; it lies in `copy` then, and *claim is what it counts by. One of less than
 * `least` bytes is only copied.
 */
enum simhca_consume simhca_recv_claim(const struct simhca_srq_view *queue, uint32_t number,
				      uint64_t least, char *copy, uint32_t *claim);

#endif
