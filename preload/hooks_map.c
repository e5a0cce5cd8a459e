/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * mmap() of an open device. All other mappings of the program come by here, too.
 *
 * Caches of registered memory, such as Open MPI's and libfabric's, have themselves told of mappings: they overwrite
 * the beginning of what dlsym() calls mmap with a jump to their own code, which makes the system call, and the
 * device would not be mapped any more. So it is not here that dlsym() leads: libraries are bound to a symbol of a
 * version, and dlsym() takes default versions only, of which these hooks have none. What is overwritten
 * is libc's, which is behind them.
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
#define VERSIONED_HOOK(ret, name, ...)                                                             \
	__attribute__((visibility("default"))) ret simhca_hook_##name(__VA_ARGS__);                \
	__asm__(".symver simhca_hook_" #name "," #name "@" VERSION);                               \
	ret simhca_hook_##name(__VA_ARGS__)

VERSIONED_HOOK(void *, mmap, void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap)(addr, size, prot, flags, fd, offset);
}

VERSIONED_HOOK(void *, mmap64, void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap64)(addr, size, prot, flags, fd, offset);
}
