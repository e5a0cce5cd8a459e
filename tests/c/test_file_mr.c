/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions of files: which files, which ranges, and what a client does to them afterwards. */
#include <fcntl.h>
#include <sys/mman.h>

#include "harness.h"

#define PAGE 4096u

static int file_new(uint64_t length)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, (off_t)length));
	return fd;
}

static int reg_try(struct client *client, int fd, uint64_t offset, uint64_t length, uint64_t iova,
		   uint32_t access, struct simhca_reg_mr_reply *reply)
{
	struct simhca_reg_dmabuf_mr_req req = {
		.offset = offset, .length = length, .iova = iova, .pd = client->pd, .access = access
	};

	return simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req, reply, NULL);
}

static struct mr reg(struct client *client, int fd, uint64_t offset, uint64_t length, uint64_t iova)
{
	struct simhca_reg_mr_reply reply;

	assert_int_equal(0, reg_try(client, fd, offset, length, iova, ALL_ACCESS, &reply));
	return (struct mr){ .client = client,
			    .length = length,
			    .iova = iova,
			    .handle = reply.handle,
			    .lkey = reply.lkey,
			    .rkey = reply.rkey };
}

static void ranges(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	int fd = file_new(3 * PAGE + 10);

	assert_int_equal(0, reg_try(client, fd, 0, 3 * PAGE + 10, 0, ALL_ACCESS, &reply));
	assert_int_equal(0, reg_try(client, fd, PAGE + 5, 10, 7 * PAGE + 5, ALL_ACCESS, &reply));
	/* None, past the end, round the end of the numbers. */
	assert_int_equal(-EINVAL, reg_try(client, fd, 0, 0, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, 0, 3 * PAGE + 11, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, 3 * PAGE, 11, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, 4 * PAGE, 1, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL,
			 reg_try(client, fd, UINT64_MAX - PAGE + 1, PAGE, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, PAGE, UINT64_MAX, 0, ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, 0, 2 * PAGE, UINT64_MAX - PAGE + 1,
					  ALL_ACCESS, &reply));
	assert_int_equal(-EINVAL, reg_try(client, fd, 1, PAGE, 0, ALL_ACCESS, &reply));
	close(fd);
}

static void rights(void **state)
{
	const uint32_t flush = SIMHCA_ACCESS_FLUSH_GLOBAL | SIMHCA_ACCESS_FLUSH_PERSISTENT;
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	int fd = file_new(PAGE), read_only;
	char path[64];

	assert_int_equal(-EINVAL,
			 reg_try(client, fd, 0, PAGE, 0, SIMHCA_ACCESS_REMOTE_WRITE, &reply));
	assert_int_equal(-EINVAL,
			 reg_try(client, fd, 0, PAGE, 0, SIMHCA_ACCESS_REMOTE_ATOMIC, &reply));
	for (uint32_t access = SIMHCA_ACCESS_MW_BIND; access < SIMHCA_ACCESS_RELAXED_ORDERING;
	     access <<= 1)
		assert_int_equal(access & flush ? 0 : -EINVAL,
				 reg_try(client, fd, 0, PAGE, 0, access, &reply));
	assert_int_equal(0, reg_try(client, fd, 0, PAGE, 0,
				    ALL_ACCESS | SIMHCA_ACCESS_RELAXED_ORDERING, &reply));
	/* Whoever may only read the file may not have the device write it. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(read_only >= 0);
	assert_int_equal(-EACCES,
			 reg_try(client, read_only, 0, PAGE, 0, SIMHCA_ACCESS_LOCAL_WRITE, &reply));
	assert_int_equal(0,
			 reg_try(client, read_only, 0, PAGE, 0, SIMHCA_ACCESS_REMOTE_READ, &reply));
	close(read_only);
	close(fd);
}

static uint64_t shared_bytes_of_ours(void)
{
	unsigned long size, resident, shared;
	FILE *file = fopen("/proc/self/statm", "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu %lu", &size, &resident, &shared), 3);
	fclose(file);
	return shared * PAGE;
}

/* Whoever has gigabytes written to its own file must not make the device look as if it had them.
 */
static void pages_of_a_file_do_not_stay_ours(void **state)
{
	const uint64_t length = 200ull << 20, step = 1 << 20;
	struct options options = default_options(IBV_QPT_RC);
	uint64_t before;
	struct pair *pair;
	struct mr mr;
	int fd = file_new(length);

	options.buffer = step;
	pair = pair_new(*state, &options);
	mr = reg(pair->b.client, fd, 0, length, 0);
	fill(pair->a.mr->addr, step, 1);
	before = shared_bytes_of_ours();
	for (uint64_t at = 0; at < length; at += step) {
		post(&pair->a, .id = at, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = at,
		     .rkey = mr.rkey, SGES(sge(pair->a.mr, 0, (uint32_t)step)));
		expect(pair->a.send_cq, at, SUCCESS);
	}
	assert_true(shared_bytes_of_ours() < before + (100u << 20));
	/* What was written is there, also where the pages were let go of. */
	memset(pair->a.mr->addr, 0, step);
	post(&pair->a, .id = 1, .opcode = IBV_WR_RDMA_READ, .remote_addr = 0, .rkey = mr.rkey,
	     SGES(sge(pair->a.mr, 0, (uint32_t)step)));
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->a.mr->addr, step, 1));
	close(fd);
}

/* Every client has the descriptor of device memory: nobody writes there by way of a region. */
static void device_memory(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_device *device = client->world->device[0];
	struct simhca_reg_mr_reply reply;

	assert_int_equal(-EPERM, reg_try(client, simhca_device_memory_fd(device), 0, PAGE, 0,
					 SIMHCA_ACCESS_LOCAL_WRITE, &reply));
}

/* What is no memory: it could block the daemon, or act with its rights. */
static void files_that_are_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	const char *const paths[] = { "/proc/self/mem", "/proc/self/maps", "/dev/zero", "/proc",
				      "/sys/kernel/mm" };
	int pipes[2];

	for (unsigned int i = 0; i < ARRAY_SIZE(paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(-EOPNOTSUPP, reg_try(client, fd, 0, 1, 0, 0, &reply));
		close(fd);
	}
	assert_int_equal(0, pipe(pipes));
	assert_int_equal(-EOPNOTSUPP, reg_try(client, pipes[0], 0, 1, 0, 0, &reply));
	close(pipes[0]);
	close(pipes[1]);
}

static void data(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	int fd = file_new(4 * PAGE);
	uint8_t *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct mr mr = reg(pair->b.client, fd, PAGE + 100, 2 * PAGE, 0x700000000064);
	uint64_t value = 41;

	close(fd); /* the region needs it no more */
	fill(pair->a.mr->addr, 2 * PAGE, 1);
	post(&pair->a, .id = 1, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = mr.iova,
	     .rkey = mr.rkey, SGES(sge(pair->a.mr, 0, 2 * PAGE)));
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(map + PAGE + 100, 2 * PAGE, 1));
	assert_true(all_bytes(map, PAGE + 100, 0));
	assert_true(all_bytes(map + 3 * PAGE + 100, PAGE - 100, 0));

	fill(map + PAGE + 100, 2 * PAGE, 2);
	post(&pair->a, .id = 2, .opcode = IBV_WR_RDMA_READ, .remote_addr = mr.iova, .rkey = mr.rkey,
	     SGES(sge(pair->a.mr, 0, 2 * PAGE)));
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 2 * PAGE, 2));

	memcpy(map + PAGE + 104, &value, 8);
	post(&pair->a, .id = 3, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .remote_addr = mr.iova + 4,
	     .rkey = mr.rkey, .compare_add = 1, SGES(sge(pair->a.mr, 0, 8)));
	expect(pair->a.send_cq, 3, SUCCESS);
	memcpy(&value, map + PAGE + 104, 8);
	assert_int_equal(value, 42);

	/* As a local buffer, of a receive. */
	fill(pair->a.mr->addr, 64, 3);
	post_recv(&pair->b, 4, sge(&mr, 0, 64));
	send_from(&pair->a, 5, 0, 64);
	expect(pair->a.send_cq, 5, SUCCESS);
	expect(pair->b.recv_cq, 4, SUCCESS);
	assert_true(filled(map + PAGE + 100, 64, 3));

	post(&pair->a, .id = 6, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = mr.iova - 1,
	     .rkey = mr.rkey, SGES(sge(pair->a.mr, 0, 2)));
	expect_why(pair->a.send_cq, 6, REM_ACCESS_ERR, KEY_BELOW_START);
	munmap(map, 4 * PAGE);
}

/* The file shrinks under the region: an error for the one who uses it, and no signal for us. */
static void a_file_that_shrinks(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	int fd = file_new(4 * PAGE);
	struct mr mr = reg(pair->b.client, fd, 0, 4 * PAGE, 0);
	uint8_t last;

	assert_int_equal(0, ftruncate(fd, 2 * PAGE));
	post(&pair->a, .id = 1, .opcode = IBV_WR_RDMA_WRITE, .rkey = mr.rkey,
	     SGES(sge(pair->a.mr, 0, 2 * PAGE)));
	expect(pair->a.send_cq, 1, SUCCESS);
	post(&pair->a, .id = 2, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = PAGE, .rkey = mr.rkey,
	     SGES(sge(pair->a.mr, 0, 2 * PAGE)));
	expect_why(pair->a.send_cq, 2, REM_ACCESS_ERR, PAGE_NOT_MAPPED);
	pair_reconnect(pair);
	post(&pair->a, .id = 3, .opcode = IBV_WR_RDMA_READ, .remote_addr = 3 * PAGE,
	     .rkey = mr.rkey, SGES(sge(pair->a.mr, 0, 1)));
	expect_why(pair->a.send_cq, 3, REM_ACCESS_ERR, PAGE_NOT_MAPPED);
	pair_reconnect(pair);
	post(&pair->a, .id = 4, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .remote_addr = 3 * PAGE,
	     .rkey = mr.rkey, .compare_add = 1, SGES(sge(pair->a.mr, 0, 8)));
	expect_why(pair->a.send_cq, 4, REM_ACCESS_ERR, PAGE_NOT_MAPPED);
	pair_reconnect(pair);
	/* It grows again: what is there is there. */
	assert_int_equal(0, ftruncate(fd, 4 * PAGE));
	fill(pair->a.mr->addr, PAGE, 1);
	post(&pair->a, .id = 5, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = 3 * PAGE,
	     .rkey = mr.rkey, SGES(sge(pair->a.mr, 0, PAGE)));
	expect(pair->a.send_cq, 5, SUCCESS);
	assert_int_equal(1, pread(fd, &last, 1, 4 * PAGE - 1));
	assert_int_equal(last, pair->a.mr->addr[PAGE - 1]);
	close(fd);
}

/* Address space is what a file takes of us: a client gets no more of it than there is. */
static void how_much(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	uint64_t half = SIMHCA_MAX_FILE_MR_BYTES / 2;
	int fd = file_new(SIMHCA_MAX_FILE_MR_BYTES + 1);
	uint32_t first;

	assert_int_equal(-ENOMEM, reg_try(client, fd, 0, SIMHCA_MAX_FILE_MR_BYTES + 1, 0,
					  ALL_ACCESS, &reply));
	assert_int_equal(0, reg_try(client, fd, 0, half, 0, ALL_ACCESS, &reply));
	first = reply.handle;
	assert_int_equal(0, reg_try(client, fd, 0, half, 0, ALL_ACCESS, &reply));
	assert_int_equal(-ENOMEM, reg_try(client, fd, 0, 1, 0, ALL_ACCESS, &reply));
	assert_int_equal(0, patiently(simhca_dereg_mr(client->context, first, NULL)));
	assert_int_equal(0, reg_try(client, fd, 0, 1, 0, ALL_ACCESS, &reply));
	/* A client that dies gives back all of it. */
	client_gone(client);
	client = client_new(*state, 0);
	assert_int_equal(0, reg_try(client, fd, 0, half, 0, ALL_ACCESS, &reply));
	assert_int_equal(0, reg_try(client, fd, 0, half, 0, ALL_ACCESS, &reply));
	close(fd);
}

/* And mappings: no client gets more of them than there are. */
static void how_many(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_reply reply;
	int fd = file_new(1);

	for (unsigned int i = 0; i < SIMHCA_MAX_FILE_MR; i++)
		assert_int_equal(0, reg_try(client, fd, 0, 1, 0, ALL_ACCESS, &reply));
	assert_int_equal(-ENOMEM, reg_try(client, fd, 0, 1, 0, ALL_ACCESS, &reply));
	client_gone(client);
	client = client_new(*state, 0);
	for (unsigned int i = 0; i < SIMHCA_MAX_FILE_MR; i++)
		assert_int_equal(0, reg_try(client, fd, 0, 1, 0, ALL_ACCESS, &reply));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(ranges),
		ON_ETHERNET(rights),
		ON_ETHERNET(device_memory),
		ON_ETHERNET(files_that_are_refused),
		ON_ETHERNET(data),
		ON_ETHERNET(a_file_that_shrinks),
		ON_ETHERNET(pages_of_a_file_do_not_stay_ours),
		ON_ETHERNET(how_much),
		ON_ETHERNET(how_many),
	};

	return cmocka_run_group_tests_name("file_mr", tests, NULL, NULL);
}
