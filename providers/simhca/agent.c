/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The memory agent: copies between this process's memory and the bounce memory when the device
 * asks for it. The copy is a read or write of the bounce memfd with the process's memory as the
 * buffer, so that the kernel checks the address and a bad one is EFAULT, not a signal.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <unistd.h>

#include "command.h"
#include "simhca-madvise.h"

#define BOUNCE_BYTES (1u << 20)

int shca_agent_init(struct shca_agent *agent, int *device_fd)
{
	int pair[2];

	agent->bounce_fd =
		simhca_call_move_fd(memfd_create("simhca-bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (agent->bounce_fd < 0)
		return errno;
	if (ftruncate(agent->bounce_fd, BOUNCE_BYTES) ||
	    fcntl(agent->bounce_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return errno;
	agent->bounce_size = BOUNCE_BYTES;
	agent->fd = simhca_call_move_fd(pair[0]);
	*device_fd = pair[1];
	return 0;
}

int shca_agent_offer(struct shca_context *ctx, int device_fd)
{
	struct shca_agent *agent = &ctx->watcher.agent;
	struct simhca_set_agent_req req = { .bounce_size = agent->bounce_size };
	int fds[2] = { device_fd, agent->bounce_fd };

	return shca_execute(ctx, &(struct shca_command){
					 .command = SIMHCA_CMD_SET_AGENT,
					 .req = &req,
					 .req_size = sizeof(req),
					 .req_fds = fds,
					 .num_req_fds = 2,
				 });
}

/* One segment. A copy that ends early is continued: the next call says what was wrong. */
static int copy_segment(int bounce_fd, uint32_t op, uint64_t addr, uint64_t length, uint64_t offset)
{
	char *buf = (char *)(uintptr_t)addr;
	ssize_t bytes;

	while (length) {
		if (op == SIMHCA_AGENT_READ)
			bytes = simhca_call_pwrite(bounce_fd, buf, length, (off_t)offset);
		else
			bytes = simhca_call_pread(bounce_fd, buf, length, (off_t)offset);
		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return errno;
		if (bytes == 0)
			return EFAULT;
		buf += bytes;
		offset += (uint64_t)bytes;
		length -= (uint64_t)bytes;
	}
	return 0;
}

static int copy(const struct shca_agent *agent, const struct simhca_agent_req *req)
{
	uint64_t offset = req->offset;
	uint32_t i;
	int err = 0;

	if ((req->op != SIMHCA_AGENT_READ && req->op != SIMHCA_AGENT_WRITE) ||
	    req->count > sizeof(req->segment) / sizeof(req->segment[0]))
		return EINVAL;

	for (i = 0; i < req->count && !err; i++) {
		if (offset > agent->bounce_size ||
		    req->segment[i].length > agent->bounce_size - offset)
			return EINVAL;
		err = copy_segment(agent->bounce_fd, req->op, req->segment[i].addr,
				   req->segment[i].length, offset);
		offset += req->segment[i].length;
	}
	return err;
}

#define PAGE_BYTES 4096u
#define PAGEMAP_THERE (UINT64_C(3) << 62) /* in memory, or swapped out */

/* Without the advice: a byte of each page is read, which tells at least whether it can be. */
static int touch(const struct shca_agent *agent, uint64_t addr, uint64_t length)
{
	uint64_t at;
	int err = 0;

	for (at = 0; at < length && !err; at += PAGE_BYTES)
		err = copy_segment(agent->bounce_fd, SIMHCA_AGENT_READ, addr + at, 1, 0);
	return err;
}

/* Brings pages in, as an access would, without changing a byte of them. */
static int page_in(const struct shca_agent *agent, uint64_t addr, uint64_t length, bool write)
{
	void *start = (void *)(uintptr_t)addr;
	int err;

	do
		err = madvise(start, length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)
			      ? errno
			      : 0;
	while (err == EAGAIN || err == EINTR);
	if (!err)
		return 0;
	if (err != EINVAL)
		return EFAULT;
	/* Either a right is missing, or the kernel knows no such advice. */
	if (write && !madvise(start, length, MADV_POPULATE_READ))
		return EACCES;
	return touch(agent, addr, length);
}

/* A process that may not look at its own page tables has no page that it is sure of. */
static int all_resident(uint64_t addr, uint64_t length)
{
	uint64_t entry[64], at = addr / PAGE_BYTES, end = (addr + length) / PAGE_BYTES;
	int fd = simhca_call_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? EFAULT : 0;

	while (!err && at < end) {
		size_t pages = end - at < 64 ? (size_t)(end - at) : 64, i;
		size_t bytes = pages * sizeof(entry[0]);

		if (simhca_call_pread(fd, entry, bytes, (off_t)(at * sizeof(entry[0]))) !=
		    (ssize_t)bytes)
			err = EFAULT;
		for (i = 0; i < pages && !err; i++)
			if (!(entry[i] & PAGEMAP_THERE))
				err = EFAULT;
		at += pages;
	}
	if (fd >= 0)
		simhca_call_close(fd);
	return err;
}

static int carry_out(const struct shca_agent *agent, const struct simhca_agent_req *req)
{
	uint64_t addr = req->segment[0].addr, length = req->segment[0].length;

	switch (req->op) {
	case SIMHCA_AGENT_PAGE_IN:
	case SIMHCA_AGENT_PAGE_IN_WRITE:
		return page_in(agent, addr, length, req->op == SIMHCA_AGENT_PAGE_IN_WRITE);
	case SIMHCA_AGENT_RESIDENT:
		return all_resident(addr, length);
	default:
		return copy(agent, req);
	}
}

bool shca_agent_serve(struct shca_agent *agent)
{
	struct simhca_agent_req req = {};
	struct simhca_agent_reply reply = {};
	ssize_t bytes;

	bytes = simhca_call_recv(agent->fd, &req, sizeof(req), MSG_DONTWAIT);
	if (bytes < 0)
		return errno == EINTR || errno == EAGAIN;
	if ((size_t)bytes != sizeof(req))
		return false;

	reply.seq = req.seq;
	reply.status = (uint32_t)carry_out(agent, &req);
	while (simhca_call_send(agent->fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return false;
	return true;
}

void shca_agent_close(struct shca_agent *agent)
{
	if (agent->fd >= 0)
		simhca_call_close(agent->fd);
	if (agent->bounce_fd >= 0)
		simhca_call_close(agent->bounce_fd);
}
