/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "cm_world.h"

struct flight {
	struct host *to;
	struct simhca_cm_path back;
	uint64_t due;
	uint8_t mad[SIMHCA_MAD_BYTES];
	struct flight *next;
};

uint32_t world_random(struct world *world, uint32_t below)
{
	world->random = world->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(world->random >> 33) % below;
}

static void launch(struct world *world, struct host *to, const struct simhca_cm_path *path,
		   const uint8_t *mad)
{
	struct flight *flight = calloc(1, sizeof(*flight)), **last = &world->flights;

	if (!flight)
		abort();
	flight->to = to;
	flight->back = *path;
	flight->back.port = to;
	flight->back.ca_guid = to->guid;
	flight->back.sgid = path->dgid;
	flight->back.dgid = path->sgid;
	flight->due = world->now;
	if (world_random(world, 100) < world->delay)
		flight->due += world_random(world, 20000) * WORLD_MS;
	memcpy(flight->mad, mad, sizeof(flight->mad));
	while (*last)
		last = &(*last)->next;
	*last = flight;
}

static void on_send(void *arg, const struct simhca_cm_path *path,
		    const uint8_t mad[SIMHCA_MAD_BYTES])
{
	struct host *host = arg, *to = NULL;
	struct world *world = host->world;
	uint8_t attribute = mad[17];

	for (int i = 0; i < 2; i++)
		if (!memcmp(&world->host[i].gid, &path->dgid, sizeof(path->dgid)))
			to = &world->host[i];
	if (!to)
		return;
	if (world->lose[attribute]) {
		world->lose[attribute]--;
		return;
	}
	if (world_random(world, 100) < world->loss)
		return;
	world->passed[attribute]++;
	launch(world, to, path, mad);
	if (world_random(world, 100) < world->repeat)
		launch(world, to, path, mad);
}

static int on_event(void *arg, struct simhca_cm_id *id, const struct simhca_cm_event *event)
{
	struct host *host = arg;
	struct end *end = simhca_cm_id_context(id);

	if (event->listener && host->outcome)
		return host->outcome;
	if (event->listener && host->accepted) {
		host->accepted(host, id, event);
		return 0;
	}
	if (event->listener) {
		end = host->passive;
		host->passive = NULL;
		if (!end)
			return SIMHCA_CM_REJ_CONSUMER;
		*end = (struct end){ .host = host, .id = id, .peer = event->listener };
		simhca_cm_id_set_context(id, end);
	}
	end->event = *event;
	end->seen[event->type]++;
	if (event->mad)
		end->mad = *event->mad;
	return 0;
}

static uint64_t on_clock(void *arg)
{
	struct host *host = arg;

	return host->world->now;
}

void world_open(struct world *world, uint64_t seed)
{
	static const struct simhca_cm_ops ops = { on_send, on_event, on_clock };

	memset(world, 0, sizeof(*world));
	world->random = seed;
	for (int i = 0; i < 2; i++) {
		struct host *host = &world->host[i];

		host->world = world;
		host->guid = 0x0200000000000001u + (unsigned int)i;
		host->gid.raw[0] = 0xfd;
		host->gid.raw[15] = (uint8_t)(i + 1);
		host->cm = simhca_cm_create(&ops, host, seed + (uint64_t)i);
		if (!host->cm)
			abort();
	}
}

void world_close(struct world *world)
{
	while (world->flights) {
		struct flight *flight = world->flights;

		world->flights = flight->next;
		free(flight);
	}
	for (int i = 0; i < 2; i++)
		simhca_cm_destroy(world->host[i].cm);
}

static bool land_one(struct world *world)
{
	for (struct flight **link = &world->flights; *link; link = &(*link)->next) {
		struct flight *flight = *link;

		if (flight->due > world->now)
			continue;
		*link = flight->next;
		simhca_cm_receive(flight->to->cm, &flight->back, flight->mad, SIMHCA_MAD_BYTES);
		free(flight);
		return true;
	}
	return false;
}

void world_run(struct world *world)
{
	do
		for (int i = 0; i < 2; i++)
			while (simhca_cm_run(world->host[i].cm, UINT64_MAX))
				;
	while (land_one(world));
}

void world_pass(struct world *world, uint64_t ms)
{
	uint64_t end = world->now + ms * WORLD_MS;

	for (;;) {
		uint64_t next = end;

		world_run(world);
		for (int i = 0; i < 2; i++) {
			uint64_t due = simhca_cm_deadline(world->host[i].cm);

			next = due < next ? due : next;
		}
		for (struct flight *flight = world->flights; flight; flight = flight->next)
			next = flight->due < next ? flight->due : next;
		if (world->now == end)
			return;
		world->now = next;
	}
}

void end_open(struct end *end, struct host *host)
{
	*end = (struct end){ .host = host, .id = simhca_cm_id_create(host->cm, end) };
	if (!end->id)
		abort();
}

struct simhca_cm_path end_path(const struct end *end)
{
	const struct host *host = end->host;
	const struct host *other = &host->world->host[host == &host->world->host[0]];

	return (struct simhca_cm_path){
		.port = end->host,
		.ca_guid = host->guid,
		.sgid = host->gid,
		.dgid = other->gid,
		.slid = 0xffff,
		.dlid = 0xffff,
		.pkey = 0xffff,
		.hop_limit = 64,
		.mtu = 5,
		.packet_life = 18,
	};
}

int end_listen(struct host *host)
{
	end_open(&host->listener, host);
	return simhca_cm_listen(host->listener.id, WORLD_SERVICE);
}

int end_connect(struct end *end, uint32_t qpn)
{
	struct simhca_cm_path path = end_path(end);
	struct simhca_cm_req req = {
		.service_id = WORLD_SERVICE,
		.qpn = qpn,
		.starting_psn = simhca_cm_psn(end->host->cm),
		.responder_resources = 4,
		.initiator_depth = 3,
		.remote_cm_timeout = 20,
		.local_cm_timeout = 20,
		.retry_count = 6,
		.rnr_retry = 5,
		.max_cm_retries = 15,
	};

	memcpy(req.private_data, "hello", 5);
	return simhca_cm_send_req(end->id, &path, &req, 0x77);
}

int end_accept(struct end *end, uint32_t qpn)
{
	struct simhca_cm_rep rep = {
		.qpn = qpn,
		.starting_psn = simhca_cm_psn(end->host->cm),
		.responder_resources = 2,
		.initiator_depth = 1,
		.rnr_retry = 4,
	};

	memcpy(rep.private_data, "welcome", 7);
	return simhca_cm_send_rep(end->id, &rep, 0x88);
}
