/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Subnet management agents (IBTA vol. 1, 14.2.5): what a node, a port and the switch are, and what
 * a subnet manager sets of them. A Set without the M_Key of its node is dropped (14.2.4). While the
 * daemon is the subnet manager itself it tells its M_Key to nobody, so every Set is dropped.
 */
#include <endian.h>

#include "core/device.h"
#include "core/mtu.h"
#include "subnet_impl.h"

#define VENDOR_SWITCH 0x53484cu /* no IEEE number of anybody */
#define CAP_SM (1u << 1)
#define CAP_SYSTEM_IMAGE (1u << 11)
#define CAP_EXTENDED_SPEEDS (1u << 14)
#define CAP_CLIENT_REREGISTER (1u << 25)
#define CAP_OF_MODEL (1u << 16) /* of port_cap_flags: the communication manager */
#define PARTITIONS 1u		/* entries of the switch's table */
#define DEFAULT_PKEY 0xffffu
#define GUIDS_PER_BLOCK 8u
#define SM_PRIORITY 0u
#define SM_MASTER 3u
#define PHYS_POLLING 2u
#define PHYS_DISABLED 3u

static const struct simhca_device_attr *attr_of(const struct simhca_subnet *subnet, int node)
{
	return &node_memory(subnet, node)->attr;
}

static uint64_t guid_of(const struct simhca_subnet *subnet, int node)
{
	return node == NODE_SWITCH ? subnet->config.switch_guid
				   : be64toh(attr_of(subnet, node)->node_guid);
}

static void node_description(const struct simhca_subnet *subnet, int node, uint8_t *data)
{
	const char *name =
		node == NODE_SWITCH ? "simhca switch" : subnet->config.device[node]->config.name;

	memcpy(data, name, strnlen(name, SMP_DATA_BYTES));
}

static void node_info(const struct simhca_subnet *subnet, int node, unsigned int port,
		      uint8_t *data)
{
	const struct simhca_device_attr *attr = attr_of(subnet, node == NODE_SWITCH ? 0 : node);
	uint64_t guid = guid_of(subnet, node);

	data[0] = data[1] = 1; /* versions */
	data[2] = node == NODE_SWITCH ? 2 : 1;
	data[3] = node == NODE_SWITCH ? (uint8_t)subnet->config.count : 1;
	mad_put(data, 4, 8, node == NODE_SWITCH ? guid : be64toh(attr->sys_image_guid));
	mad_put(data, 12, 8, guid);
	mad_put(data, 20, 8, guid); /* of the port */
	mad_put(data, 28, 2, PARTITIONS);
	mad_put(data, 30, 2, attr->vendor_part_id);
	mad_put(data, 32, 4, attr->hw_ver);
	data[36] = (uint8_t)port;
	mad_put(data, 37, 3, node == NODE_SWITCH ? VENDOR_SWITCH : attr->vendor_id);
}

static void switch_info(const struct simhca_subnet *subnet, uint8_t *data)
{
	mad_put(data, 0, 2, SWITCH_LIDS);
	mad_put(data, 6, 2, subnet->lft_top);
	data[8] = subnet->default_port;
	data[9] = subnet->mcast_primary;
	data[10] = subnet->mcast_other;
	data[11] = subnet->switch_flags;
}

/* A port of a node, by its number there. */
struct port_view {
	const struct simhca_port_attr *attr; /* of the device at this end, or at the other */
	const struct subnet_port *managed;   /* what a subnet manager has set */
	uint32_t state;
	uint8_t phys_state;
	bool is_port0;
	uint16_t lid, sm_lid;
	uint8_t lmc, sm_sl;
};

static struct port_view view(const struct simhca_subnet *subnet, int node, unsigned int port)
{
	unsigned int device = node == NODE_SWITCH ? (port ? port - 1 : 0) : (unsigned int)node;
	const struct simhca_port_attr *attr = &node_memory(subnet, (int)device)->port;
	struct port_view view = { .attr = attr, .state = atomic_load(&attr->state) };
	bool down = view.state == IBV_PORT_DOWN;

	view.phys_state = down ? (uint8_t)PHYS_POLLING : 5; /* LinkUp */
	if (node != NODE_SWITCH) {
		view.managed = &subnet->port[device];
		view.phys_state = attr->phys_state;
		view.lid = node_lid(subnet, node);
		view.sm_lid = __atomic_load_n(&attr->sm_lid, __ATOMIC_RELAXED);
		view.sm_sl = attr->sm_sl;
		view.lmc = attr->lmc;
		return view;
	}
	view.managed = &subnet->port0;
	if (port) {
		view.state = down ? (uint32_t)IBV_PORT_DOWN : subnet->switch_state[device];
		return view;
	}
	view.is_port0 = true;
	view.state = subnet->switch_state0;
	view.phys_state = 5;
	view.lid = subnet->switch_lid;
	view.sm_lid = subnet->switch_sm_lid;
	view.sm_sl = subnet->switch_sm_sl;
	view.lmc = subnet->switch_lmc;
	return view;
}

static void port_info(const struct simhca_subnet *subnet, int node, unsigned int port,
		      unsigned int came_in, bool shows_mkey, uint8_t *data)
{
	struct port_view p = view(subnet, node, port);
	uint32_t mtu = atomic_load(&p.attr->active_mtu);
	bool end = node != NODE_SWITCH || p.is_port0; /* has an address */

	if (end) {
		mad_put(data, 0, 8, shows_mkey ? p.managed->mkey : 0);
		mad_put(data, 8, 8, p.managed->prefix);
		mad_put(data, 16, 2, p.lid);
		mad_put(data, 18, 2, p.sm_lid);
		mad_put(data, 20, 4,
			(p.managed->is_sm ? CAP_SM : 0) | CAP_SYSTEM_IMAGE | CAP_EXTENDED_SPEEDS |
				CAP_CLIENT_REREGISTER | (p.attr->port_cap_flags & CAP_OF_MODEL));
		mad_put(data, 26, 2, p.managed->mkey_lease);
		data[34] = (uint8_t)(p.managed->mkey_protect << 6 | p.lmc);
		data[50] = end && node != NODE_SWITCH ? SIMHCA_GID_ENTRIES : 1;
	}
	data[28] = (uint8_t)came_in;
	data[29] = p.managed->width_enabled;
	data[30] = p.attr->active_width | 1u;
	data[31] = p.attr->active_width;
	data[32] = (uint8_t)(7u << 4 | p.state);
	data[33] = (uint8_t)(p.phys_state << 4 | p.managed->down_default);
	data[35] = (uint8_t)(4u << 4 | p.managed->speed_enabled);
	data[36] = (uint8_t)(mtu << 4 | p.sm_sl);
	data[37] = 1u << 4; /* one VL */
	data[38] = p.managed->vl_high_limit;
	data[41] = (uint8_t)p.attr->max_mtu;
	data[42] = 7u << 5;
	data[43] = 1u << 4;
	if (end)
		mad_put(data, 48, 2, atomic_load(&p.attr->qkey_viol_cntr));
	data[51] = p.managed->timeout;
	data[52] = 16; /* answers within 0.3 s */
	data[53] = 0x88;
	data[62] = 2u << 4 | 2u; /* EDR, which has FDR's bit as well in those that can both */
	data[63] = p.managed->speed_ext_enabled;
}

/* 14.2.5.5. A GID's lower half is the GUID, in the byte order of MADs; what has none stays 0. */
static uint16_t guid_info(const struct simhca_subnet *subnet, int node, uint32_t block,
			  uint8_t *data)
{
	if (node == NODE_SWITCH) {
		if (block)
			return MAD_BAD_VALUE;
		mad_put(data, 0, 8, subnet->config.switch_guid);
		return MAD_OK;
	}
	if (block >= (SIMHCA_GID_ENTRIES + GUIDS_PER_BLOCK - 1) / GUIDS_PER_BLOCK)
		return MAD_BAD_VALUE;
	for (uint32_t i = 0; i < GUIDS_PER_BLOCK; i++) {
		union simhca_gid gid;

		if (block * GUIDS_PER_BLOCK + i < SIMHCA_GID_ENTRIES &&
		    simhca_device_gid(subnet->config.device[node], block * GUIDS_PER_BLOCK + i,
				      &gid))
			memcpy(data + i * 8, gid.raw + 8, 8);
	}
	return MAD_OK;
}

/* To answer this is one of the manager's activities, so who polls it sees a heartbeat (14.2.5.13). */
static void sm_info(struct simhca_subnet *subnet, uint8_t *data)
{
	subnet->sm_active++;
	mad_put(data, 0, 8, guid_of(subnet, 0));
	mad_put(data, 16, 4, subnet->sm_active);
	data[20] = SM_PRIORITY << 4 | SM_MASTER;
}

static uint16_t pkey_table(const struct simhca_subnet *subnet, int node, uint32_t block,
			   uint8_t *data)
{
	if (block)
		return MAD_BAD_VALUE;
	for (uint32_t i = 0; i < SIMHCA_PKEY_ENTRIES; i++)
		mad_put(data, 2 * i, 2,
			node == NODE_SWITCH ? DEFAULT_PKEY : node_memory(subnet, node)->pkeys[i]);
	return MAD_OK;
}

static uint16_t linear_table(const struct simhca_subnet *subnet, uint32_t block, uint8_t *data)
{
	if (block >= SWITCH_LIDS / SMP_DATA_BYTES)
		return MAD_BAD_VALUE;
	memcpy(data, subnet->lft + block * SMP_DATA_BYTES, SMP_DATA_BYTES);
	return MAD_OK;
}

/*
 * The port that PortInfo's modifier names: for a device it is 1, or 0 for where the request came in.
 * The highest bit says that the manager knows extended speeds, as it may without saying.
 */
static bool take_port(const struct simhca_subnet *subnet, int node, uint32_t *port)
{
	*port &= ~(1u << 31);
	if (node == NODE_SWITCH)
		return *port <= subnet->config.count;
	if (!*port)
		*port = 1;
	return *port == 1;
}

uint16_t sma_get(struct simhca_subnet *subnet, int node, unsigned int came_in, uint16_t attribute,
		 uint32_t modifier, bool shows_mkey, uint8_t data[SMP_DATA_BYTES])
{
	bool is_switch = node == NODE_SWITCH;
	uint32_t port = modifier;

	memset(data, 0, SMP_DATA_BYTES);
	switch (attribute) {
	case SMA_NODE_DESCRIPTION:
		node_description(subnet, node, data);
		return MAD_OK;
	case SMA_NODE_INFO:
		node_info(subnet, node, came_in, data);
		return MAD_OK;
	case SMA_SWITCH_INFO:
		if (!is_switch)
			return MAD_BAD_ATTRIBUTE;
		switch_info(subnet, data);
		return MAD_OK;
	case SMA_GUID_INFO:
		return guid_info(subnet, node, modifier, data);
	case SMA_PORT_INFO:
		if (!take_port(subnet, node, &port))
			return MAD_BAD_VALUE;
		port_info(subnet, node, port, came_in, shows_mkey, data);
		return MAD_OK;
	case SMA_PKEY_TABLE:
		port >>= 16;
		if (is_switch ? port > subnet->config.count : port > 1)
			return MAD_BAD_VALUE;
		return pkey_table(subnet, node, modifier & 0xffff, data);
	case SMA_SL_TO_VL: /* all to the one VL */
		return MAD_OK;
	case SMA_VL_ARBITRATION:
		data[1] = 1; /* the first entry: VL 0 has some weight */
		return MAD_OK;
	case SMA_LINEAR_TABLE:
		return is_switch ? linear_table(subnet, modifier, data) : MAD_BAD_ATTRIBUTE;
	case SMA_SM_INFO:
		if (is_switch || node || !subnet->has_sm)
			return MAD_BAD_ATTRIBUTE;
		sm_info(subnet, data);
		return MAD_OK;
	default:
		return MAD_BAD_ATTRIBUTE;
	}
}

/* ------------------------------------------------------------------ what a manager sets */

/* A state that a manager asks for; 0: as it is. A link that it takes down is up again at once. */
static uint16_t next_state(uint32_t *state, uint8_t wanted)
{
	if (!wanted || wanted == *state)
		return MAD_OK;
	if (wanted == IBV_PORT_DOWN)
		*state = IBV_PORT_INIT;
	else if (wanted == *state + 1 && *state >= IBV_PORT_INIT && wanted <= IBV_PORT_ACTIVE)
		*state = wanted;
	else
		return MAD_BAD_VALUE;
	return MAD_OK;
}

static bool is_unicast(uint64_t lid)
{
	return lid && lid < SWITCH_LIDS;
}

/* What has no meaning for the model is kept, to be shown again. */
static void keep(struct subnet_port *managed, const uint8_t *data)
{
	managed->mkey = mad_get(data, 0, 8);
	managed->mkey_lease = (uint16_t)mad_get(data, 26, 2);
	managed->mkey_protect = data[34] >> 6;
	managed->timeout = data[51] & 0x1f;
	if (data[33] & 0xf)
		managed->down_default = data[33] & 0xf;
}

/* The port of a device, or the switch's port 0. */
static uint16_t set_end(struct simhca_subnet *subnet, int node, const uint8_t *data)
{
	uint16_t lid = (uint16_t)mad_get(data, 16, 2), sm_lid = (uint16_t)mad_get(data, 18, 2);
	uint8_t sm_sl = data[36] & 0xf, mtu = data[36] >> 4;
	struct port_view p = view(subnet, node, node == NODE_SWITCH ? 0 : 1);
	uint32_t state = p.state;
	uint16_t status = next_state(&state, data[32] & 0xf);

	/* One LID a port, and the prefix that its GIDs have. */
	if (status || !is_unicast(lid) || !is_unicast(sm_lid) || data[34] & 7 ||
	    mad_get(data, 8, 8) != p.managed->prefix)
		return MAD_BAD_VALUE;
	if (node == NODE_SWITCH) {
		subnet->switch_lid = lid;
		subnet->switch_sm_lid = sm_lid;
		subnet->switch_sm_sl = sm_sl;
		subnet->switch_state0 = (uint8_t)state;
		keep(&subnet->port0, data);
		return MAD_OK;
	}
	keep(&subnet->port[node], data);
	simhca_device_set_address(subnet->config.device[node], lid, 0, sm_lid, sm_sl);
	if (mtu >= IBV_MTU_256 && mtu <= p.attr->max_mtu)
		simhca_device_set_mtu(subnet->config.device[node], simhca_mtu_bytes(mtu));
	if (data[33] >> 4 == PHYS_DISABLED)
		state = IBV_PORT_DOWN;
	else if (data[33] >> 4 == PHYS_POLLING && p.state == IBV_PORT_DOWN)
		state = IBV_PORT_INIT;
	simhca_device_set_state(subnet->config.device[node], state);
	subnet->config.changed(subnet->config.arg, (unsigned int)node);
	return MAD_OK;
}

static uint16_t set_port(struct simhca_subnet *subnet, int node, unsigned int port,
			 const uint8_t *data)
{
	uint32_t state;
	uint16_t status;

	if (node != NODE_SWITCH || !port)
		return set_end(subnet, node, data);
	state = view(subnet, node, port).state;
	status = next_state(&state, data[32] & 0xf);
	if (!status && state != IBV_PORT_DOWN)
		subnet->switch_state[port - 1] = (uint8_t)state;
	return status;
}

static uint16_t set_switch(struct simhca_subnet *subnet, const uint8_t *data)
{
	uint64_t top = mad_get(data, 6, 2);

	if (top >= SWITCH_LIDS)
		return MAD_BAD_VALUE;
	subnet->lft_top = (uint16_t)top;
	subnet->default_port = data[8];
	subnet->mcast_primary = data[9];
	subnet->mcast_other = data[10];
	/* Life time; that a port's state has changed is taken back by writing it. */
	subnet->switch_flags =
		(uint8_t)((data[11] & 0xf8) | (subnet->switch_flags & 4 & ~data[11]));
	return MAD_OK;
}

/* What cannot be changed may be set to what it is. */
static uint16_t set_same(struct simhca_subnet *subnet, int node, unsigned int came_in,
			 uint16_t attribute, uint32_t modifier, const uint8_t *data)
{
	uint8_t now[SMP_DATA_BYTES];
	uint16_t status = sma_get(subnet, node, came_in, attribute, modifier, false, now);

	return status || !memcmp(now, data, sizeof(now)) ? status : MAD_BAD_VALUE;
}

static uint16_t sma_set(struct simhca_subnet *subnet, int node, unsigned int came_in,
			uint16_t attribute, uint32_t modifier, const uint8_t *data)
{
	uint32_t port = modifier;

	switch (attribute) {
	case SMA_PORT_INFO:
		return take_port(subnet, node, &port) ? set_port(subnet, node, port, data)
						      : MAD_BAD_VALUE;
	case SMA_SWITCH_INFO:
		return node == NODE_SWITCH ? set_switch(subnet, data) : MAD_BAD_ATTRIBUTE;
	case SMA_LINEAR_TABLE:
		if (node != NODE_SWITCH)
			return MAD_BAD_ATTRIBUTE;
		if (modifier >= SWITCH_LIDS / SMP_DATA_BYTES)
			return MAD_BAD_VALUE;
		memcpy(subnet->lft + modifier * SMP_DATA_BYTES, data, SMP_DATA_BYTES);
		return MAD_OK;
	case SMA_PKEY_TABLE:
	case SMA_SL_TO_VL:
	case SMA_VL_ARBITRATION:
	case SMA_GUID_INFO:
		return set_same(subnet, node, came_in, attribute, modifier, data);
	default:
		return MAD_BAD_ATTRIBUTE;
	}
}

static const struct subnet_port *managed_of(const struct simhca_subnet *subnet, int node)
{
	return node == NODE_SWITCH ? &subnet->port0 : &subnet->port[node];
}

/* Whether a request has the M_Key of the node that it is for (14.2.4). */
static bool has_mkey(const struct simhca_subnet *subnet, int node, const uint8_t *mad)
{
	const uint64_t key = managed_of(subnet, node)->mkey;

	return !subnet->has_sm && (!key || key == mad_get(mad, AT_MKEY, 8));
}

/* By M_KeyProtectBits (14.2.4.1): with 0 everybody may see the key, with 1 who has it. */
static bool may_see_mkey(const struct simhca_subnet *subnet, int node, const uint8_t *mad)
{
	return !managed_of(subnet, node)->mkey_protect || has_mkey(subnet, node, mad);
}

bool sma_serve(struct simhca_subnet *subnet, int node, unsigned int came_in, uint8_t *mad)
{
	uint16_t attribute = (uint16_t)mad_get(mad, AT_ATTRIBUTE, 2), status = MAD_OK;
	uint32_t modifier = (uint32_t)mad_get(mad, AT_MODIFIER, 4);
	const bool is_set = mad[AT_METHOD] == MAD_SET;
	/* As it was when the request came: a Set has the key, and may change it. */
	const bool shows_mkey = may_see_mkey(subnet, node, mad);

	if (mad[AT_METHOD] != MAD_GET && !is_set)
		return false;
	/* For a subnet manager that is a program on this node. */
	if (attribute == SMA_SM_INFO && node != NODE_SWITCH && (node || !subnet->has_sm))
		return false;
	if (mad[AT_BASE_VERSION] != 1 || mad[AT_CLASS_VERSION] != 1)
		status = MAD_BAD_VERSION;
	else if (is_set)
		status = sma_set(subnet, node, came_in, attribute, modifier, mad + AT_SMP_DATA);
	if (!status)
		status = sma_get(subnet, node, came_in, attribute, modifier, shows_mkey,
				 mad + AT_SMP_DATA);
	mad_answer(mad, status);
	return true;
}

bool sma_drops(const struct simhca_subnet *subnet, int node, const uint8_t *mad)
{
	const bool needs_mkey =
		mad[AT_METHOD] == MAD_SET ||
		(mad[AT_METHOD] == MAD_GET && managed_of(subnet, node)->mkey_protect >= 2);

	return needs_mkey && !has_mkey(subnet, node, mad) &&
	       mad_get(mad, AT_ATTRIBUTE, 2) != SMA_SM_INFO;
}
