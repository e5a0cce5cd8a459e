/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The subnet administrator (IBTA vol. 1, 15.2): records of nodes, ports, paths and the like are
 * made when they are asked for, from what the agents of the nodes say; services and the members of
 * multicast groups are what programs have registered.
 *
 * Which records are meant says a template and a mask of its components; where a component lies in
 * the record is in a table for each attribute, so that comparing is one function.
 */

#include "core/device.h"
#include "subnet_impl.h"

enum sa_attribute {
	SA_CLASS_PORT_INFO = 0x01,
	SA_INFORM_INFO = 0x03,
	SA_NODE_RECORD = 0x11,
	SA_PORT_INFO_RECORD = 0x12,
	SA_SWITCH_INFO_RECORD = 0x14,
	SA_LFT_RECORD = 0x15,
	SA_SM_INFO_RECORD = 0x18,
	SA_LINK_RECORD = 0x20,
	SA_GUID_INFO_RECORD = 0x30,
	SA_SERVICE_RECORD = 0x31,
	SA_PKEY_TABLE_RECORD = 0x33,
	SA_PATH_RECORD = 0x35,
	SA_MC_MEMBER_RECORD = 0x38,
};
#define MULTICAST_LIDS 0xc000u
#define MOST_BYTES 176u /* of a record */
#define DEFAULT_PKEY 0xffffu
#define RATE_100 16u /* Gb/s, as a path has it: 4 lanes of EDR */
#define LIFE 14u     /* of packets: 4.096 us * 2^n */

/* A component of a record: bits, from the first one. No bits: any template fits. */
struct component {
	uint16_t at, bits;
};
#define BYTES(at, size)                                                                            \
	{                                                                                          \
		(at) * 8, (size)*8                                                                 \
	}

static const struct component node_components[] = {
	BYTES(0, 2),  BYTES(2, 0),  BYTES(4, 1),  BYTES(5, 1),	BYTES(6, 1),
	BYTES(7, 1),  BYTES(8, 8),  BYTES(16, 8), BYTES(24, 8), BYTES(32, 2),
	BYTES(34, 2), BYTES(36, 4), BYTES(40, 1), BYTES(41, 3), BYTES(44, 64),
};
/* Up to the MTU; further ones are not looked at. For capabilities see fits(). */
static const struct component port_components[] = {
	BYTES(0, 2),	   BYTES(2, 1),	  BYTES(3, 0),	     BYTES(4, 0),   BYTES(12, 8),
	BYTES(20, 2),	   BYTES(22, 2),  BYTES(24, 4),	     BYTES(28, 2),  BYTES(30, 2),
	BYTES(32, 1),	   BYTES(33, 1),  BYTES(34, 1),	     BYTES(35, 1),  { 36 * 8, 4 },
	{ 36 * 8 + 4, 4 }, { 37 * 8, 4 }, { 37 * 8 + 4, 4 }, { 38 * 8, 2 }, BYTES(38, 0),
	{ 38 * 8 + 5, 3 }, { 39 * 8, 4 }, { 39 * 8 + 4, 4 }, { 40 * 8, 4 }, { 40 * 8 + 4, 4 },
	{ 41 * 8, 4 },
};
#define PORT_CAPABILITIES 7u /* component */
static const struct component lid_components[] = { BYTES(0, 2) };
static const struct component lft_components[] = { BYTES(0, 2), BYTES(2, 2) };
static const struct component link_components[] = { BYTES(0, 2), BYTES(2, 1), BYTES(3, 1),
						    BYTES(4, 2) };
static const struct component guid_components[] = { BYTES(0, 2), BYTES(2, 1) };
static const struct component pkey_components[] = { BYTES(0, 2), BYTES(2, 2), BYTES(4, 1) };
/* Service IDs name no path here, and one path is enough; for the last six see suits(). */
static const struct component path_components[] = {
	BYTES(0, 0),  BYTES(0, 0),  BYTES(8, 16), BYTES(24, 16),     BYTES(40, 2), BYTES(42, 2),
	BYTES(44, 0), BYTES(44, 0), BYTES(44, 0), BYTES(44, 0),	     BYTES(48, 0), { 49 * 8, 1 },
	BYTES(49, 0), BYTES(50, 2), BYTES(52, 0), { 53 * 8 + 4, 4 }, BYTES(54, 0), BYTES(54, 0),
	BYTES(55, 0), BYTES(55, 0), BYTES(56, 0), BYTES(56, 0),
};
#define PATH_SELECTORS 16u /* from this component on: MTU, rate, life; a selector and its value */
#define PATH_DGID (1u << 2)
#define PATH_SGID (1u << 3)
static const struct component member_components[] = {
	BYTES(0, 16),  BYTES(16, 16),	  BYTES(32, 4),	 BYTES(36, 2),	     BYTES(38, 0),
	BYTES(38, 0),  BYTES(39, 1),	  BYTES(40, 2),	 BYTES(42, 0),	     BYTES(42, 0),
	BYTES(43, 0),  BYTES(43, 0),	  { 44 * 8, 4 }, { 44 * 8 + 4, 20 }, BYTES(47, 1),
	{ 48 * 8, 4 }, { 48 * 8 + 4, 4 }, { 49 * 8, 1 },
};
#define MEMBER_MGID (1u << 0)
#define MEMBER_PORT (1u << 1)
#define MEMBER_STATE (1u << 16)
static const struct component service_components[] = {
	BYTES(0, 8),  BYTES(8, 16), BYTES(24, 2),  BYTES(26, 0),
	BYTES(28, 0), BYTES(32, 0), BYTES(48, 64),
};
#define SERVICE_KEY 0x3u /* id and GID, by which one is told from others, and the P_Key */

/* An answer that grows. */
struct answer {
	struct simhca_subnet *subnet;
	const uint8_t *template;
	uint64_t mask;
	uint32_t modifier;
	uint16_t attribute;
	const struct component *components;
	unsigned int num_components;
	uint8_t *to; /* records */
	uint32_t room, used;
	unsigned int size, stride, count; /* of a record; of records */
	bool full;
};

/* --------------------------------------------------------------------------- which are meant */

static bool same_bits(const uint8_t *a, const uint8_t *b, struct component c)
{
	for (unsigned int i = 0; i < c.bits;) {
		unsigned int at = c.at + i, left = 8 - at % 8;
		unsigned int take = left < c.bits - i ? left : c.bits - i;
		uint8_t mask = (uint8_t)(((1u << take) - 1) << (left - take));

		if ((a[at / 8] ^ b[at / 8]) & mask)
			return false;
		i += take;
	}
	return true;
}

static bool fits(const struct answer *answer, const uint8_t *record)
{
	for (unsigned int i = 0; i < answer->num_components; i++) {
		struct component c = answer->components[i];

		if (!(answer->mask & UINT64_C(1) << i))
			continue;
		/* With this modifier those that have at least these capabilities are meant. */
		if (answer->attribute == SA_PORT_INFO_RECORD && i == PORT_CAPABILITIES &&
		    answer->modifier & 1u << 31) {
			uint64_t want = mad_get(answer->template, c.at / 8, 4);

			if ((mad_get(record, c.at / 8, 4) & want) != want)
				return false;
		} else if (!same_bits(answer->template, record, c)) {
			return false;
		}
	}
	return true;
}

static void add(struct answer *answer, const uint8_t *record)
{
	if (!fits(answer, record))
		return;
	if (answer->used + answer->stride > answer->room) {
		answer->full = true;
		return;
	}
	memset(answer->to + answer->used, 0, answer->stride);
	memcpy(answer->to + answer->used, record, answer->size);
	answer->used += answer->stride;
	answer->count++;
}

/* ---------------------------------------------------------------------------- from the nodes */

/* All nodes, the switch last. */
#define FOR_EACH_NODE(answer, node, i)                                                             \
	for (int i = 0, node; node = i < (int)(answer)->subnet->config.count ? i : NODE_SWITCH,    \
		 i <= (int)(answer)->subnet->config.count;                                         \
	     i++)

/* An attribute behind a head of the record, which begins with the LID. */
static void add_attribute(struct answer *answer, int node, uint16_t attribute, uint32_t modifier,
			  unsigned int head, uint8_t *record)
{
	uint8_t data[SMP_DATA_BYTES];

	if (sma_get(answer->subnet, node, node == NODE_SWITCH ? 0 : 1, attribute, modifier, false,
		    data))
		return;
	mad_put(record, 0, 2, node_lid(answer->subnet, node));
	memcpy(record + head, data,
	       answer->size - head < sizeof(data) ? answer->size - head : sizeof(data));
	add(answer, record);
}

static void nodes(struct answer *answer)
{
	FOR_EACH_NODE(answer, node, i)
	{
		uint8_t record[MOST_BYTES] = { 0 };

		sma_get(answer->subnet, node, 0, SMA_NODE_DESCRIPTION, 0, false, record + 44);
		mad_put(record, 0, 2, node_lid(answer->subnet, node));
		{
			uint8_t info[SMP_DATA_BYTES];

			sma_get(answer->subnet, node, node == NODE_SWITCH ? 0 : 1, SMA_NODE_INFO, 0,
				false, info);
			memcpy(record + 4, info, 40);
		}
		add(answer, record);
	}
}

static void ports(struct answer *answer)
{
	FOR_EACH_NODE(answer, node, i)
	{
		unsigned int first = node == NODE_SWITCH ? 0 : 1;
		unsigned int last = node == NODE_SWITCH ? answer->subnet->config.count : 1;

		for (unsigned int port = first; port <= last; port++) {
			uint8_t record[MOST_BYTES] = { [2] = (uint8_t)port };

			add_attribute(answer, node, SMA_PORT_INFO, port, 4, record);
		}
	}
}

static void switches(struct answer *answer)
{
	uint8_t record[MOST_BYTES] = { 0 };

	add_attribute(answer, NODE_SWITCH, SMA_SWITCH_INFO, 0, 4, record);
}

static void linear_tables(struct answer *answer)
{
	unsigned int top = answer->subnet->lft_top / SMP_DATA_BYTES;

	for (unsigned int block = 0; block <= top; block++) {
		uint8_t record[MOST_BYTES] = { 0 };

		mad_put(record, 2, 2, block);
		add_attribute(answer, NODE_SWITCH, SMA_LINEAR_TABLE, block, 8, record);
	}
}

static void managers(struct answer *answer)
{
	uint8_t record[MOST_BYTES] = { 0 };

	add_attribute(answer, 0, SMA_SM_INFO, 0, 4, record);
}

/* Both directions of each cable. */
static void links(struct answer *answer)
{
	const struct simhca_subnet *subnet = answer->subnet;

	for (unsigned int i = 0; i < subnet->config.count; i++) {
		const struct simhca_port_attr *port = &node_memory(subnet, (int)i)->port;
		uint8_t record[MOST_BYTES] = { 0 };

		if (atomic_load(&port->state) == IBV_PORT_DOWN)
			continue;
		mad_put(record, 0, 2, node_lid(subnet, (int)i));
		record[2] = 1;
		record[3] = (uint8_t)(i + 1);
		mad_put(record, 4, 2, subnet->switch_lid);
		add(answer, record);
		mad_put(record, 0, 2, subnet->switch_lid);
		record[2] = (uint8_t)(i + 1);
		record[3] = 1;
		mad_put(record, 4, 2, node_lid(subnet, (int)i));
		add(answer, record);
	}
}

static void guids(struct answer *answer)
{
	FOR_EACH_NODE(answer, node, i)
	{
		uint8_t record[MOST_BYTES] = { 0 };

		add_attribute(answer, node, SMA_GUID_INFO, 0, 8, record);
	}
}

static void pkeys(struct answer *answer)
{
	FOR_EACH_NODE(answer, node, i)
	{
		uint8_t record[MOST_BYTES] = { 0 };

		record[4] = node == NODE_SWITCH ? 0 : 1;
		add_attribute(answer, node, SMA_PKEY_TABLE, 0, 8, record);
	}
}

/* -------------------------------------------------------------------------------------- paths */

static bool node_gid(const struct simhca_subnet *subnet, int node, unsigned int index, uint8_t *gid)
{
	union simhca_gid entry;

	if (node != NODE_SWITCH) {
		if (!simhca_device_gid(subnet->config.device[node], index, &entry))
			return false;
		memcpy(gid, entry.raw, 16);
		return true;
	}
	mad_put(gid, 0, 8, subnet->port0.prefix);
	mad_put(gid, 8, 8, subnet->config.switch_guid);
	return !index;
}

/* The GID of the template if the node has it, else its first. */
static void choose_gid(const struct answer *answer, int node, unsigned int at, uint64_t bit,
		       uint8_t *gid)
{
	if (answer->mask & bit)
		for (unsigned int i = 0; i < SIMHCA_GID_ENTRIES; i++)
			if (node_gid(answer->subnet, node, i, gid) &&
			    !memcmp(gid, answer->template + at, 16))
				return;
	node_gid(answer->subnet, node, 0, gid);
}

/* Whether a path's value suits a selector, which says greater, less, exactly or the largest. */
static bool suits(const struct answer *answer, unsigned int component, unsigned int at,
		  uint8_t value)
{
	uint8_t wanted = answer->template[at] & 0x3f;

	if (!(answer->mask & UINT64_C(1) << component) ||
	    !(answer->mask & UINT64_C(2) << component))
		return true;
	switch (answer->template[at] >> 6) {
	case 0:
		return value > wanted;
	case 1:
		return value < wanted;
	case 2:
		return value == wanted;
	default:
		return true;
	}
}

static bool is_up(const struct simhca_subnet *subnet, int node)
{
	return node == NODE_SWITCH ||
	       atomic_load(&node_memory(subnet, node)->port.state) == IBV_PORT_ACTIVE;
}

static uint8_t mtu_of(const struct simhca_subnet *subnet, int node)
{
	return node == NODE_SWITCH
		       ? IBV_MTU_4096
		       : (uint8_t)atomic_load(&node_memory(subnet, node)->port.active_mtu);
}

static void add_path(struct answer *answer, int from, int to)
{
	const struct simhca_subnet *subnet = answer->subnet;
	uint8_t mtu = mtu_of(subnet, from), record[MOST_BYTES] = { 0 };

	if (mtu_of(subnet, to) < mtu)
		mtu = mtu_of(subnet, to);
	if (!is_up(subnet, from) || !is_up(subnet, to) || !suits(answer, PATH_SELECTORS, 54, mtu) ||
	    !suits(answer, PATH_SELECTORS + 2, 55, RATE_100) ||
	    !suits(answer, PATH_SELECTORS + 4, 56, LIFE))
		return;
	choose_gid(answer, to, 8, PATH_DGID, record + 8);
	choose_gid(answer, from, 24, PATH_SGID, record + 24);
	mad_put(record, 40, 2, node_lid(subnet, to));
	mad_put(record, 42, 2, node_lid(subnet, from));
	record[49] = 0x80; /* reversible; one path */
	mad_put(record, 50, 2, DEFAULT_PKEY);
	record[54] = 2u << 6 | mtu; /* exactly, as the next */
	record[55] = 2u << 6 | RATE_100;
	record[56] = 2u << 6 | LIFE;
	add(answer, record);
}

static void paths(struct answer *answer)
{
	FOR_EACH_NODE(answer, from, i)
	FOR_EACH_NODE(answer, to, j)
	add_path(answer, from, to);
}

/* ----------------------------------------------------------------- what programs have registered */

static void members(struct answer *answer)
{
	for (unsigned int i = 0; i < SA_MEMBERS; i++)
		if (answer->subnet->member[i].used)
			add(answer, answer->subnet->member[i].record);
}

static void services(struct answer *answer)
{
	for (unsigned int i = 0; i < SA_SERVICES; i++)
		if (answer->subnet->service[i].used)
			add(answer, answer->subnet->service[i].record);
}

static struct sa_service *find_service(struct simhca_subnet *subnet, const uint8_t *record)
{
	for (unsigned int i = 0; i < SA_SERVICES; i++)
		if (subnet->service[i].used && !memcmp(subnet->service[i].record, record, 26))
			return &subnet->service[i];
	return NULL;
}

static uint16_t register_service(struct simhca_subnet *subnet, uint64_t mask, const uint8_t *record)
{
	struct sa_service *service = find_service(subnet, record);

	if ((mask & SERVICE_KEY) != SERVICE_KEY)
		return MAD_SA_INSUFFICIENT_COMPONENTS;
	for (unsigned int i = 0; !service && i < SA_SERVICES; i++)
		if (!subnet->service[i].used)
			service = &subnet->service[i];
	if (!service)
		return MAD_SA_NO_RESOURCES;
	service->used = true;
	memcpy(service->record, record, SA_SERVICE_BYTES);
	return MAD_OK;
}

static uint16_t forget_service(struct simhca_subnet *subnet, const uint8_t *record)
{
	struct sa_service *service = find_service(subnet, record);

	if (!service)
		return MAD_SA_NO_RECORDS;
	service->used = false;
	return MAD_OK;
}

/* Of a group, or of a port in it. */
static struct sa_member *find_member(struct simhca_subnet *subnet, const uint8_t *record,
				     bool this_port)
{
	for (unsigned int i = 0; i < SA_MEMBERS; i++)
		if (subnet->member[i].used &&
		    !memcmp(subnet->member[i].record, record, this_port ? 32 : 16))
			return &subnet->member[i];
	return NULL;
}

bool simhca_subnet_has_group(const struct simhca_subnet *subnet, const uint8_t mgid[16])
{
	for (unsigned int i = 0; subnet->has_sm && i < SA_MEMBERS; i++)
		if (subnet->member[i].used && !memcmp(subnet->member[i].record, mgid, 16))
			return true;
	return !subnet->has_sm;
}

/* The first that no group has: there are more than members. */
static uint16_t free_multicast_lid(const struct simhca_subnet *subnet)
{
	bool used[SA_MEMBERS + 1] = { false };
	uint16_t free_lid = 0;

	for (unsigned int i = 0; i < SA_MEMBERS; i++) {
		uint64_t lid = mad_get(subnet->member[i].record, 36, 2) - MULTICAST_LIDS;

		if (subnet->member[i].used && lid <= SA_MEMBERS)
			used[lid] = true;
	}
	while (used[free_lid])
		free_lid++;
	return (uint16_t)(MULTICAST_LIDS + free_lid);
}

/* What a group is that nobody is in yet: as its first member wants it, and else as usual. */
static uint16_t new_group(const struct simhca_subnet *subnet, uint64_t mask, uint8_t *record)
{
	/* Q_Key, P_Key, class, label and SL are what a group cannot do without (15.2.5.17.2). */
	static const uint64_t needed = 1u << 2 | 1u << 6 | 1u << 7 | 1u << 12 | 1u << 13;

	if ((mask & needed) != needed)
		return MAD_SA_INSUFFICIENT_COMPONENTS;
	mad_put(record, 36, 2, free_multicast_lid(subnet));
	if (!(mask & 1u << 5))
		record[38] = IBV_MTU_4096;
	if (!(mask & 1u << 9))
		record[42] = RATE_100;
	if (!(mask & 1u << 11))
		record[43] = LIFE;
	record[38] = 2u << 6 | (record[38] & 0x3f);
	record[42] = 2u << 6 | (record[42] & 0x3f);
	record[43] = 2u << 6 | (record[43] & 0x3f);
	return MAD_OK;
}

static uint16_t join_group(struct simhca_subnet *subnet, uint64_t mask, uint8_t *record)
{
	struct sa_member *group = find_member(subnet, record, false), *member = NULL;
	uint8_t state = record[48] & 0xf, scope = record[48] & 0xf0;
	uint16_t status;

	if (!(mask & MEMBER_MGID) || !(mask & MEMBER_PORT) || !(mask & MEMBER_STATE))
		return MAD_SA_INSUFFICIENT_COMPONENTS;
	if (record[0] != 0xff || !state)
		return MAD_SA_REQ_INVALID;
	if (group)
		member = find_member(subnet, record, true);
	else if (!(state & 1)) /* only a full member makes a group */
		return MAD_SA_REQ_INVALID;
	for (unsigned int i = 0; !member && i < SA_MEMBERS; i++)
		if (!subnet->member[i].used)
			member = &subnet->member[i];
	if (!member)
		return MAD_SA_NO_RESOURCES;
	if (group) {
		struct answer as_it_is = { .template = record,
					   .mask = mask & ~(uint64_t)(MEMBER_PORT | MEMBER_STATE |
								      1u << 15 | 1u << 17),
					   .components = member_components,
					   .num_components = sizeof(member_components) /
							     sizeof(member_components[0]) };
		uint8_t port[16];

		if (!fits(&as_it_is, group->record))
			return MAD_SA_REQ_INVALID;
		memcpy(port, record + 16, sizeof(port));
		if (member->used)
			state |= member->record[48] & 0xf;
		memcpy(record, group->record, SA_MEMBER_BYTES);
		memcpy(record + 16, port, sizeof(port));
		record[48] = (uint8_t)((record[48] & 0xf0) | state);
	} else {
		status = new_group(subnet, mask, record);
		if (status)
			return status;
		record[48] = (uint8_t)(scope ? scope | state : (record[1] & 0xf) << 4 | state);
	}
	member->used = true;
	memcpy(member->record, record, SA_MEMBER_BYTES);
	return MAD_OK;
}

static uint16_t leave_group(struct simhca_subnet *subnet, uint8_t *record)
{
	struct sa_member *member = find_member(subnet, record, true);
	uint8_t state = record[48] & 0xf;

	if (!member || !(member->record[48] & state))
		return MAD_SA_REQ_INVALID;
	memcpy(record, member->record, SA_MEMBER_BYTES);
	member->record[48] &= (uint8_t)~state;
	if (!(member->record[48] & 0xf))
		member->used = false;
	return MAD_OK;
}

/* ----------------------------------------------------------------------------------- requests */

#define OF(list) list, sizeof(list) / sizeof(list[0])
static const struct kind {
	uint16_t attribute, size;
	const struct component *components;
	unsigned int num_components;
	void (*collect)(struct answer *answer);
} kinds[] = {
	{ SA_NODE_RECORD, 108, OF(node_components), nodes },
	{ SA_PORT_INFO_RECORD, 68, OF(port_components), ports },
	{ SA_SWITCH_INFO_RECORD, 24, OF(lid_components), switches },
	{ SA_LFT_RECORD, 72, OF(lft_components), linear_tables },
	{ SA_SM_INFO_RECORD, 32, OF(lid_components), managers },
	{ SA_LINK_RECORD, 8, OF(link_components), links },
	{ SA_GUID_INFO_RECORD, 72, OF(guid_components), guids },
	{ SA_SERVICE_RECORD, SA_SERVICE_BYTES, OF(service_components), services },
	{ SA_PKEY_TABLE_RECORD, 72, OF(pkey_components), pkeys },
	{ SA_PATH_RECORD, 64, OF(path_components), paths },
	{ SA_MC_MEMBER_RECORD, SA_MEMBER_BYTES, OF(member_components), members },
};

static void class_port_info(uint8_t *data)
{
	memset(data, 0, MAD_BYTES - AT_SA_DATA);
	data[0] = 1;
	data[1] = 2;
	mad_put(data, 2, 2, 1u << 10); /* records of multicast groups */
	data[7] = 18;		       /* answers within a second */
}

/* Set and Delete of what programs register; what they answer is in the request's place. */
static uint16_t change(struct simhca_subnet *subnet, uint8_t *mad, uint16_t attribute)
{
	uint64_t mask = mad_get(mad, AT_SA_MASK, 8);
	bool set = mad[AT_METHOD] == MAD_SET;

	switch (attribute) {
	case SA_SERVICE_RECORD:
		return set ? register_service(subnet, mask, mad + AT_SA_DATA)
			   : forget_service(subnet, mad + AT_SA_DATA);
	case SA_MC_MEMBER_RECORD:
		return set ? join_group(subnet, mask, mad + AT_SA_DATA)
			   : leave_group(subnet, mad + AT_SA_DATA);
	case SA_INFORM_INFO: /* what it reports (ports that come and go) does not happen */
		return set ? MAD_OK : MAD_BAD_ATTRIBUTE;
	default:
		return MAD_BAD_ATTRIBUTE;
	}
}

static const struct kind *find_kind(uint16_t attribute)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].attribute == attribute)
			return &kinds[i];
	return NULL;
}

/* A table goes by RMPP, even if it fits into one datagram (15.4.1). */
static void say_how_long(struct simhca_mad *mad, uint32_t bytes)
{
	uint32_t segment = MAD_BYTES - AT_SA_DATA;
	uint32_t segments = bytes ? (bytes + segment - 1) / segment : 1;

	mad->bytes[AT_RMPP_VERSION] = 1;
	mad->bytes[AT_RMPP_TYPE] = RMPP_DATA;
	mad->bytes[AT_RMPP_FLAGS] = RMPP_ACTIVE | RMPP_FIRST | (segments == 1 ? RMPP_LAST : 0);
	mad->bytes[AT_RMPP_FLAGS + 1] = 0;
	mad_put(mad->bytes, AT_RMPP_SEGMENT, 4, 1);
	/* Of each segment, the SA's header too. */
	mad_put(mad->bytes, AT_RMPP_LENGTH, 4, bytes + segments * (AT_SA_DATA - 36));
	mad->length = AT_SA_DATA + bytes;
}

static uint16_t look_up(struct simhca_subnet *subnet, struct simhca_mad *mad, uint32_t room,
			uint16_t attribute)
{
	bool table = mad->bytes[AT_METHOD] == MAD_GET_TABLE;
	const struct kind *kind = find_kind(attribute);
	uint8_t template[MOST_BYTES];
	struct answer answer;

	if (!kind)
		return MAD_BAD_ATTRIBUTE;
	answer = (struct answer){
		.subnet = subnet,
		.template = template,
		.mask = mad_get(mad->bytes, AT_SA_MASK, 8),
		.modifier = (uint32_t)mad_get(mad->bytes, AT_MODIFIER, 4),
		.attribute = attribute,
		.components = kind->components,
		.num_components = kind->num_components,
		.to = mad->bytes + AT_SA_DATA,
		.room = room - AT_SA_DATA,
		.size = kind->size,
		.stride = (kind->size + 7u) / 8 * 8,
	};
	memcpy(template, mad->bytes + AT_SA_DATA, sizeof(template));
	memset(answer.to, 0, MAD_BYTES - AT_SA_DATA);
	kind->collect(&answer);
	if (answer.full)
		return MAD_SA_NO_RESOURCES;
	/* Of paths one is as good as the next. */
	if (!table && answer.count > 1 && attribute != SA_PATH_RECORD)
		return MAD_SA_TOO_MANY_RECORDS;
	if (!table && !answer.count)
		return MAD_SA_NO_RECORDS;
	mad_put(mad->bytes, AT_SA_OFFSET, 2, answer.stride / 8);
	if (table)
		say_how_long(mad, answer.used);
	return MAD_OK;
}

bool sa_serve(struct simhca_subnet *subnet, struct simhca_mad *mad, uint32_t room)
{
	uint8_t method = mad->bytes[AT_METHOD];
	uint16_t attribute = (uint16_t)mad_get(mad->bytes, AT_ATTRIBUTE, 2), status;

	if (method != MAD_GET && method != MAD_SET && method != MAD_GET_TABLE &&
	    method != MAD_DELETE)
		return false;
	subnet->sm_active++;
	/* A request is one datagram. */
	mad->length = MAD_BYTES;
	if (mad->bytes[AT_BASE_VERSION] != 1 || mad->bytes[AT_CLASS_VERSION] != 2)
		status = MAD_BAD_VERSION;
	else if (method == MAD_SET || method == MAD_DELETE)
		status = change(subnet, mad->bytes, attribute);
	else if (attribute == SA_CLASS_PORT_INFO && method == MAD_GET)
		class_port_info(mad->bytes + AT_SA_DATA), status = MAD_OK;
	else
		status = look_up(subnet, mad, room, attribute);
	if (status && method == MAD_GET_TABLE) {
		memset(mad->bytes + AT_SA_DATA, 0, MAD_BYTES - AT_SA_DATA);
		say_how_long(mad, 0);
	}
	mad_answer(mad->bytes, status);
	return true;
}
