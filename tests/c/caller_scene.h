/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pairs of QPs of which one's program runs its steps. Both QPs are ours, and our memory is reached
 * as another process's would be.
 */
#ifndef CALLER_SCENE_H
#define CALLER_SCENE_H

#include "harness.h"
#include "message/step.h"

extern void (*caller_at_store)(void);
extern const struct simhca_secret caller_secret;

int caller_setup(void **state);
struct options caller_options(void);
/* Its memory may be reached, by who knows the secret. */
void caller_offer(struct client *client);
struct pair *caller_pair(struct world *world, const struct options *options);
/* Of this type, otherwise by caller_options(); whatever was under way is done. */
struct pair *caller_pair_of(struct world *world, enum ibv_qp_type type);
/* b's receives come from an SRQ. */
struct pair *caller_pair_with_srq(struct world *world);
int caller_attach_with(struct side *side, const struct simhca_secret *known,
		       struct simhca_attach_peer_reply *reply);
/* As the provider does, but for the segments, which are mapped already. */
struct simhca_step caller_attach(struct side *side);
struct simhca_step caller_attach_to(struct side *side, struct side *peer);
/* A step of a connected QP, or of a UD QP that sends to one other. */
bool caller_run(struct simhca_step *step);
void caller_detach(const struct simhca_step *step);
/* As if it were the program of another process, which is given the peer's queues. */
struct simhca_step caller_attach_another(struct side *side);
/* The next CQE says SUCCESS. */
void caller_completes(struct cq *cq);

/* What a peer was given of a queue's memory, and keeps mapped. */
struct caller_kept {
	uint8_t *addr;
	uint64_t size;
};
struct caller_kept caller_keep(struct client *client, const struct simhca_mem_ref *ref);
/* Runs the step in a process that ends before that store; false: there are not so many. */
bool caller_killed_at(struct simhca_step *step, unsigned int store);
/* Ends that process. */
void caller_end(void);

#endif
