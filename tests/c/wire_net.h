/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The wire link over a network in memory: each packet is encoded, checked and decoded, also between
 * devices of one world. What happens to it on its way is as lossy.h says.
 */
#ifndef SIMHCA_TEST_WIRE_NET_H
#define SIMHCA_TEST_WIRE_NET_H

#include "lossy.h"

struct simhca_wire_path;

/* The port that a flow leaves from. */
#define WIRE_NET_PORT(flow) (uint16_t)(0xf000 + (flow) % 8)

/* Before the world has devices; always: also between them. One world at a time. */
void wire_net_use(struct world *world, bool always);
void wire_net_end(void);
/* Of the worlds to come: a FLUSH has the ICRC of Linux's rxe. */
void wire_net_like_rxe(bool like);
/* What an engine finds that polls the network, once. */
void wire_net_poll(void (*found)(void *arg), void *arg);
/* Groups of which devices have members, counted for each device. */
int wire_net_groups(void);
/* Of what was sent: how many packets wanted an answer, and the PSN of the last acknowledgement. */
unsigned int wire_net_asked(void);
/* How many runs it was, each of which a kernel takes by one call. */
unsigned int wire_net_runs(void);
uint32_t wire_net_acknowledged(void);
/* What was sent last, but for its payload; and whether it has its ICRC: the specification's, or
 * rxe's of a FLUSH. */
struct simhca_packet wire_net_last(void);
uint16_t wire_net_source_port(void);
bool wire_net_has_icrc(bool of_rxe);
/* Puts a datagram on its way, that many ticks late. */
void wire_net_put(const struct simhca_wire_path *path, uint8_t traffic_class, const void *datagram,
		  size_t length, unsigned int late);

#endif
