/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who has a UDP port, for the message that it cannot be had. */
#ifndef SIMHCAD_PORT_HOLDER_H
#define SIMHCAD_PORT_HOLDER_H

#include <stdint.h>

#include "simhca-abi.h"

#define PORT_HOLDER_TEXT 64

/*
 * Writes "name[pid] has it", or as much of that as /proc shows. Looks at the descriptors of all
 * processes, which can take long: before there are clients only.
 */
void port_holder(const union simhca_gid *address, uint16_t port, char text[PORT_HOLDER_TEXT]);

#endif
