/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sockets are the process's, not a thread's, so that there are few and none is left behind by
 * a thread that ends. A request takes one that nobody uses, by one atomic word; without one it
 * makes one, and keeps it if there is room.
 *
 * The program may close descriptors that it does not know, and get their numbers for others: so
 * before it is used a socket is told by its inode, as is the connection that it belongs to. After
 * fork() the parent's are not used. Who never comes back from a request, which a signal handler can
 * leave by longjmp(), takes one place with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "real.h"
#include "request.h"

#define PLACES 8
/* The numbers below are the program's, which may count on the next one that is free. */
#define LOWEST_FD 256
#define BUSY 1u

struct place {
	_Atomic uint64_t user; /* the process << 1, and whether it uses it now; 0: it is empty */
	_Atomic uint64_t connection; /* inode */
	uint64_t inode;
	uint32_t number;
	int fd;
};

static struct place places[PLACES];
static atomic_uint next_victim;

/* 0: it is no socket. */
static uint64_t inode_of(int fd)
{
	struct statx stx;

	if (REAL(statx)(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &stx) ||
	    !S_ISSOCK(stx.stx_mode))
		return 0;
	return stx.stx_ino;
}

static bool take(struct place *place, uint64_t user)
{
	uint64_t mine = (uint64_t)getpid() << 1 | BUSY;

	/* Acquire: what the last user has left there. */
	return atomic_compare_exchange_strong_explicit(&place->user, &user, mine,
						       memory_order_acquire, memory_order_relaxed);
}

static void put(struct place *place, bool filled)
{
	atomic_store_explicit(&place->user, filled ? (uint64_t)getpid() << 1 : 0,
			      memory_order_release);
}

/* Empties a place that was taken; not what the program has put there since. */
static void forget(struct place *place)
{
	if (place->inode && inode_of(place->fd) == place->inode)
		close(place->fd);
	place->inode = 0;
}

/* One whose socket is of this connection. */
static struct place *find(uint64_t connection)
{
	uint64_t idle = (uint64_t)getpid() << 1;

	for (unsigned int i = 0; i < PLACES; i++) {
		struct place *place = &places[i];

		/* Relaxed: whoever takes it looks again. */
		if (atomic_load_explicit(&place->connection, memory_order_relaxed) != connection ||
		    !take(place, idle))
			continue;
		if (atomic_load_explicit(&place->connection, memory_order_relaxed) == connection &&
		    inode_of(place->fd) == place->inode)
			return place;
		forget(place);
		put(place, false);
	}
	return NULL;
}

/* An empty one, or one of a process that this was forked from, or another connection's. */
static struct place *make_room(void)
{
	uint64_t pid = (uint64_t)getpid();
	unsigned int start = atomic_fetch_add_explicit(&next_victim, 1, memory_order_relaxed);

	for (unsigned int i = 0; i < 2 * PLACES; i++) {
		struct place *place = &places[(start + i) % PLACES];
		uint64_t user = atomic_load_explicit(&place->user, memory_order_relaxed);
		bool others = user >> 1 != pid;

		if ((others || (i >= PLACES && !(user & BUSY))) && take(place, user)) {
			forget(place);
			return place;
		}
	}
	return NULL;
}

static struct simhca_ucma_request *head_of(const struct simhca_request *request)
{
	return request->parts[0].iov_base;
}

/* With a socket of its own, which may be kept for others. */
static int request_anew(const struct simhca_request *request, struct simhca_answer *answer,
			uint64_t connection)
{
	struct place *place = connection ? make_room() : NULL;
	const struct simhca_ucma_reply *reply = request->body;
	int ends[2];
	int err, fd = -1;

	head_of(request)->keep = place != NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		err = errno;
		if (place)
			put(place, false);
		return err;
	}
	err = simhca_request_on(request, ends[0], ends[1], answer);
	if (!place) {
		close(ends[0]);
		return err;
	}
	if (!err && !answer->hdr.status && answer->size >= sizeof(*reply) && reply->kept)
		fd = fcntl(ends[0], F_DUPFD_CLOEXEC, LOWEST_FD);
	if (fd >= 0) {
		place->fd = fd;
		place->number = reply->kept;
		place->inode = inode_of(fd);
		atomic_store_explicit(&place->connection, connection, memory_order_relaxed);
	}
	close(ends[0]);
	put(place, fd >= 0);
	return err;
}

static int request_on(struct place *place, const struct simhca_request *request,
		      struct simhca_answer *answer)
{
	int err;

	head_of(request)->answer = place->number;
	err = simhca_request_on(request, place->fd, -1, answer);
	/* An answer might still come, which would be taken for another's. */
	if (err)
		forget(place);
	put(place, !err);
	return err;
}

int answer_request(int device_fd, int command, struct simhca_ucma_request *request,
		   const struct iovec *parts, size_t num_parts, void *body, size_t size)
{
	uint64_t connection = inode_of(device_fd);
	struct place *place = connection ? find(connection) : NULL;
	struct iovec all[3] = { { request, sizeof(*request) } };
	const struct simhca_request whole = {
		.device_fd = device_fd,
		.command = command,
		.parts = all,
		.num_parts = 1 + num_parts,
		.body = body,
		.size = size,
	};
	struct simhca_answer answer;
	int err;

	request->answer = request->keep = 0;
	for (size_t i = 0; i < num_parts; i++)
		all[1 + i] = parts[i];
	err = place ? request_on(place, &whole, &answer)
		    : request_anew(&whole, &answer, connection);
	return request_result(err, &answer);
}
