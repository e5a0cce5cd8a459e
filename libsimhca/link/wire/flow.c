/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "link/wire/flow.h"

#define LABEL_MASK 0xfffffu /* 20 bits */
#define FLOW_BITS 14

static uint32_t label_of(uint32_t qpn, uint32_t peer_qpn)
{
	uint64_t product = (uint64_t)qpn * peer_qpn;

	product ^= product >> 20;
	product ^= product >> 40;
	return (uint32_t)product & LABEL_MASK;
}

uint16_t simhca_wire_flow(uint32_t flow_label, uint32_t qpn, uint32_t peer_qpn)
{
	uint32_t label = flow_label & LABEL_MASK;

	if (!label)
		label = label_of(qpn, peer_qpn);
	return (label ^ label >> FLOW_BITS) & ((1u << FLOW_BITS) - 1);
}
