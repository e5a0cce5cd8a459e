/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which port an address names, and what kinds of QPs talk to each other. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#include "address.h"
#include "gids.h"

bool simhca_link_has_address(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av)
{
	if (device->config.infiniband != source->config.infiniband)
		return false;
	if (device->config.infiniband)
		return av->dlid && av->dlid == simhca_device_lid(device) &&
		       (!av->is_global || simhca_gids_have(&device->gids, &av->dgid));
	return av->is_global && simhca_gids_have(&device->gids, &av->dgid);
}

bool simhca_link_answers_to(const struct simhca_device *device, const struct simhca_device *source,
			    const struct simhca_av *av)
{
	return simhca_port_is_active(device) && simhca_link_has_address(device, source, av);
}

typedef uint64_t __attribute__((may_alias)) address_word;
#define AV_WORDS (sizeof(struct simhca_av) / sizeof(address_word))
_Static_assert(sizeof(struct simhca_av) % sizeof(address_word) == 0 &&
		       offsetof(struct simhca_qpc, av) % sizeof(address_word) == 0,
	       "an address vector in a QPC is whole words");

void simhca_qpc_set_av(struct simhca_qpc *qpc, const struct simhca_av *av)
{
	address_word words[AV_WORDS];

	memcpy(words, av, sizeof(words));
	for (size_t i = 0; i < AV_WORDS; i++)
		__atomic_store_n((address_word *)&qpc->av + i, words[i], __ATOMIC_RELAXED);
}

static struct simhca_av get_av(const struct simhca_qpc *qpc)
{
	address_word words[AV_WORDS];
	struct simhca_av av;

	for (size_t i = 0; i < AV_WORDS; i++)
		words[i] = __atomic_load_n((const address_word *)&qpc->av + i, __ATOMIC_RELAXED);
	memcpy(&av, words, sizeof(av));
	return av;
}

/* The GID of a table is the one that the address vector at the other end has. */
static bool is_source(const struct simhca_device *device, const struct simhca_av *av,
		      const union simhca_gid *gid)
{
	union simhca_gid source;

	if (av->sgid_index >= SIMHCA_GID_ENTRIES)
		return false;
	source = simhca_gids_get(&device->gids, av->sgid_index);
	return !memcmp(&source, gid, sizeof(source));
}

bool simhca_link_is_connected(const struct simhca_device *to, const struct simhca_qpc *to_qpc,
			      const struct simhca_device *from, const struct simhca_qpc *from_qpc)
{
	struct simhca_av to_av = get_av(to_qpc), from_av = get_av(from_qpc);

	/* Without a GRH no packet says which GID it comes from. */
	if (!to_av.is_global || !from_av.is_global)
		return true;
	return is_source(from, &from_av, &to_av.dgid) && is_source(to, &to_av, &from_av.dgid);
}

bool simhca_link_accepts(uint32_t type, uint32_t sender_type)
{
	switch (sender_type) {
	case SIMHCA_QPT_XRC_SEND:
		return type == SIMHCA_QPT_XRC_RECV;
	case SIMHCA_QPT_RAW_PACKET:
		return type == SIMHCA_QPT_RAW_PACKET || type == SIMHCA_QPT_WQ;
	default:
		return type == sender_type;
	}
}

bool simhca_port_is_active(const struct simhca_device *device)
{
	return atomic_load(&device->mem->port.state) == IBV_PORT_ACTIVE;
}
