/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/context.h"
#include "mapped_scene.h"

#define PAGE 4096u

int mapped_memfd(uint64_t length, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, (off_t)length));
	if (seals)
		assert_int_equal(0, fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

int mapped_reg_try(struct client *client, int fd, uint64_t offset, uint64_t length, uint32_t access,
		   struct simhca_reg_mr_reply *reply)
{
	const struct simhca_reg_dmabuf_mr_req req = { .offset = offset,
						      .length = length,
						      .iova = MAPPED_IOVA + offset % PAGE,
						      .pd = client->pd,
						      .access = access };

	return simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req, reply, NULL);
}

/* Of a part of a file, which the test has mapped as its program would. */
struct mr *mapped_mr_of(struct client *client, int fd, uint32_t access)
{
	struct mr *mr = world_alloc(client->world, sizeof(*mr));
	struct simhca_reg_mr_reply reply;
	uint8_t *addr;

	assert_int_equal(0,
			 mapped_reg_try(client, fd, MAPPED_OFFSET, MAPPED_BYTES, access, &reply));
	addr = mmap(NULL, MAPPED_BYTES + 5 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	*mr = (struct mr){ .client = client,
			   .addr = addr + MAPPED_OFFSET,
			   .length = MAPPED_BYTES,
			   .iova = MAPPED_IOVA + MAPPED_OFFSET % PAGE,
			   .handle = reply.handle,
			   .lkey = reply.lkey,
			   .rkey = reply.rkey };
	return mr;
}

struct mr *mapped_mr(struct client *client, int seals, uint32_t access)
{
	int fd = mapped_memfd(MAPPED_BYTES + 5 * PAGE, seals);
	struct mr *mr = mapped_mr_of(client, fd, access);

	close(fd);
	return mr;
}

int mapped_try(const struct side *side, const struct side *peer, uint32_t key, bool own,
	       struct simhca_map_region_reply *reply, int *fd)
{
	struct simhca_map_region_req req = { .qp = side->qp->handle, .key = key, .own = own };

	if (side->qp->type == IBV_QPT_UD) {
		req.av = av_to(side->world, 0, side->options.gid_index);
		req.dest_qpn = peer->qp->qpn;
	}
	return simhca_map_region(side->client->context, side->client->mm, &req, reply, fd, NULL);
}

/* As the provider does. */
void mapped_map_wanted(struct simhca_step *step, const struct side *side)
{
	struct simhca_step_regions *regions = step->regions;
	struct simhca_map_region_reply reply;
	uint64_t lead;
	char *base;
	int fd;

	assert_int_equal(0, mapped_try(side, side->peer, regions->wanted.key, regions->wanted.own,
				       &reply, &fd));
	regions->wanted.key = 0;
	lead = reply.offset % PAGE;
	base = mmap(NULL, lead + reply.length,
		    PROT_READ | (reply.access & SIMHCA_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0),
		    MAP_SHARED, fd, (off_t)(reply.offset - lead));
	assert_ptr_not_equal(base, MAP_FAILED);
	assert_in_range(regions->count, 0, SIMHCA_STEP_REGIONS - 1);
	regions->may_fail |= reply.may_fail;
	regions->one[regions->count].file = reply.file;
	regions->one[regions->count++].base = base + lead;
}

/* Carries all that was posted; whether it could. */
bool mapped_carry(struct simhca_step *step, const struct side *side)
{
	while (!fastpath_run(step)) {
		if (!step->regions->wanted.key)
			return false;
		mapped_map_wanted(step, side);
	}
	return true;
}

/* None of those by which it would reach the peer's memory does anything from now on. */
void mapped_forbid_calls(struct simhca_step *step)
{
	close(step->peer.memory);
	close(step->peer.pagemap);
	step->peer.memory = step->peer.pagemap = -1;
	step->peer.pid = -1;
}
