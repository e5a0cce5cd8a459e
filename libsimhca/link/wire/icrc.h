/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The invariant CRC of RoCE v2 (IBTA vol. 1, 7.8.1; annex A17.3.3): over what does not change on
 * the way from the IP header to the end of the packet. What changes counts as ones.
 *
 * The IP header's identification is covered, and a socket does not tell it of what comes. So it is
 * solved for: one damaged packet in 65,536 is so taken for a good one, if it came by IPv4.
 */
#ifndef LIBSIMHCA_ICRC_H
#define LIBSIMHCA_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simhca-abi.h"

#define SIMHCA_WIRE_PORT 4791u

/* The headers before the BTH. Both GIDs are of one family; that of IPv4 is ::ffff:0:0/96. */
struct simhca_wire_path {
	union simhca_gid source, destination;
	uint16_t source_port;
	uint16_t ip_id; /* IPv4; DF is set */
};

/* Writes the ICRC of length bytes, from the BTH to the end of the padding, behind them. */
void simhca_icrc_put(const struct simhca_wire_path *path, uint8_t *datagram, size_t length);

/* Whether that of a whole datagram is right; on IPv4 with which ip_id: path has a guess. */
bool simhca_icrc_check(struct simhca_wire_path *path, const uint8_t *datagram, size_t length);

/*
 * The same of what Linux's rxe (6.2 on) takes for a FLUSH's: it covers the transport headers twice,
 * the second time as they are, as if they were a payload as well.
 */
void simhca_icrc_put_rxe_flush(const struct simhca_wire_path *path, uint8_t *datagram,
			       size_t length);
bool simhca_icrc_check_rxe_flush(struct simhca_wire_path *path, const uint8_t *datagram,
				 size_t length);

#endif
