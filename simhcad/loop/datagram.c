/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "datagram.h"

/* Of newer kernels than some libc know. */
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

#define DRAINED 4 /* datagrams, each with as many descriptors as the kernel passes */
#include "base/log.h"

static void take_sender(const struct cmsghdr *cmsg, struct sender *sender)
{
	static pid_t
		ours; /* of the main thread, which has nothing to ask the kernel for each time */
	struct ucred from;

	if (!ours)
		ours = getpid();

	memcpy(&from, CMSG_DATA(cmsg), sizeof(from));
	/* root can write any number here: ours would make the device look into itself. */
	sender->pid = from.pid == ours ? 0 : from.pid;
	sender->uid = from.uid;
	sender->known = true;
}

static void take_pidfd(const struct cmsghdr *cmsg, struct sender *sender)
{
	memcpy(&sender->pidfd, CMSG_DATA(cmsg), sizeof(int));
	if (sender->pidfd < 0) {
		sender->gone = true;
		sender->pidfd = -1;
	}
}

void datagram_ask_for_pidfds(int socket, bool ask)
{
	int on = ask;

	setsockopt(socket, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on));
}

ssize_t datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
			 struct iovec *iov, size_t iov_count, struct sender *sender, int *fds,
			 unsigned int max_fds, unsigned int *num_fds, bool *truncated)
{
	/* Room for all that the kernel passes: what finds none, the kernel closes here and now. */
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int)) +
			   CMSG_SPACE(DATAGRAM_KERNEL_FDS * sizeof(int))];
	} control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = iov_count,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t length;

	*sender = (struct sender){ .pidfd = -1 };
	*num_fds = 0;
	do
		length = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (length < 0 && errno == EINTR);
	if (length < 0)
		return -errno;
	*truncated = msg.msg_flags & MSG_TRUNC;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_CREDENTIALS)
			take_sender(cmsg, sender);
		if (cmsg->cmsg_type == SCM_PIDFD)
			take_pidfd(cmsg, sender);
		if (cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (*num_fds < max_fds)
				fds[(*num_fds)++] = fd;
			else
				releaser_close(releaser, owner, fd);
		}
	}
	return length;
}

void datagram_reply(struct simhca_reply_hdr *hdr, uint32_t kept, int status,
		    const struct datagram_answer *answer, const struct simhca_why *why,
		    struct iovec iov[2])
{
	const size_t body = status ? 0 : answer->body_size;

	*hdr = (struct simhca_reply_hdr){
		.magic = SIMHCA_CMD_MAGIC,
		.status = (uint32_t)-status,
		.length = (uint32_t)(sizeof(*hdr) + body),
		.kept = kept,
	};
	if (status)
		memcpy(hdr->message, why->text, sizeof(hdr->message));
	iov[0] = (struct iovec){ .iov_base = hdr, .iov_len = sizeof(*hdr) };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)answer->body, .iov_len = body };
}

int datagram_check(const struct simhca_cmd_hdr *hdr, size_t length, size_t least, int error,
		   const char *from, struct simhca_why *why)
{
	if (length < least || hdr->magic != SIMHCA_CMD_MAGIC || hdr->length != length)
		return simhca_why(why, error, "not a command: bad header or length");
	if (hdr->version != SIMHCA_ABI_VERSION)
		return simhca_why(why, EPROTONOSUPPORT,
				  "simhcad " SIMHCA_VERSION " speaks version %u of the ABI and the "
				  "%s version %u: install both from one release",
				  SIMHCA_ABI_VERSION, from, hdr->version);
	return 0;
}

void datagram_answer(int fd, uint32_t kept, int status, const struct datagram_answer *answer,
		     const struct simhca_why *why)
{
	struct simhca_reply_hdr hdr;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	datagram_reply(&hdr, kept, status, answer, why, iov);
	if (!status && answer->num_fds) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(answer->num_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(answer->num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), answer->fds, answer->num_fds * sizeof(int));
	}
	/* Who does not take the answer has no other claim to it. */
	if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("an answer could not be sent: %m");
}

void datagram_close(int socket, struct releaser *releaser, const struct owner *owner)
{
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = sizeof(byte) };

	shutdown(socket, SHUT_RD);
	for (int i = 0; i < DRAINED; i++) {
		struct sender sender;
		unsigned int num_fds;
		bool truncated;
		ssize_t length = datagram_receive(socket, releaser, owner, &iov, 1, &sender, NULL,
						  0, &num_fds, &truncated);

		if (sender.pidfd >= 0)
			close(sender.pidfd);
		if (length < 0 || (!length && !sender.known)) {
			close(socket);
			return;
		}
	}
	releaser_close(releaser, owner, socket);
}

bool datagram_has_hung_up(int socket)
{
	struct pollfd pollfd = { .fd = socket, .events = 0 };

	/* POLLHUP: both directions are shut down. POLLRDHUP would be of the one from the peer alone. */
	return poll(&pollfd, 1, 0) == 1 && pollfd.revents & (POLLHUP | POLLERR);
}
