/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Pairs of UD QPs of which one's program runs its steps (libsimhca/message/step_ud.c). */
#ifndef SIMHCA_TEST_FASTPATH_UD_H
#define SIMHCA_TEST_FASTPATH_UD_H

#include "fastpath_scene.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)

/* Where b's receives are. */
enum queue { OWN, SHARED };

struct pair *ud_pair_by(struct world *world, uint8_t gid_index, enum queue queue);
/* By the first GID, with receives of its own. */
struct pair *ud_pair(struct world *world);
/* Another program that sends to b. */
struct side *ud_another(struct pair *pair);

struct wr ud_wr(const struct side *side, const struct side *peer);
void ud_send(struct side *side, uint32_t length);
/* A receive of b, of BUFFER bytes; of each id it is another place. */
void ud_receive(struct pair *pair, uint64_t id);
/* How many receives have been claimed. */
uint32_t ud_claimed(const struct side *side);
void ud_ring(struct side *side);

#endif
