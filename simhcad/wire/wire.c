/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "core/av.h"
#include "core/lock.h"
#include "device/gid_table.h"
#include "link/wire/wire.h"
#include "port_holder.h"
#include "session/daemon.h"
#include "wire.h"
#include "wire_peers.h"
#include "wire_socket.h"

#define BATCH 8					 /* runs of datagrams */
#define POLLED_BATCHES 16			 /* that an engine takes of one socket in a go */
#define SENT_AT_ONCE 16				 /* runs */
#define HELD_FROM (SIMHCA_WIRE_BUFFER_BYTES / 4) /* bytes that are worth a whole buffer */
#define GROUPS 256				 /* on an interface each */
#define CLOSED 16				 /* addresses without a socket that are told of */
#define RETRY_S 1.0				 /* until it is tried again to open those */
#define FLOW_PORTS 8				 /* of an address, as far as they can be had */
#define FLOW_PORT_FIRST 0xf000u			 /* above the ports that Linux gives away */
#define ENDPOINTS (OPTIONS_MAX_DEVICES * SIMHCA_GID_ENTRIES + GROUPS)

/* A socket that flows are sent from. */
struct flow {
	uint16_t port;
	int fd;
};

/*
 * A socket, bound to one address, or to a group's, which it has joined on an interface; and those of
 * the address that is sent from, each of which has a port of its own.
 */
struct endpoint {
	union simhca_gid gid;
	uint32_t ifindex;
	int fd;
	struct flow flow[FLOW_PORTS];
	unsigned int flows;
	bool wanted;
	unsigned int members; /* devices that have members of the group */
};

/* An address that is to have a socket, and why it has none. */
struct closed {
	union simhca_gid gid;
	int error;
	bool seen; /* it is so still */
};

struct batch {
	struct mmsghdr message[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_storage from[BATCH];
	char control[BATCH][CMSG_SPACE(sizeof(int)) * 3];
	struct simhca_wire_buffer *buffer[BATCH];
};

struct wire {
	struct daemon *daemon;
	ev_async gmps;		      /* management datagrams have come */
	struct closed closed[CLOSED]; /* this and the next two: of the main thread */
	unsigned int num_closed;
	ev_timer again;		      /* runs while there are any */
	pthread_mutex_t receive_lock; /* of batch: what comes is handed in in its order; first */
	struct batch *batch;
	bool runs; /* the kernel cuts up what is sent, and puts together what comes */
	struct wire_peers peers;
	_Atomic uint64_t sent, unsent; /* datagrams */
	pthread_rwlock_t lock;	       /* of what follows: who reads it uses the sockets */
	struct endpoint endpoint[ENDPOINTS];
	unsigned int endpoints, groups; /* groups: of the endpoints */
};

/* --------------------------------------------------------------------------------- sockets */

static void on_come(void *arg, int fd);

static bool listen_to(struct wire *wire, int fd)
{
	const struct engines *engines = &wire->daemon->engines;
	int ret = 0;

	for (unsigned int i = 0; i < engines->count && !ret; i++)
		ret = simhca_engine_listen(engine_model(engines->pool[i]), fd, on_come, wire);
	errno = -ret;
	return !ret;
}

static int open_socket(struct wire *wire, const struct endpoint *endpoint)
{
	int fd = wire_socket_receives(&endpoint->gid, endpoint->ifindex, wire->runs, &wire->peers);
	int error;

	if (fd < 0 || listen_to(wire, fd))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Those that cannot be had are done without: their flows leave from the others. */
static void open_flows(struct wire *wire, struct endpoint *endpoint)
{
	for (uint16_t i = 0; i < FLOW_PORTS; i++) {
		struct flow *flow = &endpoint->flow[endpoint->flows];

		flow->port = FLOW_PORT_FIRST + i;
		flow->fd = wire_socket_sends(&endpoint->gid, endpoint->ifindex, flow->port,
					     wire->runs);
		endpoint->flows += flow->fd >= 0;
	}
}

static void close_sockets(const struct endpoint *endpoint)
{
	close(endpoint->fd);
	for (unsigned int i = 0; i < endpoint->flows; i++)
		close(endpoint->flow[i].fd);
}

/* Under the lock. NULL: there is none. */
static struct endpoint *find(struct wire *wire, const union simhca_gid *gid, uint32_t ifindex)
{
	for (unsigned int i = 0; i < wire->endpoints; i++)
		if (!memcmp(&wire->endpoint[i].gid, gid, sizeof(*gid)) &&
		    wire->endpoint[i].ifindex == ifindex)
			return &wire->endpoint[i];
	return NULL;
}

/* As `ip address` has it. */
static void ip_print(const union simhca_gid *gid, char text[INET6_ADDRSTRLEN])
{
	bool ipv4 = simhca_gid_is_ipv4(gid);

	inet_ntop(ipv4 ? AF_INET : AF_INET6, gid->raw + (ipv4 ? 12 : 0), text, INET6_ADDRSTRLEN);
}

/* The address has no socket. It is said once, and before the daemon is ready who has the port. */
static void tell_closed(struct wire *wire, const union simhca_gid *gid, int error)
{
	bool starts = !wire->daemon->admin;
	char text[INET6_ADDRSTRLEN], holder[PORT_HOLDER_TEXT] = "";
	struct closed *closed = NULL;

	for (unsigned int i = 0; i < wire->num_closed && !closed; i++)
		if (!memcmp(&wire->closed[i].gid, gid, sizeof(*gid)))
			closed = &wire->closed[i];
	if (!closed && wire->num_closed == CLOSED)
		return;
	if (closed && closed->error == error) {
		closed->seen = true;
		return;
	}
	if (!closed)
		closed = &wire->closed[wire->num_closed++];
	*closed = (struct closed){ .gid = *gid, .error = error, .seen = true };
	ip_print(gid, text);
	if (starts && error == EADDRINUSE)
		port_holder(gid, SIMHCA_WIRE_PORT, holder);
	log_message(starts ? SIMHCA_LOG_ERROR : SIMHCA_LOG_WARNING,
		    "--wire roce: UDP port %u of %s cannot be had: %s%s%s", SIMHCA_WIRE_PORT, text,
		    strerror(error), holder[0] ? ": " : "", holder);
}

/* Under the lock, for writing. NULL: it cannot be had. */
static struct endpoint *add(struct wire *wire, const union simhca_gid *gid, uint32_t ifindex)
{
	struct endpoint *endpoint = find(wire, gid, ifindex);
	char text[GID_TEXT];

	if (endpoint || wire->endpoints == ENDPOINTS)
		return endpoint;
	endpoint = &wire->endpoint[wire->endpoints];
	*endpoint = (struct endpoint){ .gid = *gid, .ifindex = ifindex };
	endpoint->fd = open_socket(wire, endpoint);
	if (endpoint->fd < 0) {
		/* The first GID of an interface need not be an address of it. */
		if (errno != EADDRNOTAVAIL)
			tell_closed(wire, gid, errno);
		return NULL;
	}
	if (!simhca_gid_is_group(gid))
		open_flows(wire, endpoint);
	gid_print(gid, text);
	log_debug("UDP port %u of %s is open, and %u to send from", SIMHCA_WIRE_PORT, text,
		  endpoint->flows);
	wire->endpoints++;
	return endpoint;
}

/* Likewise. */
static void take_away(struct wire *wire, struct endpoint *endpoint)
{
	close_sockets(endpoint);
	*endpoint = wire->endpoint[--wire->endpoints];
}

/* Likewise: a device has members of the group on an interface, or has none any more. */
static void join_or_leave(struct wire *wire, const union simhca_gid *gid, uint32_t ifindex,
			  bool joins)
{
	struct endpoint *endpoint = find(wire, gid, ifindex);

	if (joins && !endpoint && wire->groups == GROUPS)
		log_warning("the daemon is in %u groups, which is all: what is sent to another "
			    "one from elsewhere does not arrive",
			    GROUPS);
	else if (joins && !endpoint) {
		endpoint = add(wire, gid, ifindex);
		wire->groups += endpoint != NULL;
	}
	if (!endpoint)
		return;
	endpoint->members += joins ? 1 : -1u;
	if (endpoint->members)
		return;
	take_away(wire, endpoint);
	wire->groups--;
}

static void on_group(void *arg, const struct simhca_device *model, const union simhca_gid *gid,
		     bool member)
{
	struct wire *wire = arg;
	const struct device *device = device_of_model(wire->daemon, model);
	uint32_t last = 0;

	if (!device)
		return;
	pthread_rwlock_wrlock(&wire->lock);
	/* The addresses of an interface stand together. */
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		if (gid_is_empty(&device->gids[i].gid) || device->gids[i].ifindex == last)
			continue;
		last = device->gids[i].ifindex;
		join_or_leave(wire, gid, last, member);
	}
	pthread_rwlock_unlock(&wire->lock);
}

/* What was said of addresses that have a socket now, or need none, is over. */
static void forget_closed(struct wire *wire)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < wire->num_closed; i++)
		if (wire->closed[i].seen)
			wire->closed[kept++] = wire->closed[i];
	wire->num_closed = kept;
	if (kept && !ev_is_active(&wire->again)) {
		ev_timer_set(&wire->again, RETRY_S, 0);
		ev_timer_start(wire->daemon->loop, &wire->again);
	}
}

bool wire_follow(struct wire *wire)
{
	const struct daemon *daemon;

	if (!wire)
		return true;
	daemon = wire->daemon;
	for (unsigned int i = 0; i < wire->num_closed; i++)
		wire->closed[i].seen = false;
	pthread_rwlock_wrlock(&wire->lock);
	for (unsigned int i = 0; i < wire->endpoints; i++)
		wire->endpoint[i].wanted = wire->endpoint[i].members;
	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		const struct device *device = &daemon->devices[i];

		for (int j = 0; device->options->settings.wire && j < SIMHCA_GID_ENTRIES; j++)
			if (!gid_is_empty(&device->gids[j].gid)) {
				struct endpoint *endpoint =
					add(wire, &device->gids[j].gid, device->gids[j].ifindex);

				if (endpoint)
					endpoint->wanted = true;
			}
	}
	for (unsigned int i = 0; i < wire->endpoints;)
		if (wire->endpoint[i].wanted)
			i++;
		else
			take_away(wire, &wire->endpoint[i]);
	pthread_rwlock_unlock(&wire->lock);
	forget_closed(wire);
	return !wire->num_closed;
}

static void on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
	wire_follow(timer->data);
}

/* --------------------------------------------------------------------------------- sending */

/* What goes with one datagram, or with a run of them. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
};

static void add_control(struct msghdr *message, int level, int type, const void *value, size_t size)
{
	struct cmsghdr *header =
		(struct cmsghdr *)((char *)message->msg_control + message->msg_controllen);

	header->cmsg_len = CMSG_LEN(size);
	header->cmsg_level = level;
	header->cmsg_type = type;
	memcpy(CMSG_DATA(header), value, size);
	message->msg_controllen += CMSG_SPACE(size);
}

/* A run that the kernel cuts up has its datagrams numbered, in their IP headers, from 0. */
static void describe(const struct simhca_wire_run *run, struct msghdr *message,
		     union control *control)
{
	bool ipv4 = simhca_gid_is_ipv4(&run->path.destination);
	uint16_t segment = (uint16_t)run->segment;
	int traffic_class = run->traffic_class;

	memset(control, 0, sizeof(*control));
	message->msg_control = control;
	message->msg_controllen = 0;
	if (traffic_class)
		add_control(message, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
	if (run->length > run->segment)
		add_control(message, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	if (!message->msg_controllen)
		message->msg_control = NULL;
}

static void count_datagrams(_Atomic uint64_t *counter, const struct simhca_wire_run *run)
{
	/* relaxed: a number by itself, which orders nothing. */
	atomic_fetch_add_explicit(counter, (run->length + run->segment - 1) / run->segment,
				  memory_order_relaxed);
}

/* NULL: it was closed, or never open. Under the lock. */
static const struct endpoint *endpoint_of(const struct wire *wire, const union simhca_gid *gid)
{
	for (unsigned int i = 0; i < wire->endpoints; i++)
		if (!memcmp(&wire->endpoint[i].gid, gid, sizeof(*gid)))
			return &wire->endpoint[i];
	return NULL;
}

static uint16_t on_source_port(void *arg, const union simhca_gid *source, uint32_t flow)
{
	struct wire *wire = arg;
	const struct endpoint *endpoint;
	uint16_t port = SIMHCA_WIRE_PORT;

	pthread_rwlock_rdlock(&wire->lock);
	endpoint = endpoint_of(wire, source);
	if (endpoint && endpoint->flows)
		port = endpoint->flow[flow % endpoint->flows].port;
	pthread_rwlock_unlock(&wire->lock);
	return port;
}

/* -1: there is no such port any more. */
static int socket_of(const struct endpoint *endpoint, uint16_t port)
{
	if (port == SIMHCA_WIRE_PORT)
		return endpoint->fd;
	for (unsigned int i = 0; i < endpoint->flows; i++)
		if (endpoint->flow[i].port == port)
			return endpoint->flow[i].fd;
	return -1;
}

/* Runs from one address and port. False: the kernel does not cut them up. */
static bool send_from(struct wire *wire, int fd, uint32_t ifindex,
		      const struct simhca_wire_run *runs, unsigned int count)
{
	struct sockaddr_storage address[SENT_AT_ONCE];
	union control control[SENT_AT_ONCE];
	struct mmsghdr message[SENT_AT_ONCE];
	struct iovec iov[SENT_AT_ONCE];
	unsigned int done = 0;
	bool cut = true;

	for (unsigned int i = 0; i < count; i++) {
		struct msghdr *header = &message[i].msg_hdr;

		iov[i] = (struct iovec){ .iov_base = (void *)runs[i].bytes,
					 .iov_len = runs[i].length };
		*header = (struct msghdr){ .msg_name = &address[i],
					   .msg_iov = &iov[i],
					   .msg_iovlen = 1 };
		header->msg_namelen = wire_socket_address(&runs[i].path.destination, ifindex,
							  SIMHCA_WIRE_PORT, &address[i]);
		describe(&runs[i], header, &control[i]);
	}
	while (done < count) {
		int sent = sendmmsg(fd, message + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		for (int i = 0; i < sent; i++)
			count_datagrams(&wire->sent, &runs[done++]);
		if (sent > 0)
			continue;
		/* What cannot be sent now is lost, as it may be anywhere on its way. */
		if (runs[done].length <= runs[done].segment ||
		    (errno != EINVAL && errno != EIO && errno != EOPNOTSUPP))
			simhca_wire_unsent(wire->daemon->fabric, &runs[done].path.destination,
					   errno);
		else
			cut = false;
		count_datagrams(&wire->unsent, &runs[done++]);
	}
	return cut;
}

/* Engines of several threads, and the main thread. */
static bool on_send(void *arg, const struct simhca_wire_run *runs, unsigned int count)
{
	struct wire *wire = arg;
	bool cut = true;

	pthread_rwlock_rdlock(&wire->lock);
	while (count) {
		const struct endpoint *endpoint = endpoint_of(wire, &runs->path.source);
		int fd = endpoint ? socket_of(endpoint, runs->path.source_port) : -1;
		unsigned int same = 1;

		while (same < count && same < SENT_AT_ONCE &&
		       runs[same].path.source_port == runs->path.source_port &&
		       !memcmp(&runs[same].path.source, &runs->path.source,
			       sizeof(runs->path.source)))
			same++;
		if (fd >= 0)
			cut &= send_from(wire, fd, endpoint->ifindex, runs, same);
		else
			for (unsigned int i = 0; i < same; i++) {
				count_datagrams(&wire->unsent, &runs[i]);
				simhca_wire_unsent(wire->daemon->fabric, &runs[i].path.destination,
						   EADDRNOTAVAIL);
			}
		runs += same;
		count -= same;
	}
	pthread_rwlock_unlock(&wire->lock);
	return cut;
}

/* ------------------------------------------------------------------------------- receiving */

/* By whoever received it. */
static void on_gmps(void *arg)
{
	struct wire *wire = arg;

	ev_async_send(wire->daemon->loop, &wire->gmps);
}

static void on_gmps_async(struct ev_loop *loop, ev_async *async, int events)
{
	const struct wire *wire = async->data;

	simhca_wire_gmps(wire->daemon->fabric);
}

/* How many runs there is memory for. */
static unsigned int prepare(struct wire *wire, struct batch *batch)
{
	unsigned int i;

	for (i = 0; i < BATCH; i++) {
		if (!batch->buffer[i])
			batch->buffer[i] = simhca_wire_buffer_get(wire->daemon->fabric);
		if (!batch->buffer[i])
			break;
		batch->iov[i] =
			(struct iovec){ .iov_base = simhca_wire_buffer_bytes(batch->buffer[i]),
					.iov_len = SIMHCA_WIRE_BUFFER_BYTES };
		batch->message[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->from[i],
			.msg_namelen = sizeof(batch->from[i]),
			.msg_iov = &batch->iov[i],
			.msg_iovlen = 1,
			.msg_control = batch->control[i],
			.msg_controllen = sizeof(batch->control[i]),
		};
	}
	return i;
}

/* What goes with all of a run; *segment: the length of each datagram but the last. */
static void read_control(struct msghdr *header, struct simhca_wire_datagram *datagram,
			 size_t *segment)
{
	struct cmsghdr *control;

	for (control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control)) {
		int value = 0;

		/* IP_TOS comes as a byte, the others as an int. */
		if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS)
			datagram->traffic_class = *CMSG_DATA(control);
		else
			memcpy(&value, CMSG_DATA(control), sizeof(value));
		if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO && value > 0)
			*segment = (size_t)value;
		else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS)
			datagram->traffic_class = (uint8_t)value;
		else if (control->cmsg_type ==
			 (control->cmsg_level == IPPROTO_IP ? IP_TTL : IPV6_HOPLIMIT))
			datagram->hop_limit = (uint8_t)value;
	}
}

static void hand_in(struct wire *wire, struct mmsghdr *message, const union simhca_gid *gid,
		    struct simhca_wire_buffer *buffer)
{
	struct msghdr *header = &message->msg_hdr;
	struct simhca_wire_datagram datagram = {
		.path.destination = *gid,
		.buffer = message->msg_len >= HELD_FROM ? buffer : NULL,
	};
	const uint8_t *bytes = header->msg_iov->iov_base;
	size_t left = message->msg_len, segment = left;
	uint16_t number = 0;

	/* One without bytes was sent for the sake of our link address (simhcad/rdma_cm/cma_neighbour.c). */
	if ((header->msg_flags & MSG_TRUNC) || !left ||
	    !wire_socket_gid(header->msg_name, &datagram.path.source, &datagram.path.source_port))
		return;
	read_control(header, &datagram, &segment);
	do {
		datagram.bytes = bytes;
		datagram.length = left < segment ? left : segment;
		bytes += datagram.length;
		left -= datagram.length;
		datagram.path.ip_id = number++; /* most likely */
		simhca_wire_receive(wire->daemon->fabric, &datagram);
	} while (left);
}

/* A batch of what has come to an address: how many; -1: there is no such address. */
static int receive_at(struct wire *wire, unsigned int number)
{
	struct batch *batch = wire->batch;
	unsigned int room;
	union simhca_gid gid;
	int count = -1;

	pthread_mutex_lock(&wire->receive_lock);
	room = prepare(wire, batch);
	pthread_rwlock_rdlock(&wire->lock);
	if (number < wire->endpoints) {
		gid = wire->endpoint[number].gid;
		count = recvmmsg(wire->endpoint[number].fd, batch->message, room, MSG_DONTWAIT,
				 NULL);
		count = count < 0 ? 0 : count;
	}
	pthread_rwlock_unlock(&wire->lock);
	for (int i = 0; i < count; i++) {
		hand_in(wire, &batch->message[i], &gid, batch->buffer[i]);
		if (simhca_wire_buffer_is_held(batch->buffer[i])) {
			simhca_wire_buffer_put(batch->buffer[i]);
			batch->buffer[i] = NULL;
		}
	}
	pthread_mutex_unlock(&wire->receive_lock);
	return count;
}

/* By an engine: whoever floods us does not keep it. */
static void on_poll(void *arg)
{
	int count = 0;

	for (unsigned int i = 0; count >= 0; i++)
		for (int batches = 0; batches < POLLED_BATCHES; batches++) {
			count = receive_at(arg, i);
			if (count < BATCH)
				break;
		}
}

/* UINT_MAX: the socket was closed meanwhile. */
static unsigned int number_of(struct wire *wire, int fd)
{
	unsigned int number = UINT_MAX;

	pthread_rwlock_rdlock(&wire->lock);
	for (unsigned int i = 0; i < wire->endpoints; i++)
		if (wire->endpoint[i].fd == fd)
			number = i;
	pthread_rwlock_unlock(&wire->lock);
	return number;
}

/* By a thread of an engine, which goes on with what has come. */
static void on_come(void *arg, int fd)
{
	receive_at(arg, number_of(arg, fd));
}

/* ---------------------------------------------------------------------------------- report */

/* What the kernel has dropped of what came: from strangers, or as the socket was full. */
static json_int_t drops(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t length = sizeof(info);

	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) ? 0 : info[SK_MEMINFO_DROPS];
}

static json_t *addresses_json(const struct wire *wire)
{
	json_t *addresses = json_array();
	char text[GID_TEXT];

	for (unsigned int i = 0; i < wire->endpoints; i++) {
		gid_print(&wire->endpoint[i].gid, text);
		json_array_append_new(addresses, json_pack("{s:s, s:I}", "address", text, "dropped",
							   drops(wire->endpoint[i].fd)));
	}
	return addresses;
}

/* Those that have no socket, and why. */
static json_t *closed_json(const struct wire *wire)
{
	json_t *closed = json_array();
	char text[GID_TEXT];

	for (unsigned int i = 0; i < wire->num_closed; i++) {
		gid_print(&wire->closed[i].gid, text);
		json_array_append_new(closed, json_pack("{s:s, s:s}", "address", text, "error",
							strerror(wire->closed[i].error)));
	}
	return closed;
}

json_t *wire_json(const struct wire *wire)
{
	struct simhca_wire_counts counts;
	json_t *refused = json_object();
	const char *peers;

	if (!wire)
		return json_pack("{s:[], s:[], s:o}", "addresses", "closed", "refused", refused);
	peers = wire->daemon->options->daemon.wire_peers;
	simhca_wire_counts(wire->daemon->fabric, &counts);
	for (int i = SIMHCA_WIRE_OK + 1; i < SIMHCA_WIRE_FAULTS; i++)
		json_object_set_new(refused, simhca_wire_fault_name(i),
				    json_integer((json_int_t)counts.refused[i]));
	/* The main thread alone changes the endpoints. */
	return json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:o}", "addresses",
			 addresses_json(wire), "closed", closed_json(wire), "may_send",
			 peers ? peers : "", "sent", (json_int_t)wire->sent, "unsent",
			 (json_int_t)wire->unsent, "taken", (json_int_t)counts.taken, "unclaimed",
			 (json_int_t)counts.unclaimed, "refused", refused);
}

static int step(struct report *report, void *state)
{
	return report_put_json(report, wire_json(report_daemon(report)->wire));
}

const struct report_kind wire_report = { .step = step };

/* ----------------------------------------------------------------------------------------- */

bool wire_is_wanted(const struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->options->num_devices; i++)
		if (daemon->options->devices[i].settings.wire)
			return true;
	return false;
}

struct wire *wire_open(struct daemon *daemon, int *failed)
{
	struct simhca_wire_ops ops = {
		.send = on_send,
		.source_port = on_source_port,
		.gmps = on_gmps,
		.poll = on_poll,
		.group = on_group,
		.rxe_flush = daemon->options->daemon.wire_rxe_flush,
	};
	struct wire *wire;

	*failed = 0;
	if (!wire_is_wanted(daemon))
		return NULL;
	wire = calloc(1, sizeof(*wire));
	if (wire)
		wire->batch = calloc(1, sizeof(*wire->batch));
	if (!wire || !wire->batch)
		goto fail;
	wire->daemon = daemon;
	wire_peers_parse(daemon->options->daemon.wire_peers, &wire->peers);
	wire->runs = wire_socket_has_runs();
	simhca_rwlock_init(&wire->lock, NULL, SIMHCA_LOCK_SOCKETS);
	simhca_mutex_init(&wire->receive_lock, SIMHCA_LOCK_RECEIVE);
	ops.arg = wire;
	ev_async_init(&wire->gmps, on_gmps_async);
	wire->gmps.data = wire;
	ev_timer_init(&wire->again, on_again, RETRY_S, 0);
	wire->again.data = wire;
	ev_async_start(daemon->loop, &wire->gmps);
	if (!simhca_wire_open(daemon->fabric, &ops))
		return wire;
	ev_async_stop(daemon->loop, &wire->gmps);
	pthread_rwlock_destroy(&wire->lock);
	pthread_mutex_destroy(&wire->receive_lock);
fail:
	log_error("the wire: %m");
	if (wire)
		free(wire->batch);
	free(wire);
	*failed = -1;
	return NULL;
}

void wire_close(struct wire *wire)
{
	if (!wire)
		return;
	ev_async_stop(wire->daemon->loop, &wire->gmps);
	ev_timer_stop(wire->daemon->loop, &wire->again);
	for (unsigned int i = 0; i < wire->endpoints; i++)
		close_sockets(&wire->endpoint[i]);
	pthread_rwlock_destroy(&wire->lock);
	pthread_mutex_destroy(&wire->receive_lock);
	for (int i = 0; i < BATCH; i++)
		if (wire->batch->buffer[i])
			simhca_wire_buffer_put(wire->batch->buffer[i]);
	free(wire->batch);
	free(wire);
}
