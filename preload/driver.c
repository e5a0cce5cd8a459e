/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"
#include "request.h"
#include "simhca-calls.h"
#include "driver.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* Appends the parts that come in to data; false: they do not fit. */
static bool gather(const struct driver_write *write, struct simhca_uverbs_write_req *req)
{
	size_t used = 0;

	for (int i = 0; i < SIMHCA_UVERBS_PARTS; i++) {
		const struct driver_part *in = &write->in[i], *out = &write->out[i];

		if (in->size > sizeof(req->data) - used || out->size > UINT16_MAX)
			return false;
		if (in->size)
			memcpy(req->data + used, in->data, in->size);
		used += in->size;
		req->in[i] = (uint16_t)in->size;
		req->out[i] = (uint16_t)out->size;
	}
	return true;
}

/* What the answer does not have of a part is 0, as from a kernel that knows less. */
static void scatter(const struct driver_write *write, const struct simhca_uverbs_write_reply *reply)
{
	size_t used = 0;

	for (int i = 0; i < SIMHCA_UVERBS_PARTS; i++) {
		const struct driver_part *out = &write->out[i];
		size_t there = reply->out[i];

		if (there > sizeof(reply->data) - used)
			there = sizeof(reply->data) - used;
		if (out->size) {
			memset(out->data, 0, out->size);
			memcpy(out->data, reply->data + used,
			       there < out->size ? there : out->size);
		}
		used += there;
	}
}

int driver_write(int fd, const struct driver_write *write)
{
	struct simhca_uverbs_write_req req = { .command = write->command };
	struct simhca_uverbs_write_reply reply = { .fd_at = SIMHCA_UVERBS_NO_FD };
	const struct iovec part = { &req, sizeof(req) };
	int received = -1;
	const struct simhca_request request = {
		.device_fd = fd,
		.command = SIMHCA_CMD_UVERBS_WRITE,
		.parts = &part,
		.num_parts = 1,
		.fds = &write->fd,
		.num_fds = write->fd < 0 ? 0 : 1,
		.body = &reply,
		.size = sizeof(reply),
		.reply_fds = &received,
		.max_reply_fds = 1,
		.keep = true,
	};
	struct simhca_answer answer;
	int32_t number;
	int ret;

	if (!gather(write, &req))
		return EINVAL;
	ret = request_result(simhca_request(&request, &answer), &answer);
	if (ret < 0)
		return -ret;
	if (reply.fd_at != SIMHCA_UVERBS_NO_FD) {
		if (received < 0)
			return answer.fds_lost ? EMFILE : EIO;
		number = received;
		if (reply.fd_at <= sizeof(reply.data) - sizeof(number))
			memcpy(reply.data + reply.fd_at, &number, sizeof(number));
	}
	scatter(write, &reply);
	return 0;
}

/* A userfaultfd that can write-protect shared memory; -1: the system does not let us. */
static int make_userfaultfd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 || !REAL(ioctl)(fd, UFFDIO_API, &api))
		return fd;
	simhca_call_close(fd);
	return -1;
}

static void watch(int fd, uint64_t key, const void *address)
{
	const struct simhca_uverbs_watch_req req = { .key = key, .address = (uintptr_t)address };
	const struct iovec part = { (void *)(uintptr_t)&req, sizeof(req) };
	int userfaultfd = make_userfaultfd();
	const struct simhca_request request = {
		.device_fd = fd,
		.command = SIMHCA_CMD_UVERBS_WATCH,
		.parts = &part,
		.num_parts = 1,
		.fds = &userfaultfd,
		.num_fds = userfaultfd < 0 ? 0 : 1,
		.keep = true,
	};
	struct simhca_answer answer;

	/* If it fails nobody is hurt: the device looks for stores again and again. */
	simhca_request(&request, &answer);
	if (userfaultfd >= 0)
		simhca_call_close(userfaultfd);
}

void *driver_map(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	const struct simhca_uverbs_map_req req = { .key = (uint64_t)offset, .length = size };
	const struct iovec part = { (void *)(uintptr_t)&req, sizeof(req) };
	struct simhca_uverbs_map_reply reply;
	int file = -1, saved = errno, ret;
	const struct simhca_request request = {
		.device_fd = fd,
		.command = SIMHCA_CMD_UVERBS_MAP,
		.parts = &part,
		.num_parts = 1,
		.body = &reply,
		.size = sizeof(reply),
		.reply_fds = &file,
		.max_reply_fds = 1,
		.keep = true,
	};
	struct simhca_answer answer;
	void *base = MAP_FAILED;

	ret = request_result(simhca_request(&request, &answer), &answer);
	if (ret >= 0 && (file < 0 || (size_t)ret != sizeof(reply)))
		ret = answer.fds_lost ? -EMFILE : -EIO;
	if (ret >= 0) {
		base = REAL(mmap)(addr, size, prot, flags, file, (off_t)reply.offset);
		saved = base == MAP_FAILED ? errno : saved;
	}
	if (file >= 0)
		simhca_call_close(file);
	if (base != MAP_FAILED && reply.doorbell)
		watch(fd, (uint64_t)offset, base);
	errno = ret < 0 ? -ret : saved;
	return base;
}
