/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "core/handles.h"
#include "link/wire/wire.h"
#include "wire_net.h"
#include "wire_scene.h"

const union simhca_gid wire_group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

int setup_wire(void **state)
{
	*state = world_new(&(struct world_config){ .device.wire = true });
	return 0;
}

int setup_like_rxe(void **state)
{
	wire_net_like_rxe(true);
	setup_wire(state);
	wire_net_like_rxe(false);
	return 0;
}

/* A side whose peer is QP 0x123 elsewhere, with a receive. */
struct net net_to(void **state, enum ibv_qp_type type, unsigned int peer)
{
	struct net net = { .world = *state, .options = default_options(type) };

	net.options.psn = FIRST_PSN;
	net.options.path_mtu = IBV_MTU_256;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, peer, 0x123, &net.options);
	recv_into(net.side, 1, 0, 2048);
	return net;
}

struct net net_new(void **state, enum ibv_qp_type type)
{
	return net_to(state, type, ELSEWHERE);
}

struct simhca_packet a_send(const struct net *net, uint32_t psn, uint64_t length)
{
	return (struct simhca_packet){ .op = SIMHCA_PKT_SEND,
				       .transport = (enum simhca_qp_type)net->options.type,
				       .first = true,
				       .last = true,
				       .ack_req = true,
				       .dest_qpn = net->side->qp->qpn,
				       .psn = FIRST_PSN + psn,
				       .qkey = net->options.qkey,
				       .length = length };
}

struct simhca_packet a_read(const struct net *net, uint32_t psn)
{
	struct simhca_packet packet = a_send(net, psn, 0);

	packet.op = SIMHCA_PKT_READ;
	packet.va = net->side->mr->iova;
	packet.rkey = net->side->mr->rkey;
	packet.dma_length = 64;
	return packet;
}

/* In what follows a packet is of zeros; damage: bits to turn in its last byte but the ICRC. */
void comes_to(const struct net *net, union simhca_gid to, unsigned int from,
	      const struct simhca_packet *packet, uint8_t damage)
{
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(4096)] = { 0 };
	struct simhca_wire_datagram datagram = {
		.path = { .source = device_gid(from, 0), .destination = to },
		.bytes = bytes,
		.length = simhca_bth_encode(packet, bytes),
	};

	assert_int_not_equal(datagram.length, 0);
	datagram.length += packet->length + simhca_pad(packet->length);
	simhca_icrc_put(&datagram.path, bytes, datagram.length);
	bytes[datagram.length - 1] ^= damage;
	datagram.length += SIMHCA_ICRC_BYTES;
	simhca_wire_receive(net->world->fabric, &datagram);
}

void comes(const struct net *net, unsigned int from, const struct simhca_packet *packet,
	   uint8_t damage)
{
	comes_to(net, device_gid(0, 0), from, packet, damage);
}

struct simhca_wire_counts net_counts(const struct net *net)
{
	struct simhca_wire_counts counts;

	simhca_wire_counts(net->world->fabric, &counts);
	return counts;
}

uint64_t net_stat(const struct net *net, unsigned int which)
{
	uint64_t stats[SIMHCA_STATS];

	simhca_device_stats(net->world->device[0], stats);
	return stats[which];
}

int membership(struct side *side, bool member)
{
	const struct simhca_mcast_req req = { .qp = side->qp->handle, .gid = wire_group };

	return (member ? simhca_attach_mcast : simhca_detach_mcast)(side->client->context, &req,
								    NULL);
}

/* Two members on the first device, one on the second. */
void with_members(struct world *world, struct side *members[3])
{
	const struct options options = default_options(IBV_QPT_UD);

	for (unsigned int i = 0; i < 3; i++) {
		members[i] = side_new(client_new(world, i == 2), &options);
		qp_connect(members[i]->qp, 0, 0, &options);
		recv_into(members[i], 1, 0, 2048);
		recv_into(members[i], 2, 2048, 2048);
		assert_int_equal(membership(members[i], true), 0);
	}
}

void acknowledge(const struct net *net, uint32_t psn)
{
	struct simhca_packet packet = a_send(net, psn, 0);

	packet.op = SIMHCA_PKT_ACK;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	comes(net, ELSEWHERE, &packet, 0);
}

void write_mtus(const struct net *net, uint64_t id, uint32_t count)
{
	post(net->side, .id = id, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net->side->mr, 0, (uint64_t)count * MTU)));
	run_until_idle(net->world);
}
