/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Registering memory: what is accepted and refused, registering again, and who keeps what alive. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/context.h"
#include "core/device.h"
#include "core/fabric.h"
#include "dma/dma.h"
#include "harness.h"

#define LW SIMHCA_ACCESS_LOCAL_WRITE
#define RW SIMHCA_ACCESS_REMOTE_WRITE
#define RR SIMHCA_ACCESS_REMOTE_READ
#define RA SIMHCA_ACCESS_REMOTE_ATOMIC

static struct simhca_counts counts(struct client *client)
{
	struct simhca_counts all;

	simhca_context_counts(client->context, &all);
	return all;
}

static void access_combinations(void **state)
{
	struct client *client = client_new(*state, 0);
	uint8_t *memory = world_alloc(*state, 4096);
	struct simhca_reg_mr_reply reply;

	for (uint32_t access = 0; access < 16; access++) {
		bool legal = (access & LW) || !(access & (RW | RA));

		assert_int_equal(legal ? 0 : -EINVAL, mr_try(client, client->pd, memory, 4096,
							     (uintptr_t)memory, access, &reply));
	}
	assert_int_equal(0, mr_try(client, client->pd, memory, 4096, (uintptr_t)memory,
				   LW | SIMHCA_ACCESS_MW_BIND | SIMHCA_ACCESS_HUGETLB |
					   SIMHCA_ACCESS_RELAXED_ORDERING,
				   &reply));
	/* Bits that no right has are refused, optional ones are not. */
	assert_int_equal(-EINVAL, mr_try(client, client->pd, memory, 4096, (uintptr_t)memory,
					 1u << 15, &reply));
	assert_int_equal(-EINVAL, mr_try(client, client->pd, memory, 4096, (uintptr_t)memory,
					 1u << 31, &reply));
	assert_int_equal(0, mr_try(client, client->pd, memory, 4096, (uintptr_t)memory, 1u << 29,
				   &reply));
}

static void ranges_that_are_not_mapped(void **state)
{
	struct client *client = client_new(*state, 0);
	long page = sysconf(_SC_PAGESIZE);
	struct simhca_reg_mr_reply reply;
	uint8_t *map =
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(0, mprotect(map + page, page, PROT_READ));
	assert_int_equal(0, munmap(map + 3 * page, page));

	/* Page 0 is writable, 1 read-only, 2 writable, 3 is not there. */
	assert_int_equal(0, mr_try(client, client->pd, map, page, 0, LW, &reply));
	assert_int_equal(0, mr_try(client, client->pd, map, 3 * page, 0, 0, &reply));
	assert_int_equal(0, mr_try(client, client->pd, map, 3 * page, 0, RR, &reply));
	assert_int_equal(-EFAULT, mr_try(client, client->pd, map, page + 1, 0, LW, &reply));
	assert_int_equal(-EFAULT, mr_try(client, client->pd, map + page, 1, 0, LW, &reply));
	assert_int_equal(-EFAULT,
			 mr_try(client, client->pd, map + 2 * page, page + 1, 0, LW, &reply));
	assert_int_equal(-EFAULT, mr_try(client, client->pd, map + 3 * page, 1, 0, 0, &reply));
	assert_int_equal(-EFAULT, mr_try(client, client->pd, NULL, 1, 0, 0, &reply));
	assert_int_equal(0, mr_try(client, client->pd, map + 3 * page - 1, 1, 0, LW, &reply));
	assert_int_equal(4, counts(client).mrs);
	munmap(map, 3 * page);
}

static void ranges_that_wrap(void **state)
{
	struct client *client = client_new(*state, 0);
	uint8_t *memory = world_alloc(*state, 4096);
	struct simhca_reg_mr_reply reply;

	assert_int_equal(-EINVAL, mr_try(client, client->pd, (void *)UINTPTR_MAX, 2, 0, 0, &reply));
	assert_int_equal(-EINVAL, mr_try(client, client->pd, memory, UINT64_MAX, 0, 0, &reply));
	assert_int_equal(-EINVAL,
			 mr_try(client, client->pd, memory, 4096, UINT64_MAX - 4094, 0, &reply));
	assert_int_equal(0, mr_try(client, client->pd, memory, 4096, UINT64_MAX - 4095, 0, &reply));
	assert_int_equal(1, counts(client).mrs);
}

static void unknown_pds_are_refused(void **state)
{
	struct client *client = client_new(*state, 0), *other = client_new(*state, 0);
	uint32_t theirs = other->pd;
	uint8_t *memory = world_alloc(*state, 64);
	struct simhca_reg_mr_reply reply;

	while (theirs == client->pd)
		theirs = pd_new(other);
	assert_int_equal(-ENOENT, mr_try(client, theirs, memory, 64, 0, 0, &reply));
	assert_int_equal(-ENOENT, mr_try(client, 0xffffffff, memory, 64, 0, 0, &reply));
}

/* Zero length is legal: a key that opens nothing. */
static void an_empty_region(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint8_t *memory = pair->b.mr->addr;
	struct mr *empty = mr_over(pair->b.client, pair->b.client->pd, memory, 0, (uintptr_t)memory,
				   ALL_ACCESS);

	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 0)),
	     .remote_addr = empty->iova, .rkey = empty->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 1)),
	     .remote_addr = empty->iova, .rkey = empty->rkey);
	expect_why(pair->a.send_cq, 2, REM_ACCESS_ERR, KEY_PAST_END);
}

/* The address by which work requests name a region need not be where it lies. */
static void regions_at_another_iova(void **state)
{
	static const uint64_t iovas[] = { 0, 1, 4096, 0x123456789, UINT64_MAX - 65535 };
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint8_t *memory = world_alloc(*state, 65536);

	for (size_t i = 0; i < ARRAY_SIZE(iovas); i++) {
		struct mr *mr = mr_over(pair->b.client, pair->b.client->pd, memory, 65536, iovas[i],
					ALL_ACCESS);

		fill(pair->a.mr->addr, 65536, (uint32_t)i);
		post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE,
		     SGES(sge(pair->a.mr, 0, 65536)), .remote_addr = iovas[i], .rkey = mr->rkey);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_true(filled(memory, 65536, (uint32_t)i));
		post_recv(&pair->b, 2, sge(mr, 100, 50));
		send_from(&pair->a, 2, 0, 50);
		expect(pair->b.recv_cq, 2, SUCCESS);
		expect(pair->a.send_cq, 2, SUCCESS);
		assert_true(filled(memory + 100, 50, (uint32_t)i));
		if (iovas[i]) {
			post(&pair->a, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE,
			     SGES(sge(pair->a.mr, 0, 1)), .remote_addr = iovas[i] - 1,
			     .rkey = mr->rkey);
			expect_why(pair->a.send_cq, 3, REM_ACCESS_ERR, KEY_BELOW_START);
			pair_reconnect(pair);
		}
	}
}

static void zero_based_regions(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint8_t *memory = world_alloc(*state, 4096);
	struct mr *mr = mr_over(pair->b.client, pair->b.client->pd, memory, 4096, (uintptr_t)memory,
				ALL_ACCESS | SIMHCA_ACCESS_ZERO_BASED);

	fill(pair->a.mr->addr, 4096, 9);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 4000)),
	     .remote_addr = 96, .rkey = mr->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(memory + 96, 4000, 9));
	post(&pair->a, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = (uintptr_t)memory, .rkey = mr->rkey);
	expect_why(pair->a.send_cq, 2, REM_ACCESS_ERR, KEY_PAST_END);
}

static int rereg(struct mr *mr, uint32_t flags, uint8_t *addr, uint64_t length, uint32_t pd,
		 uint32_t access)
{
	struct simhca_rereg_mr_req req = {
		.handle = mr->handle,
		.flags = flags,
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = (uintptr_t)addr,
		.pd = pd,
		.access = access,
		.unmapped = flags & SIMHCA_REREG_TRANSLATION && is_unmapped(addr, length, access),
	};
	struct simhca_reg_mr_reply reply = { 0 };
	int error = simhca_rereg_mr(mr->client->context, mr->client->mm, &req, &reply, NULL);

	if (!error) {
		assert_int_equal(reply.lkey, mr->lkey);
		assert_int_equal(reply.rkey, mr->rkey);
		assert_int_equal(reply.handle, mr->handle);
	}
	return error;
}

/* Writes 8 bytes to where the region's rkey should now open; the reason it fails for, or 0. */
static uint32_t write_to(struct pair *pair, struct mr *mr, uint8_t *addr)
{
	struct simhca_cqe cqe;

	fill(pair->a.mr->addr, 8, 77);
	memset(addr, 0, 8);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = (uintptr_t)addr, .rkey = mr->rkey);
	assert_true(cq_wait(pair->a.send_cq, &cqe));
	if (cqe.status == IBV_WC_SUCCESS) {
		assert_true(filled(addr, 8, 77));
		return 0;
	}
	assert_true(all_bytes(addr, 8, 0));
	pair_reconnect(pair);
	return cqe.vendor_err;
}

static void registering_again(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct client *client = pair->b.client;
	uint8_t *one = world_alloc(*state, 4096), *two = world_alloc(*state, 4096);
	struct mr *mr = mr_over(client, client->pd, one, 4096, (uintptr_t)one, LW | RR);
	uint32_t other_pd = pd_new(client);

	assert_int_equal(write_to(pair, mr, one), SIMHCA_REASON_MR_NO_REMOTE_WRITE);
	assert_int_equal(0, rereg(mr, SIMHCA_REREG_ACCESS, NULL, 0, 0, LW | RW));
	assert_int_equal(write_to(pair, mr, one), 0);
	assert_int_equal(0, rereg(mr, SIMHCA_REREG_TRANSLATION, two, 4096, 0, 0));
	assert_int_equal(write_to(pair, mr, two), 0);
	assert_int_not_equal(write_to(pair, mr, one), 0);
	assert_int_equal(0, rereg(mr, SIMHCA_REREG_PD, NULL, 0, other_pd, 0));
	assert_int_equal(write_to(pair, mr, two), SIMHCA_REASON_KEY_WRONG_PD);
	assert_int_equal(-EBUSY, simhca_dealloc_pd(client->context, other_pd, NULL));
	assert_int_equal(0,
			 rereg(mr, SIMHCA_REREG_PD | SIMHCA_REREG_TRANSLATION | SIMHCA_REREG_ACCESS,
			       one, 64, client->pd, LW | RW));
	assert_int_equal(write_to(pair, mr, one), 0);
	assert_int_equal(write_to(pair, mr, one + 57), SIMHCA_REASON_KEY_PAST_END);
	assert_int_equal(0, simhca_dealloc_pd(client->context, other_pd, NULL));
	assert_int_equal(2, counts(client).mrs);
}

static void a_failed_registering_again_changes_nothing(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct client *client = pair->b.client;
	uint8_t *one = world_alloc(*state, 4096);
	struct mr *mr = mr_over(client, client->pd, one, 4096, (uintptr_t)one, LW | RW);

	assert_int_equal(-EINVAL, rereg(mr, 0, NULL, 0, 0, 0));
	assert_int_equal(-EINVAL, rereg(mr, 8, NULL, 0, 0, 0));
	assert_int_equal(-ENOENT, rereg(mr, SIMHCA_REREG_PD, NULL, 0, 9999, 0));
	assert_int_equal(-EINVAL, rereg(mr, SIMHCA_REREG_ACCESS, NULL, 0, 0, RW));
	assert_int_equal(-EFAULT, rereg(mr, SIMHCA_REREG_TRANSLATION, (uint8_t *)16, 64, 0, 0));
	assert_int_equal(-EINVAL, rereg(mr, SIMHCA_REREG_TRANSLATION, one, UINT64_MAX, 0, 0));
	assert_int_equal(-EFAULT, rereg(mr, SIMHCA_REREG_TRANSLATION | SIMHCA_REREG_ACCESS,
					(uint8_t *)16, 64, 0, LW | RR));
	assert_int_equal(write_to(pair, mr, one), 0);
	assert_int_equal(write_to(pair, mr, one + 4088), 0);
}

static void the_null_mr_stays_what_it_is(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_reg_mr_req req = { .pd = client->pd, .null_mr = 1 };
	struct simhca_rereg_mr_req again = { .flags = SIMHCA_REREG_ACCESS, .access = LW };
	struct simhca_reg_mr_reply reply;

	assert_int_equal(0, simhca_reg_mr(client->context, client->mm, &req, &reply, NULL));
	again.handle = reply.handle;
	assert_int_equal(-EINVAL,
			 simhca_rereg_mr(client->context, client->mm, &again, &reply, NULL));
	assert_int_equal(0, simhca_dereg_mr(client->context, again.handle, NULL));
}

static void pds_in_use_are_kept(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t pd = pd_new(client);
	uint8_t *memory = world_alloc(*state, 64);
	struct mr *mr = mr_over(client, pd, memory, 64, 0, 0);

	assert_int_equal(-EBUSY, simhca_dealloc_pd(client->context, pd, NULL));
	assert_int_equal(0, simhca_dereg_mr(client->context, mr->handle, NULL));
	assert_int_equal(-ENOENT, simhca_dereg_mr(client->context, mr->handle, NULL));
	assert_int_equal(0, simhca_dealloc_pd(client->context, pd, NULL));
	assert_int_equal(-ENOENT, simhca_dealloc_pd(client->context, pd, NULL));
}

/* The process is gone: its memory is not touched, and whoever asks gets no answer or an error. */
static void the_memory_of_a_process_that_ended(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.retry_cnt = 0;
	pair = pair_new(*state, &options);
	simhca_mm_gone(pair->b.client->mm);
	fill(pair->a.mr->addr, 64, 1);
	rdma_write(&pair->a, 1, 0, 64, 0);
	advance(*state, SEC);
	expect(pair->a.send_cq, 1, RETRY_EXC_ERR);
	assert_true(all_bytes(pair->b.mr->addr, 64, 0));
	pair = pair_new(*state, &options);
	simhca_mm_gone(pair->a.client->mm);
	rdma_write(&pair->a, 1, 0, 64, 0);
	expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, PROCESS_GONE);
}

/* Seconds that the quickest of some registrations of this page takes. */
static double registration(struct client *client, uint8_t *page)
{
	struct simhca_reg_mr_reply reply;
	double least = 1e9;

	for (int i = 0; i < 30; i++) {
		struct timespec from, to;
		double took;

		clock_gettime(CLOCK_MONOTONIC, &from);
		assert_int_equal(0, mr_try(client, client->pd, page, 4096, 0, LW, &reply));
		clock_gettime(CLOCK_MONOTONIC, &to);
		assert_int_equal(0, simhca_dereg_mr(client->context, reply.handle, NULL));
		took = (double)(to.tv_sec - from.tv_sec) +
		       (double)(to.tv_nsec - from.tv_nsec) / 1e9;
		least = took < least ? took : least;
	}
	return least;
}

/* Asked with a bad address, it fails otherwise than one that does not know PROCMAP_QUERY. */
static bool kernel_tells_of_one_mapping(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error;

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104), NULL), -1);
	error = errno;
	assert_int_equal(close(fd), 0);
	return error == EFAULT;
}

/* Of a process with many mappings the device does not look at all of them for each region. */
static void registering_takes_no_longer_among_many_mappings(void **state)
{
	const size_t mappings = 20000;
	struct client *client = client_new(*state, 0);
	uint8_t *pages = mmap(NULL, mappings * 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *last = pages + (mappings - 2) * 4096;
	double few, many;

	if (!kernel_tells_of_one_mapping())
		skip(); /* before Linux 6.11, or emulated, all of them have to be read */
	assert_ptr_not_equal(pages, MAP_FAILED);
	few = registration(client, last);
	for (size_t i = 1; i < mappings; i += 2)
		assert_int_equal(0, mprotect(pages + i * 4096, 4096, PROT_READ));
	many = registration(client, last);
	/* Reading all of them takes hundreds of times as long. */
	if (many > 20 * few)
		fail_msg("%.1f us, and among %zu mappings %.1f us", few * 1e6, mappings,
			 many * 1e6);
	assert_int_equal(0, munmap(pages, mappings * 4096));
}

/* The numbers of address spaces come again some day; those below are of files. */
static void numbers_that_are_used_up(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t first = client->mm->number;

	client->context->device->fabric->next_mm = UINT32_MAX / SIMHCA_MM_SLOTS - 1;
	for (int i = 0; i < 3; i++) {
		const struct simhca_mm *mm = client_new(*state, 0)->mm;

		assert_int_equal(SIMHCA_MM_SLOT(mm->number), mm->atomicity->slot);
		assert_true(mm->number >= SIMHCA_MM_SLOTS);
		/* The first one's process has it in another context. */
		assert_int_equal(mm->number == first, i == 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(access_combinations),
		ON_ETHERNET(numbers_that_are_used_up),
		ON_ETHERNET(ranges_that_are_not_mapped),
		ON_ETHERNET(ranges_that_wrap),
		ON_ETHERNET(unknown_pds_are_refused),
		ON_ETHERNET(an_empty_region),
		ON_ETHERNET(regions_at_another_iova),
		ON_ETHERNET(zero_based_regions),
		ON_ETHERNET(registering_again),
		ON_ETHERNET(a_failed_registering_again_changes_nothing),
		ON_ETHERNET(the_null_mr_stays_what_it_is),
		ON_ETHERNET(pds_in_use_are_kept),
		ON_ETHERNET(the_memory_of_a_process_that_ended),
		ON_ETHERNET(registering_takes_no_longer_among_many_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
