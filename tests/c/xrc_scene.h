/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tests of XRC's connections share. */
#ifndef SIMHCA_TEST_XRC_SCENE_H
#define SIMHCA_TEST_XRC_SCENE_H

#include "xrc.h"

/* A process that receives: its handle of the domain, its SRQ and CQ, its memory. */
struct server {
	struct client *client;
	uint32_t xrcd;
	struct cq *cq;
	struct srq *srq;
	struct mr *mr;
	struct qp *target; /* its handle of the one target QP */
};

/* Two servers that share a domain and a target QP, which the first has made; and who sends. */
struct scene {
	struct world *world;
	struct options options;
	struct server server[2];
	struct client *client;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp;
};

struct scene *make_with(struct world *world, const struct options *options);
struct scene *make(struct world *world);
/* A receive of 1024 bytes, at id % 32 KiB of the server's memory. */
void supply(struct server *server, uint64_t id);
/* 100 bytes, of which id is the pattern. */
void send_to(struct scene *s, uint64_t id, uint32_t srqn);
void check_arrives(struct scene *s, struct server *server, uint64_t id);
/* The connection has ended: both QPs are in ERR, and everybody who has the target open knows. */
void check_refused(struct scene *s, uint32_t event);

/* And begins anew. */
void reconnect(struct scene *s);

#define xrc_post(s, ...) qp_post((s)->qp, &(struct wr){ .flags = SIMHCA_WQE_SIGNALED, __VA_ARGS__ })

#endif
