/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Preloaded: a kernel that cannot be asked for a mapping (PROCMAP_QUERY, since Linux 6.11). */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int fd, unsigned long request, ...);
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	if (_IOC_TYPE(request) == 'f' && _IOC_NR(request) == 17) {
		errno = ENOTTY;
		return -1;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, arg);
}
