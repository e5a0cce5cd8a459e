/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sockets for RDMA netlink of a supervised program. */
#ifndef SIMHCA_SUPERVISED_SOCKET_H
#define SIMHCA_SUPERVISED_SOCKET_H

#include "supervised_call.h"

/* socket() for it, and the calls on one: bind() and the like, see seccomp_filter.c. */
enum supervised_outcome supervised_socket_call(struct call *call);

#endif
