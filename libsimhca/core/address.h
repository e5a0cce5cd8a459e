/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Addresses: which port one names. */
#ifndef LIBSIMHCA_ADDRESS_H
#define LIBSIMHCA_ADDRESS_H

#include "device.h"

/* Whether a port has this address: on InfiniBand as its LID, on Ethernet as a GID. */
bool simhca_link_has_address(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av);
/* And is active. */
bool simhca_link_answers_to(const struct simhca_device *device, const struct simhca_device *source,
			    const struct simhca_av *av);
/*
 * Sets whom a QP is connected to, under its locks. Others may be in simhca_link_is_connected()
 * without them: each word that they read is whole, and who was misled by a mixture looks again,
 * as the fabric's generation goes up after a QP was connected.
 */
void simhca_qpc_set_av(struct simhca_qpc *qpc, const struct simhca_av *av);
/*
 * Whether the addresses of a connected QP's packets are those that their receiver is connected to:
 * what it calls its peer's and its own.
 */
bool simhca_link_is_connected(const struct simhca_device *to, const struct simhca_qpc *to_qpc,
			      const struct simhca_device *from, const struct simhca_qpc *from_qpc);
/* Whether QPs of the one type accept what those of the other send. */
bool simhca_link_accepts(uint32_t type, uint32_t sender_type);

bool simhca_port_is_active(const struct simhca_device *device);

#endif
