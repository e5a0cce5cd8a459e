/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The fabric: what devices and engines hang on, and how the model speaks to its user. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric.h"
#include "simhca-device.h"

int simhca_why(struct simhca_why *why, int error, const char *format, ...)
{
	va_list args;

	if (why) {
		va_start(args, format);
		vsnprintf(why->text, sizeof(why->text), format, args);
		va_end(args);
	}
	return -error;
}

void simhca_log(const struct simhca_fabric *fabric, enum simhca_log_level level, const char *format,
		...)
{
	char line[256];
	va_list args;

	if (!fabric->ops.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fabric->ops.log(fabric->ops.arg, level, line);
}

void simhca_release(const struct simhca_fabric *fabric, void *base, uint64_t size, int fd)
{
	if (fabric->ops.release) {
		fabric->ops.release(fabric->ops.arg, base, size, fd);
		return;
	}
	if (size)
		munmap(base, size);
	if (fd >= 0)
		close(fd);
}
