/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A command of librdmacm, whose answer has to be in the
 * program's memory when the call returns (simhca-abi-rdma-cm.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device.h"
#include "rdma_cm.h"
#include "request.h"
#include "simhca-abi.h"
#include "simhca-abi-rdma-cm.h"
#include "simhca-calls.h"
#include "simhca-spin.h"

#define LOOKS 100 /* for an event, half a microsecond each */

static struct simhca_spin spin;

/* A command taken apart. */
struct ucma_write {
	struct caller *caller;
	int fd, old_fd; /* old_fd: MIGRATE_ID's, else -1 */
	uint8_t bytes[SIMHCA_UCMA_MAX_WRITE];
	uint8_t option[SIMHCA_UCMA_MAX_OPTION]; /* SET_OPTION's value */
	size_t count; /* of them; what the program writes behind the longest command says nothing */
	struct rdma_ucm_cmd_hdr hdr;
	struct simhca_ucma_request request;
	struct {
		struct simhca_ucma_reply reply;
		uint8_t response[SIMHCA_UCMA_MAX_RESPONSE];
	} answer;
};

/*
 * request goes in front of the parts, of which there are two at most. Returns the length of the
 * answer, which begins with struct simhca_ucma_reply, or a negative errno: EIO when the daemon has
 * gone. Waits for the daemon only, and for it whatever signals come: it answers at once, or has
 * died.
 */
static int send_request(int fd, int command, struct simhca_ucma_request *request,
			const struct iovec *parts, size_t num_parts, void *body, size_t size)
{
	struct iovec all[3] = { { request, sizeof(*request) } };
	const struct simhca_request whole = {
		.device_fd = fd,
		.command = command,
		.parts = all,
		.num_parts = 1 + num_parts,
		.body = body,
		.size = size,
		.keep = true,
	};
	struct simhca_answer answer;

	for (size_t i = 0; i < num_parts; i++)
		all[1 + i] = parts[i];
	return request_result(simhca_request(&whole, &answer), &answer);
}

/* There is none. As the descriptor says; before it sleeps it looks again a few times. */
static ssize_t wait_for_token(int fd, uint32_t *token)
{
	int flags = fcntl(fd, F_GETFL);
	ssize_t len = -1;

	if (flags >= 0 && !(flags & O_NONBLOCK) && simhca_spin_wanted(&spin)) {
		for (unsigned int i = 0; i < LOOKS && len < 0; i++)
			len = simhca_call_recv(fd, token, sizeof(*token), MSG_DONTWAIT);
		simhca_spin_done(&spin, len > 0);
	}
	return len < 0 ? recv(fd, token, sizeof(*token), 0) : len;
}

/* Takes one token; 0, or a negative errno. */
static int take_token(int fd, bool waits, uint32_t *token)
{
	ssize_t len = simhca_call_recv(fd, token, sizeof(*token), MSG_DONTWAIT);

	if (len < 0 && errno == EAGAIN && waits)
		len = wait_for_token(fd, token);
	if (len == sizeof(*token))
		return 0;
	/* Otherwise the daemon has gone. */
	return len < 0 && errno != ECONNRESET ? -errno : -EIO;
}

/* Of events that are no more. If it is a newer one that comes, it is shown again. */
static void take_back(int fd, uint32_t wanted)
{
	struct simhca_ucma_request request = { .token = 0 };
	struct simhca_ucma_reply reply;

	if (!wanted || take_token(fd, false, &request.token) || request.token == wanted)
		return;
	send_request(fd, SIMHCA_UCMA_RENEW, &request, NULL, 0, &reply, sizeof(reply));
}

/* The daemon does not know the program's descriptors: which file the old one is. */
static int identify_file(struct ucma_write *write)
{
	struct simhca_ucma_request request = { .token = 0 };
	struct simhca_ucma_reply reply;
	struct device_name device;
	int ret;

	if (!device_of_fd(write->old_fd, &device) || !device_is_rdma_cm(&device))
		return -EINVAL;
	ret = send_request(write->old_fd, SIMHCA_UCMA_IDENTIFY, &request, NULL, 0, &reply,
			   sizeof(reply));
	if (ret != sizeof(reply))
		return ret < 0 ? ret : -EIO;
	write->request.file = reply.file;
	return 0;
}

static int identify(struct ucma_write *write)
{
	struct rdma_ucm_migrate_id cmd;

	if (write->count < sizeof(write->hdr) + sizeof(cmd))
		return -EINVAL;
	memcpy(&cmd, write->bytes + sizeof(write->hdr), sizeof(cmd));
	write->old_fd = (int)cmd.fd;
	if (caller_is_other(write->caller))
		write->old_fd = write->caller->borrow(write->caller, (int)cmd.fd);
	return identify_file(write);
}

static int take_option(struct ucma_write *write)
{
	struct rdma_ucm_set_option cmd;

	if (write->hdr.cmd != RDMA_USER_CM_CMD_SET_OPTION ||
	    write->count < sizeof(write->hdr) + sizeof(cmd))
		return 0;
	memcpy(&cmd, write->bytes + sizeof(write->hdr), sizeof(cmd));
	/* What is longer is refused, whatever it says. */
	write->request.option = cmd.optlen <= SIMHCA_UCMA_MAX_OPTION ? (uint16_t)cmd.optlen : 0;
	return caller_read(write->caller, write->option, (const void *)(uintptr_t)cmd.optval,
			   write->request.option);
}

static int ask(struct ucma_write *write)
{
	struct iovec parts[] = {
		{ write->bytes, write->count },
		{ write->option, 0 },
	};
	int ret = take_option(write);

	if (ret)
		return ret;
	parts[1].iov_len = write->request.option;
	write->request.written = (uint16_t)write->count;
	ret = send_request(write->fd, SIMHCA_UCMA_WRITE, &write->request, parts, 2, &write->answer,
			   sizeof(write->answer));
	if (ret < 0)
		return ret;
	if ((size_t)ret < sizeof(write->answer.reply) ||
	    (size_t)ret != sizeof(write->answer.reply) + write->answer.reply.length)
		return -EIO;
	take_back(write->fd, write->answer.reply.take);
	if (write->old_fd >= 0)
		take_back(write->old_fd, write->answer.reply.old_take);
	return 0;
}

static int get_event(struct ucma_write *write)
{
	int ret;

	do {
		ret = take_token(write->fd, !caller_is_other(write->caller), &write->request.token);
		if (!ret)
			ret = ask(write);
		else
			return ret;
	} while (ret == -SIMHCA_UCMA_NO_EVENT);
	return ret;
}

/* By a copy of its bytes onto themselves. */
static int try_to_write(void *to, size_t size)
{
	struct iovec there = { to, size };
	ssize_t copied = process_vm_readv(getpid(), &there, 1, &there, 1, 0);

	return copied == (ssize_t)size || (copied < 0 && errno != EFAULT) ? 0 : -EFAULT;
}

/*
 * Where the response goes, once it has been found out, of this process, that it can; NULL: nowhere.
 */
static int find_response(const struct ucma_write *write, void **response)
{
	size_t size = write->hdr.out;
	uint64_t address;
	int at = simhca_ucma_response_at(write->hdr.cmd);

	*response = NULL;
	if (at < 0 || !size || write->count < sizeof(write->hdr) + (size_t)at + sizeof(address))
		return 0;
	memcpy(&address, write->bytes + sizeof(write->hdr) + at, sizeof(address));
	*response = (void *)(uintptr_t)address;
	if (caller_is_other(write->caller))
		return 0;
	return try_to_write(*response, size < sizeof(write->answer.response)
					       ? size
					       : sizeof(write->answer.response));
}

static int command(struct ucma_write *write)
{
	void *response;
	int ret;

	if (write->count < sizeof(write->hdr))
		return -EINVAL;
	memcpy(&write->hdr, write->bytes, sizeof(write->hdr));
	/* Before anything is done: an event whose response cannot be stored is not lost. */
	ret = find_response(write, &response);
	if (ret)
		return ret;
	if (write->hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT)
		ret = get_event(write);
	else if (write->hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID)
		ret = identify(write);
	if (!ret && write->hdr.cmd != RDMA_USER_CM_CMD_GET_EVENT)
		ret = ask(write);
	if (!ret && response)
		ret = caller_write(write->caller, response, write->answer.response,
				   write->answer.reply.length);
	return ret;
}

ssize_t rdma_cm_write(struct caller *caller, int fd, const void *buf, size_t size)
{
	struct ucma_write write = { .caller = caller, .fd = fd, .old_fd = -1 };
	int ret;

	write.count = size < sizeof(write.bytes) ? size : sizeof(write.bytes);
	ret = caller_read(caller, write.bytes, buf, write.count);
	if (!ret)
		ret = command(&write);
	if (caller_is_other(caller) && write.old_fd >= 0)
		simhca_call_close(write.old_fd);
	return ret ? ret : (ssize_t)size;
}
