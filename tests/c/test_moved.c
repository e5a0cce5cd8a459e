/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions of a process's memory that was moved into a file: what a client may say of it, what they become when the
 * file does not help or they are registered again, and what they are to users. The test is the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/context.h"
#include "core/device.h"
#include "harness.h"
#include "memory/key.h"
#include "simhca-info.h"

#define PAGE 4096u
#define LENGTH (8 * PAGE)

static int file_new(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, LENGTH));
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int reg_try(struct client *client, struct simhca_mm *owner, int fd, uint64_t offset,
		   uint64_t length, uint64_t addr, struct simhca_reg_mr_reply *reply)
{
	const struct simhca_reg_dmabuf_mr_req req = { .offset = offset,
						      .length = length,
						      .iova = addr,
						      .addr = addr,
						      .pd = client->pd,
						      .access = ALL_ACCESS };

	*reply = (struct simhca_reg_mr_reply){ 0 };
	return simhca_reg_dmabuf_mr(client->context, owner, fd, &req, reply, NULL);
}

/* As a provider does: the region first, then the memory. */
static struct mr moved_mr(struct client *client, uint8_t *memory, struct simhca_reg_mr_reply *reply)
{
	int fd = file_new(F_SEAL_SHRINK);

	assert_int_equal(0, reg_try(client, client->mm, fd, 0, LENGTH, (uintptr_t)memory, reply));
	assert_ptr_equal(memory, mmap(memory, LENGTH, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0));
	close(fd);
	return (struct mr){ .client = client,
			    .addr = memory,
			    .length = LENGTH,
			    .iova = (uintptr_t)memory,
			    .handle = reply->handle,
			    .lkey = reply->lkey,
			    .rkey = reply->rkey };
}

static uint8_t *memory_new(void)
{
	uint8_t *memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void what_a_client_says(void **state)
{
	static const struct {
		uint64_t offset, length, addr;
	} refused[] = {
		/* Round the end of the address space, and of the numbers. */
		{ 0, 2 * PAGE, UINT64_MAX - PAGE + 1 },
		{ 0, UINT64_MAX, PAGE },
		{ 8, PAGE, UINT64_MAX - 7 },
		{ 8, UINT64_MAX - 8, 8 + PAGE },
		/* To its last byte. */
		{ 0, PAGE, 0 - (uint64_t)PAGE },
		/* Another place in a page than in the file. */
		{ 0, PAGE, PAGE + 8 },
		{ 8, PAGE, PAGE },
		/* None, and beyond the end of the file, are those of REG_MR: none at all is one, and may be anywhere. */
	};
	struct client *client = client_new(*state, 0);
	uint8_t *memory = memory_new();
	struct simhca_reg_mr_reply reply;
	int fd = file_new(F_SEAL_SHRINK);

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(-EINVAL, reg_try(client, client->mm, fd, refused[i].offset,
						  refused[i].length, refused[i].addr, &reply));
	/* Who says it is not known. */
	assert_int_equal(-EINVAL, reg_try(client, NULL, fd, 0, PAGE, (uintptr_t)memory, &reply));
	/* What is behind the file's end does not lie in it. */
	assert_int_equal(0,
			 reg_try(client, client->mm, fd, LENGTH, PAGE, (uintptr_t)memory, &reply));
	assert_false(reply.moved);
	assert_int_equal(0, mpt_of(client, reply.rkey)->file);
	assert_int_equal(0, reg_try(client, client->mm, fd, PAGE, PAGE, (uintptr_t)memory, &reply));
	assert_true(reply.moved);
	assert_int_equal((uintptr_t)memory, mpt_of(client, reply.rkey)->addr);
	client->pd += 100;
	assert_int_equal(-ENOENT,
			 reg_try(client, client->mm, fd, 0, PAGE, (uintptr_t)memory, &reply));
	close(fd);
	munmap(memory, LENGTH);
}

/* Data go by the file, also where its owner has other memory by now. */
static void data(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct client *client = pair->b.client;
	uint8_t *memory = memory_new();
	struct simhca_reg_mr_reply reply;
	struct mr mr = moved_mr(client, memory, &reply);

	pair->b.mr = &mr;
	fill(pair->a.mr->addr, PAGE, 1);
	rdma_write(&pair->a, 1, 0, PAGE, 3 * PAGE + 5);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(memory + 3 * PAGE + 5, PAGE, 1));
	assert_int_equal(0, munmap(memory, LENGTH));
	rdma_write(&pair->a, 2, 0, PAGE, 0);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* Beyond what is kept, and of a file that can shrink: a region of the memory where it is. */
static void files_that_do_not_help(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .kept_files = 4 } };
	struct world *world = world_new(&config);
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct client *client;
	struct simhca_reg_mr_reply reply[3];
	uint8_t *memory = memory_new();
	struct mr mr;
	int fd = file_new(F_SEAL_SHRINK), open = file_new(0);

	pair = pair_new(world, &options);
	client = pair->b.client;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			assert_int_equal(0, reg_try(client, client->mm, fd, 0, LENGTH,
						    (uintptr_t)memory, &reply[i]));
			assert_int_equal(i < 2, reply[i].moved);
			assert_int_equal(i < 2, mpt_of(client, reply[i].rkey)->file != 0);
		}
		for (int i = 0; i < 3; i++)
			assert_int_equal(0,
					 simhca_dereg_mr(client->context, reply[i].handle, NULL));
		assert_int_equal(0, client->context->device->file_mrs);
		assert_int_equal(0, client->context->device->file_mr_bytes);
	}
	assert_int_equal(0, reg_try(client, client->mm, open, 0, LENGTH, (uintptr_t)memory,
				    &reply[0]));
	assert_false(reply[0].moved);
	mr = (struct mr){ .client = client, .iova = (uintptr_t)memory, .length = LENGTH };
	mr.rkey = reply[0].rkey;
	pair->b.mr = &mr;
	fill(pair->a.mr->addr, PAGE, 1);
	rdma_write(&pair->a, 1, 0, PAGE, 8);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(memory + 8, PAGE, 1));
	close(open);
	close(fd);
	munmap(memory, LENGTH);
	world_free(world);
}

static int rereg(struct client *client, const struct mr *mr, uint32_t access,
		 struct simhca_reg_mr_reply *reply)
{
	const struct simhca_rereg_mr_req req = { .handle = mr->handle,
						 .flags = SIMHCA_REREG_ACCESS,
						 .access = access };

	/* Whose memory it is matters, and not who asks. */
	return simhca_rereg_mr(client->context, NULL, &req, reply, NULL);
}

/* It lies in its process's memory then, whatever the file is. */
static void registered_again(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct client *client = pair->b.client;
	uint8_t *memory = memory_new();
	struct simhca_reg_mr_reply reply;
	struct mr mr = moved_mr(client, memory, &reply);
	const uint32_t regions = client->mm->regions;
	struct simhca_mr_info info;
	uint32_t handle = mr.handle;

	assert_true(simhca_next_mr(client->context, &handle, &info));
	assert_int_equal(info.pid, getpid());
	assert_int_equal(info.attr.addr, (uintptr_t)memory);
	assert_true(info.mappable);
	assert_int_equal(-EINVAL, rereg(client, &mr, SIMHCA_ACCESS_REMOTE_WRITE, &reply));
	assert_true(mpt_of(client, mr.rkey)->file != 0);
	assert_int_equal(0, rereg(client, &mr, ALL_ACCESS, &reply));
	mr.rkey = reply.rkey;
	assert_int_equal(0, mpt_of(client, mr.rkey)->file);
	assert_int_equal(client->mm->number, mpt_of(client, mr.rkey)->mm);
	assert_int_equal(0, client->context->device->file_mrs);
	assert_int_equal(0, client->context->kept_files);
	assert_int_equal(regions, client->mm->regions);
	/* Other memory at that address. */
	assert_ptr_equal(memory, mmap(memory, LENGTH, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	pair->b.mr = &mr;
	fill(pair->a.mr->addr, PAGE, 1);
	rdma_write(&pair->a, 1, 0, PAGE, 5);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(memory + 5, PAGE, 1));
	handle = mr.handle;
	assert_true(simhca_next_mr(client->context, &handle, &info));
	assert_false(info.mappable);
	assert_int_equal(0, simhca_dereg_mr(client->context, mr.handle, NULL));
	assert_int_equal(regions - 1, client->mm->regions);
	munmap(memory, LENGTH);
}

/* Its owner is killed: all is given back. */
static void an_owner_that_goes(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_device *device = client->context->device;
	uint8_t *memory = memory_new();
	struct simhca_reg_mr_reply reply;

	moved_mr(client, memory, &reply);
	assert_int_equal(1, device->file_mrs);
	client_gone(client);
	assert_int_equal(0, device->file_mrs);
	assert_int_equal(0, device->file_mr_bytes);
	munmap(memory, LENGTH);
}

static int fast_world(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .fast_path = true } });
	return 0;
}

static int end_of_world(void **state)
{
	world_free(*state);
	return 0;
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, fast_world, end_of_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_a_client_says),     HERE(data),
		HERE(files_that_do_not_help), HERE(registered_again),
		HERE(an_owner_that_goes),
	};

	return cmocka_run_group_tests_name("moved", tests, NULL, NULL);
}
