/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * mmap() of an open device. All other mappings of the program come by here, too.
 *
 * Caches of registered memory, such as Open MPI's and libfabric's, want to know of each mapping: they overwrite the
 * beginning of what dlsym() calls mmap with a jump to code of theirs, which makes the system call by itself. So there
 * are two hooks. Programs and libraries are bound to a symbol of libc's version, by which they get the first one. It
 * maps devices, and leaves all else to the second one, which dlsym() finds, as it takes default versions only. The
 * second one also maps devices, for AddressSanitizer, whose mmap() stands before all others and calls that one.
 */
#include <sys/mman.h>

#include "device.h"
#include "real.h"
#include "driver.h"

/* A device is mapped shared; most mappings are not, and cost no system call. */
static bool is_device(int flags, int fd)
{
	const int type = flags & (MAP_SHARED | MAP_PRIVATE);
	struct device_name device;

	return fd >= 0 && type == MAP_SHARED && !(flags & MAP_ANONYMOUS) &&
	       device_of_fd(fd, &device) && !device_is_rdma_cm(&device) && !device_is_umad(&device);
}

/* Of mmap() in libc: the first of the architecture. preload.map has the same. */
#if defined(__x86_64__)
#define VERSION "GLIBC_2.2.5"
#elif defined(__s390x__)
#define VERSION "GLIBC_2.2"
#elif defined(__aarch64__) || defined(__powerpc64__)
#define VERSION "GLIBC_2.17"
#elif defined(__riscv)
#define VERSION "GLIBC_2.27"
#else
#error "which version of libc did mmap() come with on this architecture?"
#endif

#define MAPPING void *addr, size_t size, int prot, int flags, int fd, off_t offset
typedef void *map_function(MAPPING);

static void *map(map_function *other, MAPPING)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : other(addr, size, prot, flags, fd, offset);
}

/* The first hook calls the second by a pointer that is volatile: other code may be there by then. */
#define MAP_HOOKS(name)                                                                            \
	HOOK(void *, name, MAPPING)                                                                \
	{                                                                                          \
		return map(REAL(name), addr, size, prot, flags, fd, offset);                       \
	}                                                                                          \
	static map_function *volatile found_##name = hook_##name;                                  \
	__asm__(".symver simhca_hook_" #name "," #name "@" VERSION);                               \
	__attribute__((visibility("default"))) map_function simhca_hook_##name;                    \
	void *simhca_hook_##name(MAPPING)                                                          \
	{                                                                                          \
		return map(found_##name, addr, size, prot, flags, fd, offset);                     \
	}

MAP_HOOKS(mmap)
MAP_HOOKS(mmap64)
