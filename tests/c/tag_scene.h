/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tests of tag matching share. */
#ifndef SIMHCA_TEST_TAG_SCENE_H
#define SIMHCA_TEST_TAG_SCENE_H

#include <endian.h>
#include <infiniband/tm_types.h>

#include "harness.h"

#define TAGS 16
#define HEADER sizeof(struct ibv_tmh)
#define MATCH SIMHCA_CQE_TM_MATCH
#define DATA_VALID SIMHCA_CQE_TM_DATA_VALID
#define APP_CTX 0xabcd1234u

/* A sends; B's QP has the SRQ, which completes on a CQ of its own. */
struct scene {
	struct world *world;
	struct side a, b;
	struct cq *cq;
	struct srq *srq;
	struct options options;
};

struct scene *make_with(struct world *world, const struct options *options);
struct scene *make(struct world *world);
/* An operation on the list; 0 or a negative errno. */
int op(struct scene *s, struct simhca_srq_op_req req, uint32_t *entry);
/* A tagged buffer: bytes [offset, offset + length) of B's. */
uint32_t add(struct scene *s, uint64_t id, uint64_t tag, uint64_t mask, uint64_t offset,
	     uint32_t length);
/* A receive of 1024 bytes. */
void supply(struct scene *s, uint64_t id, uint64_t offset);
/* A message with its header at offset 0 of A's buffer; length is without the header. */
void send_tagged(struct scene *s, uint64_t id, uint8_t opcode, uint64_t tag, uint32_t length);
/* A request to fetch [offset, offset + length) of A's buffer by that key. */
void send_rndv(struct scene *s, uint64_t id, uint64_t tag, uint64_t offset, uint32_t length,
	       uint32_t rkey);

struct simhca_cqe check_cqe(struct scene *s, uint64_t id, uint8_t opcode, uint8_t tm_flags);
void check_match(const struct simhca_cqe *cqe, uint64_t tag);
void check_unexpected(struct scene *s, uint64_t id, uint64_t offset, uint64_t tag, uint32_t length);

#endif
