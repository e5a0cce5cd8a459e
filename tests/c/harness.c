/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "harness.h"
#include "model.h"

/*
 * ThreadSanitizer knows memory by its address: seen through two mappings, indices and sequence
 * numbers would order nothing for it. Under it clients share the model's mapping.
 */
#if defined(__SANITIZE_THREAD__)
#define SHARE_MAPPING 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHARE_MAPPING 1
#endif
#endif
#ifndef SHARE_MAPPING
#define SHARE_MAPPING 0
#endif

#define IDLE_ROUNDS 1000000u /* an engine that is still busy after so many will never be idle */
#define THREADED_WAIT_MS 20000u

/* ------------------------------------------------------------------------------ world */

struct block {
	struct block *next;
	void *memory;
};

void *world_alloc(struct world *world, size_t size)
{
	struct block *block = calloc(1, sizeof(*block));

	assert_non_null(block);
	block->memory = calloc(1, size ? size : 1);
	assert_non_null(block->memory);
	block->next = world->blocks;
	world->blocks = block;
	return block->memory;
}

void test_nap(unsigned int us)
{
	struct timespec time = { .tv_nsec = us * 1000l };

	nanosleep(&time, NULL);
}

static uint64_t test_clock(void *arg)
{
	struct world *world = arg;

	return atomic_load_explicit(&world->now, memory_order_relaxed);
}

static void on_comp_event(void *arg, uint64_t channel, uint64_t cq_user_handle)
{
	struct cq *cq = (struct cq *)(uintptr_t)cq_user_handle;

	(void)arg;
	(void)channel;
	atomic_fetch_add_explicit(&cq->events, 1, memory_order_relaxed);
	if (cq->on_event)
		cq->on_event(cq, cq->on_event_arg);
}

static void on_async_event(void *context_arg, struct simhca_user_handle user, uint32_t type)
{
	struct client *client = context_arg;

	pthread_mutex_lock(&client->event_lock);
	if (client->num_events < ARRAY_SIZE(client->event))
		client->event[client->num_events++] = (struct async_event){ user.element, type };
	pthread_mutex_unlock(&client->event_lock);
}

static void on_log(void *arg, enum simhca_log_level level, const char *line)
{
	(void)arg;
	if (getenv("SIMHCA_TEST_LOG"))
		print_message("[      LOG ] %d %s\n", level, line);
}

static void *engine_thread(void *engine)
{
	return simhca_engine_run(engine, 0) ? engine : NULL;
}

static void *second_thread(void *engine)
{
	return simhca_engine_run(engine, 1) ? engine : NULL;
}

union simhca_gid device_gid(unsigned int device, unsigned int index)
{
	union simhca_gid gid = { 0 };

	if (index == 0) { /* ::ffff:10.1.2.(3 + device) */
		gid.raw[10] = 0xff;
		gid.raw[11] = 0xff;
		gid.raw[12] = 10;
		gid.raw[13] = 1;
		gid.raw[14] = 2;
		gid.raw[15] = (uint8_t)(3 + device);
	} else if (index == 1) { /* fe80::5:(3 + device) */
		gid.raw[0] = 0xfe;
		gid.raw[1] = 0x80;
		gid.raw[13] = 5;
		gid.raw[15] = (uint8_t)(3 + device);
	}
	return gid;
}

static struct simhca_device *make_device(struct world *world, unsigned int index,
					 const struct world_config *config)
{
	struct simhca_device_config device = config->device;
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };
	struct simhca_device *made;
	struct simhca_why why;

	snprintf(device.name, sizeof(device.name), "test%u", index);
	device.infiniband = config->infiniband;
	device.node_guid = 0x0200000000000001ull + index;
	device.sys_image_guid = device.node_guid;
	device.lid = config->infiniband ? DEVICE_LID(index) : 0;
	if (!device.mtu)
		device.mtu = 4096;
	made = simhca_device_create(world->fabric, &device, &why);
	if (!made)
		fail_msg("device: %s", why.text);
	if (!config->infiniband) {
		for (unsigned int i = 0; i < 2; i++) {
			gids[i].gid = device_gid(index, i);
			gids[i].type = SIMHCA_GID_ROCE_V2;
			gids[i].ifindex = 1;
		}
		simhca_device_set_gids(made, gids);
		simhca_device_set_port(made, true);
	}
	return made;
}

struct world *world_new(const struct world_config *config)
{
	struct world *world = calloc(1, sizeof(*world));
	struct simhca_ops ops = {
		.comp_event = on_comp_event,
		.async_event = on_async_event,
		.log = on_log,
	};
	struct simhca_engine_config engine = { 0 };

	assert_non_null(world);
	atomic_init(&world->now, 1000 * SEC);
	world->threaded = config->threads;
	world->second_threads = config->lanes && !config->deaf_lane;
	world->ring_lane = 2;
	if (config->lanes) { /* Where there is no CPU 1 the two share CPU 0. */
		engine.num_cpus = 2;
		engine.cpu[1] = 1;
	}
	world->infiniband = config->infiniband;
	world->engines = config->threads ? config->threads : 1;
	world->fabric = simhca_fabric_create(&ops);
	assert_non_null(world->fabric);
	if (!world->threaded) {
		engine.clock_ns = test_clock;
		engine.clock_arg = world;
	}
	for (unsigned int i = 0; i < world->engines; i++) {
		world->engine[i] = simhca_engine_create(world->fabric, &engine);
		assert_non_null(world->engine[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		world->device[i] = make_device(world, i, config);
	for (unsigned int i = 0; world->threaded && i < world->engines; i++)
		assert_int_equal(0, pthread_create(&world->thread[i], NULL, engine_thread,
						   world->engine[i]));
	for (unsigned int i = 0; world->second_threads && i < world->engines; i++)
		assert_int_equal(0, pthread_create(&world->second_thread[i], NULL, second_thread,
						   world->engine[i]));
	return world;
}

void world_free(struct world *world)
{
	void *failed;

	for (struct client *client = world->clients; client; client = client->next)
		client_gone(client);
	for (unsigned int i = 0; world->threaded && i < world->engines; i++) {
		simhca_engine_stop(world->engine[i]);
		pthread_join(world->thread[i], &failed);
		assert_null(failed);
		if (!world->second_threads)
			continue;
		pthread_join(world->second_thread[i], &failed);
		assert_null(failed);
	}
	for (struct client *client = world->clients; client; client = client->next) {
		for (unsigned int i = 0; i < SIMHCA_MAX_SEGMENTS; i++)
			if (client->segment[i] && !SHARE_MAPPING)
				munmap(client->segment[i], client->segment_size[i]);
		pthread_mutex_destroy(&client->event_lock);
	}
	for (unsigned int i = 0; i < 2; i++)
		simhca_device_destroy(world->device[i]);
	for (unsigned int i = 0; i < world->engines; i++)
		simhca_engine_destroy(world->engine[i]);
	simhca_fabric_destroy(world->fabric);
	while (world->blocks) {
		struct block *block = world->blocks;

		world->blocks = block->next;
		free(block->memory);
		free(block);
	}
	free(world);
}

static int setup(void **state, bool infiniband, unsigned int threads)
{
	*state = world_new(&(struct world_config){ .infiniband = infiniband, .threads = threads });
	return 0;
}

int setup_ethernet(void **state)
{
	return setup(state, false, 0);
}

int setup_infiniband(void **state)
{
	return setup(state, true, 0);
}

int setup_one_thread(void **state)
{
	return setup(state, false, 1);
}

int setup_two_threads(void **state)
{
	return setup(state, false, 2);
}

int setup_lanes(void **state)
{
	*state = world_new(&(struct world_config){ .threads = 1, .lanes = true });
	return 0;
}

int teardown(void **state)
{
	world_free(*state);
	return 0;
}

static bool poll_all(struct world *world)
{
	bool busy = false;

	for (unsigned int i = 0; i < world->engines; i++)
		busy |= simhca_engine_poll(world->engine[i]);
	return busy;
}

static bool quiet(struct world *world)
{
	for (unsigned int i = 0; i < IDLE_ROUNDS; i++)
		if (!poll_all(world))
			return true;
	return false;
}

void settle(struct world *world)
{
	assert_false(world->threaded);
	if (!quiet(world))
		fail_msg("the engine does not come to rest");
}

void rounds(struct world *world, unsigned int count)
{
	while (count--)
		poll_all(world);
}

void advance(struct world *world, uint64_t ns)
{
	settle(world); /* what was posted before begins before */
	atomic_fetch_add_explicit(&world->now, ns, memory_order_relaxed);
	settle(world);
}

/* ----------------------------------------------------------------------------- client */

struct client *client_new_on(struct world *world, unsigned int device, unsigned int engine)
{
	struct client *client = world_alloc(world, sizeof(*client));
	struct simhca_why why = { .text = "" };

	client->world = world;
	client->device_index = device;
	pthread_mutex_init(&client->event_lock, NULL);
	client->context = simhca_context_create(
		world->device[device], world->engine[engine % world->engines], client, &why);
	if (!client->context)
		fail_msg("context: %s", why.text);
	client->next = world->clients;
	world->clients = client;
	client->mm = simhca_context_mm(client->context, getpid());
	assert_non_null(client->mm);
	client->mem = client_at(client, &(struct simhca_mem_ref){ .segment = 0, .offset = 0 });
	assert_int_equal(client->mem->abi_version, SIMHCA_ABI_VERSION);
	assert_int_equal(client->mem->context_id, simhca_context_id(client->context));
	client->pd = pd_new(client);
	return client;
}

struct client *client_new(struct world *world, unsigned int device)
{
	return client_new_on(world, device, device);
}

void client_gone(struct client *client)
{
	if (client->context)
		assert_int_equal(0,
				 patiently(simhca_context_destroy(client->context) ? 0 : -EAGAIN));
	client->context = NULL;
}

void *client_at(struct client *client, const struct simhca_mem_ref *ref)
{
	uint64_t size;
	int fd;

	assert_in_range(ref->segment, 0, SIMHCA_MAX_SEGMENTS - 1);
	if (SHARE_MAPPING) {
		assert_true(ref->segment < client->context->segments);
		client->segment[ref->segment] = client->context->segment[ref->segment].base;
		client->segment_size[ref->segment] = client->context->segment[ref->segment].size;
	} else if (!client->segment[ref->segment]) {
		fd = simhca_context_segment(client->context, ref->segment, &size);
		assert_true(fd >= 0);
		client->segment[ref->segment] =
			mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(client->segment[ref->segment], MAP_FAILED);
		client->segment_size[ref->segment] = size;
	}
	assert_true(ref->offset < client->segment_size[ref->segment]);
	return (char *)client->segment[ref->segment] + ref->offset;
}

void ring_doorbell(struct client *client, uint32_t slot)
{
	struct simhca_ctx_mem *mem = client->mem;
	uint64_t one = 1;

	atomic_fetch_or(&mem->leaf[slot / 64], 1ull << (slot % 64));
	atomic_fetch_or(&mem->mid[slot / 4096], 1ull << (slot / 64 % 64));
	atomic_fetch_or(&mem->top, 1ull << (slot / 4096));
	if (atomic_load(&mem->armed) && atomic_exchange(&mem->armed, 0)) {
		struct simhca_doorbells doorbells;
		unsigned int lane;
		ssize_t n;

		/* Any of them will do. */
		simhca_context_doorbells(client->context, &doorbells);
		lane = client->world->ring_lane < 2 ? client->world->ring_lane : client->rings++;
		n = write(doorbells.lane[lane % doorbells.count].fd, &one, sizeof(one));
		(void)n; /* a full counter wakes just as well */
	}
}

unsigned int events_of(struct client *client, const void *element, uint32_t type)
{
	unsigned int count = 0;

	pthread_mutex_lock(&client->event_lock);
	for (unsigned int i = 0; i < client->num_events; i++)
		if (client->event[i].element == (uintptr_t)element && client->event[i].type == type)
			count++;
	pthread_mutex_unlock(&client->event_lock);
	return count;
}

void forget_events(struct client *client)
{
	pthread_mutex_lock(&client->event_lock);
	client->num_events = 0;
	pthread_mutex_unlock(&client->event_lock);
}

uint32_t pd_new(struct client *client)
{
	struct simhca_handle reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (simhca_alloc_pd(client->context, &reply, &why))
		fail_msg("alloc_pd: %s", why.text);
	return reply.handle;
}

/* ------------------------------------------------------------------------------ memory */

int mr_try(struct client *client, uint32_t pd, void *addr, uint64_t length, uint64_t iova,
	   uint32_t access, struct simhca_reg_mr_reply *reply)
{
	struct simhca_reg_mr_req req = {
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.pd = pd,
		.access = access,
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
	const struct simhca_devmem *mem =
		simhca_device_memory(client->world->device[client->device_index]);

	return (const struct simhca_mpt *)((const char *)mem + mem->mpt_offset) +
	       SIMHCA_KEY_INDEX(key);
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

/* --------------------------------------------------------------------------------- CQ */

struct cq *cq_new_flags(struct client *client, uint32_t cqe, uint32_t flags)
{
	struct cq *cq = world_alloc(client->world, sizeof(*cq));
	struct simhca_create_cq_req req = {
		.user_handle.element = (uintptr_t)cq,
		.channel = 1,
		.cqe = cqe,
		.flags = flags,
	};
	struct simhca_create_cq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (simhca_create_cq(client->context, &req, &reply, &why))
		fail_msg("create_cq: %s", why.text);
	assert_true(reply.cqe >= cqe && reply.entries >= reply.cqe);
	cq->client = client;
	cq->handle = reply.handle;
	cq->cqe = reply.cqe;
	cq->entries = reply.entries;
	cq->state = client_at(client, &reply.state);
	cq->ring = client_at(client, &reply.ring);
	return cq;
}

struct cq *cq_new(struct client *client, uint32_t cqe)
{
	return cq_new_flags(client, cqe, 0);
}

int cq_resize(struct cq *cq, uint32_t cqe)
{
	struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = cqe };
	struct simhca_create_cq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_resize_cq(cq->client->context, &req, &reply, &why));

	if (error)
		return error;
	cq->cqe = reply.cqe;
	cq->entries = reply.entries;
	cq->state = client_at(cq->client, &reply.state);
	cq->ring = client_at(cq->client, &reply.ring);
	return 0;
}

void cq_arm(struct cq *cq, uint32_t bits)
{
	uint32_t old = atomic_load(&cq->state->arm), now;

	do {
		now = (old & ~SIMHCA_ARM_BITS) + SIMHCA_ARM_BITS + 1;
		/* An arm for any completion is not weakened by one for solicited ones. */
		now |= (old & SIMHCA_ARM_BITS) == SIMHCA_ARM_NEXT ? SIMHCA_ARM_NEXT : bits;
	} while (!atomic_compare_exchange_weak(&cq->state->arm, &old, now));
}

bool cq_poll(struct cq *cq, struct simhca_cqe *cqe)
{
	struct simhca_cqe *slot = &cq->ring[cq->ci & (cq->entries - 1)];

	/* acquire: what the device wrote before seq is there once seq is. */
	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != cq->ci + 1)
		return false;
	memcpy(cqe, slot, offsetof(struct simhca_cqe, seq));
	cq->ci++;
	/* release: the slot may be written again only after it was read. */
	atomic_store_explicit(&cq->state->ci, cq->ci, memory_order_release);
	return true;
}

bool cq_wait(struct cq *cq, struct simhca_cqe *cqe)
{
	struct timespec nap = { .tv_nsec = 100 * 1000 };

	if (cq_poll(cq, cqe))
		return true;
	if (!cq->client->world->threaded) {
		for (unsigned int i = 0; i < IDLE_ROUNDS; i++) {
			bool busy = poll_all(cq->client->world);

			if (cq_poll(cq, cqe))
				return true;
			if (!busy)
				return false;
		}
		return false;
	}
	for (unsigned int naps = 0; naps < THREADED_WAIT_MS * 10;) {
		for (unsigned int i = 0; i < 100; i++) {
			if (cq_poll(cq, cqe))
				return true;
			sched_yield();
		}
		nanosleep(&nap, NULL);
		naps++;
	}
	return false;
}

struct simhca_cqe expect_(struct cq *cq, uint64_t wr_id, int status, int reason, const char *file,
			  int line)
{
	struct simhca_cqe cqe;

	memset(&cqe, 0, sizeof(cqe));
	if (!cq_wait(cq, &cqe)) {
		print_error("%s:%d: no completion of %llu\n", file, line,
			    (unsigned long long)wr_id);
		_fail(file, line);
	}
	if (cqe.wr_id != wr_id || cqe.status != status ||
	    (reason >= 0 && cqe.vendor_err != (uint32_t)reason)) {
		print_error("%s:%d: expected %llu: %s", file, line, (unsigned long long)wr_id,
			    ibv_wc_status_str(status));
		if (reason >= 0)
			print_error(" (%s)", simhca_reason_text(reason));
		print_error(", got %llu: %s (%s)\n", (unsigned long long)cqe.wr_id,
			    ibv_wc_status_str(cqe.status), simhca_reason_text(cqe.vendor_err));
		_fail(file, line);
	}
	if (status == IBV_WC_SUCCESS && cqe.vendor_err != SIMHCA_REASON_NONE) {
		print_error("%s:%d: a success with a reason\n", file, line);
		_fail(file, line);
	}
	if (status != IBV_WC_SUCCESS && cqe.vendor_err == SIMHCA_REASON_NONE) {
		print_error("%s:%d: an error without a reason\n", file, line);
		_fail(file, line);
	}
	return cqe;
}

void expect_none_(struct cq *cq, const char *file, int line)
{
	struct simhca_cqe cqe;

	if (!cq_wait(cq, &cqe))
		return;
	print_error("%s:%d: expected no completion, got %llu: %s (%s)\n", file, line,
		    (unsigned long long)cqe.wr_id, ibv_wc_status_str(cqe.status),
		    simhca_reason_text(cqe.vendor_err));
	_fail(file, line);
}

/* -------------------------------------------------------------------------------- SRQ */

static void srq_take_reply(struct srq *srq, const struct simhca_create_srq_reply *reply)
{
	srq->handle = reply->handle;
	srq->srqn = reply->srqn;
	srq->max_wr = reply->max_wr;
	srq->max_sge = reply->max_sge;
	srq->entries = reply->entries;
	srq->stride = reply->stride;
	srq->state = client_at(srq->client, &reply->state);
	srq->ring = client_at(srq->client, &reply->ring);
}

static struct srq *make_srq(struct client *client, struct simhca_create_srq_req req)
{
	struct srq *srq = world_alloc(client->world, sizeof(*srq));
	struct simhca_create_srq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	req.user_handle.element = (uintptr_t)srq;
	req.pd = client->pd;
	if (simhca_create_srq(client->context, &req, &reply, &why))
		fail_msg("create_srq: %s", why.text);
	srq->client = client;
	srq_take_reply(srq, &reply);
	return srq;
}

struct srq *srq_new(struct client *client, uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	return make_srq(client, (struct simhca_create_srq_req){
					.max_wr = max_wr,
					.max_sge = max_sge,
					.limit = limit,
				});
}

struct srq *xrc_srq_new(struct client *client, uint32_t xrcd, struct cq *cq, uint32_t max_wr)
{
	return make_srq(client, (struct simhca_create_srq_req){
					.type = SIMHCA_SRQT_XRC,
					.xrcd = xrcd,
					.cq = cq->handle,
					.max_wr = max_wr,
					.max_sge = 2,
				});
}

struct srq *tm_srq_new(struct client *client, struct cq *cq, uint32_t max_wr, uint32_t max_tags)
{
	return make_srq(client, (struct simhca_create_srq_req){
					.type = SIMHCA_SRQT_TM,
					.cq = cq->handle,
					.max_wr = max_wr,
					.max_sge = 2,
					.max_tags = max_tags,
				});
}

int srq_modify(struct srq *srq, uint32_t mask, uint32_t max_wr, uint32_t limit)
{
	struct simhca_modify_srq_req req = {
		.handle = srq->handle,
		.mask = mask,
		.max_wr = max_wr,
		.limit = limit,
	};
	struct simhca_create_srq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_modify_srq(srq->client->context, &req, &reply, &why));

	if (!error && mask & SIMHCA_SRQ_MAX_WR)
		srq_take_reply(srq, &reply);
	return error;
}

static void write_recv(uint8_t *slot, uint64_t wr_id, const struct simhca_sge *sges,
		       uint32_t num_sge)
{
	struct simhca_recv_wqe header = { .wr_id = wr_id, .num_sge = num_sge };

	memcpy(slot, &header, sizeof(header));
	if (num_sge)
		memcpy(slot + sizeof(header), sges, num_sge * sizeof(*sges));
}

void srq_recv(struct srq *srq, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge)
{
	assert_true(num_sge <= srq->max_sge);
	assert_true(srq->pi - atomic_load_explicit(&srq->state->ci, memory_order_acquire) <
		    srq->max_wr);
	write_recv(srq->ring + (size_t)(srq->pi & (srq->entries - 1)) * srq->stride, wr_id, sges,
		   num_sge);
	atomic_store_explicit(&srq->state->pi, ++srq->pi, memory_order_release);
}

/* --------------------------------------------------------------------------------- QP */

struct options default_options(enum ibv_qp_type type)
{
	return (struct options){
		.type = type,
		.max_send_wr = 64,
		.max_recv_wr = 64,
		.max_send_sge = 4,
		.max_recv_sge = 4,
		.max_inline = 256,
		.cqe = 256,
		.access = SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |
			  SIMHCA_ACCESS_REMOTE_ATOMIC,
		.mr_access = ALL_ACCESS,
		.buffer = 64 * 1024,
		.path_mtu = IBV_MTU_1024,
		.psn = 0x123456,
		.qkey = 0x11111111,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
	};
}

struct qp *qp_new_in(struct client *client, uint32_t pd, const struct options *options,
		     struct cq *send_cq, struct cq *recv_cq, struct srq *srq)
{
	struct qp *qp = world_alloc(client->world, sizeof(*qp));
	const bool no_rq = srq || options->type == IBV_QPT_XRC_SEND;
	struct simhca_create_qp_req req = {
		.user_handle.element = (uintptr_t)qp,
		.type = options->type,
		.pd = pd,
		.send_cq = send_cq->handle,
		.recv_cq = recv_cq->handle,
		.srq = srq ? srq->handle : 0,
		.has_srq = srq != NULL,
		.max_send_wr = options->max_send_wr,
		.max_recv_wr = no_rq ? 0 : options->max_recv_wr,
		.max_send_sge = options->max_send_sge,
		.max_recv_sge = no_rq ? 0 : options->max_recv_sge,
		.max_inline = options->max_inline,
		.sq_sig_all = options->sq_sig_all,
		.strip_cvlan = options->strip_cvlan,
	};
	struct simhca_why why = { .text = "" };

	if (simhca_create_qp(client->context, &req, &qp->granted, &why))
		fail_msg("create_qp: %s", why.text);
	qp->client = client;
	qp->type = options->type;
	qp->handle = qp->granted.handle;
	qp->qpn = qp->granted.qpn;
	qp->doorbell = qp->granted.doorbell;
	qp->pd = pd;
	qp->state = client_at(client, &qp->granted.state);
	if (qp->granted.sq_entries)
		qp->sq = client_at(client, &qp->granted.sq);
	if (qp->granted.rq_entries)
		qp->rq = client_at(client, &qp->granted.rq);
	return qp;
}

struct qp *qp_new(struct client *client, const struct options *options, struct cq *send_cq,
		  struct cq *recv_cq, struct srq *srq)
{
	return qp_new_in(client, client->pd, options, send_cq, recv_cq, srq);
}

struct simhca_av av_to(const struct world *world, unsigned int device, unsigned int gid_index)
{
	if (world->infiniband)
		return (struct simhca_av){ .dlid = DEVICE_LID(device), .port_num = 1 };
	return (struct simhca_av){
		.dgid = device_gid(device, gid_index),
		.sgid_index = (uint8_t)gid_index,
		.hop_limit = 64,
		.is_global = 1,
		.port_num = 1,
	};
}

struct simhca_qp_attr qp_attr_to(const struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
				 const struct options *options)
{
	return (struct simhca_qp_attr){
		.port_num = 1,
		.pkey_index = 0,
		.qkey = options->qkey,
		.qp_access_flags = options->access,
		.path_mtu = options->path_mtu,
		.dest_qp_num = peer_qpn,
		.rq_psn = options->psn,
		.sq_psn = options->psn,
		.max_rd_atomic = options->max_rd_atomic,
		.max_dest_rd_atomic = options->max_dest_rd_atomic,
		.min_rnr_timer = options->min_rnr_timer,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.av = av_to(qp->client->world, peer_device, options->gid_index),
	};
}

uint32_t init_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET)
		return SIMHCA_QP_STATE | SIMHCA_QP_PORT;
	return SIMHCA_QP_STATE | SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT |
	       (type == IBV_QPT_UD ? SIMHCA_QP_QKEY : SIMHCA_QP_ACCESS_FLAGS);
}

uint32_t rtr_mask(enum ibv_qp_type type)
{
	uint32_t mask = SIMHCA_QP_STATE;

	if (type == IBV_QPT_RAW_PACKET)
		return mask;
	if (type != IBV_QPT_UD)
		mask |= SIMHCA_QP_AV | SIMHCA_QP_PATH_MTU | SIMHCA_QP_DEST_QPN | SIMHCA_QP_RQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= SIMHCA_QP_MAX_DEST_RD_ATOMIC | SIMHCA_QP_MIN_RNR_TIMER;
	return mask;
}

uint32_t rts_mask(enum ibv_qp_type type)
{
	uint32_t mask = SIMHCA_QP_STATE | SIMHCA_QP_SQ_PSN;

	if (type == IBV_QPT_RAW_PACKET)
		return SIMHCA_QP_STATE;
	if (type == IBV_QPT_XRC_RECV)
		mask |= SIMHCA_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= SIMHCA_QP_TIMEOUT | SIMHCA_QP_RETRY_CNT | SIMHCA_QP_RNR_RETRY |
			SIMHCA_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

int qp_modify(struct qp *qp, uint32_t mask, struct simhca_qp_attr attr)
{
	struct simhca_modify_qp_req req = { .handle = qp->handle, .mask = mask, .attr = attr };
	struct simhca_modify_qp_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_modify_qp(qp->client->context, &req, &reply, &why));

	if (error) {
		if (getenv("SIMHCA_TEST_LOG"))
			print_message("[      LOG ] modify_qp: %s\n", why.text);
		assert_true(error < 0);
		return error;
	}
	if (mask & SIMHCA_QP_STATE)
		assert_int_equal(reply.state, attr.qp_state);
	if (mask & SIMHCA_QP_STATE && attr.qp_state == IBV_QPS_RESET) {
		qp->sq_pi = atomic_load(&qp->state->sq_pi);
		qp->rq_pi = atomic_load(&qp->state->rq_pi);
	}
	return 0;
}

int qp_move(struct qp *qp, enum ibv_qp_state state)
{
	return qp_modify(qp, SIMHCA_QP_STATE, (struct simhca_qp_attr){ .qp_state = state });
}

void qp_up_to(struct qp *qp, enum ibv_qp_state state, struct simhca_qp_attr attr)
{
	static const enum ibv_qp_state up[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	uint32_t mask[] = { init_mask(qp->type), rtr_mask(qp->type), rts_mask(qp->type) };

	for (unsigned int i = 0; i < ARRAY_SIZE(up) && up[i] <= state; i++) {
		attr.qp_state = up[i];
		assert_int_equal(0, qp_modify(qp, mask[i], attr));
	}
}

void qp_connect(struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
		const struct options *options)
{
	qp_up_to(qp, IBV_QPS_RTS, qp_attr_to(qp, peer_device, peer_qpn, options));
}

struct simhca_qp_attr qp_query(struct qp *qp)
{
	struct simhca_query_qp_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (patiently(simhca_query_qp(qp->client->context, qp->handle, &reply, &why)))
		fail_msg("query_qp: %s", why.text);
	return reply.attr;
}

enum ibv_qp_state qp_state(struct qp *qp)
{
	return qp_query(qp).qp_state;
}

struct simhca_send_wqe *qp_put(struct qp *qp, const struct wr *wr)
{
	uint8_t *slot =
		qp->sq + (size_t)(qp->sq_pi & (qp->granted.sq_entries - 1)) * qp->granted.sq_stride;
	struct simhca_send_wqe wqe = {
		.wr_id = wr->id,
		.opcode = wr->opcode,
		.flags = wr->flags | wr->also,
		.num_sge = (uint8_t)wr->num_sge,
		.imm_or_rkey = wr->imm,
		.xrc_srqn = wr->srqn,
	};

	assert_true(qp->sq_pi - atomic_load_explicit(&qp->state->sq_ci, memory_order_acquire) <
		    qp->granted.max_send_wr);
	if (qp->type == IBV_QPT_UD) {
		wqe.ud.av = wr->av;
		wqe.ud.dest_qpn = wr->dest_qpn;
		wqe.ud.qkey = wr->qkey;
	} else if (wr->opcode == SIMHCA_WR_BIND_MW) {
		wqe.bind.addr = wr->addr;
		wqe.bind.length = wr->length;
		wqe.bind.mw = wr->mw;
		wqe.bind.new_rkey = wr->key;
		wqe.bind.lkey = wr->lkey;
		wqe.bind.access = wr->access;
		wqe.bind.type = wr->mw_type;
	} else if (wr->opcode == SIMHCA_WR_FAST_REG) {
		wqe.fast_reg.iova = wr->addr;
		wqe.fast_reg.length = wr->length;
		wqe.fast_reg.page_list = (uintptr_t)wr->pages;
		wqe.fast_reg.num_pages = wr->num_pages;
		wqe.fast_reg.page_shift = wr->page_shift;
		wqe.fast_reg.access = wr->access;
		if (wr->num_pages <= SIMHCA_MAX_FAST_REG_PAGES)
			wqe.page_list_sum = simhca_page_list_sum(wr->pages, wr->num_pages);
		wqe.fast_reg.key = wr->key;
	} else {
		wqe.rdma.remote_addr = wr->remote_addr;
		wqe.rdma.compare_add = wr->compare_add;
		wqe.rdma.swap = wr->swap;
		wqe.rdma.rkey = wr->rkey;
	}
	if (wr->inline_data) {
		assert_true(wr->inline_len <= qp->granted.max_inline);
		wqe.flags |= SIMHCA_WQE_INLINE;
		wqe.inline_len = wr->inline_len;
		memcpy(slot + sizeof(wqe), wr->inline_data, wr->inline_len);
	} else if (wr->num_sge) {
		assert_true(wr->num_sge <= qp->granted.max_send_sge);
		memcpy(slot + sizeof(wqe), wr->sges, wr->num_sge * sizeof(*wr->sges));
	}
	memcpy(slot, &wqe, sizeof(wqe));
	/* release: the device that sees the index sees the WQE. */
	atomic_store_explicit(&qp->state->sq_pi, ++qp->sq_pi, memory_order_release);
	return (struct simhca_send_wqe *)slot;
}

void qp_ring(struct qp *qp)
{
	ring_doorbell(qp->client, qp->doorbell);
}

void qp_post(struct qp *qp, const struct wr *wr)
{
	qp_put(qp, wr);
	qp_ring(qp);
}

void qp_bind(struct qp *qp, uint64_t id, struct mw *mw, const struct mr *mr, uint64_t offset,
	     uint64_t length, uint32_t access)
{
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_BIND_MW,
		.flags = SIMHCA_WQE_SIGNALED,
		.addr = mr ? mr->iova + offset : 0,
		.length = length,
		.mw = mw->rkey,
		.key = simhca_key_next(mw->rkey),
		.lkey = mr ? mr->lkey : 0,
		.access = access,
		.mw_type = mw->type,
	};

	qp_post(qp, &wr);
	mw->rkey = wr.key;
}

void qp_fast_reg(struct qp *qp, uint64_t id, struct mr *mr, const uint64_t *pages,
		 uint32_t num_pages, uint64_t iova, uint64_t length, uint32_t access)
{
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_FAST_REG,
		.flags = SIMHCA_WQE_SIGNALED,
		.addr = iova,
		.length = length,
		.pages = pages,
		.num_pages = num_pages,
		.page_shift = 12,
		.access = access,
		.key = simhca_key_next(mr->lkey),
	};

	qp_post(qp, &wr);
	mr->iova = iova;
	mr->length = length;
	mr->lkey = mr->rkey = wr.key;
}

void qp_local_inv(struct qp *qp, uint64_t id, uint32_t key)
{
	qp_post(qp, &(struct wr){ .id = id,
				  .opcode = SIMHCA_WR_LOCAL_INV,
				  .flags = SIMHCA_WQE_SIGNALED,
				  .imm = key });
}

void qp_recv(struct qp *qp, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge)
{
	assert_true(num_sge <= qp->granted.max_recv_sge);
	assert_true(qp->rq_pi - atomic_load_explicit(&qp->state->rq_ci, memory_order_acquire) <
		    qp->granted.max_recv_wr);
	write_recv(qp->rq + (size_t)(qp->rq_pi & (qp->granted.rq_entries - 1)) *
				    qp->granted.rq_stride,
		   wr_id, sges, num_sge);
	atomic_store_explicit(&qp->state->rq_pi, ++qp->rq_pi, memory_order_release);
	/* A QP in the error state must be told, or nobody flushes the new request. */
	qp_ring(qp);
}

/* ------------------------------------------------------------------------ two QPs talk */

void side_make(struct side *side, struct client *client, const struct options *options,
	       struct srq *srq)
{
	side->world = client->world;
	side->client = client;
	side->options = *options;
	side->send_cq = cq_new(client, options->cqe);
	side->recv_cq = cq_new(client, options->cqe);
	side->qp = qp_new(client, options, side->send_cq, side->recv_cq, srq);
	side->mr = mr_new(client, options->buffer, options->mr_access);
}

struct side *side_new(struct client *client, const struct options *options)
{
	struct side *side = world_alloc(client->world, sizeof(*side));

	side_make(side, client, options, NULL);
	return side;
}

struct pair *pair_unconnected(struct world *world, const struct options *options)
{
	struct pair *pair = world_alloc(world, sizeof(*pair));
	unsigned int other = options->same_device || options->same_context ? 0 : 1;
	struct client *client = client_new_on(world, 0, 0);

	side_make(&pair->a, client, options, NULL);
	if (!options->same_context)
		client = client_new_on(world, other, 1);
	side_make(&pair->b, client, options, NULL);
	pair->a.peer = &pair->b;
	pair->b.peer = &pair->a;
	return pair;
}

static void connect_side(struct side *side)
{
	qp_connect(side->qp, side->peer->client->device_index, side->peer->qp->qpn, &side->options);
}

void pair_connect(struct pair *pair)
{
	connect_side(&pair->a);
	connect_side(&pair->b);
}

struct pair *pair_new(struct world *world, const struct options *options)
{
	struct pair *pair = pair_unconnected(world, options);

	pair_connect(pair);
	return pair;
}

void pair_reconnect(struct pair *pair)
{
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_RESET));
	pair_connect(pair);
}

void send_from(struct side *side, uint64_t id, uint64_t offset, uint32_t length)
{
	struct simhca_sge one = sge(side->mr, offset, length);
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_SEND,
		.flags = SIMHCA_WQE_SIGNALED,
		.sges = &one,
		.num_sge = 1,
	};

	if (side->qp->type == IBV_QPT_UD) {
		wr.av = av_to(side->world, side->peer->client->device_index,
			      side->options.gid_index);
		wr.dest_qpn = side->peer->qp->qpn;
		wr.qkey = side->peer->options.qkey;
	}
	qp_post(side->qp, &wr);
}

void recv_into(struct side *side, uint64_t id, uint64_t offset, uint32_t length)
{
	struct simhca_sge one = sge(side->mr, offset, length);

	qp_recv(side->qp, id, &one, 1);
}

static void post_rdma(struct side *side, uint8_t opcode, uint64_t id, uint64_t offset,
		      uint32_t length, uint64_t peer_offset)
{
	post(side, .id = id, .opcode = opcode, SGES(sge(side->mr, offset, length)),
	     .remote_addr = side->peer->mr->iova + peer_offset, .rkey = side->peer->mr->rkey);
}

void rdma_write(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
		uint64_t peer_offset)
{
	post_rdma(side, SIMHCA_WR_RDMA_WRITE, id, offset, length, peer_offset);
}

void rdma_read(struct side *side, uint64_t id, uint64_t offset, uint32_t length,
	       uint64_t peer_offset)
{
	post_rdma(side, SIMHCA_WR_RDMA_READ, id, offset, length, peer_offset);
}

void check_works_(struct pair *pair, const char *file, int line)
{
	const uint32_t length = 3000, grh = pair->a.qp->type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
	const uint64_t id = 0x600d;

	fill(pair->a.mr->addr, length, 0x600d);
	memset(pair->b.mr->addr, 0, length + grh);
	recv_into(&pair->b, id, 0, length + grh);
	send_from(&pair->a, id, 0, length);
	expect_(pair->a.send_cq, id, IBV_WC_SUCCESS, -1, file, line);
	expect_(pair->b.recv_cq, id, IBV_WC_SUCCESS, -1, file, line);
	if (!filled(pair->b.mr->addr + grh, length, 0x600d)) {
		print_error("%s:%d: the message arrived changed\n", file, line);
		_fail(file, line);
	}
}
