/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The way of a datagram: by LID, through the switch's table, or by a list of ports. */
#include <stdlib.h>

#include "core/device.h"
#include "subnet_impl.h"

#define PORT_STATE_CHANGE 4u /* of SwitchInfo */
#define SWITCH_LIFE 18u	     /* 4.096 us * 2^n, in the upper five bits */

struct simhca_subnet *simhca_subnet_create(const struct simhca_subnet_config *config)
{
	struct simhca_subnet *subnet = calloc(1, sizeof(*subnet));
	unsigned int highest = 0;

	if (!subnet)
		return NULL;
	subnet->config = *config;
	subnet->has_sm = !config->device[0]->config.sm_off;
	memset(subnet->lft, NO_PORT, sizeof(subnet->lft));
	subnet->switch_flags = SWITCH_LIFE << 3;
	subnet->default_port = subnet->mcast_primary = subnet->mcast_other = NO_PORT;
	subnet->switch_state0 = subnet->has_sm ? IBV_PORT_ACTIVE : IBV_PORT_INIT;
	for (unsigned int i = 0; i <= config->count; i++) {
		struct subnet_port *port = i < config->count ? &subnet->port[i] : &subnet->port0;

		/* Its own manager tells nobody the key, and that there is one. */
		port->mkey_protect = subnet->has_sm;
		port->prefix = UINT64_C(0xfe80000000000000);
		port->timeout = SWITCH_LIFE;
		port->width_enabled = 2;
		port->speed_enabled = 7;
		port->speed_ext_enabled = 2;
		port->down_default = 2;
	}
	for (unsigned int i = 0; i < config->count; i++) {
		subnet->switch_state[i] = subnet->has_sm ? IBV_PORT_ACTIVE : IBV_PORT_INIT;
		if (!subnet->has_sm)
			continue;
		subnet->lft[node_lid(subnet, (int)i)] = (uint8_t)(i + 1);
		if (node_lid(subnet, (int)i) > highest)
			highest = node_lid(subnet, (int)i);
		simhca_device_set_address(config->device[i], node_lid(subnet, (int)i), 0,
					  node_lid(subnet, 0), 0);
	}
	if (subnet->has_sm) {
		/* The switch has the LID after those of the devices, or the first that is free. */
		subnet->switch_lid = (uint16_t)(highest + 1);
		if (subnet->switch_lid >= SWITCH_LIDS)
			for (subnet->switch_lid = 1; subnet->lft[subnet->switch_lid] != NO_PORT;)
				subnet->switch_lid++;
		subnet->lft[subnet->switch_lid] = 0;
		subnet->lft_top =
			(uint16_t)(highest > subnet->switch_lid ? highest : subnet->switch_lid);
		subnet->switch_sm_lid = node_lid(subnet, 0);
		subnet->port[0].is_sm = true;
	}
	return subnet;
}

void simhca_subnet_destroy(struct simhca_subnet *subnet)
{
	free(subnet);
}

void simhca_subnet_is_sm(struct simhca_subnet *subnet, unsigned int device, bool is)
{
	subnet->port[device].is_sm = is || (subnet->has_sm && !device);
}

/* ----------------------------------------------------------------------------- which way */

/* A link that was down begins anew, at the switch's end as well. */
static void follow_links(struct simhca_subnet *subnet)
{
	uint8_t first = subnet->has_sm ? IBV_PORT_ACTIVE : IBV_PORT_INIT;

	for (unsigned int i = 0; i < subnet->config.count; i++) {
		bool down = atomic_load(&node_memory(subnet, (int)i)->port.state) == IBV_PORT_DOWN;

		if (down)
			subnet->switch_state[i] = first;
		if (down != subnet->was_down[i])
			subnet->switch_flags |= PORT_STATE_CHANGE;
		subnet->was_down[i] = down;
	}
}

/* Data and GMPs pass ACTIVE ports alone, SMPs all that are up. */
static bool passes(const struct simhca_subnet *subnet, unsigned int device, bool smp)
{
	uint32_t state = atomic_load(&node_memory(subnet, (int)device)->port.state);
	uint8_t other = subnet->switch_state[device];

	if (state == IBV_PORT_DOWN)
		return false;
	return smp || (state == IBV_PORT_ACTIVE && other == IBV_PORT_ACTIVE);
}

static bool has_lid(const struct simhca_subnet *subnet, unsigned int device, uint16_t lid)
{
	uint8_t lmc = node_memory(subnet, (int)device)->port.lmc;
	uint16_t own = node_lid(subnet, (int)device);

	return own && lid >> lmc == own >> lmc;
}

/* From a device by LID: where it comes out. */
static int by_lid(const struct simhca_subnet *subnet, unsigned int from, uint16_t lid, bool smp)
{
	unsigned int port;

	if (has_lid(subnet, from, lid) || (smp && lid == SIMHCA_LID_PERMISSIVE))
		return (int)from;
	if (!passes(subnet, from, smp))
		return NODE_NONE;
	if (lid && lid == subnet->switch_lid)
		return NODE_SWITCH;
	port = lid < SWITCH_LIDS ? subnet->lft[lid] : NO_PORT;
	if (!port || port > subnet->config.count || !passes(subnet, port - 1, smp) ||
	    !has_lid(subnet, port - 1, lid))
		return NODE_NONE;
	return (int)(port - 1);
}

/* One hop: out of a node's port. *in: the port of the next node. */
static int next_node(const struct simhca_subnet *subnet, int node, unsigned int out,
		     unsigned int *in)
{
	if (node == NODE_SWITCH) {
		if (!out || out > subnet->config.count || !passes(subnet, out - 1, true))
			return NODE_NONE;
		*in = 1;
		return (int)(out - 1);
	}
	if (out != 1 || !passes(subnet, (unsigned int)node, true))
		return NODE_NONE;
	*in = (unsigned int)node + 1;
	return NODE_SWITCH;
}

/* A request goes by the initial path, and notes the way back (14.2.2.1). *in: where it came in. */
static int by_initial_path(const struct simhca_subnet *subnet, int node, uint8_t *mad,
			   unsigned int *in)
{
	unsigned int hops = mad[AT_HOP_COUNT];

	if (hops >= DR_PATH_BYTES || mad[AT_HOP_POINTER])
		return NODE_NONE;
	for (unsigned int i = 1; i <= hops; i++) {
		/* A device forwards nothing. */
		if (i > 1 && node != NODE_SWITCH)
			return NODE_NONE;
		node = next_node(subnet, node, mad[AT_INITIAL_PATH + i], in);
		if (node == NODE_NONE)
			return NODE_NONE;
		mad[AT_RETURN_PATH + i] = (uint8_t)*in;
	}
	mad[AT_HOP_POINTER] = (uint8_t)(hops + 1);
	return node;
}

/* An answer by the return path (14.2.2.3). */
static int by_return_path(const struct simhca_subnet *subnet, int node, uint8_t *mad)
{
	unsigned int in;

	if (mad[AT_HOP_COUNT] >= DR_PATH_BYTES)
		return NODE_NONE;
	for (unsigned int i = mad[AT_HOP_COUNT]; i && node != NODE_NONE; i--)
		node = next_node(subnet, node, mad[AT_RETURN_PATH + i], &in);
	mad[AT_HOP_POINTER] = 0;
	return node;
}

/* A part by LID may be in front of the directed one, and one behind it. */
static int directed(const struct simhca_subnet *subnet, unsigned int from,
		    const struct simhca_mad *mad, unsigned int *in)
{
	uint16_t before = (uint16_t)mad_get(mad->bytes, AT_DR_SLID, 2);
	uint16_t after = (uint16_t)mad_get(mad->bytes, AT_DR_DLID, 2);
	int node = (int)from;

	*in = 1;
	if (mad_is_response(mad->bytes))
		return before == SIMHCA_LID_PERMISSIVE && after == SIMHCA_LID_PERMISSIVE
			       ? by_return_path(subnet, node, mad->bytes)
			       : by_lid(subnet, from, mad->dlid, true);
	if (before != SIMHCA_LID_PERMISSIVE) {
		node = by_lid(subnet, from, mad->dlid, true);
		*in = node == NODE_SWITCH ? 0 : 1;
	}
	if (node != NODE_NONE)
		node = by_initial_path(subnet, node, mad->bytes, in);
	if (node != NODE_NONE && after != SIMHCA_LID_PERMISSIVE && after != node_lid(subnet, node))
		return NODE_NONE;
	return node;
}

/* ----------------------------------------------------------------------------------- sending */

/* What is hardware there, and answers. */
static bool serve(struct simhca_subnet *subnet, int node, unsigned int in, struct simhca_mad *mad,
		  uint32_t room)
{
	if (mad_is_response(mad->bytes))
		return false;
	if (mad->qpn == 0)
		return sma_serve(subnet, node, in, mad->bytes);
	if (mad->bytes[AT_CLASS] == MAD_CLASS_PERF)
		return pma_serve(subnet, node, mad->bytes);
	if (mad->bytes[AT_CLASS] == MAD_CLASS_SA && !node && subnet->has_sm)
		return sa_serve(subnet, mad, room);
	return false;
}

static bool refuse(struct simhca_mad *mad)
{
	if (mad->bytes[AT_METHOD] != MAD_GET && mad->bytes[AT_METHOD] != MAD_SET)
		return false;
	mad_answer(mad->bytes, MAD_BAD_ATTRIBUTE);
	mad->length = MAD_BYTES;
	return true;
}

static void turn_round(struct simhca_mad *mad)
{
	uint16_t lid = mad->slid;

	mad->slid = mad->dlid;
	mad->dlid = lid;
	if (mad->bytes[AT_CLASS] == MAD_CLASS_SMP_DIRECTED)
		mad->bytes[AT_HOP_POINTER] = 0;
}

bool simhca_subnet_refuse(struct simhca_mad *mad)
{
	if (!refuse(mad))
		return false;
	turn_round(mad);
	return true;
}

enum simhca_mad_fate simhca_subnet_send(struct simhca_subnet *subnet, unsigned int from,
					struct simhca_mad *mad, uint32_t room, unsigned int *to)
{
	bool smp = mad->qpn == 0;
	unsigned int in = 1;
	int node;

	follow_links(subnet);
	/* The classes of QP 0 are those two. */
	if (mad_is_smp(mad->bytes) != smp)
		return SIMHCA_MAD_LOST;
	if (mad->bytes[AT_CLASS] == MAD_CLASS_SMP_DIRECTED) {
		node = directed(subnet, from, mad, &in);
	} else {
		node = by_lid(subnet, from, mad->dlid, smp);
		in = node == NODE_SWITCH ? from + 1 : 1;
	}
	if (node == NODE_NONE || (smp && sma_drops(subnet, node, mad->bytes)))
		return SIMHCA_MAD_LOST;
	if (serve(subnet, node, in, mad, room) || (node == NODE_SWITCH && refuse(mad))) {
		turn_round(mad);
		return SIMHCA_MAD_ANSWERED;
	}
	if (node == NODE_SWITCH)
		return SIMHCA_MAD_LOST;
	*to = (unsigned int)node;
	return SIMHCA_MAD_ARRIVES;
}
