/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "link/wire/wire.h"
#include "wire_net.h"

/* A datagram under way. */
struct parcel {
	struct parcel *next;
	uint64_t due; /* tick */
	struct simhca_wire_path path;
	uint8_t traffic_class;
	size_t length;
	uint8_t bytes[];
};

static bool like_rxe;

static struct {
	struct world *world;
	uint64_t tick;
	struct parcel *queue; /* the oldest first */
	void (*found)(void *arg);
	void *found_arg;
	int groups;
	unsigned int asked, runs;
	uint32_t acknowledged;
	struct simhca_wire_path path; /* of what was sent last */
	uint8_t last[SIMHCA_DATAGRAM_MOST(4096)];
	size_t last_length;
} net;

void wire_net_put(const struct simhca_wire_path *path, uint8_t traffic_class, const void *datagram,
		  size_t length, unsigned int late)
{
	struct parcel *parcel = malloc(sizeof(*parcel) + length), **link = &net.queue;

	assert_non_null(parcel);
	parcel->next = NULL;
	parcel->due = net.tick + 1 + late;
	parcel->path = *path;
	parcel->traffic_class = traffic_class;
	parcel->length = length;
	memcpy(parcel->bytes, datagram, length);
	while (*link)
		link = &(*link)->next;
	*link = parcel;
}

static void send_one(const struct simhca_wire_run *run, const uint8_t *datagram, size_t length)
{
	struct simhca_packet packet;
	const uint8_t *payload;
	struct fate fate;

	assert_int_equal(simhca_bth_decode(datagram, length, &packet, &payload), SIMHCA_WIRE_OK);
	assert_true(length <= sizeof(net.last));
	net.path = run->path;
	net.last_length = length;
	memcpy(net.last, datagram, length);
	net.asked += packet.ack_req;
	if (packet.op == SIMHCA_PKT_ACK)
		net.acknowledged = packet.psn;
	fate = lossy_fate(&packet);
	for (unsigned int i = 0; i < fate.copies; i++)
		wire_net_put(&run->path, run->traffic_class, datagram, length, fate.late[i]);
}

/* As a kernel cuts it up. */
static bool sends(void *arg, const struct simhca_wire_run *runs, unsigned int count)
{
	net.runs += count;
	for (unsigned int i = 0; i < count; i++) {
		const struct simhca_wire_run *run = &runs[i];

		for (size_t at = 0; at < run->length; at += run->segment)
			send_one(run, run->bytes + at,
				 run->length - at < run->segment ? run->length - at : run->segment);
	}
	return true;
}

static uint16_t port_of(void *arg, const union simhca_gid *source, uint32_t flow)
{
	return WIRE_NET_PORT(flow);
}

void wire_net_poll(void (*found)(void *arg), void *arg)
{
	net.found = found;
	net.found_arg = arg;
}

static void polls(void *arg)
{
	void (*found)(void *arg) = net.found;

	net.found = NULL;
	if (found)
		found(net.found_arg);
}

static void groups(void *arg, const struct simhca_device *device, const union simhca_gid *gid,
		   bool member)
{
	net.groups += member ? 1 : -1;
}

int wire_net_groups(void)
{
	return net.groups;
}

unsigned int wire_net_asked(void)
{
	return net.asked;
}

unsigned int wire_net_runs(void)
{
	return net.runs;
}

uint32_t wire_net_acknowledged(void)
{
	return net.acknowledged;
}

void wire_net_like_rxe(bool like)
{
	like_rxe = like;
}

struct simhca_packet wire_net_last(void)
{
	struct simhca_packet packet;
	const uint8_t *payload;

	assert_int_equal(simhca_bth_decode(net.last, net.last_length, &packet, &payload),
			 SIMHCA_WIRE_OK);
	return packet;
}

uint16_t wire_net_source_port(void)
{
	return net.path.source_port;
}

bool wire_net_has_icrc(bool of_rxe)
{
	return (of_rxe ? simhca_icrc_check_rxe_flush : simhca_icrc_check)(&net.path, net.last,
									  net.last_length);
}

static bool tick(void)
{
	struct parcel **link = &net.queue, *parcel;
	struct simhca_wire_buffer *buffer;
	bool busy = net.queue;

	net.tick++;
	while ((parcel = *link)) {
		struct simhca_wire_datagram datagram = { .path = parcel->path,
							 .traffic_class = parcel->traffic_class,
							 .hop_limit = 64,
							 .bytes = parcel->bytes,
							 .length = parcel->length };

		if (parcel->due > net.tick) {
			link = &parcel->next;
			continue;
		}
		*link = parcel->next;
		buffer = simhca_wire_buffer_get(net.world->fabric);
		assert_non_null(buffer);
		datagram.bytes =
			memcpy(simhca_wire_buffer_bytes(buffer), parcel->bytes, parcel->length);
		datagram.buffer = buffer;
		simhca_wire_receive(net.world->fabric, &datagram);
		simhca_wire_buffer_put(buffer);
		free(parcel);
	}
	return busy;
}

void wire_net_use(struct world *world, bool always)
{
	const struct simhca_wire_ops ops = {
		.send = sends,
		.source_port = port_of,
		.poll = polls,
		.group = groups,
		.rxe_flush = like_rxe,
		.always = always,
	};

	assert_false(world->threaded);
	net.world = world;
	net.found = NULL;
	net.groups = 0;
	net.asked = net.runs = net.acknowledged = 0;
	assert_int_equal(simhca_wire_open(world->fabric, &ops), 0);
	world->tick = tick;
}

void wire_net_end(void)
{
	struct parcel *parcel;

	while ((parcel = net.queue)) {
		net.queue = parcel->next;
		free(parcel);
	}
}
