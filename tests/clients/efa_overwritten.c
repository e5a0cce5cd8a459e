/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Has itself told of mappings as caches of registered memory do: overwrites the beginning of what dlsym() finds as
 * mmap(). Prints whether it is told, and whether a CQ of the device is mapped then.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int told;

static void *instead(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	told++;
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, offset);
}

/* A jump to that function; false: of this architecture it is not known. */
static int overwrite(char *code)
{
	const uintptr_t to = (uintptr_t)instead, page = (uintptr_t)sysconf(_SC_PAGESIZE);
#if defined(__x86_64__)
	/* mov rax, to; jmp rax */
	char jump[12] = { 0x48, (char)0xb8, [10] = (char)0xff, (char)0xe0 };
	const size_t at = 2;
#elif defined(__aarch64__)
	char jump[16] = "\x50\x00\x00\x58\x00\x02\x1f\xd6"; /* ldr x16, to; br x16 */
	const size_t at = 8;
#else
	char jump[1];
	const size_t at = 0;
	return 0;
#endif
	memcpy(jump + at, &to, sizeof(to));
	if (mprotect((void *)((uintptr_t)code & -page), 2 * page,
		     PROT_READ | PROT_WRITE | PROT_EXEC))
		return 0;
	memcpy(code, jump, sizeof(jump));
	__builtin___clear_cache(code, code + sizeof(jump));
	return 1;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (!context || !overwrite(dlsym(RTLD_DEFAULT, "mmap")))
		return 1;
	if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		return 1;
	puts(told ? "told" : "not told");
	puts(ibv_create_cq(context, 16, NULL, NULL, 0) ? "mapped" : "not mapped");
	return 0;
}
