/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions of special kinds: the null region, zero-based ones, those of no bytes. */
#include <sys/syscall.h>

#include "dv.h"

/* Reads as zeros and takes what is written, at any address; for its own side only. */
TEST(null_region)
{
	static const uint64_t places[] = { 0, 1, PAGE - 4, 1ull << 40, UINT64_MAX - 100 };
	struct pair pair = new_pair();
	struct ibv_mr *null = ibv_alloc_null_mr(pair.client.pd);

	CHECK(null && null->pd == pair.client.pd && null->lkey);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct ibv_sge sge = { .addr = places[i], .length = 64, .lkey = null->lkey };
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { (uintptr_t)pair.server.memory, pair.server.mr->rkey },
		};

		memset(pair.server.memory, 0xaa, 65);
		CHECK(!post_send(pair.client.qp, &wr));
		poll_success(pair.client.cq);
		for (int at = 0; at < 64; at++)
			CHECK(!pair.server.memory[at]);
		CHECK(pair.server.memory[64] == 0xaa);
		wr.opcode = IBV_WR_RDMA_READ;
		CHECK(!post_send(pair.client.qp, &wr));
		poll_success(pair.client.cq);
		CHECK(!post_recv(pair.client.qp, 1, null, places[i], 64));
		post_rdma(&pair.server, IBV_WR_SEND, 0, 0, 64);
		poll_success(pair.client.cq);
		poll_success(pair.server.cq);
	}
	CHECK(!ibv_dereg_mr(null));
}

TEST(null_region_grants_the_peer_nothing)
{
	struct pair pair = new_pair();
	struct ibv_mr *null = ibv_alloc_null_mr(pair.server.pd);

	CHECK(null);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, 0, null->rkey, 8,
		  SIMHCA_REASON_MR_NO_REMOTE_READ);
	pair = second_pair(&pair, pair.server.pd);
	fail_rdma(&pair.client, IBV_WR_RDMA_WRITE, 0, null->rkey, 8,
		  SIMHCA_REASON_MR_NO_REMOTE_WRITE);
}

TEST(null_region_takes_no_window)
{
	struct pair pair = new_pair();
	struct ibv_mr *null = ibv_alloc_null_mr(pair.server.pd);
	struct ibv_mw *one = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = { .bind_info = { null, 0, 8, IBV_ACCESS_REMOTE_READ } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	CHECK(null && one && two);
	CHECK(ibv_bind_mw(pair.server.qp, one, &bind) == ENOTSUP);
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = bind.bind_info;
	CHECK(!post_send(pair.server.qp, &wr));
	expect_error(pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_MR_NO_MW_BIND);
	CHECK(!ibv_dereg_mr(null));
}

/* As with mlx5, whose provider looks at what ibv_bind_mw() is given, and not at what a work request binds. */
TEST(windows_of_an_imported_region)
{
	struct pair pair = new_pair();
	struct ibv_mr *own = ibv_reg_mr(pair.server.pd, pair.server.memory, PAGE,
					FULL_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mr *mr = own ? ibv_import_mr(pair.server.pd, own->handle) : NULL;
	struct ibv_mw *one = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = { .bind_info = { mr, (uintptr_t)pair.server.memory, PAGE,
						   IBV_ACCESS_REMOTE_READ } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	uint32_t key;

	CHECK(mr && one && two);
	key = one->rkey;
	CHECK(ibv_bind_mw(pair.server.qp, one, &bind) == ENOTSUP && one->rkey == key);
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = bind.bind_info;
	CHECK(!post_send(pair.server.qp, &wr));
	poll_success(pair.server.cq);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, (uintptr_t)pair.server.memory, two->rkey, PAGE);
}

/* A region of another PD is no buffer, even the null region. */
TEST(null_region_of_another_pd)
{
	struct pair pair = new_pair();
	struct ibv_pd *pd = ibv_alloc_pd(pair.client.context);
	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	CHECK(null);
	sge.lkey = null->lkey;
	CHECK(!post_send(pair.client.qp, &wr));
	expect_error(pair.client.cq, IBV_WC_LOC_PROT_ERR, SIMHCA_REASON_KEY_WRONG_PD);
}

/* The address mode goes with the translation: a change of rights alone moves nothing. */
TEST(zero_based_region_registered_again)
{
	struct pair pair = new_pair();
	uint8_t *memory = pair.server.memory;
	struct ibv_mr *mr = ibv_reg_mr(pair.server.pd, memory + PAGE, PAGE,
				       FULL_ACCESS | IBV_ACCESS_ZERO_BASED);

	CHECK(mr);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, PAGE);
	CHECK(!memcmp(pair.client.memory, memory + PAGE, PAGE));
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED));
	do_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, PAGE);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 3 * PAGE, 2 * PAGE,
			    0));
	do_rdma(&pair.client, IBV_WR_RDMA_READ, PAGE, mr->rkey, PAGE);
	CHECK(!memcmp(pair.client.memory, memory + 4 * PAGE, PAGE));
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
			    memory + PAGE, PAGE, FULL_ACCESS));
	do_rdma(&pair.client, IBV_WR_RDMA_READ, (uintptr_t)memory + PAGE, mr->rkey, PAGE);
	fail_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, 8, SIMHCA_REASON_KEY_BELOW_START);
}

/* There are no pages: the kernel cannot pin them. The last page of the file is there, with what follows its end. */
TEST(behind_the_end_of_a_file)
{
	struct ibv_pd *pd = new_pair().server.pd;
	int file = memfd_create("short", 0);

	CHECK(file >= 0 && !ftruncate(file, PAGE + 1));
	for (int private = 0; private < 2; private ++) {
		char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
				    private ? MAP_PRIVATE : MAP_SHARED, file, 0);

		CHECK(memory != MAP_FAILED);
		for (int access = 0; access <= IBV_ACCESS_LOCAL_WRITE; access++) {
			struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * PAGE, access);

			CHECK(mr && !ibv_dereg_mr(mr));
			errno = 0;
			CHECK(!ibv_reg_mr(pd, memory, 2 * PAGE + 1, access) && errno == EFAULT);
			CHECK(!ibv_reg_mr(pd, memory + 3 * PAGE, 1, access));
		}
		CHECK(!munmap(memory, 4 * PAGE));
	}
}

/*
 * What a program may load and store, and the kernel does not pin: registers of a device, which nobody may read to find
 * that out, and secret memory, which every process can have. On demand it is registered, and not found when it is used.
 */
TEST(memory_that_is_not_pinned)
{
	struct ibv_pd *pd = new_pair().server.pd;
	int file = (int)syscall(SYS_memfd_secret, 0);
	char *memory;

	if (file < 0 && errno == ENOSYS)
		return; /* it is switched off, or older than Linux 5.14 */
	CHECK(file >= 0 && !ftruncate(file, 2 * PAGE));
	memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(memory != MAP_FAILED);
	memory[PAGE] = 1;
	for (int access = 0; access <= IBV_ACCESS_LOCAL_WRITE; access++) {
		errno = 0;
		CHECK(!ibv_reg_mr(pd, memory, 2 * PAGE, access) && errno == EFAULT);
	}
	CHECK(ibv_reg_mr(pd, memory, 2 * PAGE, IBV_ACCESS_ON_DEMAND));
}

/* No bytes can be reached by it, and no bytes need no key at all. */
TEST(region_of_no_bytes)
{
	struct pair pair = new_pair();
	struct ibv_mr *mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 0,
				       FULL_ACCESS | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND);
	struct ibv_mr *none = ibv_reg_mr(pair.server.pd, NULL, 0, FULL_ACCESS);
	struct ibv_mw *mw = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW };

	CHECK(mr && none && mw);
	do_rdma(&pair.client, IBV_WR_RDMA_READ, 0, mr->rkey, 0);
	do_rdma(&pair.client, IBV_WR_RDMA_WRITE, 0, 0x12345678, 0);
	fail_rdma(&pair.client, IBV_WR_RDMA_WRITE, 0, mr->rkey, 1, SIMHCA_REASON_KEY_PAST_END);
	pair = second_pair(&pair, pair.server.pd);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, 0, 1, IBV_ACCESS_REMOTE_READ };
	CHECK(!post_send(pair.server.qp, &bind));
	expect_error(pair.server.cq, IBV_WC_MW_BIND_ERR, SIMHCA_REASON_KEY_PAST_END);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(none));
}
