/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults on demand (inject/inject.h), where a QP or a CQ makes them. While there are rules. */
#ifndef LIBSIMHCA_INJECTED_H
#define LIBSIMHCA_INJECTED_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/inject.h"

struct simhca_qp;
struct simhca_request;
struct simhca_worker;
enum simhca_wc_status;

/* What a rule is to know of a QP there; nothing of a packet. */
struct simhca_inject_hit simhca_inject_hit_at(const struct simhca_qp *qp, enum simhca_point point);
/* The work request in worker->send, which is next: what it is to wait for, or fail with. */
enum simhca_injected { SIMHCA_INJECTED_NOTHING, SIMHCA_INJECTED_WAIT, SIMHCA_INJECTED_FAILURE };
enum simhca_injected simhca_injected_start(struct simhca_worker *worker, struct simhca_qp *qp,
					   enum simhca_wc_status *status);
/* Whether a rule refuses a request that is in sequence; then the request has the NAK, or the delay. */
bool simhca_injected_refusal(struct simhca_request *request);
/* Whether the receive of a message that ends is to fail; likewise. */
bool simhca_injected_receive(struct simhca_request *request, uint64_t bytes);
/* Raises an asynchronous event of the QP, of what is attached to it, or of its port. */
void simhca_injected_async(struct simhca_qp *qp, uint32_t type);

#endif
