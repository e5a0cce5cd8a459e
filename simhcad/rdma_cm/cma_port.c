/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Ports of port spaces. They are a namespace of their own, which has nothing to do with sockets: a
 * TCP server on the same number is no conflict. As many ids may be bound to one as their addresses
 * allow; all of them that listen share one listener of the communication manager.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "cma.h"
#include "base/privilege.h"

#define PRIVILEGED 1024 /* ports below */
#define EPHEMERAL_FIRST 32768
#define EPHEMERAL_LAST 60999
#define EPHEMERAL (EPHEMERAL_LAST - EPHEMERAL_FIRST + 1)
_Static_assert(EPHEMERAL % 64 && EPHEMERAL / 64 + 1 == CMA_EPHEMERAL_WORDS, "a bit for each");
/* Of one port; each further one is compared with all of them, by the thread that serves everybody. */
#define MOST_IDS 2048
#define DESCRIBED 64 /* listeners that are looked at for one line of the log */

struct cma_port {
	struct cma *cma;
	uint32_t key;		      /* port space and number */
	struct cma_id *ids;	      /* all that are bound; those that listen come first */
	unsigned int count;	      /* of them */
	unsigned int listeners;	      /* likewise */
	struct simhca_cm_id *listen;  /* NULL: nobody listens */
	struct cma_port *prev, *next; /* of those with listeners */
	UT_hash_handle hh;
};

static uint16_t space_of(const struct cma_port *port)
{
	return (uint16_t)(port->key >> 16);
}

/* The port space that an AF_IB address names in its service ID; others have that of the id. */
static uint16_t port_space(const struct cma_id *id, const union cma_addr *addr)
{
	uint64_t sid, mask;

	if (addr->sa.sa_family != AF_IB)
		return id->ps;
	mask = be64toh(addr->ib.sid_mask) & ~UINT64_C(0xffff);
	sid = be64toh(addr->ib.sid) & mask;
	if (id->ps == RDMA_PS_IB && sid == ((uint64_t)RDMA_PS_IB << 16 & mask))
		return RDMA_PS_IB;
	if ((id->ps == RDMA_PS_IB || id->ps == RDMA_PS_TCP) &&
	    sid == ((uint64_t)RDMA_PS_TCP << 16 & mask))
		return RDMA_PS_TCP;
	if ((id->ps == RDMA_PS_IB || id->ps == RDMA_PS_UDP) &&
	    sid == ((uint64_t)RDMA_PS_UDP << 16 & mask))
		return RDMA_PS_UDP;
	return 0;
}

uint64_t cma_service_id(const struct cma_id *id, const union cma_addr *addr)
{
	if (addr->sa.sa_family == AF_IB)
		return be64toh(addr->ib.sid);
	return (uint64_t)id->ps << 16 | cma_addr_port(addr);
}

static struct cma_port *find(struct cma *cma, uint32_t key)
{
	struct cma_port *port;

	HASH_FIND(hh, cma->ports, &key, sizeof(key), port);
	return port;
}

/*
 * Whether another id on the port leaves room for this one: 0 or what is wrong, as Linux has it. Who shares the port
 * by RDMA_OPTION_ID_REUSEADDR cannot listen before it has it alone.
 */
static int conflict(const struct cma_port *port, const struct cma_id *id, bool to_listen)
{
	const struct cma_id *other;

	if (to_listen && !id->reuseaddr)
		return 0;
	DL_FOREACH2(port->ids, other, port_next)
	{
		if (other == id)
			continue;
		if (!to_listen && id->reuseaddr && other->reuseaddr && other->state != CMA_LISTEN)
			continue;
		if (id->afonly && other->afonly && id->src.sa.sa_family != other->src.sa.sa_family)
			continue;
		if (cma_addr_is_any(&id->src) || cma_addr_is_any(&other->src))
			return -EADDRNOTAVAIL;
		if (cma_addr_equal(&id->src, &other->src))
			return -EADDRINUSE;
	}
	return 0;
}

/* Those of a port space that ids have, one bit each. */
static uint64_t *taken_of(struct cma *cma, uint16_t ps)
{
	switch (ps) {
	case RDMA_PS_IPOIB:
		return cma->taken[0];
	case RDMA_PS_IB:
		return cma->taken[1];
	case RDMA_PS_UDP:
		return cma->taken[2];
	default:
		return cma->taken[3];
	}
}

/* Which bits of a word stand for a port: the last word has more than there are. */
static uint64_t ports_of(uint32_t word)
{
	return word == EPHEMERAL / 64 ? (UINT64_C(1) << EPHEMERAL % 64) - 1 : UINT64_MAX;
}

static void take(struct cma_port *port, bool taken)
{
	const uint32_t number = (port->key & 0xffff) - EPHEMERAL_FIRST;
	uint64_t *word;

	if (number >= EPHEMERAL)
		return;
	word = &taken_of(port->cma, space_of(port))[number / 64];
	if (taken)
		*word |= UINT64_C(1) << number % 64;
	else
		*word &= ~(UINT64_C(1) << number % 64);
}

static int join(struct cma_id *id, uint16_t ps, uint16_t number)
{
	struct cma *cma = id->file->cma;
	uint32_t key = (uint32_t)ps << 16 | number;
	struct cma_port *port = find(cma, key);

	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return -ENOMEM;
		port->cma = cma;
		port->key = key;
		HASH_ADD(hh, cma->ports, key, sizeof(port->key), port);
		take(port, true);
	}
	id->port = port;
	port->count++;
	DL_APPEND2(port->ids, id, port_prev, port_next);
	cma_addr_set_port(&id->src, number);
	if (id->src.sa.sa_family == AF_IB)
		id->src.ib.sid = htobe64((uint64_t)ps << 16 | number);
	return 0;
}

/* Any port that nobody has, beginning at a random one; 64 are looked at at a time. */
static int join_any(struct cma_id *id, uint16_t ps, struct simhca_why *why)
{
	struct cma *cma = id->file->cma;
	const uint64_t *taken = taken_of(cma, ps);
	const uint32_t start = simhca_cm_psn(cma->cm) % EPHEMERAL;
	/* The word of the first is looked at twice: its last bits at once, all of them at the end. */
	uint64_t skipped = (UINT64_C(1) << start % 64) - 1;

	for (uint32_t i = 0; i <= CMA_EPHEMERAL_WORDS; i++) {
		uint32_t word = (start / 64 + i) % CMA_EPHEMERAL_WORDS;
		uint64_t free = ~taken[word] & ~skipped & ports_of(word);

		if (free)
			return join(id, ps,
				    (uint16_t)(EPHEMERAL_FIRST + word * 64 +
					       (uint32_t)__builtin_ctzll(free)));
		skipped = 0;
	}
	return simhca_why(why, EADDRNOTAVAIL, "no port of port space %s is free", cma_ps_name(ps));
}

int cma_port_bind(struct cma_id *id, struct simhca_why *why)
{
	struct cma *cma = id->file->cma;
	uint16_t ps = port_space(id, &id->src), number = cma_addr_port(&id->src);
	char text[CMA_ADDR_TEXT];
	struct cma_port *port;
	int ret;

	if (!ps)
		return simhca_why(why, EPROTONOSUPPORT,
				  "the service ID is of no port space that fits the id's");
	if (!number)
		return join_any(id, ps, why);
	if (number < PRIVILEGED) {
		ret = privilege_net_bind_service(id->file->pid, id->file->uid, why);
		if (ret)
			return -EACCES;
	}
	port = find(cma, (uint32_t)ps << 16 | number);
	if (port && port->count >= MOST_IDS)
		return simhca_why(why, EADDRINUSE,
				  "%u ids share %s in port space %s, and no more may", port->count,
				  cma_addr_print(&id->src, text), cma_ps_name(ps));
	ret = port ? conflict(port, id, false) : 0;
	if (ret)
		return simhca_why(why, -ret, "%s is taken in port space %s",
				  cma_addr_print(&id->src, text), cma_ps_name(ps));
	return join(id, ps, number);
}

void cma_port_release(struct cma_id *id)
{
	struct cma_port *port = id->port;

	if (!port)
		return;
	DL_DELETE2(port->ids, id, port_prev, port_next);
	port->count--;
	id->port = NULL;
	if (id->state == CMA_LISTEN && !--port->listeners) {
		simhca_cm_id_destroy(port->listen, false);
		port->listen = NULL;
		DL_DELETE(port->cma->listening, port);
	}
	if (port->ids)
		return;
	take(port, false);
	HASH_DEL(port->cma->ports, port);
	free(port);
}

int cma_port_listen(struct cma_id *id, struct simhca_why *why)
{
	struct cma_port *port = id->port;
	char text[CMA_ADDR_TEXT];
	int ret = conflict(port, id, true);

	if (ret)
		return simhca_why(why, -ret,
				  "%s in port space %s is shared with another id: who listens has "
				  "it alone",
				  cma_addr_print(&id->src, text), cma_ps_name(space_of(port)));
	if (!port->listen) {
		port->listen = simhca_cm_id_create(port->cma->cm, port);
		if (!port->listen)
			return simhca_why(why, ENOMEM, "out of memory");
		ret = simhca_cm_listen(port->listen,
				       (uint64_t)space_of(port) << 16 | (port->key & 0xffff));
		if (ret) {
			simhca_cm_id_destroy(port->listen, false);
			port->listen = NULL;
			return simhca_why(why, -ret, "the service ID is taken");
		}
	}
	if (!port->listeners++)
		DL_APPEND(port->cma->listening, port);
	DL_DELETE2(port->ids, id, port_prev, port_next);
	DL_PREPEND2(port->ids, id, port_prev, port_next);
	return 0;
}

/* How well a listener suits: 2 the address itself, 1 any address, 0 not at all. */
static int suits(const struct cma_id *id, const union cma_addr *dst)
{
	if (!dst->sa.sa_family) /* not by IP: whoever listens by AF_IB */
		return id->src.sa.sa_family == AF_IB ? 2 : 0;
	if (cma_addr_equal(&id->src, dst))
		return 2;
	if (!cma_addr_is_any(&id->src))
		return 0;
	return !id->afonly || id->src.sa.sa_family == dst->sa.sa_family;
}

struct cma_id *cma_port_listener(struct cma_port *port, const union cma_addr *dst)
{
	struct cma_id *id, *best = NULL;
	int most = 0;

	DL_FOREACH2(port->ids, id, port_next)
	{
		int fit = suits(id, dst);

		if (id->state != CMA_LISTEN)
			break;
		if (fit > most) {
			most = fit;
			best = id;
		}
	}
	return best;
}

/* Each rejection looks at few, however many there are. */
void cma_port_describe(struct cma *cma, uint16_t ps, char *text, size_t size)
{
	unsigned int looks = 0;
	size_t used = 0;
	const struct cma_port *port;

	text[0] = '\0';
	DL_FOREACH (cma->listening, port) {
		const struct cma_id *id;
		char addr[CMA_ADDR_TEXT];

		DL_FOREACH2(port->ids, id, port_next)
		{
			if (id->state != CMA_LISTEN || used >= size)
				break;
			if (looks++ == DESCRIBED) {
				snprintf(text + used, size - used, "%s...", used ? ", " : "");
				return;
			}
			if (space_of(port) == ps)
				used += (size_t)snprintf(text + used, size - used, "%s%s",
							 used ? ", " : "",
							 cma_addr_print(&id->src, addr));
		}
	}
}

void cma_port_hint(const struct cma_id *client, char *text, size_t size)
{
	const uint16_t wanted = cma_addr_port(&client->dst);
	const uint16_t reversed = (uint16_t)(wanted << 8 | wanted >> 8);
	unsigned int looks = 0;
	const struct cma_port *port;

	text[0] = '\0';
	if (!wanted) {
		snprintf(text, size, "; the port is 0: set that of the server, such as sin_port");
		return;
	}
	DL_FOREACH (client->file->cma->listening, port) {
		const struct cma_id *id = port->ids;
		uint16_t number;

		if (looks++ == DESCRIBED)
			return;
		if (!id || id->state != CMA_LISTEN)
			continue;
		number = cma_addr_port(&id->src);
		if (space_of(port) == client->ps && number == reversed && reversed != wanted)
			snprintf(text, size, "; port %u is %u with its bytes reversed: use htons()",
				 wanted, number);
		else if (space_of(port) != client->ps && number == wanted)
			snprintf(text, size, "; on that port one listens in port space %s",
				 cma_ps_name(space_of(port)));
	}
}
