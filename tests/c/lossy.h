/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A link like a network: packets of the path MTU, in queues, of which some are lost, come twice, or
 * come late, and so in another order, all by a seed. What has several receivers goes by the local
 * link: multicast datagrams and frames.
 *
 * With SIMHCA_TEST_LINK=wire the wire link is in its place, over a network that does the same
 * (wire_net.h).
 */
#ifndef SIMHCA_TEST_LOSSY_H
#define SIMHCA_TEST_LOSSY_H

#include "harness.h"

struct simhca_packet;

struct lossy {
	uint64_t seed;
	/* packets in a thousand */
	unsigned int lost, twice, late;
	/* what a test wants to happen to a packet, before chance has its say; NULL: nothing */
	bool (*loses)(void *arg, unsigned int op, uint32_t psn);
	/* what has become of one: how many will arrive, and whether one of them late; or NULL */
	void (*tells)(void *arg, const struct simhca_packet *packet, unsigned int copies,
		      bool late);
	void *arg;
	/* what has happened */
	unsigned long sent, has_lost, has_doubled, has_delayed;
};

/*
 * From now on QPs of this world are made with the link, until it is freed; NULL: nothing is lost.
 * One world at a time.
 */
void lossy_use(struct world *world, struct lossy *how);
/* Puts a packet on its way, as if the peer of this QP had sent it; of PSN, length, ... as it says.
 */
void lossy_forge(struct qp *to, const struct simhca_packet *packet);
/* For the harness. */
void lossy_end(void);

/* What becomes of a packet that is sent now: each copy is so many ticks late. */
struct fate {
	unsigned int copies, late[2];
};
struct fate lossy_fate(const struct simhca_packet *packet);

#endif
