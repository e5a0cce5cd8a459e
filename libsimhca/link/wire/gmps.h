/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Management datagrams, from QP 1 to QP 1: those that came wait for the control thread. */
#ifndef LIBSIMHCA_GMPS_H
#define LIBSIMHCA_GMPS_H

#include <pthread.h>

#include "packet/mad.h"
#include "link/wire/wire.h"
#include "packet/packet.h"

struct simhca_wire;

/* What beyond that comes is lost, as in the queue of a QP 1. */
#define SIMHCA_GMPS_ROOM 128
#define SIMHCA_GMP_QPN 1u

struct simhca_gmps {
	pthread_mutex_t lock;
	struct {
		union simhca_gid sgid, dgid;
		uint8_t mad[SIMHCA_MAD_BYTES];
	} gmp[SIMHCA_GMPS_ROOM]; /* from `first` on */
	uint32_t first, count;
	_Atomic uint32_t psn; /* of the next one sent */
};

/* True: it waits to be taken. */
bool simhca_gmps_put(struct simhca_wire *wire, const struct simhca_packet *packet,
		     const uint8_t *payload, const struct simhca_wire_datagram *datagram);

#endif
