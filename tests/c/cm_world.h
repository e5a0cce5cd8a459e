/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two hosts with a communication manager each, joined by a link that loses, repeats and delays
 * MADs, by a seed; and a clock that stands still until nothing is to be done.
 */
#ifndef CM_WORLD_H
#define CM_WORLD_H

#include "cm/cm.h"

#define WORLD_EVENTS 16
#define WORLD_MS UINT64_C(1000000)
#define WORLD_SERVICE UINT64_C(0x0000000001061c06)

/* One end, as its user sees it. */
struct end {
	struct host *host;
	struct simhca_cm_id *id;
	struct simhca_cm_event event; /* the last one */
	struct simhca_cm_mad mad;     /* that came with it */
	unsigned int seen[SIMHCA_CM_TIMEWAIT_EXIT + 1];
	struct end *peer; /* of a passive end: the listener */
};

struct host {
	struct world *world;
	struct simhca_cm *cm;
	uint64_t guid;
	union simhca_gid gid;
	struct end listener;
	/* What becomes of a REQ or SIDR_REQ: 0 takes it, see struct simhca_cm_ops. */
	int outcome;
	struct end *passive; /* takes what comes next, if not NULL; else the host answers itself */
	void (*accepted)(struct host *host, struct simhca_cm_id *id,
			 const struct simhca_cm_event *event);
};

struct flight;
struct world {
	struct host host[2];
	uint64_t now;
	uint64_t random;
	unsigned int loss, repeat, delay; /* percent */
	struct flight *flights;
	/* What passes, by attribute; a test may have the next ones of an attribute lost. */
	unsigned int passed[0x19], lose[0x19];
};

void world_open(struct world *world, uint64_t seed);
void world_close(struct world *world);
/* Until nothing is to be done without the clock. */
void world_run(struct world *world);
/* The clock goes on by this much, with all that happens meanwhile. */
void world_pass(struct world *world, uint64_t ms);
uint32_t world_random(struct world *world, uint32_t below);

void end_open(struct end *end, struct host *host);
struct simhca_cm_path end_path(const struct end *end);
int end_listen(struct host *host);
int end_connect(struct end *end, uint32_t qpn);
int end_accept(struct end *end, uint32_t qpn);

#endif
