/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Regions of memory that is moved into a file as it is registered, or is one: scenes, and what these look at. */
#ifndef MOVED_MEMORY_H
#define MOVED_MEMORY_H

#include <stdint.h>
#include <sys/mman.h>

#include "helper.h"

#define PAGE 4096u
#define PAGES 16u
#define LENGTH (PAGES * PAGE)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char *own; /* what messages come from and go to */
static struct ibv_mr *own_mr;

static inline char *map_pages(size_t pages)
{
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static inline struct ibv_mr *reg(void *memory, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, FULL_ACCESS);

	CHECK(mr);
	return mr;
}

/* Whether that page is one of a file of moved memory. */
static inline bool is_moved(const void *addr)
{
	uintptr_t from, to;
	char line[512];
	bool moved = false;
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (uintptr_t)addr >= from &&
		    (uintptr_t)addr < to)
			moved = strstr(line, "simhca-registered");
	fclose(maps);
	return moved;
}

static inline unsigned int count_files(void)
{
	unsigned int count = 0;
	char path[64], target[64];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		count += !!strstr(target, "simhca-registered");
	}
	return count;
}

static inline void fill(char *memory, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = (char)(i * 7 + i / PAGE + seed);
}

static inline bool is_filled(const char *memory, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != (char)(i * 7 + i / PAGE + seed))
			return false;
	return true;
}

static inline enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, uint32_t length, uint64_t addr,
					  uint32_t rkey)
{
	return transfer_to_itself(pd, cq, own_mr, opcode, length, addr, rkey);
}

static inline void open_all(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	own = map_pages(1);
	own_mr = reg(own, PAGE);
}

/* A message to its last page arrives, and one from there. */
static inline void check_messages(const struct ibv_mr *mr, char *memory, size_t length)
{
	char *last = memory + length - PAGE;

	fill(own, PAGE, 99);
	CHECK(!transfer(IBV_WR_RDMA_WRITE, PAGE, (uintptr_t)last, mr->rkey));
	CHECK(is_filled(last, PAGE, 99));
	fill(last, PAGE, 98);
	CHECK(!transfer(IBV_WR_RDMA_READ, PAGE, (uintptr_t)last, mr->rkey));
	CHECK(is_filled(own, PAGE, 98));
}

struct scene {
	const char *name;
	void (*run)(void);
};

/* Runs the one of this name. Returns what main() does. */
static inline int run_scene(const char *name, const struct scene *scenes, size_t count)
{
	open_all();
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	fprintf(stderr, "no such scene: %s\n", name);
	return 2;
}
#define RUN_SCENE(name, scenes) run_scene(name, scenes, sizeof(scenes) / sizeof((scenes)[0]))

#endif
