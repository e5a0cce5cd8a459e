/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Sockets for answers (simhca-abi-cmd.h) that are kept from one request to the next. They are the
 * process's, not a thread's, so that there are few and none is left behind by a thread that ends. A
 * request takes one that nobody uses, by one atomic word; without one it makes one, and keeps it if
 * there is room.
 *
 * The program may close descriptors that it does not know, and get their numbers for others: so
 * before it is used a socket is told by its inode, as is the connection that it belongs to. After
 * fork() the parent's are not used. Where the program has no descriptors left, a request waits for
 * one that another thread uses. Who never comes back from a request, which a signal handler can
 * leave by longjmp(), takes one place with it.
 */
#ifndef SIMHCA_SOCKETS_H
#define SIMHCA_SOCKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct simhca_socket {
	_Atomic uint64_t user; /* the process << 1, and whether it uses it now; 0: it is empty */
	_Atomic uint64_t connection; /* inode */
	uint64_t inode;
	uint32_t number; /* by which the daemon knows it */
	int fd;
};

/* A number for the connection, as long as it is open; 0: it is none. */
uint64_t simhca_connection(int fd);

/* One that was kept for this connection, and is the caller's until it is put back; NULL: none. */
struct simhca_socket *simhca_socket_find(uint64_t connection);
/* An empty place for one, likewise. */
struct simhca_socket *simhca_socket_place(void);
void simhca_socket_put(struct simhca_socket *socket);
/*
 * There are no descriptors for another. True: it pays to look again, since one for this connection
 * was put back after simhca_sockets_put_back() said seen, or some that nobody uses were closed.
 */
uint32_t simhca_sockets_put_back(void);
bool simhca_sockets_wait(uint64_t connection, uint32_t seen);
/* Instead of putting it back. */
void simhca_socket_drop(struct simhca_socket *socket);
/* Likewise, of a place: takes fd, which the daemon knows by the number. */
void simhca_socket_keep(struct simhca_socket *socket, uint64_t connection, int fd, uint32_t number);

/* Closes those that were kept for this connection, but for what is in use. */
void simhca_sockets_forget(uint64_t connection);

#endif
