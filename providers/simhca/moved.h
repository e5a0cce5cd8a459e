/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory that was moved into a file as it was registered (simhcad's --shared-memory), at the address that it had,
 * so that programs on the fast path map the file and reach it by plain copies.
 *
 * A range is what was moved at once: whole pages of private, anonymous memory, and nothing beside the
 * region, so that nobody's neighbours come along. Regions that lie inside of one that is moved already share its
 * file. With its last region a range moves back, as far as it still is there: what the program has unmapped, or
 * mapped anew, is left alone.
 *
 * To a child that is forked each range is a copy, private as it was before. What cannot be copied, as there is
 * no memory or the program has closed the file, is not accessible to the child.
 *
 * The words: a region is what the program has registered. A range is what was moved at once, and the place where
 * it was; regions lie in it. A mapping is a line of /proc/self/maps: mprotect() and munmap() leave several of a
 * range, or none. A piece is the private copy of one mapping, which takes its place.
 */
#ifndef SHCA_PROVIDER_MOVED_H
#define SHCA_PROVIDER_MOVED_H

#include "provider.h"

/* The region is to be registered where it is: nothing was asked of the device. */
#define SHCA_STAYS (-1)
/* Of the memfds that memory is moved to, and is moved back from. */
#define SHCA_MOVED_NAME "simhca-registered"

/*
 * Registers a region, and moves its memory; mr->moved is NULL if it stays where it was. 0: it is registered;
 * SHCA_STAYS, or an errno.
 */
int shca_moved_register(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			struct simhca_reg_mr_reply *reply, struct shca_mr *mr);
/* Whether a region of a file can grant that. */
bool shca_may_lie_in_file(uint32_t access);
/* REG_DMABUF_MR of memory that has an address; 0, SHCA_STAYS or an errno. */
int shca_register_in_file(struct shca_context *ctx, const struct simhca_reg_dmabuf_mr_req *req,
			  int fd, struct simhca_reg_mr_reply *reply);
/* The device uses the region no more, or as one that was not moved. */
void shca_moved_put(struct shca_mr *mr);

#endif
