/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simhca-calls.h"
#include "simhca-sockets.h"

#define PLACES 8
#define BUSY 1u
#define ENDS 2 /* of a new socket */

static struct simhca_socket places[PLACES];
static atomic_uint next_victim;
static _Atomic uint32_t put_back; /* how often; a futex */
static atomic_uint waiting;

/* Not by the C library's statx(), which the preload library replaces. */
uint64_t simhca_connection(int fd)
{
	struct statx stx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &stx) ||
	    !S_ISSOCK(stx.stx_mode))
		return 0;
	return stx.stx_ino;
}

static bool take(struct simhca_socket *socket, uint64_t user, uint64_t pid)
{
	/* Acquire: what the last user has left there. */
	return atomic_compare_exchange_strong_explicit(&socket->user, &user, pid << 1 | BUSY,
						       memory_order_acquire, memory_order_relaxed);
}

/* Empties a place that was taken; not what the program has put there since. */
static void empty(struct simhca_socket *socket)
{
	if (socket->inode && simhca_connection(socket->fd) == socket->inode)
		simhca_call_close(socket->fd);
	socket->inode = 0;
	atomic_store_explicit(&socket->connection, 0, memory_order_relaxed);
}

static bool is_for(struct simhca_socket *socket, uint64_t connection)
{
	return atomic_load_explicit(&socket->connection, memory_order_relaxed) == connection;
}

struct simhca_socket *simhca_socket_find(uint64_t connection)
{
	uint64_t pid = (uint64_t)getpid();

	for (unsigned int i = 0; i < PLACES; i++) {
		struct simhca_socket *socket = &places[i];

		/* Whoever takes it looks again. */
		if (!is_for(socket, connection) || !take(socket, pid << 1, pid))
			continue;
		if (is_for(socket, connection) && simhca_connection(socket->fd) == socket->inode)
			return socket;
		simhca_socket_drop(socket);
	}
	return NULL;
}

/* One of a process that this was forked from, or another connection's, if none is empty. */
struct simhca_socket *simhca_socket_place(void)
{
	uint64_t pid = (uint64_t)getpid();
	unsigned int start = atomic_fetch_add_explicit(&next_victim, 1, memory_order_relaxed);

	for (unsigned int i = 0; i < 2 * PLACES; i++) {
		struct simhca_socket *socket = &places[(start + i) % PLACES];
		uint64_t user = atomic_load_explicit(&socket->user, memory_order_relaxed);
		bool others = user >> 1 != pid;

		if ((others || (i >= PLACES && !(user & BUSY))) && take(socket, user, pid)) {
			empty(socket);
			return socket;
		}
	}
	return NULL;
}

static void futex(int operation, uint32_t value, const struct timespec *time)
{
	syscall(SYS_futex, &put_back, (long)operation, (unsigned long)value, time, NULL, 0l);
}

/* After a place has been given back. Whoever waits counts itself first, and looks again then. */
static void wake(void)
{
	atomic_fetch_add(&put_back, 1);
	if (atomic_load(&waiting))
		futex(FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

uint32_t simhca_sockets_put_back(void)
{
	return atomic_load(&put_back);
}

/* Of other connections, or of a process that this was forked from; how many. */
static unsigned int close_unused(uint64_t connection, uint64_t pid)
{
	unsigned int closed = 0;

	for (unsigned int i = 0; i < PLACES && closed < ENDS; i++) {
		struct simhca_socket *socket = &places[i];
		uint64_t user = atomic_load_explicit(&socket->user, memory_order_relaxed);

		if (!user || is_for(socket, connection) || (user >> 1 == pid && (user & BUSY)) ||
		    !take(socket, user, pid))
			continue;
		simhca_socket_drop(socket);
		closed++;
	}
	return closed;
}

bool simhca_sockets_wait(uint64_t connection, uint32_t seen)
{
	/* Should its user never come back. */
	const struct timespec while_others_work = { .tv_nsec = 10000000 };
	uint64_t pid = (uint64_t)getpid();
	bool one_is_used = false;

	for (unsigned int i = 0; i < PLACES; i++) {
		uint64_t user = atomic_load_explicit(&places[i].user, memory_order_relaxed);

		one_is_used = one_is_used || (is_for(&places[i], connection) && user >> 1 == pid);
	}
	if (!one_is_used)
		return close_unused(connection, pid) > 0;
	atomic_fetch_add(&waiting, 1);
	futex(FUTEX_WAIT_PRIVATE, seen, &while_others_work);
	atomic_fetch_sub(&waiting, 1);
	return true;
}

void simhca_socket_put(struct simhca_socket *socket)
{
	uint64_t user = atomic_load_explicit(&socket->user, memory_order_relaxed);

	atomic_store_explicit(&socket->user, user & ~(uint64_t)BUSY, memory_order_release);
	wake();
}

void simhca_socket_drop(struct simhca_socket *socket)
{
	empty(socket);
	atomic_store_explicit(&socket->user, 0, memory_order_release);
	wake();
}

void simhca_socket_keep(struct simhca_socket *socket, uint64_t connection, int fd, uint32_t number)
{
	socket->fd = simhca_call_move_fd(fd);
	socket->inode = simhca_connection(socket->fd);
	socket->number = number;
	if (!socket->inode) {
		simhca_socket_drop(socket);
		return;
	}
	atomic_store_explicit(&socket->connection, connection, memory_order_relaxed);
	simhca_socket_put(socket);
}

void simhca_sockets_forget(uint64_t connection)
{
	uint64_t pid = (uint64_t)getpid();

	for (unsigned int i = 0; i < PLACES; i++) {
		struct simhca_socket *socket = &places[i];

		if (!is_for(socket, connection) || !take(socket, pid << 1, pid))
			continue;
		if (is_for(socket, connection))
			simhca_socket_drop(socket);
		else
			simhca_socket_put(socket);
	}
}
