/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of this room share. */
#ifndef LIBSIMHCA_MAD_SUBNET_IMPL_H
#define LIBSIMHCA_MAD_SUBNET_IMPL_H

#include <infiniband/verbs.h>

#include "subnet.h"
#include "simhca-device.h"

#define SWITCH_LIDS 0xc000u /* entries of the forwarding table: all unicast LIDs */
#define PERF_COUNTERS 32u   /* at most, of one port */
#define NO_PORT 255u	    /* in the forwarding table */
#define SA_SERVICES 256u    /* that programs can register */
#define SA_MEMBERS 1024u    /* of multicast groups */
#define SA_SERVICE_BYTES 176u
#define SA_MEMBER_BYTES 52u

/* What a subnet manager sets of a port, and the device model does not keep. */
struct subnet_port {
	uint64_t mkey, prefix;
	uint16_t mkey_lease;
	uint8_t mkey_protect;
	uint8_t timeout; /* SubnetTimeOut */
	uint8_t width_enabled, speed_enabled, speed_ext_enabled;
	uint8_t down_default;
	uint8_t vl_high_limit;
	bool is_sm;
};

/* What is kept of a multicast group's member, or of a service. */
struct sa_member {
	bool used;
	uint8_t record[SA_MEMBER_BYTES];
};
struct sa_service {
	bool used;
	uint8_t record[SA_SERVICE_BYTES];
};

struct simhca_subnet {
	struct simhca_subnet_config config;
	bool has_sm;
	struct subnet_port port[SIMHCA_SUBNET_DEVICES];
	/* the switch */
	struct subnet_port port0;
	uint16_t switch_lid, switch_sm_lid;
	uint8_t switch_sm_sl, switch_lmc;
	uint8_t switch_state0;
	uint8_t switch_state[SIMHCA_SUBNET_DEVICES]; /* of the end of the link there */
	bool was_down[SIMHCA_SUBNET_DEVICES];
	uint16_t lft_top;
	uint8_t switch_flags; /* byte 11 of SwitchInfo: life time, state change */
	uint8_t default_port, mcast_primary, mcast_other;
	uint8_t lft[SWITCH_LIDS];
	/* by side: 0 the device's, 1 the switch's; what a reset has taken off */
	uint64_t perf_base[2][SIMHCA_SUBNET_DEVICES][PERF_COUNTERS];
	uint32_t sm_active; /* ActCount of SMInfo: what the daemon's subnet manager has done */
	/* the SA */
	struct sa_member member[SA_MEMBERS];
	struct sa_service service[SA_SERVICES];
};

/* A node: a device by its index, or the switch. */
#define NODE_SWITCH (-1)
#define NODE_NONE (-2)

static inline const struct simhca_devmem *node_memory(const struct simhca_subnet *subnet, int node)
{
	return simhca_device_memory(subnet->config.device[node]);
}

static inline uint16_t node_lid(const struct simhca_subnet *subnet, int node)
{
	return node == NODE_SWITCH
		       ? subnet->switch_lid
		       : __atomic_load_n(&node_memory(subnet, node)->port.lid, __ATOMIC_RELAXED);
}

/*
 * An attribute of a node, as Get(attribute) of subnet management has it. came_in: the port by which the
 * request came to the node. shows_mkey: who asks may see the M_Key. A status; 0: data is filled in.
 */
uint16_t sma_get(struct simhca_subnet *subnet, int node, unsigned int came_in, uint16_t attribute,
		 uint32_t modifier, bool shows_mkey, uint8_t data[SMP_DATA_BYTES]);
/* Serves a request that has arrived. False: it is nobody's, or for programs. */
bool sma_serve(struct simhca_subnet *subnet, int node, unsigned int came_in, uint8_t *mad);
/* The request needs the M_Key, and does not have it: there is no answer. */
bool sma_drops(const struct simhca_subnet *subnet, int node, const uint8_t *mad);
bool pma_serve(struct simhca_subnet *subnet, int node, uint8_t *mad);
/* At the subnet administrator; the answer has room bytes. */
bool sa_serve(struct simhca_subnet *subnet, struct simhca_mad *mad, uint32_t room);

enum sma_attribute {
	SMA_NODE_DESCRIPTION = 0x10,
	SMA_NODE_INFO = 0x11,
	SMA_SWITCH_INFO = 0x12,
	SMA_GUID_INFO = 0x14,
	SMA_PORT_INFO = 0x15,
	SMA_PKEY_TABLE = 0x16,
	SMA_SL_TO_VL = 0x17,
	SMA_VL_ARBITRATION = 0x18,
	SMA_LINEAR_TABLE = 0x19,
	SMA_MULTICAST_TABLE = 0x1b,
	SMA_SM_INFO = 0x20,
};

#endif
