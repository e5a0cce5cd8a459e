/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "link/wire/arrival.h"
#include "link/wire/congestion.h"

/* Under AddressSanitizer nothing is used again, so that it sees who uses what was given back. */
#ifdef __SANITIZE_ADDRESS__
#define KEPT(most) 0
#else
#define KEPT(most) (most)
#endif
#define BRIEF_BYTES 256	 /* of payload */
#define WHOLE_BYTES 4096 /* the largest path MTU */
#define BRIEF_KEPT KEPT(1024)
#define WHOLE_KEPT KEPT(256)
#define BUFFERS_KEPT KEPT(64)

struct simhca_wire_buffer {
	struct simhca_arrivals *arrivals;
	_Atomic uint32_t references;
	bool held; /* a packet of it waits or did; of who hands in, until it lets go of it */
	uint8_t bytes[SIMHCA_WIRE_BUFFER_BYTES];
};

/* ------------------------------------------------------------------------------------ memory */

static void open_pool(struct simhca_pool *pool, size_t size, uint32_t most)
{
	simhca_mutex_init(&pool->lock, SIMHCA_LOCK_POOL);
	pool->first = NULL;
	pool->count = 0;
	pool->most = most;
	pool->size = size;
}

static void close_pool(struct simhca_pool *pool)
{
	void *piece;

	while ((piece = pool->first)) {
		memcpy(&pool->first, piece, sizeof(pool->first));
		free(piece);
	}
	pthread_mutex_destroy(&pool->lock);
}

/* NULL: out of memory. */
static void *get(struct simhca_pool *pool)
{
	void *piece;

	pthread_mutex_lock(&pool->lock);
	piece = pool->first;
	if (piece) {
		memcpy(&pool->first, piece, sizeof(pool->first));
		pool->count--;
	}
	pthread_mutex_unlock(&pool->lock);
	return piece ? piece : malloc(pool->size);
}

static void give_back(struct simhca_pool *pool, void *piece)
{
	bool kept;

	pthread_mutex_lock(&pool->lock);
	kept = pool->count < pool->most;
	if (kept) {
		memcpy(piece, &pool->first, sizeof(pool->first));
		pool->first = piece;
		pool->count++;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!kept)
		free(piece);
}

void simhca_arrivals_open(struct simhca_arrivals *arrivals)
{
	open_pool(&arrivals->brief, sizeof(struct simhca_arrival) + BRIEF_BYTES, BRIEF_KEPT);
	open_pool(&arrivals->whole, sizeof(struct simhca_arrival) + WHOLE_BYTES, WHOLE_KEPT);
	open_pool(&arrivals->buffers, sizeof(struct simhca_wire_buffer), BUFFERS_KEPT);
	atomic_init(&arrivals->held, 0);
}

void simhca_arrivals_close(struct simhca_arrivals *arrivals)
{
	close_pool(&arrivals->brief);
	close_pool(&arrivals->whole);
	close_pool(&arrivals->buffers);
}

/* False: there is no room for so many bytes more. relaxed: a number by itself, which orders nothing. */
static bool hold(struct simhca_arrivals *arrivals, size_t bytes)
{
	if (atomic_fetch_add_explicit(&arrivals->held, bytes, memory_order_relaxed) + bytes <=
	    SIMHCA_ARRIVALS_MOST)
		return true;
	atomic_fetch_sub_explicit(&arrivals->held, bytes, memory_order_relaxed);
	return false;
}

static void let_go(struct simhca_arrivals *arrivals, size_t bytes)
{
	atomic_fetch_sub_explicit(&arrivals->held, bytes, memory_order_relaxed);
}

/* ----------------------------------------------------------------------------------- buffers */

struct simhca_wire_buffer *simhca_arrivals_buffer(struct simhca_arrivals *arrivals)
{
	struct simhca_wire_buffer *buffer = get(&arrivals->buffers);

	if (!buffer)
		return NULL;
	buffer->arrivals = arrivals;
	atomic_init(&buffer->references, 1);
	buffer->held = false;
	return buffer;
}

uint8_t *simhca_wire_buffer_bytes(struct simhca_wire_buffer *buffer)
{
	return buffer->bytes;
}

bool simhca_wire_buffer_is_held(const struct simhca_wire_buffer *buffer)
{
	return buffer->held;
}

void simhca_wire_buffer_put(struct simhca_wire_buffer *buffer)
{
	if (atomic_fetch_sub(&buffer->references, 1) > 1)
		return;
	if (buffer->held)
		let_go(buffer->arrivals, sizeof(*buffer));
	give_back(&buffer->arrivals->buffers, buffer);
}

/* False: there is no room for what it would hold. By who hands in. */
static bool refer(struct simhca_wire_buffer *buffer)
{
	if (!buffer->held && !hold(buffer->arrivals, sizeof(*buffer)))
		return false;
	buffer->held = true;
	atomic_fetch_add(&buffer->references, 1);
	return true;
}

/* ----------------------------------------------------------------------------------- packets */

static struct simhca_arrival *take(struct simhca_arrivals *arrivals, struct simhca_pool *pool)
{
	struct simhca_arrival *arrival;

	if (!hold(arrivals, pool->size))
		return NULL;
	arrival = get(pool);
	if (!arrival) {
		let_go(arrivals, pool->size);
		return NULL;
	}
	arrival->arrivals = arrivals;
	arrival->pool = pool;
	arrival->buffer = NULL;
	return arrival;
}

static void free_one(struct simhca_arrival *arrival)
{
	if (arrival->buffer)
		simhca_wire_buffer_put(arrival->buffer);
	let_go(arrival->arrivals, arrival->pool->size);
	give_back(arrival->pool, arrival);
}

struct simhca_arrival *simhca_arrival_create(struct simhca_arrivals *arrivals,
					     const struct simhca_packet *packet,
					     const uint8_t *payload,
					     const struct simhca_wire_datagram *datagram)
{
	bool stays = datagram->buffer && packet->length > BRIEF_BYTES;
	struct simhca_arrival *arrival =
		take(arrivals,
		     stays || packet->length <= BRIEF_BYTES ? &arrivals->brief : &arrivals->whole);

	if (!arrival)
		return NULL;
	if (!stays) {
		arrival->payload = memcpy(arrival->room, payload, packet->length);
	} else if (refer(datagram->buffer)) {
		arrival->buffer = datagram->buffer;
		arrival->payload = payload;
	} else {
		free_one(arrival);
		return NULL;
	}
	arrival->next = arrival->more = NULL;
	arrival->end = &arrival->more;
	arrival->count = 1;
	arrival->length = packet->length;
	arrival->busy_since = 0;
	arrival->marked = simhca_ecn_is_marked(datagram->traffic_class);
	arrival->packet = *packet;
	arrival->packet.remote = true;
	arrival->packet.sgid = datagram->path.source;
	arrival->av = (struct simhca_av){ .dgid = datagram->path.destination,
					  .hop_limit = datagram->hop_limit,
					  .traffic_class = datagram->traffic_class,
					  .is_global = 1,
					  .port_num = 1 };
	arrival->packet.av = &arrival->av;
	return arrival;
}

void simhca_arrival_free(struct simhca_arrival *arrival)
{
	while (arrival) {
		struct simhca_arrival *more = arrival->more;

		free_one(arrival);
		arrival = more;
	}
}
