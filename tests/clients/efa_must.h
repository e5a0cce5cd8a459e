/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A call of libfabric that has to succeed: the program says which one failed, and ends. */
#ifndef EFA_MUST_H
#define EFA_MUST_H

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>

#define must(call)                                                                                 \
	do {                                                                                       \
		int ret_ = (int)(call);                                                            \
		if (ret_) {                                                                        \
			fprintf(stderr, #call ": %s\n", fi_strerror(-ret_));                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
