/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>

#include "gid_table.h"

bool gid_is_empty(const union simhca_gid *gid)
{
	static const union simhca_gid empty;

	return !memcmp(gid, &empty, sizeof(empty));
}

void gid_print(const union simhca_gid *gid, char text[GID_TEXT])
{
	for (int i = 0; i < 8; i++)
		snprintf(text + 5 * i, 6, "%02x%02x%s", gid->raw[2 * i], gid->raw[2 * i + 1],
			 i < 7 ? ":" : "");
}

static void from_guid(union simhca_gid *gid, uint64_t guid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	for (int i = 0; i < 8; i++)
		gid->raw[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
}

/* The modified EUI-64 of RFC 4291, appendix A. */
static void from_mac(union simhca_gid *gid, const uint8_t mac[6])
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	memcpy(gid->raw + 8, mac, 3);
	gid->raw[8] ^= 2;
	gid->raw[11] = 0xff;
	gid->raw[12] = 0xfe;
	memcpy(gid->raw + 13, mac + 3, 3);
}

static void make_first(union simhca_gid *gid, const struct gid_source *source)
{
	const struct interface *interface = source->interface;

	if (source->infiniband || source->guid_only || !interface)
		from_guid(gid, source->guid);
	else if (source->single && interface->num_addresses)
		memcpy(gid->raw, &interface->addresses[0], sizeof(gid->raw));
	else if (!IN6_IS_ADDR_UNSPECIFIED(&interface->link_local))
		memcpy(gid->raw, &interface->link_local, sizeof(gid->raw));
	else if (interface->has_mac)
		from_mac(gid, interface->mac);
	else
		from_guid(gid, source->guid);
}

static bool interface_has(const struct interface *interface, const union simhca_gid *gid)
{
	for (unsigned int i = 0; interface && i < interface->num_addresses; i++)
		if (!memcmp(&interface->addresses[i], gid->raw, sizeof(gid->raw)))
			return true;
	return false;
}

static bool table_has(const struct simhca_gid_entry *gids, const struct in6_addr *address)
{
	for (int i = 1; i < SIMHCA_GID_ENTRIES; i++)
		if (!memcmp(gids[i].gid.raw, address, sizeof(*address)))
			return true;
	return false;
}

static void add(struct simhca_gid_entry *gids, const struct in6_addr *address)
{
	for (int i = 1; i < SIMHCA_GID_ENTRIES - 1; i++) {
		if (gid_is_empty(&gids[i].gid)) {
			memcpy(gids[i].gid.raw, address, sizeof(gids[i].gid.raw));
			return;
		}
	}
}

bool gid_table_update(struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES],
		      const struct gid_source *source)
{
	const struct interface *interface = source->infiniband ? NULL : source->interface;
	struct simhca_gid_entry next[SIMHCA_GID_ENTRIES];
	bool changed;

	memcpy(next, gids, sizeof(next));
	make_first(&next[0].gid, source);
	for (int i = 1; i < SIMHCA_GID_ENTRIES; i++)
		if (!interface_has(interface, &next[i].gid))
			memset(&next[i], 0, sizeof(next[i]));
	for (unsigned int i = 0; interface && !source->single && i < interface->num_addresses; i++)
		if (!table_has(next, &interface->addresses[i]))
			add(next, &interface->addresses[i]);
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		if (gid_is_empty(&next[i].gid))
			continue;
		next[i].type = source->infiniband ? SIMHCA_GID_IB : SIMHCA_GID_ROCE_V2;
		next[i].ifindex = interface ? interface->index : 0;
	}
	changed = memcmp(next, gids, sizeof(next));
	memcpy(gids, next, sizeof(next));
	return changed;
}
