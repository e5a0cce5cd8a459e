/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* On-chip memory, and its regions, for the tests of these. */
#ifndef SIMHCA_TEST_DM_SCENE_H
#define SIMHCA_TEST_DM_SCENE_H

#include <sys/mman.h>

#include "harness.h"

struct dm {
	uint32_t handle;
	int fd;
	uint64_t length, size;
	uint8_t *addr;
};

static inline int dm_try(struct client *client, uint64_t length, uint32_t log_align, struct dm *dm)
{
	struct simhca_alloc_dm_req req = { .length = length, .log_align = log_align };
	struct simhca_dm_reply reply;
	int ret = simhca_alloc_dm(client->context, &req, &reply, &dm->fd, NULL);

	if (ret)
		return ret;
	dm->handle = reply.handle;
	dm->length = reply.length;
	dm->size = reply.size;
	return 0;
}

/* As a program has it, mapped. */
static inline struct dm *dm_new(struct client *client, uint64_t length)
{
	struct dm *dm = world_alloc(client->world, sizeof(*dm));

	assert_int_equal(0, dm_try(client, length, 0, dm));
	dm->addr = mmap(NULL, dm->size, PROT_READ | PROT_WRITE, MAP_SHARED, dm->fd, 0);
	assert_ptr_not_equal(dm->addr, MAP_FAILED);
	return dm;
}

static inline int dm_mr_try(struct client *client, const struct dm *dm, uint64_t offset,
			    uint64_t length, uint32_t access, struct simhca_reg_mr_reply *reply)
{
	struct simhca_reg_dm_mr_req req = { .offset = offset,
					    .length = length,
					    .dm = dm->handle,
					    .pd = client->pd,
					    .access = access };

	return simhca_reg_dm_mr(client->context, client->mm, &req, reply, NULL);
}

static inline struct mr dm_mr_new(struct client *client, const struct dm *dm, uint64_t offset,
				  uint64_t length)
{
	struct simhca_reg_mr_reply reply;

	assert_int_equal(0, dm_mr_try(client, dm, offset, length,
				      ALL_ACCESS | SIMHCA_ACCESS_ZERO_BASED, &reply));
	return (struct mr){ .client = client,
			    .addr = dm->addr + offset,
			    .length = length,
			    .handle = reply.handle,
			    .lkey = reply.lkey,
			    .rkey = reply.rkey };
}

#endif
