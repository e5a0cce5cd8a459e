/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* mmap() of an open device. All other mappings of the program come by here, too. */
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

HOOK(void *, mmap, void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap)(addr, size, prot, flags, fd, offset);
}

HOOK(void *, mmap64, void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return is_device(flags, fd) ? driver_map(addr, size, prot, flags, fd, offset)
				    : REAL(mmap64)(addr, size, prot, flags, fd, offset);
}
