/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is wrong with a call that concerns keys is said twice: by errno, and in words, which
 * libibverbs logs (VERBS_LOG_LEVEL, VERBS_LOG_FILE). And nothing is half done: what was there works
 * as before, and what was refused leaves nothing that its PD would have to wait for.
 */
#include "dv.h"

static char log_name[] = "/tmp/simhca-refusals-XXXXXX";
static FILE *verbs_log;

/* From here on libibverbs logs into a file of ours. */
static struct pair logged_pair(void)
{
	int fd = mkstemp(log_name);

	CHECK(fd >= 0);
	verbs_log = fdopen(fd, "r");
	CHECK(verbs_log);
	CHECK(!setenv("VERBS_LOG_LEVEL", "2", 1) && !setenv("VERBS_LOG_FILE", log_name, 1));
	return new_pair();
}

/* The latest line says so. */
static void check_said(const char *words)
{
	char line[512] = "";

	fflush(NULL); /* libibverbs keeps what it writes to a file */
	clearerr(verbs_log);
	while (fgets(line, sizeof(line), verbs_log))
		;
	if (!strstr(line, words))
		fprintf(stderr, "'%s' is not in the log, which ends with: %s\n", words, line);
	CHECK(strstr(line, words));
}

#define REFUSED(call, error, words)                                                                \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(call);                                                                       \
		CHECK(errno == (error));                                                           \
		check_said(words);                                                                 \
	} while (0)

/* Nothing counts against a PD in which everything was refused. */
static void check_nothing_left(struct ibv_pd *pd)
{
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!unlink(log_name));
}

TEST(registration)
{
	struct pair pair = logged_pair();
	struct ibv_pd *pd = ibv_alloc_pd(pair.server.context);
	uint8_t *pages = new_pages(4);
	uint64_t top = -(uint64_t)PAGE;
	const struct {
		uint64_t addr, length, iova;
		unsigned int access;
		int error;
		const char *words;
	} table[] = {
		{ 0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL, "need LOCAL_WRITE" },
		{ 0, PAGE, 0, IBV_ACCESS_REMOTE_ATOMIC, EINVAL, "need LOCAL_WRITE" },
		{ 0, PAGE, 0, FULL_ACCESS | 1u << 15, EINVAL, "bit 15 is no IBV_ACCESS flag" },
		{ top, 2 * PAGE, top, FULL_ACCESS, EINVAL, "pass the end of the address space" },
		{ 0, 2 * PAGE, top, FULL_ACCESS, EINVAL, "pass the end of the address space" },
		{ PAGE, PAGE, 0, 0, EFAULT, "are not all mapped" },
		{ 0, 2 * PAGE, 0, FULL_ACCESS, EFAULT, "are not all mapped and writable" },
		{ 2 * PAGE, 2 * PAGE, 0, FULL_ACCESS, EFAULT, "are not all mapped and writable" },
	};

	CHECK(pd);
	drop_page(pages + PAGE);
	CHECK(!mprotect(pages + 3 * PAGE, PAGE, PROT_READ));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint64_t addr = table[i].addr == top ? top : (uintptr_t)pages + table[i].addr;

		REFUSED(!ibv_reg_mr_iova2(pd, (void *)(uintptr_t)addr, table[i].length,
					  table[i].iova ? table[i].iova : addr, table[i].access),
			table[i].error, table[i].words);
	}
	check_nothing_left(pd);
}

/* After each refusal the region has its place, its length, its rights and its PD. */
TEST(registration_again)
{
	struct pair pair = logged_pair();
	struct ibv_pd *pd = ibv_alloc_pd(pair.server.context);
	struct ibv_mr *mr = pair.server.mr, *null = ibv_alloc_null_mr(pair.server.pd);
	struct ibv_mr *fast = new_region(&pair.server, 1), was = *mr;
	uint8_t *hole = new_pages(1);
	const int translation = IBV_REREG_MR_CHANGE_TRANSLATION,
		  rights = IBV_REREG_MR_CHANGE_ACCESS, home = IBV_REREG_MR_CHANGE_PD;
	const struct {
		int flags;
		void *addr;
		size_t length;
		int access, error;
		const char *words; /* NULL: libibverbs refuses by itself, and says nothing */
	} table[] = {
		{ 0, NULL, 0, 0, EINVAL, "flags 0x0" },
		{ 8, NULL, 0, 0, EINVAL, NULL },
		{ translation, hole, 0, 0, EINVAL, NULL },
		{ translation, NULL, PAGE, 0, EINVAL, NULL },
		{ translation, hole, PAGE, FULL_ACCESS, EINVAL, NULL },
		{ translation, hole, PAGE, 0, EFAULT, "are not all mapped" },
		{ translation | home, hole, PAGE, 0, EFAULT, "are not all mapped" },
		{ rights, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL, "need LOCAL_WRITE" },
		{ rights | home, NULL, 0, 1 << 15, EINVAL, "is no IBV_ACCESS flag" },
		{ translation | rights | home, hole, PAGE, IBV_ACCESS_REMOTE_ATOMIC, EINVAL,
		  "need LOCAL_WRITE" },
	};

	CHECK(pd && null);
	drop_page(hole);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		errno = 0;
		CHECK(ibv_rereg_mr(mr, table[i].flags, pd, table[i].addr, table[i].length,
				   table[i].access));
		CHECK(errno == table[i].error);
		if (table[i].words)
			check_said(table[i].words);
		CHECK(mr->addr == was.addr && mr->length == was.length && mr->pd == was.pd);
		CHECK(mr->lkey == was.lkey && mr->rkey == was.rkey);
		do_rdma(&pair.client, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr + mr->length - 8,
			mr->rkey, 8);
	}
	/* Those that have no translation of their own. */
	errno = 0;
	CHECK(ibv_rereg_mr(null, rights, NULL, NULL, 0, FULL_ACCESS) && errno == EINVAL);
	errno = 0;
	CHECK(ibv_rereg_mr(fast, rights, NULL, NULL, 0, FULL_ACCESS) && errno == EINVAL);
	check_nothing_left(pd);
}

TEST(while_windows_are_bound)
{
	struct pair pair = logged_pair();
	struct ibv_mr *mr = ibv_reg_mr(pair.server.pd, pair.server.memory, PAGE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };

	CHECK(mr && mw);
	bind.bind_info = (struct ibv_mw_bind_info){ .mr = mr,
						    .addr = (uintptr_t)mr->addr,
						    .length = PAGE,
						    .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	CHECK(!ibv_bind_mw(pair.server.qp, mw, &bind));
	poll_success(pair.server.cq);
	REFUSED(ibv_dereg_mr(mr), EBUSY, "1 memory window is bound to this MR");
	REFUSED(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EBUSY,
		"1 memory window is bound to this MR");
	do_rdma(&pair.client, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mw->rkey, PAGE);
	CHECK(!ibv_dealloc_mw(mw));
	REFUSED((errno = ibv_dealloc_pd(pair.server.pd)), EBUSY, "this PD is still used by");
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!unlink(log_name));
}

TEST(windows_and_fast_registration)
{
	struct pair pair = logged_pair();
	struct ibv_pd *pd = ibv_alloc_pd(pair.server.context);
	struct simhcadv_device_attr attr = {};

	CHECK(pd && !simhcadv_query_device(pair.server.context, &attr));
	REFUSED(!ibv_alloc_mw(pd, (enum ibv_mw_type)0), EINVAL, "memory window type 0");
	REFUSED(!ibv_alloc_mw(pd, (enum ibv_mw_type)3), EINVAL, "memory window type 3");
	REFUSED(!simhcadv_alloc_mr(pd, 0), EINVAL, "max_page_list_len = 0: 1 to 4096");
	REFUSED(!simhcadv_alloc_mr(pd, attr.max_fast_reg_page_list_len + 1), EINVAL,
		"max_page_list_len = 4097: 1 to 4096");
	REFUSED(!simhcadv_alloc_mr(pd, UINT32_MAX), EINVAL, "max_page_list_len = 4294967295");
	REFUSED(!simhcadv_alloc_page_list(pair.server.context, 0), EINVAL,
		"max_page_list_len = 0: 1 to 4096");
	REFUSED(!simhcadv_alloc_page_list(pair.server.context, 4097), EINVAL,
		"max_page_list_len = 4097: 1 to 4096");
	check_nothing_left(pd);
}

/* What posts refuse is on the way of every message: errno alone, and nothing is posted. */
TEST(posts)
{
	struct pair pair = new_pair();
	struct ibv_mw *one = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = pair.server.mr;
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	uint32_t key;
	struct ibv_wc wc;

	CHECK(one && two);
	key = one->rkey;
	bind.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)mr->addr, PAGE, 1u << 15 };
	CHECK(ibv_bind_mw(pair.server.qp, one, &bind) == EINVAL);
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	CHECK(ibv_bind_mw(pair.server.qp, two, &bind) == EINVAL);
	bind.send_flags |= IBV_SEND_INLINE;
	CHECK(ibv_bind_mw(pair.server.qp, one, &bind) == EINVAL);
	bind.bind_info.mr = NULL;
	CHECK(ibv_bind_mw(pair.server.qp, one, &bind) == EINVAL);
	CHECK(one->rkey == key);

	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	CHECK(post_send(pair.server.qp, &wr) == EINVAL); /* no region */
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)mr->addr, PAGE, 1u << 15 };
	CHECK(post_send(pair.server.qp, &wr) == EINVAL);
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	wr.bind_mw.mw = one;
	CHECK(post_send(pair.server.qp, &wr) == EINVAL);
	usleep(20000);
	CHECK(!ibv_poll_cq(pair.server.cq, 1, &wc));
	CHECK(state_of(pair.server.qp) == IBV_QPS_RTS);
	CHECK(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two) && !ibv_dereg_mr(mr));
}
