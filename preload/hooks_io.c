/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Reading from and writing to descriptors, of which a few are devices'. */
#include "device.h"
#include "rdma_cm.h"
#include "real.h"
#include "umad.h"

HOOK(ssize_t, write, int fd, const void *buf, size_t size)
{
	struct device_name device;

	if (!(rdma_cm_may_be_command(size) || device_has_calls()) || !device_of_fd(fd, &device))
		return REAL(write)(fd, buf, size);
	if (device_is_rdma_cm(&device))
		return rdma_cm_write(fd, buf, size);
	return device_is_umad(&device) ? umad_write(fd, buf, size) : REAL(write)(fd, buf, size);
}

/* All reads of the program come by here: without an open umad that is one load. */
HOOK(ssize_t, read, int fd, void *buf, size_t size)
{
	struct device_name device;

	if (!device_has_umad() || !device_of_fd(fd, &device) || !device_is_umad(&device))
		return REAL(read)(fd, buf, size);
	return umad_read(fd, buf, size);
}
