/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory behind an agent: the client's own thread copies between its memory and a bounce
 * memory that both map, one request at a time. The engine waits for it, so only an engine
 * that serves no one else may come here (dma.h, struct simhca_mm's engine). An agent that
 * does not answer in time is given up for good. The time of a process that is stopped, by a
 * debugger as a rule, does not count: a NIC would go on, and the program shall find its
 * connections when it goes on. That wait ends with the process or its connection.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "core/proc_stat.h"
#include "dma.h"
#include "file_kind.h"

#define AGENT_TIMEOUT_MS 5000
#define AGENT_LOOK_MS 250 /* how often to see whether the process is stopped */
#define AGENT_MIN_BOUNCE 4096u
#define AGENT_MAX_BOUNCE (64u << 20)

struct simhca_agent {
	pthread_mutex_t lock; /* one request at a time */
	pid_t pid;	      /* 0: of a namespace that we cannot see into */
	int socket;
	void *bounce;
	uint64_t bounce_size;
	uint64_t seq;
	bool dead;
};

/* Whether the file has so many bytes, of which none can be missing when they are touched (SIGBUS). */
static bool is_bounce_memory(int fd, uint64_t size)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;

	/* The size is asked for last: the client could shrink the file before it had the seals. */
	return size >= AGENT_MIN_BOUNCE && size <= AGENT_MAX_BOUNCE &&
	       simhca_file_kind(fd) == SIMHCA_FILE_MEMORY &&
	       (fcntl(fd, F_GET_SEALS) & seals) == seals && simhca_file_has_ordinary_pages(fd) &&
	       !fstat(fd, &st) && (uint64_t)st.st_size >= size;
}

struct simhca_agent *simhca_agent_create(pid_t pid, int socket, int bounce_fd, uint64_t bounce_size)
{
	struct simhca_agent *agent;

	if (simhca_file_kind(socket) != SIMHCA_FILE_UNIX_SOCKET ||
	    !is_bounce_memory(bounce_fd, bounce_size)) {
		errno = EINVAL;
		return NULL;
	}
	agent = calloc(1, sizeof(*agent));
	if (!agent)
		return NULL;
	agent->bounce = mmap(NULL, bounce_size, PROT_READ | PROT_WRITE, MAP_SHARED, bounce_fd, 0);
	if (agent->bounce == MAP_FAILED) {
		free(agent);
		return NULL;
	}
	agent->pid = pid;
	agent->socket = socket;
	agent->bounce_size = bounce_size;
	simhca_mutex_init(&agent->lock, SIMHCA_LOCK_AGENT);
	return agent;
}

void simhca_agent_destroy(const struct simhca_fabric *fabric, struct simhca_agent *agent)
{
	if (!agent)
		return;
	simhca_release(fabric, agent->bounce, agent->bounce_size, agent->socket);
	pthread_mutex_destroy(&agent->lock);
	free(agent);
}

void simhca_agent_abort(struct simhca_agent *agent)
{
	if (agent)
		shutdown(agent->socket, SHUT_RDWR);
}

/* By a signal (T) or a tracer (t), as far as can be seen. */
static bool is_stopped(pid_t pid)
{
	char path[64], text[SIMHCA_PROC_STAT];
	const char *state;

	if (!pid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	state = simhca_proc_stat(path, text);
	return state && (*state == 'T' || *state == 't');
}

/* Waits for an answer as long as the process may take for it: 0 or errno. */
static int wait_for_answer(const struct simhca_agent *agent)
{
	struct pollfd poll_answer = { .fd = agent->socket, .events = POLLIN };
	int left_ms = AGENT_TIMEOUT_MS;

	while (left_ms > 0) {
		int ready = poll(&poll_answer, 1, AGENT_LOOK_MS);

		if (ready)
			return ready < 0 ? errno : 0;
		if (!is_stopped(agent->pid))
			left_ms -= AGENT_LOOK_MS;
	}
	return ETIMEDOUT;
}

/* Sends one request and waits for its answer; 0 or errno. */
static int ask(struct simhca_agent *agent, struct simhca_agent_req *req)
{
	struct simhca_agent_reply reply;
	int error;

	req->seq = ++agent->seq;
	if (send(agent->socket, req, sizeof(*req), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(*req))
		return errno == EAGAIN ? ETIMEDOUT : ESRCH;
	error = wait_for_answer(agent);
	if (error)
		return error;
	/* One request at a time: an agent that answers another makes no sense, and is not waited
	 * for. */
	if (recv(agent->socket, &reply, sizeof(reply), MSG_DONTWAIT) != sizeof(reply) ||
	    reply.seq != req->seq)
		return ESRCH;
	if (!reply.status)
		return 0;
	return reply.status == EACCES ? EACCES : EFAULT;
}

int simhca_agent_ask(struct simhca_agent *agent, enum simhca_agent_op op, uint64_t addr,
		     uint64_t length)
{
	struct simhca_agent_req req = { .op = op, .count = 1 };
	int error;

	req.segment[0].addr = addr;
	req.segment[0].length = length;
	pthread_mutex_lock(&agent->lock);
	error = agent->dead ? ETIMEDOUT : ask(agent, &req);
	if (error == ETIMEDOUT || error == ESRCH)
		agent->dead = true;
	pthread_mutex_unlock(&agent->lock);
	return error;
}

int simhca_agent_copy(struct simhca_agent *agent, bool write, const struct iovec *remote,
		      unsigned int count, void *ours, size_t length)
{
	struct simhca_agent_req req;
	unsigned int index = 0;
	size_t skip = 0, done = 0;
	int error = 0;

	pthread_mutex_lock(&agent->lock);
	while (done < length && !error) {
		size_t bytes = 0;

		if (agent->dead) {
			error = ETIMEDOUT;
			break;
		}
		memset(&req, 0, sizeof(req));
		req.op = write ? SIMHCA_AGENT_WRITE : SIMHCA_AGENT_READ;
		while (index < count && req.count < 16 && bytes < agent->bounce_size) {
			size_t left = remote[index].iov_len - skip;
			size_t run = left < agent->bounce_size - bytes ? left
								       : agent->bounce_size - bytes;

			req.segment[req.count].addr = (uintptr_t)remote[index].iov_base + skip;
			req.segment[req.count++].length = run;
			bytes += run;
			skip += run;
			if (run == left) {
				index++;
				skip = 0;
			}
		}
		if (write)
			memcpy(agent->bounce, (char *)ours + done, bytes);
		error = ask(agent, &req);
		if (error == ETIMEDOUT || error == ESRCH)
			agent->dead = true;
		if (!error && !write)
			memcpy((char *)ours + done, agent->bounce, bytes);
		done += bytes;
	}
	pthread_mutex_unlock(&agent->lock);
	return error;
}
