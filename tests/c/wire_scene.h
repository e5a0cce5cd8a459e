/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A QP whose peer is on the wire: what the peer, and others, send to it, and what it sends. */
#ifndef SIMHCA_TEST_WIRE_SCENE_H
#define SIMHCA_TEST_WIRE_SCENE_H

#include "harness.h"
#include "link/wire/wire.h"
#include "packet/packet.h"

#define ELSEWHERE 96 /* no device of the world: its address would be 10.1.2.99 */
#define STRANGER 97
#define FIRST_PSN 0x100
#define MTU 256

#define ON_THE_WIRE(test) cmocka_unit_test_setup_teardown(test, setup_wire, teardown)
#define LIKE_RXE(test) cmocka_unit_test_setup_teardown(test, setup_like_rxe, teardown)

int setup_wire(void **state);
int setup_like_rxe(void **state);

struct net {
	struct world *world;
	struct side *side;
	struct options options;
};

/* A side whose peer is QP 0x123 of that address, with a receive; net_new(): of ELSEWHERE. */
struct net net_to(void **state, enum ibv_qp_type type, unsigned int peer);
struct net net_new(void **state, enum ibv_qp_type type);

/* Packets for it, with PSN number psn from FIRST_PSN on; the read is of 64 bytes of its region. */
struct simhca_packet a_send(const struct net *net, uint32_t psn, uint64_t length);
struct simhca_packet a_read(const struct net *net, uint32_t psn);

/* A packet, of zeros, comes; damage: bits to turn in its last byte but the ICRC. */
void comes_to(const struct net *net, union simhca_gid to, unsigned int from,
	      const struct simhca_packet *packet, uint8_t damage);
void comes(const struct net *net, unsigned int from, const struct simhca_packet *packet,
	   uint8_t damage);
/* ELSEWHERE acknowledges all up to that PSN. */
void acknowledge(const struct net *net, uint32_t psn);

/* It writes so many packets of the path MTU. */
void write_mtus(const struct net *net, uint64_t id, uint32_t count);

struct simhca_wire_counts net_counts(const struct net *net);
/* One of enum simhca_stat, of the first device. */
uint64_t net_stat(const struct net *net, unsigned int which);

extern const union simhca_gid wire_group;
int membership(struct side *side, bool member);
/* Two members of it on the first device, one on the second. */
void with_members(struct world *world, struct side *members[3]);

#endif
