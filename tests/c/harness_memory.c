/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The memory of a client: regions, windows, and what is written there. */
#include "dma/process_map.h"
#include "harness.h"

/* As programs do before they register. */
bool is_unmapped(const void *addr, uint64_t length, uint32_t access)
{
	return length && (uintptr_t)addr + length - 1 >= (uintptr_t)addr &&
	       !(access & SIMHCA_ACCESS_ON_DEMAND) &&
	       !simhca_process_has(0, (uintptr_t)addr, length, simhca_needs_writable(access));
}

int mr_try(struct client *client, uint32_t pd, void *addr, uint64_t length, uint64_t iova,
	   uint32_t access, struct simhca_reg_mr_reply *reply)
{
	struct simhca_reg_mr_req req = {
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.pd = pd,
		.access = access,
		.unmapped = is_unmapped(addr, length, access),
	};
	struct simhca_why why = { .text = "" };

	return simhca_reg_mr(client->context, client->mm, &req, reply, &why);
}

struct mr *mr_over(struct client *client, uint32_t pd, void *addr, uint64_t length, uint64_t iova,
		   uint32_t access)
{
	struct mr *mr = world_alloc(client->world, sizeof(*mr));
	struct simhca_reg_mr_reply reply = { 0 };

	assert_int_equal(0, mr_try(client, pd, addr, length, iova, access, &reply));
	*mr = (struct mr){
		.client = client,
		.addr = addr,
		.length = length,
		.iova = iova,
		.handle = reply.handle,
		.lkey = reply.lkey,
		.rkey = reply.rkey,
	};
	return mr;
}

struct mr *mr_new(struct client *client, uint64_t length, uint32_t access)
{
	uint8_t *addr = world_alloc(client->world, length);

	return mr_over(client, client->pd, addr, length, (uintptr_t)addr, access);
}

struct simhca_sge sge(const struct mr *mr, uint64_t offset, uint32_t length)
{
	return (struct simhca_sge){
		.addr = mr->iova + offset,
		.length = length,
		.lkey = mr->lkey,
	};
}

struct mr *fast_mr_new(struct client *client, uint32_t pd, uint32_t max_pages)
{
	struct simhca_alloc_mr_req req = { .pd = pd, .max_pages = max_pages };
	struct mr *mr = world_alloc(client->world, sizeof(*mr));
	struct simhca_reg_mr_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (simhca_alloc_mr(client->context, client->mm, &req, &reply, &why))
		fail_msg("alloc_mr: %s", why.text);
	mr->client = client;
	mr->handle = reply.handle;
	mr->lkey = reply.lkey;
	mr->rkey = reply.rkey;
	return mr;
}

int mr_gone(struct mr *mr)
{
	struct simhca_why why = { .text = "" };

	return patiently(simhca_dereg_mr(mr->client->context, mr->handle, &why));
}

struct mw *mw_new(struct client *client, uint32_t pd, uint32_t type)
{
	struct simhca_alloc_mw_req req = { .pd = pd, .type = type };
	struct mw *mw = world_alloc(client->world, sizeof(*mw));
	struct simhca_alloc_mw_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (simhca_alloc_mw(client->context, &req, &reply, &why))
		fail_msg("alloc_mw: %s", why.text);
	*mw = (struct mw){
		.client = client, .type = type, .handle = reply.handle, .rkey = reply.rkey
	};
	return mw;
}

void mw_gone(struct mw *mw)
{
	assert_int_equal(0, patiently(simhca_dealloc_mw(mw->client->context, mw->handle, NULL)));
}

const struct simhca_mpt *mpt_of(struct client *client, uint32_t key)
{
	return simhca_mpt_of(simhca_device_memory(client->world->device[client->device_index]),
			     key);
}

static uint8_t pattern(size_t i, uint32_t seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return (uint8_t)(x >> 24 ^ x >> 11);
}

void fill(uint8_t *at, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = pattern(i, seed);
}

bool filled(const uint8_t *at, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != pattern(i, seed))
			return false;
	return true;
}

bool all_bytes(const uint8_t *at, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++)
		if (at[i] != value)
			return false;
	return true;
}

uint32_t test_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33) ^ (uint32_t)(*seed >> 13);
}
