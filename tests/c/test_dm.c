/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* On-chip memory: how much there is, its regions, every operation on them, and its end. */
#include <sys/stat.h>

#include "dm_scene.h"

#define PAGE SIMHCA_DM_PAGE
#define ZERO_BASED SIMHCA_ACCESS_ZERO_BASED

static int dm_free(struct client *client, const struct dm *dm)
{
	return simhca_free_dm(client->context, dm->handle, NULL);
}

static void it_is_limited_by_the_device(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	struct client *elsewhere = client_new(*state, 1);
	uint64_t most = simhca_device_memory(one->world->device[0])->attr.max_dm_size;
	struct simhca_counts counts;
	struct dm dm, other, third;

	assert_int_equal(most, SIMHCA_MAX_DM_SIZE);
	assert_int_equal(-EINVAL, dm_try(one, 0, 0, &dm));
	assert_int_equal(-EINVAL, dm_try(one, most + 1, 0, &dm));
	assert_int_equal(-EINVAL, dm_try(one, UINT64_MAX, 0, &dm));
	/* Whole pages are taken, of what all programs have together. */
	assert_int_equal(0, dm_try(one, most - PAGE - 1, 0, &dm));
	assert_int_equal(dm.length, most - PAGE - 1);
	assert_int_equal(dm.size, most - PAGE);
	assert_int_equal(-ENOMEM, dm_try(two, PAGE + 1, 0, &other));
	assert_int_equal(0, dm_try(two, 1, 0, &other));
	assert_int_equal(-ENOMEM, dm_try(two, 1, 0, &third));
	assert_int_equal(0, dm_try(elsewhere, most, 0, &third));
	simhca_context_counts(one->context, &counts);
	assert_int_equal(counts.dms, 1);
	assert_int_equal(counts.dm_bytes, most - PAGE);
	/* What is given back is there again. */
	assert_int_equal(0, dm_free(one, &dm));
	assert_int_equal(-ENOENT, dm_free(one, &dm));
	assert_int_equal(0, dm_try(two, most - PAGE, 0, &dm));
	client_gone(two);
	assert_int_equal(0, dm_try(one, most, 0, &dm));
}

static void alignment(void **state)
{
	struct client *client = client_new(*state, 0);
	struct dm dm;

	assert_int_equal(0, dm_try(client, 4, 12, &dm));
	for (uint32_t log_align = 13; log_align; log_align <<= 1)
		assert_int_equal(-EINVAL, dm_try(client, 4, log_align, &dm));
}

/* A program can neither resize the memory under the device, nor find what another left in it. */
static void its_file(void **state)
{
	struct client *client = client_new(*state, 0);
	struct dm *dm = dm_new(client, 2 * PAGE);
	struct dm again;

	assert_int_not_equal(0, ftruncate(dm->fd, 0));
	assert_int_not_equal(0, ftruncate(dm->fd, 3 * PAGE));
	assert_true(all_bytes(dm->addr, 2 * PAGE, 0));
	fill(dm->addr, 2 * PAGE, 1);
	assert_int_equal(0, dm_free(client, dm));
	assert_true(filled(dm->addr, 2 * PAGE, 1)); /* whoever has it mapped keeps it */
	assert_int_equal(0, dm_try(client, 2 * PAGE, 0, &again));
	dm->addr = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, again.fd, 0);
	assert_true(all_bytes(dm->addr, 2 * PAGE, 0));
}

static void its_regions(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	const uint32_t access = ALL_ACCESS | ZERO_BASED;
	struct dm *dm = dm_new(client, 100);
	struct simhca_reg_mr_reply reply, empty;
	struct simhca_rereg_mr_req again = { .flags = SIMHCA_REREG_ACCESS };

	assert_int_equal(0, dm_mr_try(client, dm, 0, 100, access, &reply));
	assert_int_equal(0, dm_mr_try(client, dm, 100, 0, access, &empty));
	/* One byte too many, at the end and at the start. */
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 0, 101, access, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 1, 100, access, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 101, 0, access, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, UINT64_MAX, 2, access, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 2, UINT64_MAX, access, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 0, 100, ALL_ACCESS, &empty));
	assert_int_equal(-EINVAL,
			 dm_mr_try(client, dm, 0, 100, access | SIMHCA_ACCESS_ON_DEMAND, &empty));
	assert_int_equal(-EINVAL, dm_mr_try(client, dm, 0, 100,
					    SIMHCA_ACCESS_REMOTE_WRITE | ZERO_BASED, &empty));
	assert_int_equal(-ENOENT, dm_mr_try(other, dm, 0, 100, access, &empty));
	again.handle = reply.handle;
	assert_int_equal(-EINVAL,
			 simhca_rereg_mr(client->context, client->mm, &again, &empty, NULL));
	/* It stays as long as a region needs it. */
	assert_int_equal(-EBUSY, dm_free(client, dm));
	assert_int_equal(0, patiently(simhca_dereg_mr(client->context, reply.handle, NULL)));
	assert_int_equal(-EBUSY, dm_free(client, dm));
	assert_int_equal(0, patiently(simhca_dereg_mr(client->context, reply.handle + 1, NULL)));
	assert_int_equal(0, dm_free(client, dm));
}

/* Every operation, at both ends, and never a byte beside the region. */
static void every_operation(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct dm *from = dm_new(pair->a.client, 4 * PAGE), *to = dm_new(pair->b.client, 4 * PAGE);
	struct mr a = dm_mr_new(pair->a.client, from, PAGE, PAGE);
	struct mr b = dm_mr_new(pair->b.client, to, 100, PAGE);
	const uint64_t seven = 7;
	uint64_t value;

	fill(a.addr, PAGE, 3);
	post_recv(&pair->b, 1, sge(&b, 0, PAGE));
	post(&pair->a, .id = 2, .opcode = IBV_WR_SEND, SGES(sge(&a, 0, PAGE)));
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->b.recv_cq, 1, SUCCESS);
	assert_true(filled(b.addr, PAGE, 3));

	fill(a.addr, PAGE, 4);
	post(&pair->a, .id = 3, .opcode = IBV_WR_RDMA_WRITE, .rkey = b.rkey,
	     SGES(sge(&a, 0, PAGE)));
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(filled(b.addr, PAGE, 4));

	fill(b.addr, PAGE, 5);
	post(&pair->a, .id = 4, .opcode = IBV_WR_RDMA_READ, .rkey = b.rkey, SGES(sge(&a, 0, PAGE)));
	expect(pair->a.send_cq, 4, SUCCESS);
	assert_true(filled(a.addr, PAGE, 5));

	memcpy(b.addr + 8, &seven, 8);
	post(&pair->a, .id = 5, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .remote_addr = 8,
	     .rkey = b.rkey, .compare_add = 35, SGES(sge(&a, 16, 8)));
	expect(pair->a.send_cq, 5, SUCCESS);
	memcpy(&value, b.addr + 8, 8);
	assert_int_equal(value, 42);
	memcpy(&value, a.addr + 16, 8);
	assert_int_equal(value, 7);
	post(&pair->a, .id = 6, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .remote_addr = 8,
	     .rkey = b.rkey, .compare_add = 42, .swap = 1, SGES(sge(&a, 16, 8)));
	expect(pair->a.send_cq, 6, SUCCESS);
	memcpy(&value, b.addr + 8, 8);
	assert_int_equal(value, 1);

	assert_true(all_bytes(to->addr, 100, 0));
	assert_true(all_bytes(to->addr + 100 + PAGE, 2 * PAGE, 0));
	assert_true(all_bytes(from->addr, PAGE, 0));
	assert_true(all_bytes(from->addr + 2 * PAGE, 2 * PAGE, 0));

	post(&pair->a, .id = 7, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = 1, .rkey = b.rkey,
	     SGES(sge(&a, 0, PAGE)));
	expect_why(pair->a.send_cq, 7, REM_ACCESS_ERR, KEY_PAST_END);
}

/* A window over it is a window like others. */
static void a_window_over_it(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct dm *dm = dm_new(pair->b.client, 2 * PAGE);
	struct mw *mw = mw_new(pair->b.client, pair->b.client->pd, SIMHCA_MW_TYPE_1);
	struct simhca_reg_mr_reply reply;
	struct mr mr = { .client = pair->b.client, .length = 2 * PAGE };

	assert_int_equal(0, dm_mr_try(pair->b.client, dm, 0, 2 * PAGE,
				      ALL_ACCESS | ZERO_BASED | SIMHCA_ACCESS_MW_BIND, &reply));
	mr.handle = reply.handle;
	mr.lkey = mr.rkey = reply.lkey;
	qp_bind(pair->b.qp, 1, mw, &mr, PAGE, PAGE, SIMHCA_ACCESS_REMOTE_WRITE);
	expect(pair->b.send_cq, 1, SUCCESS);
	fill(pair->a.mr->addr, 64, 9);
	post(&pair->a, .id = 2, .opcode = IBV_WR_RDMA_WRITE, .remote_addr = PAGE, .rkey = mw->rkey,
	     SGES(sge(pair->a.mr, 0, 64)));
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(filled(dm->addr + PAGE, 64, 9));
	assert_true(all_bytes(dm->addr, PAGE, 0));
	assert_int_equal(-EBUSY, patiently(simhca_dereg_mr(mr.client->context, mr.handle, NULL)));
}

static void imports(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	struct dm *dm = dm_new(client, 100);
	struct simhca_dm_reply reply;
	struct stat one, two;
	int fd;

	assert_int_equal(0, simhca_import_dm(client->context, dm->handle, &reply, &fd, NULL));
	assert_int_equal(reply.handle, dm->handle);
	assert_int_equal(reply.length, 100);
	assert_int_equal(reply.size, PAGE);
	assert_int_equal(0, fstat(dm->fd, &one));
	assert_int_equal(0, fstat(fd, &two));
	assert_int_equal(one.st_ino, two.st_ino);
	assert_int_equal(-ENOENT,
			 simhca_import_dm(client->context, dm->handle + 1, &reply, &fd, NULL));
	assert_int_equal(-ENOENT, simhca_import_dm(other->context, dm->handle, &reply, &fd, NULL));
	assert_int_equal(0, dm_free(client, dm));
	assert_int_equal(-ENOENT, simhca_import_dm(client->context, dm->handle, &reply, &fd, NULL));
}

static void imports_of_regions_and_pds(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	struct mr *mr = mr_new(client, 64, ALL_ACCESS);
	struct simhca_query_mr_reply reply;

	assert_int_equal(0, simhca_query_mr(client->context, mr->handle, &reply, NULL));
	assert_int_equal(reply.lkey, mr->lkey);
	assert_int_equal(reply.rkey, mr->rkey);
	assert_int_equal(reply.access, ALL_ACCESS);
	assert_int_equal(reply.length, 64);
	assert_int_equal(reply.iova, mr->iova);
	assert_int_equal(0, simhca_query_pd(client->context, client->pd, NULL));
	assert_int_equal(-ENOENT, simhca_query_mr(other->context, mr->handle, &reply, NULL));
	assert_int_equal(-ENOENT, simhca_query_pd(client->context, client->pd + 1, NULL));
	assert_int_equal(0, mr_gone(mr));
	assert_int_equal(-ENOENT, simhca_query_mr(client->context, mr->handle, &reply, NULL));
}

/* A client that dies leaves nothing, whatever depends on what. */
static void the_end_of_a_client(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < 50; i++) {
		struct client *client = client_new(world, 0);
		struct dm *dm = dm_new(client, SIMHCA_MAX_DM_SIZE);

		dm_mr_new(client, dm, 0, 64);
		dm_mr_new(client, dm, 64, 64);
		munmap(dm->addr, dm->size);
		client_gone(client);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(it_is_limited_by_the_device),
		ON_ETHERNET(alignment),
		ON_ETHERNET(its_file),
		ON_ETHERNET(its_regions),
		ON_ETHERNET(every_operation),
		ON_ETHERNET(a_window_over_it),
		ON_ETHERNET(imports),
		ON_ETHERNET(imports_of_regions_and_pds),
		ON_ETHERNET(the_end_of_a_client),
	};

	return cmocka_run_group_tests_name("dm", tests, NULL, NULL);
}
