/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP has under way to other hosts: flights, routes, parcels; and how a parcel becomes packets. */
#include <stdlib.h>
#include <utlist.h>

#include "core/fabric.h"
#include "core/mtu.h"
#include "packet/packet.h"
#include "simhca-clock.h"
#include "wire.h"

#define RDMA_PARCEL 8192u   /* bytes of an RDMA operation that are a parcel */
#define PARCELS_OF_RDMA 16u /* under way at a time */
#define ROUTES_KEPT 1024u   /* of a QP, beside those in use */

/* ------------------------------------------------------------------------------------ routes */

/* A flow that begins later is larger, also after this host was started anew. */
static uint64_t new_flow(uint64_t last)
{
	uint64_t flow = simhca_clock_ns(CLOCK_REALTIME);

	return flow > last ? flow : last + 1;
}

static void begin_flow(struct efa_route *route)
{
	route->flow = new_flow(route->flow);
	route->next = 0;
	route->restart = route->taken = false;
}

struct efa_route *efa_route_find(struct efa_qp *qp, const struct efa_sender *to)
{
	struct efa_route *route;

	HASH_FIND(hh, qp->routes, to, sizeof(*to), route);
	return route;
}

static void free_route(struct efa_qp *qp, struct efa_route *route)
{
	HASH_DEL(qp->routes, route);
	atomic_fetch_sub(&route->host->routes, 1);
	efa_host_release(qp->context->efa, route->host);
	simhca_share_leave(&qp->context->device->fabric->wire->ways, &route->share);
	free(route);
}

/* The longest unused one goes: they are in the order in which they were made, and used again. */
static void forget_some(struct efa_qp *qp)
{
	struct efa_route *route, *next;

	for (route = qp->routes; route && HASH_COUNT(qp->routes) > ROUTES_KEPT; route = next) {
		next = route->hh.next;
		if (!route->flights)
			free_route(qp, route);
	}
}

static struct efa_route *route_to(struct efa_qp *qp, const struct efa_sender *to, uint64_t now)
{
	struct simhca_wire *wire = qp->context->device->fabric->wire;
	struct efa_route *route = efa_route_find(qp, to);

	if (route)
		return route;
	forget_some(qp);
	route = calloc(1, sizeof(*route));
	if (!route)
		return NULL;
	route->host = efa_host_join(qp->context->efa, &to->gid);
	if (!route->host) {
		free(route);
		return NULL;
	}
	atomic_fetch_add(&route->host->routes, 1);
	route->to = *to;
	route->path = efa_wire_path(qp, &to->gid, (uint32_t)to->qpn);
	route->heard_ns = now;
	begin_flow(route);
	simhca_congestion_begin(&route->congestion);
	simhca_share_join(&wire->ways, &route->share, &to->gid);
	HASH_ADD(hh, qp->routes, to, sizeof(route->to), route);
	return route;
}

/* ----------------------------------------------------------------------------------- flights */

struct efa_flight *efa_flight_new(struct efa_qp *qp, const struct efa_message *message,
				  const union simhca_gid *gid, uint64_t now)
{
	const struct efa_sender to = { .gid = *gid, .qpn = message->send.dest_qpn };
	const uint32_t room = message->send.opcode == EFA_SEND ? 1 : PARCELS_OF_RDMA;
	struct efa_route *route = route_to(qp, &to, now);
	struct efa_flight *flight;

	flight = route ? calloc(1, sizeof(*flight) + room * sizeof(flight->parcel[0])) : NULL;
	if (!flight)
		return NULL;
	flight->message = *message;
	flight->route = route;
	flight->room = room;
	if (!route->flights++)
		simhca_share_set_busy(&route->share, true);
	DL_APPEND(qp->flights, flight);
	qp->flight_count++;
	return flight;
}

void efa_flight_free(struct efa_qp *qp, struct efa_flight *flight)
{
	struct efa_route *route = flight->route;

	for (uint32_t i = 0; i < flight->room; i++)
		if (flight->parcel[i].flight)
			efa_parcel_free(&flight->parcel[i]);
	if (!--route->flights)
		simhca_share_set_busy(&route->share, false);
	DL_DELETE(qp->flights, flight);
	qp->flight_count--;
	free(flight);
	if (!qp->flights)
		qp->wire_due_ns = 0;
}

void efa_wire_forget(struct efa_qp *qp)
{
	struct efa_route *route, *next;

	while (qp->flights)
		efa_flight_free(qp, qp->flights);
	HASH_ITER (hh, qp->routes, route, next)
		free_route(qp, route);
	efa_heard_forget(qp);
	qp->wire_due_ns = 0;
}

/* ----------------------------------------------------------------------------------- parcels */

/* How many bytes the next one has. */
static uint32_t next_length(const struct efa_flight *flight)
{
	const struct efa_send *send = &flight->message.send;
	uint32_t left = send->length - flight->asked;

	return send->opcode == EFA_SEND || left < RDMA_PARCEL ? left : RDMA_PARCEL;
}

/* What comes with the last one tells of all of them. */
static bool waits_for_others(const struct efa_flight *flight, uint32_t length)
{
	const struct efa_send *send = &flight->message.send;

	return send->opcode == EFA_RDMA_WRITE && send->has_imm &&
	       flight->asked + length == send->length && flight->parcels;
}

bool efa_route_has_room(const struct efa_route *route, uint32_t packets)
{
	return !route->under_way ||
	       route->under_way + packets <= simhca_congestion_window(&route->congestion);
}

struct efa_parcel *efa_parcel_new(struct efa_flight *flight, uint32_t unit, uint64_t now)
{
	struct efa_route *route = flight->route;
	struct efa_parcel *parcel = flight->parcel;
	uint32_t length, packets;

	if (flight->all || flight->parcels == flight->room)
		return NULL;
	length = next_length(flight);
	packets = efa_wire_packets(length, unit);
	if (waits_for_others(flight, length) || route->by_number[route->next % EFA_WINDOW] ||
	    !efa_route_has_room(route, packets))
		return NULL;
	/* Of a flow that it does not know the QP there takes the first numbers alone. */
	if (route->restart || (!route->taken && route->next >= EFA_WINDOW)) {
		if (route->parcels)
			return NULL;
		begin_flow(route);
	}
	while (parcel->flight)
		parcel++;
	*parcel = (struct efa_parcel){ .flight = flight,
				       .number = route->next++,
				       .offset = flight->asked,
				       .length = length,
				       .packets = packets,
				       .first_ns = now,
				       .asked_ns = now };
	route->by_number[parcel->number % EFA_WINDOW] = parcel;
	route->parcels++;
	route->under_way += packets;
	flight->parcels++;
	flight->asked += length;
	flight->all = flight->asked == flight->message.send.length;
	return parcel;
}

void efa_route_goes_on(struct efa_route *route)
{
	if (route->asks && route->asks->waits)
		route->asks->due_ns = 0;
	route->asks = NULL;
	route->refusals = 0;
}

void efa_parcel_free(struct efa_parcel *parcel)
{
	struct efa_route *route = parcel->flight->route;

	route->by_number[parcel->number % EFA_WINDOW] = NULL;
	if (route->asks == parcel)
		efa_route_goes_on(route);
	if (route->may_ask < EFA_WINDOW)
		route->may_ask += 2;
	route->parcels--;
	if (!parcel->waits)
		route->under_way -= parcel->packets;
	parcel->flight->parcels--;
	parcel->flight = NULL;
}

/* ----------------------------------------------------------------------------------- packets */

uint32_t efa_wire_unit(const struct simhca_device *device)
{
	return simhca_mtu_bytes(atomic_load(&device->wire_mtu)) - EFA_WIRE_HEADER;
}

void efa_wire_emit(struct simhca_worker *worker, struct efa_qp *qp,
		   const struct simhca_wire_path *path, uint32_t dest_qpn,
		   struct efa_wire_header *header, const uint8_t *data)
{
	struct simhca_device *device = qp->context->device;
	const bool has_data = efa_wire_has_data(header->kind);
	const uint32_t unit = efa_wire_unit(device);
	const uint32_t packets = has_data ? efa_wire_packets(header->length, unit) : 1;
	struct efa_host *host = efa_host_find(qp->context->efa, &path->destination);

	if (host)
		efa_host_count(&host->sent, packets);
	header->unit = (uint16_t)unit;
	for (uint32_t i = 0; i < packets; i++) {
		const uint32_t offset = i * unit, left = has_data ? header->length - offset : 0;
		uint8_t head[EFA_WIRE_HEADER];
		const struct simhca_wire_parts parts = {
			.head = head,
			.head_bytes = sizeof(head),
			.rest = data ? data + offset : NULL,
			.rest_bytes = left < unit ? left : unit,
		};
		const struct simhca_packet packet = {
			.op = SIMHCA_PKT_EFA,
			.first = true,
			.last = true,
			.dest_qpn = dest_qpn,
			.psn = (header->number + i) & SIMHCA_PSN_MASK,
			.length = parts.head_bytes + parts.rest_bytes,
		};

		header->offset = offset;
		efa_wire_encode(header, head);
		simhca_wire_put_parts(worker, device, path, SIMHCA_ECN_CAPABLE, &packet, &parts);
	}
}
