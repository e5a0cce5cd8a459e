/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sys/mman.h>

#include "paging.h"

#define FAR_BELOW (UINT64_C(64) << 30) /* bytes */

static uint8_t *map(uint8_t *at, size_t length, int flags)
{
	return mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/*
 * Far below where the kernel puts the mappings that have no wish, from the top down: a hole that
 * a test makes there stays one. A sanitizer maps single pages at any time.
 */
uint8_t *pages(unsigned int count)
{
	static _Atomic uintptr_t next;
	size_t length = count * (size_t)PAGE;
	uintptr_t none = 0;
	uint8_t *at;

	if (!next) {
		at = map(NULL, PAGE, 0);
		assert_ptr_not_equal(at, MAP_FAILED);
		munmap(at, PAGE);
		atomic_compare_exchange_strong(&next, &none, (uintptr_t)at - FAR_BELOW);
	}
	/* With a page between two, that tests may reach by mistake. */
	at = (uint8_t *)atomic_fetch_add(&next, length + PAGE);
	assert_ptr_equal(map(at, length, MAP_FIXED_NOREPLACE), at);
	return at;
}

struct mr *on_demand(struct client *client, uint8_t *at, uint64_t length, uint32_t access)
{
	return mr_over(client, client->pd, at, length, (uintptr_t)at, access);
}

struct pair *paging_pair(struct world *world, enum ibv_qp_type type, unsigned int count)
{
	struct options options = default_options(type);
	struct pair *pair;

	options.access = ALL_ACCESS;
	pair = pair_new(world, &options);
	pair->a.mr = on_demand(pair->a.client, pages(count), count * (uint64_t)PAGE, ODP);
	pair->b.mr = on_demand(pair->b.client, pages(count), count * (uint64_t)PAGE, ODP);
	return pair;
}

struct simhca_odp_counters counters(const struct mr *mr)
{
	struct simhca_query_mr_reply reply = { 0 };

	assert_int_equal(0, simhca_query_mr(mr->client->context, mr->handle, &reply, NULL));
	return reply.odp;
}

uint64_t present(const struct mr *mr)
{
	struct simhca_query_mr_reply reply = { 0 };

	assert_int_equal(0, simhca_query_mr(mr->client->context, mr->handle, &reply, NULL));
	return reply.present_pages;
}

struct simhca_qp_info info(const struct side *side)
{
	struct simhca_qp_info info;
	uint32_t handle = side->qp->handle;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	assert_int_equal(handle, side->qp->handle);
	return info;
}

void page_in(struct world *world)
{
	for (int quiet = 0; quiet < 2; quiet++) {
		run_until_idle(world);
		while (simhca_faults_poll(world->fabric)) {
			run_until_idle(world);
			quiet = 0;
		}
		advance(world, 2 * MSEC);
	}
}
