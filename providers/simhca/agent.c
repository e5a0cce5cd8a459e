/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
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

#define BOUNCE_BYTES (1u << 20)

int shca_agent_init(struct shca_agent *agent, int *device_fd)
{
	int pair[2];

	agent->bounce_fd = memfd_create("simhca-bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (agent->bounce_fd < 0)
		return errno;
	if (ftruncate(agent->bounce_fd, BOUNCE_BYTES) ||
	    fcntl(agent->bounce_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return errno;
	agent->bounce_size = BOUNCE_BYTES;
	agent->fd = pair[0];
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
			bytes = pwrite(bounce_fd, buf, length, (off_t)offset);
		else
			bytes = pread(bounce_fd, buf, length, (off_t)offset);
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

bool shca_agent_serve(struct shca_agent *agent)
{
	struct simhca_agent_req req = {};
	struct simhca_agent_reply reply = {};
	ssize_t bytes;

	bytes = recv(agent->fd, &req, sizeof(req), MSG_DONTWAIT);
	if (bytes < 0)
		return errno == EINTR || errno == EAGAIN;
	if ((size_t)bytes != sizeof(req))
		return false;

	reply.seq = req.seq;
	reply.status = (uint32_t)copy(agent, &req);
	while (send(agent->fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return false;
	return true;
}

void shca_agent_close(struct shca_agent *agent)
{
	if (agent->fd >= 0)
		close(agent->fd);
	if (agent->bounce_fd >= 0)
		close(agent->bounce_fd);
}
