/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs with QPs of an EFA device, by their rings and doorbells as they lie in the device's memory. */
#ifndef SIMHCA_TEST_EFA_SCENE_H
#define SIMHCA_TEST_EFA_SCENE_H

#include "efa/objects.h"
#include "harness.h"

#define EFA_ENTRIES 8u /* of each ring, in entries */
#define EFA_CQ_ENTRIES 64u
#define EFA_BYTES 512u /* of a message; a buffer has twice as many */
#define EFA_QPS 64

/* A program with QPs that all complete in one CQ, and send to one another. */
struct efa_end {
	struct client *client;
	struct efa_cq *cq;
	struct efa_qp *qp[EFA_QPS];
	struct mr *mr;
	unsigned int qps;
	uint32_t pd, cq_handle, ci;
	uint16_t ah; /* that leads to the device itself */
};

/* Without QPs. */
struct efa_end *efa_end_new(struct world *world, const struct simhca_efa_cq_request *cq);
struct efa_qp *efa_add_qp(struct efa_end *end, const struct simhca_efa_qp_request *caps);
/* Of EFA_ENTRIES entries each, and brought to RTS: three of four are SRD, of which one has
 * wide WQEs, the others UD. */
void efa_add_qps(struct efa_end *end, unsigned int qps);

int efa_to_state(struct efa_qp *qp, uint32_t state, uint32_t qkey);
/* By RESET to RTS, with the Q_Key 0. */
void efa_start(struct efa_qp *qp);

/* The rings are const where the device only reads them. */
struct efa_send_wqe *efa_send_slot(const struct efa_qp *qp, uint32_t index);
struct efa_recv_desc *efa_recv_slot(const struct efa_qp *qp, uint32_t index);

/* EFA_BYTES of the front of its region, and into what is behind them. */
struct efa_send_wqe efa_send_of(const struct efa_end *end, const struct efa_qp *to, uint16_t id);
void efa_put_send(struct efa_qp *qp, const struct efa_send_wqe *wqe);
void efa_post_send(struct efa_end *end, struct efa_qp *qp, const struct efa_qp *to, uint16_t id);
void efa_post_recv(struct efa_end *end, struct efa_qp *qp, uint16_t id);
bool efa_poll(struct efa_end *end, struct efa_cqe *cqe);

/* The engine works for it, some milliseconds of its own clock: as long as it wants to sleep. */
void efa_let_work(struct world *world, struct efa_end *end);

#endif
