/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Calls on descriptors of open devices. All other ioctls, writes and reads of a program come by as well. */
#include <errno.h>
#include <stdarg.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "device.h"
#include "rdma_cm.h"
#include "real.h"
#include "simhca-abi.h"
#include "simhca-abi-rdma-cm.h"
#include "umad.h"
#include "uverbs.h"

HOOK(int, ioctl, int fd, unsigned long request, ...)
{
	struct caller self = { .pid = 0 };
	struct device_name device;
	int saved = errno;
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!((uint32_t)request == RDMA_VERBS_IOCTL || umad_is_ioctl(request)) ||
	    !device_of_fd(fd, &device) || device_is_rdma_cm(&device) ||
	    device_is_umad(&device) != umad_is_ioctl(request))
		return REAL(ioctl)(fd, request, arg);
	ret = device_is_umad(&device) ? -umad_ioctl(&self, fd, request, arg)
				      : uverbs_ioctl(&self, fd, &device, arg);
	errno = ret ? ret : saved;
	return ret ? -1 : 0;
}

/* Not inline: its stack is not for all the other writes. */
__attribute__((noinline)) static ssize_t write_command(int fd, const struct device_name *device,
						       const void *buf, size_t size)
{
	struct caller self = { .pid = 0 };
	int saved = errno;
	ssize_t ret = device_is_umad(device) ? umad_write(&self, fd, buf, size)
					     : rdma_cm_write(&self, fd, buf, size);

	errno = ret < 0 ? (int)-ret : saved;
	return ret < 0 ? -1 : ret;
}

/* Commands have certain lengths, by which most writes are told without a system call. */
static inline bool may_be_command(size_t size)
{
	return (size <= SIMHCA_UCMA_MAX_WRITE && size >= sizeof(struct rdma_ucm_cmd_hdr) &&
		size % 4 == 0) ||
	       device_has_calls();
}

HOOK(ssize_t, write, int fd, const void *buf, size_t size)
{
	struct device_name device;

	if (!may_be_command(size) || !device_of_fd(fd, &device))
		return REAL(write)(fd, buf, size);
	return device_has_write(&device) ? write_command(fd, &device, buf, size)
					 : REAL(write)(fd, buf, size);
}

/* Without an open umad that is one load. */
HOOK(ssize_t, read, int fd, void *buf, size_t size)
{
	struct caller self = { .pid = 0 };
	struct device_name device;
	int saved = errno;
	ssize_t ret;

	if (!device_has_umad() || !device_of_fd(fd, &device) || !device_is_umad(&device))
		return REAL(read)(fd, buf, size);
	ret = umad_read(&self, fd, buf, size);
	errno = ret < 0 ? (int)-ret : saved;
	return ret < 0 ? -1 : ret;
}
