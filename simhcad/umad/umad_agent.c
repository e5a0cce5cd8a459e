/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Agents: what may be registered (as the kernel's ib_register_mad_agent() has it), and for whom a MAD is. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "umad.h"

#define VENDOR_FIRST 0x30 /* classes with an OUI, and RMPP */
#define VENDOR_LAST 0x4f
#define CLASSES 80 /* beyond that there is the directed route alone */
#define VERSIONS 8 /* of a class */
#define AT_OUI 37  /* of these vendor classes, 3 bytes */

static bool is_vendor(uint8_t class)
{
	return class >= VENDOR_FIRST && class <= VENDOR_LAST;
}

/* Classes whose messages can be longer than a datagram. */
static bool has_rmpp(uint8_t class)
{
	return class == MAD_CLASS_SA || class == 0x06 || class == 0x10 || class == 0x12 ||
	       is_vendor(class);
}

bool umad_agent_has_rmpp(const struct umad_agent *agent, uint8_t class)
{
	return agent->rmpp_version && !agent->own_rmpp && has_rmpp(class);
}

/* libibumad has an OUI for all of them. */
static bool is_same_class(const struct umad_agent *a, const struct umad_agent *b)
{
	return a->qpn == b->qpn && a->class == b->class && a->class_version == b->class_version &&
	       (!is_vendor(a->class) || a->oui == b->oui);
}

static int check_class(const struct umad_agent *agent, struct simhca_why *why)
{
	bool smp = agent->class == MAD_CLASS_SMP || agent->class == MAD_CLASS_SMP_DIRECTED;

	if (agent->class_version >= VERSIONS)
		return simhca_why(why, EINVAL, "class version %u", agent->class_version);
	if (agent->class >= CLASSES && agent->class != MAD_CLASS_SMP_DIRECTED)
		return simhca_why(why, EINVAL, "there is no class 0x%02x", agent->class);
	if (is_vendor(agent->class) && !agent->oui)
		return simhca_why(why, EINVAL, "class 0x%02x needs an OUI", agent->class);
	if (agent->rmpp_version && !has_rmpp(agent->class))
		return simhca_why(why, EINVAL, "class 0x%02x has no RMPP", agent->class);
	if (smp != (agent->qpn == 0))
		return simhca_why(why, EINVAL, "class 0x%02x is not QP %u's", agent->class,
				  agent->qpn);
	return 0;
}

static int check_free(const struct umad_port *port, const struct umad_agent *wanted,
		      struct simhca_why *why)
{
	const struct umad_file *file;

	DL_FOREACH (port->files, file)
		for (unsigned int i = 0; i < UMAD_AGENTS; i++) {
			const struct umad_agent *other = file->agents[i];

			if (other && is_same_class(other, wanted) &&
			    (other->methods[0] & wanted->methods[0] ||
			     other->methods[1] & wanted->methods[1]))
				return simhca_why(why, EINVAL,
						  "process %d serves these methods of class 0x%02x",
						  (int)file->owner.process, wanted->class);
		}
	return 0;
}

/* A number that no agent has, and no response waits for any more. */
static uint32_t new_number(struct umad *umad)
{
	struct umad_agent *other;

	do {
		umad->last_agent++;
		HASH_FIND(hh, umad->agents, &umad->last_agent, sizeof(umad->last_agent), other);
	} while (other || !umad->last_agent);
	return umad->last_agent;
}

int umad_agent_register(struct umad_file *file, const struct umad_agent *wanted, uint32_t *id,
			struct simhca_why *why)
{
	struct umad *umad = file->port->umad;
	struct umad_agent *agent;
	uint32_t free_id = 0;
	int ret = 0;

	if (wanted->qpn > 1)
		return simhca_why(why, EINVAL, "QP %u is not 0 or 1", wanted->qpn);
	if (wanted->rmpp_version > 1)
		return simhca_why(why, EINVAL, "there is no RMPP of version %u",
				  wanted->rmpp_version);
	if (wanted->class) {
		ret = check_class(wanted, why);
		if (!ret)
			ret = check_free(file->port, wanted, why);
	}
	if (ret)
		return ret;
	while (free_id < UMAD_AGENTS && file->agents[free_id])
		free_id++;
	if (free_id == UMAD_AGENTS)
		return simhca_why(why, ENOMEM, "a file has at most %u agents", UMAD_AGENTS);
	agent = malloc(sizeof(*agent));
	if (!agent)
		return simhca_why(why, ENOMEM, "out of memory");
	*agent = *wanted;
	agent->file = file;
	agent->id = free_id;
	agent->number = new_number(umad);
	if (!agent->class)
		memset(agent->methods, 0, sizeof(agent->methods));
	HASH_ADD(hh, umad->agents, number, sizeof(agent->number), agent);
	file->agents[free_id] = agent;
	*id = free_id;
	return 0;
}

void umad_agent_free(struct umad_agent *agent)
{
	struct umad *umad = agent->file->port->umad;

	HASH_DEL(umad->agents, agent);
	agent->file->agents[agent->id] = NULL;
	free(agent);
}

struct umad_agent *umad_agent_of_response(struct umad *umad, const struct umad_port *port,
					  const uint8_t *mad)
{
	uint32_t number = (uint32_t)mad_get(mad, AT_TID, 4);
	struct umad_agent *agent;

	HASH_FIND(hh, umad->agents, &number, sizeof(number), agent);
	return agent && agent->file->port == port ? agent : NULL;
}

struct umad_agent *umad_agent_of_request(struct umad_port *port, const struct simhca_mad *mad)
{
	uint8_t method = mad->bytes[AT_METHOD] & 0x7f;
	struct umad_agent what = {
		.qpn = mad->qpn,
		.class = mad->bytes[AT_CLASS],
		.class_version = mad->bytes[AT_CLASS_VERSION],
	};
	struct umad_file *file;

	if (is_vendor(what.class))
		what.oui = (uint32_t)mad_get(mad->bytes, AT_OUI, 3);
	DL_FOREACH (port->files, file)
		for (unsigned int i = 0; i < UMAD_AGENTS; i++) {
			struct umad_agent *agent = file->agents[i];

			if (agent && is_same_class(agent, &what) &&
			    agent->methods[method / 64] & UINT64_C(1) << method % 64)
				return agent;
		}
	return NULL;
}
