/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utlist.h>

#include "base/log.h"
#include "loop/datagram.h"
#include "loop/listener.h"
#include "nl_server.h"
#include "nl_talk.h"
#include "session/daemon.h"
#include "simhca-abi-netlink.h"
#include "simhca-clock.h"

#define NL_SERVER_CLIENTS 1024
#define UNREAD_BYTES (1 << 15) /* of answers that wait for a client, as SO_SNDBUF counts */

struct nl_server {
	struct daemon *daemon;
	struct listener listener;
	struct nl_client *clients; /* utlist; who was silent for longest comes first */
	unsigned int num_clients;
};

struct nl_client {
	struct turn turn; /* first */
	struct nl_server *server;
	int fd;
	struct owner owner;
	ev_io io;
	struct nl_talk talk;
	struct nl_msg *unsent;	       /* found no room */
	struct nl_client *prev, *next; /* in the server's list */
};

static void client_close(struct nl_client *client)
{
	struct nl_server *server = client->server;

	DL_DELETE(server->clients, client);
	server->num_clients--;
	ev_io_stop(server->daemon->loop, &client->io);
	turns_leave(&server->daemon->turns, &client->turn);
	datagram_close(client->fd, server->daemon->releaser, &client->owner);
	nlmsg_free(client->unsent);
	free(client);
}

static void watch(struct nl_client *client, int events)
{
	struct ev_loop *loop = client->server->daemon->loop;

	ev_io_stop(loop, &client->io);
	ev_io_set(&client->io, client->fd, events);
	ev_io_start(loop, &client->io);
}

/* The netlink address that the client has bound, 0: none. */
static uint32_t port_of(int fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNSPEC };
	socklen_t size = sizeof(name) - 1; /* so that it ends with a NUL */
	unsigned int port;

	if (getpeername(fd, (struct sockaddr *)&name, &size) ||
	    size <= offsetof(struct sockaddr_un, sun_path) + 1 ||
	    sscanf(name.sun_path + 1, SIMHCA_NETLINK_PORT, &port) != 1)
		return 0;
	return port;
}

/* 0, or -errno; -EPIPE: the client has gone. */
static int receive(struct nl_client *client)
{
	struct iovec iov = { client->talk.bytes, sizeof(client->talk.bytes) };
	unsigned int num_fds = 0;
	struct nl_asker asker;
	struct sender sender;
	bool too_long;
	ssize_t length =
		datagram_receive(client->fd, client->server->daemon->releaser, &client->owner, &iov,
				 1, &sender, NULL, 0, &num_fds, &too_long);

	if (length < 0)
		return (int)length;
	if (!sender.known)
		return -EPIPE;
	asker.pid = sender.pid;
	asker.uid = sender.uid;
	asker.port = port_of(client->fd);
	nl_talk_begin(&client->talk, (int)length, too_long, &asker);
	return 0;
}

static int send_unsent(struct nl_client *client)
{
	const struct nlmsghdr *header = nlmsg_hdr(client->unsent);

	if (send(client->fd, header, header->nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	nlmsg_free(client->unsent);
	client->unsent = NULL;
	return 0;
}

/* One datagram out, or else one in. 0, or -errno: -EAGAIN, it has to wait. */
static int go_on(struct nl_client *client)
{
	struct nl_server *server = client->server;
	bool failed = false;

	if (!client->unsent)
		client->unsent = nl_talk_next(&client->talk, server->daemon, &failed);
	if (failed)
		return -ENOMEM;
	if (client->unsent)
		return send_unsent(client);
	/* It is not the silent one any more. */
	DL_DELETE(server->clients, client);
	DL_APPEND(server->clients, client);
	return receive(client);
}

static void serve(struct turn *turn, uint64_t until)
{
	struct nl_client *client = (struct nl_client *)turn;
	int ret;

	do
		ret = go_on(client);
	while (!ret && simhca_now_ns() < until);
	if (ret && ret != -EAGAIN)
		client_close(client);
	else
		watch(client,
		      client->unsent || nl_talk_under_way(&client->talk) ? EV_WRITE : EV_READ);
}

static void on_event(struct ev_loop *loop, ev_io *io, int events)
{
	struct nl_client *client = io->data;

	turns_take(&client->server->daemon->turns, &client->turn);
}

static void on_connection(void *arg, int fd)
{
	struct nl_server *server = arg;
	struct owner owner = program_peer(&server->daemon->programs, fd);
	struct nl_client *client = calloc(1, sizeof(*client));
	int unread = UNREAD_BYTES;

	if (!client) {
		datagram_close(fd, server->daemon->releaser, &owner);
		return;
	}
	if (server->num_clients == NL_SERVER_CLIENTS) {
		log_debug("netlink: %d clients: the one that was silent for longest has to go",
			  NL_SERVER_CLIENTS);
		client_close(server->clients);
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unread, sizeof(unread));
	client->turn.serve = serve;
	client->server = server;
	client->fd = fd;
	client->owner = owner;
	ev_io_init(&client->io, on_event, fd, EV_READ);
	client->io.data = client;
	ev_io_start(server->daemon->loop, &client->io);
	DL_APPEND(server->clients, client);
	server->num_clients++;
}

struct nl_server *nl_server_open(struct daemon *daemon)
{
	struct nl_server *server = calloc(1, sizeof(*server));
	char path[PATH_MAX + 32];

	if (!server) {
		log_error("out of memory");
		return NULL;
	}
	server->daemon = daemon;
	snprintf(path, sizeof(path), "%s/tree/" SIMHCA_NETLINK_NODE, daemon->rundir.path);
	if (!listener_open(&server->listener, &daemon->turns, path, on_connection, server))
		return server;
	free(server);
	return NULL;
}

void nl_server_close(struct nl_server *server)
{
	if (!server)
		return;
	listener_close(&server->listener);
	while (server->clients)
		client_close(server->clients);
	free(server);
}
