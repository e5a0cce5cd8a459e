/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef LIBSIMHCA_MTU_H
#define LIBSIMHCA_MTU_H

#include <stdint.h>

/*
 * Bytes of payload in a packet, by the code of enum ibv_mtu. 0 is the path MTU of a QP that has none, as of
 * type UD: its packets are as long as any can be.
 */
static inline uint32_t simhca_mtu_bytes(uint32_t mtu)
{
	return 128u << (mtu ? mtu : 5 /* IBV_MTU_4096 */);
}

#endif
