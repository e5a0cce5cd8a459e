/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Pairs of QPs of which one's program runs its steps. Both QPs are ours, and our memory is reached
 * as another process's would be.
 */
#ifndef SIMHCA_TEST_FASTPATH_SCENE_H
#define SIMHCA_TEST_FASTPATH_SCENE_H

#include "harness.h"
#include "message/step.h"

#define MOST_STORES 300 /* of one step */
#define SIGNALED SIMHCA_WQE_SIGNALED
#define HERE(test) cmocka_unit_test_setup_teardown(test, fastpath_setup, teardown)

/* It is called at each store of a step. */
extern void (*fastpath_at_store)(void);
extern const struct simhca_secret fastpath_secret;

int fastpath_setup(void **state);
struct options fastpath_options(void);
/* Its memory may be reached, by who knows the secret. */
void fastpath_offer(struct client *client);
struct pair *fastpath_pair(struct world *world, const struct options *options);
/* Of this type, otherwise by fastpath_options(); whatever was under way is done. */
struct pair *fastpath_pair_of(struct world *world, enum ibv_qp_type type);
/* By fastpath_options(), with or without room for short messages in the slots of receives. */
struct pair *fastpath_rc_pair(struct world *world, bool slot_data);
/* b's receives come from an SRQ. */
struct pair *fastpath_pair_with_srq(struct world *world);
int fastpath_attach_with(struct side *side, const struct simhca_secret *known,
			 struct simhca_attach_peer_reply *reply);
/* As the provider does, but for the segments, which are mapped already. */
struct simhca_step fastpath_attach(struct side *side);
struct simhca_step fastpath_attach_to(struct side *side, struct side *peer);
/* A step of a connected QP, or of a UD QP that sends to one other. */
bool fastpath_run(struct simhca_step *step);
void fastpath_detach(const struct simhca_step *step);
/* As if it were the program of another process, which is given the peer's queues. */
struct simhca_step fastpath_attach_another(struct side *side);
/* The next CQE says SUCCESS. */
void fastpath_completes(struct cq *cq);

/* What a peer was given of a queue's memory, and keeps mapped. */
struct fastpath_kept {
	uint8_t *addr;
	uint64_t size;
};
struct fastpath_kept fastpath_keep(struct client *client, const struct simhca_mem_ref *ref);
/* Runs the step in a process that ends before that store; false: there are not so many. */
bool fastpath_killed_at(struct simhca_step *step, unsigned int store);
/* Ends that process. */
void fastpath_end(void);

/* A message, or several of a kind, and whether receives are posted for them. */
struct fastpath_work {
	const char *name;
	uint8_t opcode, flags;
	uint32_t count, length, sges;
	bool receives, inlined;
};
void fastpath_put_work(struct pair *pair, const struct fastpath_work *work);
void fastpath_write(struct pair *pair, uint32_t length, const struct mr *to);
void fastpath_send(struct pair *pair, uint32_t length);
void fastpath_put_fetch_and_add(struct side *side, const struct mr *mr);
/* Atomics one after the other, on a word that is 5 at first, and what each leaves there. */
struct fastpath_atomic {
	uint8_t opcode;
	uint64_t compare_add, swap, leaves;
};
#define FASTPATH_ATOMICS 6
extern const struct fastpath_atomic fastpath_atomics[FASTPATH_ATOMICS];
/* The first atomic on our memory is the device's: then those who write there know of each other. */
void fastpath_begin_atomics(struct world *world);
/* The data in the slot of a receive. */
const uint8_t *fastpath_slot(const struct qp *qp, uint32_t index);
/* The next completion that is not void. */
bool fastpath_next_cqe(struct cq *cq, struct simhca_cqe *cqe);
/* The two CQs have the same completions, but for the numbers of QPs. */
void fastpath_same_cqes(struct cq *one, struct cq *other);
/* Without latencies, which differ each time. */
struct simhca_usage_sum fastpath_usage(const struct side *side);
/* Events that b's SRQ has fallen below its limit. */
int fastpath_limits(const struct pair *pair);

/* Events that the device raised, of CQs whose on_event is this. */
extern unsigned int fastpath_raised;
void fastpath_count_event(struct cq *cq, void *arg);
/* A completion channel, as the provider has it; ends[0] is the device's. */
void fastpath_open_channel(struct simhca_notify *notify, const struct cq *cq, int ends[2]);
void fastpath_close_channel(const int ends[2]);
/* With records of nobody, until there is no room. */
void fastpath_fill_channel(const int ends[2]);
/* How many events of the CQ are there. */
unsigned int fastpath_read_channel(const int ends[2], const struct cq *cq);

#endif
