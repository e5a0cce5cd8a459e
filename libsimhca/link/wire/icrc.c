/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <libdeflate.h>
#include <string.h>
#include <zlib.h>

#include "core/av.h"
#include "link/wire/bth.h"
#include "link/wire/icrc.h"
#include "packet/bytes.h"

#define LRH_BYTES 8 /* ones, where a native packet has one */
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES 8
#define UDP_PROTOCOL 17
#define BEHIND_IP_ID 14 /* of the IPv4 header */

static size_t put_ipv4(uint8_t *at, const struct simhca_wire_path *path, size_t datagram)
{
	memset(at, 0xff, IPV4_BYTES);
	at[0] = 0x45;
	simhca_put16(at + 2, IPV4_BYTES + UDP_BYTES + datagram);
	simhca_put16(at + 4, path->ip_id);
	simhca_put16(at + 6, 0x4000); /* do not fragment */
	at[9] = UDP_PROTOCOL;
	memcpy(at + 12, path->source.raw + 12, 4);
	memcpy(at + 16, path->destination.raw + 12, 4);
	return IPV4_BYTES;
}

static size_t put_ipv6(uint8_t *at, const struct simhca_wire_path *path, size_t datagram)
{
	memset(at, 0xff, 8);
	at[0] = 0x6f;
	simhca_put16(at + 4, UDP_BYTES + datagram);
	at[6] = UDP_PROTOCOL;
	memcpy(at + 8, path->source.raw, 16);
	memcpy(at + 24, path->destination.raw, 16);
	return IPV6_BYTES;
}

/* As it stands on the wire: the least significant byte first. */
static void store(uint8_t *at, uint32_t icrc)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(icrc >> 8 * i);
}

static uint32_t load(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/*
 * The ICRC of a datagram of that length, without the ICRC. Its first `again` bytes are covered once more, as rxe does
 * with a FLUSH.
 */
static uint32_t compute(const struct simhca_wire_path *path, const uint8_t *datagram, size_t length,
			size_t again)
{
	uint8_t masked[LRH_BYTES + IPV6_BYTES + UDP_BYTES + SIMHCA_BTH_BYTES], *at = masked;
	size_t whole = length + SIMHCA_ICRC_BYTES;
	uint32_t crc;

	memset(at, 0xff, LRH_BYTES);
	at += LRH_BYTES;
	at += simhca_gid_is_ipv4(&path->destination) ? put_ipv4(at, path, whole)
						     : put_ipv6(at, path, whole);
	simhca_put16(at, path->source_port);
	simhca_put16(at + 2, SIMHCA_WIRE_PORT);
	simhca_put16(at + 4, UDP_BYTES + whole);
	simhca_put16(at + 6, 0xffff);
	at += UDP_BYTES;
	memcpy(at, datagram, SIMHCA_BTH_BYTES);
	at[4] = 0xff; /* FECN, BECN, reserved */
	at += SIMHCA_BTH_BYTES;
	crc = libdeflate_crc32(0, masked, (size_t)(at - masked));
	crc = libdeflate_crc32(crc, datagram + SIMHCA_BTH_BYTES, length - SIMHCA_BTH_BYTES);
	return libdeflate_crc32(crc, datagram, again);
}

/*
 * A CRC is linear: two that differ by `difference` are of packets whose identifications differ by
 * what, run through the CRC of the bytes behind, gives that. It is found by running backwards:
 * the polynomial is primitive, so n bits back are 2^32 - 1 - n ahead; and zlib combines CRCs by
 * running one ahead. False: they differ elsewhere.
 */
static bool solve_ip_id(uint32_t difference, size_t length, uint16_t *ip_id)
{
	z_off_t ahead = (z_off_t)(UINT32_MAX - (2 + BEHIND_IP_ID + UDP_BYTES + length));
	uint32_t id = (uint32_t)crc32_combine(difference, 0, ahead);

	*ip_id = (uint16_t)(id << 8 | (id >> 8 & 0xff));
	return id <= UINT16_MAX;
}

static bool check(struct simhca_wire_path *path, const uint8_t *datagram, size_t length,
		  size_t again)
{
	uint32_t difference;
	uint16_t other;

	if (!simhca_gid_is_ipv4(&path->destination))
		path->ip_id = 0;
	difference = compute(path, datagram, length, again) ^ load(datagram + length);
	if (!difference)
		return true;
	if (!simhca_gid_is_ipv4(&path->destination) ||
	    !solve_ip_id(difference, length + again, &other))
		return false;
	path->ip_id ^= other;
	return true;
}

void simhca_icrc_put(const struct simhca_wire_path *path, uint8_t *datagram, size_t length)
{
	store(datagram + length, compute(path, datagram, length, 0));
}

bool simhca_icrc_check(struct simhca_wire_path *path, const uint8_t *datagram, size_t length)
{
	return length >= SIMHCA_BTH_BYTES + SIMHCA_ICRC_BYTES &&
	       check(path, datagram, length - SIMHCA_ICRC_BYTES, 0);
}

void simhca_icrc_put_rxe_flush(const struct simhca_wire_path *path, uint8_t *datagram,
			       size_t length)
{
	store(datagram + length, compute(path, datagram, length, length));
}

bool simhca_icrc_check_rxe_flush(struct simhca_wire_path *path, const uint8_t *datagram,
				 size_t length)
{
	return length >= SIMHCA_BTH_BYTES + SIMHCA_ICRC_BYTES &&
	       check(path, datagram, length - SIMHCA_ICRC_BYTES, length - SIMHCA_ICRC_BYTES);
}
