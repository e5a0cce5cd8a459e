/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions of files through the whole stack; and what a hostile program does with them. */
#include <fcntl.h>
#include <sys/mman.h>

#include "helper.h"

#define PAGE 4096u
#define HUGE_PAGE (2u << 20)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char *memory;
static struct ibv_mr *mr;

static enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, uint32_t length, uint64_t addr,
				   uint32_t rkey)
{
	return transfer_to_itself(pd, cq, mr, opcode, length, addr, rkey);
}

static int make_file(unsigned int flags, size_t size)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC | flags);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)size));
	return fd;
}

static void data(void)
{
	int fd = make_file(0, 3 * PAGE);
	char *map = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *file = ibv_reg_dmabuf_mr(pd, PAGE, 2 * PAGE, 16 * PAGE, fd, FULL_ACCESS);

	CHECK(map != MAP_FAILED && file);
	CHECK(!close(fd));
	memset(memory, 'w', 2 * PAGE);
	CHECK(!transfer(IBV_WR_RDMA_WRITE, 2 * PAGE, 16 * PAGE, file->rkey));
	CHECK(!map[PAGE - 1] && map[PAGE] == 'w' && map[3 * PAGE - 1] == 'w');
	memset(map + PAGE, 'r', 2 * PAGE);
	CHECK(!transfer(IBV_WR_RDMA_READ, 2 * PAGE, 16 * PAGE, file->rkey));
	CHECK(memory[0] == 'r' && memory[2 * PAGE - 1] == 'r');
	CHECK(transfer(IBV_WR_RDMA_WRITE, 2, 18 * PAGE - 1, file->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_rereg_mr(file, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	CHECK(!ibv_dereg_mr(file));
	CHECK(!munmap(map, 3 * PAGE));
}

static void refusals(void)
{
	int fd = make_file(0, PAGE), read_only, disk;
	char path[64];

	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, PAGE + 1, 0, fd, FULL_ACCESS) && errno == EINVAL);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 1, 1, 0, fd, FULL_ACCESS) && errno == EINVAL);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 1, 0, fd, IBV_ACCESS_ON_DEMAND) && errno);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 1, 0, -1, 0) && errno == EBADF);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 1, 0, read_only, IBV_ACCESS_LOCAL_WRITE) &&
	      errno == EACCES);
	/* A file of procfs: it would act with the daemon's rights. */
	disk = open("/proc/self/coredump_filter", O_RDWR | O_CLOEXEC);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 1, 0, disk, 0) && errno == EOPNOTSUPP);
	close(disk);
	close(read_only);
	close(fd);
}

/* It shrinks while it is registered, and between the pages of one message. */
static void shrinking(void)
{
	for (int i = 0; i < 20; i++) {
		int fd = make_file(0, 64 * PAGE);
		struct ibv_mr *file = ibv_reg_dmabuf_mr(pd, 0, 64 * PAGE, 0, fd, FULL_ACCESS);

		CHECK(file);
		CHECK(!transfer(IBV_WR_RDMA_WRITE, 64 * PAGE, 0, file->rkey));
		CHECK(!ftruncate(fd, i * PAGE));
		CHECK(transfer(IBV_WR_RDMA_WRITE, 64 * PAGE, 0, file->rkey) ==
		      IBV_WC_REM_ACCESS_ERR);
		CHECK(transfer(IBV_WR_RDMA_READ, PAGE, 63 * PAGE, file->rkey) ==
		      IBV_WC_REM_ACCESS_ERR);
		if (i)
			CHECK(!transfer(IBV_WR_RDMA_WRITE, PAGE, 0, file->rkey));
		CHECK(!ibv_dereg_mr(file));
		CHECK(!close(fd));
	}
}

/* Where the machine has some. */
static void huge_pages(void)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	struct ibv_mr *file;
	char *map;

	if (fd < 0 || ftruncate(fd, HUGE_PAGE))
		return;
	map = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return;
	file = ibv_reg_dmabuf_mr(pd, PAGE + 8, PAGE, 8, fd, FULL_ACCESS);
	CHECK(file);
	memset(memory, 'h', PAGE);
	CHECK(!transfer(IBV_WR_RDMA_WRITE, PAGE, 8, file->rkey));
	CHECK(!map[PAGE + 7] && map[PAGE + 8] == 'h' && map[2 * PAGE + 7] == 'h');
	CHECK(!map[2 * PAGE + 8]);
	CHECK(!ibv_dereg_mr(file));
	munmap(map, HUGE_PAGE);
	close(fd);
}

int main(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	memory = aligned_alloc(PAGE, 64 * PAGE);
	CHECK(pd && cq && memory);
	mr = ibv_reg_mr(pd, memory, 64 * PAGE, FULL_ACCESS);
	CHECK(mr);
	data();
	refusals();
	shrinking();
	huge_pages();
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
