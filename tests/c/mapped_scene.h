/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions that lie in files, and the steps of a program that maps them as it goes. */
#ifndef SIMHCA_TEST_MAPPED_SCENE_H
#define SIMHCA_TEST_MAPPED_SCENE_H

#include "fastpath_scene.h"

/* A region in its file. */
#define MAPPED_BYTES (64 * 4096u)
#define MAPPED_OFFSET (3 * 4096u + 24)
#define MAPPED_IOVA 0x10000000000ull /* of the page that it begins in */

int mapped_memfd(uint64_t length, int seals);
/* 0 or -errno. */
int mapped_reg_try(struct client *client, int fd, uint64_t offset, uint64_t length, uint32_t access,
		   struct simhca_reg_mr_reply *reply);
/* Of a part of a file, which the test has mapped as its program would. */
struct mr *mapped_mr_of(struct client *client, int fd, uint32_t access);
/* Likewise, of a file of its own. */
struct mr *mapped_mr(struct client *client, int seals, uint32_t access);
/* 0, and a descriptor of the file, or -errno. */
int mapped_try(const struct side *side, const struct side *peer, uint32_t key, bool own,
	       struct simhca_map_region_reply *reply, int *fd);
/* Maps the region that the step wanted, as the provider does. */
void mapped_map_wanted(struct simhca_step *step, const struct side *side);
/* Carries all that was posted; whether it could. */
bool mapped_carry(struct simhca_step *step, const struct side *side);
/* None of those by which it would reach the peer's memory does anything from now on. */
void mapped_forbid_calls(struct simhca_step *step);

#endif
