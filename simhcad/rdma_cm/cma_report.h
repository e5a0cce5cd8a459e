/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show of rdma_cm; admin.h has the formats. */
#ifndef SIMHCAD_CMA_REPORT_H
#define SIMHCAD_CMA_REPORT_H

#include <jansson.h>
#include <linux/socket.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "session/report.h"

struct cma;

extern const struct report_kind cma_report; /* its ids */
json_t *cma_report_counts(const struct cma *cma);
/* Whether a program has an event channel open. */
bool cma_in_use(const struct cma *cma);

/* An id as the kernel's RDMA netlink has it. */
struct cma_id_info {
	uint32_t port;	 /* 0: of no single one */
	uint32_t qp_num; /* 0: none is known */
	uint8_t qp_type;
	uint8_t state; /* of the kernel's enum rdma_cm_state */
	uint32_t ps;
	pid_t pid;					   /* 0: cannot be seen from here */
	const struct __kernel_sockaddr_storage *src, *dst; /* NULL: none */
};

/*
 * The id at a device whose handle is *handle or the next one; false: there is none. An id that
 * listens at no address is at all devices.
 */
bool cma_next_id(const struct cma *cma, const struct device *device, uint32_t *handle,
		 struct cma_id_info *info);

#endif
