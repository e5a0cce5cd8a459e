/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The header that a receive has before a datagram. */
#ifndef LIBSIMHCA_GRH_H
#define LIBSIMHCA_GRH_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

/*
 * The 40 bytes before a datagram of that length: a GRH (IBTA vol. 1, 8.3), or on RoCE v2 the IP
 * header, which for IPv4 stands in the last 20 of them (annex A17.4.5.2).
 */
void simhca_grh_build(const struct simhca_av *av, const union simhca_gid *sgid, uint64_t length,
		      bool infiniband, uint8_t grh[SIMHCA_GRH_BYTES]);

/*
 * A RoCE frame has no service level, but its completion tells which header the first 40 bytes hold
 * (annex A17.4.5.1). Where, the annex leaves open; clients look where ConnectX puts it, in sl:
 * bit 3 is set with a UDP header, the others are 1 for IPv6 and 2 for IPv4.
 */
uint8_t simhca_grh_of_roce(const struct simhca_av *av);

#endif
