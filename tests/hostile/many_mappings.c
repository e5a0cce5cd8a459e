/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Registers memory behind tens of thousands of mappings, again and again, from several threads.
 * Prints "done" after the first time.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "../programs/helper.h"

#define MAPPINGS 60000u /* the kernel's limit is 65530 */
#define PAGE 4096u
#define THREADS 4

static struct ibv_pd *pd;
static char *last;

static void register_it(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, last, PAGE, 0);

	CHECK(mr && !ibv_dereg_mr(mr));
}

static void *run(void *arg)
{
	for (;;)
		register_it();
	return NULL;
}

int main(void)
{
	pthread_t thread;
	char *memory = mmap(NULL, (size_t)MAPPINGS * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	for (unsigned int i = 0; i < MAPPINGS; i += 2)
		CHECK(!mprotect(memory + (size_t)i * PAGE, PAGE, PROT_READ));
	last = memory + (size_t)(MAPPINGS - 1) * PAGE;
	pd = ibv_alloc_pd(open_device());
	register_it();
	CHECK(!ibv_reg_mr(pd, last, 1ull << 40, 0) && errno == EFAULT);
	printf("done\n");
	fflush(stdout);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread, NULL, run, NULL));
	pause();
	return 0;
}
