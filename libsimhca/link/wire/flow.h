/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which flow a packet is of. Routers with several paths of equal cost choose one by addresses and UDP
 * ports, so RoCE v2 puts into the source port what tells flows apart (IBTA vol. 1, A17.3.2): the
 * address's flow label, or else the numbers of both QPs, as drivers of Linux do it
 * (rdma_get_udp_sport() of include/rdma/ib_verbs.h).
 */
#ifndef LIBSIMHCA_WIRE_FLOW_H
#define LIBSIMHCA_WIRE_FLOW_H

#include <stdint.h>

/* A number of 14 bits; the same for both ends if it is by the numbers of their QPs. */
uint16_t simhca_wire_flow(uint32_t flow_label, uint32_t qpn, uint32_t peer_qpn);

#endif
