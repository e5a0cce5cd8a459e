/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "link/wire/inbox.h"
#include "queue/psn.h"

struct simhca_inbox {
	pthread_mutex_t lock;
	bool open, connected, retired;
	bool begun, wanted; /* an engine has it; another one wanted it */
	struct simhca_peer_way way;
	uint32_t peer_qpn;
	uint8_t mtu;
	struct simhca_arrival *first, **end;
	uint32_t count;
	_Atomic uint64_t sent, repeated;
	uint64_t received, lost; /* by what is for it: in it, and without room */
	uint32_t psn_next;	 /* behind what has been sent of requests */
	bool psn_known;
	atomic_bool notified;
	uint64_t told_at;  /* of whoever has it */
	uint32_t openings; /* what was dequeued before the last one does not come back */
	uint32_t begun_at;
	uint64_t timer_fired; /* of whoever has it */
};

struct simhca_inbox *simhca_inbox_create(void)
{
	struct simhca_inbox *inbox = calloc(1, sizeof(*inbox));

	if (!inbox)
		return NULL;
	simhca_mutex_init(&inbox->lock, SIMHCA_LOCK_INBOX);
	inbox->end = &inbox->first;
	return inbox;
}

/* Under the lock. */
static void empty(struct simhca_inbox *inbox)
{
	struct simhca_arrival *arrival;

	while ((arrival = inbox->first)) {
		inbox->first = arrival->next;
		simhca_arrival_free(arrival);
	}
	inbox->end = &inbox->first;
	inbox->count = 0;
	inbox->openings++;
}

void simhca_inbox_destroy(struct simhca_inbox *inbox)
{
	if (!inbox)
		return;
	empty(inbox);
	pthread_mutex_destroy(&inbox->lock);
	free(inbox);
}

void simhca_inbox_open(struct simhca_inbox *inbox, const struct simhca_wire_path *path,
		       uint32_t peer_qpn, uint8_t mtu)
{
	pthread_mutex_lock(&inbox->lock);
	inbox->open = true;
	inbox->connected = path;
	if (path)
		inbox->way.path = *path;
	inbox->peer_qpn = peer_qpn;
	inbox->mtu = mtu;
	inbox->psn_known = false;
	atomic_store(&inbox->notified, false);
	simhca_congestion_begin(&inbox->way.congestion);
	simhca_path_hole_over(&inbox->way.hole);
	pthread_mutex_unlock(&inbox->lock);
}

void simhca_inbox_close(struct simhca_inbox *inbox)
{
	pthread_mutex_lock(&inbox->lock);
	inbox->open = false;
	empty(inbox);
	pthread_mutex_unlock(&inbox->lock);
}

/* Under the lock, connected. */
static bool is_from_peer(const struct simhca_inbox *inbox, const struct simhca_wire_path *from)
{
	return !memcmp(&from->source, &inbox->way.path.destination, sizeof(from->source)) &&
	       !memcmp(&from->destination, &inbox->way.path.source, sizeof(from->destination));
}

struct simhca_peer_way *simhca_inbox_way(struct simhca_inbox *inbox)
{
	return &inbox->way;
}

bool simhca_inbox_notify(struct simhca_inbox *inbox, const struct simhca_wire_path *from)
{
	bool believed;

	pthread_mutex_lock(&inbox->lock);
	believed = inbox->open && inbox->connected && is_from_peer(inbox, from);
	pthread_mutex_unlock(&inbox->lock);
	if (believed)
		atomic_store(&inbox->notified, true);
	return believed;
}

void simhca_inbox_slow_down(struct simhca_inbox *inbox)
{
	atomic_store(&inbox->notified, true);
}

bool simhca_inbox_notified(struct simhca_inbox *inbox)
{
	return atomic_load_explicit(&inbox->notified, memory_order_relaxed) &&
	       atomic_exchange(&inbox->notified, false);
}

bool simhca_inbox_may_send_cnp(struct simhca_inbox *inbox, uint64_t now_ns)
{
	if (inbox->told_at && now_ns - inbox->told_at < SIMHCA_CNP_NS)
		return false;
	inbox->told_at = now_ns;
	return true;
}

bool simhca_inbox_is_new(const struct simhca_inbox *inbox, const struct simhca_packet *packet)
{
	return !inbox->psn_known || simhca_psn_cmp(packet->psn, inbox->psn_next) >= 0;
}

void simhca_inbox_sent(struct simhca_inbox *inbox, const struct simhca_packet *packet,
		       uint32_t count)
{
	const uint32_t psns =
		packet->op == SIMHCA_PKT_READ ? simhca_request_psns(packet, packet->mtu) : count;
	int32_t before;

	/* relaxed: numbers by themselves, which order nothing. */
	atomic_fetch_add_explicit(&inbox->sent, count, memory_order_relaxed);
	if (simhca_is_response(packet->op))
		return;
	before = inbox->psn_known ? simhca_psn_cmp(inbox->psn_next, packet->psn) : 0;
	if (before > 0)
		atomic_fetch_add_explicit(&inbox->repeated,
					  (uint32_t)before < count ? (uint32_t)before : count,
					  memory_order_relaxed);
	if (before >= (int32_t)psns)
		return;
	inbox->psn_known = true;
	inbox->psn_next = simhca_psn_add(packet->psn, psns);
}

bool simhca_inbox_traffic(struct simhca_inbox *inbox, struct simhca_wire_traffic *traffic)
{
	bool connected;

	pthread_mutex_lock(&inbox->lock);
	connected = inbox->open && inbox->connected;
	*traffic = (struct simhca_wire_traffic){
		.peer = inbox->way.path.destination,
		.sent = atomic_load_explicit(&inbox->sent, memory_order_relaxed),
		.repeated = atomic_load_explicit(&inbox->repeated, memory_order_relaxed),
		.received = inbox->received,
		.lost = inbox->lost,
		.window = simhca_congestion_window(&inbox->way.congestion),
		.hole = simhca_path_hole_is_there(&inbox->way.hole),
	};
	pthread_mutex_unlock(&inbox->lock);
	return connected;
}

/* Under the lock. A request that is too long gets an answer, a response has had its chance. */
static bool is_for(const struct simhca_inbox *inbox, const struct simhca_packet *packet,
		   const struct simhca_wire_path *from)
{
	if (!inbox->open)
		return false;
	if (!inbox->connected)
		return true;
	if (simhca_is_response(packet->op) && packet->length > simhca_mtu_bytes(inbox->mtu))
		return false;
	return is_from_peer(inbox, from);
}

bool simhca_inbox_put(struct simhca_inbox *inbox, const struct simhca_packet *packet,
		      const uint8_t *payload, const struct simhca_wire_datagram *datagram,
		      struct simhca_arrivals *arrivals)
{
	struct simhca_arrival *arrival = NULL;

	pthread_mutex_lock(&inbox->lock);
	if (is_for(inbox, packet, &datagram->path)) {
		if (inbox->count < SIMHCA_INBOX_ROOM)
			arrival = simhca_arrival_create(arrivals, packet, payload, datagram);
		if (!arrival)
			inbox->lost++;
	}
	if (arrival) {
		inbox->received++;
		if (inbox->connected) {
			arrival->packet.src_qpn = inbox->peer_qpn;
			arrival->packet.mtu = inbox->mtu;
		}
		*inbox->end = arrival;
		inbox->end = &arrival->next;
		inbox->count++;
	}
	pthread_mutex_unlock(&inbox->lock);
	return arrival;
}

bool simhca_inbox_retire(struct simhca_inbox *inbox)
{
	bool idle;

	pthread_mutex_lock(&inbox->lock);
	inbox->retired = true;
	inbox->open = false;
	idle = !inbox->begun;
	pthread_mutex_unlock(&inbox->lock);
	return idle;
}

bool simhca_inbox_begin(struct simhca_inbox *inbox)
{
	bool begun;

	pthread_mutex_lock(&inbox->lock);
	begun = !inbox->begun && !inbox->retired;
	inbox->wanted = inbox->begun;
	if (begun) {
		inbox->begun = true;
		inbox->begun_at = inbox->openings;
	}
	pthread_mutex_unlock(&inbox->lock);
	return begun;
}

bool simhca_inbox_timer(struct simhca_inbox *inbox, uint64_t fired)
{
	bool again = inbox->timer_fired != fired;

	inbox->timer_fired = fired;
	return again;
}

bool simhca_inbox_end(struct simhca_inbox *inbox)
{
	bool wanted;

	pthread_mutex_lock(&inbox->lock);
	inbox->begun = false;
	wanted = inbox->wanted;
	pthread_mutex_unlock(&inbox->lock);
	return wanted;
}

/* Whether a packet goes on where those end: it can be one with them. */
static bool goes_on(const struct simhca_inbox *inbox, const struct simhca_packet *so_far,
		    const struct simhca_arrival *next)
{
	uint32_t mtu = simhca_mtu_bytes(inbox->mtu);

	return inbox->connected && next->packet.op == so_far->op &&
	       next->packet.transport == so_far->transport && !so_far->last &&
	       !next->packet.first && so_far->length && so_far->length % mtu == 0 &&
	       next->packet.length && next->packet.length <= mtu &&
	       next->packet.psn ==
		       simhca_psn_add(so_far->psn, simhca_psn_count(so_far->length, mtu)) &&
	       next->packet.srqn == so_far->srqn;
}

static void gather(struct simhca_arrival *arrival, struct simhca_arrival *next)
{
	struct simhca_packet *whole = &arrival->packet;

	whole->gathered = true;
	whole->length += next->packet.length;
	whole->last = next->packet.last;
	whole->ack_req |= next->packet.ack_req;
	whole->solicited |= next->packet.solicited;
	whole->has_imm = next->packet.has_imm;
	whole->has_inv = next->packet.has_inv;
	whole->imm_or_rkey = next->packet.imm_or_rkey;
	arrival->marked |= next->marked;
	*arrival->end = next;
	arrival->end = &next->more;
	arrival->count++;
}

struct simhca_arrival *simhca_inbox_dequeue(struct simhca_inbox *inbox, bool responses)
{
	struct simhca_arrival **link, *arrival;

	pthread_mutex_lock(&inbox->lock);
	link = &inbox->first;
	while (*link && responses && !simhca_is_response((*link)->packet.op))
		link = &(*link)->next;
	arrival = *link;
	if (arrival) {
		*link = arrival->next;
		inbox->count -= arrival->count;
		while (*link && arrival->count < SIMHCA_INBOX_GATHERED &&
		       goes_on(inbox, &arrival->packet, *link)) {
			struct simhca_arrival *next = *link;

			*link = next->next;
			inbox->count--;
			gather(arrival, next);
		}
		if (!*link)
			inbox->end = link;
	}
	pthread_mutex_unlock(&inbox->lock);
	return arrival;
}

void simhca_inbox_keep(struct simhca_inbox *inbox, struct simhca_arrival *arrival)
{
	pthread_mutex_lock(&inbox->lock);
	if (inbox->begun_at != inbox->openings) {
		simhca_arrival_free(arrival);
	} else {
		arrival->next = inbox->first;
		inbox->first = arrival;
		if (!arrival->next)
			inbox->end = &arrival->next;
		inbox->count += arrival->count;
	}
	pthread_mutex_unlock(&inbox->lock);
}
