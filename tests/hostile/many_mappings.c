/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Registers memory behind tens of thousands of mappings, again and again, in several processes.
 * Prints "done" when each has done so once.
 */
#include <sys/mman.h>

#include "../programs/helper.h"

#define MAPPINGS 60000u /* the kernel's limit is 65530 */
#define PAGE 4096u
#define PROCESSES 3

static void register_it(struct ibv_pd *pd, void *at)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at, PAGE, 0);

	CHECK(mr && !ibv_dereg_mr(mr));
}

static void register_again_and_again(char *at, int ready)
{
	struct ibv_pd *pd = ibv_alloc_pd(open_device());

	CHECK(pd);
	register_it(pd, at);
	CHECK(!ibv_reg_mr(pd, at, 1ull << 40, 0) && errno == EFAULT);
	CHECK(write(ready, "", 1) == 1);
	for (;;)
		register_it(pd, at);
}

int main(void)
{
	char *memory = mmap(NULL, (size_t)MAPPINGS * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ready[2];
	char byte;

	CHECK(memory != MAP_FAILED && !pipe(ready));
	for (unsigned int i = 0; i < MAPPINGS; i += 2)
		CHECK(!mprotect(memory + (size_t)i * PAGE, PAGE, PROT_READ));
	for (int i = 0; i < PROCESSES; i++)
		if (!fork())
			register_again_and_again(memory + (size_t)(MAPPINGS - 1) * PAGE, ready[1]);
	for (int i = 0; i < PROCESSES; i++)
		CHECK(read(ready[0], &byte, 1) == 1);
	printf("done\n");
	fflush(stdout);
	pause();
	return 0;
}
