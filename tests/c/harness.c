/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A world: fabric, engines and devices; and its clients. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/context.h"
#include "harness.h"
#include "core/device.h"
#include "core/fabric.h"
#include "lossy.h"
#include "wire_net.h"

/*
 * ThreadSanitizer knows memory by its address: seen through two mappings, indices and sequence
 * numbers would order nothing for it. Under it clients share the model's mapping.
 */
#define SHARE_MAPPING UNDER_TSAN

/* The call itself: midway.c has its own process_vm_readv(). */
static bool is_emulated(void)
{
	return syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) < 0 && errno == ENOSYS;
}

void need_process_vm(void)
{
	if (is_emulated())
		skip();
}

void need_wake_ups(void)
{
	if (is_emulated())
		skip();
}

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

	return atomic_fetch_add_explicit(&world->now, world->ns_per_look, memory_order_relaxed);
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

static void on_async_event(void *context_arg, struct simhca_user_handle user, uint32_t number,
			   uint32_t type)
{
	struct client *client = context_arg;

	pthread_mutex_lock(&client->event_lock);
	if (client->num_events < ARRAY_SIZE(client->event))
		client->event[client->num_events++] = (struct async_event){ user.element, type };
	pthread_mutex_unlock(&client->event_lock);
	if (client->on_async)
		client->on_async(client);
}

static void on_log(void *arg, enum simhca_log_level level, const char *line)
{
	struct world *world = arg;
	size_t used, needs = strlen(line) + 2;

	if (getenv("SIMHCA_TEST_LOG"))
		print_message("[      LOG ] %d %s\n", level, line);
	pthread_mutex_lock(&world->log_lock);
	used = strlen(world->log);
	if (used + needs > sizeof(world->log))
		used = 0;
	snprintf(world->log + used, sizeof(world->log) - used, "%s\n", line);
	pthread_mutex_unlock(&world->log_lock);
}

unsigned int logged(struct world *world, const char *words)
{
	unsigned int lines = 0;

	pthread_mutex_lock(&world->log_lock);
	for (const char *at = world->log; (at = strstr(at, words)); lines++) {
		at = strchr(at, '\n');
		assert_non_null(at);
	}
	pthread_mutex_unlock(&world->log_lock);
	return lines;
}

void forget_log(struct world *world)
{
	pthread_mutex_lock(&world->log_lock);
	world->log[0] = 0;
	pthread_mutex_unlock(&world->log_lock);
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

/* All tests over packets in bytes. */
static bool over_wire(const struct world_config *config)
{
	const char *link = getenv("SIMHCA_TEST_LINK");

	return link && !strcmp(link, "wire") && !config->threads && !config->infiniband;
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
	device.wire = world->fabric->wire;
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

static void on_frame(void *arg, const struct simhca_frame_facts *facts, const uint8_t *bytes,
		     uint32_t length)
{
	const uint32_t bth = 14 + (bytes[12] == 0x08 ? 20 : 40) + 8;
	struct world *world = arg;

	(void)facts;
	assert_true(length > bth);
	atomic_fetch_add(&world->tapped[bytes[bth]], 1);
	atomic_fetch_add(&world->tapped_bytes, length);
}

struct world *world_new(const struct world_config *config)
{
	struct world *world = calloc(1, sizeof(*world));
	struct simhca_ops ops = {
		.comp_event = on_comp_event,
		.async_event = on_async_event,
		.log = on_log,
		.frame = on_frame,
		.arg = world,
	};
	struct simhca_engine_config engine = { 0 };

	/*
	 * Large buffers are mapped, not kept: fork() would copy what was ever touched. The small
	 * ones are: a heap that shrinks and grows with each packet has new pages each time.
	 */
	mallopt(M_MMAP_THRESHOLD, 1 << 16);
	mallopt(M_TRIM_THRESHOLD, 8 << 20);
	assert_non_null(world);
	pthread_mutex_init(&world->log_lock, NULL);
	atomic_init(&world->now, 1000 * SEC);
	world->threaded = config->threads;
	world->second_threads = config->two_cpus && !config->deaf_cpu;
	world->ring_cpu_index = 2;
	if (config->two_cpus) { /* Where there is no CPU 1 the two share CPU 0. */
		engine.num_cpus = 2;
		engine.cpu[1] = 1;
	}
	world->infiniband = config->infiniband;
	world->engines = config->threads ? config->threads : 1;
	world->fabric = simhca_fabric_create(&ops);
	assert_non_null(world->fabric);
	world->ns_per_look = config->ns_per_look;
	if (!world->threaded || world->ns_per_look) {
		engine.clock_ns = test_clock;
		engine.clock_arg = world;
	}
	for (unsigned int i = 0; i < world->engines; i++) {
		world->engine[i] = simhca_engine_create(world->fabric, &engine);
		assert_non_null(world->engine[i]);
	}
	if (over_wire(config) || config->device.wire)
		wire_net_use(world, over_wire(config));
	if (world->fabric->wire || (getenv("SIMHCA_TEST_LINK") && !world->threaded))
		lossy_use(world, NULL); /* all tests over packets of the path MTU */
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

bool world_has_wire(const struct world *world)
{
	return world->fabric->wire;
}

void world_free(struct world *world)
{
	void *failed;

	for (struct client *client = world->clients; client; client = client->next)
		client_gone(client);
	if (world->tick)
		lossy_end();
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
		for (unsigned int i = 0; i < ARRAY_SIZE(client->segment); i++)
			if (client->segment[i].addr && !SHARE_MAPPING)
				munmap(client->segment[i].addr, client->segment[i].size);
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

int setup_two_cpus(void **state)
{
	*state = world_new(&(struct world_config){ .threads = 1, .two_cpus = true });
	return 0;
}

int teardown(void **state)
{
	world_free(*state);
	return 0;
}

bool world_poll(struct world *world)
{
	bool busy = world->tick && world->tick();

	for (unsigned int i = 0; i < world->engines; i++)
		busy |= simhca_engine_poll(world->engine[i]);
	return busy;
}

static bool quiet(struct world *world)
{
	for (unsigned int i = 0; i < IDLE_ROUNDS; i++)
		if (!world_poll(world))
			return true;
	return false;
}

void run_until_idle(struct world *world)
{
	assert_false(world->threaded);
	if (!quiet(world))
		fail_msg("the engine does not come to rest");
}

void rounds(struct world *world, unsigned int count)
{
	while (count--)
		world_poll(world);
}

void advance(struct world *world, uint64_t ns)
{
	run_until_idle(world); /* what was posted before begins before */
	atomic_fetch_add_explicit(&world->now, ns, memory_order_relaxed);
	run_until_idle(world);
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
		assert_int_equal(0, patiently(simhca_context_destroy(client->context, 0) ==
							      SIMHCA_DESTROYED
						      ? 0
						      : -EAGAIN));
	client->context = NULL;
}

static struct mapped *slot_of(struct client *client, uint32_t number)
{
	return &client->segment[number < SIMHCA_MAX_SEGMENTS
					? number
					: SIMHCA_MAX_SEGMENTS + number % SIMHCA_MAX_OWN_SEGMENTS];
}

void *client_at(struct client *client, const struct simhca_mem_ref *ref)
{
	struct mapped *mapped = slot_of(client, ref->segment);
	uint64_t size;
	int fd;

	if (!mapped->addr || mapped->number != ref->segment) {
		fd = simhca_context_segment(client->context, ref->segment, &size);
		assert_true(fd >= 0);
		if (SHARE_MAPPING && ref->segment < SIMHCA_MAX_SEGMENTS)
			mapped->addr = client->context->segment[ref->segment].base;
		else if (SHARE_MAPPING)
			mapped->addr =
				client->context->own_segment[ref->segment % SIMHCA_MAX_OWN_SEGMENTS]
					.base;
		else
			mapped->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(mapped->addr, MAP_FAILED);
		mapped->size = size;
		mapped->number = ref->segment;
	}
	assert_true(ref->offset < mapped->size);
	return (char *)mapped->addr + ref->offset;
}

void client_map_again(struct client *client, uint32_t segment)
{
	struct mapped *mapped = slot_of(client, segment);
	uint64_t size;
	int fd = simhca_context_segment(client->context, segment, &size);

	assert_true(fd >= 0 && mapped->number == segment && mapped->size == size);
	if (!SHARE_MAPPING)
		assert_ptr_equal(mmap(mapped->addr, size, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0),
				 mapped->addr);
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
		unsigned int cpu_index;
		ssize_t n;

		/* Any of them will do. */
		simhca_context_doorbells(client->context, &doorbells);
		cpu_index = client->world->ring_cpu_index < 2 ? client->world->ring_cpu_index
							      : client->rings++;
		n = write(doorbells.eventfd[cpu_index % doorbells.count].fd, &one, sizeof(one));
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
