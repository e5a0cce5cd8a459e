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

/* Of mmap() in libc: the first of the architecture. */
#if defined(__x86_64__)
#define VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define VERSION "GLIBC_2.17"
#else
#define VERSION "GLIBC_2.27"
#endif

#define MAPPING void *addr, size_t size, int prot, int flags, int fd, off_t offset

HOOK(void *, mmap, MAPPING)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap)(addr, size, prot, flags, fd, offset);
}

HOOK(void *, mmap64, MAPPING)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap64)(addr, size, prot, flags, fd, offset);
}

/* volatile: a call, whose beginning may be another one than was compiled. */
static void *(*volatile found_by_dlsym)(MAPPING) = hook_mmap;
static void *(*volatile found_by_dlsym64)(MAPPING) = hook_mmap64;

__attribute__((visibility("default"))) void *simhca_hook_mmap(MAPPING);
__asm__(".symver simhca_hook_mmap,mmap@" VERSION);
void *simhca_hook_mmap(MAPPING)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : found_by_dlsym(addr, size, prot, flags, fd, offset);
}

__attribute__((visibility("default"))) void *simhca_hook_mmap64(MAPPING);
__asm__(".symver simhca_hook_mmap64,mmap64@" VERSION);
void *simhca_hook_mmap64(MAPPING)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : found_by_dlsym64(addr, size, prot, flags, fd, offset);
}
